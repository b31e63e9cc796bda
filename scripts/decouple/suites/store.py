"""Results on disk: one line of JSON per test, appended as it ends, so that a run that was stopped goes on."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import write_atomically

#: Outcomes of a test, the best first. "too slow" ran out of time, "died" ended its process.
OUTCOMES = ("passed", "xfailed", "skipped", "failed", "too slow", "died")


class SuiteResult(Struct, frozen=True):
    """One test: its id below upstream's ``test/``, what became of it, and the ledger of what it would have launched.

    ``attempts`` counts the processes it was run in; ``flaky`` is one that failed and then passed alone. ``why`` is the
    last line of what went wrong, or why it was skipped. ``ledger`` is None on a real GPU. ``known`` is why the
    simulated device cannot pass it, where its own list says so.
    """

    id: str
    outcome: str
    seconds: float = 0.0
    why: str = ""
    attempts: int = 1
    flaky: bool = False
    suite: str = ""
    known: str = ""
    ledger: Mapping[str, Any] | None = None


class Store:
    """The results of one torch on one kind of device, in ``folder``.

    ``about`` says whose they are. Raises UsageError when the folder holds another torch's.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], digest: str, *, again: bool = False) -> None:
        self.folder = folder
        self._file = folder / "results.jsonl"
        self._names = folder / "collected.json"
        head = folder / "about.json"
        if again:
            for path in (self._file, self._names, head):
                path.unlink(missing_ok=True)
        if head.exists():
            before = json.loads(head.read_text(encoding="utf-8"))
            if before["digest"] != digest:
                raise UsageError(
                    f"{folder}: holds the results of another build ({before['torch']}, {before['device']})",
                    next_step="--again throws them away, --results DIR keeps both",
                )
        else:
            write_atomically(head, json.dumps({**about, "digest": digest}, indent=2, sort_keys=True) + "\n")
        self.results = read(self._file) if self._file.exists() else {}

    def add(self, found: Iterable[SuiteResult]) -> None:
        """Append; a later line of the same test takes the place of an earlier one."""
        with self._file.open("a", encoding="utf-8") as file:
            for one in found:
                self.results[one.id] = one
                file.write(json.dumps(to_builtins(one), sort_keys=True) + "\n")

    def collected(self) -> dict[str, list[str]]:
        """What pytest was asked before: which tests of a file are chosen."""
        if not self._names.exists():
            return {}
        found: dict[str, list[str]] = json.loads(self._names.read_text(encoding="utf-8"))
        return found

    def keep_collected(self, found: Mapping[str, list[str]]) -> None:
        """Remember that for the next run on the same torch."""
        write_atomically(self._names, json.dumps(found))


def read(path: Path) -> dict[str, SuiteResult]:
    """Id -> result. Reads ``results.jsonl``, the folder it is in, the same packed with xz, or what the plug-in wrote.

    A last line that was cut off by a kill is left out. Raises DecoupleError when the file is not of this kind.
    """
    path = path / "results.jsonl" if path.is_dir() else path
    found: dict[str, SuiteResult] = {}
    try:
        raw = path.read_bytes()
        lines = (lzma.decompress(raw) if raw[:6] == b"\xfd7zXZ\0" else raw).decode().split("\n")
        for number, line in enumerate(lines):
            if not line:
                continue
            try:
                row = _result(json.loads(line))
            except ValueError:
                if number == len(lines) - 1 and line.startswith("{"):
                    break
                raise
            if row:
                found[row.id] = row
    except (OSError, ValueError, TypeError, KeyError, lzma.LZMAError) as error:
        raise DecoupleError(
            f"{path}: no results of test-cuda: {error}", next_step="decouple test-cuda RELEASE"
        ) from None
    return found


def _result(row: dict[str, Any]) -> SuiteResult | None:
    """A stored result, or a line of the plug-in's (``simcuda.plugin``); None for one that says that a test began."""
    if row["outcome"] == "started":
        return None
    known = {name: value for name, value in row.items() if name in SuiteResult.__struct_fields__ and value is not None}
    known["id"] = row["id"].removeprefix("test/")  # when pytest was started above upstream's test/
    return SuiteResult(**{"suite": known["id"].partition("::")[0], **known})


def keep(found: Iterable[SuiteResult], path: Path, *, ledgers: bool = True) -> None:
    """Write results as a file to compare with later, packed with xz and sorted.

    Without ``ledgers`` a small one: outcomes, and whole seconds.
    """
    rows = (
        json.dumps(to_builtins(one) if ledgers else _brief(one), sort_keys=True)
        for one in sorted(found, key=lambda one: one.id)
    )
    write_atomically(path, lzma.compress("".join(f"{row}\n" for row in rows).encode()))


def _brief(one: SuiteResult) -> dict[str, Any]:
    return {"id": one.id, "outcome": one.outcome, "suite": one.suite, "seconds": round(one.seconds)}


def official(release: str) -> Path:
    """Outcomes of PyPI's official wheel of that release on the simulated device, kept with this code.

    Raises DecoupleError when none were kept.
    """
    path = Path(__file__).with_name(f"official-{release}.xz")
    if not path.exists():
        raise DecoupleError(
            f"{path}: no outcomes of the official wheel are kept",
            next_step=f"decouple test-cuda {release} --torch PYTHON --keep {path} --outcomes, PYTHON having that wheel",
        )
    return path
