"""Reading a wheel by HTTP range."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.providers.wheel import make_source_path
from decouple.upstream.remote_zip import RemoteZip, merge_ranges
from tests.support import server as http
from tests.support.releases import COMMIT, WheelSource, manifest, remote, wheel_of
from tests.support.server import FaultyServer

PATH = "/torch-2.6.0-cp312-cp312-manylinux1_x86_64.whl"
BINARY = random.Random(6).randbytes(12 << 20)  # does not compress
FILES = {
    "functorch/__init__.py": b"import torch\n" * 50,
    "torch/lib/libtorch_cuda.so": BINARY,
    "torch/__init__.py": b"import os\n" * 50,
    "torch/include/c10/cuda/CUDAStream.h": b"#pragma once\n",
    "torch/include/ATen/ops/add.h": b"// generated\n",
    "torch/include/torch/csrc/api/include/torch/all.h": b"//\n",
    "torch/model": b"text at first\0not later",
}
WHEEL = wheel_of(FILES)


@pytest.fixture
def server(http_server: FaultyServer) -> FaultyServer:
    http_server.files[PATH] = WHEEL
    return http_server


def test_only_the_text_is_transferred(server: FaultyServer, downloader: Downloader) -> None:
    source = WheelSource(remote(server.url(PATH), WHEEL))
    fetched = fetch_source(manifest(source), "wheel", cache=downloader.cache, downloader=downloader)
    found = {str(path.relative_to(fetched.path)) for path in fetched.path.rglob("*") if path.is_file()}
    assert found == {
        "functorch/__init__.py",
        "torch/__init__.py",
        "c10/cuda/CUDAStream.h",
        "torch/csrc/api/include/torch/all.h",
    }
    assert fetched.kind == "python"
    assert len(server.requests) == 2  # the end of the file; what lies before the library
    assert fetch_source(manifest(source), "wheel", cache=downloader.cache).path == fetched.path
    assert len(server.requests) == 2


def test_a_server_without_ranges_does_not_get_to_send_everything(server: FaultyServer, downloader: Downloader) -> None:
    server.fault(PATH, http.range_ignored())
    with pytest.raises(DecoupleError, match="ignores ranges"):
        RemoteZip(remote(server.url(PATH), WHEEL), downloader)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (http.not_found(), "HTTP 404"),
        (http.proxy_page(), "a web page"),
        (http.status(206, b"xx"), "does not say where its bytes belong"),
        (http.status(206, b"xx", Content_Range="bytes 5-6/7"), "the file has 7 bytes"),
        (http.truncated(10), "the connection ended"),
    ],
)
def test_answers_of_no_use(server: FaultyServer, downloader: Downloader, fault: http.Fault, said: str) -> None:
    server.fault(PATH, fault)
    with pytest.raises(DecoupleError, match=said) as caught:
        RemoteZip(remote(server.url(PATH), WHEEL), downloader)
    assert caught.value.what.startswith("cannot read torch-2.6.0-cp312-cp312-manylinux1_x86_64.whl by range")


def test_a_range_that_broke_off_is_asked_for_again(server: FaultyServer, downloader: Downloader) -> None:
    server.fault(PATH, http.truncated(1000), times=1)
    assert (
        RemoteZip(remote(server.url(PATH), WHEEL), downloader).read("torch/__init__.py") == FILES["torch/__init__.py"]
    )


def test_what_is_no_zip_file(server: FaultyServer, downloader: Downloader) -> None:
    server.files[PATH] = b"PK but no zip" * 100
    with pytest.raises(DecoupleError, match="no zip file"):
        RemoteZip(remote(server.url(PATH)), downloader)


def test_a_zip_file_without_a_member(server: FaultyServer, downloader: Downloader) -> None:
    server.files[PATH] = WHEEL[: WHEEL.index(b"PK\x01\x02")] + b"PK\x05\x06" + bytes(18)
    with pytest.raises(DecoupleError) as told:
        RemoteZip(remote(server.url(PATH)), downloader)
    assert server.url(PATH) in str(told.value)


def test_a_file_that_is_not_what_record_says(server: FaultyServer, downloader: Downloader) -> None:
    honest = wheel_of({"torch/a.py": b"honest\n"})
    forged = wheel_of({"torch/a.py": b"forged\n"})
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(honest)) as one, zipfile.ZipFile(io.BytesIO(forged)) as other:
        with zipfile.ZipFile(out, "w") as mixed:
            for name in one.namelist():
                mixed.writestr(name, (other if name == "torch/a.py" else one).read(name))
    server.files[PATH] = out.getvalue()
    source = WheelSource(remote(server.url(PATH), out.getvalue()))
    with pytest.raises(DecoupleError, match=r"torch/a\.py.*RECORD"):
        fetch_source(manifest(source), "wheel", cache=downloader.cache, downloader=downloader)
    assert not list(downloader.cache.glob("trees/*/wheel*"))


def test_a_wheel_of_another_commit(server: FaultyServer, downloader: Downloader) -> None:
    source = WheelSource(remote(server.url(PATH), WHEEL))
    with pytest.raises(DecoupleError, match=f"{COMMIT}.*0000"):
        fetch_source(manifest(source, commit="0" * 40), "wheel", cache=downloader.cache, downloader=downloader)


def test_a_hostile_member(server: FaultyServer, downloader: Downloader, tmp_path: Path) -> None:
    server.files[PATH] = wheel_of({"../../evil.py": b"x"})
    source = WheelSource(remote(server.url(PATH), server.files[PATH]))
    with pytest.raises(DecoupleError, match="refused: entry"):
        fetch_source(manifest(source), "wheel", cache=downloader.cache, downloader=downloader)
    assert not list(tmp_path.rglob("evil.py"))


@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("torch/nn/__init__.py", "torch/nn/__init__.py"),
        ("torch/include/ATen/Tensor.h", "aten/src/ATen/Tensor.h"),
        ("torch/include/torch/csrc/Module.h", "torch/csrc/Module.h"),
        ("torch/include/ATen/ops/add.h", None),
        ("torch/version.py", None),
        ("torch-2.6.0.dist-info/METADATA", None),
    ],
)
def test_headers_go_back_to_where_they_came_from(member: str, path: str | None) -> None:
    assert make_source_path(member) == path


def test_ranges_with_little_between_them_are_one() -> None:
    assert merge_ranges([(100, 110), (0, 10), (12, 20)], gap=5) == [(0, 20), (100, 110)]
    assert merge_ranges([(0, 50), (10, 20)], gap=5) == [(0, 50)]
