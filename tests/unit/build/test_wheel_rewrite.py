"""Wheels made of a wheel, by pip, uv and the ``wheel`` tool: build number, tags, ``.data`` and RECORD are theirs to
read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from installer.records import parse_record_file

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import variants
from decouple.build.wheel_pair import pair_wheels
from decouple.build.wheel_split import split_wheel
from decouple.build.wheel_thinning import thin_wheel
from decouple.index.wheel import read_wheel
from decouple.release.wheel_name import WheelName
from tests.unit.build.test_wheel_split import HERE, shared_library
from tests.unit.index.wheels import make_environment, make_manifest, make_wheel

pytestmark = pytest.mark.tools("cc")
VERSION = "2.6.0+cu124"
CORE = "2.6.0+decoupled"
PLATFORMS = ("linux_x86_64", "manylinux_2_5_x86_64")
ODD = 'torch_cuda/a,b "quoted".txt'
Make = Callable[[Path, str], Sequence[Path]]


def whole(folder: Path, build: str = "", platforms: str = ".".join(PLATFORMS)) -> Path:
    """A torch_cuda wheel as another's packing may leave it: a script in ``.data``, odd names, a compressed tag."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = shared_library(folder, "libtorch_cuda.so", text='const char* archs(void) { return "\\0sm_80 sm_90"; }')
    about = {"arch_list": ["sm_80", "sm_90"], "version": VERSION}
    manifest = make_manifest("torch-cuda", VERSION, "12.4", "a" * 64)
    return make_wheel(
        folder,
        "torch-cuda",
        VERSION,
        requires=(f"torch=={CORE}",),
        manifest=manifest.to_json().replace(b'"9.0"', b'"8.0",\n    "9.0"'),
        tag=f"{HERE}-{HERE}-{platforms}",
        build=build,
        extra_members={
            "torch_cuda/build_info.json": json.dumps(about).encode(),
            "torch_cuda/lib/libtorch_cuda.so": kernels.read_bytes(),
            f"torch_cuda-{VERSION}.data/scripts/cuda-says": b"#!python\nprint('here')\n",
            ODD: b"odd\n",
        },
    )


def of_split(folder: Path, build: str) -> list[Path]:
    made = split_wheel(whole(folder / "whole", build), folder / "out")
    return [made.libraries, made.bindings]


def of_pair(folder: Path, build: str) -> list[Path]:
    bindings = split_wheel(whole(folder / "whole", build), folder / "split").bindings
    own = {"torch/version.py": f"__version__ = '{CORE}'\n".encode(), f"torch-{CORE}.data/scripts/torchrun": b"#!python"}
    core = make_wheel(folder, "torch", CORE, tag=f"{HERE}-{HERE}-linux_x86_64", extra_members=own, build=build)
    made = pair_wheels(core, bindings, folder / "out")
    return [made.core, made.bindings]


def of_thin(folder: Path, build: str) -> list[Path]:
    def nothing(path: Path, archs: Sequence[str]) -> None:
        pass

    return [thin_wheel(whole(folder / "whole", build), ["9.0"], folder / "out", {"torch-cuda": nothing})]


def of_variants(folder: Path, build: str) -> list[Path]:
    return list(variants.make_variants([whole(folder / "whole", build)], folder / "out"))


MADE = {"split": of_split, "pair": of_pair, "thin": of_thin}
every = pytest.mark.parametrize("make", MADE.values(), ids=MADE)


def told(wheel: Path) -> dict[str, list[str]]:
    """The fields of WHEEL."""
    found: dict[str, list[str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        for line in archive.read(name).decode().splitlines():
            key, _, value = line.partition(": ")
            found.setdefault(key, []).append(value)
    return found


def run(*command: str | Path, cwd: Path) -> str:
    argv = [sys.executable, "-m", *map(str, command)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=make_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@every
@pytest.mark.parametrize("build", ["", "1", "10fix"])
def test_the_wheel_says_its_build_number_and_every_single_tag(make: Make, build: str, tmp_path: Path) -> None:
    for wheel in make(tmp_path, build):
        assert (f"-{build}-" in wheel.name) == bool(build)
        said = told(wheel)
        assert said.get("Build", []) == ([build] if build else [])
        assert all(tag.count("-") == 2 and "." not in tag for tag in said["Tag"]), said["Tag"]
        if "linux_x86_64.manylinux" in wheel.name:
            assert [tag.rpartition("-")[2] for tag in said["Tag"]] == list(PLATFORMS)


@every
@pytest.mark.parametrize("build", ["", "2"])
def test_the_wheel_tool_reads_what_was_made(make: Make, build: str, tmp_path: Path) -> None:
    for number, wheel in enumerate(make(tmp_path, build)):
        work = tmp_path / str(number)
        work.mkdir()
        shutil.copy(wheel, work)
        # the same name: what WHEEL says is what the file is called
        assert run("wheel", "tags", "--build", build or "7", wheel.name, cwd=work).strip().endswith(".whl")
        run("wheel", "unpack", wheel.name, cwd=work)  # checks RECORD
        [unpacked] = [path for path in work.iterdir() if path.is_dir()]
        assert {path.name for path in unpacked.glob("*.d*")} <= {f"{unpacked.name}.dist-info", f"{unpacked.name}.data"}
        (work / "packed").mkdir()
        run("wheel", "pack", "--dest-dir", "packed", unpacked.name, cwd=work)
        assert sorted(path.name for path in (work / "packed").iterdir()) == [wheel.name]


@every
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_pip_and_uv_install_it_and_find_nothing_wrong(make: Make, tool: str, tmp_path: Path) -> None:
    made = make(tmp_path, "1")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    install, check = {
        "pip": (["pip", "--python", python, "install", "--no-deps"], ["pip", "--python", python, "check"]),
        "uv": (["uv", "pip", "install", "--python", python, "--no-deps"], ["uv", "pip", "check", "--python", python]),
    }[tool]
    core = make_wheel(tmp_path / "core", "torch", CORE)
    libraries = make_wheel(tmp_path / "core", "torch-cuda-libraries", VERSION, cuda="12.4")
    there = {WheelName.parse(one.name).distribution for one in made}
    others = [one for one in (core, libraries) if WheelName.parse(one.name).distribution not in there]
    run(*install, *made, *others, cwd=tmp_path)
    run(*check, cwd=tmp_path)
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    assert [path.name for path in site.glob("*.data")] == [], "a folder that no installer laid out"
    scripts = [name for wheel in made for name in zipfile.ZipFile(wheel).namelist() if ".data/scripts/" in name]
    for name in scripts:
        assert (tmp_path / "env/bin" / name.rpartition("/")[2]).exists(), name


@every
def test_what_is_made_holds_by_its_record_and_passes_our_own_reader(make: Make, tmp_path: Path) -> None:
    for wheel in make(tmp_path, "1"):
        read_wheel(wheel)
        with zipfile.ZipFile(wheel) as archive:
            [record] = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
            rows = [path for path, _, _ in parse_record_file(archive.read(record).decode().splitlines())]
            assert sorted(rows) == sorted(archive.namelist())
            stem = record.partition(".dist-info/")[0]
            assert {name.partition("/")[0] for name in rows if ".data/" in name} <= {f"{stem}.data"}


def test_wheels_of_two_builds_are_a_pair_and_wheels_of_two_pythons_are_none(tmp_path: Path) -> None:
    bindings = split_wheel(whole(tmp_path, "3", "linux_x86_64"), tmp_path / "split").bindings
    core = make_wheel(tmp_path, "torch", CORE, tag=f"{HERE}-{HERE}-linux_x86_64")
    made = pair_wheels(core, bindings, tmp_path / "out")
    assert made.core.name == f"torch-{VERSION}-{HERE}-{HERE}-linux_x86_64.whl"
    assert made.bindings.name == f"torch_cuda-{VERSION}.paired-3-{HERE}-{HERE}-linux_x86_64.whl"
    other = make_wheel(tmp_path, "torch", CORE, tag="cp38-cp38-linux_x86_64", build="3")
    with pytest.raises(UsageError, match="for two Pythons"):
        pair_wheels(other, bindings, tmp_path / "other")


def test_variants_of_a_build(tmp_path: Path) -> None:
    variant, null = of_variants(tmp_path, "4")
    assert variant.name == f"torch_cuda-2.6.0+variants-4-{HERE}-{HERE}-{'.'.join(PLATFORMS)}-cu124.whl"
    assert told(variant)["Build"] == told(null)["Build"] == ["4"]
    assert len(told(variant)["Tag"]) == len(PLATFORMS)
    read_wheel(variant)
    read_wheel(null)


@pytest.mark.parametrize("make", [split_wheel, lambda wheel, out: thin_wheel(wheel, ["9.0"], out, lambda *_: [])])
def test_a_variant_wheel_is_not_made_into_others(make: Callable[[Path, Path], object], tmp_path: Path) -> None:
    """Its label is no part of a tag."""
    variant, _ = of_variants(tmp_path, "")
    with pytest.raises(UsageError, match="a variant wheel"):
        make(variant, tmp_path / "other")


def test_a_file_that_is_not_named_as_a_wheel_is_said_so(tmp_path: Path) -> None:
    odd = whole(tmp_path).rename(tmp_path / "kernels.whl")
    with pytest.raises(DecoupleError, match="not a wheel's file name"):
        split_wheel(odd, tmp_path / "out")
