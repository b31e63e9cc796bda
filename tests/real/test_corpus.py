"""Patches that other people wrote: ours, GNU patch -F0 and git apply must make the same of every one.

The packages are fetched once from Debian (``corpus.toml``); without a network and without a filled cache the tests fail
with the URL that could not be had.
"""

from __future__ import annotations

import functools

import pytest

from decouple.base.paths import find_cache, find_project
from decouple.upstream import dsc as control
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.debian import DebianSource
from decouple.upstream.readers import read_archive
from tests.real import corpus
from tests.real.corpus import Package, Row

pytestmark = pytest.mark.real

#: (package, patch) -> why ours and git apply refuse what GNU patch takes
REFUSED = {
    # "--- id3lib-3.8.3.orig//ChangeLog": to GNU patch "//" is one separator; to git, and so to us, what is left after
    # stripping one component is the absolute path /ChangeLog
    ("id3lib3.8.3", "60-spelling.patch"): "is absolute",
}


@functools.cache
def judged(name: str) -> tuple[Row, ...]:
    """All rows of one package, or of pytorch itself."""
    if name != "pytorch":
        return tuple(corpus.rows(next(package for package in corpus.packages() if package.name == name)))
    source = load_release(find_project(), "2.6").find_source("debian")
    assert isinstance(source, DebianSource)
    downloader = Downloader(find_cache())
    series = corpus.series_of(downloader.fetch_file(source.debian)[0])
    wanted = {path for patch in series for path in patch.touched_paths}
    archive = read_archive(downloader.fetch_file(source.orig)[0], wanted, find_cache())
    return tuple(corpus.judge("pytorch", series, archive))


NAMES = ["pytorch", *(package.name for package in corpus.packages())]


@pytest.mark.parametrize("name", NAMES)
def test_three_appliers_agree_on_every_patch(name: str) -> None:
    rows = judged(name)
    assert rows
    for row in rows:
        why = REFUSED.get((row.package, row.patch)) if not row.variant else None
        assert row.same_as_git, f"{row.patch} {row.variant}: git apply makes something else of it ({row.why})"
        assert row.back_again, f"{row.patch} {row.variant}: the reverse does not give back what there was"
        if why:
            assert not row.ours and why in row.why, f"{row.patch} is no longer refused: take it off the list"
        elif not row.variant:
            assert row.ours, f"{row.patch}: {row.why}"
            assert row.same_as_gnu, f"{row.patch}: GNU patch makes something else of it"


@pytest.mark.parametrize("package", corpus.packages(), ids=lambda package: package.name)
def test_the_dsc_confirms_our_hashes(package: Package) -> None:
    dsc, _, _ = corpus.fetch(package)
    fields = next(control.parse_paragraphs(control.remove_signature(dsc.read_text(encoding="utf-8"))))
    listed = control.parse_source_files(fields, dsc.name)
    for file in (package.orig, package.debian):
        assert (listed[file.name].size, listed[file.name].sha256) == (file.size, file.sha256)
    assert fields["version"] == package.version


def test_every_habit_is_in_the_corpus() -> None:
    """The corpus is worth what is in it: each habit at least once, in a real patch or in a variant of one."""
    rows = [row for name in NAMES for row in judged(name)]
    real = {word for row in rows if not row.variant for word in row.traits.split()}
    assert {"git", "Index:", "CRLF", "no-newline", "new", "deleted", "header"} <= real
    derived = {word for row in rows if row.variant and row.ours for word in row.traits.split()}
    assert {"-p0", "rename", "mode"} <= derived, "no Debian package at hand has these; they are made from real hunks"
    assert len({row.package for row in rows}) > 6
