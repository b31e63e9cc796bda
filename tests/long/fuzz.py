"""Hostile patches: mutated by the ten thousand, read, applied in memory, and compared with ``git apply``.

    python tests/long/fuzz.py [--count 20000] [--seed 1] [--json FILE]

For every mutated patch, forward and in reverse:

* reading it raises nothing and loses no byte, applying it raises nothing but DecoupleError and ends within a second;
* nothing outside the tree is named in what would be written;
* if it applies here, ``git apply`` takes it too, with the same bytes and modes;
* if git takes it and we do not, the reason is on the list of deliberate refusals (``patch.apply``, ``patch``).

Exit code 1 and the offending input in ``--keep FOLDER`` if any of this fails. ``--seed`` makes a run repeatable.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from decouple.base.git import EXECUTABLE, REGULAR, TREE
from decouple.patch import parse as patch
from decouple.patch.apply import File, PatchResult, Tree, apply_patch, find_path_fault

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support import reference

#: a second for one input is a hang: the largest input is some 100 KB, which takes milliseconds
TIME_LIMIT = 1.0

#: problems of the reader that git does not share, each a decision (see decouple.patch.parse)
#: ("orphan-hunk": git skips hunks that belong to no file as junk, behind a binary patch for instance, and says nothing)
#: ("carrier": a mailbox of two patches, which git apply takes for one)
REFUSED_READING = {"hunk-line", "hunk-header", "name", "mode", "lone-header", "orphan-hunk", "carrier"}
#: failures of the applier that git does not share (see decouple.patch.apply)
REFUSED_APPLYING = {"unsupported", "exists", "path"}


@dataclass(frozen=True)
class Case:
    """A patch and the files it meets."""

    text: bytes
    files: dict[str, File]


@dataclass
class Tally:
    """What a run saw."""

    cases: int = 0
    readable: int = 0
    applied: int = 0
    agreed: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)


class Files:
    """A Source over a dict, with the directories that its paths imply."""

    def __init__(self, files: dict[str, File]) -> None:
        self._files = files
        self._folders = {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}

    def mode(self, path: str) -> int | None:
        if path in self._files:
            return self._files[path].mode
        return TREE if path in self._folders else None

    def read(self, path: str) -> bytes:
        return self._files[path].data


# -- seeds -----------------------------------------------------------------------------------------------------------

_WORDS = [b"", b"}", b"{", b"  return x;", b"int a;", b"int b;", b"foo(bar)", b"#endif", b"\t\xff\xfe", b"x" * 90]


def random_lines(rng: random.Random, count: int) -> list[bytes]:
    """Few different lines, so that context repeats and offsets are ambiguous."""
    end = rng.choice([b"\n", b"\n", b"\n", b"\r\n"])
    return [rng.choice(_WORDS) + (b"%d" % rng.randrange(3) if rng.random() < 0.4 else b"") + end for _ in range(count)]


def edited(rng: random.Random, lines: list[bytes], edits: int) -> list[bytes]:
    """``lines`` with some replaced, removed and added."""
    out = list(lines)
    for _ in range(edits):
        at = rng.randrange(len(out) + 1)
        kind = rng.random()
        if kind < 0.4 or not out:
            out.insert(at, b"new %d\n" % rng.randrange(5))
        elif kind < 0.7:
            del out[min(at, len(out) - 1)]
        else:
            out[min(at, len(out) - 1)] = b"changed %d\n" % rng.randrange(5)
    return out


def seed_case(rng: random.Random) -> Case:
    """Make a correct patch of one to three files in one of the habits, and files that it may meet."""
    sections: list[bytes] = []
    files: dict[str, File] = {}
    for number in range(rng.randint(1, 3)):
        name = rng.choice(["f%d.c", "dir/f%d.c", "dir/sub/f %d.txt", "dir/f%d"]) % number
        old = random_lines(rng, rng.choice([0, 1, 4, 12, 40]))
        new = edited(rng, old, rng.randint(1, 4))
        for lines in (old, new):
            if lines and rng.random() < 0.2:
                lines[-1] = lines[-1].rstrip(b"\r\n") or b"x"
        creates, deletes = rng.random() < 0.15, rng.random() < 0.1
        mode = rng.choice([REGULAR, EXECUTABLE])
        if creates:
            old = []
        elif deletes:
            new = []
        if old == new:
            continue
        present = old if rng.random() < 0.6 else edited(rng, old, rng.randint(1, 3))
        if rng.random() < 0.1:
            present = new
        if not creates or rng.random() < 0.1:
            files[name] = File(mode, b"".join(present))
        sections.append(section(rng, name, old, new, mode, creates=creates, deletes=deletes, files=files))
    header = rng.choice(
        [b"", b"Description: x\n y\nOrigin: vendor\n\n", b"From: A <a@b>\nSubject: x\n\nbody\n---\n f | 2\n"]
    )
    trailer = rng.choice([b"", b"", b"-- \n2.39.5\n\n", b"\njunk\n"])
    return Case(header + b"".join(sections) + trailer, files)


def section(
    rng: random.Random,
    name: str,
    old: list[bytes],
    new: list[bytes],
    mode: int,
    *,
    creates: bool,
    deletes: bool,
    files: dict[str, File],
) -> bytes:
    """One file section: git's format, a traditional one, an ``Index:`` one; at times a rename, copy or mode change."""
    path = name.encode()
    hunks = unified(old, new, rng.choice([3, 3, 3, 1, 0]))
    habit = rng.random()
    if habit < 0.6:
        lines = [b"diff --git a/%s b/%s" % (path, path)]
        source, target = b"a/" + path, b"b/" + path
        if creates:
            lines.append(b"new file mode %o" % mode)
            source = b"/dev/null"
        elif deletes:
            lines.append(b"deleted file mode %o" % mode)
            target = b"/dev/null"
        elif rng.random() < 0.25:
            word = rng.choice([b"rename", b"copy"])
            moved = b"moved/" + path
            lines = [b"diff --git a/%s b/%s" % (path, moved), b"similarity index 90%"]
            lines += [word + b" from " + path, word + b" to " + moved]
            target = b"b/" + moved
            if rng.random() < 0.1:
                files[moved.decode()] = File(REGULAR, b"there already\n")
            if rng.random() < 0.4:
                return b"\n".join(lines) + b"\n"
        elif rng.random() < 0.2:
            lines += [b"old mode 100644", b"new mode 100755"]
            if rng.random() < 0.5:
                return b"\n".join(lines) + b"\n"
        lines.append(b"index %s..%s%s" % (b"1" * 40, b"2" * 40, b"" if creates or deletes else b" 100644"))
        lines += [b"--- " + source, b"+++ " + target]
        return b"\n".join(lines) + b"\n" + hunks
    tail = rng.choice([b"", b"\t2024-01-02 03:04:05.000000000 +0100", b" 2024-01-02 03:04:05"])
    epoch = b"\t1970-01-01 00:00:00.000000000 +0000"
    source = (
        b"--- /dev/null\n" if creates and rng.random() < 0.5 else b"--- a/%s%s\n" % (path, epoch if creates else tail)
    )
    target = (
        b"+++ /dev/null\n" if deletes and rng.random() < 0.5 else b"+++ b/%s%s\n" % (path, epoch if deletes else tail)
    )
    index = b"Index: a/%s\n%s\n" % (path, b"=" * 67) if habit < 0.8 else b""
    return index + source + target + hunks


def unified(old: list[bytes], new: list[bytes], context: int) -> bytes:
    """Return the hunks of a unified diff; difflib wants text, so lines travel as Latin-1."""
    texts = [[line.decode("latin-1") for line in lines] for lines in (old, new)]
    out = bytearray()
    for line in list(difflib.unified_diff(texts[0], texts[1], n=context))[2:]:
        out += line.encode("latin-1")
        if not line.endswith("\n"):
            out += b"\n\\ No newline at end of file\n"
    return bytes(out)


# -- mutations -------------------------------------------------------------------------------------------------------

_TOKENS = [
    b"\\ No newline at end of file\n",
    b"@@ -1,3 +1,4 @@\n",
    b"@@ -0,0 +1 @@\n",
    b"@@ -99999999999999999999,1 +1,1 @@\n",
    b"--- a/../../etc/passwd\n+++ b/../../etc/passwd\n",
    b"--- /etc/passwd\n+++ /etc/passwd\n",
    b"diff --git a/.git/config b/.git/config\n",
    b"diff --git a/x b/x\n",
    b"rename from ../x\nrename to y\n",
    b"rename to dir\n",
    b"new file mode 120000\n",
    b"new file mode 160000\n",
    b"deleted file mode 100644\n",
    b"index 1111111..2222222 160000\n",
    b"GIT binary patch\nliteral 3\nKcmZ\n\n",
    b"Binary files a/x and b/x differ\n",
    b'--- "a/\\056\\056/x"\n+++ "b/\\056\\056/x"\n',
    b"\r\n",
    b"\n",
    b"\0",
    b" ",
    b"+",
    b"-",
]


def mutate(rng: random.Random, text: bytes) -> bytes:
    """One to three small changes."""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        text = rng.choice(_MUTATIONS)(rng, text)
    return text


def _flip(rng: random.Random, text: bytes) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + bytes([rng.randrange(256)]) + text[at + rng.randint(0, 1) :]


def _cut(rng: random.Random, text: bytes) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _line_change(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True) or [b""]
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    action = rng.randrange(4)
    if action == 0:
        del lines[at]
    elif action == 1:
        lines.insert(at, lines[other])
    elif action == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = rng.choice([b" ", b"+", b"-", b"\\"]) + lines[at][1:]
    return b"".join(lines)


def _token(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(_TOKENS))
    return b"".join(lines)


def _number(rng: random.Random, text: bytes) -> bytes:
    digits = [at for at, letter in enumerate(text) if 48 <= letter <= 57]
    if not digits:
        return text
    at = rng.choice(digits)
    return text[:at] + rng.choice([b"0", b"1", b"7", b"12", b"-1", b"4294967297", b""]) + text[at + 1 :]


def _crlf(rng: random.Random, text: bytes) -> bytes:
    return text.replace(b"\n", b"\r\n") if rng.random() < 0.5 else text.replace(b"\n", b"\r\n", rng.randint(1, 5))


def _path(rng: random.Random, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    named = [at for at, line in enumerate(lines) if line.startswith((b"---", b"+++", b"diff", b"rename", b"copy"))]
    if not named:
        return text
    at = rng.choice(named)
    words = lines[at].rstrip(b"\n").split(b" ")
    evil = [
        b"/etc/x",
        b"a/../x",
        b"a/.git/x",
        b"a/dir/../../x",
        b"a//f0.c",
        b"a/f0.c",
        b"b/dir/f0.c",
        b"a/.GIT/x",
        b"f0.c",
        b"",
    ]
    words[rng.randrange(len(words))] = rng.choice(evil)
    lines[at] = b" ".join(words) + b"\n"
    return b"".join(lines)


def _twice(rng: random.Random, text: bytes) -> bytes:
    return text + text


_MUTATIONS: list[Callable[[random.Random, bytes], bytes]] = [
    _flip,
    _flip,
    _cut,
    _line_change,
    _line_change,
    _line_change,
    _token,
    _token,
    _number,
    _number,
    _crlf,
    _path,
    _path,
    _twice,
]


# -- the judge -------------------------------------------------------------------------------------------------------


def judge(case: Case, tally: Tally, *, compare: bool = True) -> str | None:
    """Read and apply one case both ways; what is wrong, or None. ``compare``: also run ``git apply``."""
    tally.cases += 1
    began = time.process_time()
    try:
        read, problems = patch.scan_patch(case.text)
        if not problems and read.to_text() != case.text:
            return "the reader lost bytes"
        results = {}
        for reverse in (False, True):
            results[reverse] = apply_patch(read, Tree(Files(case.files)), reverse=reverse)
    except RecursionError as error:
        return f"recursion: {error}"
    except Exception as error:  # any exception at all is what this looks for
        return f"{type(error).__name__}: {error}"
    took = time.process_time() - began
    tally.slowest = max(tally.slowest, took)
    if took > TIME_LIMIT:
        return f"took {took:.1f} s"
    for result in results.values():
        for path in result.changes:
            if find_path_fault(path):
                return f"would write {path!r}"
    readable = not problems and bool(read.files)
    tally.readable += readable
    if not compare:
        return None
    for reverse, result in results.items():
        if reverse and not readable:
            continue  # what is no patch forward is none backward
        said = _against_git(case, tally, problems, readable, result, reverse)
        if said:
            return ("in reverse: " if reverse else "") + said
    return None


def _against_git(
    case: Case,
    tally: Tally,
    problems: tuple[patch.Problem, ...],
    readable: bool,
    result: PatchResult,
    reverse: bool,
) -> str | None:
    theirs = reference.git_apply(case.text, case.files, reverse=reverse)
    ours = readable and result.applies
    tally.applied += ours
    if ours:
        if not theirs.applied:
            return f"applies here, git says: {theirs.said.strip()}"
        after = dict(case.files)
        for path, file in result.changes.items():
            if file is None:
                after.pop(path, None)
            else:
                after[path] = file
        if reverse:  # git up to 2.39 also reverses the mode of an index line, which is no change of mode
            after = {path: file.with_mode(REGULAR) for path, file in after.items()}
            theirs.files.update({path: file.with_mode(REGULAR) for path, file in theirs.files.items()})
        if after != theirs.files:
            return "git makes other files of it"
    elif theirs.applied:
        return _refusal(tally, problems, readable, result)
    tally.agreed += 1
    return None


def _refusal(tally: Tally, problems: tuple[patch.Problem, ...], readable: bool, result: PatchResult) -> str | None:
    """git takes the patch and we do not: which decision that is, or a fault."""
    if not readable:
        codes = {problem.code for problem in problems}
        for code in sorted(codes & REFUSED_READING):
            tally.refused[f"reader: {code}"] += 1
            return None
        return f"git applies what the reader refuses: {[problem.message for problem in problems]}"
    failures = [found.failure for found in result.files if found.failure]
    for failure in failures:
        if failure.kind in REFUSED_APPLYING:
            tally.refused[f"applier: {failure.kind}"] += 1
            return None
        if (
            failure.kind == "hunk"
            and failure.hunk
            and failure.hunk.old_lines
            and not failure.hunk.old_lines[-1].endswith(b"\n")
        ):
            tally.refused["applier: newline missing at the end of the hunk only"] += 1
            return None
    return f"git applies what we refuse: {[failure.message for failure in failures]}"


def run(count: int, seed: int, *, compare: bool = True, keep: Path | None = None) -> Tally:
    """``count`` cases from ``seed``; the inputs of faults are written to ``keep``."""
    rng = random.Random(seed)
    tally = Tally()
    for number in range(count):
        if number and number % 2000 == 0:
            print(f"fuzz: {number} of {count}, {len(tally.faults)} faults", file=sys.stderr, flush=True)
        case = seed_case(rng)
        case = Case(mutate(rng, case.text), case.files)
        said = judge(case, tally, compare=compare)
        if said:
            tally.faults.append(f"case {number} of seed {seed}: {said}")
            if keep:
                keep_case(keep / f"{seed}-{number}", case, said)
    return tally


def keep_case(folder: Path, case: Case, said: str) -> None:
    """Write a case so that it can be looked at."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    (folder / "patch").write_bytes(case.text)
    (folder / "said").write_text(said + "\n")
    reference.lay_out(folder / "files", case.files)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    began = time.perf_counter()
    tally = run(options.count, options.seed, keep=options.keep)
    record = {
        "bench": "fuzz",
        "cases": tally.cases,
        "readable": tally.readable,
        "applied": tally.applied,
        "agreed with git apply": tally.agreed,
        "refused on purpose": dict(sorted(tally.refused.items())),
        "slowest input, seconds": round(tally.slowest, 4),
        "seconds": round(time.perf_counter() - began, 1),
        "faults": tally.faults,
    }
    print(json.dumps(record, indent=2))
    if options.json:
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
