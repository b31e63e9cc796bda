"""``verify --rebuild`` beside a cache that somebody made another source of: what it says rests on the archive alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.cli import main
from decouple.series.digest import compute_series_digest
from decouple.upstream import tree_record
from tests.support.series import World, git, usual_world
from tests.unit.index.wheels import make_manifest, make_wheel


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The usual world as a checkout under git, whose source is a tag in a repository."""
    world = usual_world(tmp_path / "world")
    shutil.rmtree(world.source.parent)
    git(world.upstream, "tag", "v2.6.0", world.base)
    (world.project / "series/2.6.toml").write_text(
        'schema = 1\nrelease = "2.6"\nversion = "2.6.0"\ntag = "v2.6.0"\n'
        f'commit = "{world.base}"\n\n[[source]]\nprovider = "git"\nurl = "file://{world.upstream}"\n\n'
        '[toolchain]\npython = ["3.11"]\ncuda = "12.4"\nlibraries = []\ngcc = "9.3.1"\ncuda_max_gcc = 13\n'
    )
    (world.project / ".gitignore").write_text("/build/\n")
    git(world.project, "init", "-q")
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "checkout")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return world


def test_a_source_that_was_exchanged_in_the_cache_makes_no_wheel_right(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "2.6"]) == 0
    true = git(world.source, "rev-parse", "HEAD^{tree}")
    (shelf,) = (tmp_path / "cache/trees/2.6").glob("git-*")
    (shelf / "tree/setup.py").write_text("import evil\n")
    tree_record.record_files(shelf)  # whoever can write there can write the record too
    shutil.rmtree(tmp_path / "cache/baselines")
    shutil.rmtree(world.source.parent)
    assert main(["apply", "2.6"]) == 0
    evil = git(world.source, "rev-parse", "HEAD^{tree}")
    assert evil != true
    for tree, code in ((true, 0), (evil, 1)):
        said = replace(
            make_manifest("torch", "2.6.0+decoupled.1", None, compute_series_digest(world.project, "2.6")), tree=tree
        )
        wheel = make_wheel(tmp_path / tree, "torch", "2.6.0+decoupled.1", manifest=said.to_json())
        assert main(["verify", str(wheel), "--rebuild"]) == code, capsys.readouterr()
