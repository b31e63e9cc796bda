"""A program written for CUDA on torch_sim: as it stands, inside ``as_cuda``; and rewritten by ``decouple neutral``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import backend_env
import pytest

from decouple.device.neutral import rewrite_program

PROGRAM = """
import torch
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast

assert torch.cuda.is_available()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
scaler, optimizer = GradScaler(), torch.optim.SGD(net.parameters(), 0.1)
data, labels = torch.randn(16, 4).cuda(), torch.arange(16).remainder(2).to("cuda:0")
assert data.is_cuda and data.device.type == "cuda" and net[0].weight.device.index == 0
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for step in range(4):
    optimizer.zero_grad()
    with autocast(dtype=torch.bfloat16):
        loss = F.cross_entropy(net(data), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
end.record()
torch.cuda.synchronize()
torch.save(net.state_dict(), "net.pt")
back = torch.load("net.pt", map_location="cuda:0")
assert torch.cuda.memory_allocated() > 0 and torch.ones(2, device=device).is_cuda
print(f"{loss.item():.4f}", sum(value.sum().item() for value in back.values()))
"""


@pytest.mark.timeout(1200)
def test_both_ways_say_the_same(interpreter: Path, torch_sim: Path, tmp_path: Path) -> None:
    environment = dict(backend_env.build_environment(interpreter), PYTHONPATH=str(torch_sim))
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD")
    done = rewrite_program(PROGRAM)
    assert not done.left and "cuda" not in done.text
    (tmp_path / "for_cuda.py").write_text(PROGRAM)
    (tmp_path / "neutral.py").write_text(done.text)
    said = []
    for words, asked in (
        (["for_cuda.py"], "sim"),
        (["-m", "torch_sim.as_cuda", "for_cuda.py"], ""),
        (["neutral.py"], ""),
    ):
        variables = dict(environment, DECOUPLE_AS_CUDA=asked)
        command = [str(interpreter), "-W", "ignore", *words]
        ended = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        said.append(ended.stdout)
    assert said[0] == said[1] == said[2] and float(said[0].split()[0]) > 0
    alone = subprocess.run([str(interpreter), "for_cuda.py"], capture_output=True, env=environment, cwd=tmp_path)
    assert alone.returncode  # nobody asked: cuda is CUDA


TRACES = """
import pickle, threading, torch
from third_device_contract.traces import changes, trace
before = trace()
pickle.dumps(torch.ones(1))  # the first one of a process: copyreg notes the names of Tensor's slots
threading.excepthook, threading.Thread.start = print, print
print(changes(before, trace()))
"""


def test_what_pytest_and_python_keep_is_no_trace_of_a_program(interpreter: Path, contract: Path) -> None:
    variables = dict(backend_env.build_environment(interpreter), PYTHONPATH=str(contract))
    told = subprocess.run(
        [str(interpreter), "-W", "ignore", "-c", TRACES], capture_output=True, text=True, env=variables
    )
    assert told.stdout == "['class threading.Thread.start']\n", told.stderr
