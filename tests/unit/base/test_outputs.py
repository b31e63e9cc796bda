"""Files that a person names for an output: devices, pipes and links stay what they are."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.files import check_output, write_output
from decouple.cli import main
from tests.support.series import usual_world


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A named pipe, and the end at which it is read."""
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    yield tmp_path / "pipe", end
    os.close(end)


def test_a_pipe_takes_it_and_stays_a_pipe(pipe: tuple[Path, int]) -> None:
    path, end = pipe
    write_output(path, "text")
    assert os.read(end, 1 << 16) == b"text" and path.is_fifo()


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("report.json")
    for text in ("first", "second"):
        write_output(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "report.json").read_text() == text


def test_a_folder_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, Path("/")):
        with pytest.raises(IsADirectoryError):
            write_output(folder, "text")


def test_a_link_to_itself_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    write_output(tmp_path / "link", "text")
    assert (tmp_path / "link").read_text() == "text"


@pytest.mark.parametrize(
    "line",
    [
        "census 2.6 --json",
        "census 2.6 --html",
        "forecast 2.6 --json",
        "forecast 2.6 --html",
        "kernels dump LIBRARY -o",
        "parity 2.6 --json",
        "rebase 2.7 --output",
        "stages units 2.6 --opened",
        "stages reuse 2.6 --header",
        "test-cuda 2.6 --keep",
        "upstream watch --report",
        "upstream watch --state",
    ],
)
def test_one_that_cannot_be_written_is_told_before_the_work(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(usual_world(tmp_path / "world").project))
    (tmp_path / "file").touch()
    for path, why in ((tmp_path / "file/report", "Not a directory"), (tmp_path, "Is a directory")):
        assert main([*line.split(), str(path)]) == 2
        assert capsys.readouterr().err.startswith(f"decouple: {path}: {why}\n")


def test_one_that_can_be_written_is_not_touched_before(pipe: tuple[Path, int], tmp_path: Path) -> None:
    (tmp_path / "old").write_text("text")
    (tmp_path / "link").symlink_to("old")
    before = sorted(tmp_path.iterdir())
    for path in (tmp_path / "old", tmp_path / "link", tmp_path / "new/folder/file", pipe[0], Path("/dev/stdout")):
        check_output(path)
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "old").read_text() == "text"


def test_a_name_that_is_no_utf8_is_escaped(tmp_path: Path) -> None:
    write_output(tmp_path / "report.json", json.dumps("caf\udce9", ensure_ascii=False))
    assert json.loads((tmp_path / "report.json").read_text()) == "caf\udce9"


def test_a_command_writes_its_report_through_a_pipe(
    pipe: tuple[Path, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, end = pipe
    monkeypatch.setenv("DECOUPLE_PROJECT", str(usual_world(tmp_path / "world").project))
    main(["forecast", "2.6", "--json", str(path)])
    assert json.loads(os.read(end, 1 << 16))


def test_a_pipe_without_a_name_takes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``--json /dev/stdout | jq`` and ``--json >(jq)`` do: "No such file or directory" was the answer."""
    monkeypatch.setenv("DECOUPLE_PROJECT", str(usual_world(tmp_path / "world").project))
    end, into = os.pipe()
    assert main(["forecast", "2.6", "--json", f"/dev/fd/{into}"]) == 0
    assert json.loads(os.read(end, 1 << 16))


def test_what_can_be_written_is_written(tmp_path: Path) -> None:
    """Of a new folder in /dev/shm, a disk in memory, only the end of the work told that it is not there."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        for path in (tmp_path / "new/folder/file", Path(memory, "new/folder/file")):
            check_output(path)
            write_output(path, "text")
            assert path.read_text() == "text"
