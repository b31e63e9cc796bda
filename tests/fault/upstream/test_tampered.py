"""A cache that somebody, or a bad disk, changed: a baseline is made anew from the source, or one command is told."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from msgspec import Struct

from decouple.base import steps
from decouple.base.errors import DecoupleError
from decouple.base.git import read_git_text, run_git
from decouple.release.manifest import Manifest
from decouple.upstream import baseline, readers, tree_record
from decouple.upstream.baseline import Baseline, ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.providers.git import GitSource
from decouple.upstream.unpacked_release import UnpackedRelease
from tests.support import kills
from tests.support.planted import REMOTES, Planted
from tests.support.releases import manifest, sample_tree, tar_of


def source(tmp_path: Path) -> UnpackedRelease:
    return UnpackedRelease("git", "source", sample_tree(tmp_path / "trees/2.6/one/tree"), "one")


def made(tmp_path: Path, pin: str | None = None) -> Baseline:
    one = manifest(GitSource("https://example.org/x.git", tree=pin))
    return ensure_baseline(
        tmp_path / "cache", one, UnpackedRelease("git", "source", tmp_path / "trees/2.6/one/tree", "one")
    )


def pack(repo: Path, suffix: str) -> Path:
    (found,) = (repo / "objects/pack").glob(f"*{suffix}")
    found.chmod(0o644)
    return found


def other_ref(repo: Path) -> None:
    """The branch points at another commit, one with another file in its tree."""
    blob = run_git("hash-object", "-w", "--stdin", cwd=repo, stdin=b"evil\n").decode().strip()
    tree = run_git("mktree", cwd=repo, stdin=f"100644 blob {blob}\tsetup.py\n".encode()).decode().strip()
    who = {f"GIT_{one}_{two}": "x" for one in ("AUTHOR", "COMMITTER") for two in ("NAME", "EMAIL")}
    commit = run_git("commit-tree", tree, "-m", "upstream", cwd=repo, env=who).decode().strip()
    run_git("update-ref", "refs/heads/upstream", commit, cwd=repo)


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
    "a pack of bytes without a record": lambda repo: (
        (repo / "decouple.json").unlink(),
        pack(repo, ".pack").write_bytes(b"x" * 99),
    ),
    "a damaged record and pack": lambda repo: ((repo / "decouple.json").write_text("{}"), flipped(repo)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_baseline_is_made_anew(tmp_path: Path, damage: str) -> None:
    source(tmp_path)
    first = made(tmp_path)
    DAMAGE[damage](first.repo)
    again = made(tmp_path)
    assert (again.commit, again.tree) == (first.commit, first.tree)
    run_git("fsck", "--full", cwd=again.repo)


def test_who_waits_for_a_baseline_that_is_made_anew_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs find it damaged: the second deleted what the first had made and was linking files from."""
    source(tmp_path)
    repo = made(tmp_path).repo
    flipped(repo)
    made_anew: list[int] = []
    hold_lock = baseline.hold_lock

    def let_the_other_run_first(lock: Path) -> AbstractContextManager[int]:
        monkeypatch.setattr(baseline, "hold_lock", hold_lock)
        made(tmp_path)
        made_anew.append(os.open(repo, os.O_RDONLY))  # open: its inode's number is nobody else's meanwhile
        return hold_lock(lock)

    monkeypatch.setattr(baseline, "hold_lock", let_the_other_run_first)
    made(tmp_path)
    assert os.path.samestat(os.fstat(made_anew[0]), repo.stat())
    os.close(made_anew[0])


def alternates(repo: Path) -> None:
    (repo / "objects/info").mkdir(exist_ok=True)
    (repo / "objects/info/alternates").write_text("/tmp\n")


def fifo(repo: Path) -> None:
    (repo / "HEAD").unlink()
    os.mkfifo(repo / "HEAD")


def replaced(repo: Path) -> None:
    """Git gives other bytes under the id of a file."""
    evil = run_git("hash-object", "-w", "--stdin", cwd=repo, stdin=b"evil\n").decode().strip()
    (repo / "refs/replace").mkdir()
    (repo / "refs/replace" / read_git_text("rev-parse", "upstream:version.txt", cwd=repo)).write_text(f"{evil}\n")


def elsewhere(repo: Path) -> None:
    """Its configuration and refs are said to lie in another folder."""
    shutil.copytree(repo, repo.with_name("elsewhere"))
    (repo / "commondir").write_text("../elsewhere\n")


POISON: dict[str, Callable[[Path], object]] = {
    "another configuration": lambda repo: (repo / "config").write_text("[core]\n fsmonitor = touch evil\n"),
    "a line more of configuration": lambda repo: (repo / "config").open("a").write("[include]\n path = /dev/zero\n"),
    "configuration of a work tree": lambda repo: (repo / "config.worktree").write_text("[core]\n bare = false\n"),
    "another HEAD": lambda repo: (repo / "HEAD").write_text("ref: refs/heads/evil\n"),
    "a hook": lambda repo: ((repo / "hooks").mkdir(), (repo / "hooks/post-checkout").write_text("#!/bin/sh\n")),
    "attributes": lambda repo: ((repo / "info").mkdir(exist_ok=True), (repo / "info/attributes").write_text("* a\n")),
    "grafts": lambda repo: ((repo / "info").mkdir(exist_ok=True), (repo / "info/grafts").write_text("")),
    "alternates": alternates,
    "a replaced object": replaced,
    "another place for it all": elsewhere,
    "a linked work tree": lambda repo: ((repo / "worktrees/a").mkdir(parents=True), (repo / "worktrees/a/x").touch()),
    "a link for the configuration": lambda repo: (
        (repo / "config").unlink(),
        (repo / "config").symlink_to("/etc/hosts"),
    ),
    "a pipe for HEAD": fifo,
    "more refs": lambda repo: (repo / "packed-refs").write_text(""),
}


@pytest.mark.parametrize("poison", POISON)
def test_a_baseline_with_anything_that_we_did_not_write_is_made_anew(tmp_path: Path, poison: str) -> None:
    source(tmp_path)
    first = made(tmp_path)
    before = {path.name for path in first.repo.rglob("*")}
    POISON[poison](first.repo)
    for name in ("decouple.json",):  # also where a record was made to fit
        (first.repo / name).unlink()
    assert made(tmp_path) == first
    assert {path.name for path in first.repo.rglob("*")} == before


@pytest.mark.parametrize("remote", REMOTES)
def test_nothing_that_a_poisoned_baseline_names_runs(tmp_path: Path, remote: str) -> None:
    source(tmp_path)
    first = made(tmp_path)
    for pack_ in (first.repo / "objects/pack").glob("*"):
        pack_.unlink()
    planted = Planted(first.repo, tmp_path / "planted", remote)
    assert made(tmp_path) == first and planted.ran == []


@pytest.mark.parametrize("open_files", [3, 4, 5, 6, 7, 8, 10, 12, 16, 24])
def test_too_few_open_files_are_no_damage(tmp_path: Path, open_files: int) -> None:
    """The baseline stays where it is, byte for byte, and serves the next run; with a record and without."""
    source(tmp_path)
    first = made(tmp_path)
    for with_record in (True, False):
        if not with_record:
            (first.repo / "decouple.json").unlink()
        inode = first.repo.stat().st_ino

        def limited() -> int:
            used = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(used, 3) + open_files, 4096))
            try:
                made(tmp_path)
            except DecoupleError as error:
                print(error)
            return 0

        kills.start(limited, tmp_path / "said").wait()
        assert first.repo.stat().st_ino == inode, (tmp_path / "said").read_text()
        assert "Traceback" not in (tmp_path / "said").read_text()
        assert made(tmp_path) == first and first.repo.stat().st_ino == inode


def test_a_baseline_of_another_owner_serves_and_is_not_deleted(tmp_path: Path) -> None:
    """A cache that several share: its configuration is known to be ours, so whose it is does not matter."""
    if os.geteuid() != 0:
        pytest.skip("giving files to another user takes root")
    source(tmp_path)
    first = made(tmp_path)
    for path in (first.repo, *first.repo.rglob("*")):
        os.chown(path, 12345, 12345)
    inode = first.repo.stat().st_ino
    assert made(tmp_path) == first and first.repo.stat().st_ino == inode


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
    with pytest.raises(DecoupleError, match=r"tree.*manifest pins") as raised:
        made(tmp_path, pin)
    assert raised.value.next_step is not None
    assert raised.value.next_step.startswith(f"rm -r {right.path.parent} and run again")


@pytest.mark.parametrize("identity", [None, "one"])
def test_a_baseline_that_cannot_be_mended_is_at_fault_and_never_the_source(
    tmp_path: Path, identity: str | None
) -> None:
    """The advice was to remove the folder above the source, which was the user's own."""
    tree = sample_tree(tmp_path / "all that I have/pytorch")
    cache = tmp_path / "a cache"

    def spoil(step: str) -> None:
        if step == "rename the baseline into place":
            (found,) = cache.glob("baselines/2.6/.*.git.*")
            (found / "hooks").mkdir()
            (found / "hooks/post-checkout").write_text("#!/bin/sh\n")

    steps.observe_steps(spoil)
    try:
        with pytest.raises(DecoupleError, match="a damaged baseline, though just made anew: hooks") as raised:
            ensure_baseline(cache, manifest(), UnpackedRelease("local", "source", tree, identity))
    finally:
        steps.observe_steps(None)
    (repo,) = cache.glob("baselines/2.6/*.git")
    assert raised.value.what.startswith(f"{repo}: ")
    assert str(raised.value.next_step).startswith(f"rm -r '{repo}' and run again")


def test_a_record_made_to_fit_does_not_help_against_a_pin(tmp_path: Path) -> None:
    source(tmp_path)
    first = made(tmp_path)
    other_ref(first.repo)
    evil = read_git_text("rev-parse", "refs/heads/upstream", cwd=first.repo)
    (first.repo / "decouple.json").unlink()  # the next look records what it finds
    assert made(tmp_path).commit == evil
    assert made(tmp_path, first.tree).commit == first.commit


def test_the_manifest_of_this_checkout_pins_what_can_be_had_here() -> None:
    from decouple.release.manifest_toml import render_manifest
    from decouple.upstream.manifests import load_release

    project = Path(__file__).parents[3]
    release: Manifest = load_release(project, "2.6")
    debian = release.find_source("debian")
    assert debian is not None and not isinstance(debian, GitSource)
    assert getattr(debian, "tree", None) and getattr(debian, "patched_tree", None)
    assert render_manifest(release) == (project / "series/2.6.toml").read_text()
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
def unpacked(tmp_path: Path) -> tuple[Manifest, UnpackedRelease, Path]:
    """A release archive of which nobody knows the tree, fetched and unpacked; and the cache."""
    data = tar_of(sample_tree(tmp_path / "original"), "pytorch-v2.6.0")
    (tmp_path / "pytorch-v2.6.0.tar.gz").write_bytes(data)
    one = manifest()
    fetched = fetch_source(one, f"local:{tmp_path / 'pytorch-v2.6.0.tar.gz'}", cache=tmp_path / "cache")
    return one, fetched, tmp_path / "cache"


@pytest.mark.parametrize("change", CHANGES)
def test_a_tree_that_was_edited_after_it_was_unpacked_is_not_used(
    unpacked: tuple[Manifest, UnpackedRelease, Path], change: str
) -> None:
    one, fetched, cache = unpacked
    CHANGES[change](fetched.path)
    for use in (
        lambda: ensure_baseline(cache, one, fetched),
        lambda: tree_record.check_tree(fetched.path),
    ):
        with pytest.raises(DecoupleError, match=r"unpacked \(rm -r "):
            use()
    assert not list((cache / "baselines").glob("2.6/*.git"))


def test_what_python_leaves_in_an_unpacked_tree_is_nobodys_damage(
    unpacked: tuple[Manifest, UnpackedRelease, Path],
) -> None:
    one, fetched, cache = unpacked
    for folder in (fetched.path / "__pycache__", fetched.path / "torch/__pycache__"):
        folder.mkdir()
        (folder / "setup.cpython-313.pyc").write_bytes(b"x")
    tree_record.check_tree(fetched.path)
    base = ensure_baseline(cache, one, fetched)
    assert "__pycache__" not in read_git_text("ls-tree", "-r", "--name-only", base.commit, cwd=base.repo)
    assert not [path for path in readers.list_paths(readers.UnpackedSource(fetched.path)) if "__pycache__" in path]
    (fetched.path / "torch/__pycache__").rename(fetched.path / "torch/cache")
    with pytest.raises(DecoupleError, match="not as it was unpacked"):
        tree_record.check_tree(fetched.path)


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("a new file", "another link")])
def test_check_reads_nothing_that_was_edited(unpacked: tuple[Manifest, UnpackedRelease, Path], change: str) -> None:
    _, fetched, _ = unpacked
    reader = readers.open_unpacked(fetched).source
    before = {path: (reader.mode(path), reader.read(path)) for path in ("CMakeLists.txt", "version.txt")}
    assert all(before.values())
    CHANGES[change](fetched.path)
    reader = readers.open_unpacked(fetched).source
    with pytest.raises(DecoupleError, match="not as it was unpacked"):
        for path in ("CMakeLists.txt", "version.txt", "torch/__init__.py"):
            reader.mode(path)
            reader.read(path)


def test_an_untouched_tree_is_used_and_one_from_before_records_gets_one(
    unpacked: tuple[Manifest, UnpackedRelease, Path], tmp_path: Path
) -> None:
    one, fetched, cache = unpacked
    assert ensure_baseline(cache, one, fetched).tree
    (fetched.path.parent / tree_record.RECORD).unlink()
    again = fetch_source(one, f"local:{tmp_path / 'pytorch-v2.6.0.tar.gz'}", cache=cache)
    assert tree_record.read_known_files(again.path)
    tree_record.check_tree(again.path)


def test_a_file_whose_time_git_set_is_hashed_and_not_read_by_fsck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git does that through the hard links of every applied tree, so each `apply` would cost an fsck."""
    from decouple.upstream import baseline

    asked: list[str] = []
    monkeypatch.setattr(baseline, "run_git", lambda *words, **more: (asked.extend(words), run_git(*words, **more))[1])
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
