r"""Learn which bytes of a kernel's arguments nobody sets.

They are learned from runs of one build that differ in nothing else.

A structure that is given to a kernel has padding, and parts that this launch has no use for: in them lies what earlier
calls left on the stack. Such a byte says nothing of a build. It is told from others by trying: with ``--shake N`` a run
has other addresses, another heap, other bytes on the free stack. A byte that then changes where the same build launches
the same kernel for the same test is one that nobody set, or part of an address of the host, or measured time::

    python -m simcuda run --shake 1 pytest -p simcuda.plugin --simcuda-results 1.jsonl --simcuda-entries TESTS
    python -m simcuda run --shake 2 pytest -p simcuda.plugin --simcuda-results 2.jsonl --simcuda-entries TESTS
    python -m simcuda unset unset.txt 1.jsonl 2.jsonl
    python -m simcuda run --unset unset.txt pytest ...

What lies in a gap because of the operator's own earlier calls is the same in all runs of one build, and not in another
build's. That is seen under valgrind, whose memcheck knows of each bit whether it was ever set: then a ledger has "??"
for such a byte, and one run is enough::

    python -m simcuda doubt ours.jsonl theirs.jsonl > tests.txt
    python -m simcuda run valgrind -q --leak-check=no python -m pytest -p simcuda.plugin ... --simcuda-entries \
        --simcuda-only tests.txt FILES

``doubt`` chooses the tests that are worth it: of two builds' entries the fewest seconds of tests in which every byte
that differs between the two is met. What is quicker under valgrind teaches as well, as a file of own tests that call
the operators in question. It may launch a kernel in other ways than the tests did, and a byte that one launch leaves
unset is set in another: with ``unset --between ours.jsonl theirs.jsonl`` only bytes in which the two builds differ are
learned.

What was learned holds for any build of the same release: it is the kernels' arguments that have the gaps. A file whose
name ends with ``.xz`` is packed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import lzma
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from simcuda.errors import SimcudaError, explain_os_error

#: An entry's argument: device pointers as "[allocation,offset]", known gaps as "..", those that memcheck saw as "??",
#: the rest hexadecimal digits.
_PART = re.compile(r"\[\d+,\d+(?:,\d+)?\]|H|[0-9a-f.?]{2}")
_RANGE = re.compile(r"([0-9a-f]{16}) (\d+) (\d+) (\d+)", re.ASCII)
_NEVER_SET = "??"
_WORD = 8
_XZ_SUFFIX = ".xz"
_MOST_BYTES = 32764
"""Bytes of a kernel's arguments; CUDA takes no more."""
Launch = tuple[str, tuple[str, ...]]
#: A test and which of its processes: "" the one that ran it, else as "2/4" in the order in which they were started. The
#: number of them is in it: where one launched nothing in one of two runs, it is not known which is which.
Launcher = tuple[str, str]
Launches = Mapping[Launcher, Sequence[Launch]]
#: Kernel -> (argument, byte) of those that nobody sets.
Gaps = dict[str, set[tuple[int, int]]]


def read_launches(path: Path) -> dict[Launcher, list[Launch]]:
    """Return kernel and arguments of each launch, by test and process.

    They are of a file that the plug-in wrote with ``--simcuda-entries``. Kernels whose argument sizes are not known
    have no arguments here.
    """
    launches = {}
    with _explain_unreadable(path), path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):  # of a run that was stopped
                break
            row: dict[str, Any] = json.loads(line)
            if "entries" in row:
                test, others = str(row["id"]), row.get("processes", [])
                launches[test, ""] = _list_launches(row["entries"])
                for number, entries in enumerate(others, 1):
                    launches[test, f"{number}/{len(others)}"] = _list_launches(entries)
    return launches


def _list_launches(entries: Sequence[Sequence[Any]]) -> list[Launch]:
    return [(str(entry[1]), tuple(entry[-1].split(" "))) for entry in entries if entry[0] == "launch"]


@contextlib.contextmanager
def _explain_unreadable(path: Path) -> Iterator[None]:
    """Tell what a file that cannot be read is not. Raises SimcudaError."""
    try:
        with explain_os_error(path, "name a file that simcuda wrote"):
            yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, EOFError, lzma.LZMAError) as error:
        raise SimcudaError(
            f"{path}: not what simcuda writes: {type(error).__name__}: {error}", next_step="write it anew"
        ) from None


def learn_gaps(runs: Sequence[Launches]) -> Gaps:
    """Return the bytes memcheck saw, and those that differ between two of ``runs``.

    They differ in the same launch of the same process of the same test. One that launched other kernels in one of them
    is left out: its launches cannot be laid side by side.
    """
    gaps: Gaps = {}
    seen: set[int] = set()
    for kernel, arguments in {launch for run in runs for launched in run.values() for launch in launched}:
        for number, argument in enumerate(arguments):
            if _NEVER_SET in argument:
                places = {(number, at) for at, part in enumerate(split_argument(argument)) if part == _NEVER_SET}
                gaps.setdefault(kernel, set()).update(places)
    for first, second in itertools.combinations(runs, 2):
        for _, kernel, number, mine, yours in _pair_arguments(first, second):
            if (pair := hash((kernel, number, mine, yours))) not in seen:
                seen.add(pair)
                known = gaps.setdefault(kernel, set())
                differ = find_differing_bytes(
                    split_argument(mine), split_argument(yours), {at for where, at in known if where == number}
                )
                known.update((number, at) for at in differ)
    return {kernel: places for kernel, places in gaps.items() if places}


def _pair_arguments(first: Launches, second: Launches) -> Iterator[tuple[str, str, int, str, str]]:
    """Yield test, kernel, number and both texts of arguments that differ."""
    for launcher in first.keys() & second.keys():
        if [name for name, _ in first[launcher]] != [name for name, _ in second[launcher]]:
            continue
        for (kernel, ours), (_, theirs) in zip(first[launcher], second[launcher], strict=True):
            for number, (mine, yours) in enumerate(zip(ours, theirs, strict=False)):
                if mine != yours:
                    yield launcher[0], kernel, number, mine, yours


def find_differences(first: Launches, second: Launches) -> dict[str, Gaps]:
    """Return, by test, the bytes of kernels' arguments in which two builds differ.

    They differ in the same launch of the same process of the same test. One that launched other kernels on ``second``
    is left out.
    """
    differences: dict[str, Gaps] = {}
    known: dict[tuple[str, str], frozenset[int]] = {}
    for test, kernel, number, mine, yours in _pair_arguments(first, second):
        if (mine, yours) not in known:
            known[mine, yours] = frozenset(find_differing_bytes(split_argument(mine), split_argument(yours)))
        met = differences.setdefault(test, {}).setdefault(kernel, set())
        met.update((number, at) for at in known[mine, yours])
    return differences


def keep_differing(gaps: Gaps, first: Launches, second: Launches) -> Gaps:
    """Return those of ``gaps`` in which two builds differ in a test.

    Those in which they agree go on being compared.
    """
    kept: Gaps = {}
    for kernels in find_differences(first, second).values():
        for kernel, met in kernels.items():
            if places := met & gaps.get(kernel, set()):
                kept.setdefault(kernel, set()).update(places)
    return kept


def choose_tests(first: Path, second: Path) -> list[str]:
    """Choose tests to ask memcheck about, of two builds' files with entries.

    ``first`` says how long each took. Together they meet every byte of an argument in which the builds differ in the
    same launch of the same test, at the least seconds, as far as choosing the best next one tells. Processes that
    launched other kernels on ``second`` are left out.
    """
    seconds = _read_seconds(first)
    places = {
        test: {(kernel, *place) for kernel, met in kernels.items() for place in met}
        for test, kernels in find_differences(read_launches(first), read_launches(second)).items()
    }
    chosen: list[str] = []
    left: set[tuple[str, int, int]] = set().union(*places.values())
    while left:
        best = max(sorted(places), key=lambda test: len(places[test] & left) / (_STARTUP_SECONDS + seconds[test]))
        chosen.append(best)
        left -= places.pop(best)
    return chosen


#: Seconds that a test costs besides its own.
_STARTUP_SECONDS = 0.3


def _read_seconds(path: Path) -> dict[str, float]:
    with _explain_unreadable(path), path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return {str(row["id"]): float(row["seconds"]) for row in rows if "entries" in row}


def split_argument(argument: str) -> list[str]:
    """Return a text for each byte.

    The text is its digits, or of a device pointer the pointer and which byte of it.

    >>> split_argument("00ff[1,512]") == ["00", "ff", *(f"[1,512]{n}" for n in range(8))]
    True
    """
    parts: list[str] = []
    for part in _PART.findall(argument):
        parts += [part] if len(part) == 2 else [f"{part}{n}" for n in range(_WORD)]
    return parts


def find_differing_bytes(first: Sequence[str], second: Sequence[str], known: Set[int] = frozenset()) -> set[int]:
    """Return the bytes that are not the same in both.

    Of a word that is an address of the host in both, all bytes are returned. Those that are ``known`` to differ are not
    looked at. Two pointers to device memory were set: what differs is where the allocator put it.

    The low bits of an address are the same in every run of one build, and not in another build's. An argument that is
    one number differs from its lowest byte on when it was measured (a time): then all of it does. Padding comes behind
    what is set.
    """
    positions = {
        at
        for at, (mine, yours) in enumerate(zip(first, second, strict=False))
        if mine != yours and at not in known and not (mine[0] == yours[0] == "[")
    }
    if 0 in positions and len(first) <= _WORD:
        return set(range(len(first)))
    for at in sorted(positions):
        for start in range(max(0, at - _WORD + 1), at + 1):
            if _is_address(first[start : start + _WORD]) and _is_address(second[start : start + _WORD]):
                positions.update(range(start, start + _WORD))
                break
    return positions


def _is_address(word: Sequence[str]) -> bool:
    """Return whether eight bytes are a Linux x86-64 address: above sizes, below 2**47."""
    return len(word) == _WORD and all(len(part) == 2 for part in word) and word[5] in _HIGH and word[6:] == ["00", "00"]


#: The sixth byte of addresses of programs, heaps, libraries and stacks.
_HIGH = frozenset(f"{value:02x}" for value in (0x55, 0x56, 0x7E, 0x7F))


def read_table(path: Path) -> Gaps:
    """Read what `format_table` wrote, by digests of names."""
    gaps: Gaps = {}
    with _explain_unreadable(path):
        ranges = _parse_ranges(_read_text(path))
    for kernel, number, first, last in ranges:
        gaps.setdefault(kernel, set()).update((number, at) for at in range(first, last))
    return gaps


def _parse_ranges(text: str) -> list[tuple[str, int, int, int]]:
    """Read kernel, argument, first byte and byte after the last of each line.

    Raises ValueError for a line that is none.
    """
    ranges = []
    for count, line in enumerate(text.splitlines(), 1):
        if not (found := _RANGE.fullmatch(line)):
            raise ValueError(f"line {count}: {line[:40]}")
        if int(found[4]) > _MOST_BYTES:
            raise ValueError(f"byte {found[4][:20]} of an argument, more than {_MOST_BYTES}")
        ranges.append((found[1], int(found[2]), int(found[3]), int(found[4])))
    return ranges


def _read_text(path: Path) -> str:
    """Read the text of a table, unpacked where it is packed."""
    raw = path.read_bytes()
    return (lzma.decompress(raw) if path.suffix == _XZ_SUFFIX else raw).decode("utf-8")


def write_table(path: Path, lines: str) -> None:
    """Write what `format_table` returned, packed if ``path`` ends with ``.xz``."""
    raw = lines.encode()
    path.write_bytes(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME) if path.suffix == _XZ_SUFFIX else raw)


def unpack_table(path: Path, folder: Path) -> Path:
    """Return where the runtime finds the text of a table.

    The runtime knows no xz; the text is in ``folder`` where the table is packed. Raises SimcudaError where it is
    damaged: the runtime reads up to the first line that is none.
    """
    with _explain_unreadable(path):
        lines = _read_text(path)
        _parse_ranges(lines)
    if path.suffix != _XZ_SUFFIX:
        return path
    unpacked = folder / f"{hashlib.sha256(lines.encode()).hexdigest()}.txt"
    if not unpacked.exists():
        with explain_os_error(folder, "set SIMCUDA_CACHE to a folder that can be written"):
            folder.mkdir(parents=True, exist_ok=True)
            partial = unpacked.with_suffix(f".{os.getpid()}")
            partial.write_text(lines, encoding="utf-8")
            partial.replace(unpacked)
    return unpacked


def format_table(
    gaps: Mapping[str, Iterable[tuple[int, int]]], known: Mapping[str, Iterable[tuple[int, int]]] = {}
) -> str:
    """Return the file's text, with a line per range of bytes.

    It is the digest of a kernel's name, the argument, the first byte and the byte after the last. ``known`` is what
    `read_table` read, and stays in it.
    """
    table = {kernel: set(places) for kernel, places in known.items()}
    for kernel, places in gaps.items():
        table.setdefault(hash_kernel_name(kernel), set()).update(places)
    lines = []
    for kernel, places in table.items():
        for number, group in itertools.groupby(sorted(places), lambda place: place[0]):
            bytes_ = [at for _, at in group]
            starts = [at for at in bytes_ if at - 1 not in bytes_]
            ends = [at + 1 for at in bytes_ if at + 1 not in bytes_]
            lines += [f"{kernel} {number} {a} {b}" for a, b in zip(starts, ends, strict=True)]
    return "".join(f"{line}\n" for line in sorted(lines))


def hash_kernel_name(kernel: str) -> str:
    """FNV-1a of 64 bits, as native/runtime/unset.cpp has it."""
    value = 1469598103934665603
    for byte in kernel.encode():
        value = (value ^ byte) * 1099511628211 % (1 << 64)
    return f"{value:016x}"
