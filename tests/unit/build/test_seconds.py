"""The shipped table of seconds: what a build recorded, what the estimate makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import seconds
from decouple.build.settings import Cost

USUAL = Cost(objects=100, core_seconds=1000.0, disk_mib=10, job_mib=1)


def test_what_a_build_recorded_becomes_a_table_and_the_table_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seconds, "_FOLDER", tmp_path)
    assert seconds.cost("2.6", "portable", 1, USUAL) == USUAL
    log = "a.o\t0m1.500000s\t0m0.500000s\nb.o\t2m0.000000s\t0m3.000000s\na.o\t0m2.500000s\t0m0.500000s\nbroken line\n"
    (tmp_path / "object-seconds.tsv").write_text(log)
    known = seconds.recorded(tmp_path)
    assert known == {"a.o": 3.0, "b.o": 123.0}
    seconds.write(seconds.path_of("2.6", "portable", 1), ["b.o", "a.o", "c.o"], known)
    assert seconds.load("2.6", "portable", 1) == known
    cost = seconds.cost("2.6", "portable", 1, USUAL)
    assert (cost.objects, cost.core_seconds) == (3, 136.0)  # c.o counts with the usual mean, 10 s
    seconds.write(seconds.path_of("2.6", "portable", 1), ["a.o", "b.o", "c.o"], {"c.o": 4.0})
    assert seconds.load("2.6", "portable", 1) == {**known, "c.o": 4.0}


def test_a_damaged_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seconds, "_FOLDER", tmp_path)
    seconds.path_of("2.6", "portable", 1).write_text("a.o\t3.0\nb.o\tlong\n")
    with pytest.raises(DecoupleError, match=r"stage1\.tsv:2"):
        seconds.load("2.6", "portable", 1)


def test_the_shipped_tables_are_whole() -> None:
    for path in Path(seconds.__file__).with_name("seconds").glob("*.tsv"):
        release, kind, stage = path.stem.split("-")
        cost = seconds.cost(release, kind, int(stage.removeprefix("stage")), USUAL)
        assert cost.objects > 1000 and cost.core_seconds > 1000
