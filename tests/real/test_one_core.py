"""One unmodified core under two vendors' backends: its files stay, each says who it is.

Debian's CPU torch, with the wheels of ``nox -s smoke-2.6`` (CUDA 12.4) and ``nox -s smoke-hip-2.6`` (ROCm 6.4). CUDA
11.8 takes none of this root's compilers: its backend is built against another core.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from decouple.base.files import compute_sha256
from decouple.base.interpreter import run_python
from decouple.base.paths import find_project
from decouple.build import inputs, settings, toolkits
from decouple.build.environment import Places, RootEnvironment
from decouple.flows import test_cuda as flow
from decouple.flows.listener import QUIET
from decouple.flows.work_environment import WorkRequest, open_environment
from decouple.verify import upstream_tests, venvs
from decouple.verify.venvs import TorchEnvironment, Workplace

#: Of upstream's CPU tests that `verify` runs those that take a minute.
CPU_TESTS = ("test_torch.py", "test_serialization.py", "test_utils.py", "test_autocast.py")
VERSIONS = """
import json, torch
print(json.dumps([torch.__version__, torch.version.cuda, torch.version.hip, torch.cuda._CUDAC.__name__]))
"""
WORK = WorkRequest(find_project(), "2.6", env="rootfs")

pytestmark = [pytest.mark.real, pytest.mark.slow]


def find_wheel(word: str) -> Path:
    """The wheel of that smoke run."""
    known = flow.IN_ROOT[word]
    places = known.places(WORK)
    stamp = inputs.read_stamp(places.state / "stage2.json")
    if stamp is None:
        pytest.skip(f"no wheel of `{known.command.format(release='2.6')}`")
    return places.dist / stamp.wheel


@pytest.fixture(scope="module")
def wheels() -> list[Path]:
    """That of CUDA and that of ROCm."""
    return [find_wheel("smoke"), find_wheel("smoke-hip")]


@pytest.fixture(scope="module")
def place(wheels: list[Path]) -> Workplace:
    """A root with both toolkits' libraries and the core."""
    places: Places = flow.IN_ROOT["smoke"].places(WORK)
    layers = toolkits.list_vendor_layers("rocm", ["core", "stock"])
    environment = open_environment(WORK, places, [*layers, "cuda"], QUIET)
    return Workplace(environment, places.verify, environment.name_places()["verify"], places.logs / "verify.log")


def install(place: Workplace, name: str, *wheels: Path) -> TorchEnvironment:
    """An environment with the core and these wheels."""
    table, kind = settings.find_core("stock"), place.environment.kind
    libraries = toolkits.list_vendor_variables("rocm", (), table.find_libraries(kind))["LD_LIBRARY_PATH"]
    return venvs.install_wheels(place, f"one-core-{name}", wheels, packages=table.packages, libraries=libraries)


def hash_core(place: Workplace) -> dict[str, str]:
    """SHA-256 of each file of the core, but for what Python compiled of it."""
    assert isinstance(place.environment, RootEnvironment)
    root = place.environment.root.tree / "opt/stock"
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
    paths = [path for path in files if path.parent.name != "__pycache__"]
    return {str(path.relative_to(root)): compute_sha256(path) for path in paths}


def ask(torch: TorchEnvironment, program: str, **variables: str) -> tuple[int, str]:
    """The exit status and the last line that a program in there printed."""
    python = torch.prefix[-1]
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), python]
    done = run_python([*torch.prefix[:-1], *words, "-B", "-c", program])
    return done.returncode, (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]


def test_a_core_has_one_backend_after_the_other_and_stays_as_it_was(place: Workplace, wheels: list[Path]) -> None:
    before = hash_core(place)
    assert any(name.endswith("libtorch_cpu.so.2.6.0") for name in before)
    told: dict[str, list[str | None]] = {}
    outcomes: dict[str, Mapping[str, str]] = {}
    suites = [suite for suite in upstream_tests.load_suites() if suite.file in CPU_TESTS]
    tests = f"{place.environment.name_places()['tree']}/test"
    for name, chosen in {"alone": [], "cuda": wheels[:1], "hip": wheels[1:]}.items():
        torch = install(place, name, *chosen)
        if chosen:
            status, line = ask(torch, VERSIONS)
            assert status == 0, line
            told[name] = json.loads(line)
        outcomes[name] = upstream_tests.run_suites(torch, tests, suites, place.log)
        assert hash_core(place) == before, name
    release, hip = told["cuda"][0], told["hip"][2]
    assert told == {
        "cuda": [release, "12.4", None, "torch_cuda._CUDAC"],
        "hip": [release, None, hip, "torch_hip._CUDAC"],
    }
    assert hip is not None and hip.startswith("6.4.")
    counted = [sum(outcome == "passed" for outcome in seen.values()) for seen in outcomes.values()]
    assert outcomes["alone"] == outcomes["cuda"] == outcomes["hip"] and counted[0] > 0
    print(f"{len(before)} files, {told}, {counted} CPU tests passed")


def test_both_in_one_environment_are_refused_unless_one_is_chosen(place: Workplace, wheels: list[Path]) -> None:
    before, torch = hash_core(place), install(place, "both", *wheels)
    status, line = ask(torch, VERSIONS)
    assert status and "TORCH_CUDA_BACKEND" in line
    for word, versions in {"cuda": ["12.4", None], "hip": [None, "6.4.43484"]}.items():
        status, line = ask(torch, VERSIONS, TORCH_CUDA_BACKEND=word)
        assert status == 0, line
        assert json.loads(line)[1:] == [*versions, f"torch_{word}._CUDAC"]
    assert hash_core(place) == before
