"""Where the contract says that upstream says something: those files and symbols are in the real source of 2.6.0."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import backend_env
import pytest
from tests.support.tools import leave_test

from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

CONTRACT = backend_env.THIRD_DEVICE / "contract" / "third_device_contract"
RELEASE = "2.6.0"


@pytest.fixture(scope="module")
def source() -> Path:
    """The unpacked source of the release, from the cache."""
    series = RELEASE.rpartition(".")[0]
    try:
        return fetch_source(load_release(find_project(), series), "auto", offline=True).path
    except DecoupleError as error:
        leave_test(f"the source of {series} is not in the cache ({error.what}); run `nox -s fetch-{series}`")


def places(where: str) -> list[tuple[str, str]]:
    """``path: symbol, symbol (note); path: symbol`` as pairs, without places that only later releases have."""
    found = []
    for part in re.split(r"; (?![^(]*\))", where):
        path, _, rest = part.partition(": ")
        path, _, note = path.partition(" (")
        symbols, _, more = rest.partition(" (")
        if "in no release before" not in note + more:
            found += [(path, symbol.rpartition(".")[2]) for symbol in symbols.split(", ")]
    return found


def test_every_place_is_there(source: Path) -> None:
    contract = tomllib.loads((CONTRACT / "items.toml").read_text())
    lists = (CONTRACT / "upstream.toml", CONTRACT / "upstream_distributed.toml")
    suites = [suite for path in lists for suite in tomllib.loads(path.read_text())["suite"]]
    entries = [*contract["item"], *contract["gap"], *(known for suite in suites for known in suite.get("known", ()))]
    checked = 0
    for entry in entries:
        for path, symbol in places(entry["where"]):
            root = backend_env.ROOT if path.startswith("docs/") else source
            assert (root / path).is_file(), f"{entry['where']}: no {path}"
            assert symbol in (root / path).read_text(errors="replace"), f"{entry['where']}: no {symbol!r} in {path}"
            checked += 1
    assert checked > 55


def test_a_gap_is_on_the_line_that_it_names(source: Path) -> None:
    for gap in tomllib.loads((CONTRACT / "items.toml").read_text())["gap"]:
        ((path, _),) = places(gap["where"])
        number = re.search(rf"line (\d+) in {re.escape(RELEASE)}", gap["where"])
        quoted = re.search(r"(?<!\w)'([^']+)'", gap["lacks"])
        assert number and quoted, gap
        line = (source / path).read_text().splitlines()[int(number[1]) - 1]
        assert quoted[1] in line, f"{gap['key']}: line {number[1]} of {path} is {line.strip()!r}"
