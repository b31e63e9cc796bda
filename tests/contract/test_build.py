"""How a backend is built: by the toolkit that builds torch_cuda, and so that others can build on it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import backend_env
import pytest
from packaging.requirements import Requirement

from decouple.device.contract import SHARED
from decouple.device.scaffold import scaffold_backend

EXAMPLE = backend_env.THIRD_DEVICE / "examples" / "extension"
STABLE_EXAMPLE = backend_env.THIRD_DEVICE / "examples" / "stable_extension"

USE_EXTENSION = """
import torch, sim_scale
side = torch.sim.Stream("sim:1")
with torch.sim.stream(side):
    scaled = torch.ops.sim_scale.scale(torch.arange(4.0, device="sim:1"), 3.0)
side.synchronize()  # the other stream reads below
assert str(scaled.device) == "sim:1" and scaled.cpu().tolist() == [0, 3, 6, 9], scaled
print("scaled")
"""


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The layer's module, imported as a backend's setup.py does: by the path of the layer. Needs no torch."""
    monkeypatch.syspath_prepend(str(backend_env.THIRD_DEVICE / "layer"))
    return importlib.import_module("backend_build.extension")


def environment(interpreter: Path, packages: Path, **more: str) -> dict[str, str]:
    made = dict(backend_env.build_environment(interpreter), PYTHONPATH=str(packages), **more)
    made.pop("TORCH_DEVICE_BACKEND_AUTOLOAD")
    return made


def run(command: list[str], folder: Path, variables: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.timeout(1200)
def test_somebody_s_extension_of_a_backend(interpreter: Path, torch_sim: Path, tmp_path: Path) -> None:
    """Its kernel runs on the streams of the one library that the backend's own module uses, too."""
    project = shutil.copytree(EXAMPLE, tmp_path / "extension")
    variables = environment(interpreter, torch_sim)
    pip = [str(interpreter), "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps"]
    run([*pip, "--target", str(tmp_path / "site"), "."], project, variables)
    shutil.rmtree(project)
    variables["PYTHONPATH"] += os.pathsep + str(tmp_path / "site")
    assert "scaled" in run([str(interpreter), "-c", USE_EXTENSION], tmp_path, variables)


USE_STABLE_EXTENSION = USE_EXTENSION.replace("sim_scale", "sim_stable")


@pytest.mark.tools("nm")
@pytest.mark.timeout(1200)
def test_an_extension_that_outlives_a_release(interpreter: Path, torch_sim: Path, tmp_path: Path) -> None:
    """It asks PyTorch for nothing but C functions, whose meaning stays."""
    project = shutil.copytree(STABLE_EXAMPLE, tmp_path / "extension")
    variables = environment(interpreter, torch_sim)
    pip = [str(interpreter), "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps"]
    run([*pip, "--target", str(tmp_path / "site"), "."], project, variables)
    variables["PYTHONPATH"] += os.pathsep + str(tmp_path / "site")
    assert "scaled" in run([str(interpreter), "-c", USE_STABLE_EXTENSION], tmp_path, variables)
    (library,) = (tmp_path / "site").glob("sim_stable*.abi3.so")
    asked = subprocess.run(["nm", "-DC", "--undefined-only", str(library)], capture_output=True, text=True, check=True)
    names = [line.split(" U ")[1] for line in asked.stdout.splitlines() if " U " in line]
    assert not [name for name in names if name.startswith(("c10::", "at::", "torch::"))], names
    assert [name for name in names if name.startswith("aoti_torch_")]


@pytest.mark.timeout(1200)
def test_an_editable_install(interpreter: Path, torch_sim: Path, tmp_path: Path) -> None:
    """The Python half is read from the checkout; library, headers and module lie in the package there."""
    home = tmp_path / "third_device"
    for part in SHARED:
        shutil.copytree(backend_env.THIRD_DEVICE / part, home / part, ignore=shutil.ignore_patterns("build"))
    scaffold_backend(backend_env.THIRD_DEVICE / "template", home / "torch_sim", "sim")
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = run([str(interpreter), "-c", asked], tmp_path, dict(os.environ)).strip()
    subprocess.run([str(interpreter), "-m", "venv", str(tmp_path / "venv")], check=True)
    site = next((tmp_path / "venv" / "lib").glob("python3*/site-packages"))
    (site / "torch.pth").write_text(packages + "\n")
    python = str(tmp_path / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "-e", str(home / "torch_sim")]
    run(pip, tmp_path, backend_env.build_environment(interpreter, home / "torch_sim"))
    used = "import torch, torch_sim; print(torch_sim.__file__, (torch.ones(2, device='sim') + 1).tolist())"
    variables = dict(os.environ)
    variables.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    assert run([python, "-c", used], tmp_path, variables).split()[0] == str(home / "torch_sim/torch_sim/__init__.py")


@pytest.mark.tools("nm", "readelf")
@pytest.mark.timeout(600)
def test_the_library_shows_its_interface_and_nothing_else(torch_sim: Path) -> None:
    library = torch_sim / "torch_sim" / "lib" / "libtorch_sim.so"
    said = subprocess.run(["nm", "-DC", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    functions = {line.split(" T ")[1] for line in said.stdout.splitlines() if " T " in line}
    assert "third_device::native_current_stream(int)" in functions
    stable = {"third_device_table", "third_device_current_stream"}  # C, of third_device/stable.h
    assert stable < functions
    assert not [name for name in functions - stable if not name.startswith("third_device::")], functions
    needed = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    assert "[libtorch_cpu.so]" in needed and "libtorch_python" not in needed and "libpython" not in needed


def test_a_missing_part_of_third_device_is_named(extension: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir()
    with pytest.raises(SystemExit, match=r"torch_acme: .*wrapped_cmake is missing; next: set THIRD_DEVICE"):
        extension.backend("acme", tmp_path / "torch_acme", tmp_path)


@pytest.mark.parametrize("project", ["template", "torch_puone"])
def test_a_backend_apart_from_third_device_asks_for_it(tmp_path: Path, project: str) -> None:
    folder = shutil.copytree(backend_env.THIRD_DEVICE / project, tmp_path / project)
    variables = {key: value for key, value in os.environ.items() if key != "THIRD_DEVICE"}
    command = [sys.executable, "setup.py", "--name"]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"{tmp_path}/layer is missing; next: set THIRD_DEVICE to third_device of a checkout")


def test_an_sdist_is_refused_since_the_layer_lies_beside_it(interpreter: Path, tmp_path: Path) -> None:
    """`python -m build` would make the wheel of the sdist, in a folder that no layer is beside."""
    scaffold_backend(backend_env.THIRD_DEVICE / "template", tmp_path, "acme")
    variables = {**os.environ, "THIRD_DEVICE": str(backend_env.THIRD_DEVICE)}
    command = [str(interpreter), "setup.py", "-q", "sdist"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert "torch_acme has no sdist: it builds beside the layer; next: python -m build --wheel" in done.stderr
    assert done.returncode == 1 and not (tmp_path / "dist").exists()


def test_sub_packages_of_a_vendor_are_installed(interpreter: Path, tmp_path: Path) -> None:
    project = scaffold_backend(backend_env.THIRD_DEVICE / "template", tmp_path / "torch_acme", "acme").folder
    for folder in ("tools", "tools/inner"):
        (project / "torch_acme" / folder).mkdir()
        (project / "torch_acme" / folder / "__init__.py").touch()
    (project / "torch_acme/tools/inner/trace.py").touch()
    (project / "tests").mkdir()
    (project / "tests/__init__.py").touch()
    variables = {**os.environ, "THIRD_DEVICE": str(backend_env.THIRD_DEVICE)}
    run([str(interpreter), "setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib")], project, variables)
    installed = {path.relative_to(tmp_path / "lib").as_posix() for path in (tmp_path / "lib").rglob("*.py")}
    assert {"torch_acme/tools/__init__.py", "torch_acme/tools/inner/trace.py"} <= installed
    assert {"torch_acme/__init__.py", "torch_acme/_layer/__init__.py"} <= installed
    assert not [path for path in installed if not path.startswith("torch_acme/")], "and nothing else"


def test_a_module_that_a_vendor_deletes_is_not_packed_again(interpreter: Path, tmp_path: Path) -> None:
    """A driver in Python that is left in the wheel would be the device's for ever."""
    project = scaffold_backend(backend_env.THIRD_DEVICE / "template", tmp_path / "torch_acme", "acme").folder
    driver = project / "torch_acme/driver.py"
    driver.touch()
    variables = {**os.environ, "THIRD_DEVICE": str(backend_env.THIRD_DEVICE)}
    for there in (True, False):
        run([str(interpreter), "setup.py", "-q", "build_py"], project, variables)
        (packed,) = project.glob("build/lib*/torch_acme")
        assert (packed / "driver.py").exists() == there and (packed / "functions.py").exists()
        driver.unlink(missing_ok=True)


@pytest.mark.parametrize(("name", "taken"), [("fft", "fft"), ("add", "add"), ("leaf", "Tensor.is_leaf")])
def test_a_name_that_pytorch_uses_is_refused(interpreter: Path, tmp_path: Path, name: str, taken: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(backend_env.THIRD_DEVICE / 'layer')!r})\n"
        "from pathlib import Path; from backend_build.extension import backend\n"
        f"backend({name!r}, Path({str(tmp_path)!r}), Path({str(backend_env.THIRD_DEVICE)!r}))"
    )
    done = subprocess.run([str(interpreter), "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and f"has torch.{taken}; next: give the device another name" in done.stderr


@pytest.mark.parametrize(
    ("built_for", "wanted"),
    [
        ("2.13.0+cpu", {"2.13.0", "2.13.1"}),
        ("2.13.1", {"2.13.0", "2.13.1"}),
        ("2.14.0a0+git0123abc", {"2.14.0a0"}),  # its C++ interface still moves
    ],
)
def test_the_wheel_wants_the_releases_that_it_loads_on(extension: ModuleType, built_for: str, wanted: set[str]) -> None:
    requirement = Requirement(extension.require_torch(built_for))
    known = ["2.12.1", "2.13.0", "2.13.1", "2.14.0a0", "2.14.0a1", "2.14.0", "3.13.0"]
    assert requirement.name == "torch" and set(requirement.specifier.filter(known)) == wanted


@pytest.mark.timeout(600)
def test_the_wheel_says_what_it_wants(torch_sim: Path) -> None:
    (metadata,) = torch_sim.glob("torch_sim-*.dist-info/METADATA")
    assert f"Requires-Dist: torch=={backend_env.TORCH.rpartition('.')[0]}.*" in metadata.read_text()


def test_sources_without_their_keyword_are_told(
    extension: ModuleType, tmp_path: Path, interpreter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(acme LANGUAGES CXX)\n"
        'include("${THIRD_DEVICE}/layer/cmake/Backend.cmake")\nthird_device_backend(acme csrc/driver.cpp)\n'
    )
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with pytest.raises(SystemExit, match=r"'csrc/driver\.cpp' belongs to nothing"):
        extension.build_library(tmp_path, backend_env.THIRD_DEVICE, tmp_path / "build")


TINY_LIBRARY = """
cmake_minimum_required(VERSION 3.20)
project(torch_tiny LANGUAGES CXX)
file(WRITE "${CMAKE_BINARY_DIR}/tiny.cpp" "int third_device_tiny() { return 1; }\\n")
add_library(torch_tiny SHARED "${CMAKE_BINARY_DIR}/tiny.cpp")
install(TARGETS torch_tiny LIBRARY DESTINATION lib)
install(FILES "${CMAKE_BINARY_DIR}/tiny.cpp" DESTINATION include)
"""
TINY_MODULE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""
TINY_SETUP = """
import sys
from pathlib import Path
from setuptools import setup
root = Path(__file__).resolve().parent
sys.path.insert(0, str(root.parent / "layer"))
from backend_build.extension import backend
setup(name="torch_tiny", version="1", **backend("tiny", root, root.parent))
"""


@pytest.mark.tools("cmake", "ninja", "c++")
def test_objects_of_the_module_lie_in_the_build_folder_too(interpreter: Path, tmp_path: Path) -> None:
    """`pip install -e` gives a temporary folder for them, and the layer lies beside the project: /tmp/layer/torch."""
    home = tmp_path / "third_device"
    for part in ("tools", "added_to_core", "layer/backend_build", "layer/python"):
        shutil.copytree(backend_env.THIRD_DEVICE / part, home / part)
    (home / "layer/torch").mkdir()
    (home / "layer/torch/module.cpp").write_text(TINY_MODULE)
    (home / "layer/torch/python_driver.cpp").write_text("int third_device_driver() { return 1; }\n")
    shutil.copy(backend_env.THIRD_DEVICE / "layer/autocast.yaml", home / "layer")
    project = home / "torch_tiny"
    (project / "torch_tiny").mkdir(parents=True)
    shutil.copy(backend_env.THIRD_DEVICE / "template/operators.yaml", project)
    (project / "CMakeLists.txt").write_text(TINY_LIBRARY)
    (project / "setup.py").write_text(TINY_SETUP)
    variables = backend_env.build_environment(interpreter)
    command = [
        str(interpreter),
        "setup.py",
        "-q",
        "build_ext",
        "--inplace",
        "--build-temp",
        str(tmp_path / "some/temp"),
    ]
    run(command, project, dict(variables))
    (work,) = (project / "build").glob("torch-*")
    objects = {path for path in tmp_path.rglob("*.o") if "CMakeFiles" not in path.parts}
    assert {path.name for path in objects} == {"module.o", "python_driver.o"}
    assert all(path.is_relative_to(work) for path in objects), objects
    made = {path: path.stat().st_mtime_ns for path in objects}
    run([*command[:-1], str(tmp_path / "another/temp")], project, dict(variables))
    assert made == {path: path.stat().st_mtime_ns for path in objects}, "compiled once"


def test_an_error_of_cmake_is_told_in_one_line(
    extension: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a PyTorch tree around it the toolkit runs the CMake that is on the PATH."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(acme LANGUAGES NONE)\nfind_package(AcmeRuntime REQUIRED)\n"
    )
    with pytest.raises(SystemExit, match=r"CMakeLists\.txt:3 \(find_package\).*AcmeRuntime.*; next: read .*\.log"):
        extension.build_library(tmp_path, backend_env.THIRD_DEVICE, tmp_path / "build")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SystemExit, match=r"cmake is not on the PATH; next: install it"):
        extension.build_library(tmp_path, backend_env.THIRD_DEVICE, tmp_path / "build")
