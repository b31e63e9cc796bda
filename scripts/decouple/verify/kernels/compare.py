"""Compare two dumps, function by function.

Equal functions have the same machine code, launched with the same resources.

Functions of one file are paired by name; what stays is paired by its readable name without CUB's and Thrust's inline
namespaces (they shift the numbers of a mangled name), then with a file of another name. What still stays and has the
same code in the same file was renamed. Everything else is missing or extra.

Initialised variables of the device are judged, too. Those of a host's object are counted alone: its tables and texts
follow the classes and lines that the patches change.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.base.percent import cut_percent
from decouple.verify.kernels import host_code
from decouple.verify.kernels.cubin import PATH_OF
from decouple.verify.kernels.dump import Kernel, KernelDump, KernelUnit

_FILE = Path(__file__).with_name("explained.toml")
_CONTENT = "another content"
_INLINE = re.compile(r"\b(?:CUB|THRUST)_\d+(?:_\d+)*_NS::")


class KernelDifference(Struct, frozen=True):
    """One function, or one initialised variable ("data"), that is not the same.

    ``what`` is of a function "code", "launch" (same code, other resources), "missing", "extra". ``detail`` says how it
    differs; ``reason`` why, where ``explained.toml`` says so, else empty.
    """

    what: str
    arch: str
    file: str
    name: str
    detail: str
    reason: str = ""


class KernelComparison(Struct, frozen=True):
    """How many functions the other side has, and how many are the same here.

    ``total`` and ``same``; the rest by name. ``renamed`` of those that are the same have another name; ``data`` are
    initialised variables, of which ``data_same`` have the same content. ``sources`` counts the files compared,
    ``left_out`` has architectures that were not compared though nobody chose so.
    """

    ours: str
    theirs: str
    archs: tuple[str, ...]
    sources: int
    of_sources: int
    total: int
    same: int
    renamed: int
    data: int
    data_same: int
    found: tuple[KernelDifference, ...]
    left_out: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every function and variable is the same or explained."""
        return self.total > 0 and all(difference.reason for difference in self.found)

    @property
    def percent(self) -> float:
        """The share of the other side's functions that are the same here.

        100 only when all are.
        """
        return cut_percent(self.same, self.total)

    def count(self, what: str) -> int:
        """Return how many differences of this kind were found."""
        return sum(difference.what == what for difference in self.found)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for the status file."""
        found = {what: self.count(what) for what in ("missing", "extra")}
        plain = ("ours", "theirs", "archs", "sources", "of_sources", "total", "same")
        unexplained = sum(not difference.reason for difference in self.found)
        return {name: getattr(self, name) for name in plain} | found | {"unexplained": unexplained}


class _KernelPair(Struct, frozen=True):
    arch: str
    file: str
    ours: Kernel
    theirs: Kernel
    renamed: bool = False


def compare_dumps(
    ours: KernelDump,
    theirs: KernelDump,
    *,
    part: bool = False,
    attention: bool = True,
    sides: str = "",
    witness: KernelDump | None = None,
) -> KernelComparison:
    """Compare every function of ``theirs`` with ``ours``.

    In every architecture that either dump has: functions for one that ours lacks are missing. Who compares less keeps
    less of both (`KernelDump.keep_archs`). ``part`` leaves out the files that ours has not, for a build of a part;
    without ``attention`` the files of the attention kernels are left out, for a build that was asked for without them;
    ``sides`` names both for the explanations ("built/official"). What differs and is as in ``witness``, a third build,
    is explained by that: it is ``theirs`` that is different. Raises DecoupleError when the two share no architecture.
    """
    archs = tuple(sorted({*ours.architectures(), *theirs.architectures()}))
    if not set(ours.architectures()) & set(theirs.architectures()):
        raise DecoupleError(
            f"no architecture in both: {', '.join(ours.architectures())} and {', '.join(theirs.architectures())}",
            next_step="--arch names one that both have; of the official wheel, another than sm_90 is fetched",
        )
    mine = {(unit.arch, unit.file): unit for unit in ours.units}
    wanted = {(unit.arch, unit.file): unit for unit in theirs.units}
    every = len({file for _, file in wanted})
    if part:
        files = {file for _, file in mine}
        wanted = {key: unit for key, unit in wanted.items() if key[1] in files}
    if not attention:
        wanted = {key: unit for key, unit in wanted.items() if not _load_file().attention.fullmatch(unit.file)}
    pairs, extra, missing = _pair_kernels(mine, wanted)
    found = [_describe_difference(pair) for pair in pairs if pair.ours.code != pair.theirs.code]
    found += [
        KernelDifference(
            "launch", pair.arch, pair.file, pair.theirs.name, "the same code with other resources or constants"
        )
        for pair in pairs
        if pair.ours.code == pair.theirs.code and pair.ours.launch != pair.theirs.launch
    ]
    found += [
        KernelDifference("missing", arch, file, kernel.name, f"{kernel.size} bytes") for arch, file, kernel in missing
    ]
    found += [
        KernelDifference("extra", arch, file, kernel.name, f"{kernel.size} bytes") for arch, file, kernel in extra
    ]
    data = [_count_data(side) for side in (mine, wanted)]
    found += _describe_data(data[0] - data[1], data[1] - data[0])
    same = [pair for pair in pairs if (pair.ours.code, pair.ours.launch) == (pair.theirs.code, pair.theirs.launch)]
    return KernelComparison(
        ours=ours.label,
        theirs=theirs.label,
        archs=archs,
        sources=len({file for _, file in wanted}),
        of_sources=every,
        total=sum(len(unit.kernels) for unit in wanted.values()),
        same=len(same),
        renamed=sum(pair.renamed for pair in same),
        data=data[1].total(),
        data_same=(data[0] & data[1]).total(),
        found=tuple(_explain_by_witness(_add_reasons(sorted(found, key=_make_sort_key), sides), ours, witness)),
    )


def _make_sort_key(one: KernelDifference) -> tuple[str, ...]:
    return one.what, one.arch, one.file, one.name


def _describe_difference(pair: _KernelPair) -> KernelDifference:
    one, other = pair.ours.size, pair.theirs.size
    how = f"{one} bytes in both" if one == other else f"{one} bytes instead of {other}"
    return KernelDifference("code", pair.arch, pair.file, pair.theirs.name, how)


_Data = Counter[tuple[str, str, str, str]]


def _count_data(side: Mapping[tuple[str, str], KernelUnit]) -> _Data:
    """Count the initialised variables by architecture, file, readable name and digest."""
    return Counter((*key, simplify_name(name), digest) for key, unit in side.items() for name, digest in unit.data)


def _describe_data(ours: _Data, theirs: _Data) -> Iterator[KernelDifference]:
    """Describe the variables of a device that only one side has so, paired by name."""
    alone = [Counter(key[:3] for key in side.elements()) for side in (ours, theirs)]
    for arch, file, name in sorted(alone[0] | alone[1]):
        if arch != host_code.ARCH:
            mine, other = (side[arch, file, name] for side in alone)
            details = [_CONTENT] * min(mine, other)
            details += ["only ours has it"] * (mine - other) + ["only theirs has it"] * (other - mine)
            for detail in details:
                yield KernelDifference("data", arch, file, name, detail)


_Unpaired = list[tuple[str, str, Kernel]]


def _pair_kernels(
    mine: Mapping[tuple[str, str], KernelUnit], wanted: Mapping[tuple[str, str], KernelUnit]
) -> tuple[list[_KernelPair], _Unpaired, _Unpaired]:
    """Return the pairs, ours without a partner, theirs without one."""
    left: _Unpaired = [(*key, kernel) for key, unit in mine.items() for kernel in unit.kernels]
    right: _Unpaired = [(*key, kernel) for key, unit in wanted.items() for kernel in unit.kernels]
    pairs: list[_KernelPair] = []
    passes: list[tuple[Callable[[str, str, Kernel], Hashable], bool]] = [
        (lambda arch, file, one: (arch, file, one.name), False),
        (lambda arch, file, one: (arch, file, simplify_name(one.name)), False),
        (lambda arch, file, one: (arch, simplify_name(one.name)), False),
        (lambda arch, file, one: (arch, file, one.code, one.launch), True),
    ]
    for key, renamed in passes:
        made, left, right = _match_keys(left, right, key)
        pairs += [replace(pair, renamed=renamed) for pair in made]
    return pairs, left, right


def _match_keys(
    left: _Unpaired, right: _Unpaired, key: Callable[[str, str, Kernel], Hashable]
) -> tuple[list[_KernelPair], _Unpaired, _Unpaired]:
    """Pair what has the same key; of several, those with the same code first."""
    waiting: dict[Hashable, list[tuple[str, str, Kernel]]] = defaultdict(list)
    for row in left:
        waiting[key(*row)].append(row)
    pairs, alone, late = [], [], []
    for row in right:
        candidates = waiting.get(key(*row), [])
        same = next((candidate for candidate in candidates if candidate[2].code == row[2].code), None)
        if same:
            candidates.remove(same)
            pairs.append(_KernelPair(row[0], row[1], same[2], row[2]))
        else:
            late.append(row)
    for row in late:
        if candidates := waiting.get(key(*row), []):
            pairs.append(_KernelPair(row[0], row[1], candidates.pop(0)[2], row[2]))
        else:
            alone.append(row)
    return pairs, [row for rows in waiting.values() for row in rows], alone


def simplify_name(name: str) -> str:
    """Demangle a name, without CUB's and Thrust's inline namespaces.

    It stays as it is when it cannot be read.

    >>> simplify_name("_ZN3cub13CUB_200302_NS3fooEv")
    'cub::foo()'
    """
    return _INLINE.sub("", demangle_name(name))


@cache
def demangle_name(name: str) -> str:
    """Demangle a name by the C++ runtime. ``__cxa_demangle`` of the Itanium C++ ABI."""
    function = _load_demangler()
    if function is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    pointer = function(name.encode(), None, None, ctypes.byref(status))
    if not pointer:
        return name
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        _load_libc().free(ctypes.c_void_p(pointer))


@cache
def _load_demangler() -> Any:
    library = ctypes.util.find_library("stdc++") or "libstdc++.so.6"
    try:
        function = ctypes.CDLL(library).__cxa_demangle
    except OSError:
        return None  # names are then compared as they are: more of them count as renamed
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return function


@cache
def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _explain_by_witness(
    found: Iterable[KernelDifference], ours: KernelDump, witness: KernelDump | None
) -> Iterable[KernelDifference]:
    """Return ``found`` with ``witness`` as a reason.

    The reason for what it has, or has not, as ours.
    """
    if witness is None:
        return found
    sides = [{(unit.arch, unit.file): unit for unit in side.units} for side in (ours, witness)]
    functions = [_list_functions(side) for side in sides]
    variables = [_list_contents(side) for side in sides]

    def as_ours(one: KernelDifference) -> bool:
        if not all((one.arch, one.file) in side for side in sides):
            return False
        name = simplify_name(one.name)
        mine, its = (side.get((one.arch, one.file, name), []) for side in functions)
        own, seen = (side.get((one.arch, "", name), []) for side in functions)
        if one.what == "data":  # its name is readable
            mine, its = (side.get((one.arch, one.file, one.name), []) for side in variables)
        elif one.what == "missing" and not mine and not its:  # nor may it be elsewhere in the witness
            return len(seen) <= len(own)
        elif one.what != "missing" and not mine:  # ours compiles it in another file
            return own == seen
        return mine == its

    said = f"{witness.label} is as ours"
    return [
        replace(difference, reason=said) if not difference.reason and as_ours(difference) else difference
        for difference in found
    ]


def _list_functions(side: Mapping[tuple[str, str], KernelUnit]) -> dict[tuple[str, str, str], list[str]]:
    """Return the functions' digests by architecture, file and readable name.

    As a difference is paired: mangled names have the number of CUB's release. Of all files under the file "".
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for (arch, file), unit in side.items():
        for kernel in unit.kernels:
            for where in (file, ""):
                found.setdefault((arch, where, simplify_name(kernel.name)), []).append(f"{kernel.code} {kernel.launch}")
    return {key: sorted(digests) for key, digests in found.items()}


def _list_contents(side: Mapping[tuple[str, str], KernelUnit]) -> dict[tuple[str, str, str], list[str]]:
    """Return the digests of the variables of each architecture, file and name."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for arch, file, name, digest in sorted(_count_data(side).elements()):
        found.setdefault((arch, file, name), []).append(digest)
    return found


class KernelExplanation(Struct, frozen=True):
    """A reason, and the number of functions or variables examined by kind and file."""

    sides: tuple[str, ...]
    reason: str
    code: dict[str, int] = field(default_factory=dict)
    launch: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    extra: dict[str, int] = field(default_factory=dict)
    data: dict[str, int] = field(default_factory=dict)

    def looked_at(self, what: str) -> dict[str, int]:
        """Map each file to a number, for one kind."""
        return {
            "code": self.code,
            "launch": self.launch,
            "missing": self.missing,
            "extra": self.extra,
            "data": self.data,
        }[what]


class _File(Struct, frozen=True):
    attention: re.Pattern[str]
    paths: str
    explained: tuple[KernelExplanation, ...]


@cache
def _load_file() -> _File:
    return toml.read_own_table(_FILE, _File)


def load_explanations() -> tuple[KernelExplanation, ...]:
    """Return the rows of ``explained.toml``."""
    return _load_file().explained


def _add_reasons(found: Sequence[KernelDifference], sides: str) -> Iterable[KernelDifference]:
    """Return ``found`` with the reasons of ``explained.toml``.

    A row is a reason where it counts as many of that kind in that file, or more. One more than was looked at, and none
    of them is explained.
    """
    counted = Counter((difference.what, difference.file) for difference in found)
    for difference in found:
        told = [
            row.reason
            for row in load_explanations()
            if sides in row.sides
            and counted[difference.what, difference.file] <= row.looked_at(difference.what).get(difference.file, 0)
        ]
        if difference.what == "data" and difference.name.startswith(PATH_OF) and difference.detail == _CONTENT:
            told.append(_load_file().paths)
        yield replace(difference, reason=told[0] if told else "")
