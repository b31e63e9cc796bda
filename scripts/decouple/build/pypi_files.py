"""Fetch the files of PyPI that a root's description pins."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from decouple.base.errors import DecoupleError
from decouple.base.extras import explain_missing
from decouple.base.files import compute_sha256, make_work_folder, write_atomically
from decouple.base.interpreter import OWN
from decouple.base.process import run_logged
from decouple.build.root_description import PipTool, PypiPiece


def fetch_pypi_files(
    pieces: Sequence[PypiPiece | PipTool], folder: Path, log: Path, run: Callable[..., None] = run_logged
) -> dict[str, Path]:
    """Fetch files of PyPI into ``folder`` by pip; returns the path of each name.

    Pip verifies the hash and knows the user's own index settings. It is started once for all files of a Python.

    Raises DecoupleError when one cannot be had or is not the one described.
    """
    made = {piece.file: folder / piece.file for piece in pieces}
    missing: dict[tuple[str, ...], dict[str, PypiPiece | PipTool]] = {}
    for piece in pieces:
        if not made[piece.file].exists():
            missing.setdefault(_make_python_options(piece.file), {})[piece.file] = piece
    if missing and importlib.util.find_spec("pip") is None:
        raise explain_missing("pip", "build")
    for options, asked in missing.items():
        _download_files(list(asked.values()), options, folder, log, run)
    for piece in pieces:
        path = made[piece.file]
        if not path.exists() or compute_sha256(path) != piece.sha256:
            raise DecoupleError(
                f"{path}: not the file with SHA-256 {piece.sha256[:12]}…", next_step=f"delete {path} and run again"
            )
    return made


def _download_files(
    pieces: Sequence[PypiPiece | PipTool], options: Sequence[str], folder: Path, log: Path, run: Callable[..., None]
) -> None:
    names = ", ".join(f"{piece.project}=={piece.version}" for piece in pieces)
    platforms = sorted({platform for piece in pieces for platform in _list_platforms(piece.file)})
    lines = (f"{piece.project}=={piece.version} --hash=sha256:{piece.sha256}\n" for piece in pieces)
    told = [*(f"--platform={platform}" for platform in platforms), *options]
    # pip copies its files to their place piece by piece, and other checkouts use this folder
    with make_work_folder(folder, pieces[0].project) as work:
        wanted = work / "requirements.txt"
        write_atomically(wanted, "".join(lines))
        argv = [*OWN, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-d", str(work)]
        if all((folder / piece.file).exists() for piece in pieces):
            return  # another run fetched them while this one waited
        run([*argv, *told, "-r", str(wanted)], log=log, what=f"pip download {names}")
        for piece in pieces:
            if (work / piece.file).exists():
                (work / piece.file).replace(folder / piece.file)


def _list_platforms(file: str) -> set[str]:
    """Return the platforms that a wheel names (PEP 425): none for one of all."""
    return {tag.platform for tag in parse_wheel_filename(file)[3]} - {"any"}


def _make_python_options(file: str) -> tuple[str, ...]:
    """Make pip's options for a wheel of another Python: none for one of any."""
    tags = {(tag.interpreter, tag.abi) for tag in parse_wheel_filename(file)[3] if tag.interpreter.startswith("cp")}
    return tuple(
        option
        for interpreter, abi in sorted(tags)
        for option in (f"--python-version={interpreter[2:]}", "--implementation=cp", f"--abi={abi}")
    )
