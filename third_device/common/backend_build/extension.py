"""The arguments of ``setup()`` for a backend on the layer."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from .operators import OperatorsError, generate

LAYER_SOURCES = (
    "runtime/runtime.cpp",
    "runtime/allocators.cpp",
    "torch/device.cpp",
    "torch/aten.cpp",
    "torch/distributed.cpp",
    "torch/module.cpp",
)
SIMULATION = "sim/sim_driver.cpp"


def backend(
    name: str,
    root: Path,
    layer: Path,
    *,
    sources: Sequence[str],
    simulated: bool = False,
    include_dirs: Sequence[str] = (),
    libraries: Sequence[str] = (),
    library_dirs: Sequence[str] = (),
) -> dict[str, Any]:
    """What ``setup()`` needs to build the backend ``torch_<name>`` in ``root`` on the layer in ``layer``.

    ``sources`` are the vendor's files, relative to ``root``; ``simulated`` adds the simulated driver; the rest is for
    the vendor's own library. Writes generated code below ``root/build``. Raises SystemExit with one line when
    ``operators.yaml`` is wrong.
    """
    import torch
    from torch.utils.cpp_extension import BuildExtension, CppExtension

    limit_jobs(layer.parent / "tools", os.environ)
    package = f"torch_{name}"
    generated = root / "build" / "generated" / torch.__version__.replace("+", "-")
    try:
        generate(root / "operators.yaml", layer / "autocast.yaml").write(generated)
    except OperatorsError as error:
        raise SystemExit(f"torch_{name}: {error}") from None
    python = _python_half(name, root, layer, generated, torch.__version__)
    files = [*(layer / source for source in LAYER_SOURCES), generated / "operators.cpp", *(root / s for s in sources)]
    if simulated:
        files.append(layer / SIMULATION)
    # Paths relative to the project, as setuptools wants them: absolute ones would leave the build folder.
    extension = CppExtension(
        f"{package}._C",
        [os.path.relpath(file, root) for file in files],
        include_dirs=[str(layer), str(layer / "include"), str(generated), *(str(root / path) for path in include_dirs)],
        libraries=list(libraries),
        library_dirs=list(library_dirs),
        extra_compile_args=["-O1", "-g0", "-fvisibility=hidden", "-Wall", "-Wno-unknown-pragmas"],
    )
    return {
        "packages": [package, f"{package}._layer"],
        "package_dir": {package: package, f"{package}._layer": os.path.relpath(python, root)},
        "ext_modules": [extension],
        "cmdclass": {"build_ext": BuildExtension, "build_py": _with_build_info(package, generated)},
    }


def limit_jobs(tools: Path, environ: MutableMapping[str, str]) -> None:
    """Set ``MAX_JOBS``, which BuildExtension gives to ninja, to what wrapped_cmake would allow: by cores and by memory.

    The same toolkit as torch_cuda's build, as far as it needs no PyTorch tree. ``MAX_JOBS`` that is set stays; without
    the toolkit in ``tools`` (a backend outside a checkout) nothing happens.
    """
    if environ.get("MAX_JOBS") or not (tools / "wrapped_cmake").is_dir():
        return
    sys.path.insert(0, str(tools))
    try:
        from wrapped_cmake import Settings, plan
    finally:
        sys.path.remove(str(tools))
    environ["MAX_JOBS"] = str(plan(Settings(environ)).jobs)


def _python_half(name: str, root: Path, layer: Path, generated: Path, built_for: str) -> Path:
    """Writes ``_build_info.py``, which ties the package to its PyTorch; returns the layer's Python folder."""
    with (root / "pyproject.toml").open("rb") as source:
        version = tomllib.load(source)["project"]["version"]
    (generated / "_build_info.py").write_text(
        '"""What this build is. Written by the build."""\n\n'
        f"NAME = {name!r}\nVERSION = {version!r}\nBUILT_FOR = {built_for!r}\n",
        encoding="utf-8",
    )
    return layer / "python"


def _with_build_info(package: str, generated: Path) -> type:
    """setuptools' ``build_py`` that adds the generated file to the package."""
    from setuptools.command.build_py import build_py

    class BuildPy(build_py):
        def run(self) -> None:
            super().run()
            folder = Path(self.build_lib) / package
            self.mkpath(str(folder))
            self.copy_file(str(generated / "_build_info.py"), str(folder / "_build_info.py"))

    return BuildPy
