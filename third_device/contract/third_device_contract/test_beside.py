"""Item 50 from the other side: the backend works beside CUDA. Needs no GPU."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from third_device_contract.plugin import Run

WHERE = "DECOUPLE_TORCH_CUDA"

CODE = """
import importlib.util, sys

apart = importlib.util.find_spec("torch_cuda") is not None  # or CUDA is part of this torch
if apart:
    import torch_cuda

    if importlib.util.find_spec("torch_cuda_start") is not None:  # a patched core does not need it
        import torch_cuda_start  # as torch_cuda.pth does in site-packages

        torch_cuda_start.install()
    assert "torch" not in sys.modules, "torch_cuda imports torch"
if apart or "{first}" != "torch_cuda":
    import {first}
import torch

if not torch.backends.cuda.is_built():
    assert not apart, "torch_cuda is installed, and import torch did not load it"
    print("NO CUDA")
    sys.exit(0)
maps = open("/proc/self/maps").read()
assert "libtorch_cuda.so" in maps, "CUDA is built, but libtorch_cuda is not loaded"
if apart:
    assert "/torch_cuda/lib/libtorch_cuda.so" in maps, "another libtorch_cuda than torch_cuda's"
assert "{package}" in sys.modules, "import torch did not load the backend"

def works():
    x = torch.arange(4.0, device="{name}", requires_grad=True)
    (x @ x).backward()
    assert x.grad.tolist() == [0, 2, 4, 6], x.grad
    with torch.{name}.stream(torch.{name}.Stream()):
        assert (torch.ones(3, device="{name}") + 1).sum().item() == 6

works()
assert torch.{name}.is_available() and torch.{name}.is_initialized()
assert not torch.cuda.is_initialized(), "using the backend started CUDA"
for key in ("CUDA", "PrivateUse1"):
    assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty.memory_format", key), key
assert torch.accelerator.current_accelerator().type == "{name}"
if torch.cuda.device_count() == 0:
    assert not torch.cuda.is_available()
    try:
        torch.empty(1, device="cuda")
        raise SystemExit("a CUDA tensor without a GPU")
    except (RuntimeError, AssertionError) as error:
        print("CUDA says:", str(error).splitlines()[0])
else:
    moved = torch.ones(2, device="cuda").to("{name}")
    assert moved.device.type == "{name}" and moved.tolist() == [1, 1]
torch.manual_seed(3)
first = torch.randn(4, device="{name}")
torch.manual_seed(3)
assert torch.equal(first, torch.randn(4, device="{name}"))
works()
model = torch.nn.Linear(3, 2).to("{name}")
model(torch.ones(1, 3, device="{name}")).sum().backward()
torch.optim.SGD(model.parameters(), lr=0.1).step()
assert str(torch.device("cuda", 0)) == "cuda:0" and torch.cuda.Stream is not torch.{name}.Stream
print("BOTH")
"""


OPT_OUT = """
import importlib.util, sys
import torch

if importlib.util.find_spec("torch_cuda") is None:
    print("NO CUDA")
    sys.exit(0)
assert "{package}" not in sys.modules and not hasattr(torch, "{name}")
assert not torch.backends.cuda.is_built() and "torch_cuda._CUDAC" not in sys.modules
assert "libtorch_cuda.so" not in open("/proc/self/maps").read()
import {package}

assert (torch.ones(3, device="{name}") + 1).sum().item() == 6
assert "libtorch_cuda.so" not in open("/proc/self/maps").read()
print("BOTH")
"""


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Return the environment in which torch_cuda is found, if not installed."""
    given = os.environ.get(WHERE)
    if not given:
        return {}
    folder = Path(given)
    if folder.suffix == ".whl":
        folder = tmp_path_factory.mktemp("torch_cuda")
        with zipfile.ZipFile(given) as wheel:
            wheel.extractall(folder)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))}


def judge(done: subprocess.CompletedProcess[str]) -> None:
    if "NO CUDA" in done.stdout and not os.environ.get(WHERE):
        pytest.skip(f"elsewhere: this PyTorch has no CUDA; install torch_cuda, or set {WHERE} to its wheel or folder")
    assert done.returncode == 0 and "BOTH" in done.stdout, done.stdout[-500:] + done.stderr[-3000:]


@pytest.mark.contract_item(50)
@pytest.mark.parametrize("first", ["torch", "torch_cuda", "backend"])
def test_beside_cuda(python: Run, name: str, package: str, first: str, beside: dict[str, str | None]) -> None:
    """Import each first: both load, CUDA before torch._C and the backend after."""
    code = CODE.replace("{first}", package if first == "backend" else first)
    code = code.replace("{name}", name).replace("{package}", package)
    judge(python(code, env={**beside, "TORCH_DEVICE_BACKEND_AUTOLOAD": None}))


@pytest.mark.contract_item(50)
def test_the_opt_out_is_for_both(python: Run, name: str, package: str, beside: dict[str, str | None]) -> None:
    code = OPT_OUT.replace("{name}", name).replace("{package}", package)
    judge(python(code, env={**beside, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}))
