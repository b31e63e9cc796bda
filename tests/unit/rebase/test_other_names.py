"""A release without a series, and what is no release: carried, applied and named as what it is, in one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.cli import main
from decouple.flows.carry import find_nearest
from decouple.patch import series_file
from decouple.release.manifest import derive_release
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from decouple.upstream.official_text import measure_likeness
from decouple.upstream.unpublished_manifest import make_candidate_tag
from tests.support.series import git
from tests.unit.rebase.releases import numbered
from tests.unit.rebase.test_session import Killed, Project, conflict_in_b, kill_behind_series, project

__all__ = ["project"]
ROOT = Path(__file__).parents[3]


def test_apply_carries_the_nearest_series(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.lay_overlay()
    project.upstream("1.1", {name: "new\n" + numbered(1, 60) for name in "abc"})
    sources = {release: f"local:{folder}" for release, folder in project.sources.items()}
    assert main(["apply", "1.0", "--source", sources["1.0"]]) == 0
    project.give_from_source()
    assert main(["apply", "1.1", "--source", sources["1.1"]]) == 0
    said = capsys.readouterr().out
    assert "1.1 has no whole series; carried from 1.0" in said
    assert "1.0/0002-second.patch  offset" in said, "a verdict for each"
    assert len(project.series) == 3
    assert (project.root / "patches/1.1/0001-first.patch").is_file()
    tree = project.root / "build/1.1/src"
    assert "second" in (tree / "b").read_text()
    made_on, measured = series_file.read_series(project.root / "series/1.1").made_on
    assert made_on == git(tree, "rev-parse", "refs/decouple/base^{tree}")
    assert "not measured" in str(measured), "this manifest names no wheel"


def test_a_stop_says_how_to_go_on(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.lay_overlay()
    conflict_in_b(project)
    project.give_from_source()
    source = f"--source=local:{project.sources['1.1']}"
    assert main(["apply", "1.1", source]) == 1
    said = capsys.readouterr().err
    assert (
        f"decouple rebase --continue`, then `decouple apply 1.1 --source local:{project.sources['1.1']}` again" in said
    )
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    project.git("add", "b")
    assert main(["rebase", "--continue"]) == 0
    assert main(["apply", "1.1", source]) == 0
    assert "both" in (project.root / "build/1.1/src/b").read_text()


def test_a_stop_names_all_that_was_typed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    project.give_from_source()
    monkeypatch.chdir(tmp_path)
    assert main(["apply", "1.1", "--source=source-1.1", "--no-debian-patches", "--also=my own.toml"]) == 1
    typed = (
        f"decouple apply 1.1 --source local:{tmp_path}/source-1.1 --no-debian-patches --also '{tmp_path}/my own.toml'"
    )
    assert f"then `{typed}` again" in capsys.readouterr().err


def test_offline_nothing_is_fetched_to_carry_a_series(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflict_in_b(project)
    project.give_from_source()
    words = ["apply", "1.1", f"--source=local:{project.sources['1.1']}", "--offline"]
    assert main(words) == 1
    assert "is not in the cache and --offline forbids to clone it" in capsys.readouterr().err
    fetch_source(load_release(project.root, "1.0"))
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "stopped at 1.0/0002-second.patch" in said
    assert f"decouple {' '.join(words).replace('=', ' ')}` again" in said
    assert json.loads((project.root / "build/rebase/state.json").read_text())["offline"], "for --continue, too"


def test_a_fork_gets_its_manifest_off_its_tree(project: Project) -> None:
    project.lay_overlay()
    project.upstream("1.1", {"version.txt": "1.1.0a0\n", **dict.fromkeys("abc", numbered(1, 60))})
    project.give_from_source()
    fork = project.sources["1.1"]
    assert main(["apply", "acme-1.1", "--source", str(fork)]) == 0
    manifest = load_release(project.root, "acme-1.1")
    assert find_nearest(project.root, "acme-1.1") == "1.0", "the fork's own series names no source to carry it from"
    assert (manifest.release, manifest.version, manifest.commit) == ("acme-1.1", "1.1.0a0", None)
    assert Checkout(project.root).list_releases() == ("acme-1.1", "1.0"), (
        "never the newest: nothing comes from it unasked"
    )
    assert main(["lint", "acme-1.1"]) in (0, 1)
    assert main(["check", "acme-1.1", "--source", str(fork)]) == 0


def test_a_release_that_is_not_out_is_read_off_a_tree_of_its_version(project: Project) -> None:
    project.lay_overlay()
    project.upstream("1.1", {"version.txt": "1.2.0a0+git1234567\n", **dict.fromkeys("abc", numbered(1, 60))})
    project.give_from_source()
    tree = project.sources["1.1"]
    assert main(["manifest", "fill", "1.2", "--tree", str(tree)]) == 1, "it has no manifest"
    assert main(["apply", "1.2.0", "--source", str(tree)]) == 0
    assert load_release(project.root, "1.2").version == "1.2.0a0+git1234567"
    assert main(["apply", "1.2", "--source", str(tree)]) == 0
    assert Checkout(project.root).list_releases()[-1] == "1.0", "no source: nothing is carried from it unasked"
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "main at a date")
    whole = ["--git", tree.as_uri(), "--ref", "HEAD", "--write"]
    assert main(["manifest", "fill", "1.2", *whole]) == 0
    assert load_release(project.root, "1.2").commit == git(tree, "rev-parse", "HEAD")


def test_a_kill_behind_a_series_leaves_one_that_has_its_manifest(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.lay_overlay()
    project.upstream("1.1", {"version.txt": "1.1.0a0\n", **dict.fromkeys("abc", numbered(1, 60))})
    project.give_from_source()
    words = ["apply", "acme-1.1", "--source", str(project.sources["1.1"])]
    with monkeypatch.context() as at_work, pytest.raises(Killed):
        kill_behind_series(at_work)
        main(words)
    assert "acme-1.1" in Checkout(project.root).list_releases()
    assert main(words) == 0


@pytest.mark.parametrize("words", [["apply", "1.3", "--source"], ["manifest", "fill", "1.3", "--write", "--tree"]])
def test_no_tree_of_another_version_is_called_so(
    project: Project, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    project.upstream("1.1", {"version.txt": "1.2.0a0\n", **dict.fromkeys("abc", numbered(1, 60))})
    assert main([*words, str(project.sources["1.1"])]) == 2
    said = capsys.readouterr().err
    assert "1.2.0a0" in said
    assert "1.3" in said
    assert not Checkout(project.root).locate_manifest("1.3").exists()
    assert not Checkout(project.root).locate_draft_manifest("1.3").exists()


def test_no_tree_describes_a_release_that_is_out(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.write("series/2.6.toml", (ROOT / "series/2.6.toml").read_text())
    project.upstream("1.1", {"version.txt": "2.6.0a0\n"})
    assert main(["manifest", "fill", "2.6", "--write", "--tree", str(project.sources["1.1"])]) == 2
    assert "published" in capsys.readouterr().err
    assert (project.root / "series/2.6.toml").read_text() == (ROOT / "series/2.6.toml").read_text()


def test_a_release_without_a_tree_says_where_one_comes_from(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "1.3"]) == 2
    said = capsys.readouterr().err
    assert "decouple manifest fill 1.3 --write" in said, "where it is out"
    assert "decouple apply 1.3 --source PATH" in said, "where it is not"


def test_a_commit_of_a_repository_is_a_source_and_a_manifest(project: Project) -> None:
    project.lay_overlay()
    repo = project.sources["1.1"]
    project.upstream("1.1", {"version.txt": "1.1.0a0\n", **dict.fromkeys("abc", numbered(1, 60))})
    git(repo, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "main at a date")
    commit = git(repo, "rev-parse", "HEAD")
    (repo / "a").write_text("an edit that is in no commit\n")
    assert main(["manifest", "fill", "main-2026", "--git", repo.as_uri(), "--ref", "HEAD", "--write"]) == 0
    assert load_release(project.root, "main-2026").commit == commit
    project.give_from_source()
    assert main(["apply", "main-2026"]) == 0, "the repository is its source"
    assert main(["check", "main-2026", "--source", f"{repo}@{commit}"]) == 0
    assert main(["apply", "other", "--source", f"{repo}@{commit}"]) == 0
    assert load_release(project.root, "other").commit == commit, "read off the commit that is named"


@pytest.mark.parametrize("name", ["2.7.0rc3", "main-2026-11-20", "acme-2.7"])
def test_another_name_is_not_cut_short(name: str) -> None:
    assert derive_release(name) == name


def test_upstreams_tag_of_a_candidate() -> None:
    assert make_candidate_tag("2.7.0rc3") == "v2.7.0-rc3"
    with pytest.raises(UsageError, match=r"acme-2\.7"):
        make_candidate_tag("acme-2.7")


def test_how_near_a_tree_is_to_the_official_text(tmp_path: Path) -> None:
    for folder, texts in {"wheel": {"a": "1", "b": "2", "made": "by the build"}, "tree": {"a": "1", "b": "3"}}.items():
        (tmp_path / folder).mkdir()
        for name, text in texts.items():
            (tmp_path / folder / name).write_text(text)
    found = measure_likeness(tmp_path / "tree", tmp_path / "wheel", "torch.whl")
    assert found.format_line() == "50.0 % official text: 1 of 2 files as in torch.whl"
    assert not found.is_official
    assert found.different == ("b",)
    (tmp_path / "tree/b").write_text("2")
    same = measure_likeness(tmp_path / "tree", tmp_path / "wheel", "torch.whl")
    assert same.is_official
    assert "all 2 files" in same.format_line()
    assert "no C++ source" in same.format_line(), "a wheel shows none, so nothing says that the tree is the release"
    assert "100" not in same.format_line()
