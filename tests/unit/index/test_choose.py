"""Which files suit a machine: Python, platform, CUDA driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.tags import parse_tag
from packaging.version import Version

from decouple.base.errors import DecoupleError, UsageError
from decouple.index import dependencies, site
from decouple.index.choose import Machine, choose_packages, detect_machine, read_driver_cuda
from decouple.index.remote import Index
from tests.unit.index.wheels import SERIES_B, make_pair, make_wheel, publish_beside_patched

CORE = "torch-2.6.0+decoupled.1-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    dist = tmp_path / "dist"
    for cuda in ("11.8", "12.4", "12.6"):
        make_pair(dist, cuda=cuda)
    make_wheel(dist, "torch", "2.7.1+decoupled.1", requires_python=">=3.9")
    site.build_site(dist, tmp_path / "site")
    return Index(str(tmp_path / "site"))


def machine(python: str = "3.11", driver: str | None = None) -> Machine:
    return Machine(Version(python), detect_machine(python).tags, Version(driver) if driver else None)


def names(index: Index, machine: Machine, cuda: str | None = None) -> list[str]:
    return [package.filename for package in choose_packages(index, "2.6", machine, cuda).packages]


@pytest.mark.parametrize(
    ("driver", "label"),
    [(None, "cu126"), ("12.4", "cu124"), ("12.5", "cu124"), ("12.2", "cu124"), ("11.8", "cu118"), ("13.0", "cu126")],
)
def test_the_newest_cuda_that_the_driver_runs(index: Index, driver: str | None, label: str) -> None:
    # 12.2 is older than every 12.x here, yet runs them by CUDA's minor version compatibility: the nearest is taken.
    assert names(index, machine(driver=driver)) == [CORE, f"torch_cuda-2.6.0+{label}.1-py3-none-any.whl"]


def test_bindings_for_an_unmodified_torch_are_not_put_on_the_patched_one(index: Index, tmp_path: Path) -> None:
    """They were taken, as the newest of their CUDA, and the import failed."""
    over = publish_beside_patched(tmp_path / "over", tmp_path / "site")
    assert names(index, machine(), "cu124") == [CORE, "torch_cuda-2.6.0+cu124.1-py3-none-any.whl"]
    site.build_site(over.parent, tmp_path / "own")
    with pytest.raises(DecoupleError, match=r"for an unmodified torch.*2\.6\.0\+cpu"):
        names(Index(str(tmp_path / "own")), machine(), "cu124")


def test_cpu_is_the_core_alone(index: Index) -> None:
    assert names(index, machine(), "cpu") == [CORE]


def test_an_old_driver_is_told_what_there_is(index: Index) -> None:
    with pytest.raises(DecoupleError, match=r"CUDA 10\.2.*cu118, cu124"):
        choose_packages(index, "2.6", machine(driver="10.2"))


def test_a_release_with_a_name_of_its_own_has_no_version_to_choose_by(index: Index) -> None:
    with pytest.raises(UsageError, match=r"acme-2\.7: wheels are chosen by their version"):
        choose_packages(index, "acme-2.7", machine())


def test_a_cuda_version_that_is_not_there(index: Index) -> None:
    with pytest.raises(DecoupleError, match=r"cu121.*cu118, cu124"):
        choose_packages(index, "2.6", machine(), "cu121")


def test_a_release_that_is_not_there(index: Index) -> None:
    with pytest.raises(DecoupleError, match=r"torch 2\.9.*2\.6, 2\.7"):
        choose_packages(index, "2.9", machine(), "cpu")


def test_a_python_that_does_not_fit(index: Index) -> None:
    with pytest.raises(DecoupleError, match=r"nothing for Python 3\.8"):
        choose_packages(index, "2.6", machine("3.8"), "cpu")


def test_a_yanked_file_is_not_chosen(index: Index, tmp_path: Path) -> None:
    site.yank_file(tmp_path / "site", CORE, "broken")
    with pytest.raises(DecoupleError, match="yanked"):
        choose_packages(index, "2.6", machine(), "cpu")


def test_the_core_is_the_one_that_torch_cuda_is_pinned_to(index: Index, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    make_wheel(newer, "torch", "2.6.0+decoupled.2", series=SERIES_B)
    site.build_site(newer, tmp_path / "site")
    assert names(index, machine(), "cpu") == ["torch-2.6.0+decoupled.2-py3-none-any.whl"]
    assert names(index, machine(), "cu124")[0] == CORE


def test_libraries_that_are_a_wheel_of_their_own_come_along(index: Index, tmp_path: Path) -> None:
    pins = ("torch==2.6.0+decoupled.1", "torch-cuda-libraries==2.6.0+cu128")
    split = tmp_path / "split"
    make_wheel(split, "torch-cuda", "2.6.0+cu128", requires=pins, cuda="12.8")
    site.build_site(split, tmp_path / "site")
    with pytest.raises(DecoupleError, match="torch-cuda-libraries"):
        choose_packages(Index(str(tmp_path / "site")), "2.6", machine(), "cu128")
    make_wheel(split, "torch-cuda-libraries", "2.6.0+cu128", requires=pins[:1], cuda="12.8")
    site.build_site(split, tmp_path / "site")
    assert names(Index(str(tmp_path / "site")), machine(), "cu128") == [
        CORE,
        "torch_cuda_libraries-2.6.0+cu128-py3-none-any.whl",
        "torch_cuda-2.6.0+cu128-py3-none-any.whl",
    ]


def test_a_python_is_a_version() -> None:
    with pytest.raises(UsageError, match="--python three"):
        detect_machine("three")


def test_no_driver_is_no_error() -> None:
    assert read_driver_cuda("libno-such-driver.so.1") is None


def test_a_free_threaded_python_is_another() -> None:
    assert dependencies.find_python(parse_tag("cp313-cp313-linux_x86_64")) == "3.13"
    assert dependencies.find_python(parse_tag("cp313-cp313t-linux_x86_64")) == "3.13t"
    assert dependencies.find_python(parse_tag("cp313-cp313.cp313t-linux_x86_64")) is None
    asked = ['a; python_version >= "3.13"', 'b; python_version < "3.13"']
    assert (
        dependencies.collect_requirements([asked], [], "3.13t")
        == dependencies.collect_requirements([asked], [], "3.13")
        == ["a"]
    )
    assert {tag.abi for tag in detect_machine("3.13t").tags} & {"cp313", "cp313t"} == {"cp313t"}
