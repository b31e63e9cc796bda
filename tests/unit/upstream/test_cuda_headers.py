"""The headers of a release's CUDA, by range out of the wheels that it pins and those that compiling needs."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.release.manifest import Toolchain
from decouple.upstream.cuda_headers import fetch_headers
from decouple.upstream.download import Downloader
from tests.support.server import FaultyServer

INSIDE = "nvidia/made_up/include/made_up.h"
X86 = "py3-none-manylinux2014_x86_64"
LIBRARY = 1 << 20


def wheel_with(name: str, header: bytes | None, requires: str = "", recorded: bytes | None = None) -> bytes:
    """A wheel of NVIDIA's with one header, and a library that nobody fetches."""
    members = {} if header is None else {INSIDE: header}
    members["nvidia/made_up/lib/libmade_up.so"] = bytes(LIBRARY)
    members[f"{name}.dist-info/METADATA"] = f"Metadata-Version: 2.1\n{requires}".encode()
    record = ""
    for member, data in members.items():
        told = recorded if recorded is not None and member == INSIDE else data
        digest = base64.urlsafe_b64encode(hashlib.sha256(told).digest()).rstrip(b"=").decode()
        record += f"{member},sha256={digest},{len(data)}\n"
    with zipfile.ZipFile(out := io.BytesIO(), "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{name}.dist-info/RECORD", record)
    return out.getvalue()


def offer(server: FaultyServer, project: str, wheels: Mapping[str, bytes]) -> None:
    """Let the index list wheels of ``project``: the end of a name, its content."""
    name, links = project.replace("-", "_"), ""
    for end, data in wheels.items():
        server.files[f"/files/{name}-{end}.whl"] = data
        links += f'<a href="{server.url(f"/files/{name}-{end}.whl")}">{name}-{end}.whl</a>\n'
    server.files[f"/simple/{project}/"] = links.encode()


def made_for(cuda: str | None, *pins: str) -> Toolchain:
    return Toolchain(python=("3.12",), cuda=cuda, libraries=pins, gcc=None, cuda_max_gcc=None)


def test_what_is_pinned_and_what_compiling_needs_of_the_same_cuda(http_server: FaultyServer, tmp_path: Path) -> None:
    pinned = wheel_with("nvidia_nccl_cu12-2.26.2", b"int nccl;\n")
    offer(http_server, "nvidia-nccl-cu12", {f"2.26.2-{X86}": pinned, f"2.27.0-{X86}": b"another version"})
    for name in ("cuda-nvcc", "cuda-cccl", "nvml-dev", "cuda-profiler-api"):
        newest = wheel_with(f"nvidia_{name.replace('-', '_')}_cu12-12.6.85", b"int needed;\n")
        offered = {f"12.6.20-{X86}": b"an older one", f"12.6.85-{X86}": newest, f"12.8.1-{X86}": b"another CUDA"}
        offer(http_server, f"nvidia-{name}-cu12", offered | {"12.6.99-py3-none-win_amd64": b"another system"})
    toolchain = made_for("12.6", "nvidia-nccl-cu12==2.26.2", "cuda-bindings==12.9.4")
    index = http_server.url("/simple")
    found = fetch_headers(toolchain, tmp_path, Downloader(tmp_path), index=index)
    assert [folder.name for folder in found] == [
        "nvidia-nccl-cu12-2.26.2",
        "nvidia-cuda-nvcc-cu12-12.6.85",
        "nvidia-cuda-cccl-cu12-12.6.85",
        "nvidia-nvml-dev-cu12-12.6.85",
        "nvidia-cuda-profiler-api-cu12-12.6.85",
    ]
    assert (found[0] / INSIDE).read_bytes() == b"int nccl;\n"
    assert not list(tmp_path.rglob("*.so")), "a library has gigabytes"
    before = len(http_server.requests)
    assert fetch_headers(toolchain, tmp_path, Downloader(tmp_path), index=index) == found
    assert not any(request.range for request in http_server.requests[before:]), "they are in the cache"


def test_from_cuda_13_one_wheel_pins_the_others(http_server: FaultyServer, tmp_path: Path) -> None:
    requires = (
        "Requires-Dist: nvidia-cuda-runtime==13.0.96.*; sys_platform == 'linux' and extra == 'all'\n"
        "Requires-Dist: nvidia-cudla==13.0.1.*; platform_machine == 'aarch64' and extra == 'all'\n"
        "Requires-Dist: nvidia-cuda-runtime==13.0.96.*; sys_platform == 'linux' and extra == 'cudart'\n"
    )
    toolkit = {"13.0.2-py2.py3-none-any": wheel_with("cuda_toolkit-13.0.2", None, requires)}
    offer(http_server, "cuda-toolkit", toolkit)
    offer(
        http_server, "nvidia-cuda-runtime", {f"13.0.96-{X86}": wheel_with("nvidia_cuda_runtime-13.0.96", b"int rt;\n")}
    )
    found = fetch_headers(
        made_for("13.0", "cuda-toolkit==13.0.2"), tmp_path, Downloader(tmp_path), index=http_server.url("/simple")
    )
    assert [folder.name for folder in found] == ["nvidia-cuda-runtime-13.0.96"]


def test_a_header_that_is_not_what_the_record_says_is_not_kept(http_server: FaultyServer, tmp_path: Path) -> None:
    forged = wheel_with("nvidia_nccl_cu12-2.26.2", b"int forged;\n", recorded=b"int honest;\n")
    offer(http_server, "nvidia-nccl-cu12", {f"2.26.2-{X86}": forged})
    toolchain = made_for("12.6", "nvidia-nccl-cu12==2.26.2")
    for _ in range(2):
        with pytest.raises(DecoupleError, match=r"made_up\.h.*RECORD"):
            fetch_headers(toolchain, tmp_path, Downloader(tmp_path), index=http_server.url("/simple"))


def test_no_cuda_and_no_such_wheel_are_told(http_server: FaultyServer, tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="names no CUDA"):
        fetch_headers(made_for(None), tmp_path, Downloader(tmp_path))
    offer(http_server, "nvidia-nccl-cu12", {"2.26.2-py3-none-manylinux_2_27_aarch64": b"another machine"})
    with pytest.raises(DecoupleError, match="nvidia-nccl-cu12==2"):
        fetch_headers(
            made_for("12.6", "nvidia-nccl-cu12==2.26.2"),
            tmp_path,
            Downloader(tmp_path),
            index=http_server.url("/simple"),
        )
