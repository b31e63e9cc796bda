"""A cache that somebody, or a bad disk, changed: a baseline is made anew from the source, or one command is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import git, text
from decouple.release.manifest import Manifest
from decouple.upstream import content, readers
from decouple.upstream.baseline import Baseline, ensure_baseline
from decouple.upstream.fetched import Fetched
from decouple.upstream.fetching import fetch
from decouple.upstream.providers.git import GitSource
from tests.support.releases import manifest, sample_tree, tar_of


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
    from decouple.release.render import render
    from decouple.upstream.manifests import load_release

    project = Path(__file__).parents[3]
    release: Manifest = load_release(project, "2.6")
    debian = release.source("debian")
    assert debian is not None and not isinstance(debian, GitSource)
    assert getattr(debian, "tree", None) and getattr(debian, "patched_tree", None)
    assert render(release) == (project / "series/2.6.toml").read_text()
    assert isinstance(debian, Struct)


def edited(tree: Path) -> None:
    (tree / "setup.py").write_bytes(b"import evil\n")


def edited_with_its_old_times(tree: Path) -> None:
    path = tree / "version.txt"
    info = path.stat()
    path.write_bytes(b"2.6.0a1\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "an edited file": lambda tree: (tree / "CMakeLists.txt").write_bytes(b"evil()\n"),
    "an edited file with its old size and times": edited_with_its_old_times,
    "a new file": edited,
    "a file that is gone": lambda tree: (tree / "torch/__init__.py").unlink(),
    "another mode": lambda tree: (tree / "CMakeLists.txt").chmod(0o755),
    "another link": lambda tree: ((tree / "README").unlink(), (tree / "README").symlink_to("version.txt")),
    "a link for a file": lambda tree: (
        (tree / "CMakeLists.txt").unlink(),
        (tree / "CMakeLists.txt").symlink_to("/etc/passwd"),
    ),
}


@pytest.fixture
def unpacked(tmp_path: Path) -> tuple[Manifest, Fetched, Path]:
    """A release archive of which nobody knows the tree, fetched and unpacked; and the cache."""
    data = tar_of(sample_tree(tmp_path / "original"), "pytorch-v2.6.0")
    (tmp_path / "pytorch-v2.6.0.tar.gz").write_bytes(data)
    one = manifest()
    fetched = fetch(one, f"local:{tmp_path / 'pytorch-v2.6.0.tar.gz'}", cache=tmp_path / "cache")
    return one, fetched, tmp_path / "cache"


@pytest.mark.parametrize("change", CHANGES)
def test_a_tree_that_was_edited_after_it_was_unpacked_is_not_used(
    unpacked: tuple[Manifest, Fetched, Path], change: str
) -> None:
    one, fetched, cache = unpacked
    CHANGES[change](fetched.path)
    for use in (
        lambda: ensure_baseline(cache, one, fetched),
        lambda: content.check(fetched.path),
    ):
        with pytest.raises(DecoupleError, match=r": not as it was unpacked \(rm -r .* and run again"):
            use()
    assert not list((cache / "baselines").glob("2.6/*.git"))


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("a new file", "another link")])
def test_check_reads_nothing_that_was_edited(unpacked: tuple[Manifest, Fetched, Path], change: str) -> None:
    _, fetched, _ = unpacked
    reader = readers.unpacked("github", fetched.path, partial=False).source
    before = {path: (reader.mode(path), reader.read(path)) for path in ("CMakeLists.txt", "version.txt")}
    assert all(before.values())
    CHANGES[change](fetched.path)
    reader = readers.unpacked("github", fetched.path, partial=False).source
    with pytest.raises(DecoupleError, match="not as it was unpacked"):
        for path in ("CMakeLists.txt", "version.txt", "torch/__init__.py"):
            reader.mode(path)
            reader.read(path)


def test_an_untouched_tree_is_used_and_one_from_before_records_gets_one(
    unpacked: tuple[Manifest, Fetched, Path], tmp_path: Path
) -> None:
    one, fetched, cache = unpacked
    assert ensure_baseline(cache, one, fetched).tree
    (fetched.path.parent / content.RECORD).unlink()
    again = fetch(one, f"local:{tmp_path / 'pytorch-v2.6.0.tar.gz'}", cache=cache)
    assert content.known(again.path)
    content.check(again.path)


def test_a_file_whose_time_git_set_is_hashed_and_not_read_by_fsck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git does that through the hard links of every applied tree, so each `apply` would cost an fsck."""
    from decouple.upstream import baseline

    asked: list[str] = []
    monkeypatch.setattr(baseline, "git", lambda *words, **more: (asked.append(words[0]), git(*words, **more))[1])
    source(tmp_path)
    first = made(tmp_path)
    path = pack(first.repo, ".pack")
    for _ in range(2):
        os.utime(path)
        assert made(tmp_path) == first
    assert "fsck" not in asked
    info = path.stat()
    flipped(first.repo)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns + 1))
    assert made(tmp_path).commit == first.commit  # other content: found, and made anew
    assert "fsck" in asked
