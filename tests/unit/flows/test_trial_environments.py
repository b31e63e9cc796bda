"""Environments that wheels are tried in are made anew, and a kill leaves none that is taken for a whole one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256
from decouple.build import inputs
from decouple.build.environment import HostEnvironment, Places
from decouple.flows import parity, single_stage, stage2_commands, test_cuda, unpatched_kernels, verify_official
from decouple.flows.build_request import BuildRequest
from decouple.flows.clean import CleanRequest, clean_build
from decouple.flows.test_cuda import TorchChoice, open_target
from decouple.flows.work_environment import WorkRequest, hold_trials
from decouple.verify import venvs
from tests.unit.flows.built import link_manifest
from tests.unit.index.wheels import SERIES_A, SERIES_B, make_wheel

HERE = Path(sys.executable)


def unpack(folder: Path, wheel: Path) -> None:
    """Wheels on what another Python has."""
    parity.unpack_wheels(HERE, folder / "whole", [wheel])


def prepare(folder: Path, wheel: Path) -> None:
    """The CPU half of the official wheel."""
    places = replace(Places.of_release(folder, "2.6", folder), verify=folder)
    verify_official._prepare_half(places, HERE, wheel)


def install(folder: Path, wheel: Path) -> None:
    """Where the wheels were built."""
    environment = HostEnvironment(Places.of_release(folder, "2.6", folder))
    venvs.install_wheels(venvs.Workplace(environment, folder, str(folder), folder / "log"), "both", [wheel])


@pytest.mark.parametrize(
    ("make", "mark"), [(unpack, "whole.content"), (prepare, "half.content"), (install, "both/content")]
)
def test_a_kill_while_the_old_one_is_deleted_leaves_no_mark(
    make: Callable[[Path, Path], None], mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tries the old wheels again would have taken what is left of it."""

    def kill(folder: Path) -> None:
        raise KeyboardInterrupt

    (tmp_path / "wheel.whl").write_bytes(b"new")
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).write_text("of the old wheels")
    for module in (parity, verify_official, venvs):
        monkeypatch.setattr(module, "remove_tree", kill)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, tmp_path / "wheel.whl")
    assert not (tmp_path / mark).exists()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose builds are tested on this machine in place of the Debian root."""
    link_manifest(tmp_path)
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(test_cuda, "ensure_tree", lambda *_: None)
    monkeypatch.setattr(test_cuda, "warn_of_older_wheels", lambda *_: None)
    monkeypatch.setattr(test_cuda, "open_environment", lambda _, places, *__: HostEnvironment(places))
    return tmp_path


def build(project: Path, series: str) -> Places:
    """Both wheels, of that series."""
    places = Places.of_release(project, "2.6", project)
    for stage, name in enumerate(("torch", "torch_cuda"), 1):
        wheel = make_wheel(places.dist, name, "2.6.0", series=series)
        stamp = inputs.Stamp("0" * 64, wheel.name, compute_sha256(wheel), 1.0, 1)
        inputs.write_stamp(places.state / f"stage{stage}.json", stamp)
    return places


def test_a_build_exchanges_no_torch_under_the_tests_that_run_on_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second `test-cuda`, or `try patches`, deleted the environment in which the first one's tests ran."""
    monkeypatch.setattr(venvs, "run_logged", lambda *_, **__: None)  # no pip: nothing is imported
    torch, other = (TorchChoice("built", label, "gpu", project, project) for label in ("built", "other"))
    work = WorkRequest(project, "2.6")
    places = build(project, SERIES_A)
    with open_target(torch, work), open_target(other, work):
        content = (places.verify / "suites-built/content").read_text()
        build(project, SERIES_B)
        for second in (torch, other):
            with pytest.raises(DecoupleError, match="suites-built: another `decouple test-cuda` or"):
                with open_target(second, work):
                    pass
        assert (places.verify / "suites-built/content").read_text() == content
    with open_target(other, work):
        assert (places.verify / "suites-built/content").read_text() != content


def test_clean_deletes_no_environment_while_it_is_made_or_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def clean() -> None:
        with pytest.raises(DecoupleError, match="verify: a test of what was built is running"):
            clean_build(CleanRequest(project, "2.6"))

    places, made = build(project, SERIES_A), list[str]()

    def install(*_: object, what: str, **__: object) -> None:
        clean()
        made.append(what)

    monkeypatch.setattr(venvs, "run_logged", install)
    with open_target(TorchChoice("built", "built", "gpu", project, project), WorkRequest(project, "2.6")):
        clean()
    assert made == ["virtual environment suites-built", "install into suites-built"]
    assert places.verify in clean_build(CleanRequest(project, "2.6"))


@pytest.mark.parametrize("compare", [unpatched_kernels.compare_unpatched, single_stage.compare_single_stage])
def test_a_second_comparison_with_unpatched_kernels_deletes_nothing_of_the_first(
    compare: Callable[[BuildRequest, int], object], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does `clean`, which knows who holds the trials."""
    places = Places.of_release(project, "2.6", project)
    built = stage2_commands.Stage2Commands(HostEnvironment(places), {})
    monkeypatch.setattr(stage2_commands, "open_commands", lambda *_: built)
    with hold_trials(places, "kernels unpatched"):
        with pytest.raises(DecoupleError, match="another `decouple kernels unpatched` works there"):
            compare(BuildRequest(project, "2.6", toolkit="rocm"), 1)
