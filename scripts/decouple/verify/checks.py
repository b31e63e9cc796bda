"""Check installed wheels: each check is a line with a verdict, all in one run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.interpreter import run_python
from decouple.verify import audit, imports, parity
from decouple.verify.elf import Library
from decouple.verify.facts import ExpectedFact
from decouple.verify.venvs import TorchEnvironment, Workplace

MONOLITH = "/opt/monolith/usr"
#: What upstream says on a machine without a driver or without a GPU (torch/csrc/cuda, c10/cuda).
_NO_VENDOR_DEVICE = re.compile(r"No HIP GPUs are available|no ROCm-capable device")
_NO_DEVICE = re.compile(r"NVIDIA driver|No CUDA GPUs|no CUDA-capable device|CUDA driver", re.IGNORECASE)


class CheckResult(Struct, frozen=True):
    """The result of one check: whether it passed, and what was observed."""

    name: str
    passed: bool
    observed: str
    done: bool = True
    """False of what cannot be checked here; ``observed`` says why. It is no fault, and no check that passed."""


def check_core_alone(alone: TorchEnvironment) -> list[CheckResult]:
    """Check the core wheel installed alone.

    No CUDA library is opened or tried, and ``torch.cuda`` says that there is none.
    """
    opened = imports.trace_libraries(alone.prefix, "import torch; torch.cuda.is_available()")
    facts = parity.dump_torch(alone.prefix, alone.folder, alone.inside)["facts"]
    return [
        CheckResult(
            "the core alone opens no CUDA library",
            not opened.cuda(),
            f"{len(opened.opened)} libraries opened, of CUDA {', '.join(opened.cuda()) or 'none'}",
        ),
        _check_equal("the core alone: torch.cuda.is_available()", facts["cuda.is_available()"], False),
        _check_equal("the core alone: torch.version.cuda", facts["version.cuda"], None),
    ]


def check_both_wheels(
    both: TorchEnvironment, offer: Mapping[str, Any], wanted: Iterable[ExpectedFact]
) -> list[CheckResult]:
    """Check the two wheels installed together.

    Each value that a user reads is the expected one; no driver is needed; a call for a device fails as upstream's.
    """
    told = str(offer["facts"]["torch.ones(1).cuda()"])
    return [
        *check_values(offer["facts"], wanted),
        _check_without_driver(both),
        CheckResult("a call that needs a device", bool(_NO_DEVICE.search(told)) or told.startswith("tensor"), told),
    ]


def check_values(facts: Mapping[str, Any], wanted: Iterable[ExpectedFact]) -> list[CheckResult]:
    """Compare each fact with the value it must have; lists in any order.

    A question that was not asked has failed.
    """
    found = []
    for expected in wanted:
        seen = facts.get(expected.asks, "not asked")
        lists = isinstance(seen, list) and isinstance(expected.value, list)
        plain = sorted(map(str, seen)) == sorted(map(str, expected.value)) if lists else seen == expected.value
        same = plain and type(seen) is type(expected.value)
        said = f"{seen}" if same else f"{seen!r}, expected {expected.value!r}"
        found.append(CheckResult(expected.name, same, f"{said} ({expected.origin})"))
    return found


#: What another vendor's package says of itself, as one line of JSON.
_VENDOR = """
import json, torch
def said(ask):
    try:
        return str(ask())
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
facts = {
    "version.cuda": torch.version.cuda,
    "version.hip": torch.version.hip,
    "cuda.is_available()": torch.cuda.is_available(),
    "cuda._CUDAC": torch.cuda._CUDAC.__name__,
    "zeros(2, device='cuda')": said(lambda: torch.zeros(2, device="cuda")),
    "kernels": sum(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA") for name in torch._C._dispatch_get_all_op_names()
    ),
}
print(json.dumps(facts))
"""


def check_vendor(both: TorchEnvironment, package: str) -> list[CheckResult]:
    """Check another vendor's package beside a core.

    It brings ``torch.cuda``; the machine is without its device. Raises DecoupleError when torch cannot be imported.
    """
    done = run_python([*both.prefix, "-c", _VENDOR])
    if done.returncode:
        raise DecoupleError(
            f"{both.name}: torch with {package} is not imported: {(done.stderr.splitlines() or ['no word'])[-1]}",
            next_step="look at what the linker misses: LD_DEBUG=libs",
        )
    facts = json.loads(done.stdout.splitlines()[-1])
    told = facts["zeros(2, device='cuda')"]
    return [
        _check_equal("torch.cuda._CUDAC", facts["cuda._CUDAC"], f"{package}._CUDAC"),
        _check_equal("torch.version.cuda", facts["version.cuda"], None),
        CheckResult("torch.version.hip", bool(facts["version.hip"]), str(facts["version.hip"])),
        CheckResult("operators with a kernel on the key", facts["kernels"] > 0, str(facts["kernels"])),
        CheckResult("a call that needs a device", bool(_NO_VENDOR_DEVICE.search(told)), told),
    ]


def _check_without_driver(both: TorchEnvironment) -> CheckResult:
    """Check that both wheels import without a driver.

    Where libcuda.so is (NVIDIA's libcublasLt opens it), it is hidden.
    """
    name, driver = "importing with no libcuda.so on the machine", audit.load_rules().driver_libraries
    present = [path for path in imports.trace_libraries(both.prefix).opened if driver.match(Path(path).name)]
    if not present:
        return CheckResult(name, True, "there is none")
    try:
        times = imports.run_without(both.prefix, present)
    except DecoupleError as error:
        return CheckResult(name, False, str(error))
    return CheckResult(name, True, f"{', '.join(present)} hidden {times} times")


def make_monolith_variables() -> dict[str, str]:
    """Return the environment variables to import upstream's single-stage build.

    Python needs them inside the Debian root.
    """
    libraries = f"{MONOLITH}/lib/x86_64-linux-gnu:{MONOLITH}/lib:/opt/cudnn/lib"
    return {"PYTHONPATH": f"{MONOLITH}/lib/python3/dist-packages", "LD_LIBRARY_PATH": libraries}


def ask_monolith(place: Workplace) -> dict[str, Any]:
    """Ask upstream's single-stage build what it offers.

    A process of its own inside the Debian root answers.
    """
    return parity.dump_torch(
        place.environment.argv(["python3"], make_monolith_variables(), "/"), place.folder, place.inside
    )


def compare_library_symbols(backend: Sequence[Library], single: Sequence[Library]) -> list[parity.Parity]:
    """Compare the C++ symbols that extensions link with the monolith's.

    Library by library.
    """
    return [
        parity.compare_symbols(name, _collect_exports(backend, name), _collect_exports(single, name))
        for name in parity.load_rules().symbols.libraries
    ]


def _collect_exports(found: Sequence[Library], prefix: str) -> parity.ExportedSymbols:
    same = [library for library in found if library.path.name.startswith(f"{prefix}.so")]  # not libtorch_cuda_linalg
    return parity.ExportedSymbols(
        frozenset().union(*(library.defined for library in same)),
        frozenset().union(*(library.vague for library in same)),
    )


def _check_equal(name: str, seen: object, wanted: object) -> CheckResult:
    return CheckResult(name, seen == wanted, f"{seen}" if seen == wanted else f"{seen}, expected {wanted}")
