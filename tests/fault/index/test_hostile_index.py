"""An index that wants to write elsewhere, to hang the reader, or to pass another project's wheel for the one asked."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from decouple.base.errors import DecoupleError
from decouple.cli import main
from decouple.index.check import check_index
from decouple.index.remote import Index
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader
from tests.support.server import FaultyServer, status
from tests.unit.index.test_commands import digest, project
from tests.unit.index.wheels import make_pair, make_wheel

__all__ = ["digest", "project"]  # fixtures

NAME = "torch-2.6.0+decoupled.1-py3-none-any.whl"


class Hostile(FaultyServer):
    """A server whose pages a test writes itself; every wheel is at ``/w/NAME`` with its true hash."""

    def offer(self, wheel: Path, page_of: str = "torch", **changed: Any) -> None:
        """Offer ``wheel`` on the JSON page of a project; ``changed`` replaces keys of its row (None: drops)."""
        data = wheel.read_bytes()
        self.files[f"/w/{wheel.name}"] = data
        row: dict[str, Any] = {
            "filename": wheel.name,
            "url": f"/w/{wheel.name.replace('+', '%2B')}",
            "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
            "size": len(data),
            "core-metadata": True,
        } | changed
        path = f"/simple/{page_of}/index.json"
        old = self.files.get(path)
        files = json.loads(old)["files"] if isinstance(old, bytes) else []
        body = {"meta": {"api-version": "1.1"}, "name": page_of, "files": [*files, row]}
        self.files[path] = json.dumps(body).encode()
        anchors = "".join(
            f'<a href="{r["url"]}#sha256={r["hashes"]["sha256"]}">{r["filename"]}</a>' for r in body["files"]
        )
        self.files[f"/simple/{page_of}/"] = f"<!DOCTYPE html><html><body>{anchors}</body></html>".encode()
        front = {"meta": {"api-version": "1.1"}, "projects": [{"name": page_of}]}
        self.files["/simple/index.json"] = json.dumps(front).encode()


@pytest.fixture
def server() -> Iterator[Hostile]:
    with Hostile() as running:
        yield running


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of a person's, at the place a hostile page names."""
    path = tmp_path / "victim" / "diary.txt"
    path.parent.mkdir()
    path.write_text("dear diary\n")
    return path


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def wheels_command(server: FaultyServer, *more: str) -> int:
    return main(["wheels", "2.6", "--index", server.url("/simple/"), "--cuda", "cpu", "--trust-index", *more])


def test_check_does_not_write_to_a_path_that_the_server_names(
    server: Hostile, victim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1")
    server.offer(wheel, filename=str(victim))
    server.offer(wheel, filename=f"../../../../../..{victim}")
    assert main(["index", "check", server.url("/simple/")]) == 1
    assert victim.read_text() == "dear diary\n"
    assert "not a wheel's file name" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        "torch-2.6.0-1/../../../../victim/x-py3-none-any.whl",
        "torch-2.6.0-1\\x-py3-none-any.whl",
        "torch-2.6.0-1\x00x-py3-none-any.whl",
        "torch-2.6.0-1\x1b[2J-py3-none-any.whl",
        f"torch-2.6.{'1' * 5000}-py3-none-any.whl",
        f"torch-2.6.{'1' * 150}-py3-none-any.whl",
        "torch-2.6.0-py3-none-any.whl\n",
        "",
        ".whl",
    ],
)
def test_a_build_tag_or_name_that_is_no_name_is_not_looked_at(
    server: Hostile, project: Path, victim: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.offer(make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1"), filename=name)
    before = tree(tmp_path / "victim")
    assert wheels_command(server, "--dest", str(tmp_path / "out")) == 1
    assert tree(tmp_path / "victim") == before and not (tmp_path / "out").exists()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("digest_of", ["../../../victim", "/tmp", "a" * 63, "g" * 64, "a" * 63 + "\n", ""])
def test_a_hash_names_no_folder_of_its_own_choice(
    server: Hostile, project: Path, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest_of: str
) -> None:
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache/of/ours"))
    server.offer(make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1"), hashes={"sha256": digest_of})
    assert wheels_command(server, "--dest", str(tmp_path / "out")) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["dist", "project", "victim"]
    assert not (tmp_path / "cache/of/ours/downloads").exists()
    assert tree(tmp_path / "victim") == {"diary.txt": b"dear diary\n"}


@pytest.mark.parametrize(
    "file",
    [
        RemoteFile("../x", ("http://127.0.0.1:9/x",), None, None),
        RemoteFile("x/y", ("http://127.0.0.1:9/x",), None, None),
        RemoteFile("..", ("http://127.0.0.1:9/x",), None, None),
        RemoteFile(".lock", ("http://127.0.0.1:9/x",), None, None),
        RemoteFile("x", ("http://127.0.0.1:9/x",), None, "../../x"),
        RemoteFile("x", ("http://127.0.0.1:9/x",), None, "A" * 64),
    ],
    ids=lambda file: f"{file.name}, {file.sha256 and file.sha256[:8]}",
)
def test_no_download_leaves_the_cache_whoever_named_it(file: RemoteFile, tmp_path: Path) -> None:
    """A ``.dsc``, PyPI's JSON and a manifest name files as well."""
    with pytest.raises(DecoupleError, match=r"name of a file|SHA-256"):
        Downloader(tmp_path / "cache", attempts=1).fetch_file(file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "link", ["file:///dev/zero", "file:///etc/passwd", "FILE:///dev/zero", "ftp://example.org/x", "x:y"]
)
def test_a_page_on_a_server_links_only_to_servers(
    server: Hostile, project: Path, tmp_path: Path, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.offer(make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1"), url=link)
    assert wheels_command(server) == 1
    assert "only http and https" in capsys.readouterr().err
    assert main(["index", "check", server.url("/simple/")]) == 1
    assert "only http and https" in capsys.readouterr().out


def test_a_base_element_does_not_open_the_disk(server: Hostile, project: Path, tmp_path: Path) -> None:
    server.offer(make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1"))
    page = (
        f'<html><head><base href="file:///"></head><body><a href="dev/zero#sha256={"a" * 64}">{NAME}</a></body></html>'
    )
    server.files["/simple/torch/"] = page.encode()
    del server.files["/simple/torch/index.json"]
    assert wheels_command(server) == 1
    (refused,) = Index(server.url("/simple/")).read_project("torch").refused
    assert "only http and https" in refused.why


def test_a_fifo_a_socket_and_a_device_in_a_folder_are_not_waited_for(tmp_path: Path) -> None:
    for name in ("torch", "torch-cuda", "zero"):
        (tmp_path / "simple" / name).mkdir(parents=True)
    front = {"meta": {"api-version": "1.1"}, "projects": [{"name": n} for n in ("torch", "torch-cuda", "zero")]}
    (tmp_path / "simple/index.json").write_text(json.dumps(front))
    os.mkfifo(tmp_path / "simple/torch/index.json")
    (tmp_path / "simple/zero/index.json").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        with contextlib.chdir(tmp_path / "simple/torch-cuda"):  # a socket's address is short
            listening.bind("index.json")
        faults = check_index(Index(str(tmp_path)))
    assert len(faults) == 3
    assert all("not a regular file" in fault.what or "No such device" in fault.what for fault in faults)


def test_a_page_in_a_folder_links_only_into_its_site(tmp_path: Path) -> None:
    (tmp_path / "site/simple/torch").mkdir(parents=True)
    rows = [
        {"filename": NAME, "url": url, "hashes": {"sha256": "a" * 64}}
        for url in (
            "file:///dev/zero",
            "../../../secret.whl",
            "../../%2e%2e/secret.whl",
            "file://host/x",
            "../../files/x.whl",
        )
    ]
    page = {"meta": {"api-version": "1.0"}, "name": "torch", "files": rows}
    (tmp_path / "site/simple/torch/index.json").write_text(json.dumps(page))
    read = Index(str(tmp_path / "site")).read_project_json("torch")
    assert [offer.url.rsplit("/", 1)[-1] for offer in read.offers] == ["x.whl"]
    assert ["out of the site" in refusal.why for refusal in read.refused] == [True] * 4


def test_another_projects_wheel_is_not_offered_for_torch(
    server: Hostile, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.offer(make_wheel(tmp_path / "dist", "evil", "2.6.0+decoupled.9"), page_of="torch")
    assert wheels_command(server, "--dest", str(tmp_path / "out")) == 1
    assert "a wheel of evil on the page of torch" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../../x", "//evil.example/", "http://evil.example/", "a" * 200, "", "torch\x1b[2J"])
def test_a_front_page_leads_only_to_projects(server: Hostile, name: str) -> None:
    server.files["/simple/index.json"] = json.dumps(
        {"meta": {"api-version": "1.1"}, "projects": [{"name": name}]}
    ).encode()
    (fault,) = check_index(Index(server.url("/simple/")))
    assert "not a normalised name" in fault.what
    assert [request.path for request in server.requests] == ["/simple/index.json"]


def test_a_bad_json_page_is_named_and_not_the_404_of_the_html_page(server: Hostile) -> None:
    server.files["/simple/torch/index.json"] = b"{"
    with pytest.raises(DecoupleError, match=r"torch/index\.json"):
        Index(server.url("/simple/")).read_project("torch")


def test_markup_that_the_parser_rejects_is_no_page(server: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(self: HTMLParser, data: str) -> None:
        raise AssertionError("unknown status keyword in marked section")

    monkeypatch.setattr(HTMLParser, "feed", give_up)
    server.files["/simple/torch/"] = b"<html><body><a href='x.whl'>x.whl</a>"
    with pytest.raises(DecoupleError, match="torch/: not a page"):
        Index(server.url("/simple/")).read_project("torch")


def test_a_marked_section_without_a_name_offers_nothing(server: Hostile) -> None:
    """Found by the hostile bench: html.parser gave up on it; later Pythons (3.13.5) pass over it."""
    server.files["/simple/torch/"] = b'<html><body><![]-- href="" href="" x="">'
    try:
        offers = Index(server.url("/simple/")).read_project("torch").offers
    except DecoupleError as error:
        assert "torch/: not a page" in error.what
    else:
        assert offers == ()


@pytest.mark.filterwarnings("error")
def test_a_page_of_a_later_minor_version_is_read_without_a_word(server: Hostile) -> None:
    page = {"meta": {"api-version": "1.99"}, "name": "torch", "files": [], "versions": []}
    server.files["/simple/torch/index.json"] = json.dumps(page).encode()
    assert Index(server.url("/simple/")).read_project("torch").offers == ()


@pytest.mark.parametrize("address", ["http://[::1", "http://[", "ftp://example.org/simple/", "http://"])
def test_an_address_that_is_none_is_one_line(address: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "check", address]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_page_sent_compressed_in_a_way_not_asked_for_is_refused(server: Hostile) -> None:
    server.fault("/simple/torch/index.json", status(200, b"x", Content_Encoding="zstd"))
    with pytest.raises(DecoupleError, match="sends it as zstd"):
        Index(server.url("/simple/")).read_project("torch")


def test_what_our_own_publisher_writes_passes_these_checks_whole(tmp_path: Path) -> None:
    from decouple.index import site

    make_pair(tmp_path / "dist")
    site.build_site(tmp_path / "dist", tmp_path / "site")
    for name in ("torch", "torch-cuda"):
        for page in (
            Index(str(tmp_path / "site")).read_project_json(name),
            Index(str(tmp_path / "site")).read_project_html(name),
        ):
            assert len(page.offers) == 1 and page.refused == ()


def test_a_page_of_odd_bytes_says_nothing_behind_our_back(tmp_path: Path) -> None:
    """The HTML parser logs what it could not decode; without a handler Python prints that on the terminal."""
    folder = tmp_path / "simple/torch"
    folder.mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<html><body><a href='x'>\xff\xfe\xfa</a>" + bytes(range(128, 256)))
    code = f"from decouple.index.remote import Index; Index({str(tmp_path / 'simple')!r}).read_project_html('torch')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "REPLACEMENT CHARACTER" not in done.stderr
