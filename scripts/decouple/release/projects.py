"""The projects that wheels are made of, and their METADATA and RECORD entries."""

from __future__ import annotations

import base64
import csv
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded where METADATA is read: every command that opens a source loads this module
    from collections.abc import Iterable
    from email.message import Message

    from packaging.requirements import Requirement

CORE = "torch"
CUDA = "torch-cuda"
HIP = "torch-hip"
BACKENDS = {CUDA: "CUDA", HIP: "ROCm"}
"""Each project on the CUDA key, and what its toolkit is called."""
LIBRARIES = "torch-cuda-libraries"
"""What of torch-cuda is the same for all Pythons, where that is a wheel of its own (`decouple.build.wheel_split`)."""
PAIRED = "paired"
"""Part of the local version of bindings for a core that brings its CUDA (`decouple.build.wheel_pair`)."""
_CUDA, _GPU = re.compile(r"cu[0-9]{2,4}"), re.compile(r"sm[0-9]{2,3}[af]?")
_ROCM, _GFX = re.compile(r"rocm([0-9]{1,2})\.([0-9]{1,2})(?![0-9])"), re.compile(r"gfx[0-9a-f]{3,5}[a-z0-9]*")


def name_libraries(project: str) -> str:
    """Name the project of the libraries of ``project``.

    They are the same for all Pythons.

    >>> name_libraries(CUDA) == LIBRARIES
    True
    """
    return f"{project}-libraries"


def parse_cuda_label(local: str | None) -> str | None:
    """Return which CUDA, and which GPUs alone, a local version names.

    Returns None where it names no CUDA.

    >>> parse_cuda_label("cu124.2"), parse_cuda_label("cu124.official.sm90"), parse_cuda_label("decoupled")
    ('cu124', 'cu124.sm90', None)
    """
    first, *rest = (local or "").split(".")
    return ".".join([first, *filter(_GPU.fullmatch, rest)]) if _CUDA.fullmatch(first) else None


def parse_toolkit_label(local: str | None) -> str | None:
    """Return the same of any vendor's toolkit: as an index of its files is called.

    >>> parse_toolkit_label("cu124.2"), parse_toolkit_label("rocm6.4.slice"), parse_toolkit_label("rocm6.4.gfx90a")
    ('cu124', 'rocm64', 'rocm64.gfx90a')
    """
    match = _ROCM.match(local or "")
    if match is None:
        return parse_cuda_label(local)
    rest = (local or "")[match.end() :].split(".")
    return ".".join([f"rocm{match[1]}{match[2]}", *filter(_GFX.fullmatch, rest)])


def parse_metadata(metadata: bytes) -> Message:
    """Parse the fields of METADATA. Raises ValueError where it is no text."""
    from email.parser import HeaderParser

    return HeaderParser().parsestr(metadata.decode())


def parse_requirements(fields: Message) -> list[Requirement]:
    """Parse what a wheel asks for. Raises ValueError for what is no requirement."""
    from packaging.requirements import Requirement

    return [Requirement(value) for value in fields.get_all("Requires-Dist") or ()]


def find_unmodified_core(project: str, requirements: Iterable[Requirement]) -> Requirement | None:
    """Find what a wheel of ``project`` asks for that goes on an unmodified torch.

    It names no local version, so pip takes a patched core for it, too, which does not go with it. None of another
    wheel.
    """
    asked = (one for one in requirements if project in BACKENDS and one.name == CORE)
    return next((one for one in asked if "+" not in str(one.specifier)), None)


def parse_digests(record: bytes) -> dict[str, str]:
    """Map each member to its SHA-256 as hex, of RECORD's rows that have one.

    Raises ValueError for what is no base64 or no text.
    """
    rows = [row for row in csv.reader(record.decode().splitlines()) if len(row) == 3 and row[1].startswith("sha256=")]
    return {row[0]: base64.urlsafe_b64decode(row[1].removeprefix("sha256=") + "==").hex() for row in rows}
