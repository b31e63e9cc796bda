"""What a build can reach: no network, none of the caller's secrets, and only packages that a signature vouches for."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import root_description, root_record, rootfs, sandbox
from decouple.build.environment import HostEnvironment, Places
from decouple.build.sandbox import Sandbox, make_clean_environment
from tests.support.tools import require_tool

HERE = Sandbox(Path("/"), ())  # this machine's own files as the root


def _namespaces() -> bool:
    try:
        sandbox.check_sandbox()
    except DecoupleError:
        return False
    return True


needs_namespaces = pytest.mark.skipif(not _namespaces(), reason="no namespaces here")

REACH = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=5); print('reached')"
LOOPBACK = (
    "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
    "socket.create_connection(s.getsockname(), timeout=5); print('loopback')"
)


def said(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False).stdout.strip()


@pytest.fixture
def port() -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield str(listening.getsockname()[1])


@needs_namespaces
def test_a_command_in_the_root_reaches_nobody_unless_it_asks(port: str) -> None:
    assert said(HERE.make_command([sys.executable, "-c", REACH, port], network=True)) == "reached"
    assert said(HERE.make_command([sys.executable, "-c", REACH, port])) == ""


@needs_namespaces
@pytest.mark.tools("ip")  # else the loopback stays down
def test_its_own_loopback_works() -> None:
    assert said(HERE.make_command([sys.executable, "-c", LOOPBACK])) == "loopback"


@pytest.mark.skipif(not sandbox.make_offline_prefix(), reason="this machine does not allow it")
def test_a_build_on_the_host_reaches_nobody_either(port: str, tmp_path: Path) -> None:
    environment = HostEnvironment(Places.of_release(tmp_path, "2.6", tmp_path / "cache"))
    assert said(environment.argv([sys.executable, "-c", REACH, port], {}, "/")) == ""
    assert environment.describe_inputs(()) == {"network": "none", "unchecked": ["this machine"]}


@needs_namespaces
def test_no_secret_of_the_caller_enters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PIP_INDEX_URL", "SSH_AUTH_SOCK", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "https://me:secret@example.org")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy")
    argv = HERE.make_command([*make_clean_environment({"A": "1"}), "env"])
    assert not any("secret" in word for word in argv)  # a command line can be read by everybody on the machine
    assert sorted(line.split("=")[0] for line in said(argv).splitlines()) == ["A", "HOME", "LC_ALL", "PATH", "TERM"]
    argv = HERE.make_command([*make_clean_environment({"A": "1"}, network=True), "env"], network=True)
    assert not any("secret" in word for word in argv)  # the proxy's password neither
    seen = said(argv).splitlines()
    assert "HTTPS_PROXY=http://me:secret@proxy" in seen
    known = {"A", "HOME", "LC_ALL", "PATH", "TERM"}
    assert all(line.split("=")[0] in known or line.split("=")[0].lower().endswith("_proxy") for line in seen)


@pytest.mark.tools("mount")
@needs_namespaces
def test_the_checkouts_own_repository_is_hidden(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("token = secret\n")
    (tmp_path / "file").write_text("token = secret\n")
    hiding = Sandbox(Path("/"), (), hidden=(f"{tmp_path}/.git", f"{tmp_path}/file"))
    assert (
        said(hiding.make_command(["sh", "-c", f"cat {tmp_path}/.git/config {tmp_path}/file; ls -A {tmp_path}"]))
        == ".git\nfile"
    )
    assert (tmp_path / ".git/config").read_text() == "token = secret\n"


@pytest.fixture
def keyring(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A keyring with one key, and the home that can sign with it."""
    require_tool("gpg", "gpgv")
    with tempfile.TemporaryDirectory() as home:  # short: its socket's path has a limit
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
        subprocess.run(
            [*gpg, "--quick-gen-key", "archive@example.org", "ed25519", "sign"], check=True, capture_output=True
        )
        exported = subprocess.run([*gpg, "--export"], check=True, capture_output=True).stdout
        (tmp_path / "keyring.gpg").write_bytes(exported)
        yield tmp_path / "keyring.gpg", home
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)


def lay_root(tree: Path, home: str, *, list_of: str = "1.0") -> None:
    """A root with package ``a`` 1.0 installed, a package list that has ``list_of`` of it, and a signed release file."""
    lists = tree / "var/lib/apt/lists"
    lists.mkdir(parents=True, exist_ok=True)
    (tree / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
    (tree / "var/lib/dpkg/status").write_text(
        "Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1.0\n"
    )
    listed = f"Package: a\nArchitecture: amd64\nVersion: {list_of}\nSHA256: {'a' * 64}\n"
    (lists / "deb_dists_t_main_binary-amd64_Packages").write_text(listed)
    digest = hashlib.sha256(listed.encode()).hexdigest()
    release = tree / "release"
    release.write_text(f"Origin: T\nSuite: t\nSHA256:\n {digest} {len(listed)} main/binary-amd64/Packages\n")
    gpg = ["gpg", "--homedir", home, "--batch", "--yes", "--quiet", "--passphrase", ""]
    signed = lists / "deb_dists_t_InRelease"
    subprocess.run([*gpg, "-o", str(signed), "--clearsign", str(release)], check=True, capture_output=True)


def recorded(tree: Path, folder: Path, keyring: Path) -> dict[str, str]:
    root_record.update_record(tree, folder, keyring)
    found: dict[str, str] = root_record.read_record(folder)["packages"]["a"]
    return found


def test_a_package_is_recorded_with_the_hash_that_a_signed_list_gives(
    tmp_path: Path, keyring: tuple[Path, str]
) -> None:
    ring, home = keyring
    lay_root(tmp_path / "root", home)
    good = {"version": "1.0", "sha256": "a" * 64, "release": "deb_dists_t"}
    assert recorded(tmp_path / "root", tmp_path, ring) == good
    assert len(root_record.read_record(tmp_path)["releases"]["deb_dists_t"]["keys"]) == 1
    lay_root(tmp_path / "root", home, list_of="2.0")  # the archive has gone on
    assert recorded(tmp_path / "root", tmp_path, ring) == good


def test_a_list_or_a_release_file_that_was_changed_vouches_for_nothing(
    tmp_path: Path, keyring: tuple[Path, str]
) -> None:
    ring, home = keyring
    for name in ("main_binary-amd64_Packages", "InRelease"):
        lay_root(tmp_path / name, home)
        path = tmp_path / name / f"var/lib/apt/lists/deb_dists_t_{name}"
        path.write_text(path.read_text().replace("a" * 64, "b" * 64).replace("Suite: t", "Suite: u"))
        assert recorded(tmp_path / name, tmp_path / name, ring) == {"version": "1.0"}


def test_a_release_file_of_another_key_vouches_for_nothing(tmp_path: Path, keyring: tuple[Path, str]) -> None:
    ring, home = keyring
    lay_root(tmp_path / "root", home)
    (tmp_path / "empty.gpg").write_bytes(b"")
    assert recorded(tmp_path / "root", tmp_path, tmp_path / "empty.gpg") == {"version": "1.0"}
    assert recorded(tmp_path / "root", tmp_path, tmp_path / "none.gpg") == {"version": "1.0"}
    assert ring.exists()


def test_what_nothing_vouches_for_is_named(tmp_path: Path) -> None:
    from decouple.cli.wheel_origin import describe_checks

    one = root_description.load_description()
    root = rootfs.Root(one, tmp_path, ("core",))
    (tmp_path / "root").mkdir()
    known = root_record.describe_layers(root.tree, root.folder, root.description, ["core", "cuda"])
    assert known["packages_sha256"] == {} and "cmake" in known["unchecked"]
    assert "libcudnn-frontend-dev in /opt/cudnn-frontend" in known["unchecked"]
    assert list(known["pypi"]) == ["nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux2014_x86_64.whl"]
    told = describe_checks({"network": "none", **known})
    assert told[0] == "network of the build: none" and "not checked: cmake" in told
    assert describe_checks(None) == ["nothing is recorded of how the toolchain was checked"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_damaged_record_is_made_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / root_record.NAME).write_text(text)
    (tmp_path / "root").mkdir()
    root_record.update_record(tmp_path / "root", tmp_path, tmp_path / "none.gpg")
    assert json.loads((tmp_path / root_record.NAME).read_text())["packages"] == {}
