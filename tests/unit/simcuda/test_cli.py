"""What ``python -m simcuda run`` makes before it becomes the command."""

from __future__ import annotations

import os
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
    monkeypatch.setattr(torchbuild, "look", lambda *_: SimpleNamespace(site=tmp_path))
    monkeypatch.setattr(build, "cuda_of", lambda _: "12.4")
    monkeypatch.setattr(build, "stand_ins", lambda *_: tmp_path / "stand-ins")
    monkeypatch.setattr(build, "build", lambda *_, **__: tmp_path / "shadow")
    monkeypatch.setattr("simcuda.launch_environment.fixed_addresses", lambda: True)
    monkeypatch.setattr("os.execve", lambda program, command, env: seen.update(env))
    cli.main(["run", *words, "true"])
    assert seen["LD_PRELOAD"].startswith(str(tmp_path / made))
    assert ("SIMCUDA_SHADOW" in seen) == (made == "shadow")


def test_another_c_library_has_stand_ins_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bookworm Python was given what a trixie root had linked: version GLIBC_2.38 not found."""
    before = build.fingerprint("12.4")
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36-of-another-root")
    assert build.fingerprint("12.4") != before
