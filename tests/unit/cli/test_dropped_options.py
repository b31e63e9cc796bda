"""An option that the command as it was typed would not read is refused, so that no exit code says it was heeded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.cli import main

_PROJECT = find_project()
#: what is typed -> the options that nothing would read
LINES = {
    "verify W.whl --kernels official": "--kernels",
    "verify W.whl --python /none --env portable --cuda 99 --over monolith": "--env, --python, --cuda, --over",
    "verify W.whl --no-parity": "--no-parity",
    "verify W.whl --explain --key K": "--key",
    "verify 2.6 --env portable --no-tests --no-extensions": "--no-extensions, --no-tests",
    "verify 2.6 --core official --no-parity": "--no-parity",
    "record 2.6 --trial x=/none": "--trial",
    "record 2.6 --headers": "--headers",
    "record 2.6 --compiler g++ --from-source github": "--compiler, --from-source",
    "record 2.6 --seconds rootfs --census F": "--census",
    "record 2.15 --offline": "--offline",
    "record 2.15 --census F --source github": "--census, --source",
    "record 2.15 --trial x=/none --headers": "--headers",
    "record 2.15 --headers --from-source github": "--from-source",
    "record 2.15 --compiler g++": "--compiler",
    "build 2.6 --estimate --shard 9/8": "--shard",
    "build 2.6 --estimate --kernels offical": "--kernels offical",
    "build 2.6 --estimate --core official": "--core official",
    "build 2.6 --estimate --cache nowhere": "--cache nowhere",
    "build 2.6 --estimate --kernels monolith --env host": "--kernels monolith",
    "build 2.6 --estimate --kernels monolith --env portable --core built": "--kernels monolith",
    "test-cuda 2.6 --outcomes": "--outcomes",
    "test-cuda 2.6 --sides a/b": "--sides",
    "test-cuda 2.6 --files 3": "--files",
    "test-cuda 2.6 --every": "--every",
    "test-cuda 2.6 --slice 3 --every": "--every",
    "kernels unpatched 2.6 --minutes 3": "--minutes",
    "contract 2.6 --table": "release",
    "test-cuda 2.6 --seed 1": "--seed",
    "test-cuda 2.6 torch --list": "suite",
    "test-cuda 2.6 --compare A B --keep F -k word": "--keep, -k",
    "contract --table --core stock": "--core",
    "apply 2.6 --also FILE": "--also",
    "rebase --continue --via=9.9": "--via",
    "rebase --restart --reason words --source /none": "--source, --reason",
    "rebase 2.15 --skip --replace": "releases, --replace",
    "rebase --abort --format json": "--format",
    "rebase 2.15 --reason words": "--reason",
    "rebase 2.15 --report --replace": "--replace",
    "manifest fill 2.6 --ref main": "--ref",
    "manifest fill mine-2.7 --tree /none --ref main": "--ref",
    "manifest fill mine-2.7 --tree /none --git https://127.0.0.1:9/x.git": "--git",
    "upstream watch --source /none --ref main": "--ref",
    "parity 2.6 --against /none --wheels /none": "--wheels /none",
    "parity 2.6 --python /none --kernels official": "--kernels official",
}


#: what is typed -> the value that says nothing, or all of something that is not there
VALUES = {
    "parity 2.6 --jobs -1": "--jobs -1",
    "census 2.6 --jobs -1": "--jobs -1",
    "contract 2.6 --jobs -1": "--jobs -1",
    "test-cuda 2.6 --device simulated --devices 0": "--devices 0",
    "stages units 2.6 --count -1": "--count -1",
    "kernels unpatched 2.6 --files 0": "--files 0",
    "smoke 2.6 --minutes 0": "--minutes 0",
    "smoke 2.6 --minutes nan": "--minutes nan",
    "contract 2.6 --pytest='": "--pytest",
    "check 2.6 --under /none": "--under /none",
    "check 2.6 --source local:": "local",
    "forecast 2.6 --on main=": "--on main=",
    "build 2.15 --estimate --env rootfs": "release 2.15",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a series for 2.6, none for 2.15, and nothing built."""
    for name in ("series", "patches", "third_device"):
        (tmp_path / "checkout" / name).mkdir(parents=True)
    for release in ("2.6", "2.15"):
        shutil.copyfile(_PROJECT / f"series/{release}.toml", tmp_path / f"checkout/series/{release}.toml")
    (tmp_path / "checkout/series/2.6").write_text("")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path / "checkout"))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "checkout"


@pytest.mark.parametrize("line", VALUES)
def test_a_value_that_cannot_be_is_refused(line: str, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some ended as a fault of decouple's own, and ``--minutes 0`` set no limit at all."""
    assert main(line.split()) == 2
    assert capsys.readouterr().err.startswith(f"decouple: {VALUES[line]}: ")


@pytest.mark.parametrize("line", LINES)
def test_an_option_that_nothing_would_read_is_refused(
    line: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"decouple: {LINES[line]}: "), said.err
    assert not (checkout / "ci").exists()


def test_what_is_read_is_taken(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of these lines comes to its work, which ends for want of something else."""
    monkeypatch.setattr("decouple.base.process.show_commands", lambda say: None)
    for line, lacks in {
        "verify W.whl --key K --rebuild": "W.whl",
        "-v verify W.whl --explain --json": "W.whl",
        "verify 2.6 --no-parity --no-tests --no-extensions": "nothing built yet",
        "verify 2.6 --core official --env portable --cuda 12.4 --all": "nothing built yet",
        "test-cuda 2.6 --compare A B --sides a/b --all": "A",
    }.items():
        assert main(line.split()) in (1, 2)
        said = capsys.readouterr().err
        assert lacks in said and "leave it out" not in said, said
    assert main(["test-cuda", "2.6", "--list"]) == 0
    assert main(["build", "2.6", "--estimate", "--kernels", str(checkout)]) == 0
