"""What a user reads off torch, value by value against the official build of the release: being there is not enough."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from decouple.base.errors import DecoupleError
from decouple.release.manifest import Toolchain

_FILE = Path(__file__).with_name("facts.toml")
#: One entry of TORCH_CUDA_ARCH_LIST, as torch/utils/cpp_extension.py reads it.
_ARCH = re.compile(r"(\d+)\.(\d+)(a?)(\+PTX)?")


@dataclass(frozen=True)
class Expected:
    """One question of ``inside/dump.py``, the value that it must answer, and where that value comes from."""

    name: str
    asks: str
    value: Any
    origin: str


@cache
def rules() -> Mapping[str, Any]:
    """The parsed ``facts.toml``."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def expected(
    toolchain: Toolchain, arch_list: Sequence[str], kind: str, installed: Mapping[str, str]
) -> tuple[Expected, ...]:
    """What every fact must be.

    ``toolchain`` is the official wheel's, ``arch_list`` what our wheel's manifest says ("9.0"), ``kind`` the
    environment ("host" or "rootfs") and ``installed`` its packages with their versions. Raises DecoupleError when the
    release manifest does not know a version that a fact needs.
    """
    instead = {one["asks"]: one for one in rules()["instead"] if one["environment"] == kind}
    found = []
    for fact in rules()["fact"]:
        asks, other = str(fact["asks"]), instead.get(str(fact["asks"]))
        if other and other["package"] in installed:
            value: Any = _numbers(installed[other["package"]])
            origin = f"{other['package']} {installed[other['package']]}: {other['why']}"
            official = _official(fact, toolchain, arch_list)[0]
            origin += f"; the official wheel says {official}" if official != value else ""
        else:
            value, origin = _official(fact, toolchain, arch_list)
        found.append(Expected(str(fact["name"]), asks, value, origin))
    return tuple(found)


def arch_flags(arch_list: Sequence[str]) -> list[str]:
    """What ``torch.cuda.get_arch_list()`` says of a build for ``arch_list``, sorted: machine code, then PTX.

    >>> arch_flags(["9.0", "8.0+PTX"])
    ['compute_80', 'sm_80', 'sm_90']
    """
    found = set()
    for entry in arch_list:
        if (match := _ARCH.fullmatch(entry)) is None:
            raise DecoupleError(
                f"{entry!r} is no architecture",
                next_step="build again; TORCH_CUDA_ARCH_LIST is like 8.0;9.0+PTX",
            )
        number = f"{match[1]}{match[2]}{match[3]}"
        found.add(f"sm_{number}")
        if match[4]:
            found.add(f"compute_{number}")
    return sorted(found)


def _official(fact: Mapping[str, Any], toolchain: Toolchain, arch_list: Sequence[str]) -> tuple[Any, str]:
    if "value" in fact:
        return fact["value"], "every CUDA build"
    if "build" in fact:
        return arch_flags(arch_list), f"the wheel's manifest: {' '.join(arch_list)}"
    if "release" in fact:
        if not toolchain.cuda:
            raise _unknown("the CUDA version")
        if fact["release"] == "cuda number":
            major, minor = (int(part) for part in toolchain.cuda.split("."))
            return 1000 * major + 10 * minor, "the official wheel"
        return toolchain.cuda, "the official wheel"
    version = toolchain.library(fact["library"])
    if version is None:
        raise _unknown(fact["library"])
    numbers = _numbers(version)
    value = 10000 * numbers[0] + 100 * numbers[1] + numbers[2] if fact["form"] == "cudnn" else numbers
    return value, f"the official wheel requires {fact['library']} {version}"


def _unknown(what: str) -> DecoupleError:
    return DecoupleError(
        f"the release's manifest does not say which {what} the official wheel has",
        next_step="decouple manifest fill RELEASE --write",
    )


def _numbers(version: str) -> list[int]:
    """The first three numbers of a version, as cuDNN and NCCL count."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None:
        raise DecoupleError(f"{version!r}: not a version of three numbers", next_step="mend verify/facts.toml")
    return [int(part) for part in match.groups()]
