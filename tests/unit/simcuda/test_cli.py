"""What ``python -m simcuda run`` makes before it becomes the command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from simcuda import build, cli, torchbuild


@pytest.mark.parametrize(("words", "made"), [(["--no-shadows"], "stand-ins"), ([], "shadow")])
def test_nothing_is_compiled_for_a_torch_where_no_shadow_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], made: str
) -> None:
    for name in ("stand-ins", "shadow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "preload").write_text("libcudart.so.12\n")
    seen: dict[str, str] = {}
    monkeypatch.setattr(torchbuild, "find_torch_build", lambda *_: SimpleNamespace(site=tmp_path, word="cuda"))
    monkeypatch.setattr(build, "read_cuda_version", lambda _: "12.4")
    monkeypatch.setattr(build, "make_stand_ins", lambda *_: tmp_path / "stand-ins")
    monkeypatch.setattr(build, "make_device_libraries", lambda *_, **__: tmp_path / "shadow")
    monkeypatch.setattr("simcuda.launch_environment.fix_addresses", lambda: True)
    monkeypatch.setattr("os.execve", lambda program, command, env: seen.update(env))
    cli.main(["run", *words, "true"])
    assert seen["LD_PRELOAD"].startswith(str(tmp_path / made))
    assert ("SIMCUDA_SHADOW" in seen) == (made == "shadow")


@pytest.mark.parametrize("folder", ["my cache", "a:b", "a;b"])
@pytest.mark.parametrize("words", [["run"], ["run", "--built"], ["record"]])
def test_a_folder_that_the_linker_would_take_for_two_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], folder: str
) -> None:
    """The linker ignored the halves of such a path with a warning, and torch saw no device."""
    built = words[1:] == ["--built"]
    monkeypatch.setenv("SIMCUDA_CACHE", str(tmp_path if built else tmp_path / folder))
    for name in ("make_stand_ins", "make_device_libraries", "make_recorder"):
        monkeypatch.setattr(build, name, lambda *_, **__: pytest.fail("made"))
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("run"))
    assert cli.main([*words, *([str(tmp_path / folder)] if built else []), "true"]) == 1
    told = capsys.readouterr().err
    assert f"{tmp_path / folder}: has a blank, ':' or ';'" in told and "next: set SIMCUDA_CACHE" in told
