"""Files of PyPI for a root: asked of pip once for each Python, held to their hashes, whole where they stand."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.build import pypi_files, root_description


def test_a_piece_of_pypi_that_is_not_the_one_described(tmp_path: Path) -> None:
    piece = root_description.PypiPiece("x", "1", "x-1-py3-none-any.whl", "0" * 64, "/opt/x", ())
    (tmp_path / piece.file).write_bytes(b"other")
    with pytest.raises(DecoupleError, match="000000000000"):
        pypi_files.fetch_pypi_files([piece], tmp_path, tmp_path / "log")


def test_a_piece_of_pypi_stands_at_its_place_when_it_is_whole(tmp_path: Path) -> None:
    """pip copies: a kill left half a file there, and another checkout met it."""
    whole, seen = b"whole", list[bool]()
    file = "x-1-py3-none-any.whl"

    def run(argv: list[str], **_: object) -> None:
        (Path(argv[argv.index("-d") + 1]) / file).write_bytes(whole)
        seen.append((tmp_path / file).exists())

    tool = root_description.PipTool("x", "1", file, hashlib.sha256(whole).hexdigest())
    assert pypi_files.fetch_pypi_files([tool], tmp_path, tmp_path / "log", run)[tool.file].read_bytes() == whole
    assert seen == [False] and [path.name for path in tmp_path.iterdir()] == [file]


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("x-1-py3-none-any.whl", []),
        ("x-1-py2.py3-none-manylinux1_x86_64.whl", ["--platform=manylinux1_x86_64"]),
        (
            "x-1-cp39-cp39-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            [
                *("--platform=manylinux2014_x86_64", "--platform=manylinux_2_17_x86_64"),
                *("--python-version=39", "--implementation=cp", "--abi=cp39"),
            ],
        ),
    ],
)
def test_pip_is_told_whom_a_wheel_is_for(tmp_path: Path, file: str, options: list[str]) -> None:
    """The root's Python is not the one that runs decouple."""
    asked: list[list[str]] = []

    def run(argv: list[str], **_: object) -> None:
        asked.append(argv)
        (tmp_path / file).write_bytes(b"")

    tool = root_description.PipTool("x", "1", file, hashlib.sha256(b"").hexdigest())
    assert pypi_files.fetch_pypi_files([tool], tmp_path, tmp_path / "log", run) == {file: tmp_path / file}
    assert [word for word in asked[0] if word.startswith(("--platform", "--python", "--impl", "--abi"))] == options


def test_pip_is_started_once_for_all_files_of_a_python(tmp_path: Path) -> None:
    """Each start takes more than a second; the root for the bindings has seven files, that of the core thirteen."""
    described = root_description.load_description(root_description.PORTABLE)
    pinned = {piece.file: piece for layer in described.layers for piece in layer.pinned_files}
    pieces = [replace(piece, sha256=hashlib.sha256(piece.file.encode()).hexdigest()) for piece in pinned.values()]
    asked: list[list[str]] = []

    def run(argv: list[str], **_: object) -> None:
        wanted = Path(argv[-1]).read_text().splitlines()
        asked.append([line.partition("==")[0] for line in wanted])
        for piece in pieces:
            if f"{piece.project}=={piece.version} --hash=sha256:{piece.sha256}" in wanted:
                (Path(argv[argv.index("-d") + 1]) / piece.file).write_text(piece.file)

    assert set(pypi_files.fetch_pypi_files(pieces, tmp_path, tmp_path / "log", run)) == set(pinned)
    assert len(asked) == 4, "of any Python, of 3.9, of 3.11, of 3.13"
    assert all(len(set(projects)) == len(projects) for projects in asked), "pip refuses two versions of a project"
    pypi_files.fetch_pypi_files(pieces, tmp_path, tmp_path / "log", run)
    assert len(asked) == 4, "all of them are there"
