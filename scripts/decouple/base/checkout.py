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
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def is_name(text: str) -> bool:
    """Whether a series can be called so: ``2.7``, ``2.7.0rc3``, ``main-2026-11-20``, ``acme-2.7``."""
    return bool(_NAME.fullmatch(text)) and not text.endswith(".toml")


def make_version_key(release: str) -> tuple[bool, tuple[int, ...], str]:
    """To sort releases by: 2.10 is behind 2.9; what is no released X.Y stands before all that are, so never newest."""
    digits = re.match(r"\d+(?:\.\d+)*", release)
    numbers = tuple(int(part) for part in digits.group().split(".")) if digits else ()
    return bool(_RELEASE.fullmatch(release)), numbers, release


class SeriesPlaces(NamedTuple):
    """Where one series lives: its files in the project, its tree below ``build``."""

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
        """The folder that names in a series file are relative to."""
        return self.root / "patches"

    @property
    def resolutions(self) -> Path:
        """What persons settled in rebases."""
        return self.root / "series" / "resolutions"

    @property
    def recipes(self) -> Path:
        """What patches are made from, one file per ``Decouple-Id``."""
        return self.root / "series" / "recipes"

    @property
    def upstream_texts(self) -> Path:
        """What upstream's reviewers read and run of single patches, one file per ``Decouple-Id``."""
        return self.root / "series" / "upstream"

    @property
    def rebase(self) -> Path:
        """Where a rebase works."""
        return self.root / "build" / "rebase"

    def locate_draft_manifest(self, release: str) -> Path:
        """The manifest that was read off a tree without one, until the series that is carried to it is whole."""
        return self.rebase / f"{release}.toml"

    def locate_third_party(self, release: str) -> Path:
        """The list of what upstream takes in as submodules, whether or not there is one."""
        return self.root / "series" / "third_party" / f"{release}.toml"

    def locate_series(self, release: str) -> Path:
        """The series file of ``release``, whether or not there is one."""
        return self.root / "series" / release

    def locate_manifest(self, release: str) -> Path:
        """The release manifest, whether or not there is one."""
        return self.root / "series" / f"{release}.toml"

    def locate_build(self, release: str) -> Path:
        """What is made of a release and can be made again."""
        return self.root / "build" / release

    def locate_tree(self, release: str) -> Path:
        """The applied tree, whether or not there is one."""
        return self.locate_build(release) / "src"

    def list_releases(self) -> tuple[str, ...]:
        """Every release that has a series, by version, those with no source to be had first: so never the newest.

        Raises DecoupleError without ``series/``.
        """
        folder = self.root / "series"
        if not folder.is_dir():
            raise DecoupleError(f"no folder {folder}", next_step="run in a checkout, or set DECOUPLE_PROJECT")
        names = (path.name for path in folder.iterdir() if path.is_file() and self._is_series(path.name))
        return tuple(sorted(names, key=lambda name: (self._has_source(name), make_version_key(name))))

    def _has_source(self, release: str) -> bool:
        """Whether it is more than a tree of the user's: its manifest, where it has one, names a source."""
        manifest = self.locate_manifest(release)
        return not manifest.is_file() or b"\n[[source]]" in manifest.read_bytes()

    def list_manifest_releases(self) -> tuple[str, ...]:
        """Every release that has a manifest, with or without a series, by version."""
        return tuple(sorted((path.stem for path in (self.root / "series").glob("*.toml")), key=make_version_key))

    def check_release(self, release: str) -> None:
        """Raise UsageError, which lists those that there are, for a release without a series and a manifest."""
        have = sorted({*self.list_releases(), *self.list_manifest_releases()}, key=make_version_key)
        if release not in have and not self.locate_draft_manifest(release).is_file():
            raise UsageError(
                f"no release {release!r}: {self.root / 'series'} has {', '.join(have) or 'none'}",
                next_step=f"name one of them; `decouple manifest fill {release} --write` makes the manifest of another",
            )

    def _is_series(self, name: str) -> bool:
        """Whether a file in ``series/`` is a series: named like a release, or beside a manifest of that name."""
        return bool(_RELEASE.fullmatch(name)) or (is_name(name) and self.locate_manifest(name).is_file())

    def find_newest_release(self) -> str:
        """The newest release with a series. Raises UsageError where there is none, DecoupleError as `releases`."""
        have = self.list_releases()
        if not have:
            raise UsageError(f"no series in {self.root / 'series'}", next_step="run in a checkout that has one")
        return have[-1]

    def find_series(self, release: str) -> SeriesPlaces:
        """Where a series is and where its tree goes. Raises UsageError for a release that has none."""
        series = self.locate_series(release)
        if not series.is_file():
            have = ", ".join(self.list_releases()) or "none"
            raise UsageError(f"no series {series}", next_step=f"name one of: {have}")
        return SeriesPlaces(release, series, self.patches, self.locate_tree(release), self.root)
