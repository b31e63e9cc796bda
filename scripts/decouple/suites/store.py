"""Store results on disk: one line of JSON per test, appended as it ends.

A run that was stopped continues from them.
"""

from __future__ import annotations

import json
import lzma
import os
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import open_for_append, remove_folder, write_atomically, write_output
from decouple.base.untrusted_input import parse_json, read_json

#: Outcomes of a test, the best first. "too slow" ran out of time, "died" ended its process.
OUTCOMES = ("passed", "xfailed", "skipped", "failed", "too slow", "died")

#: How ids end that stand for no test: for a file that pytest cannot collect, for a process that ends badly behind its
#: tests.
COLLECTION, PROCESS_END = STAND_INS = ("::(collection)", "::(end of a process)")

#: How ``why`` begins of a test whose process ended before its first one.
NOT_BEGUN = "no test ran: "

ABOUT = "about.json"
"""The file of a folder of results that says of which torch they are."""

_AGAIN = "--again throws away what is there"


class SuiteResult(Struct, frozen=True):
    """The result of one test: its id below upstream's ``test/`` and its outcome.

    ``attempts`` counts the processes it was run in; ``flaky`` is one that failed and then passed alone. ``why`` is the
    last line of what went wrong, or why it was skipped. ``ledger`` is what it would have launched, None on a real GPU
    without a record. ``known`` is why the simulated device cannot pass it, where its own list says so.
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

    @property
    def is_begun(self) -> bool:
        """Whether the test began; of one that did not, nothing is known."""
        return not (self.outcome == "died" and self.why.startswith(NOT_BEGUN))


class TorchRecord(Struct, frozen=True):
    """Of which torch the results in a folder are."""

    digest: str
    torch: str = ""
    device: str = ""
    label: str = ""
    series: tuple[str, ...] = ()
    """Digests of the series that its wheels were made of."""
    records: Mapping[str, str] = {}
    """Distribution -> SHA-256 of what its RECORD has of its files; empty where that was not noted."""
    devices: int | None = None
    memory: list[int] | None = None
    recorded: bool | None = None
    simulator: str = ""
    """Which simulated device they began on (`simulated_device.hash_simulator`); empty where that was not noted."""
    packages: Mapping[str, str] = {}
    """Versions of NumPy and SciPy beside it when they began; empty where that was not noted."""

    def list_other_options(self, about: Mapping[str, Any]) -> list[str]:
        """Return the options of a run that were others than those of ``about``."""
        fields = (("--devices", "devices"), ("--memory", "memory"), ("--ledger", "recorded"))
        return [option for option, name in fields if getattr(self, name) not in (None, about.get(name))]


class ResultStore:
    """The results of one torch on one kind of device, in ``folder``.

    ``about`` describes that torch. ``is_older``: some of the results may be of the simulated device as it was before.
    ``other_packages``: of which other versions than now some may be.
    Raises UsageError when the folder holds the results of another torch.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], digest: str, *, again: bool = False) -> None:
        self.folder = folder
        self._file = folder / "results.jsonl"
        self._names = folder / "collected.json"
        self._texts = folder / "texts.json"
        about_path = folder / ABOUT
        if again:
            for path in (self._file, self._names, self._texts, about_path):
                path.unlink(missing_ok=True)
            remove_folder(folder / "shards", ignore_errors=True)  # the logs of those results
        simulator, packages = "", dict[str, str]()
        if about_path.exists():
            stored = read_about(folder)
            if stored.digest != digest or (stored.records and stored.records != about.get("records", {})):
                options = " and ".join(stored.list_other_options(about))
                other = f"a run with another {options}" if options else "another build"
                raise UsageError(
                    f"{folder}: holds the results of {other} ({stored.torch}, {stored.device})",
                    next_step="--again throws them away, --label NAME keeps both",
                )
            simulator, packages = stored.simulator, dict(stored.packages)
        else:
            write_atomically(about_path, json.dumps({**about, "digest": digest}, indent=2, sort_keys=True) + "\n")
        self.results = read_results(self._file) if self._file.exists() else {}
        self.is_older = bool(self.results) and simulator not in ("", about.get("simulator", ""))
        now = about.get("packages", {})
        changed = [name for name, version in packages.items() if now.get(name, version) != version]
        self.other_packages = sorted(changed) if self.results else []

    def add(self, results: Iterable[SuiteResult]) -> None:
        """Append results; a later line of a test replaces an earlier one."""
        with open_for_append(self._file) as file:
            _cut_torn_line(self._file)
            for result in results:
                self.results[result.id] = result
                file.write(_format_row(result))

    def forget_results(self, ids: Collection[str]) -> None:
        """Forget the results of these ids, where there are any."""
        kept = self.results.keys() - ids
        if len(kept) < len(self.results):
            self.results = {test: result for test, result in self.results.items() if test in kept}
            write_atomically(self._file, "".join(map(_format_row, self.results.values())))

    def forget_changed(self, texts: Mapping[str, str]) -> None:
        """Forget the results of test files that changed since their tests ran.

        What was collected of them goes, too. ``texts`` is what `file_digests.hash_test_files` returned. A file of which
        nothing was noted keeps its results, and where only its own text was noted, as before, that alone is compared.
        """
        noted = read_json(self._texts, dict[str, str], mend=_AGAIN) if self._texts.exists() else {}
        changed = {
            file for file, digest in texts.items() if noted.get(file, digest) not in (digest, digest.partition(" ")[0])
        }
        self.forget_results([test for test in self.results if test.partition("::")[0] in changed])
        if changed:
            collected = self.read_collected()
            self.write_collected({key: collected[key] for key in collected if split_selection(key)[0] not in changed})
        write_atomically(self._texts, json.dumps({**noted, **texts}, indent=2, sort_keys=True) + "\n")

    def read_collected(self) -> dict[str, list[str]]:
        """Return the tests that pytest collected before, per file and selection."""
        if not self._names.exists():
            return {}
        return read_json(self._names, dict[str, list[str]], mend=_AGAIN)

    def write_collected(self, collected: Mapping[str, list[str]]) -> None:
        """Store what pytest collected for the next run on the same torch."""
        write_atomically(self._names, json.dumps(collected))


def _format_row(result: SuiteResult) -> str:
    return json.dumps(to_builtins(result), sort_keys=True) + "\n"


def name_selection(file: str, changed: int, words: str) -> str:
    """Name in ``collected.json`` what pytest's ``-k`` selected of a file.

    The file was ``changed`` at that time, in nanoseconds.
    """
    return f"{file} {changed} -k {words}"


def split_selection(key: str) -> tuple[str, str]:
    """Return the file and the words of a key that `name_selection` made."""
    file, _, words = key.partition(" -k ")
    return file.rpartition(" ")[0], words


def is_run(folder: Path) -> bool:
    """Return whether ``folder`` is one of results, with what is known of their run."""
    return (folder / ABOUT).exists() and (folder / "collected.json").exists()


def read_about(folder: Path) -> TorchRecord:
    """Return of which torch the results in ``folder`` are.

    Raises DecoupleError where the file that says it is damaged.
    """
    return read_json(folder / ABOUT, TorchRecord, mend=_AGAIN)


def read_folder(folder: Path) -> tuple[TorchRecord, dict[str, SuiteResult], dict[str, list[str]]]:
    """Return of which torch a folder's results are, and the results.

    Third are the tests that were collected, per file and selection (`split_selection`): a run that broke off has no
    result of the later ones. Raises DecoupleError when it is no folder of results.
    """
    names = folder / "collected.json"
    if not is_run(folder):
        raise DecoupleError(
            f"{folder}: no folder of results of test-cuda", next_step="name the one that it said its results are in"
        )
    collected = read_json(names, dict[str, list[str]], mend=_AGAIN)
    return read_about(folder), read_results(folder), collected


def _cut_torn_line(path: Path) -> None:
    """Take away the end of a line that a kill left, or the next one would stand in it."""
    with path.open("r+b") as file:
        if not file.seek(0, os.SEEK_END):
            return
        file.seek(-1, os.SEEK_END)
        if file.read() != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def read_results(path: Path) -> dict[str, SuiteResult]:
    """Return id -> result from ``results.jsonl``, its folder or a packed file.

    What the plug-in wrote is read too, packed with xz or not. A last line that was cut off by a kill is left out.
    Raises DecoupleError when the file is not of this kind.
    """
    path = path / "results.jsonl" if path.is_dir() else path
    results: dict[str, SuiteResult] = {}
    try:
        raw = path.read_bytes()
        lines = (lzma.decompress(raw) if raw[:6] == b"\xfd7zXZ\0" else raw).decode().split("\n")
        for number, line in enumerate(lines):
            if not line:
                continue
            try:
                row = _parse_result(convert(parse_json(line), dict[str, Any]))
            except ValueError:
                if number == len(lines) - 1 and line.startswith("{"):
                    break
                raise
            if row:
                results[row.id] = row
    except (OSError, ValueError, KeyError, EOFError, lzma.LZMAError) as error:
        raise DecoupleError(
            f"{path}: no results of test-cuda: {error}", next_step="decouple test-cuda RELEASE"
        ) from None
    return results


def _parse_result(row: dict[str, Any]) -> SuiteResult | None:
    """Parse a stored result or a line of the plug-in (``simcuda.plugin``).

    Returns None for a line that says that a test began.
    """
    if row["outcome"] == "started":
        return None
    fields = {name: value for name, value in row.items() if name in SuiteResult.__struct_fields__ and value is not None}
    fields["id"] = str(row["id"]).removeprefix("test/")  # when pytest was started above upstream's test/
    return convert({"suite": fields["id"].partition("::")[0], **fields}, SuiteResult)


def write_packed(results: Iterable[SuiteResult], path: Path, *, ledgers: bool = True) -> None:
    """Write results as one sorted file, packed with xz, to compare with later.

    Without ``ledgers`` a small one: outcomes, whole seconds, and why a test did not begin.
    """
    rows = (
        json.dumps(to_builtins(result) if ledgers else _abbreviate_result(result), sort_keys=True)
        for result in sorted(results, key=lambda result: result.id)
    )
    write_output(path, lzma.compress("".join(f"{row}\n" for row in rows).encode()))


def _abbreviate_result(result: SuiteResult) -> dict[str, Any]:
    row = {"id": result.id, "outcome": result.outcome, "suite": result.suite, "seconds": round(result.seconds)}
    return row if result.is_begun else {**row, "why": result.why}


def find_official_results(release: str) -> Path:
    """Return the path of the stored outcomes of PyPI's official wheel.

    They were taken on the simulated device. Raises DecoupleError when there are none of that release.
    """
    path = Path(__file__).with_name(f"official-{release}.xz")
    if not path.exists():
        raise DecoupleError(
            f"{path}: no outcomes of the official wheel are kept",
            next_step=f"decouple test-cuda {release} --torch PYTHON --keep {shlex.quote(str(path))} --outcomes, "
            "PYTHON having that wheel",
        )
    return path
