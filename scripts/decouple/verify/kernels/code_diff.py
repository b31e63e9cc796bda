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


class CodeDifference(Struct, frozen=True):
    """One function in two libraries, compared by instruction.

    The number of instructions of both, how many are at their place but another one, and how many of ours stand nowhere
    in theirs. ``first`` is the first place that differs: number, ours, theirs in hex.
    """

    found: KernelDifference
    ours: int
    theirs: int
    moved: int
    foreign: int
    first: tuple[int, str, str]


def compare_code(
    ours: Sequence[Path], theirs: Sequence[Path], found: Iterable[KernelDifference]
) -> list[CodeDifference]:
    """Compare again the functions of ``found`` whose code differs.

    Those that are in both sides under the same name.
    """
    wanted = {
        (difference.arch, difference.file, difference.name): difference
        for difference in found
        if difference.what == "code"
    }
    sides = [_read_code(side, set(wanted)) for side in (ours, theirs)]
    return [
        _compare_instructions(difference, *(side[key] for side in sides))
        for key, difference in wanted.items()
        if all(key in s for s in sides)
    ]


def _read_code(libraries: Sequence[Path], wanted: set[tuple[str, str, str]]) -> dict[tuple[str, str, str], bytes]:
    result = {}
    for library in libraries:
        for arch in sorted({arch for arch, _, _ in wanted} & set(fatbin.count_images(library))):
            for image in fatbin.read_images(library, arch):
                read = cubin.read_cubin(image.data)
                for function in read.functions:
                    if (key := (arch, read.file, function.name)) in wanted:
                        result[key] = function.code
    return result


def _compare_instructions(found: KernelDifference, ours: bytes, theirs: bytes) -> CodeDifference:
    mine, other = _split_instructions(ours), _split_instructions(theirs)
    places = [number for number, (one, two) in enumerate(zip(mine, other, strict=False)) if one != two]
    at = places[0] if places else min(len(mine), len(other))
    shown = [side[at][::-1].hex() if at < len(side) else "" for side in (mine, other)]
    foreign = (Counter(mine) - Counter(other)).total()
    return CodeDifference(found, len(mine), len(other), len(places), foreign, (at, shown[0], shown[1]))


def _split_instructions(code: bytes) -> list[bytes]:
    return [code[at : at + _INSTRUCTION] for at in range(0, len(code), _INSTRUCTION)]
