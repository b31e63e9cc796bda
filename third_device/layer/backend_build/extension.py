"""The arguments of ``setup()`` for a backend on the layer.

Three things are built, in this order: the operators of ``operators.yaml`` become C++; ``libtorch_<name>.so`` comes out
of the project's ``CMakeLists.txt``, run by the toolkit ``wrapped_cmake``; and the Python module ``_C`` is made by
``NewDeviceCppExtension`` against that library and its headers, as anybody's extension of the backend is.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from .operators import OperatorsError, generate

GENERATED = "generated"
MODULE = ("torch/module.cpp", "torch/python_driver.cpp")
"""The sources of ``_C``, in the layer."""
CPP_EXTENSION = Path("added_to_core", "torch", "_decoupled", "cpp_extension.py")
"""``NewDeviceCppExtension``, below ``third_device``: a patched core has it, and every backend brings it along."""


def backend(name: str, root: Path, third_device: Path) -> dict[str, Any]:
    """Return what ``setup()`` needs to build the backend ``torch_<name>`` in ``root``.

    ``third_device`` is the folder of ``layer``, the toolkit (``tools``) and ``added_to_core``. Everything is built
    below ``root/build``, apart for every PyTorch and Python; what is built there already is not built again. Raises
    SystemExit with one line when a part of ``third_device`` is missing.
    """
    for part in (Path("layer"), Path("tools", "wrapped_cmake"), CPP_EXTENSION):
        if not (third_device / part).exists():
            raise SystemExit(
                f"torch_{name}: {third_device / part} is missing; next: set THIRD_DEVICE to the folder third_device of "
                "a checkout, with all that is in it"
            )
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # what an earlier build is like does not matter to this one
    import torch
    from setuptools import Extension, find_packages

    refuse_taken(name)
    package = f"torch_{name}"
    layer = third_device / "layer"
    work = root / "build" / f"torch-{torch.__version__}-{sysconfig.get_config_var('SOABI')}"
    # Paths relative to the project, as setuptools wants them in its lists; what is compiled, build_ext says.
    return {
        "install_requires": [require_torch(torch.__version__)],
        "packages": [package, f"{package}._layer", *sorted(find_packages(str(root), include=[f"{package}.*"]))],
        "package_dir": {package: package, f"{package}._layer": os.path.relpath(layer / "python", root)},
        "ext_modules": [Extension(f"{package}._C", [os.path.relpath(layer / each, root) for each in MODULE])],
        "cmdclass": {
            "build_ext": _build_ext(package, root, third_device, work),
            "build_py": _build_py(package, name, root, third_device, torch.__version__),
            "sdist": _refuse_sdist(package, root),
        },
    }


def require_torch(version: str) -> str:
    """Return what pip is told of the PyTorch that a build is for.

    Any patch of its line, as the layer loads on; of one that is not released yet (``2.14.0a0``) that one alone.
    """
    public = version.split("+")[0]
    line, _, patch = public.rpartition(".")
    return f"torch=={line}.*" if patch.isdigit() else f"torch=={public}"


def refuse_taken(name: str) -> None:
    """Refuse a name that PyTorch has already.

    Raises SystemExit when there is ``torch.<name>``, ``Tensor.<name>`` or ``Tensor.is_<name>``.

    They are made when the backend is loaded (``torch/utils/backend_registration.py``), so ``import torch`` would fail.
    """
    import torch

    for owner, made in ((torch, name), (torch.Tensor, name), (torch.Tensor, f"is_{name}")):
        if hasattr(owner, made):
            taken = f"torch.{'' if owner is torch else 'Tensor.'}{made}"
            raise SystemExit(
                f"torch_{name}: PyTorch {torch.__version__} has {taken}; next: give the device another name"
            )


def generate_operators(root: Path, layer: Path, into: Path) -> None:
    """Generate C++ from ``operators.yaml`` of the project.

    It is written into ``into`` where it differs. Raises SystemExit with what is wrong in it and where.
    """
    try:
        generate(root / "operators.yaml", layer / "autocast.yaml").write(into)
    except OperatorsError as error:
        raise SystemExit(f"{root.name}: {error}") from None


def import_toolkit(third_device: Path) -> ModuleType:
    """Import the package ``wrapped_cmake`` from its folder."""
    sys.path.insert(0, str(third_device / "tools"))
    try:
        return importlib.import_module("wrapped_cmake")
    finally:
        sys.path.remove(str(third_device / "tools"))


def list_compilers(root: Path, third_device: Path) -> list[dict[str, Any]]:
    """Return what an extension of the backend is told of its compilers.

    They are those of its ``wrapped_cmake.toml``. Raises SystemExit with what is wrong in that file.
    """
    wrapped_cmake = import_toolkit(third_device)
    try:
        project = wrapped_cmake.read_project(root)
    except wrapped_cmake.WrappedCMakeError as error:
        raise SystemExit(f"{root.name}: {error.what}; next: {error.next_step}") from None
    known = wrapped_cmake.Settings({}, project.parameters)
    return [
        {
            "name": compiler.name,
            "suffixes": compiler.suffixes,
            "command": compiler.command,
            "parameters": {
                name: {"kind": known.find_parameter(name).kind, "default": known.find_parameter(name).default}
                for name in sorted(compiler.list_parameters())
            },
        }
        for compiler in project.compilers
    ]


def build_library(root: Path, third_device: Path, work: Path) -> Path:
    """Configure and build the CMake project in ``root``.

    Returns the folder with its ``include/`` and ``lib/``. Raises SystemExit with CMake's or the compiler's first error
    and the log.
    """
    wrapped_cmake = import_toolkit(third_device)
    environ = dict(os.environ)
    # tools that were installed beside this Python are on the PATH of an activated environment only
    environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", os.defpath)])
    environ.setdefault("CCACHE_BASEDIR", str(third_device))  # backends that lie in it share the layer's objects
    staged = work / "package"
    try:
        project = wrapped_cmake.WrappedCMake(root, work / "cmake", install_prefix=staged, environ=environ)
        project.configure({"THIRD_DEVICE": str(third_device), "THIRD_DEVICE_GENERATED": str(work / GENERATED)})
        shutil.rmtree(staged, ignore_errors=True)
        project.build(on_status=wrapped_cmake.Lines(project.limits))
    except wrapped_cmake.WrappedCMakeError as error:
        raise SystemExit(f"{root.name}: {error.what}; next: {error.next_step}") from None
    return staged


def cpp_extension(third_device: Path) -> ModuleType:
    """Load ``NewDeviceCppExtension``'s module by file: patched PyTorch alone has it."""
    spec = importlib.util.spec_from_file_location("third_device_cpp_extension", third_device / CPP_EXTENSION)
    assert spec is not None and spec.loader is not None  # a path that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _build_ext(package: str, root: Path, third_device: Path, work: Path) -> type:
    """Make torch's ``build_ext`` build the library first.

    It and its headers are put into the package.
    """
    from torch.utils.cpp_extension import BuildExtension

    class BuildBackend(BuildExtension):  # type: ignore[misc]  # torch need not be typed for who checks this
        def build_extensions(self) -> None:
            generate_operators(root, third_device / "layer", work / GENERATED)
            staged = build_library(root, third_device, work)
            (module,) = self.extensions
            # Objects lie below build_temp by the names of their sources: with `..` in one, above it. Its own default
            # knows no PyTorch, and `pip install -e` gives it a new folder each time.
            self.build_temp = str(work / "module")
            made = cpp_extension(third_device).NewDeviceCppExtension(
                module.name,
                [str(third_device / "layer" / each) for each in MODULE],
                backend=package,
                backend_dir=staged,
                extra_compile_args=["-g0", "-Wall", "-Wno-unknown-pragmas"],
            )
            listed = module.sources
            vars(module).update(vars(made))  # setuptools has noted things of its own on the first one
            super().build_extensions()
            module.sources = listed  # an editable install lists them afterwards, and refuses absolute paths
            self.add(staged, Path(self.get_ext_fullpath(module.name)).parent)

        def copy_extensions_to_source(self) -> None:  # what `pip install -e` and `build_ext --inplace` do afterwards
            super().copy_extensions_to_source()
            self.add(work / "package", root / package)

        def add(self, staged: Path, into: Path) -> None:
            for part in ("include", "lib"):
                shutil.rmtree(into / part, ignore_errors=True)
                shutil.copytree(staged / part, into / part)

    return BuildBackend


def _build_py(package: str, name: str, root: Path, third_device: Path, built_for: str) -> type:
    """Make setuptools' ``build_py`` add what ties the package to its PyTorch.

    It adds `CPP_EXTENSION` for extensions too.
    """
    from setuptools.command.build_py import build_py

    class BuildPy(build_py):
        def run(self) -> None:
            folder = Path(package) if self.editable_mode else Path(self.build_lib, package)
            if not self.editable_mode:  # setuptools packs what lies there, also what the project no longer has
                shutil.rmtree(folder, ignore_errors=True)
            super().run()
            self.mkpath(str(folder))
            self.copy_file(str(third_device / CPP_EXTENSION), str(folder / CPP_EXTENSION.name))
            texts = {
                "_build_info.py": '"""What this build is. Written by the build."""\n\n'
                f"NAME = {name!r}\nVERSION = {self.distribution.get_version()!r}\nBUILT_FOR = {built_for!r}\n",
                "compilers.json": json.dumps(list_compilers(root, third_device), indent=2) + "\n",
            }
            for file, text in texts.items():
                (folder / file).unlink(missing_ok=True)  # not through a link in its place
                (folder / file).write_text(text, encoding="utf-8")

    return BuildPy


def _refuse_sdist(package: str, root: Path) -> type:
    """Make a ``sdist`` that says why there is none."""
    from setuptools.command.sdist import sdist

    class RefuseSdist(sdist):
        def run(self) -> None:
            build = f"python -m build --wheel --no-isolation {root}"
            raise SystemExit(f"{package} has no sdist: it builds beside the layer; next: {build}")

    return RefuseSdist
