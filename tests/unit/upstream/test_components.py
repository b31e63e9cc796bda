"""Third-party code from packages: what an archive's folder becomes, what a row says, and what cannot be right."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.upstream import components, tree_record
from decouple.upstream.components import Component, ComponentList
from decouple.upstream.deb import open_data
from decouple.upstream.download import Downloader
from tests.support.server import FaultyServer

PROJECT = Path(__file__).parents[3]


def tarball(*names: str) -> bytes:
    """A compressed tar archive whose files hold their own names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    return buffer.getvalue()


class Archive:
    """A server that offers archives, and the components in them."""

    def __init__(self, server: FaultyServer) -> None:
        self.server = server

    def component(self, folder: str, data: bytes, **more: object) -> Component:
        """The component in ``folder``, of an archive with these bytes."""
        name = f"{folder.replace('/', '-')}.tar.xz"
        self.server.files[f"/{name}"] = data
        given = {"version": "1.0", "pin": "not known", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        return Component(folder=folder, name=name, urls=(self.server.url(f"/{name}"),), **{**given, **more})  # type: ignore[arg-type]


@pytest.fixture
def archive(http_server: FaultyServer) -> Archive:
    """An empty one."""
    return Archive(http_server)


def listed(*found: Component) -> ComponentList:
    """A list of them."""
    return ComponentList("2.6", found)


def test_each_archive_fills_its_folder(archive: Archive, downloader: Downloader) -> None:
    inner = archive.component("pipe/third_party/uv", tarball("uv-1/src/uv.c"))
    outer = archive.component("pipe", tarball("pipe-1/pipe.c", "pipe-1/tests/large.bin"), without=("tests",))
    part = archive.component("fft", tarball("debian/fft-9d3/fft.h", "debian/other/x"), part="fft-9d3")
    flat = archive.component("gloo", tarball("CMakeLists.txt", "gloo/gloo.cc"), top=0)
    made = components.ensure_components(
        listed(inner, outer, part, flat), downloader
    )  # an inner one may be listed first
    files = sorted(path.relative_to(made.path).as_posix() for path in made.path.rglob("*") if path.is_file())
    assert files == [
        "fft/fft.h",
        "gloo/CMakeLists.txt",
        "gloo/gloo/gloo.cc",
        "pipe/pipe.c",
        "pipe/third_party/uv/src/uv.c",
    ]
    assert made.list_folders() == ["fft", "gloo", "pipe"]


def test_a_second_call_asks_nobody(archive: Archive, downloader: Downloader) -> None:
    one = listed(archive.component("fmt", tarball("fmt-1/fmt.h")))
    first = components.ensure_components(one, downloader)
    asked = len(archive.server.requests)
    assert components.ensure_components(one, downloader) == first
    assert len(archive.server.requests) == asked


def test_other_bytes_are_another_build(archive: Archive, downloader: Downloader) -> None:
    first = components.ensure_components(listed(archive.component("fmt", tarball("fmt-1/fmt.h"))), downloader)
    second = components.ensure_components(listed(archive.component("fmt", tarball("fmt-1/other.h"))), downloader)
    assert first.digest != second.digest
    assert (first.path / "fmt/fmt.h").exists() and (second.path / "fmt/other.h").exists()


def test_a_licence_that_was_read_makes_no_other_build(archive: Archive, downloader: Downloader) -> None:
    one = archive.component("fmt", tarball("fmt-1/fmt.h"))
    first = components.ensure_components(listed(one), downloader)
    second = components.ensure_components(listed(replace(one, licence="MIT")), downloader)
    assert (first.digest, first.path) == (second.digest, second.path)
    assert [row["licence"] for made in (first, second) for row in made.rows] == ["", "MIT"]


@pytest.mark.parametrize(
    ("version", "pin", "differs"),
    [
        ("0.0~git20231202.5354032", "5354032ea08eadd7fc4456477f7f7c6308818509", False),
        ("0.0~git20241108.4ea82e5", "51a0103656eff6fc9bfd39a4597923c4b542c883", True),
        ("10.1.1+ds1", "not known", "not known"),
    ],
)
def test_a_row_says_whether_the_pin_differs(version: str, pin: str, differs: object) -> None:
    row = Component("x", version, pin, "x.tar.xz", ("https://e.org/x",), 1, "0" * 64).make_row()
    assert (row["version"], row["pin"], row["differs"]) == (version, pin, differs)


def test_a_part_that_is_not_there_leaves_nothing(archive: Archive, downloader: Downloader) -> None:
    wrong = listed(archive.component("fft", tarball("debian/fft-1/fft.h"), part="fft-2"))
    with pytest.raises(DecoupleError, match="'fft-2'"):
        components.ensure_components(wrong, downloader)
    assert not [path for path in (downloader.cache / "components").iterdir() if path.is_dir()]


def test_what_another_component_brings_is_not_hidden(archive: Archive, downloader: Downloader) -> None:
    outer = archive.component("pipe", tarball("pipe-1/uv/own.c"))
    inner = archive.component("pipe/uv", tarball("uv-1/uv.c"))
    with pytest.raises(DecoupleError, match="pipe/uv"):
        components.ensure_components(listed(outer, inner), downloader)


def test_a_folder_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "fmt").mkdir()
    (tmp_path / "fmt/fmt.h").write_text("1")
    first = components.open_folder(tmp_path)
    assert [row["folder"] for row in first.rows] == ["fmt"]
    (tmp_path / "fmt/fmt.h").write_text("2")
    assert components.open_folder(tmp_path).digest != first.digest


def test_a_folder_with_nothing_in_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder with components"):
        components.open_folder(tmp_path)


def test_the_list_we_ship() -> None:
    shipped = components.load_components(PROJECT, "2.6")
    folders = [component.folder for component in shipped.components]
    assert len(set(folders)) == len(folders)
    assert {"XNNPACK", "onnx", "protobuf", "ideep", "ideep/mkl-dnn", "pybind11", "kineto"} <= set(folders)
    assert all(len(component.sha256) == 64 and component.urls for component in shipped.components)
    assert {one.switch for one in shipped.absent} == {"USE_FBGEMM", "USE_NNPACK", "USE_ITT"}


def test_a_release_that_nobody_listed() -> None:
    with pytest.raises(DecoupleError, match=r"9\.9\.toml"):
        components.load_components(PROJECT, "9.9")


def test_the_files_of_a_binary_package(tmp_path: Path) -> None:
    (tmp_path / "p/DEBIAN").mkdir(parents=True)
    (tmp_path / "p/DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    )
    (tmp_path / "p/usr").mkdir()
    (tmp_path / "p/usr/x.h").write_text("int x;")
    subprocess.run(["dpkg-deb", "-b", "--root-owner-group", "-Zxz", "p", "x.deb"], cwd=tmp_path, check=True)
    with open_data(tmp_path / "x.deb", tmp_path / "scratch") as found, tarfile.open(found) as files:
        assert "./usr/x.h" in files.getnames()
    assert not (tmp_path / "scratch").exists()
    whole = (tmp_path / "x.deb").read_bytes()
    (tmp_path / "x.deb").write_bytes(whole[:-100])
    with pytest.raises(DecoupleError, match="ends early"), open_data(tmp_path / "x.deb", tmp_path / "scratch"):
        pass
    (tmp_path / "x.deb").write_bytes(b"no archive")
    with pytest.raises(DecoupleError, match="is no ar archive"), open_data(tmp_path / "x.deb", tmp_path / "scratch"):
        pass


@pytest.mark.parametrize("record", ["as it was", "made anew by another", "none"])
def test_what_was_changed_in_the_cache_is_not_built(
    archive: Archive, tmp_path: Path, record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    wanted, downloader = listed(archive.component("a", tarball("x/a.c"))), Downloader(tmp_path / "cache")
    found = components.ensure_components(wanted, downloader)
    (found.path / "a/a.c").write_text("evil")
    if record == "made anew by another":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
        tree_record.record_files(found.path.parent)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    elif record == "none":
        (found.path.parent / tree_record.RECORD).unlink()
    with pytest.raises(DecoupleError, match=r"a\.c: "):
        components.ensure_components(wanted, downloader)
    shutil.rmtree(found.path.parent)
    assert (components.ensure_components(wanted, downloader).path / "a/a.c").read_text() == "x/a.c"
