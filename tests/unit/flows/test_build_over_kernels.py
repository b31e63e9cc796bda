"""Stage 2 over kernels that somebody else compiled: what cannot be is one line, before anything is fetched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256
from decouple.base.paths import find_project
from decouple.build import inputs
from decouple.cli import main
from decouple.cli.wheel_origin import KERNELS
from decouple.flows import portable_environment, prebuilt_kernels, work_environment
from decouple.flows.build import build_wheels
from decouple.flows.build_request import BuildRequest
from decouple.flows.contract import ContractRequest, check_contract
from decouple.flows.parity import ParityRequest, compare_parity
from decouple.flows.verify import VerifyRequest, verify_wheels
from decouple.prebuilt import kernel_folder
from tests.unit.index.wheels import SERIES_A, make_manifest, make_wheel


def refused(tmp_path: Path, **request: object) -> str:
    with pytest.raises(UsageError) as told:
        build_wheels(BuildRequest(tmp_path, "2.6", stage=2, **request))  # type: ignore[arg-type]
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("socket.socket", None)


def test_the_patched_core_must_be_there_first(tmp_path: Path) -> None:
    said = refused(tmp_path, env="portable", core="built", kernels="official")
    assert "no core wheel of 2.6 for --core built" in said
    assert not (tmp_path / "cache").exists()


def test_the_official_half_goes_with_its_own_kernels_or_with_compiled_ones(tmp_path: Path) -> None:
    assert "that half goes with its own kernels" in refused(tmp_path, core="official", kernels="monolith")


def test_a_release_without_kernels_is_refused_before_its_cost_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """`--estimate` told two minutes; in the Debian root the build advised --env host, where it was refused, too."""
    for env in ("portable", "rootfs"):
        assert main(["build", "2.7", "--estimate", "--env", env, "--kernels", "official"]) == 2
        said = capsys.readouterr()
        assert "no official kernels are named for 2.7" in said.err and not said.out


def test_kernels_are_a_word_or_a_folder(tmp_path: Path) -> None:
    assert BuildRequest(tmp_path, "2.6", kernels="monolith").kind == "installed"
    assert BuildRequest(tmp_path, "2.6", kernels="monolith").against == "stock"
    assert BuildRequest(tmp_path, "2.6", kernels="official").against == "official"
    assert BuildRequest(tmp_path, "2.6").against == "built"


def test_wheels_of_each_kind_are_made_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """So none is taken for another: objects and stamps lie apart, and the version in the wheel's name says which."""
    ways = [{}, {"kernels": "official"}, {"kernels": "official", "core": "built"}, {"kernels": "monolith"}]
    ways.append({"core": "stock"})
    folders = [BuildRequest(tmp_path, "2.6", **way).places.state for way in ways]  # type: ignore[arg-type]
    assert len(set(folders)) == len(ways)


def test_a_wheel_for_an_unmodified_core_leaves_that_for_ours_where_it_is(tmp_path: Path) -> None:
    """`build --core stock` wrote over it, under the same name, and `verify` took it for the other one."""
    ours, stock = (BuildRequest(tmp_path, "2.6", core=core).places for core in ("built", "stock"))
    for name in ("dist", "stage2", "state", "locks", "verify"):
        assert getattr(stock, name) != getattr(ours, name)
    assert VerifyRequest(tmp_path, "2.6", core="stock").places == stock
    first = BuildRequest(tmp_path, "2.6", stage=1, core="stock").places
    assert first == ours, "stage 1 is the same"


@pytest.mark.parametrize("core", ["built", "stock"])
def test_a_wheel_for_another_core_is_not_verified_as_one_for_this(tmp_path: Path, core: str) -> None:
    """Of a build before each had a folder of its own, or of a wheel that was copied there."""
    asked = VerifyRequest(tmp_path, "2.6", core=core)
    manifest = structs.replace(make_manifest("torch-cuda", "2.6.0+cu124", "12.4", SERIES_A), flags={"core": "official"})
    wheel = make_wheel(asked.places.dist, "torch-cuda", "2.6.0+cu124", manifest=manifest.to_json())
    inputs.write_stamp(
        asked.places.state / "stage2.json", inputs.Stamp("0" * 64, wheel.name, compute_sha256(wheel), 1.0, 1)
    )
    with pytest.raises(UsageError, match=f"built against the core 'official', not '{core}'") as said:
        verify_wheels(asked)
    assert said.value.next_step == {
        "built": "nox -s build-2.6", "stock": "decouple build 2.6 --stage 2 --core stock"
    }[core]  # fmt: skip


def ask_parity(project: Path) -> None:
    compare_parity(ParityRequest(project, "2.6", record=True))


def ask_contract(project: Path) -> None:
    check_contract(ContractRequest(project, "2.6", beside_cuda=True))


@pytest.mark.parametrize("ask", [ask_parity, ask_contract])
def test_a_wheel_for_another_core_is_not_taken_beside_ours(tmp_path: Path, ask: Callable[[Path], None]) -> None:
    """Of a build before each core had a folder of its own; what was found was recorded of ours."""
    for name in ("series", "third_device"):
        (tmp_path / name).symlink_to(find_project() / name)
    places = BuildRequest(tmp_path, "2.6").places
    for stage, project, core in ((1, "torch", {}), (2, "torch-cuda", {"core": "stock"})):
        manifest = structs.replace(make_manifest(project, "2.6.0", None, SERIES_A), flags=core)
        wheel = make_wheel(places.dist, project, "2.6.0", manifest=manifest.to_json())
        stamp = inputs.Stamp("0" * 64, wheel.name, compute_sha256(wheel), 1.0, 1)
        inputs.write_stamp(places.state / f"stage{stage}.json", stamp)
    with pytest.raises(UsageError, match="built against the core 'stock', not 'built'") as said:
        ask(tmp_path)
    assert said.value.next_step == "nox -s build-2.6"


def test_explain_says_of_each_kind_whose_it_is(tmp_path: Path) -> None:
    kinds = {BuildRequest(tmp_path, "2.6", kernels=word).kind for word in ("official", "monolith", "/opt/torch")}
    assert kinds == set(KERNELS) and "upstream's own wheel" not in KERNELS["installed"]


def test_the_wheel_is_fetched_while_the_tree_and_the_root_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they are most of the minutes to an imported torch_cuda."""
    started, made = threading.Event(), threading.Event()

    def fetch(*_: object) -> kernel_folder.Halves:
        started.set()
        assert made.wait(20), "the root waited for the wheel"
        raise DecoupleError("so far and no farther", next_step="the test ends here")

    def make_root(*_: object) -> None:
        assert started.wait(20)
        made.set()

    monkeypatch.setattr(kernel_folder, "make_halves", fetch)
    monkeypatch.setattr(work_environment, "ensure_tree", lambda *_, **__: None)
    monkeypatch.setattr(portable_environment, "bundle_third_party", lambda *_: None)
    monkeypatch.setattr(prebuilt_kernels, "refuse_if_too_small", lambda *_, **__: None)
    monkeypatch.setattr(portable_environment, "make_root", make_root)
    with pytest.raises(DecoupleError, match="so far and no farther"):
        build_wheels(BuildRequest(find_project(), "2.6", stage=2, env="portable", kernels="official"))
