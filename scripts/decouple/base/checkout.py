"""The checkout: where its series, patches and trees are, which releases it has.

Needs nothing but the standard library, so that ``noxfile.py`` can ask it before anything is installed, and of that no
``dataclasses``, which every verb would wait for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from decouple.base.errors import DecoupleError, UsageError

_RELEASE = re.compile(r"\d+(\.\d+)*")
_VERSION = re.compile(r"(\d+\.\d+)\.\d+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
CANDIDATE = re.compile(r"v?(\d+\.\d+\.\d+)-?rc(\d+)")
"""How a release candidate is named: the version, and its number."""


def is_name(text: str) -> bool:
    """Say whether a series can be called so.

    Examples: ``2.7``, ``2.7.0rc3``, ``main-2026-11-20``, ``acme-2.7``.
    """
    return bool(_NAME.fullmatch(text)) and not text.endswith(".toml")


def format_fill(name: str) -> str:
    """Return the command that makes the manifest of ``name``.

    A release's is read off PyPI, a release candidate's off upstream's tag, any other off a tree of the user's.
    """
    is_published = re.fullmatch(r"\d+\.\d+|v?\d+\.\d+\.\d+", name) or CANDIDATE.fullmatch(name)
    return f"decouple manifest fill {name} --write" + ("" if is_published else " --tree DIR")


def make_version_key(release: str) -> tuple[bool, tuple[int, ...], str]:
    """Make the key that sorts releases.

    2.10 is behind 2.9. What is no released X.Y stands before all that are, so it is never the newest.
    """
    digits = re.match(r"\d+(?:\.\d+)*", release)
    numbers = tuple(int(part) for part in digits.group().split(".")) if digits else ()
    return bool(_RELEASE.fullmatch(release)), numbers, release


class SeriesPlaces(NamedTuple):
    """The files of one series in the project, and its tree below ``build``."""

    release: str
    series: Path
    """The series file."""
    patches: Path
    """The folder that names in it are relative to."""
    tree: Path
    """The applied tree."""
    project: Path | None = None
    """The checkout with ``third_device/``; None: no overlay."""


class Checkout(NamedTuple):
    """A checkout of this project."""

    root: Path

    @property
    def patches(self) -> Path:
        """Return the folder that names in a series file are relative to."""
        return self.root / "patches"

    @property
    def resolutions(self) -> Path:
        """Return the folder of what persons settled in rebases."""
        return self.root / "series" / "resolutions"

    @property
    def recipes(self) -> Path:
        """Return the folder of what patches are made from, one file per ``Decouple-Id``."""
        return self.root / "series" / "recipes"

    @property
    def upstream_texts(self) -> Path:
        """Return the folder of the texts for upstream's reviewers.

        There is one file per ``Decouple-Id``: what they read and run of a single patch.
        """
        return self.root / "series" / "upstream"

    @property
    def rebase(self) -> Path:
        """Return the folder where a rebase works."""
        return self.root / "build" / "rebase"

    def locate_draft_manifest(self, release: str) -> Path:
        """Return where the manifest that was read off a tree is kept.

        It lies there until the series that is carried to that tree is whole.
        """
        return self.rebase / f"{release}.toml"

    def locate_third_party(self, release: str) -> Path:
        """Return where the list of upstream's submodules is, whether or not there is one."""
        return self.root / "series" / "third_party" / f"{release}.toml"

    def locate_series(self, release: str) -> Path:
        """Return where the series file of ``release`` is, whether or not there is one."""
        return self.root / "series" / release

    def locate_manifest(self, release: str) -> Path:
        """Return where the release manifest is, whether or not there is one."""
        return self.root / "series" / f"{release}.toml"

    def locate_build(self, release: str) -> Path:
        """Return the folder of what is made of a release and can be made again."""
        return self.root / "build" / release

    def locate_tree(self, release: str) -> Path:
        """Return where the applied tree is, whether or not there is one."""
        return self.locate_build(release) / "src"

    def list_releases(self) -> tuple[str, ...]:
        """List every release that has a series, by version.

        Those with no source to be had come first, so they are never the newest.

        Raises DecoupleError without ``series/``.
        """
        folder = self.root / "series"
        if not folder.is_dir():
            raise DecoupleError(f"no folder {folder}", next_step="run in a checkout, or set DECOUPLE_PROJECT")
        names = (path.name for path in folder.iterdir() if path.is_file() and self._is_series(path.name))
        return tuple(sorted(names, key=lambda name: (self._has_source(name), make_version_key(name))))

    def _has_source(self, release: str) -> bool:
        """Say whether a source can be had.

        It can, unless the manifest of the release names none: then it is a tree of the user's alone.
        """
        manifest = self.locate_manifest(release)
        return not manifest.is_file() or b"\n[[source]]" in manifest.read_bytes()

    def list_manifest_releases(self) -> tuple[str, ...]:
        """List every release that has a manifest, with or without a series, by version."""
        return tuple(sorted((path.stem for path in (self.root / "series").glob("*.toml")), key=make_version_key))

    def shorten_version(self, word: str) -> str:
        """Return the release that a version names: 2.6 for 2.6.0 and for 2.6.1.

        A release has one source here, that of its manifest. Any other word stays, and so does the version of a release
        that is called like it.
        """
        version = _VERSION.fullmatch(word)
        if version is None or self.locate_series(word).is_file() or self.locate_draft_manifest(word).is_file():
            return word
        have = self.list_manifest_releases()
        return version[1] if version[1] in have and word not in have else word

    def check_release(self, release: str) -> None:
        """Raise UsageError that lists releases, for one without series and manifest."""
        have = sorted({*self.list_releases(), *self.list_manifest_releases()}, key=make_version_key)
        if release not in have and not self.locate_draft_manifest(release).is_file():
            raise UsageError(
                f"no release {release!r}: {self.root / 'series'} has {', '.join(have) or 'none'}",
                next_step=f"name one of them; `{format_fill(release)}` makes the manifest of another",
            )

    def _is_series(self, name: str) -> bool:
        """Say whether a file in ``series/`` is a series.

        It is named like a release, or stands beside a manifest of that name.
        """
        return bool(_RELEASE.fullmatch(name)) or (is_name(name) and self.locate_manifest(name).is_file())

    def find_newest_release(self) -> str:
        """Return the newest release with a series.

        Raises UsageError where there is none, DecoupleError as `list_releases`.
        """
        have = self.list_releases()
        if not have:
            raise UsageError(f"no series in {self.root / 'series'}", next_step="run in a checkout that has one")
        return have[-1]

    def find_series(self, release: str) -> SeriesPlaces:
        """Return the places of a series and its tree.

        Raises UsageError for a release that has none.
        """
        series = self.locate_series(release)
        if not series.is_file():
            have = ", ".join(self.list_releases()) or "none"
            raise UsageError(f"no series {series}", next_step=f"name one of: {have}")
        return SeriesPlaces(release, series, self.patches, self.locate_tree(release), self.root)
