"""A cache that somebody, or a bad disk, changed: a baseline is made anew from the source, or one command is told."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.git import git, text
from decouple.release.manifest import GitSource, Manifest
from decouple.upstream import Baseline, ensure_baseline
from decouple.upstream.fetched import Fetched
from tests.support.releases import manifest, sample_tree


def source(tmp_path: Path) -> Fetched:
    return Fetched("git", "source", sample_tree(tmp_path / "trees/2.6/one/tree"), "one")


def made(tmp_path: Path, pin: str | None = None) -> Baseline:
    one = manifest(GitSource("https://example.org/x.git", tree=pin))
    return ensure_baseline(tmp_path / "cache", one, Fetched("git", "source", tmp_path / "trees/2.6/one/tree", "one"))


def pack(repo: Path, suffix: str) -> Path:
    (found,) = (repo / "objects/pack").glob(f"*{suffix}")
    found.chmod(0o644)
    return found


def other_ref(repo: Path) -> None:
    """The branch points at another commit, one with another file in its tree."""
    blob = git("hash-object", "-w", "--stdin", cwd=repo, stdin=b"evil\n").decode().strip()
    tree = git("mktree", cwd=repo, stdin=f"100644 blob {blob}\tsetup.py\n".encode()).decode().strip()
    who = {f"GIT_{one}_{two}": "x" for one in ("AUTHOR", "COMMITTER") for two in ("NAME", "EMAIL")}
    commit = git("commit-tree", tree, "-m", "upstream", cwd=repo, env=who).decode().strip()
    git("update-ref", "refs/heads/upstream", commit, cwd=repo)


def flipped(repo: Path) -> None:
    path = pack(repo, ".pack")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(bytes(data))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "another commit": other_ref,
    "no ref": lambda repo: (repo / "refs/heads/upstream").unlink(),
    "an empty ref": lambda repo: (repo / "refs/heads/upstream").write_bytes(b""),
    "a ref of nonsense": lambda repo: (repo / "refs/heads/upstream").write_text("x" * 40),
    "a flipped bit": flipped,
    "half a pack": lambda repo: pack(repo, ".pack").write_bytes(pack(repo, ".pack").read_bytes()[:100]),
    "no index of the pack": lambda repo: pack(repo, ".idx").unlink(),
    "an empty index": lambda repo: pack(repo, ".idx").write_bytes(b""),
    "no pack": lambda repo: pack(repo, ".pack").unlink(),
    "an empty folder": lambda repo: (shutil.rmtree(repo), repo.mkdir()),
    "a damaged record and pack": lambda repo: ((repo / "decouple.json").write_text("{}"), flipped(repo)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_baseline_is_made_anew(tmp_path: Path, damage: str) -> None:
    source(tmp_path)
    first = made(tmp_path)
    DAMAGE[damage](first.repo)
    again = made(tmp_path)
    assert (again.commit, again.tree) == (first.commit, first.tree)
    git("fsck", "--full", cwd=again.repo)


def test_one_of_before_there_was_a_record_is_looked_at_once(tmp_path: Path) -> None:
    source(tmp_path)
    first = made(tmp_path)
    (first.repo / "decouple.json").unlink()
    inode = first.repo.stat().st_ino
    assert made(tmp_path) == first and (first.repo / "decouple.json").exists()
    assert first.repo.stat().st_ino == inode  # kept, not made again


def test_a_tree_that_is_not_the_pinned_one_is_not_used(tmp_path: Path) -> None:
    """What lies unpacked in the cache was changed, so that making the baseline anew gives the same wrong tree."""
    right = source(tmp_path)
    pin = made(tmp_path).tree
    assert made(tmp_path, pin).tree == pin
    shutil.rmtree(tmp_path / "cache")
    (right.path / "setup.py").write_text("evil\n")
    with pytest.raises(DecoupleError, match=r"is not what was fetched: its tree is .*the manifest pins") as raised:
        made(tmp_path, pin)
    assert raised.value.next_step is not None
    assert raised.value.next_step.startswith(f"rm -r {right.path.parent} and run again")


def test_a_record_made_to_fit_does_not_help_against_a_pin(tmp_path: Path) -> None:
    source(tmp_path)
    first = made(tmp_path)
    other_ref(first.repo)
    evil = text("rev-parse", "refs/heads/upstream", cwd=first.repo)
    (first.repo / "decouple.json").unlink()  # the next look records what it finds
    assert made(tmp_path).commit == evil
    assert made(tmp_path, first.tree).commit == first.commit


def test_the_manifest_of_this_checkout_pins_what_can_be_had_here() -> None:
    from decouple.release.manifest import load_release
    from decouple.release.render import render

    project = Path(__file__).parents[3]
    release: Manifest = load_release(project, "2.6")
    debian = release.source("debian")
    assert debian is not None and not isinstance(debian, GitSource)
    assert getattr(debian, "tree", None) and getattr(debian, "patched_tree", None)
    assert render(release) == (project / "series/2.6.toml").read_text()
    assert dataclasses.is_dataclass(debian)
