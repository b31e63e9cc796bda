"""Items 1 to 9: how a backend makes itself known."""

from __future__ import annotations

import os
import types
from pathlib import Path

import pytest
import torch

from third_device_contract.plugin import Run

FUNCTIONS = [
    "is_available",
    "device_count",
    "current_device",
    "set_device",
    "synchronize",
    "device",
    "device_of",
    "Stream",
    "Event",
    "stream",
    "current_stream",
    "default_stream",
    "set_stream",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
    "get_rng_state",
    "set_rng_state",
    "get_rng_state_all",
    "set_rng_state_all",
    "empty_cache",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "get_amp_supported_dtype",
    "_is_in_bad_fork",
    "_lazy_init",
    "is_initialized",
    "init",
]


@pytest.mark.contract_item(1)
def test_rename_is_idempotent_and_final(name: str, mod: types.ModuleType) -> None:
    torch.utils.rename_privateuse1_backend(name)
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("othername")
    assert torch._C._get_privateuse1_backend_name() == name


@pytest.mark.contract_item(2)
def test_device_module_names_are_checked(name: str, mod: types.ModuleType) -> None:
    with pytest.raises(RuntimeError, match="xxx"):
        torch._register_device_module("xxx", mod)
    with pytest.raises(RuntimeError, match="has already"):
        torch._register_device_module(name, mod)
    assert torch.get_device_module(name) is mod


@pytest.mark.contract_item(3)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_device_module_has(mod: types.ModuleType, function: str) -> None:
    assert callable(getattr(mod, function, None))


@pytest.mark.contract_item(3)
def test_device_names_work(name: str, mod: types.ModuleType) -> None:
    assert mod.is_available() and mod.device_count() >= 1
    assert torch.empty(1, device=name).device == torch.device(name, mod.current_device())
    assert torch.device(name, 0).type == name
    assert mod.get_device_name(0)
    assert mod.get_device_properties(0).total_memory > 0


@pytest.mark.contract_item(4)
def test_generated_methods(name: str, mod: types.ModuleType) -> None:
    host = torch.arange(6.0)
    moved = getattr(host, name)()
    assert getattr(moved, f"is_{name}") and not getattr(host, f"is_{name}")
    assert moved.device.index == 0 and torch.equal(moved.cpu(), host)
    module = getattr(torch.nn.Linear(2, 3), name)()
    assert module.weight.device.type == name
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.rand(3, 2, 1), [3, 2])
    assert not getattr(packed, f"is_{name}") and getattr(getattr(packed, name)(), f"is_{name}")
    storage = host.untyped_storage()
    there = getattr(storage, name)()
    assert getattr(there, f"is_{name}") and there.device.type == name
    assert there.cpu().tolist() == storage.tolist()
    assert getattr(host.storage(), name)().device.type == name


@pytest.mark.contract_item(5)
@pytest.mark.contract_item(10)
def test_import_torch_is_enough(python: Run, name: str, package: str) -> None:
    code = f"""
import torch
assert torch.{name}.is_available(), "not available"
assert torch.{name}.memory_allocated() == 0
assert not torch.{name}.is_initialized(), "started by the import, or by asking for statistics"
assert torch.ones(2, device="{name}").sum().item() == 2
assert torch.{name}.is_initialized()
import {package}
assert torch.accelerator.current_accelerator().type == "{name}"
print("fine")
"""
    done = python(code)
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr


@pytest.mark.contract_item(5)
def test_importing_the_package_first_works_too(python: Run, name: str, package: str) -> None:
    done = python(f"import {package}, torch; assert torch.{name}.device_count() >= 1")
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(6)
def test_autoload_can_be_switched_off(python: Run, name: str, package: str) -> None:
    code = f"""
import torch
assert not hasattr(torch, "{name}")
import {package}
assert torch.{name}.is_available()
"""
    done = python(code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(7)
def test_a_broken_entry_point_is_named(python: Run, tmp_path: Path) -> None:
    info = tmp_path / "site" / "broken_backend-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nbroken_backend = broken_backend:load\n")
    (tmp_path / "site" / "broken_backend.py").write_text("def load():\n    raise OSError('no such library')\n")
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), os.environ.get("PYTHONPATH")]))
    done = python("import torch", env={"PYTHONPATH": path})
    assert done.returncode != 0
    assert "broken_backend" in done.stderr and "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.stderr


@pytest.mark.contract_item(8)
@pytest.mark.parametrize("option", ["--no-driver-env", "--zero-devices-env"])
def test_cpu_works_without_devices(python: Run, name: str, option: str, request: pytest.FixtureRequest) -> None:
    key, _, value = request.config.getoption(option).partition("=")
    code = f"""
import torch
assert torch.{name}.device_count() == 0, "UNCHANGED"
assert not torch.{name}.is_available()
torch.manual_seed(1)
model = torch.nn.Linear(3, 2)
model(torch.ones(1, 3)).sum().backward()
assert model.weight.grad is not None
try:
    torch.ones(1, device="{name}")
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
"""
    done = python(code, env={key: value})
    if "UNCHANGED" in done.stderr:
        pytest.skip(f"{key}={value} does not take this driver's devices away; pass {option}")
    assert done.returncode == 0 and "refused:" in done.stdout, done.stderr


@pytest.mark.contract_item(9)
def test_another_release_of_torch_is_refused_clearly(python: Run, package: str) -> None:
    code = f"""
import torch
torch.__version__ = "9.9.9"
try:
    import {package}
except ImportError as error:
    print("refused:", error)
"""
    done = python(code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    assert "9.9.9" in done.stdout and "undefined symbol" not in done.stdout
    assert torch.__version__.split("+")[0] in done.stdout


@pytest.mark.contract_item(64)
@pytest.mark.parametrize("patch", ["0", "99"])
def test_every_patch_release_of_the_line_will_do(python: Run, name: str, package: str, patch: str) -> None:
    """Load on 2.13.1 what was built for 2.13.0, and the other way round (item 9)."""
    line = ".".join(torch.__version__.split(".")[:2])
    code = f"""
import torch
torch.__version__ = "{line}.{patch}+other"
import {package}
assert torch.ones(2, device="{name}").add(1).sum().item() == 4
torch.__version__ = "{line}.{patch}a0"
from {package}._layer import _line
print("before the release:", _line(torch.__version__) == _line("{line}.{patch}"))
"""
    done = python(code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    assert "before the release: False" in done.stdout, "the interface of a version that is not released still moves"


@pytest.mark.contract_item(64)
def test_a_patch_release_that_will_not_do_is_named(python: Run, package: str) -> None:
    line = ".".join(torch.__version__.split(".")[:2])
    code = f"""
import importlib.abc, sys, torch
torch.__version__ = "{line}.99"
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "{package}._C":
            raise ImportError("libtorch_{package}.so: undefined symbol: _ZN3c104Goneev")
sys.meta_path.insert(0, Broken())
try:
    import {package}
except ImportError as error:
    print("refused:", type(error).__name__, error)
"""
    done = python(code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    told = f"{line}.99 (libtorch_{package}.so: undefined symbol"
    assert "refused: BackendLoadError" in done.stdout and told in done.stdout, done.stdout
