"""What of the real series upstream could take, on the real 2.6.0 (fetched once, cached)."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.flows.upstream import UpstreamPatches, UpstreamRequest, judge_patches, make_upstream_patches
from decouple.series import check
from decouple.upstream.named_sources import open_named_source
from tests.support.series import git

pytestmark = pytest.mark.real

READY = {
    "cuda-enabled-at-run-time",
    "headers-needless-guards",
    "install-private-headers",
    "storage-helpers-generic",
    "tensor-methods-include",
}


def request(identity: str = "", out: Path | None = None) -> UpstreamRequest:
    return UpstreamRequest(find_project(), identity, "2.6", source="debian", out=out)


@functools.cache
def reasons() -> dict[str, str]:
    return {verdict.id: verdict.refused for verdict in judge_patches(request())}


def test_every_patch_is_ready_or_says_why_not() -> None:
    assert {name for name, refused in reasons().items() if not refused} == READY
    assert len(reasons()) == len(check.load_series(find_project(), "2.6"))


def test_what_upstream_did_and_what_is_only_ours_is_told() -> None:
    assert "upstream did it itself: 2.7" in reasons()["generator-new-through-hooks"]
    assert "_CUDAC" in reasons()["device-interface-cudac"]
    assert "nothing is left of it outside third_device/" in reasons()["relocate-cuda-sources"]
    assert "registrations/storage_sharing.cpp, which upstream has not" in reasons()["storage-cuda-ipc"]


def upstream_with(made: UpstreamPatches, folder: Path) -> Path:
    """The pristine text of the files that ``made`` edits, in a repository, and the mails on top."""
    project = find_project()
    paths = {path for one in made.commits for path in one.changes}
    opened, _ = open_named_source(project, "2.6", "debian", check.list_wanted_paths(check.load_series(project, "2.6")))
    folder.mkdir()
    git(folder, "init", "-q")
    for path in paths:
        if opened.source.mode(path) is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(opened.source.read(path))
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "pristine")
    git(folder, "am", "-q", *(str(path) for path in made.files if path.suffix == ".patch"))
    return folder


@pytest.mark.parametrize("identity", sorted(READY))
def test_git_am_takes_it_and_nothing_of_ours_is_in_it(identity: str, tmp_path: Path) -> None:
    made = make_upstream_patches(request(identity, tmp_path / "out"))
    tree = upstream_with(made, tmp_path / "tree")
    changed = git(tree, "diff", "--name-only", "HEAD~1").splitlines()
    test = made.commits[0].test.file
    assert test in changed and len(changed) > 1
    compile((tree / test).read_text(), test, "exec")
    shown = git(tree, "show", "HEAD")
    assert not [word for word in ("third_device", "_CUDAC", "torch_cuda/", "Decouple-Id") if word in shown]
    assert "Test Plan:" in shown


def test_the_bindings_that_move_leave_the_file_where_upstream_has_them(tmp_path: Path) -> None:
    made = make_upstream_patches(request("storage-helpers-generic", tmp_path / "out"))
    tree = upstream_with(made, tmp_path / "tree")
    assert "_storage_Use_Count" in (tree / "torch/csrc/Module.cpp").read_text()
    assert "_storage_Use_Count" not in (tree / "torch/csrc/cuda/Module.cpp").read_text()


def test_the_test_of_the_template_fails_without_the_patch_and_passes_with_it(tmp_path: Path) -> None:
    """The one test that needs no torch; the others run on installed builds, by hand."""
    made = make_upstream_patches(request("tensor-methods-include", tmp_path / "out"))
    tree = upstream_with(made, tmp_path / "tree")
    test = [sys.executable, "tools/test/test_autograd_templates.py"]
    assert subprocess.run(test, cwd=tree, capture_output=True).returncode == 0
    git(tree, "checkout", "-q", "HEAD~1", "--", "tools/autograd")
    without = subprocess.run(test, cwd=tree, capture_output=True, text=True)
    assert without.returncode == 1 and "USE_CUDA" in without.stderr
