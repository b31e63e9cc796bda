"""What is read for a manifest: Debian's control files and the simple index of PyPI."""

from __future__ import annotations

import json
import lzma
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.upstream import debian_index, dsc, manifest_facts, pypi
from decouple.upstream.download import Downloader
from decouple.upstream.providers import github
from decouple.upstream.providers.context import ReleaseFacts
from decouple.upstream.providers.github import GithubSource
from decouple.upstream.providers.wheel import WheelSource
from tests.support import server as http
from tests.support.releases import COMMIT, manifest, remote, wheel_of
from tests.support.server import FaultyServer
from tests.support.tools import leave_test, require_tool

SIGNED = """\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Source: pytorch
Version: 2.6.0+dfsg-7
Build-Depends: cmake,
 python3
Checksums-Sha256:
 {} 10 a.orig.tar.xz
 {} 20 a.debian.tar.xz
- -----not a header

-----BEGIN PGP SIGNATURE-----

iQJFBAEBCgAv
-----END PGP SIGNATURE-----
""".format("a" * 64, "b" * 64)


def test_a_signed_control_file() -> None:
    fields = next(dsc.parse_paragraphs(dsc.remove_signature(SIGNED)))
    assert (fields["source"], fields["version"]) == ("pytorch", "2.6.0+dfsg-7")
    assert fields["build-depends"] == "cmake,\npython3"
    files = dsc.parse_source_files(fields, "x.dsc")
    assert [(file.name, file.size) for file in files.values()] == [("a.orig.tar.xz", 10), ("a.debian.tar.xz", 20)]


_A = "a" * 64


@pytest.mark.parametrize(
    "line",
    [
        "abc 10 name",
        f"{_A} ten name",
        f"{_A} 10",
        f"{_A} ² name",
        pytest.param(f"{_A} {'9' * 5000} name", id="5000 digits"),
    ],
)
def test_a_line_that_is_no_checksum(line: str) -> None:
    with pytest.raises(DecoupleError, match=r"x\.dsc: "):
        dsc.parse_source_files({"checksums-sha256": line}, "x.dsc")


def test_a_control_file_without_checksums() -> None:
    with pytest.raises(DecoupleError, match="no list of SHA-256 sums"):
        dsc.parse_source_files({}, "x.dsc")


@pytest.mark.tools("gpgv")
def test_a_paragraph_that_names_two_packages_is_not_the_one_that_was_asked_for(tmp_path: Path) -> None:
    paragraph = "Package: pytorch\nVersion: 2.6.0-7\nPackage: other\nDirectory: pool/o\n\n"
    (tmp_path / "Sources.xz").write_bytes(lzma.compress(paragraph.encode()))
    assert debian_index.find_paragraph(tmp_path / "Sources.xz", "pytorch", "2.6.0") is None


def test_a_forged_index_is_refused() -> None:
    if not debian_index.KEYRING.is_file():
        leave_test("no keyring of Debian's archive here: apt-get install debian-archive-keyring")
    with pytest.raises(DecoupleError, match=r"signature.*InRelease"):
        debian_index.check_signature(SIGNED)


@pytest.fixture
def sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Signs a text inline with a key made here, the one that the archive's keyring then holds."""
    require_tool("gpg", "gpgv")
    with tempfile.TemporaryDirectory(prefix="gpg") as home:  # gpg-agent's socket wants a short path
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]

        def run(*words: str, stdin: str = "") -> bytes:
            return subprocess.run([*gpg, *words], input=stdin.encode(), capture_output=True, check=True).stdout

        run("--quick-generate-key", "archive@example.org", "ed25519", "sign", "never")
        (tmp_path / "archive.gpg").write_bytes(run("--export"))
        monkeypatch.setattr(debian_index, "KEYRING", tmp_path / "archive.gpg")
        yield lambda text: run("--clearsign", stdin=text).decode()
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)


def test_only_what_is_signed_is_read(sign: Callable[[str], str]) -> None:
    """gpgv passes over text around the signed block, and takes a space behind the block's first line as part of it; a
    parser that is stricter than gpgv finds no block there and would read the forged list."""
    real = f"Suite: sid\nSHA256:\n {'a' * 64} 10 main/source/Sources.xz\n- dash\n"
    signed = sign(real)
    assert debian_index.check_signature(signed) == (real, "signed by Debian's archive key")
    forged = f"SHA256:\n {'b' * 64} 10 main/source/Sources.xz\n\n"
    for around in (
        forged + signed,
        signed + forged,
        forged + signed.replace("MESSAGE-----\n", "MESSAGE----- \n"),
        forged.replace("\n\n", "\r\n\r\n") + signed.replace("MESSAGE-----\n", "MESSAGE-----\r\n"),
    ):
        assert debian_index.check_signature(around)[0] == real


def test_a_second_signed_text_is_refused(sign: Callable[[str], str]) -> None:
    with pytest.raises(DecoupleError, match=r"signature.*InRelease"):
        debian_index.check_signature(sign("SHA256:\n") + sign("SHA256:\n"))


HTML = """<!DOCTYPE html><body>
<a href="../files/torch-2.6.0-cp312-cp312-manylinux1_x86_64.whl#sha256={}">x</a>
<a href="/files/torch-2.6.1-cp313-cp313t-win_amd64.whl" data-yanked="broken">x</a>
<a href="torch-2.6.0.tar.gz">source</a></body>""".format("c" * 64)

JSON = {
    "files": [
        {
            "url": "../files/torch-2.6.0-cp312-cp312-manylinux1_x86_64.whl",
            "hashes": {"sha256": "c" * 64},
            "yanked": False,
        },
        {"url": "/files/torch-2.6.1-cp313-cp313t-win_amd64.whl", "hashes": {}, "yanked": "broken"},
        {"url": "torch-2.6.0.tar.gz", "hashes": {}},
    ]
}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", HTML.encode()),
        ("application/vnd.pypi.simple.v1+html", HTML.encode()),
        ("application/vnd.pypi.simple.v1+json", json.dumps(JSON).encode()),
    ],
)
def test_both_forms_of_the_index(http_server: FaultyServer, downloader: Downloader, kind: str, body: bytes) -> None:
    http_server.fault("/simple/torch/", http.status(200, body, Content_Type=kind))
    found = pypi.list_wheels("torch", downloader, http_server.url("/simple"))
    assert [(str(wheel.version), wheel.yanked) for wheel in found] == [("2.6.0", False), ("2.6.1", True)]
    assert found[0].file.urls == (http_server.url("/simple/files/torch-2.6.0-cp312-cp312-manylinux1_x86_64.whl"),)
    assert found[0].file.sha256 == "c" * 64 and found[1].file.sha256 is None


def test_a_proxy_page_instead_of_the_index(http_server: FaultyServer, downloader: Downloader) -> None:
    http_server.fault("/simple/torch/", http.proxy_page())
    with pytest.raises(DecoupleError, match="lists no wheel"):
        pypi.list_wheels("torch", downloader, http_server.url("/simple"))


def test_no_such_project(http_server: FaultyServer, downloader: Downloader) -> None:
    with pytest.raises(DecoupleError, match="/simple/none/: HTTP 404"):
        pypi.list_wheels("none", downloader, http_server.url("/simple"))


METADATA = """\
Metadata-Version: 2.1
Name: torch
Requires-Dist: filelock
Requires-Dist: nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == "Linux"
Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"
Requires-Dist: cuda-bindings<14,>=13.0.3; platform_system == "Linux"
"""


def test_only_exact_pins_of_cuda_are_facts() -> None:
    assert manifest_facts.parse_cuda_pins(METADATA.encode()) == ("cuda-toolkit==13.0.2", "nvidia-cudnn-cu12==9.1.0.70")


def linux_wheels(server: FaultyServer, tags: Iterable[str], data: bytes) -> str:
    """Serve an index with one wheel of torch 2.6.0 per tag; returns its HTML."""
    links = []
    for tag in tags:
        name = f"torch-2.6.0-{tag}-manylinux1_x86_64.whl"
        server.files[f"/files/{name}"] = data
        links.append(f'<a href="/files/{name}">{name}</a>')
    return "\n".join(links)


def test_fill_reads_everything_off_the_files(
    http_server: FaultyServer, downloader: Downloader, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(
        {
            "torch/lib/libc10.so": b"\x7fELF" + b"GCC: (GNU) 9.3.1 20200408 (Red Hat 9.3.1-2)\0",
            "torch-2.6.0.dist-info/METADATA": METADATA.encode(),
            "torch/include/ATen/cuda/CUDAConfig.h": b'"arch=compute_80,code=sm_80;arch=compute_90,code=sm_90"',
        }
    )
    nvcc = wheel_of({"nvidia/cuda_nvcc/include/crt/host_config.h": b"#if __GNUC__ > 13\n"})
    tags = ["cp39-cp39", "3-cp312-cp312", "cp312-cp312", "cp313-cp313t"]  # the third build of one, listed first
    http_server.files |= {
        "/simple/torch/": linux_wheels(http_server, tags, wheel).encode(),
        "/simple/nvidia-cuda-nvcc-cu12/": b"\n".join(
            b'<a href="/files/nvidia_cuda_nvcc_cu12-%s-py3-none-manylinux1_x86_64.whl">x</a>' % version
            for version in (b"12.3.9", b"12.4.131", b"12.8.1")
        ),
        "/files/nvidia_cuda_nvcc_cu12-12.4.131-py3-none-manylinux1_x86_64.whl": nvcc,
    }
    monkeypatch.setattr(pypi.list_wheels, "__defaults__", (http_server.url("/simple"),))
    monkeypatch.setattr(debian_index, "DEBIAN", http_server.url("/debian"))  # 404 for each suite
    filled = manifest_facts.fill_manifest("2.6", downloader)
    assert (filled.manifest.version, filled.manifest.tag, filled.manifest.commit) == ("2.6.0", "v2.6.0", COMMIT)
    assert filled.manifest.toolchain == replace(
        manifest().toolchain,
        python=("3.9", "3.12", "3.13t"),
        libraries=("cuda-toolkit==13.0.2", "nvidia-cudnn-cu12==9.1.0.70"),
        archs=("8.0", "9.0"),
    )
    wheels = [one for one in filled.manifest.sources if isinstance(one, WheelSource)]
    assert [one.wheel.name for one in wheels] == ["torch-2.6.0-3-cp312-cp312-manylinux1_x86_64.whl"], "pip's choice"
    assert [source.provider for source in filled.manifest.sources] == ["github", "git", "wheel"]
    assert filled.remarks == tuple(f"Debian {suite}: no such suite" for suite in debian_index.SUITES)


def test_fill_keeps_what_only_github_could_say(downloader: Downloader) -> None:
    known = GithubSource(remote("https://github.com/x/pytorch-v2.6.0.tar.gz", b"data"), tree="a" * 40)
    release = ReleaseFacts("2.6.0", downloader, manifest(known), WheelSource(remote("https://x/torch.whl", b"wheel")))
    kept = github.read_published(release)
    assert (kept.archive.size, kept.archive.sha256, kept.tree) == (4, known.archive.sha256, None)
    assert release.keep_tree_ids(replace(known, tree=None)) == known, "the tree of this very archive is known"
    assert release.keep_tree_ids(kept) == kept, "not of one from another place"
    assert github.read_published(replace(release, version="2.6.1")).archive.sha256 is None
