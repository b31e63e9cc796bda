"""A small upstream, a project with a series for it, and plain git to check the stack against."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from decouple.base.checkout import Checkout, SeriesPlaces
from decouple.stack import edits
from decouple.stack.engine import Stack, create_tree
from tests.support.templates import make_once

RELEASE = "2.6"

#: A clean environment, so that no test depends on the configuration of who runs it.
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}

LINES = "".join(f"line {number}\n" for number in range(1, 41))

UPSTREAM: dict[str, str] = {
    "README.md": "A framework.\n",
    "torch/cuda/__init__.py": "import torch\n",
    "torch/cuda/streams.py": LINES,
    "torch/core.py": LINES,
    "torch/empty.py": "",
    "aten/cuda/Gemm.cu": "// gemm\n" + LINES,
    "aten/cpu/Gemm.cpp": "// gemm on the host\n" + LINES,
    "setup.py": "#!/usr/bin/env python\n" + LINES,
}


def git(folder: Path, *arguments: str, stdin: bytes | None = None, **environment: str) -> str:
    """Run plain git in ``folder``; returns what it printed. Fails the test if git does."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=stdin,
        capture_output=True,
        env={**ENVIRONMENT, **environment},
        check=False,
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr.decode()}"
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def header(title: str, identity: str, body: str = "") -> str:
    """A patch header as this project writes them."""
    middle = f"\n{body}\n" if body else ""
    return (
        "From: Ada Lovelace <ada@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\n"
        f"Subject: {title}\n{middle}\nDecouple-Id: {identity}\nForwarded: no\n---\n"
    )


class World:
    """A project folder, a bare upstream, and a scratch clone in which the patches are made by plain git."""

    def __init__(self, root: Path, files: Mapping[str, str | bytes] | None = UPSTREAM) -> None:
        """Make it all below ``root``; with ``files`` None take what is there, a copy of another world."""
        self.project = root / "project"
        self.upstream = root / "upstream.git"
        self._maker = root / "maker"
        if files is None:
            self.base, self.base_tree = git(self.upstream, "rev-parse", "HEAD", "HEAD^{tree}").split()
            return
        for folder in ("series", "patches/2.6", "third_device/torch_cuda"):
            (self.project / folder).mkdir(parents=True)
        (self.project / "series" / RELEASE).write_text("# the order matters\n")
        (self.project / "series" / f"{RELEASE}.toml").write_text("")
        self._maker.mkdir()
        git(self._maker, "init", "-q", "--template=")
        self.edit(files)
        if "setup.py" in files:
            (self._maker / "setup.py").chmod(0o755)
        git(self._maker, "add", "-Af", ".")
        git(self._maker, "commit", "-q", "-m", "upstream")
        shutil.copytree(self._maker / ".git", self.upstream)
        (self.upstream / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        self.base, self.base_tree = git(self._maker, "rev-parse", "HEAD", "HEAD^{tree}").split()

    def copy_to(self, root: Path) -> World:
        """Copy all of it below ``root``; no git is asked."""
        shutil.copytree(self.project.parent, root, symlinks=True, dirs_exist_ok=True)
        made = copy.copy(self)
        made.project, made.upstream, made._maker = root / "project", root / "upstream.git", root / "maker"
        return made

    @property
    def places(self) -> SeriesPlaces:
        return Checkout(self.project).find_series(RELEASE)

    @property
    def source(self) -> Path:
        return self.places.tree

    @property
    def series(self) -> Path:
        return self.places.series

    def edit(self, files: Mapping[str, str | bytes | None]) -> None:
        """Write files of the scratch clone; None deletes one."""
        for name, text in files.items():
            path = self._maker / name
            if text is None:
                path.unlink()
            else:
                if path.is_dir():
                    shutil.rmtree(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def patch(self, name: str, files: Mapping[str, str | None], *, moves: Mapping[str, str] | None = None) -> Path:
        """Add a patch to the series: ``moves`` are renames, ``files`` new contents."""
        for old, new in (moves or {}).items():
            (self._maker / new).parent.mkdir(parents=True, exist_ok=True)
            (self._maker / old).rename(self._maker / new)
        self.edit(files)
        git(self._maker, "add", "-Af", ".")
        diff = git(self._maker, "diff", "--cached", "--full-index", "-M", "HEAD") + "\n"
        git(self._maker, "commit", "-q", "--allow-empty", "-m", name)
        slug = name.split("-", 1)[1]
        return self.patch_text(f"{RELEASE}/{name}.patch", header(slug.replace("-", " "), slug) + diff)

    def patch_text(self, name: str, text: str) -> Path:
        """Add a patch with exactly this text to the end of the series."""
        path = self.project / "patches" / name
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with self.series.open("a") as series:
            series.write(f"{name}\n")
        return path

    @property
    def final_tree(self) -> str:
        """The tree with every patch made so far, as plain git built it."""
        return git(self._maker, "rev-parse", "HEAD^{tree}")

    def create(self) -> None:
        """Make the tree, nothing applied."""
        create_tree(self.places, self.upstream, self.base, self.base, {})

    def usual(self) -> World:
        """Three patches: a relocation, an edit in a moved file, an edit that adds and deletes files. And an overlay."""
        self.patch(
            "0001-relocate",
            {},
            moves={
                "torch/cuda/__init__.py": "third_device/torch_cuda/core/__init__.py",
                "torch/cuda/streams.py": "third_device/torch_cuda/core/streams.py",
                "aten/cuda/Gemm.cu": "third_device/torch_cuda/csrc/Gemm.cu",
            },
        )
        self.patch("0002-hooks", {"torch/core.py": LINES.replace("line 7\n", "line 7: ask the hook\n")})
        self.patch(
            "0003-split",
            {
                "third_device/torch_cuda/core/streams.py": LINES.replace("line 20\n", "line 20: a stream\n"),
                "torch/registry.py": "registered = {}\n",
                "torch/empty.py": None,
            },
        )
        (self.project / "third_device/torch_cuda/setup.py").write_text("# the backend\n")
        self.create()
        return self


def copy_world(make: Callable[[Path], World], root: Path) -> World:
    """A copy below ``root`` of the world that ``make`` makes once: much cheaper than dozens of calls of git."""
    return make_once(make).copy_to(root)


def make_usual_world(root: Path) -> World:
    return World(root).usual()


def usual_world(root: Path) -> World:
    """A copy of the usual world."""
    return copy_world(make_usual_world, root)


def tree_of(folder: Path) -> str:
    """The tree id of the files in a work tree, found out by hashing every one of them anew."""
    index = folder / ".git" / "check.index"
    index.unlink(missing_ok=True)
    git(folder, "add", "-Af", ".", GIT_INDEX_FILE=str(index))
    tree = git(folder, "write-tree", GIT_INDEX_FILE=str(index))
    index.unlink()
    return tree


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below ``folder`` outside .git: content and mtime in nanoseconds."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder`` outside .git."""
    return {name: data for name, (data, _) in snapshot(folder).items()}


def edited_patch(world: World, stack: Stack) -> bytes:
    """Push all of a usual world's series, edit a file of its last patch, refresh: that patch as it is then."""
    stack.push(None)
    with (world.source / "torch/registry.py").open("a") as file:
        file.write("more = {}\n")
    edits.refresh_patches(stack)
    return (world.project / "patches/2.6/0003-split.patch").read_bytes()
