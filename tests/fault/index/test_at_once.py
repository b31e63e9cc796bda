"""Two publishers, two users, one place: the second waits, and nothing of the first is lost."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from decouple.index import catalog, get, provenance, release_list, site
from decouple.index.remote import Index
from decouple.upstream.download import Downloader
from tests.support.waiting import hold_and_see
from tests.unit.index.wheels import SERIES_A, make_pair


def test_two_that_publish_different_wheels_at_once_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one has read the list before the quicker one wrote it."""
    make_pair(tmp_path / "one", revision=1)
    make_pair(tmp_path / "two", revision=2)
    read_all, together = catalog.read_releases, threading.Barrier(2, timeout=1)

    def slowly(folder: Path) -> dict[str, tuple[catalog.CatalogEntry, ...]]:
        found = read_all(folder)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()  # both have read before one writes, where nothing keeps them apart
        return found

    monkeypatch.setattr(catalog, "read_releases", slowly)
    runs = [
        threading.Thread(target=site.build_site, args=(tmp_path / name, tmp_path / "site")) for name in ("one", "two")
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert len(read_all(tmp_path / "site")["2.6"]) == 4


def test_four_that_fetch_the_same_wheels_into_one_folder(tmp_path: Path) -> None:
    make_pair(tmp_path / "dist", core_members={"torch/large": os.urandom(8 << 20)})
    site.build_site(tmp_path / "dist", tmp_path / "site")
    index = Index(str(tmp_path / "site/simple"))
    offers = [offer for name in ("torch", "torch-cuda") for offer in index.read_project(name).offers]
    faults: list[Exception] = []

    def fetch() -> None:
        try:
            downloader = Downloader(tmp_path / "cache")
            get.get_wheels(index, offers, tmp_path / "out", get.Trust(SERIES_A), downloader)
        except Exception as error:
            faults.append(error)

    runs = [threading.Thread(target=fetch) for _ in range(4)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert faults == []
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(offer.filename for offer in offers)


@pytest.mark.parametrize("verb", ["yank", "sign"])
def test_what_changes_a_site_waits_for_who_changes_it(tmp_path: Path, verb: str) -> None:
    wheel, _ = make_pair(tmp_path / "dist")
    site.build_site(tmp_path / "dist", tmp_path / "site")
    provenance.make_key(tmp_path / "key")
    work = {
        "yank": lambda: site.yank_file(tmp_path / "site", wheel.name, "broken"),
        "sign": lambda: release_list.sign_lists(tmp_path / "site", tmp_path / "key"),
    }[verb]
    run = threading.Thread(target=work)
    with hold_and_see(tmp_path / "site") as awaited:
        run.start()
        assert awaited.wait(60), "it did not wait"
        assert run.is_alive()
    run.join(30)
    assert not run.is_alive()
