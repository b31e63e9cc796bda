"""The shipped table of seconds: what a build recorded, what the estimate makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import object_times, settings
from decouple.build.environment import locate_environment_note
from decouple.build.settings import Cost
from decouple.flows.build_request import BuildRequest
from decouple.flows.record import record_seconds

USUAL = Cost(objects=100, core_seconds=1000.0, disk_mib=10, job_mib=1)


def test_what_a_build_recorded_becomes_a_table_and_the_table_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    assert object_times.estimate_cost("2.6", "portable", 1, USUAL) == USUAL
    log = "a.o\t0m1.500000s\t0m0.500000s\nb.o\t2m0.000000s\t0m3.000000s\na.o\t0m2.500000s\t0m0.500000s\nbroken line\n"
    log += "CMakeFiles/cmTC_01c3e.dir/src.c.o\t0m1.000000s\t0m0.000000s\n"  # CMake's own, while it configures
    (tmp_path / "object-seconds.tsv").write_text(log)
    assert object_times.record_seconds("2.6", "portable", 1, [tmp_path]) == (
        object_times.locate_table("2.6", "portable", 1),
        2,
    )
    known = object_times.load_seconds("2.6", "portable", 1)
    assert [known.estimate_object(name, 9.0) for name in ("a.o", "b.o", "c.o")] == [3.0, 123.0, 9.0]
    cost = object_times.estimate_cost("2.6", "portable", 1, USUAL)
    assert (cost.objects, cost.core_seconds) == (100, 126.0 + 98 * 10)  # 98 with the usual mean, 10 s
    object_times.record_seconds("2.6", "portable", 2, [tmp_path])
    assert object_times.estimate_cost("2.6", "portable", 2, USUAL) == USUAL, (
        "architectures decide, and a table has none"
    )


def test_a_table_has_the_mean_of_a_folder_and_what_is_unlike_it_by_name() -> None:
    measured = {f"cpu/small{number}.o": 1.0 + number % 2 for number in range(40)}
    table = object_times.average_seconds({**measured, "cpu/huge.o": 400.0, "cpu/deep/x.o": 2.0})
    assert len(table.kinds) == 2 and table.objects == 42
    assert table.core_seconds == pytest.approx(462.0, rel=0.01)
    assert table.estimate_object("cpu/huge.o", 9.0) == 400.0
    assert table.estimate_object("cpu/small1.o", 9.0) == table.estimate_object("cpu/deep/new.o", 9.0) == 1.5


def test_a_build_that_measured_only_a_part_leaves_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    log = tmp_path / "object-seconds.tsv"
    log.write_text("a.o\t0m1.5s\t0m0.5s\nb.o\t2m0.0s\t0m3.0s\n")
    path, _ = object_times.record_seconds("2.6", "portable", 1, [tmp_path])
    before = path.read_bytes()
    log.write_text("c.o\t0m4.000000s\t0m0.000000s\n")
    with pytest.raises(DecoupleError, match=path.name):
        object_times.record_seconds("2.6", "portable", 1, [tmp_path])
    assert path.read_bytes() == before


def test_a_build_that_was_interrupted_makes_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its large objects come last: with the mean of the small ones an estimate is hours short."""
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    log, plan = tmp_path / "object-seconds.tsv", tmp_path / "build.ninja"
    log.write_text("a.o\t0m1.5s\t0m0.5s\n")
    plan.write_text("".join(f"build {name}.o: CXX_COMPILER__target x.cpp\n" for name in "ab"))
    with pytest.raises(DecoupleError, match="1 objects, and the build has 2") as failed:
        object_times.record_seconds("2.6", "rootfs", 2, [tmp_path])
    assert failed.value.next_step == "decouple build 2.6 --env rootfs --stage 2, whole and without --shard"
    log.write_text("a.o\t0m1.5s\t0m0.5s\nb.o\t2m0.0s\t0m3.0s\n")
    assert object_times.record_seconds("2.6", "rootfs", 2, [tmp_path])[1] == 2


def test_a_build_that_recorded_nothing_leaves_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    with pytest.raises(DecoupleError, match="no object's seconds") as failed:
        object_times.record_seconds("2.6", "portable", 1, [tmp_path])
    assert failed.value.next_step == "decouple build 2.6 --env portable --stage 1"
    assert not object_times.locate_table("2.6", "portable", 1).exists()


def test_each_stage_of_a_checkout_goes_into_its_own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stage 2 has a build directory per CUDA, and per Python or core that it is for, and one table."""
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    build = tmp_path / "project/build/2.6"
    builds = {
        "src/build": "core.o",
        "portable-cuda11.8/stage2": "old.o",
        "python3.13/portable-cuda12.4/stage2": "new.o",
        "stage2": "another_environment.o",
    }
    for folder, name in builds.items():
        (build / folder).mkdir(parents=True)
        (build / folder / "object-seconds.tsv").write_text(f"{name}\t0m1.0s\t0m0.5s\n")
    note = locate_environment_note(build / "src/build")
    note.write_text("portable 3.13")
    record_seconds(tmp_path / "project", "2.6", "portable")
    assert [object_times.load_seconds("2.6", "portable", stage).objects for stage in (1, 2)] == [1, 2]
    assert object_times.load_seconds("2.6", "portable", 2).core_seconds == 3.0
    record_seconds(tmp_path / "project", "2.6", "rootfs")
    assert [object_times.load_seconds("2.6", "rootfs", stage).objects for stage in (1, 2)] == [0, 1]
    note.write_text("rootfs")
    assert [path.name for path, _ in record_seconds(tmp_path / "project", "2.6", "rootfs")] == [
        "2.6-rootfs-stage1.tsv",
        "2.6-rootfs-stage2.tsv",
    ]
    with pytest.raises(DecoupleError, match="no object's seconds"):
        record_seconds(tmp_path, "2.6", "portable")


def test_a_stage_2_for_an_unmodified_core_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a folder of its own, which was not looked into."""
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    stage2 = BuildRequest(tmp_path / "project", "2.6", "rootfs", core="stock").places.stage2
    stage2.mkdir(parents=True)
    (stage2 / "object-seconds.tsv").write_text("a.o\t0m1.0s\t0m0.5s\n")
    ((table, measured),) = record_seconds(tmp_path / "project", "2.6", "rootfs")
    assert (table.name, measured) == ("2.6-rootfs-stage2.tsv", 1)


def test_a_damaged_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    object_times.locate_table("2.6", "portable", 1).write_text("a\t2\t3.0\nb\t2\tlong\n")
    with pytest.raises(DecoupleError, match=r"stage1\.tsv:2"):
        object_times.load_seconds("2.6", "portable", 1)


def test_the_shipped_tables_are_of_builds_that_the_settings_know() -> None:
    tables = [*Path(object_times.__file__).with_name("seconds").glob("*.tsv")]
    assert tables
    for path in tables:
        release, kind, stage = path.stem.split("-")
        number = int(stage.removeprefix("stage"))
        usual = settings.estimate_cost(number, kind)
        found = object_times.load_seconds(release, kind, number)
        assert usual.objects * 0.3 < found.objects <= usual.objects
        assert object_times.estimate_cost(release, kind, number, usual).objects == usual.objects


def test_what_is_left_counts_by_its_seconds_and_not_by_its_number() -> None:
    """A resumed build said 26 minutes for what took 1 h 53 min: small objects come first."""
    names = [*(f"small{number}.o" for number in range(90)), *(f"large{number}.o" for number in range(10))]
    known = object_times.average_seconds({name: 90.0 if name.startswith("large") else 1.0 for name in names})
    done = {name for name in names if name.startswith("small")}
    assert object_times.compute_share_left(names, done, known, 9.0) == pytest.approx(0.909, abs=0.001)
    assert object_times.compute_share_left(names, (), known, 9.0) == 1.0
    known = object_times.average_seconds({"in/a.o": 9.0})
    assert object_times.compute_share_left(["new.o", "in/a.o"], {"in/a.o"}, known, 9.0) == 0.5, (
        "one of no kind is usual"
    )


def test_another_environments_table_says_how_objects_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)

    def nearest(release: str) -> float:
        return object_times.load_nearest(release, "rootfs", 1).estimate_object("a.o", 9.0)

    assert nearest("2.6") == 9.0
    for release, value in (("2.5", 1.0), ("2.6", 2.0)):
        object_times.locate_table(release, "portable", 1).write_text(f"a.o\t1\t{value}\n")
    assert (nearest("2.6"), nearest("2.9")) == (2.0, 1.0)
    object_times.locate_table("2.6", "rootfs", 1).write_text("a.o\t1\t3.0\n")
    assert nearest("2.6") == 3.0


def test_the_page_has_the_figures_of_the_tables() -> None:
    """It had 156 core-minutes of a core whose table had 283."""
    page = (Path(__file__).parents[3] / "docs/build.md").read_text(encoding="utf-8")
    core, cuda = (object_times.load_seconds("2.6", "portable", stage) for stage in (1, 2))
    attention = (row for kind, row in cuda.kinds.items() if "transformers/cuda/" in kind)
    without = cuda.core_seconds - sum(row.objects * row.seconds for row in attention)
    assert f"The core: {core.core_seconds / 60:.0f} core-minutes" in page
    assert f"(9.0): {cuda.core_seconds / 3600:.1f} core-hours" in page
    assert f"without attention took {without / 3600:.1f} hours of one core" in page
