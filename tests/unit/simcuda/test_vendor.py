"""NVIDIA's wheels in the cache: fetched once, by however many runs ask for them at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from simcuda import vendor
from simcuda.errors import SimcudaError
from tests.unit.simcuda.conftest import stand_ins

SCRIPTS = Path(vendor.__file__).parents[1]
FETCH = """
import sys
from pathlib import Path
from simcuda import vendor
print(vendor.fetch_wheel("made-up==1.0", Path(sys.argv[1]), Path(sys.argv[2])))
"""


def wheel(folder: Path) -> None:
    """A wheel with a thousand headers, so that unpacking it takes a moment."""
    folder.mkdir()
    with zipfile.ZipFile(folder / "made_up-1.0-py3-none-manylinux2014_x86_64.whl", "w") as archive:
        archive.writestr("made_up-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n")
        archive.writestr("made_up-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-manylinux2014_x86_64\n")
        archive.writestr("made_up-1.0.dist-info/RECORD", "")
        for number in range(1000):
            archive.writestr(f"nvidia/made_up/include/{number}.h", f"#define N {number}\n")


def test_runs_that_begin_together_do_not_take_each_other_s_wheel(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    cache = tmp_path / "cache"
    cache.mkdir()
    words = [sys.executable, "-c", FETCH, str(cache), str(tmp_path / "wheels")]
    variables = {**os.environ, "PYTHONPATH": str(SCRIPTS), "PIP_NO_INDEX": "1"}
    runs = [
        subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, said
    assert {out.strip() for out, _ in said} == {str(cache / "made-up-1.0")}
    assert len(list((cache / "made-up-1.0" / "nvidia/made_up/include").iterdir())) == 1000
    assert [entry.name for entry in cache.iterdir()] == ["made-up-1.0"]


def test_a_python_without_pip_takes_the_wheels_of_a_folder_or_is_told_how(tmp_path: Path) -> None:
    """As uv makes them: what SIMCUDA_WHEELS names was read by pip alone."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    program = FETCH.replace("import vendor", "import errors, vendor").replace("print(", "try: print(")
    program += "except errors.SimcudaError as error: print(error.what, error.next_step)\n"
    variables = {**os.environ, "PYTHONPATH": str(SCRIPTS), "PIP_NO_INDEX": "1"}

    def fetch(wheels: Path) -> str:
        words = [str(bare / "bin/python"), "-c", program, str(tmp_path / "cache"), str(wheels)]
        return subprocess.run(words, env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    said = fetch(tmp_path)
    assert "No module named pip install pip for this Python, or set SIMCUDA_WHEELS" in said
    wheel(tmp_path / "wheels")
    [given] = (tmp_path / "wheels").iterdir()
    content = given.read_bytes()
    given.write_bytes(content[:-100])
    assert fetch(tmp_path / "wheels").startswith(f"{given}: ")
    given.write_bytes(content)
    assert fetch(tmp_path / "wheels") == str(tmp_path / "cache/made-up-1.0")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["made-up-1.0"]
    assert given.exists()


def test_an_interrupt_leaves_no_part_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each left up to hundreds of megabytes in the cache, which nothing removed."""
    wheel(tmp_path / "wheels")

    def unpack_half(archive: zipfile.ZipFile, folder: Path, names: list[str]) -> None:
        archive.extract(names[0], folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "extractall", unpack_half)
    with pytest.raises(KeyboardInterrupt):
        vendor.fetch_wheel("made-up==1.0", tmp_path / "cache", tmp_path / "wheels")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("fault", ["wheel", "wheels", "cache"])
def test_what_the_system_refuses_is_named(tmp_path: Path, fault: str) -> None:
    """A wheel that cannot be read, SIMCUDA_WHEELS that is no folder, a cache that cannot be written."""
    wheels, cache = tmp_path / "wheels", tmp_path / "cache"
    broken = {"wheel": wheels / "made_up-1.0-py3-none-any_x86_64.whl", "wheels": wheels, "cache": cache}[fault]
    if fault == "wheel":
        broken.mkdir(parents=True)
    else:
        broken.touch()
    with pytest.raises(SimcudaError, match=str(broken)) as refused:
        vendor.fetch_wheel("made-up==1.0", cache, wheels if fault != "cache" else None)
    assert "SIMCUDA_CACHE" in refused.value.next_step or fault == "wheels"
    assert not [*tmp_path.glob("cache/*")]


def test_a_folder_that_was_there_first_stays(tmp_path: Path) -> None:
    for name in ("part", "folder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "made-by").write_text(name)
    assert (vendor.place_folder(tmp_path / "part", tmp_path / "folder") / "made-by").read_text() == "folder"
    assert not (tmp_path / "part").exists()


@pytest.mark.tools("c++", "nm")
@pytest.mark.parametrize(("required", "ends"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_ci_whose_pip_brings_no_wheel_fails_where_a_machine_skips(
    required: str, ends: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin that was yanked, or no disk: else a whole suite is skipped, and CI is green."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("SIMCUDA_CACHE", str(tmp_path))
    monkeypatch.setenv("DECOUPLE_REQUIRE_TOOLS", required)
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match=r"pip download nvidia-\S+ failed") as left:
        stand_ins(vendor.CUDA, "cudart")
    assert left.type is ends
