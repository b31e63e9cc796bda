"""Each provider, from a local server or a local repository; and auto."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.upstream import tree_record
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from tests.support import server as http
from tests.support.releases import (
    DEBIAN_PATCH,
    GithubSource,
    GitSource,
    WheelSource,
    debian_files,
    debian_source,
    git_repository,
    manifest,
    remote,
    sample_tree,
    tar_of,
    wheel_of,
)
from tests.support.server import FaultyServer

ARCHIVE = "/pytorch-v2.6.0.tar.gz"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return sample_tree(tmp_path / "source")


@pytest.fixture(autouse=True)
def local_submodules(monkeypatch: pytest.MonkeyPatch) -> None:
    """git refuses file:// submodules unless told otherwise."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")  # the first is of tests/conftest.py
    monkeypatch.setenv("GIT_CONFIG_KEY_1", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_1", "always")


def test_a_record_that_a_power_cut_emptied_is_made_anew_and_what_it_hurt_beside_is_told(
    http_server: FaultyServer, downloader: Downloader, tree: Path
) -> None:
    data = tar_of(tree, "pytorch-v2.6.0")
    http_server.files[ARCHIVE] = data
    release = manifest(GithubSource(remote(http_server.url(ARCHIVE), data)))
    fetched = fetch_source(release, "github", cache=downloader.cache, downloader=downloader)
    (fetched.path.parent / "provenance.json").write_bytes(b"")
    assert fetch_source(release, "auto", cache=downloader.cache, downloader=downloader).path == fetched.path
    tree_record.check_tree(fetched.path)
    (fetched.path.parent / "provenance.json").write_bytes(b"")
    (fetched.path / "version.txt").write_bytes(b"")
    fetch_source(release, "auto", cache=downloader.cache, downloader=downloader)
    with pytest.raises(DecoupleError, match=r"version\.txt: not as") as told:
        tree_record.check_tree(fetched.path)
    assert str(told.value.next_step).startswith(f"rm -r {fetched.path.parent} ")


class TestGithub:
    def test_a_published_hash(self, http_server: FaultyServer, downloader: Downloader, tree: Path) -> None:
        data = tar_of(tree, "pytorch-v2.6.0")
        http_server.files[ARCHIVE] = data
        release = manifest(GithubSource(remote(http_server.url(ARCHIVE), data)))
        fetched = fetch_source(release, "github", cache=downloader.cache, downloader=downloader)
        assert (fetched.path / "version.txt").read_text() == "2.6.0a0\n"
        assert fetched.why == "asked for with --source github"
        assert fetched.notes == ()
        again = fetch_source(release, "github", cache=downloader.cache, offline=True)
        assert again == fetched
        assert len(http_server.requests) == 1

    def test_no_published_hash_is_said_loudly(
        self, http_server: FaultyServer, downloader: Downloader, tree: Path
    ) -> None:
        data = tar_of(tree, "pytorch-v2.6.0")
        http_server.files[ARCHIVE] = data
        release = manifest(GithubSource(remote(http_server.url(ARCHIVE))))
        fetched = fetch_source(release, "github", cache=downloader.cache, downloader=downloader)
        assert fetched.files[0].verified == "first use"
        assert fetched.notes[0].startswith("NOBODY PUBLISHED A HASH of pytorch-v2.6.0.tar.gz")
        assert hashlib.sha256(data).hexdigest() in fetched.notes[0]

    def test_a_patch_release_that_still_carries_the_first_ones_version(
        self, http_server: FaultyServer, downloader: Downloader, tree: Path
    ) -> None:
        # Seen in v1.13.1, whose version.txt says 1.13.0a0.
        (tree / "version.txt").write_text("2.6.9a0\n")
        http_server.files[ARCHIVE] = tar_of(tree, "top")
        release = manifest(GithubSource(remote(http_server.url(ARCHIVE))))
        fetched = fetch_source(release, "github", cache=downloader.cache, downloader=downloader)
        assert any("version.txt says 2.6.9a0" in note for note in fetched.notes)

    def test_another_version_in_the_archive(
        self, http_server: FaultyServer, downloader: Downloader, tree: Path
    ) -> None:
        (tree / "version.txt").write_text("2.7.0a0\n")
        http_server.files[ARCHIVE] = tar_of(tree, "top")
        release = manifest(GithubSource(remote(http_server.url(ARCHIVE))))
        with pytest.raises(DecoupleError, match=r"2\.7\.0a0.*2\.6\.0"):
            fetch_source(release, "github", cache=downloader.cache, downloader=downloader)
        assert not list(downloader.cache.glob("trees/2.6/github*"))


class TestGit:
    def test_tag_with_submodules(self, tmp_path: Path, downloader: Downloader, tree: Path) -> None:
        sub, repo = tmp_path / "sub", tmp_path / "repo"
        sub.mkdir()
        repo.mkdir()
        (tmp_path / "part").mkdir()
        (tmp_path / "part/lib.h").write_text("//\n")
        git_repository(tmp_path / "part", sub)
        commit = git_repository(tree, repo, submodule=sub)
        release = manifest(GitSource(repo.as_uri()), commit=commit)
        fetched = fetch_source(release, "git", cache=downloader.cache)
        assert (fetched.path / "third_party/sub/lib.h").is_file()
        assert (fetched.path / "scripts/build.bat").read_bytes() == b"@echo off\r\n"  # as .gitattributes asks
        assert not list(fetched.path.rglob(".git*"))
        assert not (fetched.path / ".ci").exists()
        assert (fetched.path / "third_party/sub/.ci").exists()  # only the top's are left out of a release
        assert fetch_source(release, "git", cache=downloader.cache, offline=True).path == fetched.path

    def test_a_moved_tag(self, tmp_path: Path, downloader: Downloader, tree: Path) -> None:
        (tmp_path / "repo").mkdir()
        commit = git_repository(tree, tmp_path / "repo")
        release = manifest(GitSource((tmp_path / "repo").as_uri()), commit="0" * 40)
        with pytest.raises(DecoupleError, match=f"{commit}.*0000"):
            fetch_source(release, "git", cache=downloader.cache)
        assert [path.name for path in downloader.cache.rglob("*") if path.is_file()] == [f".git-{'0' * 40}.lock"]

    def test_no_such_repository(self, tmp_path: Path, downloader: Downloader) -> None:
        with pytest.raises(DecoupleError, match=r"git clone.*v2.6.0") as caught:
            fetch_source(manifest(GitSource((tmp_path / "none").as_uri())), "git", cache=downloader.cache)
        assert "\n" not in caught.value.what

    def test_offline(self, downloader: Downloader) -> None:
        made = manifest(GitSource("https://x/y"))
        with pytest.raises(DecoupleError, match=r"v2.6.0.*--offline"):
            fetch_source(made, "git", cache=downloader.cache, offline=True)
        with pytest.raises(DecoupleError, match=r"no source.*\(run once without --offline, or use --source local:PATH"):
            fetch_source(made, cache=downloader.cache, offline=True)


class TestDebian:
    @pytest.fixture
    def files(self, tmp_path: Path, tree: Path, http_server: FaultyServer) -> dict[str, bytes]:
        files = debian_files(tree, tmp_path, DEBIAN_PATCH)
        http_server.files.update({f"/{name}": data for name, data in files.items()})
        return files

    def test_package(self, files: dict[str, bytes], http_server: FaultyServer, downloader: Downloader) -> None:
        release = manifest(debian_source(http_server.base, files))
        fetched = fetch_source(release, "debian", cache=downloader.cache, downloader=downloader)
        assert [file.verified for file in fetched.files] == ["manifest", "manifest and .dsc", "manifest and .dsc"]
        assert fetched.debian is not None and (fetched.debian / "patches/series").is_file()
        assert not (fetched.path / "debian").exists()

    @pytest.mark.parametrize("field", ["sha256", "size"])
    def test_manifest_and_dsc_disagree(
        self, files: dict[str, bytes], http_server: FaultyServer, downloader: Downloader, field: str
    ) -> None:
        source = debian_source(http_server.base, files)
        other = replace(source.orig, sha256="0" * 64) if field == "sha256" else replace(source.orig, size=1)
        with pytest.raises(DecoupleError, match=f"orig.tar.xz: {field}"):
            fetch_source(manifest(replace(source, orig=other)), "debian", cache=downloader.cache, downloader=downloader)
        assert len(http_server.requests) == 1  # the .dsc; no archive was asked for

    def test_a_dsc_of_another_version(
        self, files: dict[str, bytes], http_server: FaultyServer, downloader: Downloader
    ) -> None:
        source = replace(debian_source(http_server.base, files), version="2.6.0-2")
        with pytest.raises(DecoupleError, match=r"2.6.0-1.*2.6.0-2"):
            fetch_source(manifest(source), "debian", cache=downloader.cache, downloader=downloader)

    def test_a_swapped_archive_is_not_unpacked(
        self, files: dict[str, bytes], http_server: FaultyServer, downloader: Downloader
    ) -> None:
        source = debian_source(http_server.base, files)
        http_server.fault("/pytorch_2.6.0.orig.tar.xz", http.wrong_bytes())
        with pytest.raises(DecoupleError, match="wrong SHA-256"):
            fetch_source(manifest(source), "debian", cache=downloader.cache, downloader=downloader)
        assert not list(downloader.cache.glob("trees/2.6/debian*"))


class TestLocal:
    def test_folder(self, downloader: Downloader, tree: Path) -> None:
        fetched = fetch_source(manifest(), f"local:{tree}", cache=downloader.cache)
        assert (fetched.path, fetched.identity, fetched.files) == (tree, None, ())

    def test_archive(self, tmp_path: Path, downloader: Downloader, tree: Path) -> None:
        path = tmp_path / "mine.tar.xz"
        path.write_bytes(tar_of(tree, "x", "w:xz"))
        fetched = fetch_source(manifest(), f"local:{path}", cache=downloader.cache)
        assert fetched.files[0].verified == "not at all: your own file"
        assert (fetched.path / "torch/__init__.py").is_file()

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("local:", "needs a path"),
            ("local:/none", "no such file or folder"),
            ("svn", "has no source 'svn'"),
            ("", "has no source ''"),
        ],
    )
    def test_usage(self, downloader: Downloader, source: str, said: str) -> None:
        with pytest.raises(UsageError, match=said):
            fetch_source(manifest(), source, cache=downloader.cache)

    def test_another_version(self, downloader: Downloader, tree: Path) -> None:
        (tree / "version.txt").write_text("2.7.1\n")
        with pytest.raises(DecoupleError, match=r"says 2.7.1"):
            fetch_source(manifest(), f"local:{tree}", cache=downloader.cache)

    def test_an_empty_folder(self, tmp_path: Path, downloader: Downloader) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(DecoupleError, match="an empty folder"):
            fetch_source(manifest(), f"local:{tmp_path}/empty", cache=downloader.cache)

    @pytest.mark.parametrize(
        ("entries", "said"),
        [
            ("040000 tree {folder}\t..", "has '..' in its path"),
            ("120000 blob {link}\ta\n040000 tree {folder}\ta", "which is a link"),
            ("120000 blob {link}\ta", "leaves the tree"),
        ],
        ids=["dot dot", "a file through a link", "a link out of the tree"],
    )
    def test_a_commit_writes_nowhere_else(
        self, tmp_path: Path, downloader: Downloader, tree: Path, entries: str, said: str
    ) -> None:
        """Git makes and lists such trees; it refuses to check them out."""
        repository, outside = tmp_path / "repo", tmp_path / "outside"
        repository.mkdir()
        outside.mkdir()
        git_repository(tree, repository)

        def git(*words: str, given: str | None = None) -> str:
            return subprocess.run(
                ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
                cwd=repository,
                input=given,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()

        ids = {
            "folder": git("mktree", given=f"100644 blob {git('rev-parse', 'HEAD:version.txt')}\tevil.txt\n"),
            "link": git("hash-object", "-w", "--stdin", given=f"../../../../../../../../../..{outside}"),
        }
        hostile = git("mktree", given=f"{git('ls-tree', 'HEAD')}\n{entries.format(**ids)}\n")
        git("tag", "hostile", git("commit-tree", hostile, "-m", "x"))
        with pytest.raises(DecoupleError, match=said) as failed:
            fetch_source(manifest(), f"local:{repository}@hostile", cache=downloader.cache)
        assert "a commit that git checks out" in (failed.value.next_step or "")
        assert not list(outside.iterdir()) and not list(downloader.cache.rglob("evil.txt"))


class TestAuto:
    def test_says_which_it_took_and_why_not_the_others(
        self, tmp_path: Path, http_server: FaultyServer, downloader: Downloader, tree: Path
    ) -> None:
        files = debian_files(tree, tmp_path, DEBIAN_PATCH)
        http_server.files.update({f"/{name}": data for name, data in files.items()})
        release = manifest(
            GithubSource(remote(http_server.url("/gone.tar.gz"))),
            GitSource((tmp_path / "none").as_uri()),
            debian_source(http_server.base, files),
        )
        fetched = fetch_source(release, cache=downloader.cache, downloader=downloader)
        assert fetched.provider == "debian"
        assert fetched.why.startswith("the first that could be had; not github: cannot download gone.tar.gz: ")
        assert "; not git: git clone of tag v2.6.0: fatal: " in fetched.why
        before = len(http_server.requests)
        again = fetch_source(release, cache=downloader.cache, downloader=downloader)
        assert again.why == "the first of the manifest's sources that is in the cache"
        assert len(http_server.requests) == before

    def test_a_wheel_is_nothing_to_build_from(self, http_server: FaultyServer, downloader: Downloader) -> None:
        http_server.files["/t.whl"] = wheel = wheel_of({})
        release = manifest(WheelSource(remote(http_server.url("/t.whl"), wheel)))
        with pytest.raises(DecoupleError, match="wheel: has Python files"):
            fetch_source(release, cache=downloader.cache, downloader=downloader)


class TestSameTree:
    """The pristine tree and its commit do not depend on the way they came."""

    def test_archive_git_folder_and_work_tree(
        self, tmp_path: Path, http_server: FaultyServer, downloader: Downloader, tree: Path
    ) -> None:
        (tmp_path / "repo").mkdir()
        commit = git_repository(tree, tmp_path / "repo")
        (tmp_path / "repo/untracked.o").touch()
        http_server.files[ARCHIVE] = data = tar_of(tree, "pytorch-v2.6.0")
        sources = (GithubSource(remote(http_server.url(ARCHIVE), data)), GitSource((tmp_path / "repo").as_uri()))
        release = manifest(*sources, commit=commit)
        cache = downloader.cache
        bases = [
            ensure_baseline(cache, release, fetch_source(release, source, cache=cache, downloader=downloader))
            for source in ("github", "git", f"local:{tree}", f"local:{tmp_path / 'repo'}")
        ]
        assert len({base.repo for base in bases}) == 4
        assert len({base.tree for base in bases}) == 1
        assert len({base.commit for base in bases}) == 1
        listed = subprocess.run(
            ["git", "ls-tree", "-r", bases[0].commit], cwd=bases[0].repo, capture_output=True, text=True, check=True
        ).stdout
        assert "build/hidden.o" in listed  # .gitignore hides it
        assert "100755 blob" in listed and "120000 blob" in listed
