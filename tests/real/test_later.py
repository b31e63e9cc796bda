"""Each kind of change that 2.7 to 2.15 brought to what the series touches, made from 2.6 in words of our own.

With the rules the series goes through without a stop. What no rule knows stops by name: nothing is lost in silence.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.cli import main
from decouple.flows.census import CensusRequest, take_census
from decouple.flows.patch_regeneration import PatchRemaker, SeriesMerge
from decouple.flows.rebase import RebaseRequest, rebase_series
from decouple.patch.apply import Tree
from decouple.patch.parse import Patch
from decouple.rebase.verdicts import CarryResult, Verdict
from decouple.recipes.model import load_recipes
from decouple.series import check
from decouple.series.check import Fit
from decouple.syntax.build_lists import read_cmake
from decouple.syntax.preprocessor import parse_directives
from decouple.upstream.readers import FolderSource, OpenedSource
from tests.real.test_evolutions import Evolve, add_kernel, bound_shmem, carried, edited, grown, pristine
from tests.real.test_evolutions import project as without_overlay
from tests.support.files import write_files

__all__ = ["pristine", "without_overlay"]

pytestmark = pytest.mark.real
CSRC = "third_device/torch_cuda/torch_cuda/csrc"
C10D = "torch/csrc/distributed/c10d/init.cpp"
MODULE = "torch/csrc/Module.cpp"
CONTEXT = "aten/src/ATen/Context.cpp"
INDUCTOR = "torch/csrc/inductor"
C10D_FOLDER = "torch/csrc/distributed/c10d"
CLEAN = "verdict: lint clean, stage2-sources clean, couplings clean"


@pytest.fixture
def project(without_overlay: Path) -> Path:
    """A checkout with the series of 2.6 alone, and stage 2's own lists of sources."""
    here = Path(__file__).parents[2]
    shutil.copytree(here / "third_device", without_overlay / "third_device", dirs_exist_ok=True)
    return without_overlay


def nccl(tree: Path) -> None:
    """A second NCCL beside the first, methods that NCCL answers, a guarded header, includes that are gone."""
    init, group = tree / C10D, tree / "torch/csrc/distributed/c10d/ProcessGroup.cpp"
    edited(
        init,
        r"^#ifdef USE_C10D_UCC\n  auto processGroupUCC",
        "#ifdef USE_C10D_NCCL\n  auto processGroupNCCL2 =\n"
        "      intrusive_ptr_no_gil_destructor_class_<::c10d::nccl2::MadeUp>(\n"
        '          module, "ProcessGroupNCCL2", backend);\n#endif\n\n'
        "#ifdef USE_C10D_NCCL\n  intrusive_ptr_class_<::c10d::NCCLXStub>(\n"
        '      module, "MadeUpStub");\n#endif\n\n\\g<0>',
    )
    edited(
        init,
        r"^  auto store =$",
        "#ifdef USE_C10D_NCCL\n#ifdef MADE_UP_DEVICE_SIDE\n"
        '  module.def("_register_external_nccl_comm", &made_up);\n#endif\n#endif\n\n\\g<0>',
    )
    edited(
        init,
        r"^template <typename T>\nusing shared_ptr_class_",
        "#if defined(USE_C10D_NCCL) && defined(NCCL_HAS_SYMMEM_SUPPORT)\n"
        "int getPeerCftHandle(int peer) {\n  return made_up(peer);\n}\n#endif\n"
        "#if !defined(USE_C10D_NCCL) || !defined(NCCL_HAS_SYMMEM_SUPPORT)\n"
        "int getPeerCftHandle(int) {\n  return refused();\n}\n#endif\n\n\\g<0>",
    )
    edited(
        init,
        r"^  py::class_<::c10d::BroadcastOptions>",
        '  made.def(\n          "get_peer_cft_handle",\n          getPeerCftHandle);\n'
        '#ifdef USE_NVSHMEM\n  module.def("_made_up_shmem", &made_up_shmem);\n#endif\n\n\\g<0>',
    )
    edited(
        init,
        r"^#include <torch/csrc/distributed/c10d/PyProcessGroup\.hpp>$",
        "\\g<0>\n#ifdef USE_NVSHMEM\n#include <torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.hpp>\n#endif",
    )
    for name in ("NCCL", "UCC"):
        edited(group, rf"^#include <torch/csrc/distributed/c10d/ProcessGroup{name}\.hpp>\n", "")


def launched(tree: Path, folder: str = "static_launcher", name: str = "cuda", *, fast: bool = True) -> None:
    """A launcher for CUDA alone, in the core's list of sources; ``fast``: and a second one in the same source."""
    second = "bool FastCudaLauncher_init(PyObject* module) {\n  return made_up(module);\n}\n" if fast else ""
    target = tree / INDUCTOR / folder
    target.mkdir()
    (target / f"{name}.h").write_text("#pragma once\nbool StaticCudaLauncher_init(PyObject* module);\n")
    (target / f"{name}.cpp").write_text(
        f"#ifdef USE_CUDA\n#include <torch/csrc/inductor/{folder}/{name}.h>\n"
        f"bool StaticCudaLauncher_init(PyObject* module) {{\n  return made_up(module);\n}}\n{second}#endif\n"
    )
    edited(
        tree / "build_variables.bzl",
        rf'^    "{INDUCTOR}/resize_storage_bytes\.cpp",$',
        rf'\g<0>\n    "{INDUCTOR}/{folder}/{name}.cpp",',
    )
    edited(
        tree / MODULE,
        r"^  torch::cuda::initModule\(module\);$",
        "\\g<0>\n  ASSERT_TRUE(StaticCudaLauncher_init(module));"
        + ("\n  ASSERT_TRUE(FastCudaLauncher_init(module));" if fast else ""),
    )


def answered(tree: Path) -> None:
    """An answer more about CUDA, one that XPU gives as well, another header of them."""
    module = tree / MODULE
    edited(
        module,
        r'^  ASSERT_TRUE\(set_module_attr\("_has_cusparselt", has_cusparselt\)\);$',
        "\\g<0>\n\n#if defined(USE_CUFILE)\n  PyObject* has_gds = Py_True;\n#else\n"
        '  PyObject* has_gds = Py_False;\n#endif\n  ASSERT_TRUE(set_module_attr("_has_gds", has_gds));',
    )
    edited(module, r"^#ifdef USE_CUDA\n(    return sdp::is_flash)", "#if defined(USE_CUDA) || defined(USE_XPU)\n\\1")
    edited(module, r"^#include <ATen/cuda/CUDAConfig\.h>$", "#include <ATen/cuda/CUDABlas.h>")


def stored(tree: Path) -> None:
    """Storages: a header more for the bodies that move, a size at an address, a stricter check, fewer conditions."""
    edited(
        tree / "torch/csrc/StorageSharing.cpp",
        r"^#include <c10/cuda/CUDAGuard\.h>$",
        "#include <ATen/cuda/MadeUpEvent.h>\n\\g<0>",
    )
    methods = tree / "torch/csrc/StorageMethods.cpp"
    edited(methods, r"overflows<size_t>\(size_bytes_i\)", "overflows<size_t>(size_bytes_i, /*strict_unsigned=*/true)")
    edited(
        methods,
        r"^static PyObject\* THPStorage_fill_\(",
        "static PyObject* THPStorage_resize_with_addr_(PyObject* self, PyObject* args) {\n"
        "  if (device_type == at::kCUDA) {\n#ifdef USE_CUDA\n    at::native::resize_bytes_cuda_with_addr(\n"
        '        made_up, size, address);\n#else\n    TORCH_CHECK(false, "built without USE_CUDA");\n#endif\n  }\n'
        "  return self;\n}\n\n\\g<0>",
    )
    resize = tree / INDUCTOR / "resize_storage_bytes.cpp"
    edited(resize, r"^#if defined\(USE_CUDA\) && !defined\(USE_ROCM\)$", "#if defined(USE_CUDA)")


def built(tree: Path) -> None:
    """Another packer than setuptools, an option that became dependent, Kineto's backend by name."""
    cmake = tree / "CMakeLists.txt"
    (tree / "setup.py").write_text("raise SystemExit('this is no setup')\n")
    edited(cmake, r"^include\(cmake/BuildVariables\.cmake\)", "if(SKBUILD)\n  made_up()\nendif()\n\\g<0>")
    edited(cmake, r'^option\(USE_CUDA "Use CUDA" ON\)$', 'cmake_dependent_option(USE_CUDA "Use CUDA" ON "LINUX" OFF)')
    kineto = tree / "cmake/Dependencies.cmake"
    text = kineto.read_text()
    start = text.index("if(USE_KINETO)\n")
    stop = text.index("\nendif()\n", start)
    backend = 'if(USE_KINETO)\n  if(USE_CUDA)\n    set(KINETO_BACKEND "cuda")\n  endif()'
    kineto.write_text(f"{text[:start]}{backend}{text[stop:]}")
    torch = tree / "caffe2/CMakeLists.txt"
    torch.write_text(
        torch.read_text()
        .replace("LIBKINETO_NOCUPTI", "MADE_UP")
        .replace("# ---[ CUDA library.\n", 'if(KINETO_BACKEND STREQUAL "cuda")\nendif()\n# ---[ CUDA library.\n')
    )
    init = tree / "torch/csrc/autograd/init.cpp"
    text = init.read_text()
    guard = re.search(r"^#if defined\(USE_KINETO\) && \\\n.*LIBKINETO_NOCUPTI", text, re.M)
    assert guard
    stop = text.index("    return activities;", guard.start())
    body = "#if defined(USE_KINETO)\n#if defined(HAS_CUPTI)\n    made_up();\n#endif // defined(HAS_CUPTI)\n#endif\n"
    init.write_text(text[: guard.start()] + body + text[stop:])


def bound(tree: Path) -> None:
    """A method more of the AOTI runner for CUDA."""
    edited(
        tree / INDUCTOR / "aoti_runner/pybind.cpp",
        r'^      \.def\("get_call_spec", &AOTIModelContainerRunnerCuda::get_call_spec\)$',
        '\\g<0>\n      .def(\n          "did_call_load_constants",\n'
        "          &AOTIModelContainerRunnerCuda::did_call_load_constants)",
    )


def chosen(tree: Path, *, apart: bool = False) -> None:
    """A default BLAS library, asked of ROCm's GPUs; ``apart``: in a function, and the list of GPUs elsewhere."""
    context = tree / CONTEXT
    preferred = "static const bool hipblaslt_preferred = made_up({listed});\n{by}if (hipblaslt_preferred) {{\n"
    asked = "  if (blas_preferred_backend == at::BlasBackend::Default) {\n"
    if apart:
        default = preferred.format(by="  ", listed="")
        edited(
            context,
            r"^at::BlasBackend Context::blasPreferredBackend\(\) \{\n",
            "at::BlasBackend Context::blasDefaultBackend() {\n#ifdef USE_ROCM\n"
            f"  {default}    return at::BlasBackend::Cublaslt;\n  }}\n#endif\n  return at::BlasBackend::Cublas;\n}}\n\n"
            f"\\g<0>{asked}    blas_preferred_backend = blasDefaultBackend();\n  }}\n",
        )
        edited(context, r"^( *)static const std::vector<std::string> archs = \{\n(?:.*\n)*?\1\};\n", "")
        edited(context, r"isGPUArch\(index, archs\)", "isGPUArch(index, made_up())")
    else:
        default = preferred.format(by="    ", listed='{\n#if ROCM_VERSION >= 60300\n        "gfx0"\n#endif\n    }')
        edited(
            context,
            r"^at::BlasBackend Context::blasPreferredBackend\(\) \{\n",
            f"\\g<0>{asked}#ifdef USE_ROCM\n    // made up\n"
            f"    {default}      blas_preferred_backend = at::BlasBackend::Cublaslt;\n    }}\n#endif\n  }}\n",
        )


def write(tree: Path, *names: str, text: str = "int made_up;\n") -> None:
    write_files(tree, dict.fromkeys(names, text))


def listed(tree: Path, name: str, *paths: str) -> None:
    """``paths`` are in upstream's own list of sources ``name``."""
    rows = "".join(f'    "{path}",\n' for path in paths)
    edited(tree / "build_variables.bzl", rf"^{name} = \[\n", rf"\g<0>{rows}")


def shared(tree: Path) -> None:
    """Symmetric memory in a folder, half of it CUDA's, some of it listed."""
    folder = f"{C10D_FOLDER}/symm_mem"
    stays, moves = f"{folder}/MadeUpMemory.cpp", f"{folder}/CUDASymmetricMemory.cu"
    write(tree, stays, moves, f"{folder}/CUDASymmetricMemoryUtils.cpp", f"{folder}/NVSHMEMSymmetricMemory.cu")
    listed(tree, "libtorch_distributed_base_sources", stays)
    listed(tree, "libtorch_cuda_distributed_extra_sources", moves)


def symmetric(tree: Path) -> None:
    """The same; a stable ABI with a part for CUDA."""
    shared(tree)
    write(tree, "torch/csrc/cuda/shim_common.cpp")
    write(
        tree,
        "torch/csrc/stable/c/shim.h",
        text="#pragma once\n#ifdef USE_CUDA\nint torch_made_up_stream(void** stream);\n#endif\n",
    )


def sourced(tree: Path) -> None:
    """A second NCCL's sources, in no list that 2.6 has; kernels beside symmetric memory; what is not for this build."""
    symmetric(tree)
    folder = f"{C10D_FOLDER}/symm_mem"
    write(tree, *(f"{C10D_FOLDER}/nccl2/{name}.cpp" for name in ("MadeUp", "MadeUpWork", "Utils")))
    write(tree, f"{C10D_FOLDER}/nccl2/MadeUp.hpp", text="#pragma once\n")
    write(tree, f"{C10D_FOLDER}/cuda/MadeUpEvents.cpp", f"{C10D_FOLDER}/cuda/MadeUpBlock.cu")
    write(tree, *(f"{folder}/{name}" for name in ("NCCLMadeUp.cu", "nccl_devcomm_made_up.cpp", "nccl_extension.cu")))
    write(tree, *(f"{folder}/{name}" for name in ("ops/made_up.cu", "cuda_made_up.cpp", "nccl_ep_made_up.cpp")))
    write(tree, f"{folder}/rocshmem_made_up.cu", f"{folder}/nvshmem_extension.cu")
    write(tree, "torch/headeronly/cuda/detail/MadeUp.h", text="#pragma once\n")


def younger(tree: Path) -> None:
    """Another C++."""
    edited(tree / "CMakeLists.txt", r"(^set\(CMAKE_CXX_STANDARD\n *)17$", r"\g<1>20")


def took(number: str) -> Evolve:
    """Upstream did by itself what this patch of ours does, in the files as they are called there."""

    def evolve(tree: Path) -> None:
        (patch,) = (Path(__file__).parents[2] / "patches/2.6").glob(f"{number}-*.patch")
        text = (
            patch.read_text()
            .replace(f"{CSRC}/aten/", "aten/src/ATen/")
            .replace(f"{CSRC}/pybinding/", "torch/csrc/cuda/")
        )
        subprocess.run(["git", "apply", "-"], cwd=tree, input=text, text=True, check=True)

    return evolve


def near_2_7(tree: Path) -> None:
    took("0004")(tree)


def near_2_8(tree: Path) -> None:
    for evolve in (near_2_7, took("0007"), grown, chosen):
        evolve(tree)


def near_2_9(tree: Path) -> None:
    for evolve in (near_2_7, took("0007"), grown, shared):
        evolve(tree)
    chosen(tree, apart=True)


def near_2_10(tree: Path) -> None:
    for evolve in (near_2_7, took("0007"), grown, symmetric):
        evolve(tree)
    chosen(tree, apart=True)


def near_2_11(tree: Path) -> None:
    """The launcher has another name; the bindings of NVSHMEM include a header of kernels."""
    between(tree, "#include <torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cuh>")


def near_2_12(tree: Path) -> None:
    """That header is one of C++'s and guarded; another C++."""
    header = "#include <torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.hpp>"
    between(tree, f"#ifdef USE_NVSHMEM\n{header}\n#endif")
    younger(tree)


def near_2_13(tree: Path) -> None:
    """A second launcher, storages of a size at an address; what of them no wheel dates comes with them."""
    header = "#include <torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.hpp>"
    between(tree, f"#ifdef USE_NVSHMEM\n{header}\n#endif", fast=True)
    for evolve in (stored, younger):
        evolve(tree)


def between(tree: Path, include: str, *, fast: bool = False) -> None:
    """What 2.11 to 2.13 have in common."""
    for evolve in (near_2_7, took("0007"), symmetric):
        evolve(tree)
    bound_shmem(tree, include)
    resize = f"{INDUCTOR}/resize_storage_bytes.cpp"
    edited(tree / "build_variables.bzl", rf'^    "{re.escape(resize)}",$', rf'\g<0>\n    "{add_kernel(tree)}",')
    launched(tree, fast=fast)
    chosen(tree, apart=True)


def near_2_14(tree: Path) -> None:
    """A second NCCL, another packer; what of 2.15 no wheel dates comes with them."""
    for evolve in (near_2_7, took("0007"), nccl, launched, answered, stored, built, sourced, younger):
        evolve(tree)
    chosen(tree, apart=True)


def later(tree: Path) -> None:
    for evolve in (near_2_7, took("0007"), nccl, launched, answered, stored, built, bound, sourced, younger):
        evolve(tree)
    chosen(tree, apart=True)


@pytest.mark.parametrize(("evolve", "gone"), [(near_2_7, ["0004"]), (near_2_8, ["0004", "0007"])])
def test_what_upstream_took_by_2_7_and_2_8_is_dropped_without_a_stop(
    project: Path, pristine: Path, tmp_path: Path, evolve: Evolve, gone: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = carried(project, pristine, tmp_path, evolve)
    verdicts = {one.name.removeprefix("2.6/")[:4]: one.verdict for one in found.outcome.carried}
    assert [number for number, verdict in verdicts.items() if verdict is Verdict.ALREADY_UPSTREAM] == gone
    assert not any(verdict.is_stop for verdict in verdicts.values())
    assert CLEAN in capsys.readouterr().out


# Not 2.10 and 2.12, a minute each: what they have is in 2.9 with 2.11, and in 2.13.
@pytest.mark.parametrize("evolve", [near_2_9, near_2_11, near_2_13, near_2_14])
def test_what_2_9_to_2_14_changed_is_carried_without_a_stop(
    project: Path, pristine: Path, tmp_path: Path, evolve: Evolve, capsys: pytest.CaptureFixture[str]
) -> None:
    applied, found = carried(project, pristine, tmp_path, evolve)
    assert [one.name for one in found.outcome.carried if one.verdict.is_stop] == []
    assert CLEAN in capsys.readouterr().out
    assert (applied / C10D_FOLDER / "symm_mem/MadeUpMemory.cpp").is_file()
    stable = (applied / "torch/csrc/stable/c/shim.h").is_file()
    assert stable == (evolve is not near_2_9), "extensions include it from the core"
    assert "CudaLauncher_init" not in (applied / MODULE).read_text()


def judged(project: Path, pristine: Path, tmp_path: Path, evolve: Evolve) -> dict[str, CarryResult]:
    """By its number: what becomes of each patch on the tree that ``evolve`` makes."""
    tree = tmp_path / "tree"
    subprocess.run(["cp", "-a", "--reflink=auto", str(pristine), str(tree)], check=True)
    evolve(tree)
    assert main(["manifest", "fill", "evolved", "--tree", str(tree), "--write"]) == 0
    found = rebase_series(RebaseRequest(project, ("2.6", "evolved"), source=f"local:{tree}", report=True))
    return {one.name.removeprefix("2.6/")[:4]: one for one in found.outcome.carried}


NEAR = {
    "2.7": near_2_7,
    "2.8": near_2_8,
    "2.9": near_2_9,
    "2.10": near_2_10,
    "2.11": near_2_11,
    "2.12": near_2_12,
    "2.13": near_2_13,
    "2.14": near_2_14,
    "2.15": later,
}


@pytest.mark.parametrize("release", NEAR)
def test_what_asks_for_a_vendor_comes_out_and_can_be_read(pristine: Path, tmp_path: Path, release: str) -> None:
    """0019, 0021 and 0024, on no file but those that the series touches: a second instead of a minute."""
    project, tree, trees = find_project(), tmp_path / "tree", list[Tree]()
    series = check.load_series(project, "2.6")
    remaker = PatchRemaker(load_recipes(project), SeriesMerge(series, FolderSource(pristine)))
    wanted = check.list_wanted_paths(series) | remaker.recipe_paths | {"version.txt"}
    for path in (path for path in wanted if (pristine / path).is_file()):
        write(tree, path, text="")
        shutil.copy2(pristine / path, tree / path)
    NEAR[release](tree)
    opened = OpenedSource(FolderSource(tree), release)

    def keep(patch: Patch, applied: Tree) -> tuple[str, ...]:
        trees.append(applied)
        return remaker.find_lost_changes(patch, applied)

    found = check.check_series(series, opened.source, remade=remaker.bind_source(opened), lost=keep)
    fits = {fit.patch.name.partition("/")[2][:4]: fit for fit in found}
    for number in ("0019", "0021", "0024"):
        assert fits[number].status in (Fit.CLEAN, Fit.OFFSET, Fit.MADE), fits[number]

    def text(path: str) -> str:
        file = trees[-1].get(path)
        assert file
        return file.data.decode()

    for path in (path for patch in series for path in patch.changed_paths if path.endswith(".py")):
        if trees[-1].get(path):
            compile(text(path), path, "exec")
    assert "torch_cuda" in text("torch/utils/cpp_extension.py")
    commands = [command.name.lower() for command in read_cmake(text("CMakeLists.txt"))]
    assert commands.count("if") == commands.count("endif")
    for path in fits["0024"].patch.changed_paths:
        assert "USE_ROCM" not in text(path), path
        words = [directive.word for directive in parse_directives(text(path))]
        assert sum(word in ("if", "ifdef", "ifndef") for word in words) == words.count("endif"), path


def said(one: CarryResult) -> str:
    return "\n".join(f"{note.path}: {note.text}" for note in one.notes)


def test_all_that_later_releases_changed_is_carried_without_a_stop(
    project: Path, pristine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    applied, found = carried(project, pristine, tmp_path, later)
    assert [one.name for one in found.outcome.carried if one.verdict.is_stop] == []
    assert CLEAN in capsys.readouterr().out
    registrations = applied / CSRC / "pybinding/registrations"
    c10d = (registrations / "c10d.cpp").read_text()
    for name in (
        "ProcessGroupNCCL2",
        "MadeUpStub",
        "_register_external_nccl_comm",
        "getPeerCftHandle",
        "_made_up_shmem",
    ):
        assert name in c10d
    core = (applied / C10D).read_text()
    assert "ProcessGroupNCCL2" not in core
    assert "refused()" in core, "the core's own half stays"
    assert "made_up(peer)" not in core
    assert "MadeUpEvent.h" in (registrations / "storage_sharing.cpp").read_text()
    assert "resize_bytes_with_addr_stub" in (applied / "aten/src/ATen/native/Resize.h").read_text()
    assert (registrations / "resize_with_addr.cpp").is_file()
    assert "newsize >= 0" in (applied / "torch/csrc/StorageMethods.cpp").read_text()
    assert (applied / CSRC / "framework/inductor/static_launcher/cuda.cpp").is_file()
    assert "static_launcher" not in (applied / "build_variables.bzl").read_text()
    module = (applied / MODULE).read_text()
    assert "CudaLauncher_init" not in module
    assert 'set_module_attr("_has_gds", Py_False)' in module
    assert "install(DIRECTORY" in (applied / "CMakeLists.txt").read_text()
    assert "tracesGpu()" in (applied / "torch/csrc/autograd/init.cpp").read_text()
    taken = take_census(CensusRequest(project, "evolved", tree=tmp_path / "tree", applied=applied))
    assert taken.comparison.key_after == 0


def third_nccl(tree: Path) -> None:
    edited(
        tree / C10D,
        r"^#ifdef USE_C10D_UCC\n  auto processGroupUCC",
        '#ifdef USE_C10D_NCCL\n  bind_made_up(module, "ProcessGroupNCCL3");\n#endif\n\n\\g<0>',
    )


def test_bindings_that_no_rule_carries_stop_by_name(project: Path, pristine: Path, tmp_path: Path) -> None:
    """The first silent fault: the default "nccl" was gone, and the verdict was "made by its recipe"."""
    one = judged(project, pristine, tmp_path, third_nccl)["0014"]
    assert one.verdict is Verdict.CONFLICT
    assert 'bind_made_up(module, "ProcessGroupNCCL3")' in said(one)
    assert C10D in said(one)


def test_a_source_that_stage_1_compiles_to_nothing_stops_by_name(project: Path, pristine: Path, tmp_path: Path) -> None:
    """The second: the launcher's source had another name, its header moved alone, and the binding was missing."""
    found = judged(project, pristine, tmp_path, lambda tree: launched(tree, "other_launcher"))
    assert found["0001"].verdict is Verdict.CONFLICT
    assert f"{INDUCTOR}/other_launcher/cuda.cpp" in said(found["0001"])


def test_an_answer_that_stage_2_does_not_give_stops_by_name(project: Path, pristine: Path, tmp_path: Path) -> None:
    def evolve(tree: Path) -> None:
        edited(tree / MODULE, r"^  torch::cuda::initModule\(module\);$", "\\g<0>\n  ASSERT_TRUE(MadeUp_init(module));")

    one = judged(project, pristine, tmp_path, evolve)["0016"]
    assert one.verdict is Verdict.CONFLICT
    assert "MadeUp_init(module)" in said(one)
