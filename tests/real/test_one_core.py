"""One unmodified core under three backends: its files stay, each says who it is.

Debian's CPU torch, with the wheels of ``nox -s smoke-2.6`` (CUDA 12.4), ``nox -s smoke-hip-2.6`` (ROCm 6.4) and of
`BUILD` (CUDA 11.8). The libraries of the last are NVIDIA's wheels, as it asks for them: 3 GB, removed at the end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from decouple.base.files import compute_sha256
from decouple.base.interpreter import run_python
from decouple.base.paths import find_cache, find_project
from decouple.build import inputs, pypi_files, root_description, settings, toolkits
from decouple.build.environment import Places, RootEnvironment
from decouple.flows import test_cuda as flow
from decouple.flows import verify_portable
from decouple.flows.listener import QUIET
from decouple.flows.work_environment import WorkRequest, open_environment
from decouple.verify import upstream_tests, venvs
from decouple.verify.venvs import TorchEnvironment, Workplace

BUILD = "decouple build {release} --stage 2 --core stock --cuda 11.8 --slice runtime --env rootfs --no-flash"
#: Of upstream's CPU tests that `verify` runs those that take a minute.
CPU_TESTS = ("test_torch.py", "test_serialization.py", "test_utils.py", "test_autocast.py")
#: What a backend says of itself, and whose runtime is in the process.
VERSIONS = """
import json, re, torch
loaded = set(re.findall(r"/(libcudart[.]so[.][0-9]+|libamdhip64[.]so[.][0-9]+)", open("/proc/self/maps").read()))
told = [torch.__version__, torch.version.cuda, torch.version.hip, torch.cuda._CUDAC.__name__, sorted(loaded)]
print(json.dumps(told))
"""
WORK = WorkRequest(find_project(), "2.6", env="rootfs")
#: The folder with cuDNN for the root's own CUDA, in the library path of whatever runs on this core.
OTHER_CUDNN = "/opt/cudnn/lib"

pytestmark = [pytest.mark.real, pytest.mark.slow]


def find_wheel(places: Places, command: str) -> Path:
    """The wheel of the build ``command``."""
    stamp = inputs.read_stamp(places.state / "stage2.json")
    if stamp is None:
        pytest.skip(f"no wheel of `{command.format(release='2.6')}`")
    return places.dist / stamp.wheel


@pytest.fixture(scope="module")
def wheels() -> dict[str, Path]:
    """Those of CUDA 12.4, CUDA 11.8 and ROCm."""
    smoke, hip = flow.IN_ROOT["smoke"], flow.IN_ROOT["smoke-hip"]
    return {
        "cuda": find_wheel(smoke.places(WORK), smoke.command),
        "cuda11.8": find_wheel(smoke.places(WORK).with_cuda("rootfs", "11.8"), BUILD),
        "hip": find_wheel(hip.places(WORK), hip.command),
    }


@pytest.fixture(scope="module")
def place(wheels: dict[str, Path]) -> Workplace:
    """A root with both vendors' libraries and the core."""
    places: Places = flow.IN_ROOT["smoke"].places(WORK)
    layers = toolkits.list_vendor_layers("rocm", ["core", "stock"], part=True)
    environment = open_environment(WORK, places, [*layers, "cuda"], QUIET)
    return Workplace(environment, places.verify, environment.name_places()["verify"], places.logs / "verify.log")


def install(place: Workplace, name: str, *wheels: Path, without: str = "") -> TorchEnvironment:
    """An environment with the core and these wheels, and a library path without that folder."""
    table, kind = settings.find_core("stock"), place.environment.kind
    libraries = toolkits.list_vendor_variables("rocm", (), table.find_libraries(kind))["LD_LIBRARY_PATH"]
    libraries = ":".join(part for part in libraries.split(":") if part != without)
    return venvs.install_wheels(place, f"one-core-{name}", wheels, packages=table.packages, libraries=libraries)


@pytest.fixture(scope="module")
def older(place: Workplace, wheels: dict[str, Path]) -> Iterator[TorchEnvironment]:
    """The environment of CUDA 11.8, with its libraries of PyPI."""
    wheel = wheels["cuda11.8"]
    torch = install(place, "cuda11.8", wheel, without=OTHER_CUDNN)
    [toolkit] = root_description.load_description().find_layer("cuda11.8").toolkit
    asked = {requirement.partition(";")[0].strip() for requirement in verify_portable.list_libraries(wheel)}
    pinned = [piece for piece in toolkit.wheels if f"{piece.project}=={piece.version}" in asked]
    assert len(pinned) == len(asked)
    files = list(pypi_files.fetch_pypi_files(pinned, find_cache() / "pypi", place.log).values())
    [site] = (torch.folder / "venv/lib").glob("python3*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile", "--upgrade"]
    subprocess.run([*pip, "--target", site, *files], check=True)
    yield torch
    shutil.rmtree(torch.folder)  # whole: an environment without them is no longer that one


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


def test_a_core_has_one_backend_after_the_other_and_stays_as_it_was(
    place: Workplace, wheels: dict[str, Path], older: TorchEnvironment
) -> None:
    before = hash_core(place)
    assert any(name.endswith("libtorch_cpu.so.2.6.0") for name in before)
    told: dict[str, list[str | None]] = {}
    outcomes: dict[str, Mapping[str, str]] = {}
    suites = [suite for suite in upstream_tests.load_suites() if suite.file in CPU_TESTS]
    tests = f"{place.environment.name_places()['tree']}/test"
    tried = {
        "alone": install(place, "alone"),
        "cuda": install(place, "cuda", wheels["cuda"]),
        "cuda11.8": older,
        "hip": install(place, "hip", wheels["hip"]),
    }
    for name, torch in tried.items():
        if name != "alone":
            status, line = ask(torch, VERSIONS)
            assert status == 0, line
            told[name] = json.loads(line)
        outcomes[name] = upstream_tests.run_suites(torch, tests, suites, place.log)
        assert hash_core(place) == before, name
    release, hip = told["cuda"][0], told["hip"][2]
    assert told == {
        "cuda": [release, "12.4", None, "torch_cuda._CUDAC", ["libcudart.so.12"]],
        "cuda11.8": [release, "11.8", None, "torch_cuda._CUDAC", ["libcudart.so.11"]],
        "hip": [release, None, hip, "torch_hip._CUDAC", ["libamdhip64.so.6"]],
    }
    assert hip is not None and hip.startswith("6.4.")
    counted = {name: sum(outcome == "passed" for outcome in seen.values()) for name, seen in outcomes.items()}
    assert all(seen == outcomes["alone"] for seen in outcomes.values()) and counted["alone"] > 0
    print(f"{len(before)} files, {told}, CPU tests passed: {counted}")


def test_both_vendors_in_one_environment_are_refused_unless_one_is_chosen(
    place: Workplace, wheels: dict[str, Path]
) -> None:
    before, torch = hash_core(place), install(place, "both", wheels["cuda"], wheels["hip"])
    status, line = ask(torch, VERSIONS)
    assert status and "TORCH_CUDA_BACKEND" in line
    for word, versions in {"cuda": ["12.4", None], "hip": [None, "6.4.43484"]}.items():
        status, line = ask(torch, VERSIONS, TORCH_CUDA_BACKEND=word)
        assert status == 0, line
        assert json.loads(line)[1:4] == [*versions, f"torch_{word}._CUDAC"]
    assert hash_core(place) == before


def test_an_environment_has_one_cuda(place: Workplace, wheels: dict[str, Path]) -> None:
    """Both wheels are of the project torch_cuda: pip refuses two at once, and puts one in the place of the other."""
    pip = ("-m", "pip", "install", "--no-deps", "--no-index", "--no-compile")
    files = {name: f"{place.inside}/one-core-two/wheels/{wheels[name].name}" for name in ("cuda", "cuda11.8")}
    torch = install(place, "two", wheels["cuda"])
    shutil.copy2(wheels["cuda11.8"], torch.folder / "wheels")
    refused = run_python([*torch.prefix, *pip, *files.values()])
    sentence = refused.stderr.splitlines()[0]
    assert refused.returncode and "Cannot install torch-cuda" in sentence, refused.stderr
    assert all(f"torch-cuda 2.6.0+{label}.slice" in sentence for label in ("cu118", "cu124")), sentence
    done = run_python([*torch.prefix, *pip, files["cuda11.8"]])
    assert done.returncode == 0, done.stderr
    [site] = (torch.folder / "venv/lib").glob("python3*/site-packages")
    assert [path.name for path in site.glob("torch_cuda-*.dist-info")] == ["torch_cuda-2.6.0+cu118.slice.dist-info"]
    assert json.loads((site / "torch_cuda/build_info.json").read_text())["cuda"] == "11.8"
    shutil.rmtree(torch.folder)  # it holds another wheel than it was made for
