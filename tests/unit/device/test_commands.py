"""What ``new-device`` and ``stages reuse`` answer, and what a vendor on the CUDA key gets."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.cli import main
from decouple.device.reuse import load_names
from tests.support.files import write_files


def test_the_cuda_key_makes_a_thin_folder_and_says_what_to_fill_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "torch_acme"
    assert main(["new-device", "acme", "--key", "CUDA", "--into", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"next: fill in {folder}/acme.cmake" in said
    assert f"decouple stages reuse 2.6 --names {folder}/acme.toml --header {folder}/acme_names.h" in said
    made = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert {"CMakeLists.txt", "acme.cmake", "acme.toml", "include/c10/macros/Macros.h"} <= made.keys()
    assert 'torch_cuda_option(ACME_HOME "Prefix of acme' in made["acme.cmake"]
    assert not [path for path, text in made.items() if "newdevice" in (path + text).lower()]
    names = load_names(folder / "acme.toml")
    assert names.find_name("cublasCreate") == "acmeblasCreate"
    assert main(["new-device", "acme", "--key", "CUDA", "--into", str(folder)]) == 0
    assert "is up to date with the template" in capsys.readouterr().out


def test_a_name_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-device"]) == 2
    assert "a name is needed" in capsys.readouterr().err


def test_what_comes_next_is_a_command_that_works_from_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-device", "acme", "--into", str(tmp_path / "torch_acme")]) == 0
    home = find_project() / "third_device"
    install = f"THIRD_DEVICE={home} pip install --no-build-isolation {tmp_path / 'torch_acme'} {home / 'contract'}"
    assert f"next: {install}\n" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["PrivateUse1", "CUDA"])
def test_what_comes_next_can_be_pasted_where_a_folder_has_a_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    folder = tmp_path / "my devices" / "torch_acme"
    assert main(["new-device", "acme", "--key", key, "--into", str(folder)]) == 0
    named = {"PrivateUse1": folder, "CUDA": folder / "acme.toml"}[key]
    assert str(named) in shlex.split(capsys.readouterr().out)


def test_a_header_needs_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stages", "reuse", "2.6", "--header", str(tmp_path / "x.h")]) == 2
    assert "add --names FILE" in capsys.readouterr().err


TREE = {
    "build_variables.bzl": "",
    "CMakeLists.txt": "",
    "aten/src/ATen/cuda/CUDABlas.cpp": "#include <cublas_v2.h>\nvoid f() { cudaMalloc(&p, 1); cublasCreate_v2(&h); }\n",
}


def test_the_report_on_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path, TREE)
    (tmp_path / "acme.toml").write_text('[prefix]\ncuda = "acme"\n')
    arguments = ["stages", "reuse", "2.6", "--tree", str(tmp_path), "--names", str(tmp_path / "acme.toml")]
    assert main([*arguments, "--header", str(tmp_path / "out" / "names.h")]) == 1  # cublasCreate_v2 is open
    said = capsys.readouterr().out
    assert "1 C++ and CUDA files move" in said and "names given: 1, open: 1" in said and "1  cublasCreate_v2" in said
    assert "#define cudaMalloc acmeMalloc" in (tmp_path / "out" / "names.h").read_text()
