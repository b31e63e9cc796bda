"""Upstream's main of today against what was known yesterday, on a small made-up tree."""

from __future__ import annotations

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.cli import main
from decouple.flows.listener import Listener
from decouple.flows.rebase import hold_rebase_lock
from decouple.flows.upstream_watch import NAME, WatchRequest, WatchResult, watch_upstream
from tests.unit.census import planted
from tests.unit.rebase.releases import numbered
from tests.unit.rebase.test_session import Project
from tests.unit.rebase.test_session import project as two_releases

__all__ = ["two_releases"]


@pytest.fixture
def project(two_releases: Project) -> Project:
    """A checkout whose series has three patches, on files ``a``, ``b`` and ``c`` of a tree that knows of CUDA."""
    made = two_releases
    for release in ("1.0", "1.1"):
        planted.tree(made.sources[release])
        made.upstream(release, {name: numbered(1, 60) for name in "abc"} | {"version.txt": f"{release}.0\n"})
    return made


def look(project: Project) -> WatchResult:
    tree, old = project.sources["1.1"], f"local:{project.sources['1.0']}"
    return watch_upstream(WatchRequest(project.root, str(tree), from_source=old, state=project.root / "state.json"))


def test_the_second_night_tells_only_what_changed(project: Project) -> None:
    assert look(project).changes == ("the first run: all of this is new",)
    project.upstream("1.1", {"a": "a line above\n" + numbered(1, 60)})
    moved = look(project)
    assert moved.changes == ("0001-first.patch: offset, and it was unmodified",)
    assert look(project).changes == (), "a line number is no change"


def test_a_link_to_the_state_stays_one(project: Project) -> None:
    """A CI host keeps it on another disk."""
    link, file = project.root / "state.json", project.root / "kept" / "state.json"
    file.parent.mkdir()
    link.symlink_to(file)
    look(project)
    assert link.is_symlink() and look(project).changes == ()


def test_a_patch_that_stops_ends_nothing(project: Project) -> None:
    look(project)
    project.upstream("1.1", {"b": numbered(1, 60, {20: "upstream\n"})})
    found = look(project)
    assert found.now.patches["0002-second.patch"] == "conflict"
    assert found.now.patches["0003-third.patch"] == "unmodified"
    assert "0002-second.patch: conflict" in found.report


def test_a_new_coupling_and_a_file_that_no_rule_places_are_named(project: Project) -> None:
    look(project)
    new = {"torch/csrc/a.cpp": "#include <cuda.h>\n", "torch/made_up/kernels.cu": "__global__ void f() {}\n"}
    project.upstream("1.1", new)
    found = look(project)
    assert any(line.startswith("new coupling: torch/csrc/a.cpp: include cuda.h") for line in found.changes)
    assert "new source: torch/made_up/kernels.cu: no rule places this CUDA file" in found.changes
    project.upstream("1.1", {"torch/csrc/a.cpp": "// a line above\n#include <cuda.h>\n"})
    assert look(project).changes == ()


def test_what_is_named_need_not_be_utf8(project: Project) -> None:
    """The second night called the state of the first damaged."""
    project.upstream("1.1", {"torch/caf\udce9/kernels.cu": "__global__ void f() {}\n"})
    found = look(project)
    assert any("\\udce9/kernels.cu: no rule places" in line for line in found.now.sources)
    assert look(project).changes == ()


def test_a_branch_of_a_macro_is_known_by_its_condition(project: Project) -> None:
    """Its place is none of that: a line above it is no change, and the same one a second time is."""
    look(project)
    guarded = (project.sources["1.1"] / "torch/csrc/planted_macro.cpp").read_text()
    project.upstream("1.1", {"torch/csrc/planted_macro.cpp": "// a line above\n" + guarded})
    assert look(project).changes == ()
    project.upstream("1.1", {"torch/csrc/planted_macro.cpp": guarded * 2})
    (new,) = look(project).changes
    assert new.startswith("new coupling: torch/csrc/planted_macro.cpp: macro USE_CUDA")


def test_a_census_that_cannot_be_taken_is_a_change_and_takes_no_coupling_away(project: Project) -> None:
    known = look(project).now.couplings
    assert known
    project.upstream("1.1", {"build_variables.bzl": "sources = [\n"})
    found = look(project)
    assert found.changes == ("not asked any more: couplings",)
    assert found.now.couplings == known


def test_nothing_is_written_but_the_state(project: Project) -> None:
    before = sorted(path for path in project.root.rglob("*") if "build" not in path.parts)
    look(project)
    after = sorted(path for path in project.root.rglob("*") if "build" not in path.parts)
    assert set(after) - set(before) == {project.root / "state.json"}
    assert not list(Checkout(project.root).rebase.glob("watched-*"))
    assert not list(Checkout(project.root).rebase.glob("*.toml"))


def test_a_second_watch_waits_for_the_first(project: Project) -> None:
    """Each deleted the manifest of the tree that the other was judging."""
    waits = threading.Event()
    listener = Listener(lambda line: waits.set() if line.startswith("waits") else None)
    tree, old = project.sources["1.1"], f"local:{project.sources['1.0']}"
    request = WatchRequest(project.root, str(tree), from_source=old)
    with ThreadPoolExecutor(1) as pool:
        with hold_rebase_lock(project.root):
            second = pool.submit(watch_upstream, request, listener)
            assert waits.wait(60)
            assert not Checkout(project.root).locate_draft_manifest(NAME).exists()
        assert second.result(60).now.patches["0001-first.patch"] == "unmodified"


def test_the_command_says_by_its_exit_code_whether_something_changed(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["upstream", "watch", "--source", str(project.sources["1.1"]), "--state", str(tmp_path / "state.json")]
    words += ["--from-source", f"local:{project.sources['1.0']}", "--report", str(tmp_path / "report.md")]
    assert main(words) == 1
    assert (tmp_path / "report.md").read_text().startswith("# Series 1.0 to upstream 1.1.0")
    assert main(words) == 0
    (tmp_path / "state.json").write_text("{")
    (tmp_path / "report.md").unlink()
    assert main(words) == 1
    assert "delete it" in capsys.readouterr().err, "what is damaged is no state"
    assert not (tmp_path / "report.md").exists(), "by which the nightly run tells a failure from a change"


def test_a_branch_of_a_repository_is_fetched(project: Project) -> None:
    tree = project.sources["1.1"]
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-qm", "today"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    found = watch_upstream(WatchRequest(project.root, url=tree.as_uri(), from_source=f"local:{project.sources['1.0']}"))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, check=True, capture_output=True, text=True)
    assert found.now.commit == commit.stdout.strip()
    assert json.dumps(dict(found.now.patches)).count("unmodified") == 3


def test_a_source_that_is_none_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="no file or folder"):
        watch_upstream(WatchRequest(project.root, source="nowhere"))


def test_of_a_repository_that_cannot_be_reached_the_network_is_named_too(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["upstream", "watch", f"--url={(tmp_path / 'none').as_uri()}", "--ref=main"]) == 1
    assert "next: check the network and the address, or name a tag" in capsys.readouterr().err


def test_what_no_report_told_is_told_again(project: Project, tmp_path: Path) -> None:
    """The state was written first: where the report could not be, the next run said that nothing changed."""
    old, state = f"--from-source={project.sources['1.0']}", tmp_path / "state.json"
    watch = ["upstream", "watch", f"--source={project.sources['1.1']}", old, f"--state={state}", "--report"]
    assert main([*watch, "/dev/full"]) == 1 and not state.exists()
    assert main([*watch, str(tmp_path / "report.md")]) == 1 and state.exists(), "the first run: all of this is new"
    assert main([*watch, str(tmp_path / "report.md")]) == 0
