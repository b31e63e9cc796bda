"""Which wheels go onto a bare system, and what is said where that cannot be."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock
from decouple.build import bare_systems, preflight
from decouple.build.rootfs import Root
from decouple.build.sandbox import make_clean_environment
from decouple.cli import main
from decouple.flows.listener import Listener
from decouple.flows.tryout import (
    BareSystem,
    TryoutRequest,
    describe_trial,
    record_checks,
    select_fitting,
    try_wheels,
)
from decouple.release import proofs, status
from decouple.verify.checks import CheckResult
from tests.unit.index.wheels import SERIES_A, SERIES_B, make_wheel

PROJECT = Path(__file__).parents[3]


def test_a_second_trial_on_the_same_system_deletes_nothing_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "torch-2.6.0+decoupled-cp313-cp313-manylinux_2_31_x86_64.whl"
    wheel.write_bytes(b"a wheel")
    monkeypatch.setattr(preflight, "check_root", lambda *_: None)
    request = TryoutRequest(tmp_path, "2.6", system="debian-13", wheels=(wheel,), tests=False)
    folder = request.places.stage2.parent / "tryout/debian-13"
    folder.mkdir(parents=True)
    (folder / "of the first").touch()
    with hold_lock(folder.with_name(".debian-13.lock")):
        with pytest.raises(DecoupleError, match="another `decouple try wheels` works there"):
            try_wheels(request)
    assert [path.name for path in folder.iterdir()] == ["of the first"]


def test_every_system_has_a_root_of_its_own_in_the_cache() -> None:
    """Its name holds the digest of what makes it."""
    described = [system.make_description() for system in bare_systems.read_systems()]
    assert len({one.compute_digest() for one in described}) == len({one.name for one in described}) == len(described)


def test_further_sources_of_apt_make_another_root() -> None:
    jammy = bare_systems.find_system("ubuntu-22.04")
    assert jammy.sources
    plain = bare_systems.System(**{name: getattr(jammy, name) for name in jammy.__struct_fields__ if name != "sources"})
    assert plain.make_description().compute_digest() != jammy.make_description().compute_digest()


def test_a_wheel_for_every_python_fits_beside_one_for_this() -> None:
    wheels = [
        Path("torch-2.6.0+decoupled-cp39-cp39-manylinux_2_31_x86_64.whl"),
        Path("torch-2.6.0+decoupled-cp311-cp311-manylinux_2_31_x86_64.whl"),
        Path("torch_cuda_libraries-2.6.0+cu124-py3-none-manylinux_2_31_x86_64.whl"),
    ]
    assert select_fitting(wheels, "3.11") == wheels[1:]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (TryoutRequest(PROJECT, "2.6", system="debian-5"), "debian-5: no such system .*use one of debian-11"),
        (
            TryoutRequest(PROJECT, "2.6", system="debian-11", projects=("nothing",)),
            "nothing: no project of ecosystem.toml for 2.6 .*torchvision",
        ),
        (
            TryoutRequest(PROJECT, "2.6", system="debian-12", wheels=(Path("torch-2.6.0-cp39-cp39-any.whl"),)),
            r"^torch-2\.6\.0-cp39-cp39-any\.whl: 0 core wheels for Python 3\.11, which debian-12 has .*--python 3\.11",
        ),
        (
            TryoutRequest(PROJECT, "2.6", system="debian-12", wheels=(Path("torch.whl"),)),
            r"torch\.whl: not a wheel's file name",
        ),
        (
            TryoutRequest(PROJECT, "2.6", system="debian-12", wheels=(Path("torch-2.6.0-cp311-cp311-any.whl"),)),
            r"torch-2\.6\.0-cp311-cp311-any\.whl: no such file",
        ),
    ],
)
def test_what_cannot_be_tried_is_said_before_anything_is_made(request_: TryoutRequest, said: str) -> None:
    with pytest.raises(DecoupleError, match=said):
        try_wheels(request_)


def test_every_system_is_known_before_the_first_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour went by before the slip in the second name was told."""
    monkeypatch.setattr("decouple.flows.tryout.try_wheels", lambda request, listener: pytest.fail(request.system))
    assert main(["try", "wheels", "2.6", "debian-12", "debain-13"]) == 2
    assert "debain-13: no such system" in capsys.readouterr().err


SEEN = (CheckResult("import torch", True, "2.6.0"), CheckResult("pip check", False, "torch requires acme"))


def record(project: Path, wheels: Sequence[Path], found: Sequence[CheckResult], *projects: str) -> proofs.ProofRow:
    """Record as `try wheels --record --with PROJECT` does; returns the row of the table of proofs."""
    request = TryoutRequest(project, "2.6", system="debian-12", projects=projects)
    section = describe_trial(request, wheels)
    assert section
    record_checks(request, section, found)
    return read_row(project)


def read_row(project: Path) -> proofs.ProofRow:
    rows = proofs.list_proof_rows(status.read_status(status.locate_status(project, "2.6")))
    (row,) = [row for row in rows if row.name == f"{proofs.SYSTEMS}: debian-12"]
    return row


def test_what_wheels_gave_on_a_system_is_recorded_by_its_name(tmp_path: Path) -> None:
    """And with their series: the checkout's may be another one."""
    core, other = make_wheel(tmp_path, "torch", "2.6.0"), make_wheel(tmp_path, "torch-cuda", "2.6.0", series=SERIES_B)
    record(tmp_path, [core], SEEN)
    found = status.read_status(status.locate_status(tmp_path, "2.6")).systems["debian-12"]
    assert (found.core, found.checks, found.failed) == (core.name, 2, ("pip check: torch requires acme",))
    assert found.series == SERIES_A
    with pytest.raises(DecoupleError, match="different series"):
        record(tmp_path, [core, other], SEEN)


def test_wheels_of_an_edited_tree_are_tried_and_not_recorded(tmp_path: Path) -> None:
    warned: list[str] = []
    core, edited = make_wheel(tmp_path, "torch", "2.6.0"), make_wheel(tmp_path, "torch-cuda", "2.6.0", tree="f0+335b")
    request = TryoutRequest(tmp_path, "2.6", system="debian-12", record=True)
    assert describe_trial(request, [core, edited], Listener(warn=warned.append)) is None
    assert warned[0].startswith(f"{edited.name}: made of a tree with edits")


def test_a_run_with_fewer_projects_does_not_hide_what_failed_on_the_same_wheels(tmp_path: Path) -> None:
    """A failed torchvision went by typing the command of the table, which had no --with."""
    core = make_wheel(tmp_path, "torch", "2.6.0")
    fails = CheckResult("torchvision==0.21.0: used", False, "Segmentation fault")
    row = record(tmp_path, [core], (*SEEN[:1], fails), "torchvision")
    assert (row.figure, row.verdict) == ("1 of 2 checks", "fails")
    assert row.command == "decouple try wheels {release} debian-12 --with torchvision --record"
    with pytest.raises(UsageError, match="torchvision was tried on these wheels") as caught:
        record(tmp_path, [core], SEEN[:1])
    assert str(caught.value.next_step).startswith("add --with torchvision") and read_row(tmp_path).verdict == "fails"
    assert record(tmp_path, [core], SEEN[:1], "torchaudio", "torchvision").verdict == "holds", "a run with more"
    another = make_wheel(tmp_path, "torch", "2.6.0", extra_members={"torch/more.py": b""})
    assert another == core and record(tmp_path, [another], SEEN[:1]).verdict == "holds", "built again"


def test_what_could_not_be_tried_is_no_check_that_passed(tmp_path: Path) -> None:
    unused = CheckResult("torchvision==0.21.0: not used", True, "it needs libcudart.so.12", done=False)
    assert record(tmp_path, [make_wheel(tmp_path, "torch", "2.6.0")], (*SEEN[:1], unused)).figure == "1 of 1 checks"


def test_a_run_without_upstreams_tests_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--no-tests"):
        try_wheels(TryoutRequest(tmp_path, "2.6", system="debian-12", tests=False, record=True))


def test_a_password_in_pips_settings_is_on_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody on the machine can read one."""
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:secret@index.example/simple")
    monkeypatch.setenv("TOKEN", "another")
    bare = BareSystem(Root(bare_systems.find_system("debian-12").make_description(), tmp_path, ()), ())
    assert "secret" not in " ".join(bare.make_online_command(["pip", "install", "torch"]))
    given = subprocess.run(
        [*make_clean_environment({}, network=True, inherited=("PIP_",)), "env"], capture_output=True, text=True
    )
    assert "PIP_INDEX_URL=https://me:secret@" in given.stdout and "TOKEN" not in given.stdout
    plain = subprocess.run([*make_clean_environment({}, network=True), "env"], capture_output=True, text=True)
    assert "PIP_" not in plain.stdout, "apt has no use for it"
