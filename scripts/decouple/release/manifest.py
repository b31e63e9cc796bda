"""Release manifests: ``series/<release>.toml`` as frozen dataclasses.

A manifest holds facts that were read off published files by ``decouple manifest fill`` and nothing else: which commit a
release is, where its source can be had with which size and SHA-256, and which toolchain the official wheel was made
with. A fact that could not be read is written as ``"not known"``, never guessed; :data:`NOT_KNOWN` becomes None here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta
from packaging.version import VERSION_PATTERN, InvalidVersion, Version

from decouple.base import toml
from decouple.base.checkout import Checkout, is_name, version_key
from decouple.base.errors import DecoupleError, UsageError

#: How a manifest says that a fact could not be read.
NOT_KNOWN = "not known"
_TAG = re.compile(r"v\d+\.\d+\.\d+(-rc\d+)?")
_VERSION = re.compile(VERSION_PATTERN, re.VERBOSE | re.IGNORECASE)

FileName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._+~-]*\Z")]
Url = Annotated[str, Meta(pattern=r"\Ahttps?://\S+\Z")]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Dotted = Annotated[str, Meta(pattern=r"\A\d+(\.\d+)+\Z")]
Count = Annotated[int, Meta(ge=1)]


TreeId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}\Z")]


@dataclass(frozen=True)
class RemoteFile:
    """One file to download. ``urls`` are tried in order; ``size`` in bytes; None means not known."""

    name: FileName
    urls: Annotated[tuple[Url, ...], Meta(min_length=1)]
    size: Count | None
    sha256: Sha256 | None


@dataclass(frozen=True)
class GithubSource:
    """The release archive with all submodules in it, as the project publishes it on GitHub."""

    archive: RemoteFile
    #: Id of the git tree that the unpacked archive gives; None: not pinned.
    tree: TreeId | None = None
    provider: str = "github"


@dataclass(frozen=True)
class GitSource:
    """The repository; the manifest's tag is checked out with its submodules and must be the manifest's commit."""

    url: Annotated[str, Meta(pattern=r"\A(https?|ssh|git|file)://\S+\Z")]
    #: Id of the git tree of the files, submodules in it; None: not pinned.
    tree: TreeId | None = None
    provider: str = "git"


@dataclass(frozen=True)
class DebianSource:
    """Debian's source package ``pytorch``: ``orig`` is upstream without third_party, ``debian`` Debian's own folder."""

    version: Annotated[str, Meta(pattern=r"\A\S+\Z")]
    suite: Annotated[str, Meta(pattern=r"\A[a-z]+\Z")]
    dsc: RemoteFile
    orig: RemoteFile
    debian: RemoteFile
    #: Ids of the git trees that the unpacked source gives, pristine and with Debian's own patches; None: not pinned.
    tree: TreeId | None = None
    patched_tree: TreeId | None = None
    provider: str = "debian"


@dataclass(frozen=True)
class WheelSource:
    """An official wheel on PyPI, of which only Python files, headers and other text are read, by HTTP range."""

    wheel: RemoteFile
    provider: str = "wheel"


Source: TypeAlias = GithubSource | GitSource | DebianSource | WheelSource
SOURCES: Mapping[str, type[Source]] = {
    "github": GithubSource,
    "git": GitSource,
    "debian": DebianSource,
    "wheel": WheelSource,
}
"""Provider, as ``[[source]]`` names it, -> its keys."""


@dataclass(frozen=True)
class Toolchain:
    """What the official wheel was made with and for. None: not known."""

    #: Python versions that have an official Linux x86-64 wheel, e.g. ("3.9", "3.10").
    python: tuple[Annotated[str, Meta(pattern=r"\A3\.\d+t?\Z")], ...]
    #: CUDA version as torch/version.py of the wheel says, e.g. "12.4"; None also for a CPU-only wheel.
    cuda: Dotted | None
    #: PyPI pins of the CUDA libraries as the metadata of the wheel names them, e.g. "nvidia-cudnn-cu12==9.1.0.70".
    libraries: tuple[Annotated[str, Meta(pattern=r"\A(nvidia|cuda)-[a-z0-9-]+==[0-9.]+\Z")], ...]
    #: The compiler, as the .comment section of the wheel's libc10.so says, e.g. "11.2.1".
    gcc: Dotted | None
    #: Newest major version of gcc that nvcc of this CUDA takes as host compiler (crt/host_config.h).
    cuda_max_gcc: Count | None

    def library(self, name: str) -> str | None:
        """The pinned version of NVIDIA's library ``name`` ("cudnn", "nccl", ...), None when the wheel pins none."""
        for pin in self.libraries:
            package, _, version = pin.partition("==")
            if re.fullmatch(rf"nvidia-{re.escape(name)}(-cu\d+)?", package):
                return version
        return None

    @property
    def cudnn(self) -> str | None:
        """Version of cuDNN, e.g. "9.1.0.70"."""
        return self.library("cudnn")

    @property
    def nccl(self) -> str | None:
        """Version of NCCL, e.g. "2.21.5"."""
        return self.library("nccl")


@dataclass(frozen=True)
class Manifest:
    """Everything known about one upstream release."""

    release: str
    version: str
    #: What a git repository has the commit under: a tag, or the commit itself where it has none.
    tag: str
    #: None: not known, the tree is all there is.
    commit: str | None
    #: In the order in which ``auto`` tries them; none for a tree of the user's own.
    sources: tuple[Source, ...]
    toolchain: Toolchain

    def source(self, provider: str) -> Source | None:
        """The source of this provider, or None when the release has none."""
        return next((source for source in self.sources if source.provider == provider), None)


def manifest_path(project: Path, release: str) -> Path:
    """Where the manifest of ``release`` is in a checkout."""
    return Checkout(project).manifest(release)


def release_of(version: str) -> str:
    """The release ("2.6") that a version ("2.6.0", "v2.6.1") belongs to; any other name is a release of its own.

    So "2.7.0rc3", "main-2026-11-20" and "acme-2.7" stay what they are. Raises UsageError for
    what can be no file's name.
    """
    with contextlib.suppress(InvalidVersion):
        parsed = Version(version)
        if not (parsed.is_prerelease or parsed.is_postrelease or parsed.local or parsed.epoch):
            return f"{parsed.major}.{parsed.minor}"
    if not is_name(version):
        raise UsageError(f"{version!r} is not a release", next_step="name one like 2.6, 2.7.0 or main-2026-11-20")
    return version


def is_released(release: str) -> bool:
    """Whether the name is that of upstream's release X.Y, rather than of some other tree."""
    return re.fullmatch(r"\d+\.\d+", release) is not None


def known_releases(project: Path) -> list[str]:
    """The releases that have a manifest, oldest first."""
    return list(Checkout(project).known())


def load(path: Path) -> Manifest:
    """Read one manifest. Raises DecoupleError that names file, key and what was expected there."""
    try:
        return parse(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        have = ", ".join(sorted((other.stem for other in path.parent.glob("*.toml")), key=version_key)) or "none"
        raise UsageError(
            f"no manifest {path}: releases with one: {have}",
            next_step=f"make it with: decouple manifest fill {path.stem} --write",
        ) from None
    except UnicodeDecodeError as error:
        raise DecoupleError(f"{path}: not TOML: {error}", next_step=_refill(path)) from None


def load_release(project: Path, release: str) -> Manifest:
    """Read the manifest of ``release`` ("2.6", also "2.6.0") from a checkout. Raises DecoupleError."""
    exact = is_name(release) and manifest_path(project, release).is_file()
    return load(manifest_path(project, release if exact else release_of(release)))


@dataclass(frozen=True)
class _File:
    """The keys of the file; a source's are those of its provider."""

    release: str
    version: str
    tag: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._+/-]*\Z")]
    commit: Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}\Z")] | None
    toolchain: Toolchain
    source: tuple[Mapping[str, Any], ...] = ()


def parse(text: str, path: Path) -> Manifest:
    """Like :func:`load`, from text that is not on disk yet; ``path`` is only for messages."""
    mend = _refill(path)
    data = toml.untyped(text, path, mend=mend)
    file = toml.typed(_known(data), _File, path, mend=mend)
    if file.release != path.stem:
        raise DecoupleError(
            f'{path}: release: expected the file\'s own name, "{path.stem}", got {file.release!r}', next_step=mend
        )
    _check_names(file, path, mend)
    sources: list[Source] = []
    for number, table in enumerate(file.source):
        at, provider = f"$.source[{number}]", str(table.get("provider"))
        if provider not in SOURCES:
            raise DecoupleError(
                f"{path}: {at}.provider: expected one of {', '.join(SOURCES)}, got {provider!r}", next_step=mend
            )
        if any(provider == other.provider for other in sources):
            raise DecoupleError(f"{path}: source: provider {provider!r} is listed twice", next_step=mend)
        sources.append(toml.typed(dict(table), SOURCES[provider], path, mend=mend, at=at))
    return Manifest(file.release, file.version, file.tag, file.commit, tuple(sources), file.toolchain)


def _check_names(file: _File, path: Path, mend: str) -> None:
    """Version, tag, commit and sources, of which a release must have more than another tree."""
    if not is_released(file.release):
        wanted, good = "a PEP 440 version", bool(_VERSION.fullmatch(file.version))
    else:
        wanted = f"a PEP 440 version of release {file.release}"
        good = bool(re.fullmatch(re.escape(file.release) + r"\.\d+(rc\d+)?", file.version))
        if not _TAG.fullmatch(file.tag):
            raise DecoupleError(f"{path}: $.tag: expected such as v2.6.0, got {file.tag!r}", next_step=mend)
        if not (file.commit and file.source):
            lacks = "source" if file.commit else "commit"
            raise DecoupleError(f"{path}: {lacks}: a release has one", next_step=mend)
    if not good:
        raise DecoupleError(f"{path}: version: expected {wanted}, got {file.version!r}", next_step=mend)


def _known(value: Any) -> Any:
    """With None for each fact that is not known."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if value == NOT_KNOWN else value


def _refill(path: Path) -> str:
    return f"restore it from git, or write it anew with: decouple manifest fill {path.stem} --write"
