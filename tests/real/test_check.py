"""``decouple lint`` and ``decouple check`` on the real series and the real 2.6.0 source (fetched once, cached)."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from decouple.base.paths import find_cache, find_project
from decouple.patch.apply import Tree, apply_patch
from decouple.patch.parse import Patch
from decouple.recipes.model import is_explained, load_recipes
from decouple.series import check
from decouple.series.check import Fit
from decouple.series.lint import lint_series
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.upstream.named_sources import open_named_source
from decouple.upstream.providers.debian import DebianSource
from decouple.upstream.readers import read_archive
from tests.support import reference

pytestmark = pytest.mark.real

RELEASE = "2.6"


@functools.cache
def series() -> tuple[Patch, ...]:
    return tuple(check.load_series(find_project(), RELEASE))


@functools.cache
def orig() -> Path:
    """The .orig archive of Debian's source package: upstream's own files."""
    source = load_release(find_project(), RELEASE).find_source("debian")
    assert isinstance(source, DebianSource)
    return Downloader(find_cache()).fetch_file(source.orig)[0]


def test_our_own_series_has_no_faults() -> None:
    explained = functools.partial(
        is_explained, load_recipes(find_project())
    )  # what a recipe leaves out has its reason there
    assert lint_series(find_project(), [RELEASE], explained).faults == ()


def test_the_series_is_clean_on_the_release_it_was_cut_for() -> None:
    found = read_archive(orig(), check.list_wanted_paths(series()), find_cache())
    verdicts = check.check_series(series(), found)
    assert [(verdict.patch.name, verdict.status) for verdict in verdicts if verdict.status is not Fit.CLEAN] == []


def test_each_patch_gives_the_files_that_git_apply_gives() -> None:
    """The whole relocation and everything behind it, file by file, byte by byte, mode by mode."""
    tree = Tree(read_archive(orig(), check.list_wanted_paths(series()), find_cache()))
    for patch in series():
        before = reference.files_for(patch, tree)
        result = apply_patch(patch, tree)
        theirs = reference.git_apply(patch.to_text(), before, strip=patch.strip)
        assert theirs.applied and result.applies, f"{patch.name}: {theirs.said}"
        after = {path: file for path, file in {**before, **result.changes}.items() if file is not None}
        assert after == theirs.files, patch.name
        tree.update(result.changes)


def test_the_series_applies_on_debians_patched_tree() -> None:
    opened, debian = open_named_source(
        find_project(), RELEASE, "debian", check.list_wanted_paths(series()), debian_patches=True
    )
    assert len(debian) == 17
    verdicts = check.check_series(series(), opened.source, under=debian)
    assert [v.patch.name for v in verdicts if v.status not in (Fit.CLEAN, Fit.OFFSET)] == []


def test_a_wheel_shows_what_it_has_and_says_what_it_lacks() -> None:
    opened, _ = open_named_source(find_project(), RELEASE, "wheel", check.list_wanted_paths(series()))
    assert opened.partial
    verdicts = {v.patch.name: v for v in check.check_series(series(), opened.source, partial=True)}
    python = verdicts["2.6/0003-device-interface-cudac.patch"]
    assert python.status is Fit.CLEAN and not python.unseen
    assert verdicts["2.6/0002-kineto-cupti.patch"].unseen  # its header is there, its CMake is not
    assert verdicts["2.6/0020-setup-decoupled-packages.patch"].status is Fit.UNSEEN
    assert {v.status for v in verdicts.values()} <= {Fit.CLEAN, Fit.UNSEEN}
