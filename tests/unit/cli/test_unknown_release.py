"""A word that is no release of this checkout is refused by every verb, in one line that lists those that there are; a
version is the release that it belongs to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from decouple.cli import main, parse_words, settle_release
from decouple.cli.menu import VERBS
from decouple.cli.stack_words import parse_release
from tests.support.series import usual_world

WITHOUT = {"manifest", "repack", "status-table", "index",
           "new-device", "neutral"}  # fmt: skip
#: verb -> the words behind it; the checkout has 2.6, and 9.9 is none
WORDS = {
    **{verb: "9.9" for verb in VERBS if verb not in WITHOUT},
    **dict.fromkeys(("new", "add", "rename", "import", "export"), "9.9 x"),
    "bisect": "9.9 -- true",
    "rebase": "9.9 2.6",
    "upstream": "patch plan --release 9.9",
    "kernels": "unpatched 9.9",
    "try": "wheels 9.9 bookworm",
    "test-cuda": "9.9 --list",
    "stages": "units 9.9",
    "wheels": "9.9 --index nowhere",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = usual_world(tmp_path_factory.mktemp("world")).project
    (made / "series/2.6.toml").touch()  # nobody reads it: it is one of those that are told
    return made


@pytest.fixture
def unchanged(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout for commands that change nothing; a folder beside it is the cache."""
    monkeypatch.setenv("DECOUPLE_PROJECT", str(project))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def here(unchanged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of its own."""
    own = tmp_path / "own"
    for name in ("series", "patches", "third_device"):
        shutil.copytree(unchanged / name, own / name)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(own))
    monkeypatch.chdir(own)
    return own


def seen(project: Path) -> list[Path]:
    """All that is there, but for the folder of a rebase that ended before it began."""
    return [path for path in sorted(project.rglob("*")) if path != project / "build/rebase"]


@pytest.mark.parametrize("verb", WORDS)
def test_an_unknown_release_is_refused(verb: str, unchanged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = seen(unchanged)
    code = main([verb, *WORDS[verb].split()])
    said = capsys.readouterr()
    assert (code, said.out) == (2, ""), said
    what, advice = said.err.splitlines()
    assert "9.9" in what and "2.6" in what + advice
    assert seen(unchanged) == before


def test_what_is_refused_can_be_deleted_by_nobody(here: Path) -> None:
    """`clean` makes a path of the word that it is given."""
    (here / "build").mkdir()
    (here / "kept").mkdir()
    assert main(["clean", "../kept", "--rootfs"]) == 2
    assert (here / "kept").is_dir()


def test_a_release_without_a_series_is_not_taken_for_a_patch(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "series/2.7.toml").touch()
    assert main(["series", "2.7"]) == 2 and "2.6" in capsys.readouterr().err


@pytest.mark.parametrize("verb", WORDS)
def test_a_version_is_its_release_to_every_verb(verb: str, unchanged: Path) -> None:
    """A verb makes paths of the word: of `2.6.0` it made `patches/2.6.0` and `build/2.6.0` beside those of 2.6."""
    arguments = parse_words([verb, *WORDS[verb].replace("9.9", "2.6.0").split()])
    settle_release(arguments)
    if "rest" in arguments and arguments.rest == "words":
        assert parse_release(arguments)[0].release == "2.6"
    else:
        said = vars(arguments).get("releases") or vars(arguments)["release"]
        assert said in ("2.6", ["2.6"], ["2.6", "2.6"])


def test_a_version_that_is_called_so_here_stays(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another tree may have the name of a version, and what is in its series is then meant."""
    shutil.copyfile(here / "series/2.6", here / "series/2.6.0")
    (here / "series/2.6").write_text("")
    assert main(["series", "2.6.0"]) == 0 and "0003" in capsys.readouterr().out
    assert main(["clean", "2.7.0rc3"]) == 2, "that is no version of 2.7"
