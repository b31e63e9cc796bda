"""The portable environment: which C++ ABI, which third-party code, and what a tree must be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.build.environment import Places
from decouple.flows import portable_environment
from decouple.flows.build import build_wheels
from decouple.flows.build_request import BuildRequest, estimate_stages, settle_choices
from decouple.flows.listener import QUIET
from decouple.flows.work_environment import WorkRequest, ensure_tree

PROJECT = Path(__file__).parents[3]


def places(tmp_path: Path) -> Places:
    """Of release 2.6, with an empty tree elsewhere."""
    (tmp_path / "tree/third_party").mkdir(parents=True)
    return Places.of_release(PROJECT, "2.6", tmp_path, tmp_path / "tree")


@pytest.mark.parametrize(
    ("version", "new"), [("2.4.1", False), ("2.6.0", False), ("2.7.0a0", True), ("2.7.1", True), ("2.10.0", True)]
)
def test_the_abi_is_the_official_wheels(version: str, new: bool) -> None:
    assert portable_environment.has_cxx11_abi(version) is new


def test_a_tree_with_a_name_of_its_own_has_the_abi_of_its_version(tmp_path: Path) -> None:
    manifest = (PROJECT / "series/2.7.toml").read_text().replace('release = "2.7"', 'release = "vendor"')
    (tmp_path / "series").mkdir()
    (tmp_path / "series/vendor.toml").write_text(manifest)
    here = Places.of_release(tmp_path, "vendor", tmp_path, tmp_path / "tree")
    for name in ("pybind11", "onnx", "protobuf", "gloo", "cpuinfo", "fmt", "ideep"):
        (here.tree / "third_party" / name).mkdir(parents=True)
        (here.tree / "third_party" / name / "LICENSE").write_text("")
    assert portable_environment.bundle_third_party(here, None, QUIET).variables == {"_GLIBCXX_USE_CXX11_ABI": "1"}


def test_a_source_with_its_submodules_keeps_them(tmp_path: Path) -> None:
    here = places(tmp_path)
    for name in ("pybind11", "onnx", "protobuf", "gloo", "cpuinfo", "fmt", "ideep"):
        (here.tree / "third_party" / name).mkdir()
        (here.tree / "third_party" / name / "LICENSE").write_text("")
    bundled = portable_environment.bundle_third_party(here, None, QUIET)
    assert bundled.third_party is None
    assert bundled.variables == {"_GLIBCXX_USE_CXX11_ABI": "0"}


def test_a_folder_of_the_users_own_switches_on_what_it_has(tmp_path: Path) -> None:
    here, mine = places(tmp_path), tmp_path / "mine"
    for name in ("fbgemm", "gloo"):
        (mine / name).mkdir(parents=True)
        (mine / name / "CMakeLists.txt").write_text("")
    bundled = portable_environment.bundle_third_party(here, mine, QUIET)
    assert "USE_FBGEMM" not in bundled.variables
    assert bundled.variables["USE_NNPACK"] == "OFF"
    assert [row["folder"] for row in bundled.rows] == ["fbgemm", "gloo"]
    (mine / "gloo/gloo.cc").write_text("")
    assert portable_environment.bundle_third_party(here, mine, QUIET).variables != bundled.variables, "another build"


def test_a_tree_with_debians_patches_is_refused(tmp_path: Path) -> None:
    here = places(tmp_path)
    (here.tree / "debian/patches").mkdir(parents=True)
    with pytest.raises(UsageError, match="Debian's patches"):
        ensure_tree(WorkRequest(PROJECT, "2.6", "portable", here.tree), here, QUIET)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            BuildRequest(PROJECT, "2.6", portable_environment.KIND, stage=2, cuda="12.9"),
            "--cuda 12.9: 2.6 is not compiled with it here",
        ),
        (
            BuildRequest(PROJECT, "2.6", portable_environment.KIND, stage=1, cuda="11.8"),
            "of stage 2 with compiled kernels",
        ),
        (BuildRequest(PROJECT, "2.6", stage=2, kernels="official", cuda="11.8"), "of stage 2 with compiled kernels"),
    ],
)
def test_a_cuda_that_cannot_be_is_refused_before_anything_is_done(request_: BuildRequest, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        estimate_stages(request_)


def test_the_official_wheels_cuda_is_taken_where_nobody_chooses() -> None:
    """Its objects are looked for where that CUDA's are, apart from those of another."""
    assert [
        cost.what for cost in estimate_stages(BuildRequest(PROJECT, "2.6", portable_environment.KIND, stage=2))
    ] == ["stage 2"]
    assert settle_choices(BuildRequest(PROJECT, "2.6", portable_environment.KIND, stage=2)).cuda == "12.4"
    assert settle_choices(BuildRequest(PROJECT, "2.6", portable_environment.KIND, stage=2, cuda="11.8")).cuda == "11.8"
    assert settle_choices(BuildRequest(PROJECT, "2.6", "rootfs", stage=2)).cuda == "", "the root's own, as ever"
    assert settle_choices(BuildRequest(PROJECT, "2.6", "rootfs", stage=2, cuda="12.4")).cuda == "", "the same build"
    assert settle_choices(BuildRequest(PROJECT, "2.6", "rootfs", stage=2, cuda="11.8")).cuda == "11.8"
    assert settle_choices(BuildRequest(PROJECT, "2.6", "host", stage=2, cuda="11.8")).cuda == "11.8"


def test_the_timing_prefix_records_processor_time_and_passes_failures_on(tmp_path: Path) -> None:
    script = PROJECT / "scripts/decouple/build/inside/timed.sh"
    record = tmp_path / "seconds.tsv"
    busy = 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; : "$@"'
    subprocess.run([script, "sh", "-c", busy, "sh", "-o", "a.o"], env={"DECOUPLE_SECONDS": str(record)}, check=True)
    (line,) = record.read_text().splitlines()
    name, user, system = line.split("\t")
    assert name == "a.o"
    assert float(user.removeprefix("0m").removesuffix("s")) > 0.01 and system.endswith("s")
    failed = subprocess.run([script, "sh", "-c", "exit 7"], env={"DECOUPLE_SECONDS": str(record)})
    assert failed.returncode == 7
    assert len(record.read_text().splitlines()) == 1, "what failed says nothing about the cost of the object"
    assert [path.name for path in tmp_path.iterdir()] == ["seconds.tsv"]
    assert subprocess.run([script, "true"], env={}).returncode == 0
    nowhere = {"DECOUPLE_SECONDS": str(tmp_path / "absent/seconds.tsv")}
    assert subprocess.run([script, "true"], env=nowhere).returncode == 0, "an object that cannot be timed is compiled"


@pytest.mark.parametrize(
    ("core", "kernels", "against"),
    [
        ("", "compiled", "built"),
        ("stock", "compiled", "stock"),
        ("official", "compiled", "official"),
        ("", "official", "official"),
        ("built", "official", "built"),
    ],
)
def test_the_core_is_the_one_asked_for_and_else_the_one_that_fits_the_kernels(
    core: str, kernels: str, against: str
) -> None:
    assert BuildRequest(PROJECT, "2.6", stage=2, core=core, kernels=kernels).against == against


def test_what_is_built_over_other_kernels_or_elsewhere_lies_apart() -> None:
    """CMake keeps what it found: objects of another core or another root would be taken for these."""
    kinds = [("official", "", "rootfs"), ("official", "built", "rootfs"), ("official", "", "portable")]
    folders = {
        BuildRequest(PROJECT, "2.6", env, core=core, kernels=kernels).places.stage2 for kernels, core, env in kinds
    }
    assert len(folders | {BuildRequest(PROJECT, "2.6").places.stage2}) == 4


def test_kernels_for_the_official_half_are_compiled_portably_and_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--core official"):
        build_wheels(BuildRequest(PROJECT, "2.6", "rootfs", tmp_path, stage=2, core="official"), QUIET)
    ours, half = (
        BuildRequest(PROJECT, "2.6", "portable", stage=2, core=core, cuda="11.8") for core in ("built", "official")
    )
    assert half.stages == (2,)
    assert half.places.dist != ours.places.dist, "both wheels have one name"
    assert half.places.with_cuda("portable", "11.8").stage2 != ours.places.with_cuda("portable", "11.8").stage2


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (BuildRequest(PROJECT, "2.6", python="3.13"), r"--python 3\.13: of --env portable alone"),
        (
            BuildRequest(PROJECT, "2.6", env="portable", stage=1, python="3.8"),
            r"--python 3\.8: .*none.*use one of 3\.11, 3\.13",
        ),
        (
            BuildRequest(PROJECT, "2.6", env="portable", kernels="official", python="3.11"),
            r"--python 3\.11: the Python of the official wheel is taken",
        ),
    ],
)
def test_a_python_that_cannot_be_had_is_refused_in_one_line(request_: BuildRequest, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        build_wheels(request_)


def test_the_architectures_of_the_official_wheel_have_a_name() -> None:
    [cost] = estimate_stages(BuildRequest(PROJECT, "2.6", stage=2, core="stock", archs="official"))
    [one] = estimate_stages(BuildRequest(PROJECT, "2.6", stage=2, core="stock", archs="9.0"))
    assert cost.seconds == pytest.approx(5.2 * one.seconds, rel=0.01)
