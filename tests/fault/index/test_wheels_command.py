"""``decouple wheels`` over HTTP into a virtual environment: both are installed, or one line says why nothing is."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.index import get, site, wheel
from tests.fault.index.test_install import environment, installed
from tests.support.server import FaultyServer, not_found, redirected, status, too_many, wrong_bytes
from tests.unit.index.test_commands import digest, project
from tests.unit.index.wheels import SERIES_B, make_pair, make_wheel

__all__ = ["digest", "environment", "project"]  # fixtures

FILE = "/files/2.6/torch-2.6.0+decoupled.1-py3-none-any.whl"
BOTH = {"torch": "2.6.0+decoupled.1", "torch-cuda": "2.6.0+cu124.1"}


@pytest.fixture
def server(project: Path, digest: str, tmp_path: Path) -> Iterator[FaultyServer]:
    make_pair(tmp_path / "dist", series=digest)
    site.build_site(tmp_path / "dist", tmp_path / "site")
    pages = {f"/simple/{name}/": tmp_path / f"site/simple/{name}/index.html" for name in ("torch", "torch-cuda")}
    with FaultyServer({"/": tmp_path / "site", **pages}) as running:
        yield running


@pytest.fixture
def wheels(server: FaultyServer, environment: Path) -> Callable[..., int]:
    """``decouple wheels 2.6 --into PYTHON`` from that server, whatever it answers."""

    def run(*more: str) -> int:
        return main(["wheels", "2.6", "--index", server.url("/simple/"), "--into", str(environment), *more])

    return run


def test_both_are_installed_where_no_pip_is(wheels: Callable[..., int], environment: Path) -> None:
    assert wheels() == 0
    assert installed(environment) == BOTH


def test_an_upgrade_to_the_next_series(
    wheels: Callable[..., int], environment: Path, project: Path, tmp_path: Path
) -> None:
    assert wheels() == 0
    patch = project / "patches/2.6/0001-one.patch"
    patch.write_bytes(patch.read_bytes() + b"+more\n")
    assert wheels() == 1  # what is published is not yet of the new series
    text = hashlib.sha256(patch.read_bytes()).hexdigest() + "\n"
    make_pair(tmp_path / "next", revision=2, series=hashlib.sha256(text.encode()).hexdigest())
    site.build_site(tmp_path / "next", tmp_path / "site")
    assert wheels() == 0
    assert installed(environment) == {"torch": "2.6.0+decoupled.2", "torch-cuda": "2.6.0+cu124.2"}


def test_what_has_the_version_of_a_verified_wheel_and_other_files_is_replaced(
    wheels: Callable[..., int], environment: Path, tmp_path: Path, digest: str
) -> None:
    """An earlier series, or PyTorch's own: pip says "already installed with the same version" and leaves it."""
    old = {"torch/old.py": b"", "torch/__init__.py": b"__version__ = 'old'"}
    make_pair(tmp_path / "earlier", series=SERIES_B, core_members=old)
    pip = [sys.executable, "-m", "pip", "--python", str(environment), "install", "-q", "--no-index"]
    subprocess.run([*pip, *map(str, sorted((tmp_path / "earlier").iterdir()))], check=True)
    [site_packages] = environment.parent.parent.glob("lib/python*/site-packages")

    assert wheels() == 0
    assert installed(environment) == BOTH
    assert not (site_packages / "torch/old.py").exists()
    manifests = [json.loads(path.read_text()) for path in site_packages.glob("*.dist-info/decouple.json")]
    assert [one["series"]["digest"] for one in manifests] == [digest, digest]

    before = (site_packages / "torch/__init__.py").stat().st_ino
    assert wheels() == 0
    assert (site_packages / "torch/__init__.py").stat().st_ino == before, "the very wheel is not installed again"


def swapped(server: FaultyServer, folder: Path) -> None:
    """The page is of one site, the file behind its link of another."""
    make_pair(folder / "other", series=SERIES_B)
    site.build_site(folder / "other", folder / "swapped")
    server.fault(FILE, status(200, (folder / "swapped" / FILE.lstrip("/")).read_bytes()))


def other_series(server: FaultyServer, folder: Path) -> None:
    shutil.rmtree(folder / "site")
    make_pair(folder / "other", series=SERIES_B)
    site.build_site(folder / "other", folder / "site")


def outside(server: FaultyServer, folder: Path) -> None:
    """No publisher of ours makes this: a page by hand, with the true hash of a wheel that leaves site-packages."""
    evil = make_wheel(folder / "evil", "torch", "2.6.0+decoupled.1", extra_members={"../../evil.pth": b"import os\n"})
    shutil.copyfile(evil, folder / "site" / FILE.lstrip("/"))
    page = folder / "site/simple/torch/index.json"
    document = json.loads(page.read_bytes())
    document["files"][0] |= {"hashes": {"sha256": hashlib.sha256(evil.read_bytes()).hexdigest()}}
    document["files"][0]["size"] = evil.stat().st_size
    page.write_text(json.dumps(document))


FAULTS: dict[str, tuple[Callable[[FaultyServer, Path], None], str]] = {
    "swapped": (swapped, "cannot download"),
    "bytes changed": (lambda server, _: server.fault(FILE, wrong_bytes()), "wrong SHA-256"),
    "other series": (other_series, "made from another series"),
    "404": (lambda server, _: server.fault(FILE, not_found()), "404"),
    "page 404": (lambda server, _: server.fault("/simple/torch-cuda/index.json", not_found()), ""),
    "page 429": (lambda server, _: server.fault("/simple/torch/index.json", too_many("0")), ""),
    "sent elsewhere": (lambda server, _: server.fault(FILE, redirected(server.url("/index.html"))), "cannot download"),
    "leaves site-packages": (outside, "leaves the folder"),
}


@pytest.mark.parametrize("fault", [name for name in FAULTS if not name.startswith("page")])
def test_one_line_and_nothing_installed(
    wheels: Callable[..., int],
    server: FaultyServer,
    environment: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    plant, told = FAULTS[fault]
    plant(server, tmp_path)
    assert wheels() == 1
    said = capsys.readouterr().err.splitlines()
    (line,) = [line for line in said if line.startswith("decouple: ")]
    assert told in line
    assert installed(environment) == {}
    assert not list(tmp_path.glob("project/dist/**/*.whl")), "nor is anything where `pip install` could take it from"


@pytest.mark.parametrize("fault", [name for name in FAULTS if name.startswith("page")])
def test_the_html_page_serves_where_the_json_page_does_not(
    wheels: Callable[..., int], server: FaultyServer, environment: Path, tmp_path: Path, fault: str
) -> None:
    FAULTS[fault][0](server, tmp_path)
    assert wheels() == 0
    assert installed(environment) == BOTH


def test_an_index_that_answers_429_once_is_asked_again(
    wheels: Callable[..., int], server: FaultyServer, environment: Path
) -> None:
    server.fault("/simple/torch/index.json", too_many("0"), times=1)
    assert wheels() == 0
    asked = [request.path for request in server.requests]
    assert asked.count("/simple/torch/index.json") >= 2
    assert "/simple/torch/" not in asked


def test_offline_needs_no_server(
    wheels: Callable[..., int],
    server: FaultyServer,
    environment: Path,
    project: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert wheels("--offline") == 1
    assert "--offline forbids" in capsys.readouterr().err
    address = server.url("/simple/")
    assert main(["wheels", "2.6", "--index", address]) == 0
    shutil.rmtree(project / "dist")
    seen = len(server.requests)
    assert wheels("--offline") == 0
    assert len(server.requests) == seen
    assert installed(environment) == BOTH


def test_the_line_to_install_them_can_be_pasted_where_their_folder_has_a_space(
    server: FaultyServer, environment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also over another build of the same version, which plain `pip install` leaves."""
    pip = environment.with_name("pip")
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --isolated --python {environment} "$@" --no-index\n')
    pip.chmod(0o755)
    old = make_pair(tmp_path / "earlier", series=SERIES_B, core_members={"torch/old.py": b""})
    subprocess.run([pip, "install", "-q", *old], check=True)
    folder = tmp_path / "my wheels"
    assert main(["wheels", "2.6", "--index", server.url("/simple/"), "--dest", str(folder)]) == 0
    line = capsys.readouterr().out.splitlines()[-1].removeprefix("install them with: ")
    assert {word for word in shlex.split(line) if word.endswith(".whl")} == {str(one) for one in folder.glob("*.whl")}
    subprocess.run(["sh", "-c", line], check=True, env={"PATH": f"{environment.parent}:/usr/bin:/bin"})
    assert installed(environment) == BOTH
    assert not list(environment.parent.parent.glob("lib/python*/site-packages/torch/old.py"))


@pytest.fixture
def forms(tmp_path: Path, digest: str) -> tuple[list[Path], list[Path]]:
    """A core with torch-cuda in one wheel, and with the next one in two, of which the libraries have its files."""
    core = make_wheel(tmp_path / "one", "torch", "2.6.0+decoupled.1", series=digest)
    facts = {"cuda": "12.4", "series": digest}
    library, pin = "torch_cuda/lib/libtorch_cuda.so", "torch==2.6.0+decoupled.1"
    one = "2.6.0+cu124.1"
    whole = make_wheel(tmp_path / "one", "torch-cuda", one, requires=(pin,), extra_members={library: b"1"}, **facts)
    two, pins = "2.6.0+cu124.2", (pin, "torch-cuda-libraries==2.6.0+cu124.2")
    libraries = make_wheel(tmp_path / "two", "torch-cuda-libraries", two, extra_members={library: b"2"}, **facts)
    bindings = make_wheel(tmp_path / "two", "torch-cuda", two, requires=pins, **facts)
    shutil.copy(core, tmp_path / "two")
    return [core, whole], [core, libraries, bindings]


def test_a_torch_cuda_in_two_wheels_takes_the_place_of_a_whole_one_and_back(
    environment: Path, tmp_path: Path, forms: tuple[list[Path], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip deleted the libraries that it had just installed, with the whole wheel, and all said that it was well."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    whole, halves = forms
    for chosen, has in ((whole, b"1"), (halves, b"2"), (whole, b"1")):
        get.install_wheels([wheel.read_wheel(path) for path in chosen], environment)
        [library] = tmp_path.glob("env/lib/python*/site-packages/torch_cuda/lib/libtorch_cuda.so")
        assert library.read_bytes() == has
        assert len(installed(environment)) == len(chosen)


def test_the_line_to_install_them_brings_the_libraries_over_a_whole_torch_cuda(
    project: Path,
    environment: Path,
    tmp_path: Path,
    forms: tuple[list[Path], list[Path]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pip = environment.with_name("pip")
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --isolated --python {environment} "$@" --no-index\n')
    pip.chmod(0o755)
    subprocess.run([pip, "install", "-q", *forms[0]], check=True)
    site.build_site(tmp_path / "two", tmp_path / "site")
    assert main(["wheels", "2.6", "--index", str(tmp_path / "site"), "--dest", str(tmp_path / "got")]) == 0
    line = capsys.readouterr().out.splitlines()[-1].removeprefix("install them with: ")
    subprocess.run(["sh", "-c", line], check=True, env={"PATH": f"{environment.parent}:/usr/bin:/bin"})
    [library] = tmp_path.glob("env/lib/python*/site-packages/torch_cuda/lib/libtorch_cuda.so")
    assert library.read_bytes() == b"2"


def test_a_mirror_gives_the_file_that_the_first_has_lost(
    server: FaultyServer, environment: Path, tmp_path: Path
) -> None:
    server.fault(FILE, not_found())
    with FaultyServer({"/": tmp_path / "site"}) as mirror:
        command = ["wheels", "2.6", "--index", server.url("/simple/"), "--index", mirror.url("/simple/")]
        assert main([*command, "--into", str(environment)]) == 0
    assert installed(environment) == BOTH


def test_netrc_and_proxy(
    server: FaultyServer, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index's host exists only behind the proxy, and its credentials are in ~/.netrc."""
    (tmp_path / "netrc").write_text("machine wheels.invalid login me password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", server.base)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    command = ["wheels", "2.6", "--index", "http://wheels.invalid/simple/", "--into", str(environment)]
    assert main(command) == 0
    expected = "Basic " + base64.b64encode(b"me:secret").decode()
    assert {request.headers.get("Authorization") for request in server.requests} == {expected}


def test_another_python_than_the_target_is_a_usage_error(wheels: Callable[..., int]) -> None:
    assert wheels("--python", "3.8") == 2


def test_a_target_that_is_no_python_is_a_usage_error(server: FaultyServer, tmp_path: Path) -> None:
    command = ["wheels", "2.6", "--index", server.url("/simple/"), "--into", str(tmp_path / "no-python")]
    assert main(command) == 2


def test_a_target_may_be_named_as_on_the_command_line(
    server: FaultyServer, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip, which gets it last, takes paths alone: it refused `python3` when all was downloaded."""
    command = ["wheels", "2.6", "--index", server.url("/simple/"), "--into"]
    monkeypatch.setenv("PATH", f"{environment.parent}{os.pathsep}{os.environ['PATH']}")
    assert main([*command, "no-python-of-that-name"]) == 2
    assert server.requests == []
    assert main([*command, "python3"]) == 0
    assert installed(environment) == BOTH


def test_install_goes_to_the_active_environment(
    server: FaultyServer, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(environment.parent.parent))
    assert main(["wheels", "2.6", "--index", server.url("/simple/"), "--install"]) == 0
    assert installed(environment) == BOTH


def test_the_tools_own_environment_is_never_installed_into(
    server: FaultyServer, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """nox keeps decouple in .nox/ of the checkout: what is installed there is of no use to anybody."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(sys, "prefix", str(project / ".nox/decouple"))
    assert main(["wheels", "2.6", "--index", server.url("/simple/"), "--install"]) == 2
    assert "--into" in capsys.readouterr().err


def test_pip_in_the_environment_agrees(wheels: Callable[..., int], environment: Path) -> None:
    assert wheels() == 0
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(environment), "check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
