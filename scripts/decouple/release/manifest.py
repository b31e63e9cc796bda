"""Release manifests: ``series/<release>.toml`` as frozen dataclasses.

A manifest holds facts that were read off published files by ``decouple manifest fill`` and nothing else: which commit a
release is, where its source can be had with which size and SHA-256, and which toolchain the official wheel was made
with. A fact that could not be read is written as ``"not known"``, never guessed; :data:`NOT_KNOWN` becomes None here.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from packaging.version import InvalidVersion, Version

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError

#: The only schema there is; a change that old code cannot read gets the next number.
SCHEMA = 1
#: How a manifest says that a fact could not be read.
NOT_KNOWN = "not known"

T = TypeVar("T")


@dataclass(frozen=True)
class RemoteFile:
    """One file to download. ``urls`` are tried in order; ``size`` in bytes; None means not known."""

    name: str
    urls: tuple[str, ...]
    size: int | None
    sha256: str | None


@dataclass(frozen=True)
class GithubSource:
    """The release archive with all submodules in it, as the project publishes it on GitHub."""

    archive: RemoteFile
    provider: str = "github"


@dataclass(frozen=True)
class GitSource:
    """The repository; the manifest's tag is checked out with its submodules and must be the manifest's commit."""

    url: str
    provider: str = "git"


@dataclass(frozen=True)
class DebianSource:
    """Debian's source package ``pytorch``: ``orig`` is upstream without third_party, ``debian`` Debian's own folder."""

    version: str
    suite: str
    dsc: RemoteFile
    orig: RemoteFile
    debian: RemoteFile
    provider: str = "debian"


@dataclass(frozen=True)
class WheelSource:
    """An official wheel on PyPI, of which only Python files, headers and other text are read, by HTTP range."""

    wheel: RemoteFile
    provider: str = "wheel"


Source: TypeAlias = GithubSource | GitSource | DebianSource | WheelSource


@dataclass(frozen=True)
class Toolchain:
    """What the official wheel was made with and for. None: not known."""

    #: Python versions that have an official Linux x86-64 wheel, e.g. ("3.9", "3.10").
    python: tuple[str, ...]
    #: CUDA version as torch/version.py of the wheel says, e.g. "12.4"; None also for a CPU-only wheel.
    cuda: str | None
    #: PyPI pins of the CUDA libraries as the metadata of the wheel names them, e.g. "nvidia-cudnn-cu12==9.1.0.70".
    libraries: tuple[str, ...]
    #: The compiler, as the .comment section of the wheel's libc10.so says, e.g. "11.2.1".
    gcc: str | None
    #: Newest major version of gcc that nvcc of this CUDA takes as host compiler (crt/host_config.h).
    cuda_max_gcc: int | None

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
    tag: str
    commit: str
    #: In the order in which ``auto`` tries them.
    sources: tuple[Source, ...]
    toolchain: Toolchain

    def source(self, provider: str) -> Source | None:
        """The source of this provider, or None when the release has none."""
        return next((source for source in self.sources if source.provider == provider), None)


def manifest_path(project: Path, release: str) -> Path:
    """Where the manifest of ``release`` is in a checkout."""
    return Checkout(project).manifest(release)


def release_of(version: str) -> str:
    """The release ("2.6") that a version ("2.6.0", "v2.6.1") belongs to. Raises UsageError when it is no version."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        raise UsageError(f"{version!r} is not a release", next_step="name one like 2.6 or 2.7.0") from None
    return f"{parsed.major}.{parsed.minor}"


def known_releases(project: Path) -> list[str]:
    """The releases that have a manifest, oldest first."""
    return sorted((path.stem for path in (project / "series").glob("*.toml")), key=Version)


def load(path: Path) -> Manifest:
    """Read one manifest. Raises DecoupleError that names file, key and what was expected there."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        have = ", ".join(sorted((other.stem for other in path.parent.glob("*.toml")), key=_natural)) or "none"
        raise UsageError(
            f"no manifest {path}: releases with one: {have}",
            next_step=f"make it with: decouple manifest fill {path.stem} --write",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DecoupleError(f"{path}: not TOML: {error}", next_step=_refill(path)) from None
    return _manifest(_Table(path, "", data))


def load_release(project: Path, release: str) -> Manifest:
    """Read the manifest of ``release`` ("2.6", also "2.6.0") from a checkout. Raises DecoupleError."""
    return load(manifest_path(project, release_of(release)))


def parse(text: str, path: Path) -> Manifest:
    """Like :func:`load`, from text that is not on disk yet; ``path`` is only for messages."""
    return _manifest(_Table(path, "", tomllib.loads(text)))


def _natural(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _refill(path: Path) -> str:
    return f"restore it from git, or write it anew with: decouple manifest fill {path.stem} --write"


class _Table:
    """One TOML table that knows where it is, checks types and complains about keys nobody asked for."""

    def __init__(self, path: Path, where: str, data: Mapping[str, Any]) -> None:
        self.path = path
        self.where = where
        self.data = data
        self.asked: set[str] = set()

    def wrong(self, key: str, expected: str) -> DecoupleError:
        """The error for ``key``; says what is there instead."""
        got = f"got {self.data[key]!r}" if key in self.data else "the key is missing"
        return DecoupleError(
            f"{self.path}: {self.where}{key}: expected {expected}, {got}", next_step=_refill(self.path)
        )

    def value(self, key: str, expected: str, accept: Callable[[Any], T | None]) -> T:
        """``accept`` of the value; it answers None for a value that is not as ``expected`` says."""
        self.asked.add(key)
        result = accept(self.data.get(key))
        if result is None:
            raise self.wrong(key, expected)
        return result

    def maybe(self, key: str, expected: str, accept: Callable[[Any], T | None]) -> T | None:
        """The same, or None where the manifest says that the fact is not known."""
        self.asked.add(key)
        if self.data.get(key) == NOT_KNOWN:
            return None
        return self.value(key, f'{expected} or "{NOT_KNOWN}"', accept)

    def text(self, key: str, pattern: str, expected: str) -> str:
        return self.value(key, expected, lambda value: _match(value, pattern))

    def strings(self, key: str, pattern: str, expected: str) -> tuple[str, ...]:
        def accept(value: Any) -> tuple[str, ...] | None:
            if isinstance(value, list) and all(_match(item, pattern) for item in value):
                return tuple(value)
            return None

        return self.value(key, expected, accept)

    def table(self, key: str) -> _Table:
        data = self.value(key, "a table", lambda value: value if isinstance(value, dict) else None)
        return _Table(self.path, f"{self.where}{key}.", data)

    def tables(self, key: str) -> list[_Table]:
        def accept(value: Any) -> list[dict[str, Any]] | None:
            good = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
            return value if good else None

        items = self.value(key, f"one or more [[{key}]] tables", accept)
        return [_Table(self.path, f"{self.where}{key}[{index}].", item) for index, item in enumerate(items)]

    def done(self) -> None:
        """Raise DecoupleError when the table has a key that nobody asked for."""
        for key in self.data:
            if key not in self.asked:
                near = difflib.get_close_matches(key, self.asked, 1)
                hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(sorted(self.asked))}"
                raise DecoupleError(
                    f"{self.path}: {self.where}{key}: no such key ({hint})", next_step=_refill(self.path)
                )


def _match(value: Any, pattern: str) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(pattern, value) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _manifest(top: _Table) -> Manifest:
    top.value("schema", f"{SCHEMA} (this program reads no other)", lambda value: True if value == SCHEMA else None)
    release = top.text("release", re.escape(top.path.stem), f'the file\'s own name, "{top.path.stem}"')
    version = top.text(
        "version", re.escape(release) + r"\.\d+(rc\d+)?", f'a PEP 440 version of release {release}, like "{release}.0"'
    )
    tag = top.text("tag", r"v\d+\.\d+\.\d+(-rc\d+)?", f'the git tag, like "v{version}"')
    commit = top.text("commit", r"[0-9a-f]{40}", "the full commit: 40 lower-case hex digits")
    sources = tuple(_source(table) for table in top.tables("source"))
    providers = [source.provider for source in sources]
    for provider in providers:
        if providers.count(provider) > 1:
            raise DecoupleError(
                f"{top.path}: source: provider {provider!r} is listed twice", next_step=_refill(top.path)
            )
    toolchain = _toolchain(top.table("toolchain"))
    top.done()
    return Manifest(release, version, tag, commit, sources, toolchain)


def _remote(table: _Table) -> RemoteFile:
    result = RemoteFile(
        name=table.text("name", r"[A-Za-z0-9][A-Za-z0-9._+~-]*", "a plain file name"),
        urls=table.strings("urls", r"https?://\S+", "a list of http(s) URLs, first choice first"),
        size=table.maybe("size", "a size in bytes, at least 1", _count),
        sha256=table.maybe("sha256", "64 lower-case hex digits", lambda value: _match(value, r"[0-9a-f]{64}")),
    )
    if not result.urls:
        raise table.wrong("urls", "at least one URL")
    table.done()
    return result


def _github(table: _Table) -> Source:
    return GithubSource(_remote(table.table("archive")))


def _git(table: _Table) -> Source:
    return GitSource(table.text("url", r"(https?|ssh|git|file)://\S+", "the URL of a git repository"))


def _debian(table: _Table) -> Source:
    return DebianSource(
        version=table.text("version", r"\S+", 'a Debian source version, like "2.6.0+dfsg-7"'),
        suite=table.text("suite", r"[a-z]+", 'a Debian suite, like "trixie"'),
        dsc=_remote(table.table("dsc")),
        orig=_remote(table.table("orig")),
        debian=_remote(table.table("debian")),
    )


def _wheel(table: _Table) -> Source:
    return WheelSource(_remote(table.table("wheel")))


_PROVIDERS: dict[str, Callable[[_Table], Source]] = {
    "github": _github,
    "git": _git,
    "debian": _debian,
    "wheel": _wheel,
}


def _source(table: _Table) -> Source:
    names: Iterable[str] = _PROVIDERS
    provider = table.value(
        "provider", f"one of {', '.join(names)}", lambda value: value if value in _PROVIDERS else None
    )
    result = _PROVIDERS[provider](table)
    table.done()
    return result


def _toolchain(table: _Table) -> Toolchain:
    result = Toolchain(
        python=table.strings("python", r"3\.\d+t?", 'a list of Python versions, like ["3.12"]'),
        cuda=table.maybe("cuda", 'a CUDA version, like "12.4"', lambda value: _match(value, r"\d+(\.\d+)+")),
        libraries=table.strings(
            "libraries", r"(nvidia|cuda)-[a-z0-9-]+==[0-9.]+", 'a list of pins, like "nvidia-nccl-cu12==2.21.5"'
        ),
        gcc=table.maybe("gcc", 'a gcc version, like "11.2.1"', lambda value: _match(value, r"\d+(\.\d+)+")),
        cuda_max_gcc=table.maybe("cuda_max_gcc", "a major version of gcc, like 13", _count),
    )
    table.done()
    return result
