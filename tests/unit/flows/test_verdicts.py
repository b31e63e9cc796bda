"""A verdict is good when each of its parts is, and is recorded of the series that it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from decouple.build import host
from decouple.build.effort import Effort
from decouple.build.environment import Places
from decouple.build.options import Provenance
from decouple.build.stage import StageWheel
from decouple.build.wheel_finishing import find_series
from decouple.flows import build, test_patches, verify, verify_official, verify_portable
from decouple.flows.contract import ContractRequest, record_contract
from decouple.flows.listener import QUIET, Listener
from decouple.flows.portable_wheels import PortableWheels
from decouple.flows.single_stage import SingleStageComparison
from decouple.flows.verdict import SeriesVerdict, judge_trees
from decouple.flows.verify import VerifyRequest, VerifyResult
from decouple.flows.verify_official import VerifyOfficialRequest
from decouple.flows.verify_portable import VerifyPortableRequest
from decouple.release import status
from decouple.relocate.stage2 import load_sources
from decouple.verify.audit import ElfAudit, ElfFault
from decouple.verify.checks import CheckResult
from decouple.verify.kernels.compare import KernelComparison, KernelDifference
from decouple.verify.parity import Parity
from tests.support.files import write_files
from tests.unit.census import planted
from tests.unit.index.wheels import SERIES_A, SERIES_B, make_wheel

BUILT = PortableWheels(Path(), "2.6", python="3.13")
SAME = KernelComparison("ours", "official", ("sm_90",), 1, 1, 1, 1, 0, 0, 0, ())
OTHER = structs.replace(SAME, found=(KernelDifference("code", "sm_90", "a.cu", "f", "2 bytes in both"),))
GOOD = VerifyResult(
    (ElfAudit("core without CUDA", 1, 1, ()),),
    (CheckResult("import", True, "there"),),
    (Parity("API", 1, (), ()),),
    SAME,
)


@pytest.mark.parametrize(
    "changed",
    [
        {"audits": (*GOOD.audits, ElfAudit("pair", 1, 1, (ElfFault("libtorch.so", "needs a CUDA library", "x"),)))},
        {"checks": (*GOOD.checks, CheckResult("pip check", False, "no"))},
        {"parity": (*GOOD.parity, Parity("symbols", 1, ("f",), ()))},
        {"kernels": OTHER},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_wheels_are_verified_when_every_part_is(changed: dict[str, Any]) -> None:
    assert GOOD.ok and structs.replace(GOOD, kernels=None).ok
    assert not structs.replace(GOOD, **changed).ok


def test_another_vendors_objects_are_as_upstreams_when_code_and_registrations_are() -> None:
    assert SingleStageComparison(SAME, GOOD.parity).ok
    assert not SingleStageComparison(OTHER, GOOD.parity).ok
    assert not SingleStageComparison(SAME, (Parity("operators on CUDA", 1, ("aten::add",), ()),)).ok


@pytest.mark.parametrize("part", ["faults", "sources", "couplings"])
def test_a_carried_series_is_clean_when_no_check_found_anything(part: str) -> None:
    assert SeriesVerdict(unasked=("third_party/x: this tree has not that submodule",)).is_clean
    assert not structs.replace(SeriesVerdict(), **{part: ("one",)}).is_clean


def test_a_carried_series_is_not_clean_where_a_check_could_not_be_asked() -> None:
    verdict = SeriesVerdict(unasked=("couplings: build_variables.bzl: line 1: unexpected end",))
    assert not verdict.is_clean and verdict.count_found() == {"lint": 0, "stage2-sources": 0}
    assert verdict.format_lines("2.7")[0] == "verdict: lint clean, stage2-sources clean"


def test_the_verdict_counts_every_vendors_couplings_and_says_of_a_broken_tree_that_it_has_none(tmp_path: Path) -> None:
    """ROCm's were left out, and where the census failed stage 2's lists were called clean."""
    tree = planted.tree(tmp_path / "tree")
    series = tmp_path / "project/series"
    series.mkdir(parents=True)
    (series / "2.6").write_text("")

    def judge() -> SeriesVerdict:
        return judge_trees(tmp_path / "project", "2.6", tree, tree)

    found = judge()
    assert set(found.vendors) == {"cuda", "rocm"}
    assert any(entry.startswith("torch/csrc/planted_rocm_include.cpp:1: include hip/") for entry in found.couplings)
    (tree / "build_variables.bzl").write_text("sources = [\n")
    assert judge().count_found() == {"lint": 0}
    (tree / "build_variables.bzl").unlink()
    write_files(tmp_path / "project", dict.fromkeys(load_sources().sources, ""))
    assert f"stage2-sources: {tree}/build_variables.bzl: No such file or directory" in judge().unasked


def test_what_is_recorded_of_wheels_is_of_their_series(tmp_path: Path) -> None:
    """Not of the checkout's of that day, nor of the last build of another kind."""
    path, wheel = status.locate_status(tmp_path, "2.6"), tmp_path / "torch_cuda.whl"
    built = status.StageSection("other.whl", 1, 1, 1, 1.0, series="another build's")
    status.update_status(path, series=status.SeriesSection(2, "the checkout's"), stage2=built)
    asked = VerifyRequest(tmp_path, "2.6", kernels="official")
    verify._record_result(asked, wheel, GOOD, "the wheels'", QUIET, whole=True)
    marks = status.read_status(path).recorded
    assert {marks[key].series for key in ("verify", "kernels/built")} == {"the wheels'"}


@pytest.mark.parametrize(
    ("env", "lacks", "done"), [("rootfs", [], True), ("auto", ["nvcc"], True), ("auto", [], False)]
)
def test_on_this_machines_own_environment_no_other_torch_stands_for_debians(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str, lacks: list[str], done: bool
) -> None:
    """Whatever torch `python3` had was recorded as Debian's CUDA build, and without one `verify` ended in an error."""
    monkeypatch.setattr(host, "list_missing", lambda *_, **__: lacks)
    told: list[str] = []
    request, listener = VerifyRequest(tmp_path, "2.6", env), Listener(told.append)
    assert verify.choose_debian_checks(request, tmp_path, tmp_path, listener) == (done, done)
    assert bool(told) != done


BAD = CheckResult("extension saxpy", False, "no nvcc")
WHOLE = structs.replace(GOOD, checks=(*GOOD.checks, BAD), kernels=None)
PART = structs.replace(GOOD, parity=(), kernels=None)
"""As with --no-parity and --no-extensions."""


def record(
    project: Path, result: VerifyResult, made: str = "as it was", *, whole: bool = False, **options: Any
) -> Path:
    """Record what `decouple verify` saw of a wheel, ``made`` in one way or another; returns the file."""
    asked, wheel = VerifyRequest(project, "2.6", **options), project / "torch_cuda.whl"
    wheel.write_text(made)
    seen = structs.replace(result, wheels=status.hash_wheels([wheel]))
    verify._record_result(asked, wheel, seen, "aa", QUIET, whole=whole)
    return status.locate_status(project, "2.6")


@pytest.mark.parametrize("options", [{}, {"core": "stock", "over": "monolith"}], ids=["ours", "over an installed one"])
def test_a_run_with_fewer_checks_erases_nothing_of_the_same_wheels(tmp_path: Path, options: dict[str, str]) -> None:
    """`verify 2.6 --no-parity --no-extensions` took the parity and the failed check out of the table."""
    path = record(tmp_path, WHOLE, whole=True, **options)
    key = "over_installed" if options else "verify"
    status.update_status(path, recorded={key: status.RecordMark("2001-02-03", "aa")})
    before = path.read_bytes()
    record(tmp_path, PART, **options)
    assert path.read_bytes() == before, "nothing new, and the day is that of the whole run"

    record(tmp_path, structs.replace(PART, checks=(CheckResult("import", False, "it fails"),)), **options)
    known = status.read_status(path)
    seen = known.over_installed.verify if known.over_installed else known.verify
    assert (seen.checks, seen.failed) == (2, ("extension saxpy: no nvcc", "import: it fails"))
    assert seen.parity and known.recorded[key].date > "2001-02-03"

    record(tmp_path, PART, "with another flag", **options)
    known = status.read_status(path)
    seen = known.over_installed.verify if known.over_installed else known.verify
    assert (seen.checks, seen.failed, seen.parity) == (1, (), None), "of the same series, and another wheel"


def test_nothing_is_kept_of_a_record_that_does_not_say_which_wheels_it_is_of(tmp_path: Path) -> None:
    """Up to 2026-11-28 none said it: what those wheels were is not known."""
    path = record(tmp_path, WHOLE, whole=True)
    status.update_status(path, verify=structs.replace(status.read_status(path).verify, wheels={}))
    record(tmp_path, PART)
    assert (status.read_status(path).verify.checks, status.read_status(path).verify.parity) == (1, None)


def test_a_whole_run_replaces_what_was_recorded(tmp_path: Path) -> None:
    record(tmp_path, WHOLE, whole=True)
    path = record(tmp_path, structs.replace(GOOD, kernels=None), whole=True)
    assert (status.read_status(path).verify.checks, status.read_status(path).verify.failed) == (1, ())


def test_a_contract_without_upstreams_suites_erases_no_run_that_had_them(tmp_path: Path) -> None:
    """`decouple contract 2.6` took "72 of 72 items" out of the table for 71, which its own row then called too few."""
    whole = status.ContractSection({"supported": 72}, {"passed": 353}, "2.6.0+decoupled", "aa")
    part = structs.replace(whole, items={"supported": 71, "missing": 1}, tests={"passed": 307, "skipped": 46})
    path, asked = status.locate_status(tmp_path, "2.6"), ContractRequest(tmp_path, "2.6")
    record_contract(structs.replace(asked, upstream=True), "core", whole, 0, QUIET)
    record_contract(asked, "core", part, 0, QUIET)
    assert status.read_status(path).contract == {"core": whole}
    failed = structs.replace(part, tests={"passed": 306, "failed": 1, "skipped": 46})
    for other, code in ((failed, 1), (structs.replace(part, series="of today"), 0)):
        record_contract(asked, "core", other, code, QUIET)
        assert status.read_status(path).contract == {"core": other}


@pytest.mark.parametrize(
    ("code", "said"), [(-11, "by signal 11"), (139, "with exit status 139"), (1, "with exit status 1")]
)
def test_a_contract_whose_pytest_crashed_behind_its_report_is_not_recorded(
    tmp_path: Path, code: int, said: str
) -> None:
    """A backend that crashed when it was unloaded stood as "72 of 72 items hold"."""
    found, warnings = status.ContractSection({"supported": 72}, {"passed": 353}, "2.6.0+decoupled", "aa"), list[str]()
    record_contract(ContractRequest(tmp_path, "2.6"), "core", found, code, Listener(warn=warnings.append))
    assert not status.locate_status(tmp_path, "2.6").exists()
    (told,) = warnings
    assert f"pytest ended {said} behind its report, so nothing is recorded" in told


def test_checks_on_an_unmodified_core_are_not_recorded_as_those_of_ours(tmp_path: Path) -> None:
    path = record(tmp_path, WHOLE, whole=True)
    before = path.read_bytes()
    record(tmp_path, structs.replace(GOOD, kernels=None), whole=True, core="stock")
    assert path.read_bytes() == before


def test_a_comparison_with_one_build_does_not_erase_that_with_another(tmp_path: Path) -> None:
    """`verify 2.6 --kernels monolith` took the figures of the official wheel out of README."""
    record(tmp_path, GOOD, kernels="official")
    record(
        tmp_path, structs.replace(GOOD, kernels=structs.replace(SAME, theirs="libtorch_cuda.so")), kernels="monolith"
    )
    path = record(tmp_path, structs.replace(GOOD, kernels=structs.replace(SAME, theirs="mine")), kernels="mine.xz")
    assert {label: one.theirs for label, one in status.read_status(path).kernels.items()} == {
        "built": "official",
        "built/monolith": "libtorch_cuda.so",
    }


@pytest.mark.parametrize("kind", ["portable", "official", "official half"])
def test_a_run_without_kernels_keeps_those_of_the_same_wheel(tmp_path: Path, kind: str) -> None:
    """`verify 2.6 --env portable` took "19452 of 19458 functions the same" out of the table."""
    cuda = "12.4" if kind == "official half" else ""

    def run(result: VerifyResult, series: str = SERIES_A, arch: str = "9.0", core: str = "") -> status.WheelSection:
        wheel = make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124", cuda="12.4", series=series, arch=arch)
        own = make_wheel(tmp_path, "torch", "2.6.0+decoupled", series=series)
        asked = bool(result.kernels)
        result = structs.replace(result, wheels={**status.hash_wheels([wheel]), "torch.whl": core})
        if kind == "portable":
            portable = VerifyPortableRequest(tmp_path, "2.6", kernels="official" if asked else None)
            verify_portable._record_result(portable, BUILT, (own, wheel), result)
        else:
            official = VerifyOfficialRequest(tmp_path, "2.6", "portable", cuda=cuda, kernels=asked)
            verify_official._record_result(official, wheel, result, "decouple build")
        known = status.read_status(status.locate_status(tmp_path, "2.6"))
        (found,) = [one for one in [known.over_official, *known.portable.values()] if one]
        return found

    first = run(GOOD)
    without = structs.replace(GOOD, kernels=None)
    assert first.kernels and run(without) == first
    assert run(without, core="another").kernels, "of the same torch_cuda"
    assert run(GOOD).kernels and run(without, SERIES_B).kernels is None
    assert run(GOOD).kernels and run(without, arch="8.0").kernels is None, "of the same name and series, built again"


EDITED = f"{'f' * 40}+335b7a45c3a7"
"""The tree of a wheel, as its manifest has it, that had an edit when the wheel was built."""


def make_both(folder: Path, **backend: str) -> tuple[Path, Path]:
    """A core of series A, and a torch_cuda that is ``backend``."""
    core = make_wheel(folder, "torch", "2.6.0+decoupled", series=SERIES_A)
    return core, make_wheel(folder, "torch-cuda", "2.6.0+cu124", cuda="12.4", **backend)  # type: ignore[arg-type]


def test_what_is_not_known_is_no_check_that_passed() -> None:
    unknown = CheckResult("torch_cuda was compiled against this core", True, "not known", done=False)
    seen = structs.replace(GOOD, checks=(*GOOD.checks, unknown))
    assert seen.ok and verify.make_section("built", seen).checks == len(GOOD.checks)


def test_wheels_are_of_the_one_series_of_their_manifests_where_no_tree_had_edits(tmp_path: Path) -> None:
    warned: list[str] = []
    assert find_series(make_both(tmp_path), "nox -s build-2.6", warned.append) == SERIES_A
    assert find_series([], "nox -s build-2.6", warned.append) == "" and not warned
    mixed = make_both(tmp_path / "mixed", series=SERIES_B)
    assert find_series(mixed, "nox -s build-2.6", warned.append) is None
    edited = make_both(tmp_path / "edited", tree=EDITED)
    assert find_series(edited, "nox -s build-2.6", warned.append) is None
    assert warned[0].endswith("made of different series, so nothing is recorded; `nox -s build-2.6`")
    assert warned[1].startswith(f"{edited[1].name}: made of a tree with edits that are in no patch, so nothing is rec")
    assert "`decouple refresh RELEASE`" in warned[1] and warned[1].endswith("then `nox -s build-2.6`")


@pytest.mark.parametrize("made", [{"tree": EDITED}, {"series": SERIES_B}], ids=["edited", "of another series"])
def test_portable_wheels_that_are_no_proof_of_a_series_are_not_recorded(tmp_path: Path, made: dict[str, str]) -> None:
    """The core of one series and torch_cuda of another made all patches of the other "built"."""
    warned: list[str] = []
    asked = VerifyPortableRequest(tmp_path, "2.6")
    verify_portable._record_result(asked, BUILT, make_both(tmp_path, **made), GOOD, Listener(warn=warned.append))
    assert not status.locate_status(tmp_path, "2.6").exists()
    assert len(warned) == 1 and "`decouple build 2.6 --env portable --python 3.13`" in warned[0]


def test_what_was_built_of_an_edited_tree_is_not_recorded_as_the_series(tmp_path: Path) -> None:
    """ "24 built" stood there, and the wheels had a line that is in no patch."""
    warned: list[str] = []
    listener, wheel = Listener(warn=warned.append), make_both(tmp_path, tree=EDITED)[1]
    official = VerifyOfficialRequest(tmp_path, "2.6", "portable")
    verify_official._record_result(official, wheel, GOOD, "decouple build 2.6 --stage 2", listener)
    places = Places.of_release(tmp_path, "2.6", tmp_path)
    known = Provenance("2.6.0", {}, (), SERIES_A, (), "4" * 64, "12.4")
    build._record_stage(StageWheel(2, wheel, True, Effort(1.0), 1), places, known, 1, listener)
    trial = test_patches.PatchTrialResult("built", "2.6.0", "patched", "simulated", (), (f"{SERIES_A}+edits",))
    test_patches._record_answers(test_patches.PatchTrialRequest(tmp_path, "2.6"), trial, listener)
    assert not status.locate_status(tmp_path, "2.6").exists()
    assert len(warned) == 3 and all("made of a tree with edits" in line for line in warned)
