"""A small download that wants to become a large memory, and a server that sends a byte now and then."""

from __future__ import annotations

import io
import json
import lzma
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base import transfer_rate
from decouple.base.errors import DecoupleError
from decouple.index.remote import Index
from decouple.release.manifest import RemoteFile
from decouple.upstream import pypi, readers
from decouple.upstream.archive import HEADER_BOUND
from decouple.upstream.download import Downloader
from decouple.upstream.unpack import unpack_tar as unpack
from tests.support.server import FaultyServer

LARGE = 3 << 30


def header(kind: bytes, size: int, name: str = "x/y") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def plain(name: str, data: bytes = b"text\n") -> bytes:
    return header(tarfile.REGTYPE, len(data), name) + data.ljust(512, b"\0")


def pax(records: bytes) -> bytes:
    padded = records.ljust(-(-len(records) // 512) * 512, b"\0")
    return header(tarfile.XHDTYPE, len(records)) + padded


BOMBS = {
    "a long name of GNU's": header(tarfile.GNUTYPE_LONGNAME, LARGE),
    "a long link of GNU's": header(tarfile.GNUTYPE_LONGLINK, LARGE),
    "an extended header": header(tarfile.XHDTYPE, LARGE),
    "a global header": header(tarfile.XGLTYPE, LARGE),
    "one of Solaris": header(tarfile.SOLARIS_XHDTYPE, LARGE),
    "a sparse file": header(tarfile.GNUTYPE_SPARSE, 512),
    "a sparse map": pax(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"),
    "headers without end": header(tarfile.GNUTYPE_LONGNAME, 5) * 5000,
    "a negative size": header(tarfile.XHDTYPE, -512),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("packed", [".tar", ".tar.xz"])
def test_what_stands_before_a_member_has_a_bound(tmp_path: Path, bomb: str, packed: str) -> None:
    archive = tmp_path / f"source{packed}"
    data = plain("top/a") + BOMBS[bomb] + b"\0" * 4096 + plain("top/b")
    archive.write_bytes(lzma.compress(data) if packed.endswith("xz") else data)
    with pytest.raises(DecoupleError):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(DecoupleError):
        readers.read_archive(archive, ["top/a", "a"], None)


def test_three_gigabytes_of_name_in_half_a_megabyte_take_neither_memory_nor_time(tmp_path: Path) -> None:
    archive = tmp_path / "source.tar.xz"
    packer = lzma.LZMACompressor(preset=0)
    with archive.open("wb") as out:
        out.write(packer.compress(plain("top/a") + header(tarfile.GNUTYPE_LONGNAME, LARGE)))
        for _ in range(64):  # as many as the test has patience for; the reader must stop at the header
            out.write(packer.compress(bytes(1 << 20)))
        out.write(packer.flush())
    code = "; ".join(
        (
            "import resource, sys",
            "resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))",
            "from pathlib import Path",
            "from decouple.upstream.unpack import unpack_tar",
            "unpack_tar(Path(sys.argv[1]), Path(sys.argv[2]))",
        )
    )
    command = [sys.executable, "-c", code, str(archive), str(tmp_path / "out")]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "a name or header of 3221225472 bytes" in done.stderr and "MemoryError" not in done.stderr
    assert time.monotonic() - began < 30


def test_long_names_of_real_trees_pass(tmp_path: Path) -> None:
    archive = tmp_path / "source.tar"
    for shape in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(archive, "w", format=shape) as tar:
            for name in ("top/" + "d/" * 60 + "file", "top/" + "x" * 200, "top/ümlaut"):
                info = tarfile.TarInfo(name)
                info.size = 1
                tar.addfile(info, io.BytesIO(b"x"))
        out = tmp_path / f"out{shape}"
        unpack(archive, out)
        assert sum(path.is_file() for path in out.rglob("*")) == 3
    assert HEADER_BOUND > 4096


class Dripping:
    """A server that answers anything with ``head`` and then one byte every ``pause`` seconds."""

    def __init__(self, head: bytes, pause: float) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._head, self._pause, self._over = head, pause, threading.Event()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/simple/"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._drip, args=(client,), daemon=True).start()

    def _drip(self, client: socket.socket) -> None:
        try:
            client.recv(65536)
            client.sendall(self._head)
            while not self._over.wait(self._pause):
                client.sendall(b"a")
        except OSError:
            pass
        client.close()

    def close(self) -> None:
        self._over.set()
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for somebody; closing alone does not
        self._thread.join()
        self._socket.close()


@pytest.fixture(params=["in the head", "in the body", "in the body of no length"])
def dripping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dripping]:
    for module in ("decouple.base.transfer_rate", "decouple.index.remote", "decouple.upstream.download"):
        monkeypatch.setattr(f"{module}.HEAD_SECONDS", 1.0)
    monkeypatch.setattr(transfer_rate, "GRACE_SECONDS", 1.0)
    head = {
        "in the head": b"HTTP/1.1 200 OK\r\nX-A: ",
        "in the body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        "in the body of no length": b"HTTP/1.1 200 OK\r\n\r\n",
    }
    server = Dripping(head[request.param], 0.1)
    yield server
    server.close()


def test_a_page_that_drips_is_given_up(dripping: Dripping) -> None:
    began = time.monotonic()
    with pytest.raises(DecoupleError, match="too slow"):
        Index(dripping.url).read_project("torch")
    assert time.monotonic() - began < 10


def test_a_download_that_drips_is_given_up(dripping: Dripping, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(DecoupleError, match="too slow"):
        Downloader(tmp_path, attempts=2, first_wait=0.01).fetch_file(RemoteFile("a.bin", (dripping.url,), None, None))
    assert time.monotonic() - began < 10


def test_pypis_page_that_drips_is_given_up(dripping: Dripping, tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="too slow"):
        pypi.list_wheels("torch", Downloader(tmp_path, attempts=2, first_wait=0.01), dripping.url.rstrip("/"))


def test_a_slow_line_is_not_a_dripping_server() -> None:
    now = [0.0]
    counted = transfer_rate.RateMeter(lambda: now[0])
    for _ in range(1000):
        now[0] += 10.0
        counted.count_bytes(15_000)
    now[0] += 100 * transfer_rate.GRACE_SECONDS * transfer_rate.FLOOR
    with pytest.raises(transfer_rate.SlowServerError):
        counted.count_bytes(1)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"3",
        b'{"files": 3}',
        b'{"files": [3]}',
        b'{"files": [{"url": 3}]}',
        b'{"files": [{"url": "http://[::1/x.whl"}]}',
        b'{"files": [{"url": "x.whl", "hashes": 3}]}',
        b"\xff\xfe",
        b'{"files": "' + b"9" * 5000,
    ],
)
def test_pypis_page_of_wrong_types_is_one_line(tmp_path: Path, body: bytes) -> None:
    with FaultyServer({"/torch/": body}) as server:
        from tests.support.server import status

        server.fault("/torch/", status(200, body, Content_Type="application/vnd.pypi.simple.v1+json"))
        with pytest.raises(DecoupleError):
            pypi.list_wheels("torch", Downloader(tmp_path, attempts=1), server.base)


@pytest.mark.parametrize(
    "row",
    [
        {"url": "file:///etc/torch-2.6.0-py3-none-any.whl"},
        {"url": f"torch-2.6.{'1' * 5000}-py3-none-any.whl"},
        {"url": "torch-2.6.0-py3-none-any.whl", "hashes": {"sha256": "../../x"}},
        {"url": "torch-2.6.0-py3-none-any.whl", "size": "3"},
    ],
    ids=str,
)
def test_pypis_page_names_no_path_either(row: dict[str, object]) -> None:
    assert pypi._parse_json(json.dumps({"files": [row]}), "https://pypi.org/simple/torch/") == []


def test_a_zip_of_more_members_than_any_source_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zipfile

    from decouple.base import zips
    from decouple.upstream import readers

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as store:
        for number in range(12):
            store.writestr(f"top/{number}", b"x")
    monkeypatch.setattr(zips, "MEMBER_BOUND", 12)
    assert len(readers.read_archive(tmp_path / "a.zip", (), None).list_paths()) == 12
    monkeypatch.setattr(zips, "MEMBER_BOUND", 11)
    with pytest.raises(DecoupleError, match=r"1[12] members"):
        readers.read_archive(tmp_path / "a.zip", (), None)
