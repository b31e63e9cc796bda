"""The commands: what they print, and their exit codes for wrong calls."""

from __future__ import annotations

import contextlib
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock
from decouple.build import settings, wheel_finishing
from decouple.build.environment import Places
from decouple.build.options import Provenance
from decouple.cli import main
from decouple.flows.build_request import BuildRequest
from decouple.flows.provenance import compute_overlay_digest
from decouple.flows.work_environment import hold_trials
from decouple.release.wheel_manifest import OverlayContent, SeriesContent, WheelManifest


def manifest(provenance: Provenance) -> WheelManifest:
    return WheelManifest(
        release="2.6",
        project="torch-cuda",
        version="2.6.0+cu124",
        upstream=provenance.upstream,
        sources=provenance.sources,
        series=SeriesContent(provenance.series_digest, provenance.patches),
        overlay=OverlayContent(provenance.overlay_digest),
        tree="5" * 40,
        cuda="12.4",
        arch_list=("9.0",),
        toolchain={"cmake": "cmake version 3.31.6", "ccache": None},
        flags={"core": "built"},
        environment={"USE_CUDA": "0"},
        times={"source_date_epoch": 1},
    )


def raw_wheel(folder: Path, text: str = "code") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        info = "torch_cuda-2.6.0+cu124.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: torch-cuda\nVersion: 2.6.0+cu124\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr(f"{info}/RECORD", "")
        archive.writestr("torch_cuda/__init__.py", text)
    return path


def test_explain_prints_what_a_wheel_was_made_from(
    tmp_path: Path, provenance: Provenance, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = wheel_finishing.finish_wheel(
        raw_wheel(tmp_path / "raw"), tmp_path / "dist", manifest(provenance), 1738108800
    )
    assert main(["verify", str(wheel), "--explain"]) == 0
    said = capsys.readouterr().out
    for part in (
        "torch-cuda 2.6.0+cu124",
        "v2.6.0",
        "2.6/0001-x.patch",
        "12.4 for 9.0",
        "ccache      not there",
        "without a pinned hash",
    ):
        assert part in said
    assert main(["verify", str(wheel), "--explain", "--json"]) == 0
    assert WheelManifest.from_json(capsys.readouterr().out.encode(), "stdout") == manifest(provenance)


def test_finishing_twice_gives_the_same_bytes_and_a_changed_file_others(tmp_path: Path, provenance: Provenance) -> None:
    made = [
        wheel_finishing.finish_wheel(
            raw_wheel(tmp_path / name, text), tmp_path / f"{name}-out", manifest(provenance), 1738108800
        )
        for name, text in (("a", "code"), ("b", "code"), ("c", "other"))
    ]
    one, two, three = (path.read_bytes() for path in made)
    assert one == two != three
    with zipfile.ZipFile(made[0]) as wheel:
        names = wheel.namelist()
        record = wheel.read(names[-1]).decode()
    assert names[0] == "torch_cuda/__init__.py"  # the dist-info comes last, RECORD at its end
    assert names[-1].endswith("/RECORD")
    assert all(name in record for name in names)


def test_explaining_what_is_not_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(raw_wheel(tmp_path / "raw")), "--explain"]) == 1
    assert "no decouple.json in it" in capsys.readouterr().err
    (tmp_path / "text.whl").write_text("no zip")
    assert main(["verify", str(tmp_path / "text.whl"), "--explain"]) == 1
    assert "text.whl" in capsys.readouterr().err


def test_the_estimate_says_what_each_choice_costs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("series", "patches"):
        (tmp_path / name).mkdir()
    shutil.copy(Path(__file__).parents[3] / "series/2.6.toml", tmp_path / "series")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))  # a checkout in which nothing was built
    call = ["build", "2.6", "--estimate", "--jobs", "2", "--tree", str(tmp_path)]
    assert main(call) == 0
    both = capsys.readouterr().out
    assert both.count("objects to go") == 2
    assert main([*call, "--core", "stock", "--no-flash"]) == 0
    stock = capsys.readouterr().out.splitlines()[-1]  # where the machine has a part of the root, the rest comes first
    assert stock.startswith("stage 2: 406 objects to go, about 1 h")


def test_an_architecture_given_twice_counts_as_in_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The last one alone was compiled, for hours; one that stood there twice cost twice, and "official" stood alone."""
    said = []
    for words in (["7.5;8.0"], ["7.5", "8.0"], ["8.0;7.5", "8.0"], ["official"], ["9.0", "official"], ["8.0"]):
        given = [word for arch in words for word in ("--arch", arch)]
        assert main(["build", "2.6", "--env", "rootfs", "--stage", "2", "--jobs", "2", *given, "--estimate"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2] != said[3] == said[4] != said[5]


def test_seven_architectures_cost_what_was_measured() -> None:
    """Seven times was said, of C++ files as well."""
    seven, one = (settings.estimate_cost(2, arch_count=count).core_seconds for count in (7, 1))
    page = (Path(__file__).parents[3] / "docs/build.md").read_text(encoding="utf-8")
    assert f"`official` {seven / one:.1f} and " in page


def test_a_smoke_test_stays_out_of_the_way_of_a_whole_build() -> None:
    # Plain `nox` replaced stage 2's build directory, its wheel's stamp and its row in ci/status by those of the slice.
    whole, part = (BuildRequest(Path("checkout"), "2.6", part=part).places for part in ("all", "runtime"))
    for name in ("stage2", "state", "dist", "raw", "verify"):
        assert getattr(part, name) != getattr(whole, name)
        assert getattr(part, name).is_relative_to(whole.stage2.parent / "smoke")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout after a build of both stages, as folders."""
    for name in ("series", "patches", "build/2.6/src/build", "build/2.6/stage2", "build/2.6/state", "dist/2.6"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("build/2.6/src/setup.py", "series/2.6.toml"):
        (tmp_path / name).touch()
    for stage in (1, 2):
        (tmp_path / f"build/2.6/state/stage{stage}.json").write_text("{}")
    (tmp_path / "dist/2.6/torch.whl").touch()
    (tmp_path / "build/2.6/kernels").mkdir()
    (tmp_path / "build/2.6/kernels/libtorch_cuda.so").touch()  # of --kernels, 900 MB
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    return tmp_path


def left(project: Path) -> list[str]:
    return sorted(path.relative_to(project).as_posix() for path in project.rglob("*") if not any(path.glob("*")))


def test_clean_leaves_the_source_and_the_wheels(built: Path) -> None:
    assert main(["clean", "2.6", "--stage", "2"]) == 0
    assert (built / "build/2.6/src/build").is_dir() and not (built / "build/2.6/stage2").exists()
    assert (built / "build/2.6/state/stage1.json").exists() and not (built / "build/2.6/state/stage2.json").exists()
    assert main(["clean", "2.6"]) == 0
    assert left(built) == ["build/2.6/src/setup.py", "dist/2.6/torch.whl", "patches", "series/2.6.toml"]
    assert main(["clean", "2.6"]) == 0  # nothing is left to do, and nothing is made
    assert left(built) == ["build/2.6/src/setup.py", "dist/2.6/torch.whl", "patches", "series/2.6.toml"]


OTHERS = ("smoke", "smoke-rocm", "rocm", "official-half", "rootfs-cuda11.8", "python3.13", "python3.13/smoke")


def test_clean_deletes_every_kind_of_build(built: Path) -> None:
    for name in OTHERS:
        for part in ("stage2", "state"):
            (built / "build/2.6" / name / part).mkdir(parents=True)
    (built / "build/2.6/tryout").mkdir()
    (built / "build/2.6/tryout/result.txt").touch()
    with hold_lock(built / "build/2.6/python3.13/smoke/state/stage2.lock"):
        assert main(["clean", "2.6"]) == 1, "one of them runs"
    assert all((built / "build/2.6" / name / "stage2").is_dir() for name in OTHERS)
    assert main(["clean", "2.6", "--stage", "1"]) == 0
    assert all((built / "build/2.6" / name / "stage2").is_dir() for name in OTHERS)
    assert main(["clean", "2.6"]) == 0
    kept = ["build/2.6/src/setup.py", "build/2.6/tryout/result.txt", "dist/2.6/torch.whl", "patches", "series/2.6.toml"]
    assert left(built) == kept


@pytest.fixture
def stored(built: Path) -> list[Path]:
    """What `test-cuda` stored of two builds, beside environments that wheels were tried in."""
    for name in ("", "python3.13/smoke"):
        (built / "build/2.6" / name / "stage2").mkdir(parents=True, exist_ok=True)
        (built / "build/2.6" / name / "verify/suites/built-simulated").mkdir(parents=True)
        (built / "build/2.6" / name / "verify/suites-built").mkdir()
    files = [built / "build/2.6" / name / "verify/suites/built-simulated" for name in ("", "python3.13/smoke")]
    for folder in files:
        (folder / "results.jsonl").write_text("{}\n")
    return files


def test_clean_keeps_what_tests_stored_unless_it_is_asked(
    built: Path, stored: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Hours of upstream's suites went with the environments."""
    rest = ["build/2.6/src/setup.py", "dist/2.6/torch.whl", "patches", "series/2.6.toml"]
    kept = sorted([*rest, *(str(folder.relative_to(built) / "results.jsonl") for folder in stored)])
    assert main(["clean", "2.6"]) == 0
    assert left(built) == kept
    assert f"kept {stored[0].parent}: --results deletes it, too\n" in capsys.readouterr().out
    assert main(["clean", "2.6", "--results", "--stage", "1"]) == 2
    assert main(["clean", "2.6", "--results"]) == 0
    assert left(built) == rest


def test_clean_deletes_nothing_under_a_test_that_runs(
    built: Path, stored: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, places = left(built), Places.of_release(built, "2.6", built)
    smoke = places.for_portable("3.13").with_stage2_in("smoke")
    for running in (hold_trials(places, "verify"), hold_lock(stored[0]), hold_lock(stored[1])):
        with running:
            assert main(["clean", "2.6"]) == 1
        assert ": a test of what was built is running" in capsys.readouterr().err
        assert set(before) <= set(left(built))
    with hold_lock(smoke.verify), pytest.raises(DecoupleError, match="`decouple clean` deletes it"):
        with hold_trials(smoke, "smoke"):
            pass
    assert main(["clean", "2.6"]) == 0


@pytest.mark.parametrize("name", ["stage2", "src/build", "verify", "python3.13/smoke/stage2", "python3.13/smoke"])
def test_clean_deletes_nothing_where_a_folder_is_on_another_disk(
    built: Path, stored: list[Path], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The link went, "deleted" was said, and the objects stayed; or what was behind it went, beside kept results."""
    folder, disk = built / "build/2.6" / name, built / "disk"
    (folder / "a.o").touch()
    folder.rename(disk)
    folder.symlink_to(disk)
    before = left(built)
    assert main(["clean", "2.6"]) == 1
    said = capsys.readouterr()
    assert f"{folder}: is a symbolic link; not deleting through it" in said.err and "deleted " not in said.out
    assert set(before) <= set(left(built)) and folder.is_symlink()


def test_of_two_trials_of_one_kind_the_second_is_refused(built: Path) -> None:
    """It deleted the environment in which the first one tried its wheels."""
    places = Places.of_release(built, "2.6", built)
    with hold_trials(places, "verify"):
        with hold_trials(places, "contract"):
            pass
        with pytest.raises(DecoupleError, match="another `decouple verify` works there"):
            with hold_trials(places, "verify"):
                pass
    with hold_trials(places, "verify"):
        pass


def test_clean_deletes_nothing_under_a_build_that_runs(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = left(built)
    with hold_lock(built / "build/2.6/state/stage2.lock"):
        assert main(["clean", "2.6"]) == 1
    assert "build/2.6: a build is running" in capsys.readouterr().err
    assert set(before) <= set(left(built))


def test_a_lock_says_that_it_waits(tmp_path: Path) -> None:
    said: list[str] = []
    first = contextlib.ExitStack()
    first.enter_context(hold_lock(tmp_path / "lock", lambda: said.append("nobody holds it yet")))

    def busy() -> None:
        said.append("waits")
        first.close()

    with hold_lock(tmp_path / "lock", busy):
        assert said == ["waits"]


def test_a_folder_that_is_no_checkout_is_named(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="third_device/"):
        compute_overlay_digest(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--arch", "hopper"], "--arch hopper: not an architecture"),
        (["--profile", "rocm"], "profile 'rocm' is unknown"),
        (["--jobs", "0"], "--jobs 0: at least 1"),
        (["--env", "host", "--tree", "/nowhere/at/all"], "/nowhere/at/all: no such folder"),
    ],
)
def test_a_wrong_call_is_refused_and_says_why(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    got = main(["build", "2.6", "--estimate" if "--tree" not in arguments else "--resume", *arguments])
    assert (got, said in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("more", [[], ["--stage", "2", "--kernels", "official"]])
def test_a_wrong_tree_is_told_before_the_machine_is_judged(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1))
    assert main(["build", "2.6", "--env", "portable", "--tree", "/nowhere/at/all", *more]) == 2
    assert "/nowhere/at/all: no such folder" in capsys.readouterr().err


def test_a_stage_that_does_not_exist() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["build", "2.6", "--stage", "3"])
    assert caught.value.code == 2


def test_audit_of_a_real_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(Path(sys.executable).resolve())
    assert main(["stages", "audit", "--core", str(tmp_path)]) == 0
    assert "ok     core without CUDA: 1 files" in capsys.readouterr().out
    assert main(["stages", "audit"]) == 2
    assert "nothing to look at" in capsys.readouterr().err
