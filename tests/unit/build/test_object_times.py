"""The shipped table of seconds: what a build recorded, what the estimate makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import object_times, settings
from decouple.build.settings import Cost
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
    assert object_times.record_seconds("2.6", "portable", 1, tmp_path) == (
        object_times.locate_table("2.6", "portable", 1),
        2,
    )
    known = {"a.o": 3.0, "b.o": 123.0}
    assert object_times.load_seconds("2.6", "portable", 1) == known
    cost = object_times.estimate_cost("2.6", "portable", 1, USUAL)
    assert (cost.objects, cost.core_seconds) == (100, 126.0 + 98 * 10)  # 98 with the usual mean, 10 s
    (tmp_path / "object-seconds.tsv").write_text("c.o\t0m4.000000s\t0m0.000000s\n")
    object_times.record_seconds("2.6", "portable", 1, tmp_path)
    assert object_times.load_seconds("2.6", "portable", 1) == {**known, "c.o": 4.0}
    object_times.record_seconds("2.6", "portable", 2, tmp_path)
    assert object_times.estimate_cost("2.6", "portable", 2, USUAL) == USUAL, (
        "architectures decide, and a table has none"
    )


def test_a_build_that_recorded_nothing_leaves_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    with pytest.raises(DecoupleError, match="no object's seconds") as failed:
        object_times.record_seconds("2.6", "portable", 1, tmp_path)
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
    record_seconds(tmp_path / "project", "2.6", "portable")
    assert object_times.load_seconds("2.6", "portable", 1) == {"core.o": 1.5}
    assert object_times.load_seconds("2.6", "portable", 2) == {"old.o": 1.5, "new.o": 1.5}
    with pytest.raises(DecoupleError, match="no object's seconds"):
        record_seconds(tmp_path, "2.6", "portable")


def test_a_damaged_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    object_times.locate_table("2.6", "portable", 1).write_text("a.o\t3.0\nb.o\tlong\n")
    with pytest.raises(DecoupleError, match=r"stage1\.tsv:2"):
        object_times.load_seconds("2.6", "portable", 1)


def test_the_shipped_tables_are_of_builds_that_the_settings_know() -> None:
    for path in Path(object_times.__file__).with_name("seconds").glob("*.tsv"):
        release, kind, stage = path.stem.split("-")
        number = int(stage.removeprefix("stage"))
        usual = settings.estimate_cost(number, kind)
        found = object_times.load_seconds(release, kind, number)
        assert usual.objects * 0.3 < len(found) <= usual.objects
        assert object_times.estimate_cost(release, kind, number, usual).objects == usual.objects


def test_what_is_left_counts_by_its_seconds_and_not_by_its_number() -> None:
    """A resumed build said 26 minutes for what took 1 h 53 min: small objects come first."""
    names = [*(f"small{number}.o" for number in range(90)), *(f"large{number}.o" for number in range(10))]
    known = {name: 90.0 if name.startswith("large") else 1.0 for name in names}
    done = {name for name in names if name.startswith("small")}
    assert object_times.compute_share_left(names, done, known, 9.0) == pytest.approx(0.909, abs=0.001)
    assert object_times.compute_share_left(names, (), known, 9.0) == 1.0
    assert object_times.compute_share_left(["new.o", "a.o"], {"a.o"}, {"a.o": 9.0}, 9.0) == 0.5, (
        "one without a row is usual"
    )


def test_another_environments_table_says_how_objects_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_times, "_FOLDER", tmp_path)
    assert object_times.load_nearest("2.6", "rootfs", 1) == {}
    for release, value in (("2.5", 1.0), ("2.6", 2.0)):
        object_times.locate_table(release, "portable", 1).write_text(f"a.o\t{value}\n")
    assert object_times.load_nearest("2.6", "rootfs", 1) == {"a.o": 2.0}
    assert object_times.load_nearest("2.9", "rootfs", 1) == {"a.o": 1.0}
    object_times.locate_table("2.6", "rootfs", 1).write_text("a.o\t3.0\n")
    assert object_times.load_nearest("2.6", "rootfs", 1) == {"a.o": 3.0}
