"""What is left of a library with code for GPUs, and which version of the C library it asks for."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from decouple.build import root_description
from tests.support.inside import load_script
from tests.support.tools import require_tool

#: Data in the section of HIP's compiler, and two functions of the C library: pow has a newer version than atan.
SOURCE = """
#include <math.h>
__attribute__((section(".hip_fatbin"), used)) static const char code[1 << 20] = {1};
double powered(double base) { return pow(base, 2.0); }
double find_angle(double slope) { return atan(slope); }
int first_byte(void) { return ((volatile const char *)code)[0]; }
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script, which runs in a root by itself."""
    return load_script("host_part")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    require_tool("cc", "readelf")
    (tmp_path / "a.c").write_text(SOURCE)
    made = tmp_path / "usr/lib/libpowered.so.1.0"
    made.parent.mkdir(parents=True)
    made.with_name("libpowered.so").symlink_to(made.name)
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", made, tmp_path / "a.c", "-lm"], check=True)
    return made


def list_asked_versions(library: Path) -> set[str]:
    """The versions that it asks of others, as readelf reads them."""
    said = subprocess.run(["readelf", "-VW", library], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"Name: (\S+)", said))


def test_code_for_gpus_is_a_hole_and_the_rest_runs(script: ModuleType, library: Path, tmp_path: Path) -> None:
    size = library.stat().st_size
    script.main(str(tmp_path), "{}")
    assert library.stat().st_size == size > 1 << 20
    assert library.stat().st_blocks * 512 < 1 << 17
    loaded = ctypes.CDLL(str(library))
    loaded.powered.restype, loaded.powered.argtypes = ctypes.c_double, [ctypes.c_double]
    assert loaded.powered(3.0) == 9.0
    assert loaded.first_byte() == 0
    assert library.with_name("libpowered.so").is_symlink()


def test_an_older_version_of_a_symbol_is_asked_for(script: ModuleType, library: Path, tmp_path: Path) -> None:
    """The newest pow is of glibc 2.29; the one before it is in every x86-64 glibc, under 2.2.5."""
    assert "GLIBC_2.29" in list_asked_versions(library)
    script.main(str(tmp_path), json.dumps({library.name: ["GLIBC_2.29", "GLIBC_2.2.5"]}))
    assert "GLIBC_2.29" not in list_asked_versions(library)
    loaded = ctypes.CDLL(str(library))
    loaded.powered.restype, loaded.powered.argtypes = ctypes.c_double, [ctypes.c_double]
    assert loaded.powered(3.0) == 9.0


@pytest.mark.parametrize("asked", [["GLIBC_9.9", "GLIBC_2.2.5"], ["GLIBC_2.29", "GLIBC_1.1"]])
def test_a_version_that_it_does_not_name_is_refused(
    script: ModuleType, library: Path, tmp_path: Path, asked: list[str]
) -> None:
    before = library.read_bytes()
    with pytest.raises(ValueError, match=re.escape(f"{library.name}: it does not ask for {asked[0]}")):
        script.main(str(tmp_path), json.dumps({library.name: asked}))
    assert library.read_bytes() == before


def test_what_is_no_library_stays_as_it_is(script: ModuleType, tmp_path: Path) -> None:
    text = tmp_path / "libscript.so"
    text.write_text("INPUT(-lm)\n")
    script.main(str(tmp_path), "{}")
    assert text.read_text() == "INPUT(-lm)\n"


@pytest.mark.parametrize("keep", [70, 100_000])
def test_a_library_that_was_cut_is_named_and_stays(
    script: ModuleType, library: Path, tmp_path: Path, keep: int
) -> None:
    library.write_bytes(library.read_bytes()[:keep])
    before = library.read_bytes()
    with pytest.raises(ValueError, match=rf"{library.name}: .*make the root again"):
        script.main(str(tmp_path), "{}")
    assert library.read_bytes() == before


def test_a_file_without_sections_and_a_folder_are_left_alone(script: ModuleType, library: Path, tmp_path: Path) -> None:
    library.with_name("folder.so").mkdir()
    bare = library.with_name("libbare.so")
    bare.write_bytes(library.read_bytes()[:40] + bytes(24))  # a header that names no table
    before = bare.read_bytes()
    script.main(str(tmp_path), "{}")
    assert bare.read_bytes() == before


def test_a_layer_of_whole_packages_keeps_its_digest() -> None:
    """A root that has the layer is not made again for keys that it does not use."""
    [piece] = root_description.load_description().find_layer("rocm").debs
    assert set(piece.content()) == {"prefix", "files", "why"}
    [libraries] = root_description.load_description().find_layer("rocm-libraries").debs
    assert {"host_part", "older"} < set(libraries.content())
