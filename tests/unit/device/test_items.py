"""The table of what proves each item of the contract, and that what it names exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.device import items

ROOT = Path(__file__).parents[3]
PAGE = ROOT / items.PAGE

GOOD = {
    "items.toml": (
        '[[gap]]\nkey = "averages"\nlacks = "a sum"\nwhere = "torch/x.py: f (line 3 in 2.6.0)"\n'
        '[[item]]\nid = 2\ngroup = "B"\ntitle = "torch.<dev>"\nwhere = "a.h: f"\n'
        'tests = ["tests/test_more.py::test_more"]\n'
        '[[item]]\nid = 1\ngroup = "A"\ntitle = "a | b"\nwhere = "a.h: g"\n'
    ),
    "test_a.py": (
        "import torch\nimport pytest\n\n"
        "@pytest.mark.contract_item(1)\n@pytest.mark.parametrize('x', [1])\ndef test_one(x): pass\n"
        "@pytest.mark.contract_item(1)\n@pytest.mark.contract_item(2)\ndef test_two(gap): gap('averages')\n"
        "def helper(): pass\n"
    ),
    "../../../tests/test_more.py": "def test_more(): pass\n",
}


def project(tmp_path: Path, **changed: str) -> Path:
    """A checkout with a contract of two items; ``changed`` replaces files, with ``_`` for the dot."""
    texts = {**GOOD, **{name.replace("_toml", ".toml").replace("_py", ".py"): text for name, text in changed.items()}}
    for name, text in texts.items():
        path = tmp_path / items.PACKAGE / name
        (tmp_path / items.PACKAGE).mkdir(parents=True, exist_ok=True)
        path.resolve().parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_tests_are_found_by_their_marks_without_torch(tmp_path: Path) -> None:
    first, second = items.read_items(project(tmp_path))
    assert (first.number, first.tests) == (1, ("test_a.py::test_one", "test_a.py::test_two"))
    assert second.tests == ("test_a.py::test_two", "tests/test_more.py::test_more")
    assert first.gaps == ("a sum (`torch/x.py: f (line 3 in 2.6.0)`)",)
    text = items.format_table([first, second])
    assert "| 1 | a \\| b | `a.h: g` | `test_a.py::test_one`<br>`test_a.py::test_two`" in text
    assert "torch.\\<dev>" in text and "**upstream lacks:** a sum" in text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"test_a_py": "def test_one(): pass\n"}, "item 1 has no test"),
        ({"test_a_py": "@m.contract_item(9)\ndef test_one(): pass\n"}, "has no 9"),
        ({"test_a_py": "@m.contract_item(1)\ndef test_one(gap): gap('other')\n"}, "has no other"),
        ({"../../../tests/test_more_py": "def test_gone(): pass\n"}, "no test tests/test_more.py::test_more"),
    ],
)
def test_what_is_not_proven_is_an_error(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    with pytest.raises(DecoupleError, match=re.escape(said)):
        items.read_items(project(tmp_path, **changed))


def test_many_tests_of_one_file_are_a_number(tmp_path: Path) -> None:
    tests = "".join(f"@m.contract_item(1)\ndef test_{number}(): pass\n" for number in range(9))
    first, _ = items.read_items(project(tmp_path, test_b_py=tests))
    assert "| `test_a.py::test_one`<br>`test_a.py::test_two`<br>`test_b.py`: 9 tests<br>" in items.format_table([first])


REPORTS = tomllib.loads((ROOT / items.PACKAGE / "reports.toml").read_text())["report"]
"""Public reports of what failed on PrivateUse1 backends."""


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report["report"]))
def test_a_public_report_names_a_test_that_holds_it(report: dict[str, str]) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report["report"]) and report["tells"]
    assert set(report) <= {"report", "tells", "held_by", "gap", "upstream"}
    path, _, function = report["held_by"].partition("::")
    found = {test.name: test for test in items.read_tests(ROOT / items.PACKAGE / path)} if "/" not in path else {}
    if found:
        assert ("gap" in report) <= (report.get("gap") in found[report["held_by"]].gaps)
    else:
        assert re.search(rf"^def {function}\(", (ROOT / path).read_text(), re.MULTILINE) and "gap" not in report
    assert re.match(r"[\w./]+:\d+ of \d+\.\d+\.\d+", report.get("upstream", "torch/x.py:1 of 2.6.0"))


def test_public_reports_are_counted_on_the_page_and_each_scenario_has_one() -> None:
    assert len({report["report"] for report in REPORTS}) == len(REPORTS)
    file = "test_public_reports.py"
    held = {report["held_by"] for report in REPORTS}
    assert {test.name for test in items.read_tests(ROOT / items.PACKAGE / file)} == {t for t in held if file in t}
    gaps = sum("gap" in report or "upstream" in report for report in REPORTS)
    (said,) = (part for part in PAGE.read_text().split("\n\n") if "reports.toml" in part)
    assert {str(len(REPORTS)), str(gaps)} <= set(re.findall(r"\d+", said))


def test_the_page_is_up_to_date() -> None:
    assert not items.insert_table(PAGE, items.format_table(items.read_items(ROOT)), write=False), (
        "run `decouple contract --table`"
    )


def test_every_test_that_the_page_names_exists() -> None:
    """Also those of the hand-written part: ``file::test``, ``::test`` of the file before it, and functions of C++."""
    named, file = 0, ""
    for word in re.findall(r"`([^`]+)`", PAGE.read_text().partition("\n## The contract, item by item\n")[2]):
        if match := re.fullmatch(r"([\w/]*test_\w+\.py)?::(\w+)", word):
            file = match[1] or file
            path = ROOT / (file if "/" in file else items.PACKAGE / file)
            assert re.search(rf"^def {match[2]}\(", path.read_text(), re.MULTILINE), word
            named += 1
        elif match := re.fullmatch(r"runtime_test\.cpp: (\w+)", word):
            text = (ROOT / "third_device/layer/tests/runtime_test.cpp").read_text()
            assert f"void {match[1]}() {{" in text and text.count(match[1]) > 1, word
            named += 1
    assert named > 100


def test_a_page_without_markers_is_named(tmp_path: Path) -> None:
    page = tmp_path / "backends.md"
    page.write_text("# nothing\n")
    with pytest.raises(DecoupleError, match="no <!-- items:begin -->"):
        items.insert_table(page, "", write=True)
