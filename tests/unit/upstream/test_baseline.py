"""The git baseline: same bytes, same commit; Debian's patches on top; nothing of the user's git settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.paths import find_cache
from decouple.upstream.baseline import ensure_baseline, read_debian_series
from decouple.upstream.fetch import fetch_source
from decouple.upstream.unpacked_release import UnpackedRelease
from tests.support.releases import DEBIAN_PATCH, manifest, sample_tree
from tests.support.series import git


def fetched(tree: Path, identity: str | None = "test-1", debian: Path | None = None) -> UnpackedRelease:
    return UnpackedRelease("local", "source", tree, identity, debian=debian)


def debian_folder(root: Path, patch: str) -> Path:
    (root / "patches").mkdir(parents=True)
    (root / "control").write_text("Source: pytorch\n")
    (root / "alias").symlink_to("control")
    (root / "patches/series").write_text("first.patch # why\n\n# not.patch\n")
    (root / "patches/first.patch").write_text(patch)
    return root


def test_checkout_is_the_tree_again(tmp_path: Path) -> None:
    tree = sample_tree(tmp_path / "tree")
    base = ensure_baseline(tmp_path / "cache", manifest(), fetched(tree))
    subprocess.run(["git", "clone", "-q", "--shared", str(base.repo), str(tmp_path / "src")], check=True)
    (tmp_path / "rest").mkdir()
    (tmp_path / "src/.git").rename(tmp_path / "rest/.git")
    subprocess.run(["diff", "-r", "--no-dereference", str(tree), str(tmp_path / "src")], check=True)
    assert os.access(tmp_path / "src/scripts/build.sh", os.X_OK)


def test_the_commit_is_known_in_advance(tmp_path: Path) -> None:
    """This very id: a change of it invalidates every applied tree there is."""
    base = ensure_baseline(tmp_path / "cache", manifest(), fetched(sample_tree(tmp_path / "tree")))
    assert base.commit == base.upstream
    told = git(base.repo, "log", "-1", "--format=%an <%ae> %at %s", base.commit)
    assert told == "decouple <decouple@localhost> 0 upstream: PyTorch 2.6.0"
    assert base.tree == "426109ba4e8ad01783622461eb87f72df7ba9f43"
    assert base.commit == "ce8be09fdab0b457c59eafc7bd316f826d308f0e"


def test_user_settings_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ensure_baseline(tmp_path / "one", manifest(), fetched(sample_tree(tmp_path / "tree")))
    config = tmp_path / "gitconfig"
    config.write_text(
        "[core]\n autocrlf = input\n attributesFile = %s\n[user]\n name = x\n[init]\n defaultBranch = trunk\n"
        "[i18n]\n commitEncoding = latin1\n[commit]\n gpgSign = true\n" % (tmp_path / "attributes")
    )
    (tmp_path / "attributes").write_text("* text=auto eol=lf\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2020-01-01T00:00:00Z")
    other = ensure_baseline(tmp_path / "two", manifest(), fetched(tmp_path / "tree"))
    assert (other.tree, other.commit) == (plain.tree, plain.commit)


def test_attributes_in_the_tree_do_not_matter(tmp_path: Path) -> None:
    tree = sample_tree(tmp_path / "tree")
    one = ensure_baseline(tmp_path / "cache", manifest(), fetched(tree, "a"))
    (tree / ".gitattributes").write_text("*.bat text eol=lf\n")
    (tree / ".gitignore").write_text("*\n")
    two = ensure_baseline(tmp_path / "cache", manifest(), fetched(tree, "b"))
    assert one.tree == two.tree


def test_the_second_time_nothing_is_made(tmp_path: Path) -> None:
    tree = sample_tree(tmp_path / "tree")
    one = ensure_baseline(tmp_path / "cache", manifest(), fetched(tree))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    assert ensure_baseline(tmp_path / "cache", manifest(), fetched(tree)) == one
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")} == before


def test_a_folder_that_changes_gets_another_baseline(tmp_path: Path) -> None:
    tree = sample_tree(tmp_path / "tree")
    one = ensure_baseline(tmp_path / "cache", manifest(), fetched(tree, None))
    assert ensure_baseline(tmp_path / "cache", manifest(), fetched(tree, None)) == one
    (tree / "version.txt").write_text("2.6.0\n")
    assert ensure_baseline(tmp_path / "cache", manifest(), fetched(tree, None)).tree != one.tree


@pytest.mark.parametrize("said", ["in DECOUPLE_CACHE", "by a script"])
def test_the_repository_that_a_relative_cache_lies_in_gets_no_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """git ran in an empty folder of the cache, took the repository around it, and wrote refs/heads/upstream there."""
    tree = sample_tree(tmp_path / "tree")
    around = tmp_path / "around"
    around.mkdir()
    git(around, "init", "-q")
    monkeypatch.chdir(around)
    monkeypatch.setenv("DECOUPLE_CACHE", "cache")
    cache = find_cache() if said == "in DECOUPLE_CACHE" else Path("cache")
    source = fetch_source(manifest(), f"local:{tree}", cache=cache)
    base = ensure_baseline(cache, manifest(), source)
    assert git(around, "for-each-ref") == ""
    assert base.repo.is_relative_to(around / "cache")
    assert git(base.repo, "rev-parse", "upstream") == base.commit


class TestDebian:
    def test_patches_are_a_second_commit(self, tmp_path: Path) -> None:
        tree = sample_tree(tmp_path / "tree")
        item = fetched(tree, debian=debian_folder(tmp_path / "debian", DEBIAN_PATCH))
        pristine = ensure_baseline(tmp_path / "cache", manifest(), item)
        base = ensure_baseline(tmp_path / "cache", manifest(), item, debian_patches=True)
        assert base.upstream == pristine.commit
        assert git(base.repo, "rev-parse", f"{base.commit}^") == pristine.commit
        assert "line one" in git(base.repo, "show", f"{base.commit}:torch/__init__.py")
        assert git(base.repo, "ls-tree", base.commit, "debian/alias").startswith("120000")
        assert ensure_baseline(tmp_path / "cache", manifest(), item) == pristine

    def test_context_must_be_exact(self, tmp_path: Path) -> None:
        patch = DEBIAN_PATCH.replace(" line 3", " line 33")  # GNU patch would take it with fuzz 1
        item = fetched(sample_tree(tmp_path / "tree"), debian=debian_folder(tmp_path / "debian", patch))
        with pytest.raises(DecoupleError, match=r"torch/__init__.py:1") as caught:
            ensure_baseline(tmp_path / "cache", manifest(), item, debian_patches=True)
        assert "first.patch" in (caught.value.next_step or "")
        assert ensure_baseline(tmp_path / "cache", manifest(), item).commit  # the pristine one is unharmed

    def test_another_source_has_none(self, tmp_path: Path) -> None:
        with pytest.raises(DecoupleError, match=r"local.*no patches"):
            ensure_baseline(tmp_path, manifest(), fetched(tmp_path), debian_patches=True)

    @pytest.mark.parametrize(
        ("line", "said"),
        [("x.patch", "1: no such patch: x.patch"), ("first.patch -R", "1: option '-R' of first.patch is not -pN")],
    )
    def test_series_errors_name_the_line(self, tmp_path: Path, line: str, said: str) -> None:
        folder = debian_folder(tmp_path / "debian", DEBIAN_PATCH)
        (folder / "patches/series").write_text(f"{line}\n")
        with pytest.raises(DecoupleError, match=said):
            read_debian_series(folder)


def test_what_git_cannot_hold(tmp_path: Path) -> None:
    tree = sample_tree(tmp_path / "tree")
    os.mkfifo(tree / "pipe")
    with pytest.raises(DecoupleError, match="pipe: "):
        ensure_baseline(tmp_path / "cache", manifest(), fetched(tree))
    assert not list((tmp_path / "cache").rglob("*.git"))
