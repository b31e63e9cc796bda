"""NVIDIA's wheels for two CUDAs write the same files: whoever changes to the other CUDA and back must get them back."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from decouple.index import get, wheel
from tests.fault.index.test_install import environment
from tests.unit.index.wheels import make_wheel

__all__ = ["environment"]  # a fixture


def nvidia(folder: Path, cuda: str) -> None:
    """cuDNN as NVIDIA packs it: for each CUDA a project, and one name of its library."""
    name = f"nvidia_cudnn_{cuda}"
    info = f"{name}-9.1.dist-info"
    with zipfile.ZipFile(folder / f"{name}-9.1-py3-none-any.whl", "w") as archive:
        archive.writestr("nvidia/cudnn/lib/libcudnn.so.9", cuda)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 9.1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "".join(f"{one},,\n" for one in [*archive.namelist(), f"{info}/RECORD"]))


def test_the_way_back_to_a_cuda_brings_its_own_files(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for label in ("cu11", "cu12"):
        nvidia(tmp_path, label)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    made = {}
    for cuda, label in (("11.8", "cu11"), ("12.4", "cu12")):
        version = f"2.6.0+cu{cuda.replace('.', '')}"
        requires = (f"nvidia-cudnn-{label}==9.1",)
        made[label] = wheel.read_wheel(make_wheel(tmp_path, "torch-cuda", version, cuda=cuda, requires=requires))
    for label in ("cu12", "cu11", "cu12"):
        get.install_wheels([made[label]], environment)
        [library] = tmp_path.glob("env/lib/python*/site-packages/nvidia/cudnn/lib/libcudnn.so.9")
        assert library.read_text() == label
