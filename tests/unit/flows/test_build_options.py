"""Options of `decouple build` that go together take their way, and those that do not are refused, never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.build.environment import HostEnvironment
from decouple.build.options import Choices, Provenance
from decouple.build.shards import ObjectShard
from decouple.build.stage import ShardResult, StageWheel
from decouple.build.stage2 import OtherVendor, Stage2
from decouple.cli import main
from decouple.flows import build
from decouple.flows.build_request import BuildRequest, estimate_stages, settle_choices

KNOWN = Provenance("2.6.0", {}, (), "2" * 64, (), "4" * 64, "12.4")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """Which stages are made where a build would begin, in an environment that is there."""
    classes: list[type] = []

    def open_build(request: BuildRequest, *_: object) -> tuple[HostEnvironment, Provenance, Choices]:
        return HostEnvironment(request.places), KNOWN, settle_choices(request)

    def end_here(stage: Stage2, *_: object) -> ShardResult | StageWheel:
        classes.append(type(stage))
        raise DecoupleError("so far and no farther", next_step="the test ends here")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_open_build", open_build)
    monkeypatch.setattr(Stage2, "check_environment", lambda _: None)
    monkeypatch.setattr(Stage2, "compile_shard", end_here)
    monkeypatch.setattr(Stage2, "build_wheel", end_here)
    return classes


def test_a_shard_is_one_of_the_toolkit_that_was_asked_for(tmp_path: Path, made: list[type]) -> None:
    """With `--toolkit rocm` it looked for nvcc, and would have compiled torch_cuda."""
    request = BuildRequest(
        find_project(), "2.6", tree=tmp_path, stage=2, core="stock", toolkit="rocm", cache=f"file:{tmp_path}/shared"
    )
    for start in (build.build_wheels, lambda request: build.build_shard(request, ObjectShard(1, 2))):
        with pytest.raises(DecoupleError, match="so far and no farther"):
            start(request)
    assert made == [OtherVendor, OtherVendor]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (
            {"kernels": "official", "archs": "9.0"},
            r"--arch 9\.0, --kernels official: .*decouple repack thin WHEEL --arch",
        ),
        ({"kernels": "monolith", "archs": "official"}, "--arch official, --kernels monolith"),
        ({"kernels": "official", "flash": False}, "--no-flash, --kernels official: .*leave --no-flash out"),
        ({"env": "rootfs", "third_party": Path("/mine")}, "--third-party /mine: .*--env portable"),
        ({"env": "host", "third_party": Path("/mine")}, "--third-party /mine: .*--env portable"),
        ({"third_party": Path("/mine")}, "--third-party /mine: .*--env portable"),
        ({"env": "portable", "core": "stock"}, "--env portable: .*no stock core.*leave --env out"),
        ({"env": "portable", "kernels": "monolith"}, "--env portable: .*leave --env or --kernels monolith out"),
    ],
)
def test_an_option_that_would_be_dropped_is_refused(chosen: Mapping[str, object], said: str) -> None:
    request = BuildRequest(find_project(), "2.6", stage=2, **chosen)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=said):
        estimate_stages(request)


def test_a_smoke_build_is_in_no_portable_root(capsys: pytest.CaptureFixture[str]) -> None:
    """It is against Debian's core, and ended with a layer of a TOML file that nobody can choose."""
    with pytest.raises(SystemExit, match="2"):
        main(["smoke", "2.6", "--env", "portable"])
    assert "--env" in capsys.readouterr().err


def test_kernels_of_the_official_wheel_are_for_its_architectures() -> None:
    assert settle_choices(BuildRequest(find_project(), "2.6", stage=2, kernels="official", archs="official")).archs
    portable = BuildRequest(find_project(), "2.6", env="portable", third_party=Path("/mine"))
    assert settle_choices(portable).core == "built"


def test_an_estimate_is_for_the_jobs_that_MAX_JOBS_allows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The build ran with that many, and was told to take a core's time on each core of the machine."""
    request = BuildRequest(find_project(), "2.6", core="stock", tree=tmp_path)
    monkeypatch.setenv("MAX_JOBS", "1")
    (one,) = estimate_stages(request)
    monkeypatch.setenv("MAX_JOBS", "10")
    (ten,) = estimate_stages(request)
    assert one.seconds == pytest.approx(10 * ten.seconds)


def test_the_record_has_the_jobs_that_MAX_JOBS_allowed(monkeypatch: pytest.MonkeyPatch, made: list[type]) -> None:
    recorded: list[int] = []

    class Outcome:
        built = True

        def format_line(self) -> str:
            return ""

    monkeypatch.setattr(build, "Stage1", lambda job: type("Stage", (), {"build_wheel": lambda _: Outcome()})())
    monkeypatch.setattr(build, "_record_stage", lambda outcome, places, known, jobs, _: recorded.append(jobs))
    monkeypatch.setenv("MAX_JOBS", "7")
    build.build_wheels(BuildRequest(find_project(), "2.6", env="host", stage=1))
    assert recorded == [7]
