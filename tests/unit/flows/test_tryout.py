"""Which wheels go onto a bare system, and what is said where that cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import bare_systems, wheel_finishing
from decouple.build.rootfs import Root
from decouple.build.sandbox import make_clean_environment
from decouple.flows.tryout import BareSystem, TryoutRequest, record_checks, select_fitting, try_wheels
from decouple.release import status
from decouple.verify.checks import CheckResult

PROJECT = Path(__file__).parents[3]


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
            r"0 core wheels for Python 3\.11, which debian-12 has .*--python 3\.11",
        ),
    ],
)
def test_what_cannot_be_tried_is_said_before_anything_is_made(request_: TryoutRequest, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        try_wheels(request_)


def test_what_wheels_gave_on_a_system_is_recorded_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with their series: the checkout's may be another one."""
    (tmp_path / "ci" / "status").mkdir(parents=True)
    made = {"torch-1.whl": "old", "torch_cuda-1.whl": "old", "torch_cuda-2.whl": "new"}
    monkeypatch.setattr(
        wheel_finishing, "read_manifest", lambda wheel: SimpleNamespace(series=SimpleNamespace(digest=made[wheel.name]))
    )
    seen = (CheckResult("import torch", True, "2.6.0"), CheckResult("pip check", False, "torch requires acme"))
    record_checks(TryoutRequest(tmp_path, "2.6", system="debian-12"), [Path("torch-1.whl")], seen)
    found = status.read_status(status.locate_status(tmp_path, "2.6")).systems["debian-12"]
    assert (found.core, found.checks, found.failed) == ("torch-1.whl", 2, ("pip check: torch requires acme",))
    assert found.series == "old"
    with pytest.raises(DecoupleError, match="different series"):
        record_checks(
            TryoutRequest(tmp_path, "2.6", system="debian-12"), [Path("torch-1.whl"), Path("torch_cuda-2.whl")], seen
        )


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
