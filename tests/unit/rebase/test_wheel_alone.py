"""A release of which only the official wheel can be read: patches are judged by it, no series is made of it."""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path

import pytest
from msgspec import structs

from decouple.cli import main
from decouple.flows.rebase import RebaseRequest, rebase_series
from decouple.patch import series_file
from decouple.release.manifest import Manifest
from decouple.release.manifest_toml import render_manifest
from decouple.upstream.providers.wheel import WheelSource
from tests.support import releases
from tests.support.files import write_files
from tests.support.server import FaultyServer, http_server  # noqa: F401 - a fixture
from tests.unit.rebase.releases import numbered

MOVED = "third_device/torch_cuda/torch_cuda/core/__init__.py"
OLD = {name: numbered(1, 60) for name in ("torch/cuda/__init__.py", "torch/x.py", "torch/gone.py", "torch/csrc/a.cpp")}
#: name -> (Decouple-Id and further fields, path in the tree before the patch, the line it changes)
PATCHES = {
    "0002-python": ("python", "torch/x.py", 30),
    "0003-cpp": ("cpp", "torch/csrc/a.cpp", 30),
    "0004-moved": ("moved", MOVED, 30),
    "0005-needs-cpp": ("needs-cpp\nDepends: cpp", "torch/x.py", 10),
}


def patch_text(identity: str, diff: str) -> str:
    return (
        f"From: A Maintainer <a@example.org>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: a patch\n\n"
        f"Decouple-Id: {identity}\n---\n{diff}"
    )


class Project:
    """A checkout with a series for 1.0, the source of 1.0 and 1.1 in folders, and the wheel of 1.1 on a server."""

    def __init__(self, folder: Path, server: FaultyServer) -> None:
        self.root, self.server = folder / "project", server
        self.sources = {name: folder / f"source-{name}" for name in ("1.0", "1.1")}
        for release in self.sources:
            self.upstream(release, OLD)
        self.manifest("1.0", b"unused")
        rename = f"diff --git a/torch/cuda/__init__.py b/{MOVED}\nsimilarity index 100%\n"
        rename += f"rename from torch/cuda/__init__.py\nrename to {MOVED}\n"
        self.write("patches/1.0/0001-relocate.patch", patch_text("relocate-cuda-sources", rename))
        tree = {MOVED: OLD["torch/cuda/__init__.py"], **OLD}
        for name, (identity, path, line) in PATCHES.items():
            text = tree[path]
            tree[path] = text.replace(f"line {line}\n", f"{name}\n")
            self.write(f"patches/1.0/{name}.patch", patch_text(identity, self._diff(path, text, tree[path])))
        names = ["0001-relocate", *PATCHES]
        self.write("series/1.0", "".join(f"1.0/{name}.patch\n" for name in names))

    def write(self, name: str, text: str) -> None:
        write_files(self.root, {name: text})

    def upstream(self, release: str, files: dict[str, str]) -> None:
        write_files(self.sources[release], files)

    def manifest(self, release: str, wheel: bytes) -> None:
        name = f"torch-{release}.0-cp312-cp312-manylinux1_x86_64.whl"
        self.server.files[f"/{name}"] = wheel
        source = WheelSource(releases.remote(self.server.url(f"/{name}"), wheel))
        made: Manifest = releases.manifest(source)
        made = structs.replace(made, release=release, version=f"{release}.0", tag=f"v{release}.0")
        self.write(f"series/{release}.toml", render_manifest(made))

    def publish(self, changes: dict[str, str]) -> None:
        """Release 1.1: the source with ``changes``, and its wheel, which lacks the C++ file."""
        self.upstream("1.1", changes)
        files = {name: text.encode() for name, text in {**OLD, **changes}.items() if name.endswith(".py")}
        self.manifest("1.1", releases.wheel_of(files))

    def rebase(self, *more: str) -> int:
        return main(["rebase", "1.0", "1.1", f"--from-source=local:{self.sources['1.0']}", *more])

    @staticmethod
    def _diff(path: str, before: str, after: str) -> str:
        lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
        return f"diff --git a/{path} b/{path}\n" + "".join(lines)


@pytest.fixture
def project(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    http_server: FaultyServer,  # noqa: F811
) -> Project:
    made = Project(tmp_path, http_server)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(made.root))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return made


def test_what_the_wheel_shows_is_judged_and_nothing_written(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.publish({"torch/x.py": "new\n" * 5 + numbered(1, 60), "torch/cuda/more.py": "new\n"})
    assert project.rebase("--source=wheel", "--report") == 0
    said = capsys.readouterr().out
    verdicts = dict(re.findall(r"^1\.0/(\S+)\.patch +(\w+(?: \w+)?)", said, re.M))
    assert verdicts == {
        "0001-relocate": "regenerated",
        "0002-python": "offset",
        "0003-cpp": "not seen",
        "0004-moved": "unmodified",
        "0005-needs-cpp": "not seen",
    }
    assert "torch/cuda/more.py" in said, "a file that is new in the release moves too"
    assert not (project.root / "series/1.1").exists()
    assert not (project.root / "patches/1.1").exists()


def test_where_no_source_can_be_had_the_command_that_is_advised_does_without(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.publish({"torch/x.py": "new\n" * 5 + numbered(1, 60)})
    assert project.rebase() == 1
    said = capsys.readouterr().err
    assert "or use --source local:PATH" in said
    command = re.search(r"`decouple (rebase .*)` judges", said)
    assert command
    assert main(shlex.split(command[1])) == 0
    assert "offset" in capsys.readouterr().out


def test_of_the_release_that_is_carried_from_its_own_option_is_named(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """--source was advised, which is TO's, and `rebase 1.0`, which is 1.0 to itself."""
    project.publish({})
    assert main(["rebase", "1.0", "1.1", "--source=wheel", "--report"]) == 1
    said = capsys.readouterr().err
    assert "or use --from-source local:PATH" in said and "decouple rebase" not in said


def test_a_wheel_that_does_not_show_what_the_series_changes_is_no_start(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """`correct the patch` was advised: torch/csrc/a.cpp did not exist in what the wheel shows."""
    python = {name: text.encode() for name, text in OLD.items() if name.endswith(".py")}
    project.manifest("1.0", releases.wheel_of(python))
    project.publish({})
    assert main(["rebase", "1.0", "1.1", "--from-source=wheel", "--source=wheel", "--report"]) == 2
    said = capsys.readouterr().err
    assert "has no torch/csrc/a.cpp, which 1.0/0003-cpp.patch changes" in said and "--from-source PATH" in said


def test_no_series_is_made_of_a_wheel(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.publish({})
    assert project.rebase("--source=wheel") == 2
    said = capsys.readouterr().err
    assert "--report" in said
    assert "decouple apply 1.1 --source PATH" in said
    assert not (project.root / "series/1.1").exists()
    assert not (project.root / "build/rebase/state.json").exists()
    assert main(["apply", "1.1"]) == 1, "it would be carried, but there are no sources"
    assert "no source of PyTorch" in capsys.readouterr().err


def test_a_python_file_that_the_wheel_lacks_is_gone(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    diff = Project._diff("torch/gone.py", OLD["torch/gone.py"], numbered(1, 60, {30: "cut\n"}))
    project.write("patches/1.0/0006-gone.patch", patch_text("gone", diff))
    with (project.root / "series/1.0").open("a") as series:
        series.write("1.0/0006-gone.patch\n")
    files = {name: text.encode() for name, text in OLD.items() if name != "torch/gone.py"}
    project.manifest("1.1", releases.wheel_of(files))
    assert project.rebase("--source=wheel", "--report") == 1
    assert "target gone" in capsys.readouterr().out


def test_offline_nobody_is_asked_how_near_a_tree_is(project: Project) -> None:
    project.publish({"torch/x.py": numbered(1, 60, {2: "more\n"})})
    older, newer = (f"local:{project.sources[release]}" for release in ("1.0", "1.1"))
    rebase_series(RebaseRequest(project.root, ("1.0", "1.1"), newer, older, offline=True))
    assert project.server.requests == []
    assert "was not measured" in (project.root / "series/1.1").read_text()


def test_a_tree_is_a_release_only_where_it_has_the_wheels_text(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.publish({"torch/x.py": numbered(1, 60, {2: "more\n"})})
    tree = f"--source=local:{project.sources['1.1']}"
    project.upstream("1.1", {"torch/x.py": numbered(1, 60, {2: "other\n"})})
    assert project.rebase(tree) == 2
    assert "is not PyTorch 1.1.0" in capsys.readouterr().err
    assert project.rebase(tree, "--report") == 0
    assert not (project.root / "series/1.1").exists()
    assert project.rebase(tree, "--replace") == 0
    assert len(series_file.read_series(project.root / "series/1.1").names) == 5
    capsys.readouterr()
    assert project.rebase(tree, "--replace") == 2, "a series that is there is never replaced in silence"
    assert "series/1.1 exists" in capsys.readouterr().err
