"""``new-device`` in folders, and for names, that somebody else has prepared."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.cli import main
from decouple.device.scaffold import RECORD

HOME = find_project() / "third_device"


def made(tmp_path: Path) -> Path:
    """A backend as new-device makes it."""
    folder = tmp_path / "torch_acme"
    assert main(["new-device", "acme", "--into", str(folder)]) == 0
    return folder


def refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``new-device`` says that refuses to work in ``folder``, which stays as it was."""
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    capsys.readouterr()
    assert main(["new-device", "acme", "--into", str(folder)]) == 1
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before
    return capsys.readouterr().err


@pytest.mark.parametrize("absolute", [False, True])
def test_a_record_deletes_nothing_outside_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], absolute: bool
) -> None:
    """A file that the record says came from an older template goes where it is as recorded."""
    folder, victim = made(tmp_path), tmp_path / "victim"
    victim.write_text("precious\n")
    record = json.loads((folder / RECORD).read_text())
    record["files"][str(victim) if absolute else "../victim"] = "precious\n"
    (folder / RECORD).write_text(json.dumps(record))
    assert RECORD in refused(folder, capsys) and victim.read_text() == "precious\n"


def test_a_record_deletes_nothing_of_gits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/x\n")
    record = json.loads((folder / RECORD).read_text())
    record["files"][".git/HEAD"] = "ref: refs/heads/x\n"
    (folder / RECORD).write_text(json.dumps(record))
    assert RECORD in refused(folder, capsys) and (folder / ".git" / "HEAD").exists()


def test_the_record_of_another_device_is_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path)
    before = sorted(folder.rglob("*"))
    assert main(["new-device", "other", "--into", str(folder)]) == 2
    assert "acme" in capsys.readouterr().err and sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(("key", "other"), [("PrivateUse1", "CUDA"), ("CUDA", "PrivateUse1")])
def test_a_backend_on_one_key_is_not_made_one_on_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, other: str, recorded: bool
) -> None:
    folder = tmp_path / "torch_acme"
    assert main(["new-device", "acme", "--key", key, "--into", str(folder)]) == 0
    record = json.loads((folder / RECORD).read_text())
    if not recorded:  # as before records had the key
        del record["key"]
        (folder / RECORD).write_text(json.dumps(record))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(["new-device", "acme", "--key", other, "--into", str(folder)]) == 2
    said = capsys.readouterr().err
    assert f"on the key {key}, not {other}" in said and f"--key {key}" in said and "--into" in said
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert main(["new-device", "acme", "--key", key, "--into", str(folder)]) == 0


@pytest.mark.parametrize("link", ["csrc", "csrc/driver.cpp", "torch_acme", RECORD])
def test_nothing_is_written_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "torch_acme"
    (folder / link).parent.mkdir(parents=True)
    (folder / link).symlink_to(outside)
    assert f"{folder / link}: is a link" in refused(folder, capsys)
    assert not list(outside.iterdir()) and [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_link_in_the_place_of_the_folder_is_followed_only_where_a_person_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("series", "patches", "third_device", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "third_device" / "template").symlink_to(HOME / "template")
    link = tmp_path / "third_device" / "torch_acme"
    link.symlink_to(tmp_path / "outside")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    assert main(["new-device", "acme"]) == 1
    assert "--into" in capsys.readouterr().err and not list((tmp_path / "outside").iterdir())
    assert main(["new-device", "acme", "--into", str(link)]) == 0
    assert (tmp_path / "outside" / RECORD).is_file()


@pytest.mark.tools("cmake")
def test_a_torch_cuda_without_the_series_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkout's own is of that kind: the series is laid beside it in an applied tree."""
    folder = tmp_path / "torch_acme"
    assert main(["new-device", "acme", "--key", "CUDA", "--into", str(folder)]) == 0
    assert f"cmake -S {folder} -B build/acme -DTORCH_CUDA_HOME=PATH" in capsys.readouterr().out
    command = ["cmake", "-S", folder, "-B", tmp_path / "build", f"-DTORCH_CUDA_HOME={HOME / 'torch_cuda'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and f"{HOME / 'torch_cuda'} is of no applied tree (no torch_patches)" in said
    assert "next: `decouple apply 2.6`, then pass -DTORCH_CUDA_HOME=<that tree>" in said


@pytest.mark.tools("cmake", "c++")
@pytest.mark.parametrize("named", [True, False])
def test_the_compiler_of_the_environment_is_taken(tmp_path: Path, named: bool) -> None:
    assert main(["new-device", "acme", "--key", "CUDA", "--into", str(tmp_path / "torch_acme")]) == 0
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(use LANGUAGES CXX)\n"
        "set(CMAKE_MODULE_PATH ${CMAKE_SOURCE_DIR}/torch_acme/cmake)\nenable_language(acme)\n"
        'message(STATUS "it is ${CMAKE_acme_COMPILER}")\n'
    )
    compilers = [tmp_path / "home/bin/acmecc", tmp_path / "mine/acmecc-2"]
    for compiler in compilers:
        compiler.parent.mkdir(parents=True)
        compiler.write_text('#!/bin/sh\nexec c++ "$@"\n')
        compiler.chmod(0o755)
    variables = {**os.environ, "ACME_HOME": str(tmp_path / "home"), **({"ACMECC": str(compilers[1])} if named else {})}
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert f"it is {compilers[named]}\n" in done.stdout, done.stderr


@pytest.mark.parametrize("fifo", ["setup.py", "csrc/kernels.cpp", RECORD])
def test_a_fifo_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str], fifo: str) -> None:
    folder = made(tmp_path)
    (folder / fifo).unlink()
    os.mkfifo(folder / fifo)
    assert str(folder / fifo) in refused(folder, capsys)


def test_a_file_that_is_no_text_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path)
    (folder / "setup.py").write_bytes(b"\xff\xfe")
    assert "setup.py" in refused(folder, capsys)


TAKEN = {
    "attributes and modules of torch": ["nn", "optim", "jit", "utils", "fx", "ops", "linalg", "add", "relu", "view"],
    "devices of PyTorch": ["cpu", "cuda", "meta", "privateuseone"],
    "what begins with another device's name": ["cpux", "cudacustom", "cuda2", "mpsx", "xpus", "hpu0"],
    "what another device's name begins with": ["cu", "mp", "xp", "h"],
    "words of C++ and Python, and macros of g++": ["class", "int", "lambda", "linux", "unix", "errno"],
    "functions that headers of the kernels declare": ["time", "signal", "read", "j0"],
    "this project's own": ["newdevice", "puone"],
    "no name at all": ["Acme", "9x", "a-b", "", "../x", "a_b"],
    "what PyTorch cannot read in torch.device(...)": ["pu1", "acme2", "x2y"],
}


@pytest.mark.parametrize("name", [name for names in TAKEN.values() for name in names])
def test_a_name_that_is_taken_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-device", name, "--into", str(tmp_path / "x")]) == 2
    assert repr(name) in capsys.readouterr().err and not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["acme", "npu", "metax", "musa", "gaudi", "tpu", "foo", "sim"])
def test_a_name_of_ones_own_is_taken(name: str, tmp_path: Path) -> None:
    assert main(["new-device", name, "--into", str(tmp_path / "x")]) == 0
