"""The checks of installed wheels: each is a line with a verdict, so that one run reports all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.verify import audit, imports, parity
from decouple.verify.elf import Library
from decouple.verify.facts import Expected
from decouple.verify.venvs import Tried, Workplace

MONOLITH = "/opt/monolith/usr"
#: What upstream says on a machine without a driver or without a GPU (torch/csrc/cuda, c10/cuda).
_NO_DEVICE = re.compile(r"NVIDIA driver|No CUDA GPUs|no CUDA-capable device|CUDA driver", re.IGNORECASE)


class Promise(Struct, frozen=True):
    """One promise: whether it is kept, and what was seen."""

    name: str
    ok: bool
    seen: str


def core_alone(alone: Tried) -> list[Promise]:
    """With the core wheel alone: no CUDA library is opened or tried, and ``torch.cuda`` says that there is none."""
    opened = imports.libraries_opened(alone.prefix, "import torch; torch.cuda.is_available()")
    facts = parity.dump(alone.prefix, alone.folder, alone.inside)["facts"]
    return [
        Promise(
            "the core alone opens no CUDA library",
            not opened.cuda(),
            f"{len(opened.opened)} libraries opened, of CUDA {', '.join(opened.cuda()) or 'none'}",
        ),
        _equal("the core alone: torch.cuda.is_available()", facts["cuda.is_available()"], False),
        _equal("the core alone: torch.version.cuda", facts["version.cuda"], None),
    ]


def together(both: Tried, offer: Mapping[str, Any], wanted: Iterable[Expected]) -> list[Promise]:
    """Both wheels: each value that a user reads is the expected one; no driver is needed; a call for a device fails as
    upstream's.
    """
    told = str(offer["facts"]["torch.ones(1).cuda()"])
    return [
        *values(offer["facts"], wanted),
        _without_driver(both),
        Promise("a call that needs a device", bool(_NO_DEVICE.search(told)) or told.startswith("tensor"), told),
    ]


def values(facts: Mapping[str, Any], wanted: Iterable[Expected]) -> list[Promise]:
    """Each fact against the value it must have; lists in any order. A question that was not asked is not kept."""
    found = []
    for one in wanted:
        seen = facts.get(one.asks, "not asked")
        plain = sorted(map(str, seen)) == sorted(map(str, one.value)) if _lists(seen, one.value) else seen == one.value
        same = plain and type(seen) is type(one.value)
        said = f"{seen}" if same else f"{seen!r}, expected {one.value!r}"
        found.append(Promise(one.name, same, f"{said} ({one.origin})"))
    return found


def _lists(*values: object) -> bool:
    return all(isinstance(value, list) for value in values)


def _without_driver(both: Tried) -> Promise:
    """Both wheels import without a driver; where libcuda.so is (NVIDIA's libcublasLt opens it), it is hidden."""
    name, driver = "importing with no libcuda.so on the machine", audit.rules().driver_libraries
    present = [path for path in imports.libraries_opened(both.prefix).opened if driver.match(Path(path).name)]
    if not present:
        return Promise(name, True, "there is none")
    try:
        times = imports.runs_without(both.prefix, present)
    except DecoupleError as error:
        return Promise(name, False, str(error))
    return Promise(name, True, f"{', '.join(present)} hidden {times} times")


def monolith_variables() -> dict[str, str]:
    """What Python needs in its environment, inside the Debian root, to import upstream's single-stage build."""
    libraries = f"{MONOLITH}/lib/x86_64-linux-gnu:{MONOLITH}/lib:/opt/cudnn/lib"
    return {"PYTHONPATH": f"{MONOLITH}/lib/python3/dist-packages", "LD_LIBRARY_PATH": libraries}


def monolith(place: Workplace) -> dict[str, Any]:
    """What upstream's single-stage build offers, asked in a process of its own inside the Debian root."""
    return parity.dump(place.environment.argv(["python3"], monolith_variables(), "/"), place.folder, place.inside)


def symbols(backend: Sequence[Library], single: Sequence[Library]) -> list[parity.Parity]:
    """C++ symbols that third-party extensions link, library by library, against the monolith's."""
    return [
        parity.compare_symbols(name, _exported(backend, name), _exported(single, name))
        for name in parity.rules().symbols.libraries
    ]


def _exported(found: Sequence[Library], prefix: str) -> parity.Exported:
    same = [one for one in found if one.path.name.startswith(f"{prefix}.so")]  # not libtorch_cuda_linalg
    return parity.Exported(
        frozenset().union(*(one.defined for one in same)), frozenset().union(*(one.vague for one in same))
    )


def _equal(name: str, seen: object, wanted: object) -> Promise:
    return Promise(name, seen == wanted, f"{seen}" if seen == wanted else f"{seen}, expected {wanted}")
