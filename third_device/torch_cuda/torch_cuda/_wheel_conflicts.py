"""Find files of NVIDIA's wheels that the wheel of another CUDA wrote over.

It may also have taken them along when it was uninstalled.

cuDNN, NCCL, cuRAND and cuSOLVER of ``nvidia-*-cu11`` and ``nvidia-*-cu12`` lie in one folder under one name. pip takes
a wheel for installed when its metadata are there, so a change of CUDA and back leaves the other CUDA's libraries.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["list_overwritten", "site_folders"]

_INFO = re.compile(r"(?P<project>nvidia_.+_cu(?P<cuda>\d+))-(?P<version>[^-]+)\.dist-info")
_SIZE = re.compile(r"[0-9]{1,18}")
_LIBRARY = re.compile(r"\.so(\.\d+)*$")


def site_folders(library_folders: Iterable[Path]) -> list[Path]:
    """List the folders that pip installed into.

    They are found from *library_folders* such as ``site-packages/nvidia/cudnn/lib``.
    """
    found = [folder.parents[2].resolve() for folder in library_folders if folder.parent.parent.name == "nvidia"]
    return list(dict.fromkeys(found))


def list_overwritten(site: Path, cuda: str) -> list[str]:
    """List what pip must install again below *site* for CUDA *cuda* ("12.4").

    An entry is such as ``nvidia-cudnn-cu12==9.1.0.70``.

    A wheel is named when a library of its RECORD is gone, or, with a wheel for another CUDA beside it, has another
    size than RECORD says. A wheel without RECORD (not of pip's making) is left alone.
    """
    infos = [(found, path) for path in sorted(site.glob("nvidia_*.dist-info")) if (found := _INFO.match(path.name))]
    major = cuda.partition(".")[0]
    mixed = any(found["cuda"] != major for found, _ in infos)
    return [
        f"{found['project'].replace('_', '-')}=={found['version']}"
        for found, path in infos
        if found["cuda"] == major and _is_changed(site, path / "RECORD", mixed)
    ]


def _is_changed(site: Path, record: Path, mixed: bool) -> bool:
    """Return whether a library is not as RECORD says.

    A RECORD that cannot be read is not of pip's making: then it is False.
    """
    try:
        for row in csv.reader(record.read_text("utf-8").splitlines()) if record.is_file() else ():
            if len(row) < 3 or not _LIBRARY.search(row[0]):
                continue
            file, size = site / row[0], row[2]
            if not file.is_file() or (mixed and _SIZE.fullmatch(size) and file.stat().st_size != int(size)):
                return True
    except (csv.Error, OSError, ValueError):  # ValueError: no UTF-8, or a NUL in a name
        return False
    return False
