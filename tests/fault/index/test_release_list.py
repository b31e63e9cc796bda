"""A server that replays what was current once: rightly signed, and no longer what its publisher says."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata

from decouple.base.errors import DecoupleError, UsageError
from decouple.cli import main
from decouple.index import catalog, choose, provenance, release_list, site
from decouple.index.check import check_index
from decouple.index.remote import Index
from tests.support.server import CatchAllServer, FaultyServer, status
from tests.unit.index.test_commands import digest, project
from tests.unit.index.wheels import make_pair

__all__ = ["digest", "project"]  # fixtures

OLD = "torch-2.6.0+decoupled.1-py3-none-any.whl"
NEW = "torch-2.6.0+decoupled.2-py3-none-any.whl"


def publish(folder: Path, name: str, *, revision: int = 1) -> None:
    """Put the next pair, made in the folder of that name, on the site."""
    make_pair(folder / name, revision=revision)
    site.build_site(folder / name, folder / "site")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A site with one pair, signed; the root file that its users were given; the key is ``key``."""
    publish(tmp_path, "dist")
    provenance.make_key(tmp_path / "key")
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    return shutil.copy(tmp_path / "site/tuf/root.json", tmp_path / "root.json")


@pytest.fixture
def server(root: Path, tmp_path: Path) -> Iterator[FaultyServer]:
    with FaultyServer({"/": tmp_path / "site"}) as running:
        yield running


def taken(server: FaultyServer, tmp_path: Path) -> str:
    """The core wheel that a client which knows the root would fetch."""
    index = Index(server.url("/simple/"))
    listed = release_list.read_current_list(index, tmp_path / "root.json", "2.6", tmp_path / "cache")
    index.narrow = lambda page: release_list.narrow_page(page, listed, "2.6")
    (core,) = choose.choose_packages(index, "2.6", choose.detect_machine(), "cpu").packages
    return core.filename


def test_what_is_signed_and_current_is_taken(server: FaultyServer, tmp_path: Path) -> None:
    assert taken(server, tmp_path) == OLD
    publish(tmp_path, "next", revision=2)
    with pytest.raises(DecoupleError, match="was signed"):
        taken(server, tmp_path)
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    assert taken(server, tmp_path) == NEW


@pytest.mark.parametrize("days", [0, 99_999_999])
def test_a_list_ends_on_a_day_that_there_is(root: Path, tmp_path: Path, days: int) -> None:
    with pytest.raises(UsageError, match=f"--days {days}: at"):
        release_list.sign_lists(tmp_path / "site", tmp_path / "key", days=days)


def test_the_index_of_one_cuda_names_the_one_that_the_list_is_beside(root: Path, tmp_path: Path) -> None:
    """The publisher was suspected."""
    beside = Index(str(tmp_path / "site/cu124/simple"))
    with pytest.raises(DecoupleError, match="no signed list") as failed:
        release_list.read_current_list(beside, root, "2.6", tmp_path / "cache")
    assert "SITE/simple/" in str(failed.value.next_step)


def test_a_list_is_read_where_a_server_has_a_page_for_every_address(root: Path, tmp_path: Path) -> None:
    """The page was taken for the next root."""
    with CatchAllServer({"/": tmp_path / "site"}) as server:
        assert taken(server, tmp_path) == OLD


def test_a_yank_cannot_be_taken_back_by_the_server(server: FaultyServer, tmp_path: Path) -> None:
    """The replay: the pages and the list of before the yank, every signature right."""
    publish(tmp_path, "next", revision=2)
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    shutil.copytree(tmp_path / "site", tmp_path / "before")
    site.yank_file(tmp_path / "site", NEW, "wrong results")
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    assert taken(server, tmp_path) == OLD
    shutil.rmtree(tmp_path / "site")
    shutil.copytree(tmp_path / "before", tmp_path / "site")
    with pytest.raises(DecoupleError, match="BadVersionNumberError"):
        taken(server, tmp_path)


def test_a_yank_that_only_the_pages_forget(server: FaultyServer, tmp_path: Path) -> None:
    publish(tmp_path, "next", revision=2)
    shutil.copytree(tmp_path / "site/simple", tmp_path / "pages")
    site.yank_file(tmp_path / "site", NEW, "wrong results")
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    shutil.rmtree(tmp_path / "site/simple")
    shutil.copytree(tmp_path / "pages", tmp_path / "site/simple")
    assert taken(server, tmp_path) == OLD


def test_a_newer_file_that_the_page_hides(server: FaultyServer, tmp_path: Path) -> None:
    pages = shutil.copytree(tmp_path / "site/simple", tmp_path / "pages")
    publish(tmp_path, "next", revision=2)
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    shutil.rmtree(tmp_path / "site/simple")
    shutil.copytree(pages, tmp_path / "site/simple")
    with pytest.raises(DecoupleError, match="hides it"):
        taken(server, tmp_path)


def test_a_page_with_another_hash_and_a_file_on_no_list(server: FaultyServer, tmp_path: Path) -> None:
    page = tmp_path / "site/simple/torch/index.json"
    document = json.loads(page.read_bytes())
    document["files"].append({**document["files"][0], "filename": OLD.replace("decoupled.1", "decoupled.9")})
    page.write_text(json.dumps(document))
    assert taken(server, tmp_path) == OLD  # not the higher version
    document["files"][0]["hashes"] = {"sha256": "a" * 64}
    page.write_text(json.dumps(document))
    with pytest.raises(DecoupleError, match="the signed list"):
        taken(server, tmp_path)


def test_a_list_that_ended(server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Past(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) - timedelta(days=40)

    with monkeypatch.context() as then:
        then.setattr(release_list, "datetime", Past)
        release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    with pytest.raises(DecoupleError, match="expired"):
        taken(server, tmp_path)


def test_another_key_signs_nothing(server: FaultyServer, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "site/tuf")
    provenance.make_key(tmp_path / "stranger")
    release_list.sign_lists(tmp_path / "site", tmp_path / "stranger")
    with pytest.raises(DecoupleError, match="signed"):
        taken(server, tmp_path)


def test_the_roots_key_changes_the_key_of_the_lists(tmp_path: Path) -> None:
    publish(tmp_path, "dist")
    for name in ("root-key", "one", "two"):
        provenance.make_key(tmp_path / name)
    release_list.sign_lists(tmp_path / "site", tmp_path / "one", tmp_path / "root-key")
    shutil.copy(tmp_path / "site/tuf/root.json", tmp_path / "root.json")
    assert release_list.sign_lists(tmp_path / "site", tmp_path / "one")[0] == "tuf/targets.json"  # the root's key rests
    with pytest.raises(UsageError, match="names another key"):
        release_list.sign_lists(tmp_path / "site", tmp_path / "two")
    with pytest.raises(UsageError, match="not the key"):
        release_list.sign_lists(tmp_path / "site", tmp_path / "two", tmp_path / "one")
    release_list.sign_lists(tmp_path / "site", tmp_path / "two", tmp_path / "root-key")
    with FaultyServer({"/": tmp_path / "site"}) as server:
        assert taken(server, tmp_path) == OLD


@pytest.mark.parametrize("name", ["root.json", "timestamp.json", "snapshot.json", "targets.json"])
@pytest.mark.parametrize("data", [b"", b"{}", b"3", b"[" * 100_000, b"\xff" * 100])
def test_a_damaged_list_is_one_line(server: FaultyServer, tmp_path: Path, name: str, data: bytes) -> None:
    if name == "root.json":
        (tmp_path / "root.json").write_bytes(data)
    else:
        (tmp_path / "site/tuf" / name).write_bytes(data)
    with pytest.raises(DecoupleError) as raised:
        taken(server, tmp_path)
    assert "\n" not in raised.value.what or len(raised.value.what) < 2000


def test_the_command_signs_and_wheels_holds_to_it(
    project: Path, digest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    make_pair(tmp_path / "dist", series=digest)
    where = str(tmp_path / "site")
    assert main(["index", "build", str(tmp_path / "dist"), "--site", where]) == 0
    assert main(["index", "key", str(tmp_path / "key")]) == 0
    assert main(["index", "sign-list", "--site", where, "--key", str(tmp_path / "key")]) == 0
    words = ["wheels", "2.6", "--index", where, "--cuda", "cpu", "--dest", str(tmp_path / "out")]
    words += ["--root", str(tmp_path / "site/tuf/root.json")]
    assert main(words) == 0
    assert main(["index", "yank", OLD, "--site", where]) == 0
    assert "sign it again" in capsys.readouterr().out
    assert main(words) == 1
    assert main(["index", "sign-list", "--site", where, "--key", str(tmp_path / "key")]) == 0
    capsys.readouterr()
    assert main(words) == 1
    assert "every file of it was yanked" in capsys.readouterr().err
    assert main(["index", "check", where]) == 0
    assert catalog.read_releases(tmp_path / "site")["2.6"][0].yanked == ""


def test_the_root_is_handed_over_and_clients_of_the_old_one_follow(tmp_path: Path) -> None:
    publish(tmp_path, "dist")
    for name in ("root-key", "next-root-key", "online"):
        provenance.make_key(tmp_path / name)
    keys = {name: tmp_path / name for name in ("root-key", "next-root-key", "online")}
    release_list.sign_lists(tmp_path / "site", keys["online"], keys["root-key"])
    shutil.copy(tmp_path / "site/tuf/root.json", tmp_path / "root.json")
    with FaultyServer({"/": tmp_path / "site"}) as server:
        assert taken(server, tmp_path) == OLD  # a client that remembers the first root
        with pytest.raises(UsageError, match="not the key"):
            release_list.sign_lists(tmp_path / "site", keys["online"], keys["next-root-key"], 30, keys["online"])
        release_list.sign_lists(tmp_path / "site", keys["online"], keys["next-root-key"], 30, keys["root-key"])
        assert taken(server, tmp_path) == OLD
        shutil.rmtree(tmp_path / "cache")  # and one that was given the first root today
        assert taken(server, tmp_path) == OLD
        with pytest.raises(UsageError, match="not the key"):  # the old key is out
            release_list.sign_lists(tmp_path / "site", keys["root-key"], keys["root-key"])
        release_list.sign_lists(
            tmp_path / "site", keys["root-key"], keys["next-root-key"]
        )  # the new one names who signs
        assert taken(server, tmp_path) == OLD


def test_a_server_that_cannot_answer_ends_no_search_for_the_next_root(server: FaultyServer, tmp_path: Path) -> None:
    """An error was taken for the end of the roots, and the old one trusted on."""
    assert taken(server, tmp_path) == OLD
    server.fault("/tuf/2.root.json", status(500), 1)
    with pytest.raises(DecoupleError, match=r"2\.root\.json: the server answers 500") as told:
        taken(server, tmp_path)
    assert told.value.next_step == "try again later, or a mirror"
    assert taken(server, tmp_path) == OLD


def test_a_root_that_only_the_new_key_signed_is_refused(tmp_path: Path) -> None:
    """Whoever holds the site but not the root's key cannot hand it to themselves."""
    publish(tmp_path, "dist")
    for name in ("key", "stranger"):
        provenance.make_key(tmp_path / name)
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    shutil.copy(tmp_path / "site/tuf/root.json", tmp_path / "root.json")
    shutil.copytree(tmp_path / "site", tmp_path / "theirs")
    shutil.rmtree(tmp_path / "theirs/tuf")
    release_list.sign_lists(tmp_path / "theirs", tmp_path / "stranger")
    root = Metadata.from_bytes((tmp_path / "theirs/tuf/root.json").read_bytes())
    root.signed.version = 2
    root.sign(CryptoSigner(provenance.load_private_key(tmp_path / "stranger")))
    root.to_file(str(tmp_path / "theirs/tuf/2.root.json"))
    with (
        FaultyServer({"/": tmp_path / "theirs"}) as server,
        pytest.raises(DecoupleError, match=r"root was signed by 0/1 keys"),
    ):
        taken(server, tmp_path)


def test_check_with_the_root_finds_what_a_client_would_stop_at(root: Path, tmp_path: Path) -> None:
    def faults() -> list[str]:
        index = Index(str(tmp_path / "site/simple"))
        assert check_index(index) == []  # without the root it holds
        return [str(one) for one in check_index(index, root=root)]

    assert faults() == []
    publish(tmp_path, "next", revision=2)
    (told,) = faults()
    assert "signed list of 2.6" in told and "is not the list that was signed" in told
    release_list.sign_lists(tmp_path / "site", tmp_path / "key")
    assert faults() == []
    shutil.rmtree(tmp_path / "site/tuf")
    (told,) = faults()
    assert told.startswith("signed list of 2.6: ")


def test_check_with_the_root_finds_a_project_that_the_index_hides(root: Path, tmp_path: Path) -> None:
    for page, line in (("index.html", r'.*"torch-cuda/".*\n'), ("index.json", r',\s*{\s*"name": "torch-cuda"\s*}')):
        path = tmp_path / "site/simple" / page
        text, count = re.subn(line, "", path.read_text())
        assert count == 1
        path.write_text(text)
    index = Index(str(tmp_path / "site/simple"))
    assert check_index(index) == []
    (told,) = map(str, check_index(index, root=root))
    assert told == "torch-cuda: on the signed list of 2.6, and the index has no page of it"


def test_check_with_the_root_of_an_index_with_nothing_of_ours_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "simple").mkdir()
    for page, text in (
        ("index.html", "<html></html>"),
        ("index.json", '{"meta": {"api-version": "1.1"}, "projects": []}'),
    ):
        (tmp_path / "simple" / page).write_text(text)
    told = [str(one) for one in check_index(Index(str(tmp_path / "simple")), root=tmp_path / "root.json")]
    assert any("no wheel of this project" in one for one in told)
