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
