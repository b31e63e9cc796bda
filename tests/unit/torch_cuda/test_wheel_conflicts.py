"""What the loader says when NVIDIA's wheels for two CUDAs wrote the same files, as a change of CUDA leaves them."""

from __future__ import annotations

from pathlib import Path

from torch_cuda._wheel_conflicts import list_overwritten, site_folders

from tests.support.files import write_files

from .test_loader import needs_cc, python, site

__all__ = ["site"]  # a fixture

LIBRARY = "nvidia/cudnn/lib/libcudnn.so.9"


def install(folder: Path, cuda: str, content: str, project: str = "nvidia_cudnn", file: str = LIBRARY) -> None:
    """One of NVIDIA's wheels, as pip leaves it: the files written over whatever was there, and its metadata."""
    info = folder / f"{project}_{cuda}-9.1.0.70.dist-info"
    write_files(folder, {file: content, f"{Path(file).parent}/__init__.py": f"for = '{cuda}'"})
    info.mkdir(exist_ok=True)
    lines = (f"{file},sha256=x,{len(content)}", f"{Path(file).parent}/__init__.py,,0", f"{info.name}/RECORD,,")
    (info / "RECORD").write_text("\n".join(lines) + "\n")


def test_another_cudas_library_is_named_with_the_wheel_that_it_took_the_place_of(tmp_path: Path) -> None:
    install(tmp_path, "cu12", "of twelve")
    assert list_overwritten(tmp_path, "12.4") == []
    install(tmp_path, "cu11", "of eleven, longer")
    assert list_overwritten(tmp_path, "12.4") == ["nvidia-cudnn-cu12==9.1.0.70"]
    assert list_overwritten(tmp_path, "11.8") == []
    install(tmp_path, "cu12", "of twelve")
    assert list_overwritten(tmp_path, "12.4") == []


def test_a_library_that_the_other_wheel_took_along_is_missed(tmp_path: Path) -> None:
    """``pip uninstall nvidia-cudnn-cu11`` deletes the files of cu12's, which pip keeps as installed."""
    install(tmp_path, "cu12", "of twelve")
    (tmp_path / LIBRARY).unlink()
    assert list_overwritten(tmp_path, "12.4") == ["nvidia-cudnn-cu12==9.1.0.70"]


def test_a_library_that_somebody_put_there_himself_is_his_affair(tmp_path: Path) -> None:
    install(tmp_path, "cu12", "of twelve")
    (tmp_path / LIBRARY).write_text("a cuDNN of my own")
    install(tmp_path, "cu12", "BLAS", project="nvidia_cublas", file="nvidia/cublas/lib/libcublas.so.12")
    assert list_overwritten(tmp_path, "12.4") == []


def test_a_name_that_record_has_in_quotation_marks(tmp_path: Path) -> None:
    """RECORD is CSV: the file is where its name says, marks apart."""
    install(tmp_path, "cu12", "of twelve")
    odd = "nvidia/cudnn/lib/libodd,one.so"
    (tmp_path / odd).write_text("odd")
    record = tmp_path / "nvidia_cudnn_cu12-9.1.0.70.dist-info/RECORD"
    record.write_text(f'"{odd}",sha256=x,3\n' + record.read_text())
    assert list_overwritten(tmp_path, "12.4") == []
    (tmp_path / odd).unlink()
    assert list_overwritten(tmp_path, "12.4") == ["nvidia-cudnn-cu12==9.1.0.70"]


def test_a_record_that_is_no_csv_is_left_alone(tmp_path: Path) -> None:
    install(tmp_path, "cu12", "of twelve")
    (tmp_path / "nvidia_cudnn_cu12-9.1.0.70.dist-info/RECORD").write_text(f'"{"x" * 200_000}",,\n')
    assert list_overwritten(tmp_path, "12.4") == []


def test_a_wheel_without_a_record_is_left_alone(tmp_path: Path) -> None:
    install(tmp_path, "cu12", "of twelve")
    install(tmp_path, "cu11", "of eleven, longer")
    (tmp_path / "nvidia_cudnn_cu12-9.1.0.70.dist-info/RECORD").unlink()
    assert list_overwritten(tmp_path, "12.4") == []


def test_folders_that_pip_installed_into_are_those_above_nvidia(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("torch/lib", "a/nvidia/cudnn/lib", "a/nvidia/nccl/lib", "b/cusparselt/lib")]
    assert site_folders(folders) == [(tmp_path / "a").resolve()]


@needs_cc
def test_import_torch_says_what_pip_must_install_again(site: Path) -> None:
    install(site, "cu12", "of twelve")
    install(site, "cu11", "of eleven, longer")
    done = python(site, "import torch; print(torch.version.cuda)")
    assert (done.returncode, done.stdout.strip()) == (0, "12.4"), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "RuntimeWarning" in line]
    assert line.endswith("pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.1.0.70")
    install(site, "cu12", "of twelve")
    assert "RuntimeWarning" not in python(site, "import torch").stderr
