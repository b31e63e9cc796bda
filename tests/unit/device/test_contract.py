"""``decouple contract``: which wheels, and a backend that is built once for each of its sources."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.cli import main
from decouple.device import contract
from decouple.device.contract import SHARED
from decouple.device.scaffold import scaffold_backend
from decouple.release.status import ContractSection


@dataclass(frozen=True)
class Here:
    """This machine as the place where wheels run; notes what it was asked to run."""

    asked: list[Sequence[str]]

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        self.asked.append(command)
        given = {"PATH": os.environ["PATH"], **variables, "HOME": start}
        return ["env", "-C", start, "-i", *(f"{name}={value}" for name, value in given.items()), *command]


def site(tmp_path: Path, asked: list[Sequence[str]]) -> contract.ContractSite:
    """A folder with this interpreter's environment as its ``venv``."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "venv").symlink_to(sys.prefix)
    return contract.ContractSite(
        Here(asked), folder, str(folder), "/opt/x/lib", str(tmp_path / "ccache"), tmp_path / "log"
    )


def sources(tmp_path: Path) -> Path:
    """``third_device`` with a backend of one Python file."""
    home = tmp_path / "third_device"
    for name in (*SHARED, "torch_tiny"):
        (home / name).mkdir(parents=True)
    (home / "layer" / "layer.h").write_text("1\n")
    (home / "torch_tiny" / "setup.py").write_text(
        "import os, pathlib, setuptools\n"
        "pathlib.Path('build').mkdir(exist_ok=True)\n"
        "assert os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] == '0' and os.environ['MAX_JOBS'] == '3'\n"
        "setuptools.setup(name='torch-tiny', version='1', py_modules=['torch_tiny'])\n"
    )
    (home / "torch_tiny" / "torch_tiny.py").write_text("mark = 1\n")
    return home


def test_a_backend_is_built_once_for_its_sources_and_the_checkout_stays_clean(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []
    place, home = site(tmp_path, asked), sources(tmp_path)
    built = Path(contract.install_backend(place, home, home / "torch_tiny", jobs=3))
    assert (built / "torch_tiny.py").read_text() == "mark = 1\n" and len(asked) == 1
    assert sorted(path.name for path in (home / "torch_tiny").iterdir()) == ["setup.py", "torch_tiny.py"]
    contract.install_backend(place, home, home / "torch_tiny", jobs=3)
    assert len(asked) == 1  # nothing changed
    (home / "torch_tiny" / "build").mkdir()  # what somebody's own build leaves is not a source
    contract.install_backend(place, home, home / "torch_tiny", jobs=3)
    assert len(asked) == 1
    (home / "layer" / "layer.h").write_text("2\n")
    (home / "torch_tiny" / "torch_tiny.py").write_text("mark = 2\n")
    contract.install_backend(place, home, home / "torch_tiny", jobs=3)
    assert (built / "torch_tiny.py").read_text() == "mark = 2\n" and len(asked) == 2


def test_a_module_that_the_sources_no_longer_have_is_not_packed_again(tmp_path: Path) -> None:
    place, home = site(tmp_path, []), sources(tmp_path)
    project = home / "torch_tiny"
    setup = (project / "setup.py").read_text().replace("py_modules=['torch_tiny']", "packages=['torch_tiny']")
    (project / "setup.py").write_text(setup)
    (project / "torch_tiny.py").unlink()
    (project / "torch_tiny").mkdir()
    for module in ("__init__", "kept", "gone"):
        (project / "torch_tiny" / f"{module}.py").touch()
    contract.install_backend(place, home, home / "torch_tiny", jobs=3)
    (project / "torch_tiny" / "gone.py").unlink()
    built = Path(contract.install_backend(place, home, home / "torch_tiny", jobs=3)) / "torch_tiny"
    assert sorted(path.name for path in built.glob("*.py")) == ["__init__.py", "kept.py"]


def test_what_differs_is_new_to_ninja_and_what_does_not_is_not(tmp_path: Path) -> None:
    """Sources of another checkout may be older than the objects that were built from other bytes."""
    folder, to = tmp_path / "torch_tiny", tmp_path / "copy"
    (folder / "csrc").mkdir(parents=True)
    for name in ("same.cpp", "changed.cpp", "gone.cpp"):
        (folder / "csrc" / name).write_text("1\n")
    contract.mirror_sources(folder, to)
    (to / "build").mkdir()
    (to / "build" / "same.o").write_text("compiled\n")
    before = {path.name: path.stat().st_mtime_ns for path in (to / "csrc").iterdir()}
    (folder / "csrc" / "gone.cpp").unlink()
    (folder / "csrc" / "changed.cpp").write_text("2\n")
    for path in (folder / "csrc").iterdir():
        os.utime(path, (1, 1))
    contract.mirror_sources(folder, to)
    after = {path.name: path.stat().st_mtime_ns for path in (to / "csrc").iterdir()}
    assert set(after) == {"same.cpp", "changed.cpp"}
    assert after["same.cpp"] == before["same.cpp"] and after["changed.cpp"] > before["changed.cpp"]
    assert (to / "csrc" / "changed.cpp").read_text() == "2\n" and (to / "build" / "same.o").exists()


def test_a_folder_may_become_a_file_a_read_only_file_another_and_links_are_followed(tmp_path: Path) -> None:
    folder, to, sdk = tmp_path / "torch_tiny", tmp_path / "copy", tmp_path / "sdk"
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "one.py").touch()
    (folder / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o555)
    sdk.mkdir()
    (sdk / "sdk.h").write_text("1\n")
    (folder / "sdk").symlink_to(sdk)
    contract.mirror_sources(folder, to)
    assert os.access(to / "tool.sh", os.X_OK) and (to / "sdk" / "sdk.h").read_text() == "1\n"
    (folder / "part" / "one.py").unlink()
    (folder / "part").rmdir()
    (folder / "part").write_text("a file\n")
    (folder / "tool.sh").unlink()
    (folder / "tool.sh").write_text("#!/bin/sh -e\n")
    key = contract.compute_digest([folder])
    (sdk / "sdk.h").write_text("2\n")
    contract.mirror_sources(folder, to)
    assert (to / "part").read_text() == "a file\n" and (to / "tool.sh").read_text() == "#!/bin/sh -e\n"
    assert (to / "sdk" / "sdk.h").read_text() == "2\n" and contract.compute_digest([folder]) != key


def test_without_a_name_the_template_is_the_backend(tmp_path: Path) -> None:
    home = tmp_path / "third_device"
    shutil.copytree(find_project() / "third_device" / "template", home / "template")
    with contract.open_backend(home, None) as folder:
        assert folder.name == "torch_sim" and (folder / "torch_sim" / "__init__.py").is_file()
        key = contract.compute_digest([folder])
        assert (home / "template").is_dir() and sorted(path.name for path in home.iterdir()) == ["template"]
    assert not folder.exists()
    made = scaffold_backend(home / "template", home / "torch_sim", "sim").folder  # as `new-device sim` does
    assert contract.compute_digest([made]) == key, "what new-device keeps of a run is no source"
    with contract.open_backend(home, "sim") as folder:
        assert folder == made


def test_a_build_that_fails_is_tried_again(tmp_path: Path) -> None:
    place, home = site(tmp_path, []), sources(tmp_path)
    (home / "torch_tiny" / "setup.py").write_text("raise SystemExit('error: no such operator')\n")
    for _ in range(2):
        with pytest.raises(DecoupleError, match="build torch_tiny"):
            contract.install_backend(place, home, home / "torch_tiny", jobs=1)
    assert not (place.folder / "torch_tiny.digest").exists()


def test_a_report_is_summed_up_for_the_status_file(tmp_path: Path) -> None:
    seen = {"test": "test_memory.py::test_a", "outcome": "passed"}  # a test may check several items
    other = {"test": "test_data.py::test_b", "outcome": "skipped"}
    document = {
        "torch": "2.6.0",
        "counts": {"supported": 2, "broken": 0, "upstream gap": 1},
        "items": [{"tests": [seen]}, {"tests": [seen]}, {"tests": [other]}],
    }
    (tmp_path / "contract.json").write_text(json.dumps(document))
    assert contract.read_summary(tmp_path / "contract.json") == ContractSection(
        items={"supported": 2, "upstream gap": 1}, tests={"passed": 1, "skipped": 1}, torch="2.6.0"
    )


def test_a_run_that_died_before_its_report_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="pytest ended before it wrote this"):
        contract.read_summary(tmp_path / "contract.json")


def test_one_wheel_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is none"):
        contract.find_only_wheel(tmp_path, "torch")
    (tmp_path / "torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl").touch()
    with pytest.raises(UsageError, match="there is none"):
        contract.find_only_wheel(tmp_path, "torch")
    wheel = tmp_path / "torch-2.6.0+decoupled-cp313-cp313-linux_x86_64.whl"
    wheel.touch()
    assert contract.find_only_wheel(tmp_path, "torch") == wheel
    (tmp_path / "torch-2.6.0+other-cp313-cp313-linux_x86_64.whl").touch()
    with pytest.raises(UsageError, match=r"\+decoupled.*\+other") as said:
        contract.find_only_wheel(tmp_path, "torch")
    assert "all but one" in str(said.value.next_step), "a build makes neither of them go"


def test_a_backend_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "2.6", "--device", "nobody"]) == 2
    assert "torch_nobody: no backend there" in capsys.readouterr().err


def test_a_quotation_that_is_not_closed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "2.6", "--pytest=-k 'copies"]) == 2
    assert "--pytest: -k 'copies: No closing quotation" in capsys.readouterr().err
