"""Build the wheel by PEP 517.

It is configured and built with the toolkit wrapped_cmake, installed into a staging folder, and packed. Choices come
from the environment under upstream's names: ``cmake/Options.cmake`` lists those of this project, and ``python
third_device/tools/wrapped_cmake --help`` those of every backend. Besides,

``TORCH_CUDA_BUILD_DIR``  where to build (default ``build/`` of the project); kept, so an interrupted build goes on.
``TORCH_CUDA_PROJECT``    the project's folder, where that is another vendor's thin one (``../torch_hip``).

``config_settings`` of pip (``-C NAME=VALUE``) become ``-DNAME=VALUE``. From a checkout, without pip:
``python -m torch_cuda_build.backend DIST_FOLDER``; or in steps: ``configure``, the toolkit's own ``build``, and
``pack DIST_FOLDER`` (``pack --stored``: not compressed, for somebody who writes the wheel anew).
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_cuda_build import wheel

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT.parent / "tools"))  # the toolkit lies beside this project and is never installed
from wrapped_cmake import Lines, WrappedCMake, WrappedCMakeError  # noqa: E402

OPTIONS = ROOT / "cmake" / "Options.cmake"
CORE_PRELOAD = ROOT.parent / "added_to_core" / "torch" / "_decoupled" / "preload.py"
OWN_FILES = (
    *("__init__.py", "_import_hook.py", "_autoload.py", "_extensions.py", "_libraries.py", "_wheel_conflicts.py"),
    "_preload.py",
    "py.typed",
)

IN_TORCH = "torch/share/cmake/Caffe2/Caffe2Targets-torch_cuda.cmake"
"""What torch's own folder gets, by which CMake's find_package(Torch) finds us.

Where no torch lies in that folder, Python takes it for an empty one (docs/split.md, By hand): so a wheel for a core in
place is without it. The core's wheel does not bring it: setup.py packs no other than Python files of added_to_core, and
an unmodified core has nothing of ours.
"""

START = ("torch_cuda.pth", "torch_cuda_start.py")
"""What site-packages itself gets, for a stock core; another vendor's package has them under its own name."""


class BuildError(Exception):
    """The build cannot go on; one line that says why, and what to do."""


def find_project() -> Path:
    """Return the project that is built.

    It is this one, or a vendor's thin folder beside it, which uses its CMake.
    """
    return Path(os.environ.get("TORCH_CUDA_PROJECT") or ROOT).absolute()


def requirements_table() -> Path:
    """Return where the project's pins stand: a thin folder has its own."""
    return (
        Path(__file__).with_name("requirements.toml")
        if find_project() == ROOT
        else find_project() / "requirements.toml"
    )


def build_dir() -> Path:
    """Return where CMake builds."""
    return Path(os.environ.get("TORCH_CUDA_BUILD_DIR") or find_project() / "build").absolute()


def make_toolkit() -> WrappedCMake:
    """Put this project into the hands of wrapped_cmake.

    Raises WrappedCMakeError.
    """
    # CMake runs Python modules of this tree, which stays clean
    return WrappedCMake(find_project(), build_dir(), environ={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def read_choices() -> dict[str, str]:
    """Read the choices that the environment makes.

    They are those of `OPTIONS` and of a toolkit's description. CMake reads them itself, too, but keeps what it read;
    wrapped_cmake takes back what is not given again.
    """
    files = [OPTIONS, *sorted((OPTIONS.parent / "toolkit").glob("*.cmake")), *sorted(find_project().glob("*.cmake"))]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    names = re.findall(r"^torch_cuda_option\((\w+)", text, re.MULTILINE)
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def configure_project(settings: Mapping[str, Any] | None = None) -> WrappedCMake:
    """Run CMake in `build_dir`: always, for it reads more than its arguments.

    Raises WrappedCMakeError, and BuildError when there could be no wheel of it: hours of compiling come next.
    """
    given = {}
    for name, value in (settings or {}).items():
        if name.isidentifier() and isinstance(value, list):  # whose text is true to CMake, whatever is in it
            raise BuildError(
                f"-C {name} is given with several values ({', '.join(value)}); next: give it once, the entries of a "
                "list with ';' between them"
            )
        if name.isidentifier():
            given[name] = str(value)
    work = make_toolkit()
    work.configure({**given, **read_choices()}, always=True)
    list_requirements(read_info(build_dir()))
    return work


def read_info(folder: Path) -> dict[str, Any]:
    """Read what a build says of itself in *folder*.

    It is the build's own, or that of its installed files.
    """
    info: dict[str, Any] = json.loads((folder / "build_info.json").read_text(encoding="utf-8"))
    return info


def list_requirements(info: Mapping[str, Any]) -> list[str]:
    """List what the wheel asks of pip.

    Raises BuildError when the build does not name its toolkit, or the project's table has no pins for that version.
    """
    if "cuda" not in info and not {"toolkit", "toolkit_version"} <= info.keys():
        raise BuildError(
            "build_info.json names no toolkit, so no wheel can be packed; next: put package, toolkit, toolkit_version "
            "and word into TOOLKIT_BUILD_INFO of its description, as cmake/toolkit/rocm.cmake does, or build with "
            "cmake and ninja alone"
        )
    table, version = requirements_table(), wheel.find_version(info)
    known = wheel.read_pins(table) if table.is_file() else {}
    if version not in known:
        raise BuildError(
            f"{table} has no pins for {wheel.name_toolkit(info)} (it has {', '.join(known) or 'none'}); next: build "
            f'with a version that it has, or write ["{version}"] and its pins there'
        )
    return wheel.list_requirements(table, info)


def is_core_in_place(folder: Path) -> bool:
    """Return whether the build in *folder* is for a torch in its source tree.

    ``pip install -e`` leaves it there.
    """
    cache = (folder / "CMakeCache.txt").read_text(encoding="utf-8")
    core = re.search(r"^CORE_FOUND_BESIDE:INTERNAL=(.+)$", cache, re.MULTILINE)
    # not by the folder csrc in it: wheels of torch have that, too, with a header of AOTInductor's (2.13)
    return core is not None and (Path(core[1]).parent / "build_variables.bzl").is_file()


def list_members(staged: Path, info: Mapping[str, Any], *, in_torch: bool = True) -> dict[str, Path | bytes]:
    """List the files of the wheel but its metadata: name in it -> file.

    A patched core (*info*'s "core" is "built") loads us itself; for a stock one Python's start gets a finder.
    *in_torch*: with what torch's own folder gets.
    """
    package = wheel.import_name(info)
    found: dict[str, Path | bytes] = {
        f"{package}/{path.relative_to(staged).as_posix()}": path for path in staged.rglob("*") if path.is_file()
    }
    found.update({f"{package}/{name}": ROOT / ROOT.name / name for name in OWN_FILES})
    # One loader for both kinds of core: a stock core gets a copy of the patched core's.
    if not CORE_PRELOAD.is_file():
        raise BuildError(f"{CORE_PRELOAD} is missing; next: build in a tree that `decouple apply` made")
    found[f"{package}/_core_preload.py"] = CORE_PRELOAD
    if in_torch and package == ROOT.name:  # CMake's find_package(Torch) finds no other vendor's yet
        found[IN_TORCH] = ROOT / "cmake" / Path(IN_TORCH).name
    if info["core"] != "built":
        found.update(start_files(package))
    return found


def start_files(package: str) -> dict[str, Path | bytes]:
    """Return what site-packages itself gets, for a stock core: name -> file."""
    if package == ROOT.name:
        return {name: ROOT / name for name in START}
    line = (ROOT / START[0]).read_text(encoding="utf-8").replace(ROOT.name, package)
    return {f"{package}.pth": line.encode(), f"{package}_start.py": ROOT / START[1]}


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """PEP 517: build everything, write the wheel, return its file name."""
    work = configure_project(config_settings)
    work.build((), on_status=Lines(work.limits))
    return pack_wheel(work, Path(wheel_directory))


def pack_wheel(work: WrappedCMake, folder: Path, *, stored: bool = False) -> str:
    """Install what was built and write the wheel; return its name in ``folder``.

    Raises WrappedCMakeError, BuildError.
    """
    staged = work.install(build_dir() / "stage", strip=True)
    info = read_info(staged)
    folder.mkdir(parents=True, exist_ok=True)
    requires = list_requirements(info)
    tag = wheel.make_tag(info, sysconfig.get_platform())
    # beside a core in place it would be all of a package torch
    members = list_members(staged, info, in_torch=not is_core_in_place(build_dir()))
    return wheel.write_wheel(members, info, tag, folder, requires, stored=stored).name


def build_editable(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build everything for ``pip install -e`` (PEP 660); return the wheel's file name.

    The wheel names a folder here. That folder, ``editable`` in `build_dir`, has what was compiled, and links to this
    project's Python files.
    """
    work = configure_project(config_settings)
    work.build((), on_status=Lines(work.limits))
    folder = build_dir() / "editable"
    staged = work.install(folder / find_project().name)
    info = read_info(staged)
    package = wheel.import_name(info)
    found: dict[str, Path | bytes] = {f"__editable__.{package}.pth": f"{folder}\n".encode()}
    for name, source in list_members(staged, info, in_torch=False).items():
        place = folder / name
        if "/" not in name:
            found[name] = source
        elif isinstance(source, Path) and source != place:
            place.symlink_to(source)
    requires = list_requirements(info)
    tag = wheel.make_tag(info, sysconfig.get_platform())
    return wheel.write_wheel(found, info, tag, Path(wheel_directory), requires).name


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """PEP 517 asks for it; there is none. Raises BuildError always."""
    raise BuildError("torch-cuda has no sdist: it builds from a whole PyTorch tree; next: build the wheel in that tree")


def main(words: list[str]) -> int:
    """``[DIST_FOLDER] | configure | pack [--stored] DIST_FOLDER``.

    The exit code is 1, with one line on stderr, on failure, and 2 for other words: a build takes hours.
    """
    verb, folders = (words[0], words[1:]) if words[:1] in (["configure"], ["pack"]) else ("build", words or ["dist"])
    stored = verb == "pack" and folders[:1] == ["--stored"]
    folders = folders[stored:]
    if len(folders) != (verb != "configure") or any(folder.startswith("-") for folder in folders):
        sys.stderr.write("usage: [DIST_FOLDER] | configure | pack [--stored] DIST_FOLDER\n")
        return 2
    try:
        if verb == "configure":
            sys.stdout.write(f"configured; log {configure_project().log}\n")
        elif verb == "pack":
            sys.stdout.write(pack_wheel(make_toolkit(), Path(folders[0]), stored=stored) + "\n")
        else:
            sys.stdout.write(build_wheel(folders[0]) + "\n")
    except (BuildError, WrappedCMakeError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
