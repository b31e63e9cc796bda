"""``decouple lint`` and ``decouple check`` on the real series and the real 2.6.0 source (fetched once, cached)."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from decouple.base.paths import cache_dir, find_project
from decouple.patch.apply import Tree, apply
from decouple.patch.parse import Patch
from decouple.recipes import moved
from decouple.recipes.model import load_all
from decouple.series import check
from decouple.series.check import Fit
from decouple.series.lint import lint
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.debian import DebianSource
from decouple.upstream.readers import from_archive
from decouple.upstream.source_word import open_named
from tests.support import reference

pytestmark = pytest.mark.real

RELEASE = "2.6"


@functools.cache
def series() -> tuple[Patch, ...]:
    return tuple(check.load(find_project(), RELEASE))


@functools.cache
def orig() -> Path:
    """The .orig archive of Debian's source package: upstream's own files."""
    source = load_release(find_project(), RELEASE).source("debian")
    assert isinstance(source, DebianSource)
    return Downloader(cache_dir()).get(source.orig)[0]


def test_our_own_series_has_no_faults() -> None:
    explained = functools.partial(
        moved.explained, load_all(find_project())
    )  # what a recipe leaves out has its reason there
    assert lint(find_project(), [RELEASE], explained).faults == ()


def test_the_series_is_clean_on_the_release_it_was_cut_for() -> None:
    found = from_archive(orig(), check.wanted(series()), cache_dir())
    verdicts = check.check(series(), found)
    assert [(verdict.patch.name, verdict.status) for verdict in verdicts if verdict.status is not Fit.CLEAN] == []


def test_each_patch_gives_the_files_that_git_apply_gives() -> None:
    """The whole relocation and everything behind it, file by file, byte by byte, mode by mode."""
    tree = Tree(from_archive(orig(), check.wanted(series()), cache_dir()))
    for patch in series():
        before = reference.files_for(patch, tree)
        result = apply(patch, tree)
        theirs = reference.git_apply(patch.text(), before, strip=patch.strip)
        assert theirs.applied and result.applies, f"{patch.name}: {theirs.said}"
        after = {path: file for path, file in {**before, **result.changes}.items() if file is not None}
        assert after == theirs.files, patch.name
        tree.update(result.changes)


def test_the_series_applies_on_debians_patched_tree() -> None:
    opened, debian = open_named(find_project(), RELEASE, "debian", check.wanted(series()), debian_patches=True)
    assert len(debian) == 17
    verdicts = check.check(series(), opened.source, under=debian)
    assert [v.patch.name for v in verdicts if v.status not in (Fit.CLEAN, Fit.OFFSET)] == []


def test_a_wheel_shows_what_it_has_and_says_what_it_lacks() -> None:
    opened, _ = open_named(find_project(), RELEASE, "wheel", check.wanted(series()))
    assert opened.partial
    verdicts = {v.patch.name: v for v in check.check(series(), opened.source, partial=True)}
    python = verdicts["2.6/0003-device-interface-cudac.patch"]
    assert python.status is Fit.CLEAN and not python.unseen
    assert verdicts["2.6/0002-kineto-cupti.patch"].unseen  # its header is there, its CMake is not
    assert verdicts["2.6/0020-setup-decoupled-packages.patch"].status is Fit.UNSEEN
    assert {v.status for v in verdicts.values()} <= {Fit.CLEAN, Fit.UNSEEN}
