"""``scripts/bench/build.py``: it builds again what was built, and nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from decouple.base.paths import find_project
from decouple.build import inputs
from decouple.build.environment import Places
from tests.unit.index.wheels import make_manifest, make_wheel


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # a bench takes it away
    folder = find_project() / "scripts" / "bench"
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("bench_build", folder / "build.py")  # "build" is a package of PyPI's
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_build(folder: Path, unchecked: str) -> Places:
    """The wheels of ``build 2.6 --arch '8.0;9.0' --no-flash --revision 2``, each with the stamp that names it."""
    places = Places.of_release(folder, "2.6", folder / "cache")
    places.create_folders()
    core = replace(make_manifest("torch", "2.6.0+decoupled.2", None, "a" * 64), flags={"profile": "kineto-cupti"})
    backend = replace(
        make_manifest("torch-cuda", "2.6.0+cu124.2", "12.4", "a" * 64),
        flags={"flash": False},
        arch_list=("8.0", "9.0"),
        toolchain={"inputs": {"unchecked": [unchecked]}},
    )
    for number, made in enumerate((core, backend), start=1):
        wheel = make_wheel(places.dist, made.project, made.version, manifest=made.to_json())
        stamp = inputs.Stamp("0" * 64, wheel.name, "0" * 64, 1.0, 1)
        inputs.write_stamp(places.state / f"stage{number}.json", stamp)
    return places


def test_a_build_is_made_again_with_its_own_options(tmp_path: Path, bench: Any) -> None:
    """For the usual architecture hours were compiled, and the wheel for another one was replaced."""
    options = bench.list_options(make_build(tmp_path, "ccache"))
    assert options == ["--arch", "8.0;9.0", "--profile", "kineto-cupti", "--revision", "2", "--no-flash"]


def test_a_build_of_the_machines_own_toolchain_is_not_made_again_in_a_root(
    tmp_path: Path, bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = make_build(tmp_path, "this machine")
    monkeypatch.setattr(bench, "find_project", lambda: tmp_path)
    monkeypatch.setattr(bench, "find_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(bench, "run_decouple", lambda *words: pytest.fail(f"runs {words}"))
    assert bench.measure_build(places.release, False, []) is None
    assert "this machine's own toolchain" in capsys.readouterr().out
