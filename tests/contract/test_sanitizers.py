"""The whole backend, torch_sim with the layer's PyTorch half, under AddressSanitizer with UBSan, and ThreadSanitizer.

PyTorch itself is the official wheel and not instrumented. What that leaves unseen stands in docs/backends.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import backend_env
import pytest
import sanitizers
from sanitizers import SANITIZERS, Sanitizer, Setting

STRESS = str(Path(__file__).with_name("stress.py"))

#: What is left out of the contract: tests of how Python finds a package, most in fresh interpreters of their own, and
#: those that need CUDA or upstream's test folder.
SLICE = (
    "not test_registration and not test_beside and not test_upstream and not test_factories"
    " and (not test_distributed or (test_collectives and 2))"
)

#: Whole programs in interpreters of their own, the least of the layer's C++. DECOUPLE_SANITIZERS=whole runs them, too.
PROGRAMS = " and not test_as_cuda and not test_ecosystem and not test_public_reports"

#: What one sanitizer alone cannot run: ThreadSanitizer's runtime ends a forked process that starts a thread, as the
#: DataLoader's workers do ("starting new threads after multi-threaded fork is not supported"), and a spawned worker of
#: Python 3.13 ends without joining a thread of Python's own ("thread leak").
LEFT_OUT = {"thread": " and not test_workers_beside"}

pytestmark = pytest.mark.timeout(2400)
each = pytest.mark.parametrize("sanitizer", SANITIZERS, ids=lambda sanitizer: sanitizer.flavour)


@pytest.fixture
def prepared(interpreter: Path, tmp_path: Path) -> Callable[[Sanitizer], Setting]:
    """Makes the setting of a sanitizer, or skips with the reason."""

    def prepare(sanitizer: Sanitizer) -> Setting:
        try:
            return sanitizers.prepare(sanitizer, tmp_path / "log")
        except sanitizers.NoSanitizerError as error:
            pytest.skip(str(error))

    return prepare


@each
def test_the_contract_is_clean(
    interpreter: Path, prepared: Callable[[Sanitizer], Setting], sanitizer: Sanitizer
) -> None:
    setting = prepared(sanitizer)
    torch_sim = backend_env.install_sim(interpreter, sanitizer.flavour)
    contract = backend_env.install(interpreter, backend_env.THIRD_DEVICE / "contract")
    programs = "" if os.environ.get("DECOUPLE_SANITIZERS") == "whole" else PROGRAMS
    done = backend_env.check(
        interpreter,
        "sim",
        [torch_sim, contract],
        # -s: what is said of undefined behaviour comes through stderr
        *("-s", "-k", SLICE + programs + LEFT_OUT.get(sanitizer.flavour, ""), "--durations=10"),
        environment=setting.environment,
        launcher=setting.launcher,
    )
    print(done.stdout[-6000:])
    assert setting.reports(done) == ""
    assert done.returncode == 0, done.stderr[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) > 80, "the selection lost most of the contract"


@each
@pytest.mark.parametrize("faults", [[], ["faults"]], ids=["well", "faults"])
def test_eight_threads_at_once_are_clean(
    interpreter: Path, prepared: Callable[[Sanitizer], Setting], sanitizer: Sanitizer, faults: list[str]
) -> None:
    setting = prepared(sanitizer)
    torch_sim = backend_env.install_sim(interpreter, sanitizer.flavour)
    done = sanitizers.run(setting, interpreter, STRESS, "sim", "40", *faults, folders=[torch_sim])
    assert setting.reports(done) == ""
    assert done.returncode == 0 and "40 rounds" in done.stdout, done.stdout + done.stderr[-3000:]


# --- that these checks can fail ---

#: Defects in the layer below PyTorch's calls, which change nothing but what a sanitizer sees. In a source that includes
#: none of PyTorch's headers: it compiles in seconds, where device.h takes all that include it minutes.
SOURCE = "layer/runtime/allocators.cpp"
ALLOCATE = "void* allocate(int device, size_t bytes) {\n"
ADDRESS = """\
  static const bool undefined = std::string(std::getenv("DEFECT")) == "undefined";
  if (undefined) {
    volatile int places = 40;
    volatile int shifted = 1 << places;
    (void)shifted;
  } else {
    volatile int64_t* gone = new int64_t(0);
    delete gone;
    (void)*gone;
  }
"""
THREAD = """\
  static int64_t calls = 0;
  ++calls;
"""
CHANGES = {"address": {SOURCE: (ALLOCATE, ALLOCATE + ADDRESS)}, "thread": {SOURCE: (ALLOCATE, ALLOCATE + THREAD)}}

#: sanitizer -> which defect -> what is said of it
SAID = {
    "address": {
        "undefined": "runtime error: shift exponent 40 is too large",
        "heap": "AddressSanitizer: heap-use-after-free",
    },
    "thread": {"race": "ThreadSanitizer: data race"},
}


@each
def test_a_defect_in_the_layer_is_reported(
    interpreter: Path, prepared: Callable[[Sanitizer], Setting], sanitizer: Sanitizer, tmp_path: Path
) -> None:
    setting = prepared(sanitizer)
    target = tmp_path / "torch_sim"
    backend_env.install_changed(interpreter, sanitizer.flavour, CHANGES[sanitizer.flavour], target)
    for defect, expected in SAID[sanitizer.flavour].items():
        done = sanitizers.run(setting, interpreter, STRESS, "sim", "4", folders=[target], DEFECT=defect)
        said = setting.reports(done)
        assert done.returncode != 0 and expected in said and "DeviceAllocator::allocate" in said, done.stderr + said
        for report in setting.log.iterdir():
            report.unlink()


@each
def test_every_object_is_instrumented(interpreter: Path, sanitizer: Sanitizer) -> None:
    """A flag that got lost on the way to the compiler would leave the other tests nothing to find."""
    torch_sim = backend_env.install_sim(interpreter, sanitizer.flavour)
    source = torch_sim.with_suffix(".source")
    assert sanitizers.uninstrumented(sanitizer, source, "*.o") == []
    assert sanitizers.uninstrumented(sanitizer, torch_sim, "*.so") == []


def test_nothing_of_ours_is_suppressed() -> None:
    lines = sanitizers.SUPPRESSIONS.read_text().splitlines()
    entries = [(number, line) for number, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    for number, entry in entries:
        assert not re.search(r"third_device|torch_sim|\b_C\b|sim::|[*]$", entry), f"{entry}: would hide our own code"
        assert number > 0 and lines[number - 1].startswith("#"), f"{entry}: no reason above it"
