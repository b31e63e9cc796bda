"""The command that compiles a moved source from the tree where nobody moved it, and what is recorded of it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256
from decouple.build import inputs, toolkits
from decouple.flows.build_request import BuildRequest
from decouple.flows.listener import Listener
from decouple.flows.stage2_commands import find_series_digest
from decouple.flows.unpatched_kernels import make_command
from decouple.flows.verify import record_kernels
from decouple.release import status
from decouple.release.status import UNPATCHED
from decouple.stack.engine import Stack
from decouple.verify.kernels.compare import KernelComparison
from decouple.verify.stage1_units import TranslationUnit
from tests.support.series import usual_world
from tests.unit.index.wheels import SERIES_A, SERIES_B, make_wheel

NAMES = {"stage2": "/d/stage2", "tree": "/d/src"}
MOVED = "/d/src/third_device/torch_cuda/torch_cuda/csrc/aten/cuda/Sleep.cu"


def test_the_release_s_own_tree_stands_where_moved_files_have_upstream_s_names() -> None:
    words = (
        "nvcc",
        "-I/d/stage2/shadow/aten/src",
        "-I/d/stage2/shadow",
        "-I/d/stage2/generated",
        "-c",
        MOVED,
        "-o",
        "Sleep.o",
    )
    unit = TranslationUnit(PurePosixPath(MOVED), PurePosixPath("/d/stage2"), words)
    made = make_command(unit, NAMES, "/d/unpatched", "aten/src/ATen/cuda/Sleep.cu", "0-Sleep.cu.o")
    assert made == (
        *("nvcc", "-I/d/unpatched/aten/src", "-I/d/unpatched", "-I/d/stage2/generated"),
        *("-c", "/d/unpatched/aten/src/ATen/cuda/Sleep.cu", "-o", "/d/stage2/unpatched/0-Sleep.cu.o"),
    )


def test_a_command_that_names_its_source_otherwise_is_refused() -> None:
    """It compiled our own source again, and each function was the same."""
    unit = TranslationUnit(
        PurePosixPath(MOVED), PurePosixPath("/d/stage2"), ("nvcc", "-c", "Sleep.cu", "-o", "Sleep.o")
    )
    with pytest.raises(DecoupleError, match=r"names its source otherwise: nvcc -c Sleep\.cu"):
        make_command(unit, NAMES, "/d/unpatched", "aten/src/ATen/cuda/Sleep.cu", "0-Sleep.cu.o")


def test_a_comparison_is_recorded_of_the_series_that_the_objects_are_of(tmp_path: Path) -> None:
    """The patches had changed since the build: "2053 of 2053 ... holds" stood there for the new ones."""
    world, warned = usual_world(tmp_path / "world"), list[str]()
    with Stack.open(world.places) as stack:
        stack.push(None)
    request, listener = BuildRequest(world.project, "2.6", env="host"), Listener(warn=warned.append)
    places, path = request.places, status.locate_status(world.project, "2.6")

    def ask() -> str | None:
        warned.clear()
        return find_series_digest(places, request, listener)

    assert ask() is None and "no wheel" in warned[0], "an unfinished build, or one of objects alone"
    wheel = make_wheel(places.dist, "torch-cuda", "2.6.0+cu124", cuda="12.4", series=SERIES_A)
    content = inputs.hash_tree_content(places.tree, toolkits.list_unread_paths(2, ""))
    stamp = inputs.Stamp("0" * 64, wheel.name, compute_sha256(wheel), 1.0, 1, content)
    inputs.write_stamp(places.state / "stage2.json", stamp)
    status.update_status(path, series=status.SeriesSection(1, SERIES_B))  # as `decouple record` does
    series = ask()
    assert series == SERIES_A and not warned
    compared = KernelComparison("stage 2", "the unpatched tree", ("sm_90",), 1, 1, 1, 1, 0, 0, 0, ())
    record_kernels(world.project, "2.6", UNPATCHED, compared, series)
    assert status.read_status(path).recorded[f"kernels/{UNPATCHED}"].series == SERIES_A

    edited = make_wheel(places.dist, "torch-cuda", "2.6.0+cu124", cuda="12.4", build="1", tree="f0+335b7a45c3a7")
    of_edited = replace(stamp, wheel=edited.name, sha256=compute_sha256(edited))
    inputs.write_stamp(places.state / "stage2.json", of_edited)
    assert ask() is None and "made of a tree with edits" in warned[0]
    inputs.write_stamp(places.state / "stage2.json", stamp)

    (places.tree / "torch/core.py").write_text("# what the next build compiles\n")
    assert ask() is None and f"{places.tree} changed" in warned[0], "it may have begun, and left objects of its own"
    assert "`decouple build 2.6 --stage 2 --env host`" in warned[0]


def test_objects_without_a_wheel_of_their_own_are_of_no_known_series(tmp_path: Path) -> None:
    """Another build put its wheel there under the same name."""
    request, warned = BuildRequest(tmp_path, "2.6", toolkit="rocm", core="stock", part="runtime"), list[str]()
    places = request.places
    wheel = make_wheel(places.dist, "torch-hip", "2.6.0")
    inputs.write_stamp(places.state / "stage2.json", inputs.Stamp("0" * 64, wheel.name, "0" * 64, 1.0, 1))
    assert find_series_digest(places, request, Listener(warn=warned.append)) is None
    assert f"no wheel in {places.dist}" in warned[0] and "`decouple smoke 2.6 --toolkit rocm`" in warned[0]
