"""Day and series of a proof come from the commits where its record lacks them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

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


def commit(project: Path, day: str) -> None:
    env = os.environ | {"GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", day)):
        subprocess.run(["git", *words], cwd=project, env=env, check=True)


def write_series(project: Path, **patches: str) -> str:
    for folder in ("series", "patches/1.0"):
        (project / folder).mkdir(parents=True, exist_ok=True)
    for name, text in patches.items():
        (project / f"patches/1.0/{name}.patch").write_text(text)
    names = sorted(path.name for path in (project / "patches/1.0").iterdir())
    (project / "series/1.0").write_text("".join(f"1.0/{name}\n" for name in names))
    return compute_series_digest(project, "1.0")


def test_a_record_without_a_day_gets_that_of_the_commit_since_which_it_stands(tmp_path: Path) -> None:
    path = status.locate_status(tmp_path, "1.0")
    old = write_series(tmp_path, **{"0001-a": PATCH.format(header="why", line="new")})
    status.update_status(path, series=status.SeriesSection(1, old), census=status.CensusSection(3, 0))
    document = json.loads(path.read_text())
    del document["recorded"]
    path.write_text(json.dumps(document))
    commit(tmp_path, "2026-01-02")
    words = {"0001-a": PATCH.format(header="why, in other words", line="new")}
    new = write_series(tmp_path, **words, **{"0002-b": PATCH.format(header="", line="newer")})
    document["series"] = {"patches": 2, "digest": new}
    path.write_text(json.dumps(document))
    commit(tmp_path, "2026-01-03")

    complete_history(tmp_path, "1.0")

    known = status.read_status(path)
    assert known.recorded["census"] == status.RecordMark("2026-01-02", old)
    assert known.recorded["series"] == status.RecordMark("2026-01-03", new)
    assert known.changes.keys() == {old, new}
    assert known.changes[old]["0001-a.patch"] == known.changes[new]["0001-a.patch"]  # its header alone changed
    assert set(known.changes[new]) == {"0001-a.patch", "0002-b.patch"}


def test_outside_a_repository_nothing_is_made_up(tmp_path: Path) -> None:
    path = status.locate_status(tmp_path, "1.0")
    digest = write_series(tmp_path, **{"0001-a": PATCH.format(header="why", line="new")})
    status.update_status(path, series=status.SeriesSection(1, digest))
    document = json.loads(path.read_text()) | {"stage1": {**STAGE, "series": "older"}}
    path.write_text(json.dumps(document))
    complete_history(tmp_path, "1.0")
    known = status.read_status(path)
    assert known.recorded.keys() == {"series"} and known.changes.keys() == {digest}


STAGE = {"wheel": "w.whl", "wheel_bytes": 1, "objects": 1, "cores": 1, "seconds": 1.0}
