"""Machine code that a real nvcc made, and that of two real builds of PyTorch 2.6.0."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.flows import kernels
from decouple.flows.kernels import KernelRequest
from decouple.verify.kernels import compare, dump
from tests.real.test_build import made_root

pytestmark = [pytest.mark.real, pytest.mark.slow]

SOURCE = """
namespace {{ __global__ void scale(float* x) {{ x[threadIdx.x] *= {factor}; }} }}
{more}
void launch(float* x) {{ scale<<<1, 32>>>(x); }}
"""
MORE = "__global__ void add(float* x, float y) { x[threadIdx.x] += y; }"


def test_a_changed_constant_and_a_dropped_kernel_are_found_by_name() -> None:
    root = made_root("core", "cuda")
    variants = {"good": ("2.0f", MORE), "again": ("2.0f", MORE), "constant": ("3.0f", MORE), "dropped": ("2.0f", "")}
    with tempfile.TemporaryDirectory(dir=root.tree / "tmp") as made:  # the root is everybody's who has this cache
        folder = Path(made)
        for name, (factor, more) in variants.items():
            place = folder / name  # of one name, as the same source in two builds
            place.mkdir()
            (place / "Scale.cu").write_text(SOURCE.format(factor=factor, more=more))
        script = (
            'for d in */; do (cd "$d" && nvcc -ccbin cuda-g++ -arch=sm_90 -O3 -Xfatbin -compress-all -c Scale.cu); done'
        )
        done = subprocess.run(
            root.make_sandbox().make_command(["sh", "-ec", script], start=f"/tmp/{folder.name}"),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        dumps = {name: dump.dump_libraries([folder / name / "Scale.o"], name) for name in variants}
    same = compare.compare_dumps(dumps["again"], dumps["good"])
    assert (same.total, same.same, same.found) == (2, 2, ())
    (changed,) = compare.compare_dumps(dumps["constant"], dumps["good"]).found
    assert (changed.what, changed.file) == ("code", "Scale.cu")
    assert compare.demangle_name(changed.name) == "(anonymous namespace)::scale(float*)"
    (missing,) = compare.compare_dumps(dumps["dropped"], dumps["good"]).found
    assert (missing.what, compare.demangle_name(missing.name)) == ("missing", "add(float*, float)")


def test_trixies_monolith_against_the_official_wheel() -> None:
    """Two builds by different people: what differs is the version of CUB, and what host compilers make of headers."""
    (library,) = (made_root("monolith").tree / "opt/monolith/usr/lib").rglob("libtorch_cuda.so.2.6.0")
    found = kernels.compare_kernels(
        KernelRequest(find_project(), str(library), "official:2.6", sides="monolith/official")
    )
    assert (found.total, found.same, found.count("missing"), found.count("extra")) == (19458, 19068, 64, 64)
    assert {one.file for one in found.found if one.what in ("missing", "extra")} == {
        "TensorModeKernel.cu",
        "SegmentReduce.cu",
    }
