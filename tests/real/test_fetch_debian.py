"""The real source of PyTorch 2.6.0, from Debian."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from decouple.base.files import compute_sha256
from decouple.base.paths import find_cache, find_project
from decouple.release.manifest import Manifest
from decouple.upstream.baseline import Baseline, ensure_baseline, read_debian_series
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from decouple.upstream.pristine import list_entries
from decouple.upstream.providers.debian import DebianSource
from decouple.upstream.unpacked_release import UnpackedRelease

pytestmark = pytest.mark.real

#: The pristine tree of Debian's orig archive (upstream's release archive without third_party), and with Debian's folder
#: and patches. Anyone who imports that archive with git gets these ids.
TREE = "44a139f8fbcb45f6fb69c5959bc612be3d620833"
PATCHED = "add00da39cac7bc94da070205bb56a6bde7faa90"


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_release(find_project(), "2.6")


@pytest.fixture(scope="module")
def fetched(manifest: Manifest) -> UnpackedRelease:
    return fetch_source(manifest, "debian")


@pytest.fixture(scope="module")
def base(manifest: Manifest, fetched: UnpackedRelease) -> Baseline:
    return ensure_baseline(find_cache(), manifest, fetched)


def test_the_manifest_holds_for_what_debian_serves(manifest: Manifest, fetched: UnpackedRelease) -> None:
    source = manifest.find_source("debian")
    assert isinstance(source, DebianSource)
    for file, expected in zip(fetched.files, (source.dsc, source.orig, source.debian), strict=True):
        assert (file.name, file.size, file.sha256) == (expected.name, expected.size, expected.sha256)
        path = find_cache() / "downloads" / file.sha256 / file.name
        assert compute_sha256(path) == file.sha256


def test_the_tree_has_every_file_of_the_archive(fetched: UnpackedRelease) -> None:
    archive = find_cache() / "downloads" / fetched.files[1].sha256 / fetched.files[1].name
    with tarfile.open(archive) as tar:
        names = {member.name.partition("/")[2] for member in tar if not member.isdir()}
    assert {entry.path for entry in list_entries(fetched.path)} == names
    assert len(names) > 15_000


def test_the_tree_id(base: Baseline) -> None:
    assert base.tree == TREE


def test_git_itself_finds_the_same_tree(fetched: UnpackedRelease, base: Baseline, tmp_path: Path) -> None:
    """An independent way: plain ``git add --force`` of the unpacked tree in a new repository."""
    env = {**os.environ, "GIT_INDEX_FILE": str(tmp_path / "index")}
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "r")], check=True)
    git = ["git", "--git-dir", str(tmp_path / "r"), "--work-tree", str(fetched.path), "-c", "core.autocrlf=false"]
    subprocess.run([*git, "add", "--force", "--all", "."], cwd=fetched.path, check=True, env=env)
    tree = subprocess.run([*git, "write-tree"], check=True, env=env, capture_output=True, text=True).stdout.strip()
    assert tree == base.tree


def test_archive_and_a_git_checkout_made_from_it(
    manifest: Manifest, fetched: UnpackedRelease, base: Baseline, tmp_path: Path
) -> None:
    """A checkout has more (.gitignore, .gitattributes, .github, a build folder) and gives the same tree and commit."""
    repo = tmp_path / "pytorch"
    subprocess.run(["git", "clone", "-q", "--shared", str(base.repo), str(repo)], check=True)
    (repo / ".gitignore").write_text("build/\n*.bat\ntorch/version.py\n")
    (repo / ".gitattributes").write_text("*.bat text eol=crlf\n*.py diff=python\n")
    (repo / ".github").mkdir()
    (repo / ".github/labeler.yml").write_text("x\n")
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    (repo / "build").mkdir()
    (repo / "build/untracked.o").touch()
    checkout = fetch_source(manifest, f"local:{repo}", cache=tmp_path / "cache")
    again = ensure_baseline(tmp_path / "cache", manifest, checkout)
    assert (again.tree, again.commit) == (base.tree, base.commit)


def test_debians_patches_apply_exactly(manifest: Manifest, fetched: UnpackedRelease, base: Baseline) -> None:
    patched = ensure_baseline(find_cache(), manifest, fetched, debian_patches=True)
    assert patched.upstream == base.commit
    assert patched.tree == PATCHED
    assert fetched.debian is not None and len(read_debian_series(fetched.debian)) == 17


@pytest.mark.tools("quilt", "patch")
def test_debians_patched_tree_is_what_quilt_makes(manifest: Manifest, fetched: UnpackedRelease, tmp_path: Path) -> None:
    """quilt (GNU patch, as dpkg-source uses it) and our way give the same files."""
    patched = ensure_baseline(find_cache(), manifest, fetched, debian_patches=True)
    assert fetched.debian is not None
    tree = tmp_path / "tree"
    subprocess.run(["cp", "-a", str(fetched.path), str(tree)], check=True)
    subprocess.run(["cp", "-a", str(fetched.debian), str(tree / "debian")], check=True)
    env = {**os.environ, "QUILT_PATCHES": "debian/patches", "QUILTRC": os.devnull}
    subprocess.run(["quilt", "push", "-aq", "--fuzz=0"], cwd=tree, check=True, env=env, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(tree / ".pc")], check=True)
    again = ensure_baseline(
        tmp_path / "cache", manifest, fetch_source(manifest, f"local:{tree}", cache=tmp_path / "cache")
    )
    assert again.tree == patched.tree


def test_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "decouple", "fetch", "2.6", "--debian-patches", "--offline", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    document = json.loads(done.stdout)
    assert document["baseline"]["tree"] == PATCHED
    assert document["why"] == "asked for with --source debian"
    assert all(len(file["sha256"]) == 64 for file in document["files"])


def test_offline_without_the_cache(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "decouple", "fetch", "2.6", "--offline"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "DECOUPLE_CACHE": str(tmp_path)},
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "decouple: no source of PyTorch 2.6.0 can be had: github: pytorch-v2.6.0.tar.gz is not"
    )
    assert len(done.stderr.strip().splitlines()) == 2  # what is wrong; what to do next
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.endswith("lock")]


def test_a_truncated_real_archive(manifest: Manifest, fetched: UnpackedRelease, tmp_path: Path) -> None:
    from decouple.base.errors import DecoupleError

    archive = find_cache() / "downloads" / fetched.files[1].sha256 / fetched.files[1].name
    cut = tmp_path / "cut.tar.xz"
    with archive.open("rb") as source:
        cut.write_bytes(source.read(5 << 20))
    with pytest.raises(DecoupleError, match=r"damaged|cut off"):
        fetch_source(manifest, f"local:{cut}", cache=tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name == "tree"]


def test_the_archive_repacked_as_gz_is_the_same_tree(
    manifest: Manifest, fetched: UnpackedRelease, base: Baseline, tmp_path: Path
) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        tar.add(fetched.path, arcname="pytorch-v2.6.0")
    path = tmp_path / "pytorch-v2.6.0.tar.gz"
    path.write_bytes(out.getvalue())
    again = ensure_baseline(
        tmp_path / "cache", manifest, fetch_source(manifest, f"local:{path}", cache=tmp_path / "cache")
    )
    assert (again.tree, again.commit) == (base.tree, base.commit)
