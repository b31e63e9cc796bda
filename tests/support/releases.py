"""Small but real releases: a tree with everything that makes trees differ, its archives, Debian's package of it."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from decouple.release.manifest import Manifest, ManifestSource, RemoteFile, Toolchain
from decouple.upstream.providers.debian import DebianSource
from decouple.upstream.providers.git import GitSource
from decouple.upstream.providers.github import GithubSource
from decouple.upstream.providers.wheel import WheelSource
from tests.support.files import write_files

COMMIT = "2236df1770800ffea5697b11b0bb0d910b2e59e1"
TOOLCHAIN = Toolchain(("3.12",), "12.4", ("nvidia-cudnn-cu12==9.1.0.70",), "9.3.1", 13)


def sample_tree(root: Path) -> Path:
    """A tree as a release archive holds it: 8 files and 2 links; returns ``root``."""
    files: dict[str, bytes] = {
        "version.txt": b"2.6.0a0\n",
        "CMakeLists.txt": b"project(Torch)\n" * 40,
        "torch/__init__.py": b"".join(b"line %d\n" % number for number in range(200)),
        "torch/empty.py": b"",
        "torch/name with space ä.txt": b"text\n",
        "scripts/build.sh": b"#!/bin/sh\n",
        "scripts/build.bat": b"@echo off\r\n",
        "build/hidden.o": bytes(range(256)),
    }
    write_files(root, files)
    (root / "scripts/build.sh").chmod(0o755)
    (root / "README").symlink_to("torch/__init__.py")
    (root / "torch/up").symlink_to("../scripts/")
    return root


def tar_of(tree: Path, top: str, mode: str = "w:gz") -> bytes:
    """``tree`` as a tar archive below the folder ``top``."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        tar.add(tree, arcname=top)
    return out.getvalue()


def remote(url: str, data: bytes | None = None, *mirrors: str) -> RemoteFile:
    """The manifest's entry for a file; size and hash are not known without ``data``."""
    size, sha256 = (len(data), hashlib.sha256(data).hexdigest()) if data is not None else (None, None)
    return RemoteFile(url.rsplit("/", 1)[1], (url, *mirrors), size, sha256)


def manifest(*sources: ManifestSource, commit: str = COMMIT) -> Manifest:
    """A manifest of 2.6.0 with these sources."""
    return Manifest("2.6", "2.6.0", "v2.6.0", commit, sources, TOOLCHAIN)


def debian_files(tree: Path, scratch: Path, patch: str) -> dict[str, bytes]:
    """The three files of a source package made of ``tree`` with one patch."""
    folder = scratch / "debian"
    (folder / "patches").mkdir(parents=True)
    (folder / "control").write_text("Source: pytorch\n")
    (folder / "kineto").symlink_to("control")
    (folder / "patches/series").write_text("# Debian's\nfirst.patch -p1\n")
    (folder / "patches/first.patch").write_text(patch)
    orig, debian = tar_of(tree, "pytorch-v2.6.0", "w:xz"), tar_of(folder, "debian", "w:xz")
    lines = []
    for field, algorithm in (("Checksums-Sha1", "sha1"), ("Checksums-Sha256", "sha256")):
        lines.append(f"{field}:")
        for name, data in (("pytorch_2.6.0.orig.tar.xz", orig), ("pytorch_2.6.0-1.debian.tar.xz", debian)):
            lines.append(f" {hashlib.new(algorithm, data).hexdigest()} {len(data)} {name}")
    control = "Format: 3.0 (quilt)\nSource: pytorch\nVersion: 2.6.0-1\n" + "\n".join(lines) + "\n"
    return {
        "pytorch_2.6.0-1.dsc": control.encode(),
        "pytorch_2.6.0.orig.tar.xz": orig,
        "pytorch_2.6.0-1.debian.tar.xz": debian,
    }


def debian_source(base: str, files: Mapping[str, bytes]) -> DebianSource:
    """The manifest's entry for :func:`debian_files` served below ``base``."""
    entries = {name: remote(f"{base}/{name}", data) for name, data in files.items()}
    return DebianSource(
        "2.6.0-1",
        "trixie",
        dsc=entries["pytorch_2.6.0-1.dsc"],
        orig=entries["pytorch_2.6.0.orig.tar.xz"],
        debian=entries["pytorch_2.6.0-1.debian.tar.xz"],
    )


#: A patch of Debian's for the tree of :func:`sample_tree`.
DEBIAN_PATCH = """\
Description: a change of Debian's
--- a/torch/__init__.py
+++ b/torch/__init__.py
@@ -1,4 +1,4 @@
 line 0
-line 1
+line one
 line 2
 line 3
"""


def git_repository(tree: Path, repo: Path, *, submodule: Path | None = None) -> str:
    """Make a repository with the tag v2.6.0 out of ``tree``; returns the commit.

    It has what a release archive lacks (.gitignore, .gitattributes, .github, .ci) and hides a file by .gitignore that
    is tracked nevertheless, as PyTorch does.
    """
    subprocess.run(["cp", "-a", f"{tree}/.", str(repo)], check=True)
    (repo / ".gitignore").write_text("build/\n")
    (repo / ".gitattributes").write_text("*.bat text eol=crlf\n")
    write_files(repo, dict.fromkeys((".github/workflows/ci.yml", ".ci/run.sh", ".circleci/config.yml"), "x\n"))

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", *arguments]
        return subprocess.run(command, cwd=repo, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("add", "-A", "-f")
    if submodule:
        git("submodule", "--quiet", "add", submodule.as_uri(), "third_party/sub")
    git("commit", "-q", "-m", "release")
    git("tag", "v2.6.0")
    return git("rev-parse", "HEAD")


def wheel_of(files: Mapping[str, bytes], commit: str = COMMIT) -> bytes:
    """A wheel of torch 2.6.0 with ``files``, a version.py and a RECORD."""
    members = {"torch/version.py": f"cuda: Optional[str] = '12.4'\ngit_version = '{commit}'\n".encode(), **files}
    record = ""
    for name, data in members.items():
        digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("torch-2.6.0.dist-info/RECORD", record)
    return out.getvalue()


__all__ = [
    "COMMIT",
    "DEBIAN_PATCH",
    "GitSource",
    "GithubSource",
    "WheelSource",
    "debian_files",
    "debian_source",
    "git_repository",
    "manifest",
    "remote",
    "sample_tree",
    "tar_of",
    "wheel_of",
]
