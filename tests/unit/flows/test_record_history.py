"""What an older series changed comes from the commits where the record lacks it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.flows.record_history import complete_history
from decouple.release import status
from decouple.series.digest import compute_series_digest

PATCH = """{header}
--- a/one.txt
+++ b/one.txt
@@ -1 +1 @@
-old
+{line}
"""


def commit(project: Path) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "a state")):
        subprocess.run(["git", *words], cwd=project, check=True)


def write_series(project: Path, **patches: str) -> str:
    for folder in ("series", "patches/1.0"):
        (project / folder).mkdir(parents=True, exist_ok=True)
    for name, text in patches.items():
        (project / f"patches/1.0/{name}.patch").write_text(text)
    names = sorted(path.name for path in (project / "patches/1.0").iterdir())
    (project / "series/1.0").write_text("".join(f"1.0/{name}\n" for name in names))
    return compute_series_digest(project, "1.0")


@pytest.mark.parametrize("folder", [".", "tools/decouple"])
def test_the_changes_of_an_older_series_come_from_its_commit(tmp_path: Path, folder: str) -> None:
    """The checkout may be a folder of another repository."""
    project = tmp_path / folder
    path = status.locate_status(project, "1.0")
    old = write_series(project, **{"0001-a": PATCH.format(header="why", line="new")})
    status.update_status(path, series=status.SeriesSection(1, old), census=status.CensusSection(3, 0))
    commit(tmp_path)
    words = {"0001-a": PATCH.format(header="why, in other words", line="new")}
    new = write_series(project, **words, **{"0002-b": PATCH.format(header="", line="newer")})
    status.update_status(path, series=status.SeriesSection(2, new))
    commit(tmp_path)

    complete_history(project, "1.0")

    known = status.read_status(path)
    assert (known.recorded["census"].series, known.recorded["series"].series) == (old, new)
    assert known.changes.keys() == {old, new}
    assert known.changes[old]["0001-a.patch"] == known.changes[new]["0001-a.patch"]  # its header alone changed
    assert set(known.changes[new]) == {"0001-a.patch", "0002-b.patch"}


def test_outside_a_repository_nothing_is_made_up(tmp_path: Path) -> None:
    path = status.locate_status(tmp_path, "1.0")
    digest = write_series(tmp_path, **{"0001-a": PATCH.format(header="why", line="new")})
    stage = status.StageSection("w.whl", 1, 1, 1, 1.0, series="older")
    status.update_status(path, series=status.SeriesSection(1, digest), stage1=stage)
    complete_history(tmp_path, "1.0")
    known = status.read_status(path)
    assert known.recorded["stage1"].series == "older" and known.changes.keys() == {digest}
