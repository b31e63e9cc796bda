"""torch_sim, built for an unpatched PyTorch, keeps the whole contract; so does a backend fresh from the template."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import backend_env
import pytest

from decouple.device.scaffold import scaffold
from decouple.device.sources import SHARED

REPORT = backend_env.ROOT / "build" / "contract"
GUIDE = backend_env.ROOT / "docs" / "backends.md"

#: items that a run may leave uncovered, with the reason; a report card with another one missing is a failure
MAY_MISS = {47: "upstream's own suites come with the source tree of the release, which no wheel has"}


@pytest.mark.timeout(2400)
def test_the_contract_holds(interpreter: Path, contract: Path, torch_sim: Path) -> None:
    done = backend_env.check(interpreter, "sim", [torch_sim, contract], "--contract-report", str(REPORT))
    print(done.stdout[-12000:])
    assert done.returncode == 0, done.stderr[-3000:]
    items = json.loads((REPORT / "contract.json").read_text())["items"]
    missing = {item["number"]: item["reason"] for item in items if item["status"] == "missing"}
    assert set(missing) <= set(MAY_MISS), missing
    assert "</table>" in (REPORT / "contract.html").read_text()


@pytest.mark.timeout(2400)
def test_upstream_s_own_suites_hold(interpreter: Path, contract: Path, torch_sim: Path) -> None:
    tests, why_not = backend_env.upstream_tests(interpreter)
    if tests is None:
        pytest.skip(why_not)
    done = backend_env.check(
        interpreter, "sim", [torch_sim, contract], "-k", "test_upstream", f"--upstream-tests={tests}"
    )
    print(done.stdout[-8000:])
    assert done.returncode == 0, done.stdout[-8000:]
    assert "47 ok" in done.stdout and "take it off the list" not in done.stdout


@pytest.mark.timeout(2400)
def test_a_scaffolded_backend_builds_and_holds(
    interpreter: Path, contract: Path, torch_sim: Path, tmp_path: Path
) -> None:
    home = tmp_path / "third_device"
    for shared in SHARED:
        shutil.copytree(backend_env.THIRD_DEVICE / shared, home / shared)
    scaffold(backend_env.THIRD_DEVICE / "template", home / "torch_acme", "acme")
    acme = backend_env.install(interpreter, home / "torch_acme")
    done = backend_env.check(
        interpreter, "acme", [acme, contract], "-k", "test_registration or test_runtime or test_extensions or mlp"
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "supported" in done.stdout


RANGES = """
import torch

tensor = torch.ones(2, device="sim")
with torch.sim.emit_ranges():
    tensor @ tensor
tensor.relu()
"""


def test_a_vendor_s_tool_gets_the_names_of_operators(interpreter: Path, torch_sim: Path, tmp_path: Path) -> None:
    told = tmp_path / "names"
    variables = dict(os.environ, PYTHONPATH=str(torch_sim), TD_SIM_NAMES=str(told))
    subprocess.run([str(interpreter), "-c", RANGES], check=True, env=variables, cwd=tmp_path)
    lines = [line.split(" ", 1) for line in told.read_text().splitlines()]
    pushed = [name for what, name in lines if what == "push"]
    assert pushed.count("aten::dot") == 1
    assert "aten::relu" not in pushed, "ranges end with the context"
    depth = 0
    for what, _ in lines:
        depth += {"push": 1, "pop": -1, "mark": 0}[what]
        assert depth >= 0
    assert depth == 0


WITHOUT_KERNELS = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).double().to("sim")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
data, labels = torch.randn(64, 8).double().to("sim"), torch.randint(0, 2, (64,)).to("sim")
losses = []
for _ in range(8):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
with torch.sim.no_fallback():
    for used in (lambda: data @ data.T, lambda: data + data, lambda: data.relu(), lambda: data.fill_(1)):
        try:
            used()
        except NotImplementedError:
            continue
        raise AssertionError("float64 has a kernel: train in another type here")
print("trained")
"""


@pytest.mark.timeout(1200)
def test_an_mlp_trains_without_any_kernel(interpreter: Path, torch_sim: Path, tmp_path: Path) -> None:
    """What a vendor gets of the driver alone: torch_sim's kernels take float32 only, so float64 meets none of them."""
    environment = dict(backend_env.build_environment(interpreter), PYTHONPATH=str(torch_sim))
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD")
    command = [str(interpreter), "-c", WITHOUT_KERNELS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0 and "trained" in done.stdout, done.stderr


@pytest.mark.timeout(1200)
def test_the_guide_runs(interpreter: Path, torch_sim: Path, tmp_path: Path) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 4
    script = tmp_path / "guide.py"
    script.write_text("\n\n".join(snippets))
    environment = dict(backend_env.build_environment(interpreter), PYTHONPATH=str(torch_sim))
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD")
    done = subprocess.run(
        [str(interpreter), str(script)], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
