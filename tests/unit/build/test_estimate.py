"""What a build says before it begins: the root, other releases' figures, what is left of a build that was stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.build import estimate, root_description, rootfs
from decouple.build.root_description import compute_layer_digest
from decouple.cli import main
from decouple.flows.build_request import BuildRequest, estimate_root, estimate_stages
from tests.support.files import write_files


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which nothing was built, with a cache of its own."""
    from decouple.base.paths import find_project

    own = find_project()
    for name in ("series", "patches"):
        (tmp_path / name).mkdir()
    for release in ("2.6", "2.7"):
        (tmp_path / "series" / f"{release}.toml").write_bytes((own / "series" / f"{release}.toml").read_bytes())
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_root_that_is_made_first_is_part_of_it(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has 8 GiB and takes minutes."""
    assert main(["build", "2.6", "--env", "rootfs", "--estimate"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    described = root_description.load_description()
    layers = [described.find_layer(name) for name in ("core", "cuda")]
    mib = described.bootstrap.disk_mib + sum(layer.disk_mib for layer in layers)
    assert "root" in first and f"{mib / 1024:.1f} GiB" in first

    assert main(["build", "2.6", "--env", "host", "--estimate"]) == 0
    assert "root" not in capsys.readouterr().out


def test_of_a_root_that_is_there_only_what_it_lacks(checkout: Path) -> None:
    described = root_description.load_description()
    folder = rootfs.choose_folder(checkout / "cache", described)
    folder.mkdir(parents=True)
    core = described.find_layer("core")
    layers = {"core": {"digest": compute_layer_digest(core), **core.describe_content()}}
    (folder / "done.json").write_text(json.dumps({"bootstrap": True, "layers": layers}))
    request = BuildRequest(checkout, "2.6", env="rootfs")
    found = estimate_root(request)
    assert found is not None and found.disk_mib == described.find_layer("cuda").disk_mib
    assert estimate_root(BuildRequest(checkout, "2.6", env="rootfs", stage=1)) is None


def test_figures_of_another_release_are_said_to_be_such(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "2.7", "--env", "host", "--estimate"]) == 0
    stages = [line for line in capsys.readouterr().out.splitlines() if line.startswith("stage")]
    assert len(stages) == 2 and all("figures of 2.6" in line for line in stages)
    assert main(["build", "2.6", "--estimate"]) == 0
    assert "figures of" not in capsys.readouterr().out
    assert main(["build", "2.99", "--estimate"]) != 0


def test_a_build_that_was_stopped_says_what_is_left(checkout: Path) -> None:
    """By the seconds of the objects, of those that this build compiles."""
    request = BuildRequest(checkout, "2.6", env="rootfs", stage=1)
    (whole,) = estimate_stages(request)
    build = request.places.stage1
    build.mkdir(parents=True)
    from decouple.build import object_times

    kinds = object_times.load_seconds("2.6", "rootfs", 1).kinds.items()
    rows = [(f"{kind}/{n}.o", row.seconds) for kind, row in kinds for n in range(row.objects)]
    table = sorted(rows, key=lambda row: row[1])[-1000:]
    (build / "build.ninja").write_text("".join(f"build {name}: CXX_COMPILER__x_y src\n" for name, _ in table))
    done = [name for name, _ in table[:900]]
    write_files(build, dict.fromkeys(done, ""))
    (build / ".ninja_log").write_text("# ninja log v5\n" + "".join(f"0\t1\t0\t{name}\tx\n" for name in done))
    (left,) = estimate_stages(request)
    share = sum(value for _, value in table[900:]) / sum(value for _, value in table)
    assert share > 0.15, "the large ones are left: more than the tenth that their number is"
    assert left.seconds == pytest.approx(whole.seconds * share)
    assert left.objects_done == 900


@pytest.mark.parametrize(
    ("stage", "note", "ours", "other"),
    [
        (1, "decouple-environment", "portable 3.13", "portable"),
        (1, "decouple-environment", "portable 3.13", "rootfs"),
        (2, "decouple-tree", "", "/another/src"),
    ],
)
def test_objects_that_the_build_deletes_are_not_there(
    checkout: Path, stage: int, note: str, ours: str, other: str
) -> None:
    """The estimate of hours was minutes: it counted those of another environment, Python or tree."""
    request = BuildRequest(checkout, "2.6", env="portable", python="3.13", stage=stage)
    places = request.places
    folder = places.stage1 if stage == 1 else places.with_cuda("portable", "12.4").stage2
    folder.mkdir(parents=True)
    (folder / "build.ninja").write_text("build a.o: CXX_COMPILER__x_y src\nbuild b.o: CXX_COMPILER__x_y src\n")
    (folder / ".ninja_log").write_text("# ninja log v5\n0\t1\t0\ta.o\tx\n0\t1\t0\tb.o\tx\n")
    for name in ("a.o", "b.o"):
        (folder / name).touch()
    (folder / note).write_text(ours or str(places.tree.resolve()))
    (mine,) = estimate_stages(request)
    assert (mine.objects_done, mine.seconds) == (2, 0)
    (folder / note).write_text(other)
    (foreign,) = estimate_stages(request)
    assert foreign.objects_done == 0 and foreign.seconds > 0 and foreign.disk_mib > mine.disk_mib
    if stage == 1:  # what waits beside the other's is taken back
        waiting = shutil.copytree(folder, folder.with_name("build-portable-3.13"))
        (waiting / "b.o").unlink()
        assert estimate_stages(request)[0].objects_done == 1


def test_a_disk_too_small_for_the_root_is_said_before_anything_is_made(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = BuildRequest(checkout, "2.6", env="rootfs", stage=1)
    costs, root = estimate_stages(request), estimate_root(request)
    assert root is not None
    enough = sum(one.disk_mib for one in costs)

    class Usage:
        free = (enough + root.disk_mib - 1) << 20

    monkeypatch.setattr(estimate.shutil, "disk_usage", lambda _: Usage)
    estimate.refuse_if_too_small(costs, folder=checkout, memory=None)
    with pytest.raises(DecoupleError, match="GiB of disk are needed") as refused:
        estimate.refuse_if_too_small(costs, folder=checkout, memory=None, root=root)
    assert refused.value.code == CANNOT_HERE
    Usage.free += 1 << 20
    estimate.refuse_if_too_small(costs, folder=checkout, memory=None, root=root)


def test_swap_counts_as_memory(tmp_path: Path) -> None:
    """The refusal says to add swap; whoever did was refused again."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:   1048576 kB\nSwapTotal: 4194304 kB\nSwapFree: 3145728 kB\n")
    assert estimate.read_available_memory(meminfo) == 4 << 30
    meminfo.write_text("MemAvailable: 1048576 kB\n")
    assert estimate.read_available_memory(meminfo) == 1 << 30
    assert estimate.read_available_memory(tmp_path / "of another system") is None


def test_too_little_memory_is_refused_with_steps_that_help(checkout: Path) -> None:
    """--no-flash was one: a compile of stage 2 is reckoned with as much memory without flash attention."""
    for flash in (True, False):
        (cost,) = estimate_stages(BuildRequest(checkout, "2.6", env="rootfs", stage=2, flash=flash))
        enough = cost.job_mib << 20
        estimate.refuse_if_too_small([cost], folder=checkout, memory=enough)
        with pytest.raises(DecoupleError, match=r"stage 2: one compile needs .*swap included") as refused:
            estimate.refuse_if_too_small([cost], folder=checkout, memory=enough - 1)
        assert refused.value.next_step == "free memory or add swap"


def test_a_build_with_nothing_left_to_compile_needs_no_memory_for_it(checkout: Path) -> None:
    request = BuildRequest(checkout, "2.6", env="rootfs", stage=2)
    build = request.places.stage2
    build.mkdir(parents=True)
    (build / "build.ninja").write_text("build a.o: CUDA_COMPILER__x_y src\nbuild b.o: CUDA_COMPILER__x_y src\n")
    (build / ".ninja_log").write_text("# ninja log v5\n0\t1\t0\ta.o\tx\n0\t1\t0\tb.o\tx\n")
    (build / "a.o").touch()
    with pytest.raises(DecoupleError, match="GiB of memory"):
        estimate.refuse_if_too_small(estimate_stages(request), folder=checkout, memory=1)
    (build / "b.o").touch()
    estimate.refuse_if_too_small(estimate_stages(request), folder=checkout, memory=1)
