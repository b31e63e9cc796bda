"""Before and after as one list, its JSON and its page."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.census import taxonomy as taxonomies
from decouple.census.compare import CensusComparison, Removal, compare_censuses
from decouple.census.context import make_context
from decouple.census.finding import Census
from decouple.census.html import render_html
from decouple.census.report import render_json
from decouple.census.scan import scan_tree
from decouple.inventory import rules as rule_files
from decouple.relocate.plan import make_plan
from decouple.relocate.relocation_patch import render_patch
from tests.unit.census import planted

EDITS = {"torch/csrc/planted_macro.cpp": [Removal("0007-planted", ("#if defined(USE_CUDA) && !defined(OTHER)\n",))]}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> CensusComparison:
    """The planted tree against itself relocated and with the planted conditional and include taken out."""
    folder = tmp_path_factory.mktemp("report")
    rules = rule_files.load_rules()
    before, after = planted.tree(folder / "before"), planted.tree(folder / "after")
    plan = make_plan(before, rules)
    (folder / "move.patch").write_text(render_patch(plan.moves, rules, "2.6"))
    subprocess.run(["git", "init", "-q"], cwd=after, check=True)
    subprocess.run(["git", "apply", str(folder / "move.patch")], cwd=after, check=True)
    (after / "torch/csrc/planted_macro.cpp").write_text("int a;\nint d;\n")
    (after / "torch/csrc/planted_include.cpp").write_text("")
    (after / "torch/csrc/a.cpp").write_text("#include <torch/csrc/utils/cuda_enabled.h>\n")

    def census(tree: Path) -> Census:
        context = make_context(tree, rules, plan.mapping, applied=tree == after)
        return scan_tree(context, taxonomies.load_taxonomy(undefined=rules.stage1.undefined), jobs=1)

    return compare_censuses("2.6", census(before), census(after), EDITS)


def test_what_became_of_each(comparison: CensusComparison) -> None:
    verdicts = {(f.origin, f.category): (f.verdict, f.reason) for f in comparison.findings}
    assert verdicts["torch/csrc/planted_macro.cpp", "macro"] == ("cut", "cut by 0007-planted")
    assert verdicts["aten/src/ATen/cuda/Planted.cu", "inter-file"][0] == "moved"
    assert verdicts["torch/csrc/planted_dispatch.cpp", "dispatch"][0] == "stays"
    assert (comparison.key_before, comparison.key_after) == (3, 0)


def test_what_stays_or_moves_is_in_no_count_of_what_needs_the_vendor(comparison: CensusComparison) -> None:
    """Neither in the key number nor in the modules of the table, which add up to it."""
    one, known = comparison.before.needing_vendor[0], comparison.before
    kept = [replace(one, verdict=verdict) for verdict in ("stays", "moved")]
    more = compare_censuses("2.6", replace(known, findings=(*known.findings, *kept)), comparison.after, {})
    assert more.key_before == comparison.key_before
    assert sum(row.needing_vendor_before for row in more.count_modules()) == more.key_before
    assert sum(row.needing_vendor_after or 0 for row in more.count_modules()) == more.key_after


def test_a_moved_file_is_found_again_at_its_new_place(comparison: CensusComparison) -> None:
    (finding,) = [f for f in comparison.findings if f.origin == "aten/src/ATen/cuda/Planted.cu"]
    assert finding.path == "third_device/torch_cuda/torch_cuda/csrc/aten/cuda/Planted.cu"


def test_the_json_is_one_finding_a_line_and_reads_back(comparison: CensusComparison) -> None:
    text = render_json([comparison])
    data = json.loads(text)
    assert data["summary"]["vendors"]["cuda"]["key_number"] == {"before": 3, "after": 0}
    assert len(data["findings"]) == len(comparison.findings) == text.count('\n{"vendor":')
    assert len({finding["id"] for finding in data["findings"]}) == len(data["findings"]), "ids are unique"
    assert str(comparison.before.tree) not in text, "nothing of this machine in it"


def test_the_page_stands_alone(comparison: CensusComparison) -> None:
    page = render_html([comparison])
    assert not re.search(r"""(?:src|href)=|url\(|@import|https?://""", page)
    assert page.count("</script>") == 1 and "/*CENSUS*/null" not in page


def test_the_summary_counts_the_files_of_a_category_and_what_only_the_later_tree_has(
    comparison: CensusComparison,
) -> None:
    data = json.loads(render_json([comparison]))["summary"]["vendors"]["cuda"]
    assert data["files_of_category"]["python"] == 1 and data["files_of_category"]["include"] == 3
    assert data["only_after"] == len(comparison.findings) - len(comparison.before.findings)


@pytest.mark.parametrize("planted", ["<!--<script>", "</script><img src=x onerror=alert(1)>", "a\u2028b", "\udcff"])
def test_no_word_of_a_tree_ends_the_script_or_begins_another(comparison: CensusComparison, planted: str) -> None:
    """Behind ``<!--<script`` a browser takes the next end of a script for its text (HTML: "double escaped")."""
    findings = [replace(finding, origin=planted, detail=planted) for finding in comparison.findings]
    page = render_html([replace(comparison, findings=tuple(findings))])
    (script,) = re.findall(r"<script>(.*)</script>", page, re.DOTALL)
    (data,) = re.findall(r"const census = (\{.*\});\n", script)
    assert "<" not in data
    assert json.loads(data)["rows"][0][1] == planted
    page.encode("utf-8")
