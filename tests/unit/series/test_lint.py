"""Lint: one run tells every fault of every patch, with file, line and code; a good series has none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from decouple import cli
from decouple.base.errors import UsageError
from decouple.patch import parse as patch
from decouple.patch.faults import CODES
from decouple.series.lint import lint_series
from decouple.series.overlap import find_overlaps

FULL = "1" * 40 + ".." + "2" * 40
HEADER = """\
From: Jane Doe <jane@example.org>
Description: Say three instead of drei
Origin: vendor
Forwarded: no
Last-Update: 2026-11-21
Decouple-Id: {id}
Verify: grep three f.c
Drop-When: upstream says three

"""
HUNK = """\
@@ -{at},7 +{at},7 @@ int main()
 alpha one
 alpha two
 alpha three
-beta drei
+beta three
 gamma five
 gamma six
 gamma seven
"""


def diff(path: str = "f.c", hunks: str = HUNK.format(at=10), extra: str = f"index {FULL} 100644\n") -> str:
    return f"diff --git a/{path} b/{path}\n{extra}--- a/{path}\n+++ b/{path}\n{hunks}"


def good(name: str = "three", path: str = "f.c", at: int = 10) -> str:
    return HEADER.format(id=name) + diff(path, HUNK.format(at=at))


class Checkout:
    """A checkout with one release, made of patch texts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "series").mkdir()
        (root / "patches" / "2.6").mkdir(parents=True)

    def put(self, *texts: str | bytes, series: str | None = None) -> Checkout:
        names = [f"2.6/{number:04}-patch-{number}.patch" for number in range(1, len(texts) + 1)]
        for name, text in zip(names, texts, strict=True):
            (self.root / "patches" / name).write_bytes(text.encode() if isinstance(text, str) else text)
        (self.root / "series" / "2.6").write_text("".join(f"{name}\n" for name in names) if series is None else series)
        return self

    def codes(self) -> list[tuple[str, int, str]]:
        return [(Path(fault.file).name[:4], fault.line, fault.code) for fault in lint_series(self.root).faults]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_folder_without_series_is_no_series_without_faults(tmp_path: Path) -> None:
    (tmp_path / "series").mkdir()
    with pytest.raises(UsageError, match="series: no series"):
        lint_series(tmp_path)


def test_a_good_series_has_no_faults(checkout: Checkout) -> None:
    rename = "diff --git a/old.cu b/third_device/old.cu\nsimilarity index 100%\n"
    rename += "rename from old.cu\nrename to third_device/old.cu\n"
    new = f"diff --git a/n.py b/n.py\nnew file mode 100644\nindex {'0' * 40}..{'2' * 40}\n"
    new += "--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+x\n"
    checkout.put(HEADER.format(id="move") + rename, good(), HEADER.format(id="add") + new, good("far", at=40))
    report = lint_series(checkout.root)
    assert report.faults == ()
    assert (report.series, report.patches) == (("2.6",), 4)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("From: Jane Doe <jane@example.org>\n", "", (1, "no-author")),
        ("Description: Say three instead of drei\n", "", (1, "no-purpose")),
        ("Origin: vendor\nForwarded: no\n", "", (1, "missing-field")),
        ("Verify: grep three f.c\n", "", (1, "missing-field")),
        ("Verify: grep three f.c\n", "Verify:\n", (7, "empty-field")),
        ("Last-Update: 2026-11-21", "Last-Update: 2026-02-30", (5, "bad-date")),
        ("Decouple-Id: three", "Decouple-Id: Three_x", (6, "bad-id")),
        ("Verify: grep", "Decouple-Id: squashed\nVerify: grep", (7, "repeated-field")),
        (
            "Drop-When: upstream says three\n",
            "Drop-When: upstream says three\nDepends: nobody\n",
            (9, "unknown-depends"),
        ),
        ("Forwarded: no\n", "Forwarded: no\r\n", (4, "crlf")),
        (FULL, "1111111..2222222", (11, "abbreviated-index")),
        (f"index {FULL} 100644\n", "", (10, "missing-index")),
        (" gamma seven\n", " gamma seven\n-- \n2.39.5\n", (23, "junk")),
        (" gamma seven\n", " gamma seven\n\n", (23, "junk")),
        (" gamma seven\n", " gamma seven", (22, "no-newline")),
        ("-10,7 +10,7", "-10,8 +10,7", (14, "hunk-count")),
        ("-10,7 +10,7 @@ int main()\n alpha one", "-10,7 +10,7 @@\n-alpha one", (14, "hunk-count")),
        (" alpha one\n alpha two\n", "", (14, "hunk-count")),
        ("+beta three\n", "+beta three\r\n", (19, "crlf")),
        ("f.c", ".git/f.c", (10, "leaves-tree")),
        (" b/f.c", " b/g.c", (10, "name")),
        ("100644", "160000", (10, "submodule")),
        ("--- a/f.c", "old mode 100644\nnew mode 160000\n--- a/f.c", (10, "submodule")),
        # what other tools leave in a patch
        ("From: Jane", "\ufeffFrom: Jane", (1, "byte-order-mark")),
        ("Origin: vendor", "Date: Thu, 99 Foo 2025 03:04:05 +0000", (3, "bad-date")),
        ("Last-Update: 2026-11-21", "Last-Update: 0000-00-00", (5, "bad-date")),
        ("Origin: vendor", "Content-Transfer-Encoding: quoted-printable", (3, "encoded-mail")),
        (" gamma seven\n", " gamma seven\n-- \n\nFrom 1234567 Mon Sep 17 00:00:00 2001\n", (25, "carrier")),
        ("100644", "100664", (10, "mode")),
    ],
)
def test_each_fault_is_told_with_its_line(
    checkout: Checkout, before: str, after: str, expected: tuple[int, str]
) -> None:
    assert before in good()
    checkout.put(good().replace(before, after))
    assert ("0001", *expected) in checkout.codes()


@pytest.mark.parametrize(
    ("hunks", "code"),
    [
        ("@@ -10,5 +10,5 @@\n alpha two\n alpha three\n-beta drei\n+beta three\n gamma five\n gamma six\n", "context"),
        ("@@ -9,9 +9,9 @@\n z\n alpha\n b\n c\n-drei\n+three\n five\n six\n seven\n eight\n", "context"),
        ("@@ -10,3 +10,4 @@\n }\n+  return beta;\n \n {\n", "fuzz-prone"),
        (HUNK.format(at=10) + HUNK.format(at=12), "hunk-order"),
    ],
)
def test_faults_of_hunks(checkout: Checkout, hunks: str, code: str) -> None:
    checkout.put(HEADER.format(id="three") + diff(hunks=hunks))
    assert code in [found for _, _, found in checkout.codes()]


def test_fewer_lines_of_context_are_right_at_the_ends_of_a_file(checkout: Checkout) -> None:
    start = "@@ -1,4 +1,4 @@\n-int drei;\n+int three;\n b\n c\n d\n"
    end = "@@ -90,4 +90,5 @@\n alpha x\n alpha y\n alpha z\n+beta\n omega\n"
    checkout.put(HEADER.format(id="three") + diff(hunks=start + end))
    assert checkout.codes() == []


def test_a_file_that_has_crlf_throughout_needs_a_word_to_git_am(checkout: Checkout) -> None:
    body = HUNK.format(at=10).replace("\n", "\r\n").replace("main()\r\n", "main()\n")
    checkout.put(HEADER.format(id="three") + diff(hunks=body))
    assert checkout.codes() == [("0001", 14, "keep-cr")]


@pytest.mark.parametrize(
    "section",
    [
        re.sub(r"([ab]/a\S+)", r'"\1"', diff("a\\303\\251.c")),
        diff().replace("b/f.c", "b/g.c").replace(
            f"index {FULL} 100644\n",
            f"old mode 100644\nnew mode 100755\nsimilarity index 90%\nrename from f.c\nrename to g.c\nindex {FULL}\n",
        ),
    ],
    ids=["a name in quotes", "a move with another mode"],
)  # fmt: skip
def test_what_the_second_reader_reads_wrongly_is_no_fault(checkout: Checkout, section: str) -> None:
    checkout.put(HEADER.format(id="three") + section)
    assert checkout.codes() == []


def test_who_git_am_takes_for_an_author_is_one(checkout: Checkout) -> None:
    for author in (
        "jane@example.org (Jane Doe)",
        '"Doe, Jane" <jane@example.org>',
        "=?UTF-8?q?J=C3=A9?= <j@example.org>",
    ):
        checkout.put(good().replace("Jane Doe <jane@example.org>", author))
        assert checkout.codes() == []


def test_what_is_said_of_a_patch_by_an_id_that_is_gone(checkout: Checkout) -> None:
    """The recipe of a patch whose id was changed made nothing any more, and the next rebase stopped at it."""
    checkout.put(good("three"))
    for name in ("recipes/three", "recipes/drei", "upstream/three", "upstream/drei", "upstream/only-here"):
        path = checkout.root / f"series/{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    found = [(fault.file, fault.code) for fault in lint_series(checkout.root).faults]
    assert found == [("series/recipes/drei.toml", "unused-id"), ("series/upstream/drei.toml", "unused-id")]
    assert lint_series(checkout.root, ["2.6"]).faults == ()


def test_names_on_disk_and_in_the_series(checkout: Checkout) -> None:
    checkout.put(
        good("a"),
        good("b", path="g.c"),
        series="2.6/0001-patch-1.patch\n2.6/0009-gone.patch -p0\n2.6/0001-patch-1.patch\nhacks/Fix.diff\n",
    )
    (checkout.root / "patches" / "2.6" / "README").write_text("?")
    found = [(fault.file, fault.line, fault.code) for fault in lint_series(checkout.root).faults]
    assert found == [
        ("patches/2.6/0002-patch-2.patch", 1, "unused-patch"),
        ("patches/2.6/README", 1, "unused-patch"),
        ("series/2.6", 2, "missing-patch"),
        ("series/2.6", 2, "strip-level"),
        ("series/2.6", 3, "listed-twice"),
        ("series/2.6", 4, "missing-patch"),
        ("series/2.6", 4, "patch-name"),
    ]


def test_a_byte_order_mark_of_a_series_file_is_told_and_hides_no_name(checkout: Checkout) -> None:
    checkout.put(good(), series="\ufeff2.6/0001-patch-1.patch\n")
    assert checkout.codes() == [("2.6", 1, "byte-order-mark")]


def test_a_later_release_may_list_a_patch_of_an_earlier_one(checkout: Checkout) -> None:
    checkout.put(good("a"), good("b", path="g.c"), series="2.6/0001-patch-1.patch\n")
    (checkout.root / "series" / "2.7").write_text("2.6/0001-patch-1.patch\n2.6/0002-patch-2.patch\n")
    assert lint_series(checkout.root).faults == ()
    assert lint_series(checkout.root, ["2.6"]).faults == ()


def test_one_run_tells_everything(checkout: Checkout) -> None:
    broken = good("a").replace("-10,7", "-10,9").replace("Verify: grep three f.c\n", "") + "junk\n"
    checkout.put(broken, good("a", path="g.c").replace("Last-Update: 2026-11-21", "Last-Update: soon"))
    assert {(name, code) for name, _, code in checkout.codes()} == {
        ("0001", "hunk-count"),
        ("0001", "missing-field"),
        ("0002", "bad-date"),
        ("0002", "duplicate-id"),
    }


def test_two_patches_on_one_hunk_need_a_word(checkout: Checkout) -> None:
    later = (
        good("later")
        .replace("beta drei", "beta three")
        .replace("+beta three", "+beta 3")
        .replace("-beta 3", "-beta three")
    )
    checkout.put(good("first"), later)
    (fault,) = lint_series(checkout.root).faults
    assert (fault.code, fault.line) == ("overlap", 14) and "Depends: first" in fault.message
    checkout.put(good("first"), later.replace("Drop-When", "Depends: first\nDrop-When"))
    assert lint_series(checkout.root).faults == ()


def place(name: str, path: str, at: int, removed: int, added: int, context: int = 3) -> patch.Patch:
    lines = [" c"] * context + ["-r"] * removed + ["+a"] * added + [" c"] * context
    old, new = 2 * context + removed, 2 * context + added
    return patch.parse_patch(
        f"--- a/{path}\n+++ b/{path}\n@@ -{at},{old} +{at},{new} @@\n".encode() + "\n".join(lines).encode() + b"\n",
        name=name,
    )


@pytest.mark.parametrize(
    ("second", "overlap"),
    [
        (place("2", "f", 10, 1, 1), True),  # the same lines
        (place("2", "f", 16, 1, 1), False),  # its context ends where the other's context begins
        (place("2", "f", 14, 1, 1), False),  # it has the other's context, but none of its lines
        (place("2", "f", 12, 1, 1), True),  # the first line of its context is one that the first patch wrote
        (place("2", "g", 10, 1, 1), False),  # another file
    ],
)
def test_what_an_overlap_is(second: patch.Patch, overlap: bool) -> None:
    first = place("1", "f", 10, 1, 1)  # changes line 13
    assert [found.earlier.name for found in find_overlaps([first, second])] == (["1"] if overlap else [])


def test_ranges_move_with_the_patches_between() -> None:
    first, last = place("1", "f", 100, 1, 1), place("3", "f", 110, 1, 1)
    assert not list(find_overlaps([first, last]))
    between = place("2", "f", 10, 0, 10)  # ten lines more in front: line 103 is now 113
    assert [found.earlier.name for found in find_overlaps([first, between, last])] == ["1"]


def test_what_stands_right_behind_a_range_is_not_part_of_it() -> None:
    first, behind = place("1", "f", 10, 1, 1), place("2", "f", 11, 0, 10)  # line 13, and ten lines behind it
    third = place("3", "f", 15, 1, 1)
    assert [(one.earlier.name, one.later.name) for one in find_overlaps([first, behind, third])] == [
        ("1", "2"),
        ("2", "3"),
    ]


def test_lines_that_another_patch_replaced_are_only_its_own() -> None:
    first, over = place("1", "f", 10, 2, 0), place("2", "f", 8, 8, 8)  # a gap in front of line 13; lines 11 to 18
    third = place("3", "f", 10, 1, 1)
    assert [(one.earlier.name, one.later.name) for one in find_overlaps([first, over, third])] == [
        ("1", "2"),
        ("2", "3"),
    ]


def test_ranges_move_with_a_rename() -> None:
    rename = patch.parse_patch(b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n", name="2")
    found = list(
        find_overlaps([place("1", "f", 10, 1, 1), rename, place("3", "g", 10, 1, 1), place("4", "f", 10, 1, 1)])
    )
    assert [(one.earlier.name, one.later.name) for one in found] == [("1", "3")]


def test_lines_taken_away_are_lines_touched() -> None:
    first = place("1", "f", 10, 2, 0)  # takes lines 13 and 14 away
    assert [o.later.name for o in find_overlaps([first, place("2", "f", 10, 1, 1)])] == ["2"], "it spans the gap"
    assert not list(find_overlaps([first, place("2", "f", 13, 1, 1)])), "it begins behind the gap"


def test_the_command(checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(checkout.root))
    checkout.put(good())
    assert cli.main(["lint"]) == 0
    assert capsys.readouterr().out == "1 patches of 1 series (2.6): no faults\n"
    assert cli.main(["lint", "2.6", "2.6"]) == 0, "named twice"
    assert capsys.readouterr().out == "1 patches of 1 series (2.6): no faults\n"
    checkout.put(good() + "junk: 100%\n")
    assert cli.main(["lint", "2.6"]) == 1
    assert capsys.readouterr().out.startswith("patches/2.6/0001-patch-1.patch:23: junk text behind the last diff: ")
    assert cli.main(["lint", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["code"] == "junk"
    assert cli.main(["lint", "--format", "github"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("::error file=patches/2.6/0001-patch-1.patch,line=23,title=junk::") and "100%25" in out
    assert cli.main(["lint", "2.9"]) == 2
    with pytest.raises(UsageError, match=r"series/2\.9"):
        lint_series(checkout.root, ["2.9"])


def test_every_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "--codes"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CODES)
