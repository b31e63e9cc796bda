"""Pages of other servers as they are: moved, answered with a page of the server's own, listed by Apache. pip and uv are
asked what they take from the same address."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.cli import main
from decouple.index.choose import Machine, choose_packages, detect_machine
from decouple.index.remote import Index
from decouple.upstream import pypi
from decouple.upstream.download import Downloader
from tests.support.server import Fault, FaultyServer, range_ignored, redirected, status
from tests.unit.index.test_commands import digest, project
from tests.unit.index.wheels import make_wheel

__all__ = ["digest", "project"]  # fixtures

VERSION = "2.6.0+decoupled.1"
FOUND = b"<!DOCTYPE html><html><body><h1>Nothing here</h1><a href='/'>home</a></body></html>"
Take = Callable[[str], str]


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as running:
        yield running


def plain(server: FaultyServer) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return kept | {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}


@pytest.fixture(params=["decouple", "pip", "uv"])
def take(request: pytest.FixtureRequest, server: FaultyServer, project: Path, tmp_path: Path) -> Take:
    """The file that one of them takes for torch from ``simple/`` of an address."""
    out = tmp_path / "taken"

    def ours(base: str) -> str:
        words = ["wheels", "2.6", "--index", base, "--cuda", "cpu", "--trust-index", "--dest", str(out)]
        assert main(words) == 0
        return next(out.glob("*.whl")).name

    def pips(base: str) -> str:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "-d", str(out)]
        done = subprocess.run(
            [*command, "--index-url", base, "torch"], capture_output=True, text=True, env=plain(server)
        )
        assert done.returncode == 0, done.stderr
        return next(out.glob("*.whl")).name

    def uvs(base: str) -> str:
        command = [sys.executable, "-m", "uv", "pip", "install", "--no-cache", "--no-deps", "--target", str(out), "-v"]
        done = subprocess.run(
            [*command, "--index-url", base, "torch"], capture_output=True, text=True, env=plain(server)
        )
        assert done.returncode == 0, done.stderr
        return next(word for word in done.stderr.replace("(", " ").split() if word.startswith("torch-2.6"))

    return {"decouple": ours, "pip": pips, "uv": uvs}[request.param]


def put(server: FaultyServer, wheel: Path, at: str) -> dict[str, object]:
    """Serve ``wheel`` in folder ``at``; its row of a JSON page there."""
    data = wheel.read_bytes()
    server.files[at + wheel.name] = data
    return {
        "filename": wheel.name,
        "url": wheel.name.replace("+", "%2B"),
        "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
        "size": len(data),
    }


def page(*rows: dict[str, object]) -> bytes:
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "torch", "versions": [], "files": rows}).encode()


def listing(*rows: dict[str, object], text: Callable[[str], str] = str) -> bytes:
    """An HTML page; the text of a link is what ``text`` makes of the name."""
    links = "".join(
        f'<a href="{row["url"]}#sha256={row["hashes"]["sha256"]}">{text(str(row["filename"]))}</a>'  # type: ignore[index]
        for row in rows
    )
    return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


def test_of_two_builds_of_a_version_the_greater_number_is_taken(
    server: FaultyServer, tmp_path: Path, take: Take
) -> None:
    rows = [
        put(server, make_wheel(tmp_path / (build or "0"), "torch", VERSION, build=build), "/simple/torch/")
        for build in ("2", "10", "")
    ]
    server.files["/simple/torch/index.json"] = page(*rows)
    server.fault("/simple/torch/", status(200, listing(*rows), Content_Type="text/html"))
    assert take(server.url("/simple/")).startswith(f"torch-{VERSION}-10-")


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_links_of_a_page_that_moved_are_of_where_it_is_now(
    server: FaultyServer, tmp_path: Path, code: int, take: Take
) -> None:
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/repository/pypi/torch/")
    server.files["/repository/pypi/torch/index.json"] = page(row)
    server.fault("/repository/pypi/torch/", status(200, listing(row), Content_Type="text/html"))
    for name in ("", "index.json"):
        to = server.url(f"/repository/pypi/torch/{name}")
        server.fault(f"/simple/torch/{name}", status(code, b"", Location=to))
    assert take(server.url("/simple/")).startswith(f"torch-{VERSION}-py3")


def test_without_the_network_the_links_of_a_page_that_moved_are_as_they_were(
    server: FaultyServer, tmp_path: Path
) -> None:
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/moved/torch/")
    server.files["/moved/torch/index.json"] = page(row)
    server.fault("/simple/torch/index.json", redirected("/moved/torch/index.json"))
    online = Index(server.url("/simple/"), cache=tmp_path / "cache").read_project("torch")
    offline = Index(server.url("/simple/"), cache=tmp_path / "cache", offline=True).read_project("torch")
    assert offline == online
    assert offline.offers[0].url.startswith(server.url("/moved/torch/"))


def test_a_page_that_moved_still_leads_only_to_servers(server: FaultyServer, tmp_path: Path) -> None:
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/moved/torch/")
    server.files["/moved/torch/index.json"] = page({**row, "url": "file:///etc/passwd"})
    server.fault("/simple/torch/index.json", redirected("/moved/torch/index.json"))
    (refused,) = Index(server.url("/simple/")).read_project("torch").refused
    assert "only http and https" in refused.why


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://example.org/x", "gopher:x", "http://[::1", "///"])
def test_a_page_that_moved_to_nowhere_is_one_line(server: FaultyServer, to: str) -> None:
    server.fault("/simple/torch/index.json", redirected(to))
    server.fault("/simple/torch/", redirected(to))
    with pytest.raises(DecoupleError, match="simple/torch"):
        Index(server.url("/simple/")).read_project("torch")


def test_a_page_that_left_encryption_is_not_read(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is on the way could have written it, and the digests in it."""
    import requests

    server.files["/simple/torch/index.json"] = page()
    index = Index("https://index.example/simple/")
    real = requests.Session.get

    def moved(session: requests.Session, url: str, **more: object) -> requests.Response:
        reply = real(session, server.url("/simple/torch/index.json"), **more)  # type: ignore[arg-type]
        first = requests.Response()
        first.url, first.status_code = url, 302
        reply.history = [first]
        return reply

    monkeypatch.setattr(requests.Session, "get", moved)
    with pytest.raises(DecoupleError, match="without encryption"):
        index.read_project("torch")


def test_a_server_that_answers_every_address_with_a_page(server: FaultyServer, tmp_path: Path, take: Take) -> None:
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/")
    server.fault("/simple/torch/", status(200, listing(row), Content_Type="text/html"))
    server.fault("/simple/torch/index.json", status(200, FOUND, Content_Type="text/html"))
    assert take(server.url("/simple/")).startswith(f"torch-{VERSION}-py3")


def test_a_page_for_a_project_that_is_not_there_is_told(
    server: FaultyServer, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("", "index.json"):
        server.fault(f"/simple/torch/{name}", status(200, FOUND, Content_Type="text/html"))
    assert main(["wheels", "2.6", "--index", server.url("/simple/"), "--cuda", "cpu"]) == 1
    assert "the index has no release of it" in capsys.readouterr().err


def test_json_that_is_broken_is_named_although_there_is_a_page(server: FaultyServer, tmp_path: Path) -> None:
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/")
    server.files["/simple/torch/"], server.files["/simple/torch/index.json"] = listing(row), page(row)[:-20]
    with pytest.raises(DecoupleError, match=r"index\.json"):
        Index(server.url("/simple/")).read_project("torch")


def in_fragment(row: dict[str, object], fragment: str) -> dict[str, object]:
    sha256 = row["hashes"]["sha256"]  # type: ignore[index]
    return {**row, "hashes": {}, "url": f"{row['url']}#{fragment.format(sha256)}"}


def test_the_digest_may_stand_in_the_address(server: FaultyServer, tmp_path: Path, take: Take) -> None:
    row = in_fragment(put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/"), "sha256={}")
    server.files["/simple/torch/index.json"] = page(row)
    anchor = f'<html><body><a href="{row["url"]}">{row["filename"]}</a></body></html>'.encode()
    server.fault("/simple/torch/", status(200, anchor, Content_Type="text/html"))
    assert take(server.url("/simple/")).startswith(f"torch-{VERSION}-py3")


@pytest.mark.parametrize("kind", ["json", "html"])
@pytest.mark.parametrize("fragment", ["sha256={}&egg=torch", "egg=torch&sha256={}"])
def test_the_digest_may_stand_there_among_others(
    server: FaultyServer, tmp_path: Path, fragment: str, kind: str
) -> None:
    row = in_fragment(put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/"), fragment)
    if kind == "json":
        server.files["/simple/torch/index.json"] = page(row)
    server.files["/simple/torch/"] = f'<html><body><a href="{row["url"]}">{row["filename"]}</a></body></html>'.encode()
    (offer,) = Index(server.url("/simple/")).read_project("torch").offers
    assert row["url"] == f"{offer.url.rpartition('/')[2]}#{fragment.format(offer.sha256)}"


def test_what_lies_beside_a_file_has_an_address_without_its_fragment(server: FaultyServer, tmp_path: Path) -> None:
    row = in_fragment(put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/"), "sha256={}")
    server.files["/simple/torch/index.json"] = page(row)
    (offer,) = Index(server.url("/simple/")).read_project("torch").offers
    assert "#" not in offer.url
    assert offer.make_sibling_address(".metadata") == offer.url + ".metadata"


def test_two_digests_that_differ_are_none(server: FaultyServer, tmp_path: Path) -> None:
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/")
    server.files["/simple/torch/index.json"] = page({**row, "url": f"{row['url']}#sha256={'b' * 64}"})
    (refused,) = Index(server.url("/simple/")).read_project("torch").refused
    assert "two sha256" in refused.why


def test_a_listing_that_cuts_long_names_short(server: FaultyServer, tmp_path: Path, take: Take) -> None:
    """Apache's mod_autoindex and nginx's do: the name is the one in the address."""
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/")
    cut = listing(row, text=lambda name: f"{name[:20]}..&gt;")
    server.fault("/simple/torch/", status(200, cut, Content_Type="text/html"))
    assert take(server.url("/simple/")).startswith(f"torch-{VERSION}-py3")


@pytest.mark.parametrize("wrong", [{"hashes": {"sha256": "no"}}, {"size": -1}, {"requires-python": "?"}])
def test_a_row_that_is_refused_is_told_where_another_is_taken(
    server: FaultyServer, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, object]
) -> None:
    old = put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/")
    new = put(server, make_wheel(tmp_path, "torch", "2.6.0+decoupled.2"), "/simple/torch/")
    source = {**old, "filename": "torch-2.6.0.tar.gz", "url": "torch-2.6.0.tar.gz"}
    server.files["/simple/torch/index.json"] = page(old, {**new, **wrong}, source)
    assert main(["wheels", "2.6", "--index", server.url("/simple/"), "--cuda", "cpu", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert VERSION in shown.out
    (line,) = [line for line in shown.err.splitlines() if "refused" in line]
    assert "torch-2.6.0+decoupled.2" in line and "1 of its wheels" in line


def test_a_row_that_is_refused_is_told_where_nothing_fits(server: FaultyServer, tmp_path: Path) -> None:
    other = put(server, make_wheel(tmp_path, "torch", VERSION, tag="cp38-cp38-linux_x86_64"), "/simple/torch/")
    mine = put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/")
    server.files["/simple/torch/index.json"] = page(other, {**mine, "hashes": {"sha256": "no"}})
    own = detect_machine("3.11")
    with pytest.raises(DecoupleError, match="1 of its wheels"):
        choose_packages(Index(server.url("/simple/")), "2.6", Machine(own.python, own.tags, None), "cpu")


@pytest.mark.parametrize("kind", ["json", "html"])
def test_the_index_that_manifests_are_filled_from_is_read_alike(
    server: FaultyServer, tmp_path: Path, kind: str
) -> None:
    row = put(server, make_wheel(tmp_path, "torch", VERSION), "/moved/torch/")
    json_row = in_fragment(row, "sha256={}")
    body, said = (
        (page(json_row), "application/vnd.pypi.simple.v1+json") if kind == "json" else (listing(row), "text/html")
    )
    server.fault("/simple/torch/", redirected("/moved/torch/"))
    server.fault("/moved/torch/", status(200, body, Content_Type=said))
    (found,) = pypi.list_wheels("torch", Downloader(tmp_path / "cache"), server.url("/simple"))
    assert found.file.urls == (server.url(f"/moved/torch/{row['url']}"),)
    assert (found.file.name, found.file.sha256) == (row["filename"], row["hashes"]["sha256"])  # type: ignore[index]


def pair_of(server: FaultyServer, folder: Path, at: str = "/simple/") -> None:
    """A core and the torch-cuda that pins it, on pages that know nothing of what is in them."""
    core = make_wheel(folder, "torch", VERSION)
    backend = make_wheel(folder, "torch-cuda", "2.6.0+cu124", cuda="12.4", requires=(f"torch=={VERSION}",))
    for wheel, name in ((core, "torch"), (backend, "torch-cuda")):
        served = server.files[f"{at}{name}/"] = listing(put(server, wheel, f"{at}{name}/"))
        server.fault(f"{at}{name}/", status(200, served, Content_Type="text/html"))


def test_a_listing_without_metadata_is_read_in_the_wheels(server: FaultyServer, tmp_path: Path) -> None:
    """As servers have it that know of no METADATA beside a file: of the wheel just that is asked for."""
    pair_of(server, tmp_path)
    found = choose_packages(
        Index(server.url("/simple/"), cache=tmp_path / "cache"), "2.6", detect_machine("3.13"), "cu124"
    )
    assert [one.project for one in found.packages] == ["torch", "torch-cuda"]
    assert [one.range for one in server.requests if one.path.endswith(".whl")] != []
    assert all(one.range for one in server.requests if one.path.endswith(".whl"))


@pytest.mark.parametrize("answer", [status(404), status(200, FOUND, Content_Type="text/html")], ids=["none", "a page"])
def test_what_answers_for_the_metadata_is_none(server: FaultyServer, tmp_path: Path, answer: Fault) -> None:
    pair_of(server, tmp_path)
    for name in [name for name in server.files if name.endswith(".whl")]:
        server.fault(f"{name}.metadata", answer)
    found = choose_packages(
        Index(server.url("/simple/"), cache=tmp_path / "cache"), "2.6", detect_machine("3.13"), "cu124"
    )
    assert len(found.packages) == 2


def test_a_server_without_metadata_and_ranges_is_told(server: FaultyServer, tmp_path: Path) -> None:
    pair_of(server, tmp_path)
    for name in [name for name in server.files if name.endswith(".whl")]:
        server.fault(name, range_ignored())
    with pytest.raises(DecoupleError, match="ignores ranges") as refused:
        choose_packages(Index(server.url("/simple/"), cache=tmp_path / "cache"), "2.6", detect_machine("3.13"), "cu124")
    assert "--index FOLDER" in str(refused.value.next_step)


def test_a_folder_without_metadata_is_read_in_the_wheels(server: FaultyServer, tmp_path: Path) -> None:
    pair_of(server, tmp_path)
    for name, data in server.files.items():
        path = tmp_path / "site" / (f"{name}index.html" if name.endswith("/") else name).lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.read_bytes())
    found = choose_packages(Index(str(tmp_path / "site")), "2.6", detect_machine("3.13"), "cu124")
    assert [one.project for one in found.packages] == ["torch", "torch-cuda"]


def test_a_free_threaded_python_gets_what_is_for_it(server: FaultyServer, tmp_path: Path) -> None:
    tags = ("cp313-cp313-linux_x86_64", "cp313-cp313t-linux_x86_64")
    rows = [put(server, make_wheel(tmp_path, "torch", VERSION, tag=tag), "/simple/torch/") for tag in tags]
    server.files["/simple/torch/index.json"] = page(*rows)
    for python, tag in (("3.13", tags[0]), ("3.13t", tags[1])):
        (taken,) = choose_packages(Index(server.url("/simple/")), "2.6", detect_machine(python), "cpu").packages
        assert taken.filename.endswith(f"{tag}.whl")
