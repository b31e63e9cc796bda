"""Compare what a user reads off torch, value by value, with the official build.

That build is of the same release. That a value is there is not enough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.release.manifest import Toolchain

_FILE = Path(__file__).with_name("facts.toml")
#: One entry of TORCH_CUDA_ARCH_LIST, as torch/utils/cpp_extension.py reads it.
_ARCH = re.compile(r"(\d+)\.(\d+)([af]?)(\+PTX)?")


class ExpectedFact(Struct, frozen=True):
    """One question of ``inside/dump.py``, the value expected, and its origin."""

    name: str
    asks: str
    value: Any
    origin: str


class Fact(Struct, frozen=True):
    """One entry of ``facts.toml``: a question and the source of its value.

    One of the four sources is given.
    """

    name: str
    asks: str
    value: bool | int | str | None = None
    build: Literal["arch list"] | None = None
    release: Literal["cuda", "cuda number"] | None = None
    library: str | None = None
    form: Literal["cudnn", "list"] = "list"
    on_stock: bool | int | str | None = None
    """The value where the core is unmodified and cannot give that one."""

    def __post_init__(self) -> None:
        if sum(choice is not None for choice in (self.value, self.build, self.release, self.library)) != 1:
            raise ValueError(f"{self.name}: one of value, build, release and library")


class FactOverride(Struct, frozen=True):
    """An environment's package that decides a value. The official wheel does not then."""

    asks: str
    environment: str
    package: str
    why: str


class _File(Struct, frozen=True):
    fact: tuple[Fact, ...]
    instead: tuple[FactOverride, ...] = ()


@cache
def load_rules() -> _File:
    """Read ``facts.toml``."""
    return toml.read_own_table(_FILE, _File)


def list_expected_facts(
    toolchain: Toolchain, arch_list: Sequence[str], kind: str, installed: Mapping[str, str], core: str = "built"
) -> tuple[ExpectedFact, ...]:
    """Return the value that every fact must have.

    ``toolchain`` is the official wheel's, ``arch_list`` what our wheel's manifest says ("9.0"), ``kind`` the
    environment ("host" or "rootfs"), ``installed`` its packages with their versions, ``core`` what torch_cuda is on
    ("built" or "stock"). Raises DecoupleError when the
    release manifest does not know a version that a fact needs.
    """
    instead = {rule.asks: rule for rule in load_rules().instead if rule.environment == kind}
    found = []
    for fact in load_rules().fact:
        other = instead.get(fact.asks)
        if core == "stock" and fact.on_stock is not None:
            value: Any = fact.on_stock
            origin = f"an unmodified core; with ours {_find_official_value(fact, toolchain, arch_list)[0]}"
        elif other and other.package in installed:
            value = _parse_numbers(installed[other.package])
            origin = f"{other.package} {installed[other.package]}: {other.why}"
            official = _find_official_value(fact, toolchain, arch_list)[0]
            origin += f"; the official wheel says {official}" if official != value else ""
        else:
            value, origin = _find_official_value(fact, toolchain, arch_list)
        found.append(ExpectedFact(fact.name, fact.asks, value, origin))
    return tuple(found)


def list_arch_flags(arch_list: Sequence[str]) -> list[str]:
    """Return what ``torch.cuda.get_arch_list()`` says of such a build.

    Sorted: machine code, then PTX.

    >>> list_arch_flags(["9.0a", "12.0f", "8.0+PTX"])
    ['compute_80', 'sm_120f', 'sm_80', 'sm_90a']
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


def _find_official_value(fact: Fact, toolchain: Toolchain, arch_list: Sequence[str]) -> tuple[Any, str]:
    if fact.value is not None:
        return fact.value, "every CUDA build"
    if fact.build:
        return list_arch_flags(arch_list), f"the wheel's manifest: {' '.join(arch_list)}"
    if fact.release:
        if not toolchain.cuda:
            raise _make_error("the CUDA version")
        if fact.release == "cuda number":
            major, minor = (int(part) for part in toolchain.cuda.split("."))
            return 1000 * major + 10 * minor, "the official wheel"
        return toolchain.cuda, "the official wheel"
    library = fact.library or ""
    version = toolchain.find_library(library)
    if version is None:
        raise _make_error(library)
    numbers = _parse_numbers(version)
    value = 10000 * numbers[0] + 100 * numbers[1] + numbers[2] if fact.form == "cudnn" else numbers
    return value, f"the official wheel requires {library} {version}"


def _make_error(what: str) -> DecoupleError:
    return DecoupleError(
        f"the release's manifest does not say which {what} the official wheel has",
        next_step="decouple manifest fill RELEASE --write",
    )


def _parse_numbers(version: str) -> list[int]:
    """Parse the first three numbers of a version, as cuDNN and NCCL count."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None:
        raise DecoupleError(f"{version!r}: not a version of three numbers", next_step="mend verify/facts.toml")
    return [int(part) for part in match.groups()]
