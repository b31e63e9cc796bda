"""Items 56, 57 and 63: what a backend adds to the layer's classes.

It adds it in its files. Two backends work in one environment.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import shutil
import types
from pathlib import Path

import pytest
import torch

from third_device_contract.plugin import Run
from third_device_contract.ranks import run_ranks


@pytest.fixture(scope="module")
def ops(name: str, package: str, mod: types.ModuleType) -> types.ModuleType:
    """Return ``torch.ops.<name>`` with the template's extensions.cpp, functions.py."""
    if not hasattr(mod, "times_resized"):
        pytest.skip(f"elsewhere: the template is tried with the examples of csrc/extensions.cpp; {package} has none")
    found: types.ModuleType = getattr(torch.ops, name)
    return found


@pytest.mark.contract_item(56)
def test_functions_of_its_own(package: str, mod: types.ModuleType, ops: types.ModuleType) -> None:
    functions = importlib.import_module(f"{package}.functions")
    for each in functions.__all__:
        assert getattr(mod, each) is getattr(functions, each)


@pytest.mark.contract_item(41)
@pytest.mark.contract_item(56)
def test_a_field_of_every_storage_and_a_hook(name: str, ops: types.ModuleType) -> None:
    tensor = torch.zeros(4, device=name)
    assert ops.times_resized(tensor) == 0
    tensor.untyped_storage().resize_(4096)
    tensor.resize_(4096)
    assert ops.times_resized(tensor) == ops.times_resized(tensor[1:]) == 2
    assert ops.times_resized(torch.zeros(4, device=name)) == 0
    nothing = torch.zeros(4, device=name).set_()
    nothing.resize_(8)
    assert ops.times_resized(nothing) == 1, "made by the layer itself, of the same class"


@pytest.mark.contract_item(56)
def test_an_allocator_of_its_own(name: str, mod: types.ModuleType, ops: types.ModuleType) -> None:
    more = ops.largest_request() + 4096
    held, before = torch.empty(more, dtype=torch.uint8, device=name), mod.memory_allocated()
    assert ops.largest_request() == more
    assert before >= held.numel(), "what it leaves alone is the layer's"


@pytest.mark.contract_item(56)
def test_a_guard_of_its_own(ops: types.ModuleType) -> None:
    before = ops.waits()
    torch.accelerator.synchronize()
    assert ops.waits() == before + 1


@pytest.mark.contract_item(63)
def test_a_fallback_of_its_own(
    name: str, mod: types.ModuleType, ops: types.ModuleType, host_only_operator: None
) -> None:
    """Give the backend's class what has no kernel, and nothing else.

    What it leaves to the layer runs on the CPU.
    """
    tensor = torch.tensor([0.5, 1.0, 2.0], device=name)
    before = ops.left_to_cpu()
    tensor.view(1, 3).as_strided((2,), (1,)).detach()
    assert ops.left_to_cpu() == before, "views are the layer's"
    with mod.no_fallback(), pytest.raises(NotImplementedError, match="contract_host::halve"):
        torch.ops.contract_host.halve(tensor)
    assert ops.left_to_cpu() == before + 1, "it is asked, and the layer refuses"
    assert torch.ops.contract_host.halve(tensor).tolist() == [0.25, 0.5, 1]
    assert ops.left_to_cpu() == before + 2


@pytest.mark.contract_item(41)
@pytest.mark.contract_item(56)
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_is_remembered_of_a_tensor_is_saved(
    name: str, mod: types.ModuleType, ops: types.ModuleType, weights_only: bool
) -> None:
    tensor = torch.arange(6.0, device=name)
    assert mod.get_tiling(tensor) == ()
    mod._set_flags(tensor, {"padded": True})
    mod.set_tiling(tensor, 8, 1 << 40)
    mod._set_flags(tensor, mod._get_flags(tensor) | {"tiled": True})
    assert mod.get_tiling(tensor.detach()) == (8, 1 << 40)
    buffer = io.BytesIO()
    torch.save({"tensor": tensor}, buffer)
    buffer.seek(0)
    back = torch.load(buffer, weights_only=weights_only)["tensor"]
    assert mod.get_tiling(back) == (8, 1 << 40) and mod._get_flags(back) == {"padded": True, "tiled": True}
    assert torch.equal(back.cpu(), tensor.cpu())
    buffer.seek(0)
    assert torch.load(buffer, map_location="cpu", weights_only=weights_only)["tensor"].tolist() == tensor.tolist()


GROUPS = """
def check(rank, device):
    reductions = getattr(torch.ops, NAME).reductions
    dist.all_reduce(torch.ones(2, device=device))
    assert reductions() == 1, "tensors of the device use the backend's own"
    through_the_host = dist.new_group(backend=NAME + "_host")
    ones = torch.ones(2, device=device)
    dist.all_reduce(ones, group=through_the_host)
    assert reductions() == 1 and ones.cpu().tolist() == [float(SIZE)] * 2
    dist.broadcast(ones, src=0)  # left to the host by the same class
"""


@pytest.mark.contract_item(56)
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch was built without torch.distributed")
def test_collectives_of_its_own(python: Run, name: str, ops: types.ModuleType) -> None:
    run_ranks(python, name, 2, GROUPS)


@pytest.fixture
def two_backends(package: str, name: str, tmp_path: Path) -> dict[str, str | None]:
    """Return the variables of an environment with this backend and another one.

    The other one is the same backend under the name ``other``.
    """
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    home = Path(spec.origin).parent
    if not (home / "_layer").is_dir():
        pytest.skip(f"{package} was not made from the template")
    site = tmp_path / "site"
    shutil.copytree(home, site / "torch_other", ignore=shutil.ignore_patterns("__pycache__", "include"))
    for file, (old, new) in {
        "__init__.py": (package, "torch_other"),
        "_build_info.py": (repr(name), "'other'"),
    }.items():
        path = site / "torch_other" / file
        path.write_text(path.read_text().replace(old, new))
    info = site / "torch_other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_other = torch_other:_autoload\n")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(home / "lib"), os.environ.get("LD_LIBRARY_PATH")])),
    }


@pytest.mark.contract_item(57)
def test_two_backends_and_no_choice_is_an_error(python: Run, name: str, two_backends: dict[str, str | None]) -> None:
    done = python("import torch", env=two_backends)
    assert done.returncode != 0
    assert "TORCH_DEVICE_BACKEND=other" in done.stderr and f"TORCH_DEVICE_BACKEND={name}" in done.stderr
    assert "has already been set" not in done.stderr


@pytest.mark.contract_item(57)
@pytest.mark.parametrize("by", ["{name}", "{package}", "other", "torch_other"])
def test_one_of_two_backends_is_chosen(
    python: Run, name: str, package: str, two_backends: dict[str, str | None], by: str
) -> None:
    chosen = by.format(name=name, package=package)
    ours = "other" not in chosen
    used, left = (name, "other") if ours else ("other", name)
    code = f"""
import torch
assert torch.ones(2, device="{used}").add(1).sum().item() == 4
assert torch.accelerator.current_accelerator() == torch.device("{used}")
assert not hasattr(torch, "{left}")
"""
    done = python(code, env=two_backends | {"TORCH_DEVICE_BACKEND": chosen})
    assert done.returncode == 0, done.stderr
    other = "torch_other" if ours else package
    alone = {"TORCH_DEVICE_BACKEND": chosen, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = python(f"import {other}", env=two_backends | alone)
    assert done.returncode != 0 and f"{other}: TORCH_DEVICE_BACKEND={chosen}" in done.stderr, done.stderr


@pytest.mark.contract_item(57)
def test_a_choice_that_nobody_has_is_named(python: Run, package: str, two_backends: dict[str, str | None]) -> None:
    done = python("import torch", env=two_backends | {"TORCH_DEVICE_BACKEND": "nobody"})
    assert done.returncode != 0
    assert "TORCH_DEVICE_BACKEND=nobody" in done.stderr and package in done.stderr and "torch_other" in done.stderr
