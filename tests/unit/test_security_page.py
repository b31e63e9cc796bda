"""``docs/security.md``: each row names a test that is there, and each limit is the code's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from decouple.base import transfer_rate, untrusted_input, zips
from decouple.index import archive, offer, release_list, remote
from decouple.stack import journal
from decouple.upstream import download, unpack
from decouple.upstream.archive import HEADER_BOUND

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that follows a column's heading."""
    lines = PAGE.split(f"| {heading} ", 1)[1].splitlines()[2:]
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


CHECKED = rows("What comes from outside")


@pytest.mark.parametrize("row", CHECKED, ids=[row[0] for row in CHECKED])
def test_a_row_names_tests_that_are_there(row: list[str]) -> None:
    names = re.findall("`(tests/[^`]+)`", row[2])
    assert names
    for name in names:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        assert any(isinstance(one, ast.FunctionDef) and one.name.startswith("test_") for one in tree.body), name
    for module in re.findall(r"`([a-z_]+/[a-z_]+\.py)`", row[1]):
        assert (ROOT / "scripts/decouple" / module).is_file(), module


def mib(size: int) -> str:
    return f"{size >> 20} MiB" if size < 1 << 30 else f"{size >> 30} GiB"


LIMITS = {
    "A JSON page; an HTML page": f"{mib(remote.PAGE_BOUND)}; {mib(remote.HTML_BOUND)}",
    "METADATA, a manifest; a signed statement; a file in `tuf/`": "; ".join(
        mib(size) for size in (archive.TEXT_BOUND, remote.STATEMENT_BOUND, release_list.BOUND)
    ),
    "`RECORD`; a zip's directory": f"{mib(archive.RECORD_BOUND)}; {mib(zips.DIRECTORY_BOUND)}, "
    f"{zips.MEMBER_BOUND:,} members",
    "A wheel unpacked": f"{mib(zips.GROWTH_FREE)} and {zips.GROWTH_BOUND} times its size",
    "A download; a wheel that is checked": f"{mib(download.LIMIT)}; {mib(offer.WHEEL_BOUND)}",
    "A state file; another JSON file of ours": f"{mib(journal._BOUND)}; {mib(untrusted_input.JSON_BOUND)}",
    "A long name or extended header in a tar": mib(HEADER_BOUND),
    "A source tree": f"{mib(unpack.LIMITS.size)} in {unpack.LIMITS.members:,} entries",
    "The head of an answer; a body": f"{transfer_rate.HEAD_SECONDS:.0f} s; "
    f"{transfer_rate.FLOOR >> 10} KiB a second after {transfer_rate.GRACE_SECONDS:.0f} s",
}


def test_the_limits_are_the_codes() -> None:
    assert {row[0]: row[1] for row in rows("Reader")} == LIMITS


def test_readme_leads_there() -> None:
    assert "(docs/security.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
