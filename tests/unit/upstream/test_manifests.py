"""Manifests: what they say, and what is said about a broken one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.release.manifest import derive_release
from decouple.release.manifest_toml import render_manifest
from decouple.upstream.manifests import load_manifest, load_release, parse_manifest
from decouple.upstream.providers.debian import DebianSource
from decouple.upstream.providers.github import GithubSource

PROJECT = find_project()


def test_the_first_release() -> None:
    manifest = load_release(PROJECT, "2.6")
    assert (manifest.version, manifest.tag, manifest.commit[:8]) == ("2.6.0", "v2.6.0", "2236df17")
    assert [source.provider for source in manifest.sources] == ["github", "git", "debian", "wheel"]
    assert (manifest.toolchain.cuda, manifest.toolchain.cudnn, manifest.toolchain.nccl) == (
        "12.4",
        "9.1.0.70",
        "2.21.5",
    )
    assert manifest.toolchain.archs == ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0")


def test_a_hash_that_nobody_published_is_none_and_not_invented() -> None:
    source = load_release(PROJECT, "2.6").find_source("github")
    assert isinstance(source, GithubSource)
    assert (source.archive.size, source.archive.sha256) == (None, None)


def test_debian_archives_have_a_second_place() -> None:
    source = load_release(PROJECT, "2.6").find_source("debian")
    assert isinstance(source, DebianSource)
    for file in (source.dsc, source.orig, source.debian):
        assert [url.split("/")[2] for url in file.urls] == ["deb.debian.org", "snapshot.debian.org"]


@pytest.mark.parametrize("release", Checkout(PROJECT).list_manifest_releases())
def test_every_manifest_reads_back_byte_for_byte(release: str) -> None:
    path = Checkout(PROJECT).locate_manifest(release)
    manifest = load_manifest(path)
    assert render_manifest(manifest) == path.read_text(encoding="utf-8")
    assert parse_manifest(render_manifest(manifest), path) == manifest


@pytest.mark.parametrize("named", ["2.6", "2.6.0", "v2.6.1"])
def test_a_release_can_be_named_by_its_version(named: str) -> None:
    assert derive_release(named) == "2.6"


def test_what_is_no_release_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'la/test'"):
        derive_release("la/test")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('version = "2.6.0"', 'version = "2.7.0"', "version: expected a PEP 440 version of release 2.6"),
        ('release = "2.6"', 'release = "2.7"', "release: expected the file's own name, \"2.6\", got '2.7'"),
        ("schema = 1", "schema = 2", "schema: expected 1 (this program reads no other), found 2"),
        ('commit = "2236df17', 'commit = "XX36df17', "$.commit: Expected `str` matching regex '\\\\A[0-9a-f]{40}"),
        ("size = 27212640", "size = -1", "$.source[2].orig.size: Expected `int` >= 1"),
        ("size = 27212640", "size = true", "$.source[2].orig.size: Expected `int | null`, got `bool`"),
        ('sha256 = "099a', 'sha256 = "99a', "$.source[2].orig.sha256: Expected `str` matching regex"),
        ('provider = "git"', 'provider = "svn"', "source[1].provider: expected one of github, git, debian, wheel"),
        ('suite = "trixie"', 'siute = "trixie"', "$.source[2].siute: no such key (did you mean suite?)"),
        ("gcc = ", "gcc_version = ", "$.toolchain.gcc_version: no such key"),
        ("[toolchain]", '[toolchain]\nrust = "1"', "toolchain.rust: no such key"),
        ("[toolchain]", "[toolchian]", "$.toolchian: no such key (did you mean toolchain?)"),
        ("schema = 1", "schema = 1\nsourec = 1", "sourec: no such key (did you mean source?)"),
        (
            'name = "pytorch-v2.6.0.tar.gz"',
            'name = "../x.tar.gz"',
            "$.source[0].archive.name: Expected `str` matching regex",
        ),
        ('urls = ["https://github', 'urls = ["github', "$.source[0].archive.urls[0]: Expected `str` matching regex"),
        ("schema = 1", "schema = ", "not TOML: Invalid value (at line 5"),
    ],
)
def test_errors_name_file_key_and_what_was_expected(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = Checkout(PROJECT).locate_manifest("2.6").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "2.6.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DecoupleError) as caught:
        load_manifest(path)
    assert str(path) in caught.value.what
    assert said in caught.value.what
    assert "\n" not in caught.value.what
    assert caught.value.next_step


def test_one_provider_once(tmp_path: Path) -> None:
    text = Checkout(PROJECT).locate_manifest("2.6").read_text(encoding="utf-8")
    path = tmp_path / "2.6.toml"
    path.write_text(text.replace("[toolchain]", '[[source]]\nprovider = "git"\nurl = "https://x/y"\n\n[toolchain]'))
    with pytest.raises(DecoupleError, match="'git' is listed twice"):
        load_manifest(path)


@pytest.mark.parametrize(
    ("release", "of"), [("9.9", ""), ("9.9.0rc3", ""), ("acme-9.9", " --tree DIR"), ("2.6rc1", " --tree DIR")]
)
def test_a_release_without_a_manifest_is_told_how_one_is_made(release: str, of: str) -> None:
    """A candidate's is made of upstream's tag; what is read off a tree names no source for others."""
    with pytest.raises(UsageError, match=rf"{re.escape(release)}\.toml: releases with one: .*2\.6, 2\.7") as caught:
        load_release(PROJECT, release)
    assert caught.value.next_step == f"make it with: decouple manifest fill {release} --write{of}"
    with pytest.raises(UsageError) as caught:
        Checkout(PROJECT).check_release(release)
    assert f"`decouple manifest fill {release} --write{of}` makes the manifest" in str(caught.value.next_step)
