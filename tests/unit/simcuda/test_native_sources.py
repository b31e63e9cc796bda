"""Each compiler of this machine accepts each C++ file that needs no torch, without a warning.

Newer compilers' headers bring in less of each other: ``std::sort`` came with ``<functional>`` up to g++ 13.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from simcuda import build, hip, library, vendor
from tests.support.cuda_headers import require_headers

ROOT = find_project()
LAYER = ROOT / "third_device/layer"
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
#: C++ that stands alone, beside the simulated CUDA device: what it needs beside the system's headers.
ALONE = {
    "third_device/layer/runtime/*.cpp": (f"-I{LAYER}/include",),
    "third_device/layer/sim/*.cpp": (f"-I{LAYER}/include",),
    "third_device/layer/tests/*.cpp": (f"-I{LAYER}/include",),
    "third_device/template/csrc/driver.cpp": (f"-I{LAYER}/include",),
    "tests/real/simulated/*.cpp": (),
}
Source = tuple[Path, tuple[str, ...]]


def find_compilers() -> list[str]:
    """The names on the PATH of every ``g++`` and ``clang++``, one for each program."""
    found: dict[Path, str] = {}
    for folder in map(Path, os.get_exec_path()):
        for program in sorted(folder.glob("*g*++*")):
            if re.fullmatch(r"(g|clang)\+\+(-\d+)?", program.name) and "ccache" not in str(program.resolve()):
                found.setdefault(program.resolve(), program.name)
    return sorted(found.values())


@pytest.fixture(scope="module")
def kit() -> vendor.Kit:
    """The headers of everything that has a stand-in."""
    sonames = vendor.find_kit(Path("/nowhere"), Path("/nowhere"), vendor.CUDA).sonames
    wheels = [wheel for one in library.load_libraries(sonames)[0] for wheel in one.header_wheels]
    return require_headers(vendor.CUDA, wheels)


def sources_of(kit: vendor.Kit, rocm: Path) -> Iterator[Source]:
    """Every file with the flags that the build gives it."""
    for one in library.load_libraries(kit.sonames)[0]:
        for pattern in one.sources:
            for path in sorted(build.NATIVE.glob(pattern)):
                yield path, (*build.list_compiler_flags(kit, one), *(f"-D{name}" for name in one.defines))
    for path in sorted((build.NATIVE / "hip").glob("*.cpp")):
        yield path, (*hip.FLAGS, f"-I{build.NATIVE}", f"-I{rocm}")
    folders = (build.NATIVE, build.NATIVE / "runtime", *kit.list_include_folders())
    yield build.NATIVE / "record/record.cpp", tuple(f"-I{path}" for path in folders)
    yield (
        ROOT / "third_device/examples/cuda_like_driver.cpp",
        (
            f"-I{LAYER}/include",
            *(f"-I{path}" for path in kit.list_include_folders()),
        ),
    )
    for pattern, flags in ALONE.items():
        paths = sorted(ROOT.glob(pattern))
        assert paths, pattern
        yield from ((path, flags) for path in paths)


def test_every_source_of_a_stand_in_is_among_them(kit: vendor.Kit, rocm: Path) -> None:
    seen = {path for path, _ in sources_of(kit, rocm)}
    shadows = build.NATIVE / "shadow"  # these need the headers of a torch
    assert {path for path in build.NATIVE.rglob("*.cpp") if shadows not in path.parents} <= seen


@pytest.mark.slow
@pytest.mark.tools("c++")
@pytest.mark.parametrize("compiler", find_compilers() or ["c++"])  # the mark above says that there is none
def test_without_a_warning(compiler: str, kit: vendor.Kit, rocm: Path) -> None:
    def complaint(source: Source) -> str:
        path, flags = source
        theirs = f"-I{kit.cache}"  # NVIDIA's headers may warn as they like
        given = [flag.replace("-I", "-isystem", 1) if flag.startswith(theirs) else flag for flag in flags]
        command = [compiler, *STRICT, *given, str(path)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stderr

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(complaint, sources_of(kit, rocm)))
    assert not [re.findall(".*(?:error|warning):.*", text)[:1] or text for text in said if text]
