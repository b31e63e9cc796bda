"""The example in the docstring of every flow runs as a release engineer's script would: from Python, on a checkout."""

from __future__ import annotations

import doctest
import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest

from decouple import flows
from decouple.series.digest import compute_series_digest
from tests.support.series import LINES, World, git, usual_world
from tests.unit.census import planted
from tests.unit.index.wheels import make_wheel

ROOT = Path(__file__).parents[3]
SHARED = {"__init__", "background", "work_environment", "listener", "provenance", "release_request"}
"""What flows have in common, no flow themselves."""
FLOWS = sorted(path.stem for path in Path(flows.__file__).parent.glob("*.py") if path.stem not in SHARED)


def manifest(release: str) -> str:
    """The manifest of 2.6 under the name of another release."""
    text = (ROOT / "series/2.6.toml").read_text(encoding="utf-8")
    for key, value in (("release", release), ("version", f"{release}.0"), ("tag", f"v{release}.0")):
        text = re.sub(rf'^{key} = ".*"$', f'{key} = "{value}"', text, count=1, flags=re.M)
    return text


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """What the examples take as given.

    ``project``: a checkout where nothing was done; ``applied``: one with a tree of its own; ``source``, ``newer``: the
    trees of two releases, ``coupled`` one with three couplings; ``wheel``: of ``project``; ``python``: a folder with an
    ELF file.
    """
    world = usual_world(tmp_path / "world")
    project, source, newer, python = (tmp_path / name for name in ("project", "source", "newer", "python"))
    shutil.copytree(world.project, project, ignore=shutil.ignore_patterns("build"))
    for release in ("2.6", "2.7"):
        (project / "series" / f"{release}.toml").write_text(manifest(release), encoding="utf-8")
    git(tmp_path, "clone", "-q", str(world.upstream), str(source))
    shutil.rmtree(source / ".git")
    shutil.copytree(source, newer)
    (newer / "torch/core.py").write_text("a line above\n" + LINES)
    (newer / "version.txt").write_text("2.7.0a0\n")
    applied = World(tmp_path / "applied", {"setup.py": "", "core.txt": LINES})
    applied.patch("0001-nine", {"core.txt": LINES.replace("line 9\n", "line nine\n")})
    applied.patch("0002-seven", {"core.txt": LINES.replace("line 7\n", "line seven\n")})
    applied.create()
    wheel = make_wheel(tmp_path, "torch", "2.6.0+decoupled", series=compute_series_digest(project, "2.6"))
    python.mkdir()
    (python / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    trees = {"source": source, "newer": newer, "coupled": planted.tree(tmp_path / "coupled")}
    return {"project": project, "applied": applied.project, **trees, "wheel": wheel, "python": python}


@pytest.mark.parametrize("name", FLOWS)
def test_the_example_does_what_it_says(name: str, given: dict[str, Path]) -> None:
    flow = importlib.import_module(f"decouple.flows.{name}")
    example = doctest.DocTestParser().get_doctest(flow.__doc__ or "", dict(given), name, flow.__file__, 0)
    assert example.examples, f"{name}: its docstring has no example"
    told: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options, verbose=False).run(example, out=told.append)
    assert not told, "".join(told)
