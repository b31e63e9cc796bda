"""Status files are written section by section, and README shows what they say."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from decouple.base.errors import DecoupleError
from decouple.base.files import replace_sections
from decouple.cli import main
from decouple.flows import test_cuda
from decouple.flows.verify import VerifyResult, make_section, record_kernels
from decouple.release import carried, proofs, status, status_table
from decouple.verify.audit import ElfAudit, ElfFault
from decouple.verify.checks import CheckResult
from decouple.verify.kernels.compare import KernelComparison
from decouple.verify.parity import Parity

PROJECT = Path(__file__).parents[3]
STAGE = status.StageSection("torch.whl", 100 << 20, objects=1528, cores=2, seconds=7260, object_seconds=14400.0)


def figures(document: status.ReleaseStatus) -> dict[str, str]:
    """Proof -> figure and verdict, as the table has them."""
    return {row.name: f"{row.figure} | {row.full_verdict}" for row in proofs.list_proof_rows(document)}


def test_sections_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = status.locate_status(tmp_path, "2.6")
    status.update_status(path, stage1=STAGE)
    status.update_status(path, verify=status.VerifySection("built"))
    status.update_status(path, stage1=replace(STAGE, objects=1))
    document = json.loads(path.read_text())
    assert document["stage1"]["objects"] == 1
    assert set(document) == {"schema", "stage1", "verify", "recorded"}


def test_a_record_that_fits_in_a_line_stands_in_one_and_what_it_does_not_say_is_left_out(tmp_path: Path) -> None:
    path = status.locate_status(tmp_path, "2.6")
    status.update_status(path, verify=status.VerifySection("built", checks=2), stage1=replace(STAGE, wheel="w" * 120))
    lines = path.read_text().splitlines()
    assert '  "verify": {"checks": 2, "core": "built"}' in lines and '    "cores": 2,' in lines
    assert status.read_status(path).stage1 == replace(STAGE, wheel="w" * 120)


def test_the_table_says_what_the_files_say() -> None:
    parity = {"total": 10, "missing": 1, "unexplained": ["names: a"]}
    verify = {"audited": 24, "parity": parity}
    contract = {"both": {"items": {"supported": 46, "upstream gap": 2}}}
    built = {"stage1": asdict(STAGE), "verify": verify, "contract": contract}
    known = {"2.6": status.parse_status(built), "2.10": status.ReleaseStatus()}
    rows = status_table.tabulate_proofs(known).splitlines()[2:]
    assert rows[0] == "| 2.10 | patches | `decouple record 2.10` |  |  | not known |  |"
    found = figures(known["2.6"])
    assert found["stage 1"].startswith("1528 objects, at least 120 min of compiling on 2 cores, 100 MiB")
    assert found["parity with Debian's monolith"] == "90.00 % of 10, 1 unexplained | differs"
    assert found["ELF audit"] == "clean (24 files) | holds"
    assert found["contract of backends: both"] == "46 of 48 items hold (2 prevented by PyTorch) | holds"
    assert figures(known["2.10"])["contract of backends"] == "not checked | "


def test_a_missing_name_is_explained_by_its_reason_alone() -> None:
    def judge(**parity: Any) -> str:
        known = status.parse_status({"verify": {"parity": {"total": 10, **parity}}})
        return figures(known)["parity with Debian's monolith"]

    assert judge(extra=1) == "100.00 % of 10, 1 extra | holds"
    assert judge(total=162639, missing=1, unexplained=["API: a"]).startswith("99.99 % of 162639, 1 une"), "all but one"
    assert judge(missing=2) == "80.00 % of 10 | explained"
    assert judge(different=1) == "90.00 % of 10 | explained"
    assert judge(missing=2, unexplained=["symbols: a"]) == "80.00 % of 10, 1 unexplained | differs"


def test_releases_of_which_the_same_is_known_share_a_row() -> None:
    known = {"series": {"patches": 5}}
    documents: dict[str, Any] = {"2.6": {"series": {"patches": 22}}, "2.11": {}} | dict.fromkeys(
        ("2.9", "2.10", "2.12"), known
    )
    text = status_table.summarize_releases(
        {name: status.parse_status(document) for name, document in documents.items()}
    )
    assert [row for row in text.splitlines() if "| patches |" in row] == [
        "| 2.12 | patches | 5 |",
        "| 2.11 | patches | not known |",
        "| 2.9 to 2.10 | patches | 5 |",
        "| 2.6 | patches | 22 |",
    ]


def test_the_table_says_where_the_patches_apply_and_what_is_left() -> None:
    applies = {
        "pristine": {"source": "a tree", "clean": 1, "failed": {"2": "conflict"}},
        "debian": {"source": "another", "clean": 1, "offset": ["1"]},
    }
    found = figures(status.parse_status({"applies": applies, "census": {"before": 58, "after": 3}}))
    vendors = {"rocm": {"before": 5, "after": 1}}
    others = figures(status.parse_status({"census": {"before": 58, "after": 0, "vendors": vendors}}))
    assert others["couplings left"] == "0 of 58, rocm 1 of 5 | differs"
    assert found["apply to: debian"] == "all (1 with an offset) | holds"
    assert found["apply to: pristine"] == "1 fail | fails"
    assert found["couplings left"] == "3 of 58 | differs"


def proven(level: str) -> dict[str, status.Proof]:
    return {"one": status.Proof("1.0/0001-one.patch", level), "cpp": status.Proof("1.0/2.patch", "not proven")}


def test_built_is_said_only_of_the_series_that_was_built() -> None:
    level, stage = "applied to the full tree", replace(STAGE, series="aa")
    series = status.SeriesSection(2, "aa")
    document = status.ReleaseStatus(series, proven=proven(level), stage1=stage, stage2=stage)
    assert proofs.find_levels(document) == {"one": "built", "cpp": "not proven"}
    for other in (replace(STAGE, series="an older one"), STAGE, None):  # one that does not say so proves nothing
        assert proofs.find_levels(replace(document, stage2=other))["one"] == level


def test_portable_wheels_are_built_wheels_too() -> None:
    """The table said "configured" of patches whose portable wheels ran upstream's tests."""
    seen = status.VerifySection("built", audited=9, checks=1)
    pair = status.WheelSection("w.whl", "aa", seen)
    document = status.ReleaseStatus(status.SeriesSection(2, "aa"), proven=proven("configured"), portable={"py3": pair})
    assert proofs.find_levels(document) == {"one": "built", "cpp": "not proven"}
    wrong = replace(seen, failed=("one core: it is not",))
    lost = replace(seen, parity=status.ParitySection(10, missing=9, unexplained=("API: a",)))
    code = status.KernelsSection("official", 1, 2, ("sm_90",), unexplained=1, series="aa")
    for other in (
        *(replace(pair, series="older"), replace(pair, verify=wrong), replace(pair, verify=lost)),
        replace(pair, kernels=code),
    ):
        assert proofs.find_levels(replace(document, portable={"py3": other}))["one"] == "configured"

    monolith = replace(document, kernels={"py3/monolith": code})
    assert proofs.find_levels(monolith)["one"] == "configured"
    assert (
        proofs.find_levels(replace(monolith, kernels={"py3/monolith": replace(code, series="older")}))["one"] == "built"
    )


def test_torch_cuda_for_upstreams_cpu_half_builds_no_patch_of_the_core() -> None:
    """`verify --core official --cuda 12.4` alone made "24 built" of patches whose stage 1 nobody built."""
    seen = status.VerifySection("official", audited=3, checks=5)
    half = {"cu12.4-official-half": status.WheelSection("w.whl", "aa", seen)}
    document = status.ReleaseStatus(status.SeriesSection(2, "aa"), proven=proven("configured"), portable=half)
    assert proofs.find_levels(document)["one"] == "configured"


def test_a_check_of_the_wheels_that_failed_is_in_the_table() -> None:
    """``import`` failed, and no line of the table said so: "24 built | holds"."""
    level, stage = "configured", replace(STAGE, series="aa")
    seen = status.VerifySection("built", audited=9, checks=11, series="aa")
    document = status.ReleaseStatus(
        status.SeriesSection(2, "aa"), proven=proven(level), stage1=stage, stage2=stage, verify=seen
    )
    assert figures(document)["checks of the wheels"] == "11 of 11 checks | holds"
    assert proofs.find_levels(document)["one"] == "built"
    failed = replace(document, verify=replace(seen, failed=("import: ImportError",)))
    assert figures(failed)["checks of the wheels"] == "10 of 11 checks | fails"
    assert proofs.find_levels(failed)["one"] == level
    parity = status.ParitySection(10, missing=9, unexplained=("API: a",))
    code = {"built": status.KernelsSection("official", 1, 2, ("sm_90",), unexplained=1, series="aa")}
    for differs in (replace(document, verify=replace(seen, parity=parity)), replace(document, kernels=code)):
        assert proofs.find_levels(differs)["one"] == level, "`verify` ended as FAILED"
    older = replace(failed, verify=replace(failed.verify, series="older"))  # says nothing of today's wheels
    assert proofs.find_levels(older)["one"] == "built"


def test_figures_of_wheels_that_another_series_made_say_so() -> None:
    stages = (replace(STAGE, series="aa"), replace(STAGE, series="an older one"))
    document = status.ReleaseStatus(status.SeriesSection(2, "aa"), stage1=stages[0], stage2=stages[1])
    found = figures(document)
    assert found["stage 1"].endswith("MiB | holds")
    assert found["stage 2"].endswith("MiB | holds; since then changes that are not known")
    assert "stage 2" in status_table.summarize_releases({"1.0": document})


def test_a_proof_of_an_earlier_series_says_which_patches_changed_since() -> None:
    changes = {
        "old": {"0001-move.patch": "a", "0002-cut.patch": "b", "0003-gone.patch": "c"},
        "now": {"0001-move.patch": "a", "0002-new.patch": "d", "0003-cut.patch": "e"},
        "words": {"0001-move.patch": "a", "0002-new.patch": "d", "0003-cut.patch": "e"},
    }
    series = status.SeriesSection(3, "now")
    document = status.ReleaseStatus(series, stage1=replace(STAGE, series="old"), changes=changes)
    assert figures(document)["stage 1"].endswith("holds; since then 0003 changed; 0002 new; 0003 gone")
    document = replace(document, stage1=replace(STAGE, series="words"))
    assert figures(document)["stage 1"].endswith("holds; since then only what patches say of themselves")


def test_each_row_of_readme_says_what_changed_after_the_oldest_proof_in_it() -> None:
    changes = {
        "older": {"0001-a.patch": "a", "0002-b.patch": "b"},
        "old": {"0001-a.patch": "a", "0002-b.patch": "c"},
        "now": {"0001-a.patch": "d", "0002-b.patch": "c"},
    }
    parity = status.VerifySection(parity=status.ParitySection(10))
    marks = {"stage1": "2026-01-01", "stage2": "2026-01-02", "verify": "2026-01-03"}
    recorded = {key: status.RecordMark(date, "now") for key, date in marks.items()}
    document = status.ReleaseStatus(
        status.SeriesSection(2, "now"),
        stage1=replace(STAGE, series="older"),
        stage2=replace(STAGE, series="old"),
        verify=parity,
        changes=changes,
        recorded=recorded,
    )
    assert status_table.summarize_releases({"1.0": document}).splitlines()[2:] == [
        "| 1.0 | patches | 2 |",
        "|  | builds | both stages on Debian 13 (since then 0001, 0002 changed) |",
        "|  | tested | no |",
        "|  | compared with the single-stage build | names 100.00 % of 10 |",  # of today's series: nothing to add
        "|  | how old | 2 of 4 proofs are older than today's patches: stage 1, stage 2 |",
    ]


def test_only_wheels_that_are_older_than_the_patches_are_called_so() -> None:
    """One wheel of four was old, and README said it of the stages and of all four."""
    seen = {"verify": {"audited": 1, "checks": 1}, "wheel": "w.whl"}
    document = status.parse_status({
        "series": {"patches": 1, "digest": "now"},
        "stage1": {**asdict(STAGE), "series": "now"},
        "stage2": {**asdict(STAGE), "series": "now"},
        "portable": {"py3.13-cu12.4": {**seen, "series": "old"}, "py3.9-cu12.4": {**seen, "series": "now"}},
    })  # fmt: skip
    assert status_table.summarize_releases({"1.0": document}).splitlines()[3:6] == [
        "|  | builds | both stages on Debian 13 |",
        "|  |  | portable wheels: Python 3.13 with CUDA 12.4 (since then changes that are not known) |",
        "|  |  | portable wheels: Python 3.9 with CUDA 12.4 |",
    ]


def test_every_figure_in_readme_is_a_figure_in_the_table_of_proofs() -> None:
    known = {"2.6": status.read_status(PROJECT / "ci" / "status" / "2.6.json")}
    rows = proofs.list_proof_rows(known["2.6"])
    summary = status_table.summarize_releases(known)
    for kind in ("CUDA suites: our wheels", "contract of backends: core", "parity with", "kernels: official"):
        figures = [row.figure for row in rows if row.name.startswith(kind) and row.name != "kernels: official (smoke)"]
        assert figures and all(figure in summary for figure in figures)


def test_a_contract_that_our_core_broke_is_not_hidden_behind_a_better_run_of_another_torch() -> None:
    contract = {
        "stock": {"items": {"supported": 57, "upstream gap": 6}, "torch": "2.6.0+debian"},
        "both": {"items": {"supported": 46}, "torch": "2.6.0+decoupled"},
        "core": {"items": {"supported": 40, "broken": 18}, "tests": {"failed": 18}, "torch": "2.6.0+decoupled"},
    }
    document = status.parse_status({"contract": contract})
    rows = [row for row in proofs.list_proof_rows(document) if row.name.startswith("contract of backends")]
    assert [(row.name.partition(": ")[2], row.command.format(release="2.6"), row.verdict) for row in rows] == [
        ("core (2.6.0+decoupled)", "decouple contract 2.6 --upstream", "fails"),
        ("both (2.6.0+decoupled)", "decouple contract 2.6 --beside-cuda --upstream", "holds"),
        ("stock (2.6.0+debian)", "decouple contract 2.6 --core stock --upstream", "holds"),
    ]
    assert [row.series for row in rows] == ["not known", "not known", "none"]
    untried = status.parse_status({"contract": {"core": {"items": {"supported": 57, "missing": 1}}}})
    assert figures(untried)["contract of backends: core"] == "57 of 58 items hold (1 not tried) | differs"
    summary = status_table.summarize_releases({"2.6": document})
    assert "contract of backends on our core: 40 of 58 items hold" in summary and "57 of 63" not in summary


def test_bare_systems_and_the_whole_torch_have_their_lines() -> None:
    systems = {"debian-12": {"core": "torch-1.whl", "checks": 3, "failed": ["pip check: no"]}}
    whole = {"half": {"parity": {"total": 10, "missing": 2, "unexplained": ["API: torch.f"]}, "series": "old"}}
    document = status.parse_status({"systems": systems, "whole": whole})
    found = figures(document)
    assert found["wheels on a bare system: debian-12"].endswith("2 of 3 checks | fails")
    (figure,) = proofs.PROOFS[proofs.SYSTEMS].describe(document)
    assert figure.command == "decouple try wheels {release} debian-12 --record"
    assert found["all of torch against the official wheel: half"].endswith("80.00 % of 10, 1 unexplained | differs")
    assert "wheels on debian-12: 2 of 3 checks" in status_table.summarize_releases({"1.0": document})


@pytest.mark.parametrize("label", ["official", "monolith"])
def test_a_torch_without_our_patches_is_of_no_series(label: str) -> None:
    run = status.SuitesSection("simulated", ("passed",), {"cuda": {"passed": 3}}, label)
    mark = status.RecordMark("2026-01-02", "old")
    key = f"suites/{label}-simulated"
    document = status.ReleaseStatus(
        status.SeriesSection(1, "now"), suites={f"{label}-simulated": run}, recorded={key: mark}
    )
    (row,) = [row for row in proofs.list_proof_rows(document) if row.name.startswith("CUDA suites")]
    assert (row.date, row.series, row.verdict) == ("2026-01-02", "none", "recorded")


@pytest.mark.parametrize(("kind", "old"), [("patched", True), ("unpatched", True), ("single", False), ("cpu", False)])
def test_answers_of_a_torch_with_our_torch_cuda_grow_old_with_the_patches(kind: str, old: bool) -> None:
    """On Debian's unmodified core it is made of our series all the same."""
    trial = status.PatchTrialSection(kind, "2.6.0", "simulated", 11, series="old" if old else "")
    mark = status.RecordMark("2026-01-02", "old")
    document = status.ReleaseStatus(
        status.SeriesSection(1, "now"), patches={"stock-simulated": trial}, recorded={"patches/stock-simulated": mark}
    )
    (row,) = [row for row in proofs.list_proof_rows(document) if row.name.startswith("patches'")]
    since = "holds; since then changes that are not known"
    assert (row.series, row.full_verdict) == (("old", since) if old else ("none", "holds"))


@pytest.mark.parametrize(
    ("label", "options"),
    [
        ("half", ""),
        ("compiled-portable", "--env portable "),
        ("built-portable-official", "--env portable --kernels official "),
    ],
)
def test_the_line_of_a_whole_torch_has_the_command_that_chooses_its_build(label: str, options: str) -> None:
    document = status.parse_status({"whole": {label: {"parity": {"total": 10}, "series": "aa"}}})
    rows = [row for row in proofs.list_proof_rows(document) if row.name.endswith(f": {label}")]
    assert [row.command.format(release="2.6") for row in rows] == [f"decouple parity 2.6 {options}--record"]


def test_a_run_of_suites_that_was_not_whole_says_of_how_many_tests_it_was() -> None:
    tally, name = {"nn": {"passed": 3, "failed": 1}}, "CUDA suites: our wheels (gpu; nn)"
    for collected, said in (
        (9, "4 of 9 tests: 3 passed, 1 failed"),
        (4, "3 passed, 1 failed"),
        (None, "3 passed, 1 failed"),
    ):
        run = status.SuitesSection("gpu", ("passed", "failed"), tally, "built", collected=collected)
        document = status.ReleaseStatus(status.SeriesSection(1, "now"), suites={"built-gpu": run})
        assert figures(document)[name] == f"{said} | recorded"


def test_a_record_is_dated_and_those_beside_it_keep_their_day(tmp_path: Path) -> None:
    path = status.locate_status(tmp_path, "2.6")
    run = status.SuitesSection("simulated", ("passed",), {"cuda": {"passed": 3}}, "official")
    status.update_status(path, series=status.SeriesSection(2, "aa"), suites={"official-simulated": run})
    day = {"suites/official-simulated": status.RecordMark("2001-02-03", "zz")}
    status.update_status(path, recorded=day)
    status.update_status(path, suites={"built-simulated": replace(run, label="built", series="aa")})
    known = status.read_status(path)
    assert known.suites.keys() == {"official-simulated", "built-simulated"}
    assert known.recorded["suites/official-simulated"] == status.RecordMark("2001-02-03", "zz")
    assert known.recorded["suites/built-simulated"].series == "aa"
    assert known.recorded["suites/built-simulated"].date > "2001-02-03"


def test_a_torch_that_names_no_series_is_not_of_the_checkouts(tmp_path: Path) -> None:
    """PyPI's wheel, recorded without a --label, stood as one that today's series had made."""
    path = status.locate_status(tmp_path, "2.6")
    run = status.SuitesSection("simulated", ("passed",), {"cuda": {"passed": 3}}, "python")
    ours = replace(run, label="official-like", series="bb")
    runs = {"python-simulated": run, "official-like-simulated": ours}
    status.update_status(path, series=status.SeriesSection(2, "aa"), suites=runs)
    rows = [row for row in proofs.list_proof_rows(status.read_status(path)) if row.name.startswith(proofs.SUITES)]
    assert [row.series for row in rows] == ["bb", "not known"]


def test_a_proof_that_gave_the_same_figures_again_is_of_today(tmp_path: Path) -> None:
    """README called such a one older than today's patches."""
    path = status.locate_status(tmp_path, "2.6")
    trial = {"built-simulated": status.PatchTrialSection("patched", "2.6.0", "simulated", 32)}
    status.update_status(path, series=status.SeriesSection(2, "aa"), patches=trial)
    status.update_status(path, recorded={"patches/built-simulated": status.RecordMark("2001-02-03", "zz")})
    status.update_status(path, patches=trial)
    mark = status.read_status(path).recorded["patches/built-simulated"]
    assert mark.series == "aa" and mark.date > "2001-02-03"


def test_a_look_at_built_wheels_is_of_the_series_that_they_were_built_from(tmp_path: Path) -> None:
    """They do not name it, and the checkout's may be another since."""
    path = status.locate_status(tmp_path, "2.6")
    stage = replace(STAGE, series="an older one")
    status.update_status(path, series=status.SeriesSection(2, "now"), stage2=stage)
    status.update_status(path, verify=status.VerifySection("built", checks=1))
    assert status.read_status(path).recorded["verify"].series == "an older one"


def test_what_two_record_at_once_is_all_kept(tmp_path: Path) -> None:
    """Who records reads nothing before the lock: the other's figures, written meanwhile, were lost."""

    def record_many(side: str) -> None:
        for number in range(10):
            compared = KernelComparison(side, "official", (), 1, 1, 1, 1, 0, 0, 0, ())
            record_kernels(tmp_path, "2.6", f"{side}{number}", compared, "aa")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(record_many, ("a", "b")))
    assert len(status.read_status(status.locate_status(tmp_path, "2.6")).kernels) == 20


def test_what_was_not_seen_is_said_per_release_and_per_patch() -> None:
    whole = status.ReleaseStatus(status.SeriesSection(2, "aa"), proven=proven("applied to the full tree"))
    partial = status.ReleaseStatus(status.SeriesSection(1, "bb"), proven=proven("Python only"))
    assert figures(partial)["proven"] == "1 Python only, 1 not proven | differs"
    lines = status_table.render_patch_matrix({"1.10": partial, "1.0": whole}).splitlines()
    assert lines[0] == "| patch | 1.0 | 1.10 |"
    assert lines[2] == "| one | applied to the full tree | Python only |"
    assert lines[3] == "| cpp | not proven | not proven |"


def test_patches_of_which_all_the_same_was_proven_share_a_line() -> None:
    same = {name: status.Proof(f"1.0/{name}.patch", "configured") for name in ("one", "two")}
    lines = status_table.render_patch_matrix({"1.0": status.ReleaseStatus(proven=same)}).splitlines()
    assert lines[2:] == ["| each of 2 | configured |"]


def test_the_command_leaves_no_status_file_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A series with a name of its own was left out without a word."""
    tables = {tmp_path / "README.md": ("status",), tmp_path / "docs/proofs.md": ("proofs", "patches", "suites")}
    tables[tmp_path / "docs/rebase.md"] = ("carried",)
    for folder in ("series", "patches", "docs"):
        (tmp_path / folder).mkdir()
    for page, names in tables.items():
        page.write_text("".join(f"# {name}\n<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in names))
    for name in ("2.6", "acme"):
        status.update_status(status.locate_status(tmp_path, name), verify=status.VerifySection("built"))
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    assert main(["status-table"]) == 0
    summary, proofs, _ = (page.read_text() for page in tables)
    assert "\n| acme | " in summary
    _, proven, patches, suites = proofs.split("# ")
    assert (
        "| acme | proven | `decouple record acme` |" in proven
        and "| patch | acme | 2.6 |" in patches
        and "| of each suite: " in suites
    )
    assert main(["status-table", "--check"]) == 0


def test_the_suites_have_a_row_per_torch_our_wheels_first() -> None:
    found = ("passed", "failed")
    ours = status.SuitesSection("simulated", found, {"nn": {"failed": 1}, "cuda": {"passed": 2}}, "built")
    theirs = status.SuitesSection("simulated", found, {"cuda": {"passed": 3}}, "a-monolith")
    document = status.ReleaseStatus(suites={"a-monolith-simulated": theirs, "built-simulated": ours})
    assert status_table.render_suites({"1.0": document, "1.1": status.ReleaseStatus()}).splitlines() == [
        "| release | torch | of each suite: passed/failed |",
        "|---|---|---|",
        "| 1.0 | our wheels (simulated) | cuda 2/0, nn 0/1 |",
        "| 1.0 | a-monolith (simulated) | cuda 3/0 |",
    ]


def test_torches_whose_suites_ended_alike_share_a_row() -> None:
    run = status.SuitesSection("simulated", ("passed",), {"cuda": {"passed": 3}}, "official")
    document = status.ReleaseStatus(suites={"a": run, "b": replace(run, label="official-kernels")})
    assert status_table.render_suites({"1.0": document}).splitlines()[2:] == [
        "| 1.0 | official (simulated), official-kernels (simulated) | cuda 3 |"
    ]


def test_the_readme_says_what_a_user_asks_a_line_for_each_figure() -> None:
    old = {**asdict(STAGE), "series": "aa"}
    suites = {"label": "built", "device": "simulated", "outcomes": ["passed", "failed"]}
    built = {
        "series": {"patches": 22, "digest": "bb"},
        "stage1": old,
        "stage2": {**old, "series": "bb"},
        "verify": {"parity": {"total": 10, "missing": 1}},
        "suites": {"built": {**suites, "tally": {"cuda": {"passed": 3, "failed": 1}}}},
    }
    text = status_table.summarize_releases({"2.6": status.parse_status(built), "2.7": status.ReleaseStatus()})
    assert text.splitlines()[2:] == [
        "| 2.7 | patches | not known |",
        "|  | builds | no |",
        "|  | tested | no |",
        "|  | compared with the single-stage build | no |",
        "| 2.6 | patches | 22 |",
        "|  | builds | both stages on Debian 13 (since then changes that are not known) |",
        "|  | tested | upstream's suites, simulated; cuda: 3 passed, 1 failed |",
        "|  | compared with the single-stage build | names 90.00 % of 10 |",
        "|  | how old | 1 of 5 proofs are older than today's patches: stage 1 |",
    ]


def test_a_series_with_a_name_of_its_own_is_a_row_and_says_how_near_its_tree_is_to_the_release() -> None:
    fork = status.SeriesSection(
        2, "aa", made_on="e926e51a", likeness="91.1 % official text: 3414 of 3746 files as in torch"
    )
    known = {name: status.ReleaseStatus(fork, proven=proven("applied to the full tree")) for name in ("acme", "b-2.7")}
    rows = status_table.tabulate_proofs({**known, "2.6": status.ReleaseStatus()}).splitlines()[2:]
    assert list(dict.fromkeys(row.split(" | ")[0] for row in rows)) == ["| 2.6", "| b-2.7", "| acme"]
    assert "; tried on a tree of which 91.1 % is the official text" in figures(known["acme"])["proven"]
    assert status_table.render_patch_matrix(known).splitlines()[0] == "| patch | acme | b-2.7 |"


def test_each_table_of_a_page_goes_between_its_own_markers_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "proofs.md"
    text = "before\n<!-- one:begin -->\n{}<!-- one:end -->\nbetween\n<!-- two:begin -->\n{}<!-- two:end -->\nafter\n"
    page.write_text(text.format("old\n", "old\n"))
    tables = {"two": "second\n", "one": "first\n"}
    assert replace_sections(page, tables, write=False) and page.read_text() == text.format("old\n", "old\n")
    assert replace_sections(page, tables)
    assert page.read_text() == text.format("first\n", "second\n")
    assert not replace_sections(page, tables)


def test_a_page_that_lacks_the_markers_of_one_table_gets_none(tmp_path: Path) -> None:
    page = tmp_path / "proofs.md"
    page.write_text("<!-- one:begin -->\n<!-- one:end -->\n")
    with pytest.raises(DecoupleError, match="two:begin"):
        replace_sections(page, {"one": "first\n", "two": "second\n"})
    assert page.read_text() == "<!-- one:begin -->\n<!-- one:end -->\n"


def test_a_file_of_another_schema_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "2.6.json"
    path.write_text('{"schema": 99}\n')
    with pytest.raises(DecoupleError, match=r"2\.6\.json: schema: ") as said:
        status.update_status(path, stage1=STAGE)
    assert path.read_text() == '{"schema": 99}\n'
    assert said.value.next_step == f"update decouple, or git -C {tmp_path} checkout -- 2.6.json"  # from any folder


def test_a_short_build_on_a_warm_cache_does_not_hide_what_the_stage_costs(tmp_path: Path) -> None:
    path = tmp_path / "2.6.json"
    for seconds, spent in ((7260, 14400.0), (60.0, 90.0)):
        again = replace(STAGE, seconds=seconds, object_seconds=spent)
        status.update_status(path, stage1=status.keep_costliest(again, status.read_status(path).stage1))
    stage = status.read_status(path).stage1
    assert stage and (stage.seconds, stage.object_seconds) == (60.0, 14400.0)
    said = figures(status.read_status(path))["stage 1"]
    assert said.startswith("1528 objects, at least 120 min of compiling on 2 cores, 100 MiB")


def test_a_build_that_compiled_all_says_what_the_stage_costs() -> None:
    """Beside other work a stage took 274 minutes, alone 109; the page said "at least 274 min" all the same."""
    before = replace(STAGE, object_seconds=32841.7)
    cold = replace(STAGE, object_seconds=13034.8, compiled=1580, cached=3)
    assert status.keep_costliest(cold, before).object_seconds == 13034.8
    resumed = replace(cold, compiled=900, cached=600)
    assert status.keep_costliest(resumed, before).object_seconds == 32841.7


def test_kernels_are_a_hundred_percent_only_when_all_are_the_official_ones() -> None:
    kernels = {"theirs": "official 2.6.0", "same": 19457, "total": 19458, "missing": 0, "extra": 2, "archs": ["sm_90"]}
    found = figures(status.parse_status({"kernels": {"built": kernels}}))
    assert found["kernels: official"] == "99.99 % of 19458 (sm_90), 2 extra | explained"
    found = figures(status.parse_status({"kernels": {"built": {**kernels, "same": 19458}}}))
    assert found["kernels: official"] == "100.00 % of 19458 (sm_90), 2 extra | explained"
    found = figures(status.parse_status({"kernels": {"built": {**kernels, "theirs": "mine.so"}}}))
    assert found["kernels"] == "not compared | "


def test_kernels_of_a_part_say_of_how_many_sources_they_are() -> None:
    part = {"theirs": "official 2.6.0", "same": 1117, "total": 1117, "missing": 0, "extra": 0, "archs": ["sm_90"]}
    part |= {"sources": 11, "of_sources": 339}
    found = figures(status.parse_status({"kernels": {"smoke": part}}))
    assert found["kernels: official"] == "100.00 % of 1117 in 11 of 339 sources (sm_90) | holds"


def test_kernels_of_a_portable_wheel_count_and_so_does_a_sample_of_the_unpatched_tree() -> None:
    official = {"theirs": "official 2.6.0", "same": 90, "total": 100, "missing": 0, "extra": 0, "archs": ["sm_90"]}
    sample = {**official, "theirs": "the unpatched tree", "same": 20, "total": 20, "sources": 2, "of_sources": 2}
    portable = {"wheel": "torch_cuda.whl", "series": "", "verify": {}, "kernels": official}
    monolith = {**official, "theirs": "libtorch_cuda.so.2.6", "same": 80, "unexplained": 1}
    kernels = {"smoke": {**official, "same": 10, "total": 10}, "unpatched": sample, "py3.9-cu12.4/monolith": monolith}
    found = figures(status.parse_status({"kernels": kernels, "portable": {"py3.13-cu12.4": portable}}))
    assert found["kernels: official"] == "90.00 % of 100 (sm_90) | explained"
    assert found["kernels: Debian's monolith"] == "80 of 100, 1 unexplained | differs"
    assert found["kernels: unpatched tree"] == "20 of 20 in 2 files | holds"


def test_the_same_functions_with_another_table_do_not_hold() -> None:
    same = {"theirs": "the unpatched tree", "same": 20, "total": 20, "archs": ["sm_90"], "sources": 2, "of_sources": 2}
    wheel = {"wheel": "w.whl", "series": "aa", "verify": {"audited": 1, "checks": 1, "parity": {"total": 9}}}
    portable = status.parse_status({"portable": {"py3": {**wheel, "kernels": {**same, "unexplained": 1}}}})
    assert figures(portable)["portable wheels: py3"].endswith("20 of 20 functions the same, 1 unexplained | differs")
    found = figures(status.parse_status({"kernels": {"unpatched": {**same, "unexplained": 1}}}))
    assert found["kernels: unpatched tree"] == "20 of 20 in 2 files, 1 unexplained | differs"


def test_another_vendor_s_objects_have_a_row_of_their_own() -> None:
    """They are no kernels of the official wheel, so that row does not count them."""
    code = {
        "theirs": "x",
        "same": 90,
        "total": 91,
        "missing": 0,
        "extra": 0,
        "archs": ["gfx90a", "x86-64"],
        "sources": 5,
    }
    names = {"parity": {"total": 4, "missing": 1, "unexplained": ["CUDA: aten::add"]}}
    document = {"kernels": {"rocm/single-stage": {**code, "unexplained": 1}}, "vendors": {"rocm": names}}
    parsed = status.parse_status(document)
    vendors = proofs.PROOFS["other vendors' objects against upstream's build"]
    assert [(one.label, one.text, one.verdict) for one in vendors.describe(parsed)] == [
        ("rocm objects", "90 of 91 functions in 5 files (gfx90a, x86-64), 1 unexplained", proofs.DIFFERS),
        ("rocm registrations", "75.00 % of 4, 1 unexplained", proofs.DIFFERS),
    ]
    assert {one.command for one in vendors.describe(parsed)} == {"decouple kernels unpatched {release} --toolkit rocm"}
    assert list(proofs.PROOFS["kernels"].describe(parsed)) == []


def test_cuda_suites_are_told_torch_by_torch_and_against_another_build() -> None:
    suites: dict[str, Any] = {
        "device": "simulated",
        "outcomes": ["passed", "failed"],
        "tally": {"cuda": {"passed": 200, "failed": 3}, "torch": {"passed": 700, "failed": 0}},
        "against": {"label": "official", "tests": 903, "outcomes": 901, "ledgers": 900, "exact": 890, "loose": 899},
    }
    official = suites | {"label": "official", "against": None}
    found = figures(status.parse_status({"suites": {"official": official, "built": suites}}))
    told = "900 passed, 3 failed; 2 of 903 not as official, 899 of 900 ledgers (format 1) the same"
    assert found["CUDA suites: our wheels (simulated; cuda, torch)"] == f"{told} | explained"
    # nobody takes another's results for ours
    assert found["CUDA suites: official (simulated; cuda, torch)"] == "900 passed, 3 failed | recorded"
    found = figures(status.parse_status({"suites": {"built": suites | {"flaky": 2}}}))
    assert found["CUDA suites: our wheels (simulated; cuda, torch)"].startswith(
        "900 passed, 3 failed (2 passed when tried again); 2 of 903"
    )
    suites["against"] |= {"unexplained": 1}
    found = figures(status.parse_status({"suites": {"built": suites}}))
    assert found["CUDA suites: our wheels (simulated; cuda, torch)"] == f"{told} | differs"


@pytest.mark.parametrize(
    ("tests", "more", "verdict"),
    [
        *((903, {}, "holds"), (903, {"only_ours": 7}, "recorded"), (903, {"only_theirs": 7}, "recorded")),
        *((2, {"only_ours": 901}, "recorded"), (0, {"only_ours": 903}, "differs")),
        (903, {"ledgers": 900, "loose": 899}, "explained"),
    ],
)
def test_a_run_of_suites_holds_where_each_of_its_tests_was_compared(
    tests: int, more: dict[str, int], verdict: str
) -> None:
    """Against results of two of its 903 tests it did."""
    against = status.SuitesComparison("official", tests, tests, **more)
    run = status.SuitesSection("gpu", ("passed",), {"cuda": {"passed": 903}}, "built", against)
    (row,) = proofs.PROOFS[proofs.SUITES].describe(status.ReleaseStatus(suites={"built-gpu": run}))
    assert row.text.startswith(f"903 passed; 0 of {tests} not as official")
    assert row.verdict == verdict


def test_ledgers_that_were_compared_with_a_gpus_are_the_same_but_for_arguments() -> None:
    against = status.SuitesComparison("gpu.xz", 9, 9, ledgers=9, loose=9, plain=True)
    run = status.SuitesSection("simulated", ("passed",), {"cuda": {"passed": 9}}, "built", against)
    (row,) = proofs.PROOFS[proofs.SUITES].describe(status.ReleaseStatus(suites={"built-simulated": run}))
    assert row.text.endswith("9 of 9 ledgers (format 1) the same but for arguments")


@pytest.mark.parametrize(
    ("label", "device", "collected", "against", "typed"),
    [
        ("built", "simulated", 5, "official", "--torch built --device simulated --label built --against official"),
        ("smoke-hip", "simulated", None, "", "--torch smoke-hip --device simulated --label smoke-hip"),
        ("stock-slice", "simulated", 9, "", "--torch stock --device simulated --label stock-slice --slice 5"),
        ("official", "gpu", 5, "", "--torch PYTHON --device gpu --label official"),
        ("mine", "gpu", 5, "official", "--torch PYTHON --device gpu --label mine --ledger --against official"),
    ],
)
def test_the_line_of_a_torch_has_the_command_that_makes_it(
    label: str, device: str, collected: int | None, against: str, typed: str
) -> None:
    """`test-cuda 2.6 --record` stood in each: every suite on the wheels of dist/2.6."""
    tally = {"cuda": {"passed": 3, "failed": 0, "flaky": 1}, "torch": {"passed": 2, "failed": 0}}
    other = status.SuitesComparison(against, 5, 5, ledgers=5, loose=5) if against else None
    run = status.SuitesSection(device, ("passed", "failed"), tally, label, other, collected=collected)
    (figure,) = proofs.PROOFS[proofs.SUITES].describe(status.ReleaseStatus(suites={f"{label}-{device}": run}))
    assert figure.command == f"decouple test-cuda {{release}} cuda torch {typed} --record"


def test_a_slice_of_more_tests_than_the_other_build_had_run_was_of_all() -> None:
    """Without --every it is of those alone that passed there, and quickly."""
    theirs = status.SuitesSection("gpu", ("passed", "failed"), {"nn": {"passed": 4, "failed": 1}}, "official-slice")
    other = status.SuitesComparison("official-slice", 5, 5)
    for collected, every in ((9, " --every"), (5, "")):
        ours = replace(theirs, label="mine", tally={"nn": {"passed": 3}}, against=other, collected=collected)
        document = status.ReleaseStatus(suites={"mine-gpu": ours, "official-slice-gpu": theirs})
        (command, _) = (figure.command for figure in proofs.PROOFS[proofs.SUITES].describe(document))
        assert command.endswith(f" --against official-slice --slice 3{every} --record")


def test_every_torch_that_test_cuda_has_is_named_by_its_word() -> None:
    assert set(proofs._OWN_TORCHES) == {word for word, known in test_cuda.IN_ROOT.items() if known.has_backend}


def test_a_run_of_suites_without_a_series_is_marked_as_it_is_read(tmp_path: Path) -> None:
    """With an empty series beside its day the file was another one when it was written again."""
    path = status.locate_status(tmp_path, "2.6")
    run = status.SuitesSection("simulated", ("passed",), {"cuda": {"passed": 9}}, "official")
    status.update_status(path, suites={"official-simulated": run})
    assert list(json.loads(path.read_text())["recorded"]["suites/official-simulated"]) == ["date"]


def test_what_a_section_does_not_hold_is_named(tmp_path: Path) -> None:
    path = status.locate_status(tmp_path, "2.6")
    with pytest.raises(TypeError, match="verfiy"):
        status.update_status(path, verfiy=status.VerifySection())
    with pytest.raises(DecoupleError, match=r"\$\.stage1\.objects"):
        status.update_status(path, stage1=replace(STAGE, objects="many"))  # type: ignore[arg-type]
    assert not path.exists()


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "ci" / "status").glob("[0-9]*.json")))
def test_a_section_written_again_is_the_same(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    known, sections = status.read_status(copy), json.loads(path.read_text()).keys() - {"schema"}
    status.update_status(copy, **{name: getattr(known, name) for name in sections})
    assert copy.read_bytes() == path.read_bytes()


def test_what_verify_saw_is_recorded_in_figures_and_by_name_where_it_went_wrong() -> None:
    fault = ElfFault("libc10.so", "needs", "libcudart.so.12")
    audits = (ElfAudit("core", 9, 100, (fault,)), ElfAudit("both", 15, 200, ()))
    checks = (CheckResult("import", True, "ok"), CheckResult("version", False, "11.8"))
    kept = Parity("names", 10, ("a", "b"), ("c",), reasons={"a": "moved"})
    changed = Parity("symbols", 5, (), (), ("d",))
    assert make_section("built", VerifyResult(audits, checks, (kept, changed))) == status.VerifySection(
        core="built",
        audited=15,
        faults=("libc10.so: needs: libcudart.so.12",),
        checks=2,
        failed=("version: 11.8",),
        parity=status.ParitySection(15, missing=2, extra=1, different=1, unexplained=("names: b", "symbols: d")),
    )
    assert make_section("built", VerifyResult(audits, checks)).parity is None


def test_names_of_which_a_category_could_not_be_compared_do_not_hold() -> None:
    """Without `libtorch_cuda.so` in the monolith `verify` said FAILED, and the table "100.00 % of 10 | holds"."""
    parts = (Parity("dispatcher CUDA", 10, (), ()), Parity("symbols of libtorch_cuda", 0, (), ()))
    seen = VerifyResult((), (), parts)
    section = make_section("built", seen)
    assert section.parity and section.parity.unexplained == ("symbols of libtorch_cuda: nothing to compare",)
    found = figures(status.ReleaseStatus(verify=section))
    assert not seen.ok and found["parity with Debian's monolith"] == "100.00 % of 10, 1 unexplained | differs"
    nothing = make_section("built", VerifyResult((), (), parts[1:]))
    assert figures(status.ReleaseStatus(verify=nothing))["parity with Debian's monolith"] == (
        "nothing to compare | differs"
    )


def test_no_comparison_with_the_official_machine_code_hides_another() -> None:
    """500 functions of a build without attention differed, and the table had the portable wheel's alone."""
    code = {"theirs": "official 2.6.0", "total": 100, "archs": ["sm_90"]}
    portable = {"wheel": "w.whl", "series": "aa", "verify": {}, "kernels": {**code, "same": 99}}
    built = {**code, "same": 40, "total": 90, "unexplained": 50}
    kernels = {"built": built, "smoke": {**code, "same": 9, "total": 9}}
    document = status.parse_status({"kernels": kernels, "portable": {"py3.13-cu12.4": portable}})
    found = figures(document)
    assert {name: told for name, told in found.items() if name.startswith("kernels")} == {
        "kernels: official": "99.00 % of 100 (sm_90) | explained",
        "kernels: official (built)": "44.44 % of 90 (sm_90), 50 unexplained | differs",
        "kernels: official (smoke)": "100.00 % of 9 (sm_90) | holds",
    }
    summary = status_table.summarize_releases({"2.6": document})
    assert "machine code 99.00 % of 100 (sm_90) |" in summary
    assert "machine code 44.44 % of 90 (sm_90), 50 unexplained |" in summary


def test_nothing_to_look_at_does_not_hold() -> None:
    """No patch applied, no coupling was there before the series, no item of the contract was tried: "holds"."""
    document = status.ReleaseStatus(
        applies={"pristine": status.AppliesSection("PyTorch 2.6.0", 0)},
        census=status.CensusSection(0, 0),
        contract={"core": status.ContractSection({})},
    )
    verdicts = {row.name.partition(":")[0]: row.verdict for row in proofs.list_proof_rows(document) if row.verdict}
    assert verdicts == {"apply to": "differs", "couplings left": "differs", proofs.CONTRACT: "differs"}


def test_machine_code_of_which_nothing_was_compared_does_not_hold() -> None:
    code = status.KernelsSection("official 2.6.0", same=0, total=0, archs=("sm_90",))
    assert figures(status.ReleaseStatus(kernels={"built": code}))["kernels: official"].endswith("| differs")


def test_a_wheel_s_line_has_the_command_that_checks_that_wheel() -> None:
    code = {"theirs": "official 2.6.0", "same": 7, "total": 7, "archs": ["sm_90"]}
    wheel = {"wheel": "w.whl", "series": "aa", "verify": {}}
    labels = ("py3.13-cu11.8", "cu12.4-official-half")
    document = {
        "portable": {**dict.fromkeys(labels, wheel), "py3.9-cu12.4": {**wheel, "kernels": code}},
        "kernels": {label: {**code, "theirs": "a"} for label in ("built/monolith", "py3.9-cu12.4/monolith")},
        "over_official": {**wheel, "wheel": "w-manylinux_2_31_x86_64.whl"},
        "over_installed": {**wheel, "kernels": code},
    }
    rows = proofs.list_proof_rows(status.parse_status(document))
    told = [(row.name, row.command.format(release="2.6").removeprefix("decouple verify 2.6 ")) for row in rows]
    assert {
        ("portable wheels: py3.13-cu11.8", "--env portable --python PYTHON3.13 --cuda 11.8"),
        ("portable wheels: py3.9-cu12.4", "--env portable --python PYTHON3.9 --cuda 12.4 --kernels official"),
        ("portable wheels: cu12.4-official-half", "--env portable --python PYTHON --core official --cuda 12.4"),
        ("kernels: official", "--env portable --python PYTHON3.9 --cuda 12.4 --kernels official"),
        ("kernels: Debian's monolith", "--kernels monolith"),
        ("kernels: Debian's monolith", "--env portable --python PYTHON3.9 --cuda 12.4 --kernels monolith"),
        ("over the official kernels", "--env portable --core official --python PYTHON"),
        ("over Debian's kernels on its CPU torch", "--core stock --over monolith --kernels monolith"),
    } <= set(told)


def test_where_nothing_was_checked_nothing_holds() -> None:
    """A wheel whose names nobody had compared, and on which no check ran, had "checks ok" and held."""

    def tell(**seen: Any) -> str:
        wheel = {"wheel": "w.whl", "series": "aa", "verify": seen}
        found = figures(status.parse_status({"over_official": wheel, "portable": {"py3": wheel}}))
        assert found["over the official kernels"] == found["portable wheels: py3"]
        return found["portable wheels: py3"]

    parity = {"total": 9}
    assert tell(audited=3, checks=2, parity=parity) == "100.00 % of 9, audit clean (3 files), checks ok | holds"
    assert tell(audited=3, checks=2) == "not checked, audit clean (3 files), checks ok | recorded"
    assert tell(audited=3, parity=parity) == "100.00 % of 9, audit clean (3 files), no checks | recorded"
    assert tell(checks=2, parity=parity) == "100.00 % of 9, audit not checked, checks ok | recorded"
    assert tell() == "not checked, audit not checked, no checks | recorded"
    assert tell(audited=3, checks=2, failed=["import: no"]).endswith("1 checks FAILED | fails")
    assert tell(audited=3, checks=2, parity=parity, faults=["a.so: RPATH"]).endswith("1 faults, checks ok | fails")
    bare = figures(status.parse_status({"whole": {"half": {}}, "systems": {"debian-13": {}}}))
    assert bare["all of torch against the official wheel: half"] == "not checked, 0 unexplained | recorded"
    assert bare["wheels on a bare system: debian-13"] == "0 of 0 checks | recorded"
    trial = status.PatchTrialSection("patched", "2.6.0", "simulated", answers=0)
    asked = figures(status.ReleaseStatus(patches={"built-simulated": trial}))
    assert [told for name, told in asked.items() if name.startswith("patches'")] == ["0 of 0 | recorded"]
    summary = status_table.summarize_releases({"1.0": status.ReleaseStatus(stage1=STAGE)})
    assert "|  | builds | no |" in summary, "one stage is not both"


def test_upstreams_own_kernels_never_stand_in_the_column_of_ours() -> None:
    seen = status.VerifySection(
        "official",
        audited=17,
        checks=2,
        failed=("facts: other",),
        parity=status.ParitySection(4),
    )
    code = status.KernelsSection("official:2.6", same=7, total=7, archs=("sm_90",), missing=0, extra=0)
    over = status.WheelSection("w.whl", "aa", seen, code)
    known = status.ReleaseStatus(over_official=over, over_installed=over)
    found = figures(known)
    assert found["kernels"] == "not compared | "
    assert found["parity with Debian's monolith"] == found["ELF audit"] == "not checked | "
    said = found["over the official kernels"]
    assert said == found["over Debian's kernels on its CPU torch"]
    assert said == "100.00 % of 4, audit clean (17 files), 1 checks FAILED, 7 of 7 functions untouched | fails"


def test_a_carried_series_has_a_line_of_what_was_seen_and_what_was_not() -> None:
    patches = {"regenerated": 1, "merged": 1, "made by its recipe": 1, "not seen": 1}
    exact = status.ExactSection("aa", "torch.whl", patches, files=34, shown=14)
    faults = {"lint": 0, "stage2-sources": 0, "couplings": 2}
    trial = status.CarriedTrialSection(
        "aa", patches, 17.6, faults=faults, likeness="61.2 % official text: 6 of 10 files as in w"
    )
    stopped = status.CarriedTrialSection("aa", patches, 4.0, stops=("2.6/0003-three.patch",))
    refused = {"b.cpp": "b.cpp:1:1: fatal error: c.h: No such file or directory"}
    compiled = status.HeaderCompileSection("aa", "torch.whl", "g++ (Debian) 12.2.0", "13.2", 20, 2, refused)
    document = status.ReleaseStatus(exact=exact, trials={"a": trial, "b": stopped}, headers=compiled)
    assert carried.describe_carried(document) == {
        "on its exact text": "2 of 4 patches (1 made by its recipe, 1 merged), the relocation's Python files; "
        "not seen: 1",
        "on a tree made for trial": "a: 4 patches, 0 stops in 18 s, couplings 2; 61.2 % official text<br>"
        "b: 4 patches, stops: 2.6/0003-three.patch in 4 s",
        "what a compiler saw": "1 of 2 units (g++ 12.2.0, C++20, CUDA 13.2)",
        "what nobody saw": "20 of 34 edited files; a stage built",
    }
    table = status_table.tabulate_carried({"1.10": document, "1.2": document, "1.0": status.ReleaseStatus()})
    assert [row.split(" | ")[0] for row in table.splitlines()[2:4]] == ["| 1.2", "| 1.10"]
    assert [line for line in table.splitlines() if "b.cpp" in line] == ["* `b.cpp`: no c.h (on 1.2, 1.10)"]


def test_a_trial_whose_census_failed_is_not_called_clean() -> None:
    """Whose couplings were counted is said, too; a record of before it was says nothing of that, and counted CUDA's."""

    def tell(**found: Any) -> str:
        trial = status.CarriedTrialSection("aa", {"merged": 1}, 4.0, **found)
        return carried.describe_carried(status.ReleaseStatus(trials={"a": trial}))["on a tree made for trial"]

    nothing = dict.fromkeys(carried.CHECKS, 0)
    assert tell(faults=nothing) == "a: 1 patches, 0 stops in 4 s, clean"
    assert tell(faults=nothing, vendors=("cuda", "rocm")) == "a: 1 patches, 0 stops in 4 s, clean (cuda, rocm)"
    unasked = ("third_party/x: this tree has not that submodule", "couplings: no such tree")
    said = tell(faults={"lint": 0, "stage2-sources": 0}, unasked=unasked)
    assert said == "a: 1 patches, 0 stops in 4 s, couplings not asked, 1 not asked"


def test_a_release_without_a_series_is_in_the_table_of_carried_ones_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {
        "README.md": ("status",),
        "docs/proofs.md": ("proofs", "patches", "suites"),
        "docs/rebase.md": ("carried",),
    }
    for page, names in pages.items():
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text("".join(f"<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in names))
    for folder in ("series", "patches"):
        (tmp_path / folder).mkdir()
    exact = status.ExactSection("aa", "torch.whl", {"merged": 1}, files=1, shown=1)
    status.update_status(status.locate_status(tmp_path, "2.7"), exact=exact)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    assert main(["status-table"]) == 0
    assert "| 2.7 | 1 of 1 patches (1 merged)" in (tmp_path / "docs/rebase.md").read_text()
    assert "2.7" not in (tmp_path / "README.md").read_text() + (tmp_path / "docs/proofs.md").read_text()
    status.update_status(status.locate_status(tmp_path, "2.7"), exact=replace(exact, patches={"conflict": 1}))
    assert main(["status-table", "--check"]) == 1
