"""How two functions differ in their bytes: what an explanation is written from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.verify.kernels import cubin, fatbin
from decouple.verify.kernels.compare import KernelDifference

#: Bytes of one instruction from sm_70 on.
_INSTRUCTION = 16


class Look(Struct, frozen=True):
    """One function in two libraries: number of instructions of both, how many are at their place but another one, and
    how many of ours stand nowhere in theirs. ``first`` is the first place that differs: number, ours, theirs in hex.
    """

    found: KernelDifference
    ours: int
    theirs: int
    moved: int
    foreign: int
    first: tuple[int, str, str]


def look(ours: Sequence[Path], theirs: Sequence[Path], found: Iterable[KernelDifference]) -> list[Look]:
    """The functions of ``found`` whose code differs and that are in both sides under the same name, read again."""
    wanted = {(one.arch, one.file, one.name): one for one in found if one.what == "code"}
    sides = [_code(side, set(wanted)) for side in (ours, theirs)]
    return [_look(one, *(side[key] for side in sides)) for key, one in wanted.items() if all(key in s for s in sides)]


def _code(libraries: Sequence[Path], wanted: set[tuple[str, str, str]]) -> dict[tuple[str, str, str], bytes]:
    result = {}
    for library in libraries:
        for arch in sorted({arch for arch, _, _ in wanted} & set(fatbin.architectures(library))):
            for image in fatbin.images(library, arch):
                read = cubin.read(image.data)
                for function in read.functions:
                    if (key := (arch, read.file, function.name)) in wanted:
                        result[key] = function.code
    return result


def _look(found: KernelDifference, ours: bytes, theirs: bytes) -> Look:
    mine, other = _instructions(ours), _instructions(theirs)
    places = [number for number, (one, two) in enumerate(zip(mine, other, strict=False)) if one != two]
    at = places[0] if places else min(len(mine), len(other))
    shown = [side[at][::-1].hex() if at < len(side) else "" for side in (mine, other)]
    foreign = (Counter(mine) - Counter(other)).total()
    return Look(found, len(mine), len(other), len(places), foreign, (at, shown[0], shown[1]))


def _instructions(code: bytes) -> list[bytes]:
    return [code[at : at + _INSTRUCTION] for at in range(0, len(code), _INSTRUCTION)]
