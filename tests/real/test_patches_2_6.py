"""The in-file patches of 2.6 on the real source: they apply, and what they leave names CUDA through interfaces only."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.paths import find_cache, find_project
from decouple.patch import series_file
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.support.series import ENVIRONMENT, git

pytestmark = pytest.mark.real

PROJECT = find_project()
OVERLAY = PROJECT / "third_device"
MOVED = Path("third_device/torch_cuda/torch_cuda")

#: Macros that would make a file of stage 1 compile differently in a CUDA build.
BUILD_MACROS = re.compile(r"\b(USE_CUDA|USE_CUDNN|USE_CUSPARSELT|USE_NCCL|USE_C10D_NCCL|USE_C10D_UCC|USE_CUFILE)\b")

#: Where such a macro stays, and why that is no coupling of stage 1.
COMPILED_INTO_MODELS = frozenset(
    f"torch/csrc/inductor/aoti_runtime/{name}" for name in ("device_utils.h", "model.h", "model_container.h")
)

#: A binding that belongs to CUDA, by its name.
CUDA_BINDING = re.compile(r"cuda|cudnn|nccl|cusparselt|nvtx|_gds", re.IGNORECASE)


def series_patches() -> list[Path]:
    listed = series_file.read_series(PROJECT / "series" / "2.6")
    return [PROJECT / "patches" / entry.name for entry in listed.entries]


@pytest.fixture(scope="module", params=["pristine", "debian"])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The whole series applied with plain ``git apply``, on upstream's tree and on the one with Debian's patches."""
    manifest = load_release(PROJECT, "2.6")
    baseline = ensure_baseline(
        find_cache(), manifest, fetch_source(manifest, "debian"), debian_patches=request.param == "debian"
    )
    folder = tmp_path_factory.mktemp("patched")
    git(folder, "clone", "-q", "--shared", "--no-checkout", str(baseline.repo), str(folder / "src"))
    source = folder / "src"
    git(source, "checkout", "-q", "--detach", baseline.commit)
    for patch in series_patches():
        done = subprocess.run(
            ["git", "apply", "--index", "-v", str(patch)], cwd=source, env=ENVIRONMENT, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{patch.name}: {done.stderr[-2000:]}"
        assert "with fuzz" not in done.stderr, patch.name
    yield source
    shutil.rmtree(folder, ignore_errors=True)


def sources(tree: Path, *folders: str) -> Iterator[tuple[str, str]]:
    """Path and text of the C++ files that the core keeps."""
    for folder in folders:
        for path in sorted((tree / folder).rglob("*")):
            if path.suffix in {".h", ".hpp", ".cpp", ".c", ".inc"} and path.is_file():
                yield path.relative_to(tree).as_posix(), path.read_text(encoding="utf-8", errors="replace")


def test_no_file_of_the_core_asks_at_compile_time_whether_cuda_is_there(tree: Path) -> None:
    asking = {
        path
        for path, text in sources(tree, "c10", "torch/csrc", "tools/autograd/templates", "aten/src/ATen")
        for line in text.split("\n")
        if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line) and BUILD_MACROS.search(line)
    }
    assert asking == COMPILED_INTO_MODELS


def test_no_file_of_the_core_includes_a_moved_header_where_stage_1_sees_it(tree: Path) -> None:
    renames = re.findall(r"^rename from (.*)$", series_patches()[0].read_text(), re.MULTILINE)
    gone = {path.removeprefix("aten/src/") for path in renames if path.endswith((".h", ".hpp", ".cuh"))}
    including = {
        (path, header)
        for path, text in sources(tree, "c10", "torch/csrc", "aten/src/ATen")
        for header in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text, re.MULTILINE)
        if header in gone
    }
    assert including == {
        # for nvcc alone: behind __CUDACC__ or __CUDA_ARCH__, which no stage-1 compiler defines
        ("aten/src/ATen/native/Distributions.h", "c10/cuda/CUDAMathCompat.h"),
        ("aten/src/ATen/native/SharedReduceOps.h", "ATen/cuda/DeviceUtils.cuh"),
        ("aten/src/ATen/native/SharedReduceOps.h", "ATen/native/cuda/DeviceSqrt.cuh"),
        ("aten/src/ATen/native/SharedReduceOps.h", "c10/cuda/CUDAMathCompat.h"),
        ("c10/util/generic_math.h", "c10/cuda/CUDAMathCompat.h"),
        # a header for programs that use several GPUs; no unit of stage 1 includes it
        ("torch/csrc/api/include/torch/nn/parallel/data_parallel.h", "torch/csrc/autograd/functions/comm.h"),
    }


def test_moved_bindings_name_constants_where_upstream_has_them(tree: Path) -> None:
    """Also behind a switch that few builds turn on: UCC's looked for the timeout of process groups in c10d, where it is
    not, and did not compile."""
    text = series_patches()[0].read_text()
    moved = dict(zip(*(re.findall(rf"^rename {way} (.*)$", text, re.MULTILINE) for way in ("from", "to")), strict=True))
    named = 0
    for binding in sorted((tree / MOVED / "csrc/pybinding/registrations").glob("*.cpp")):
        text = binding.read_text(encoding="utf-8")
        included = re.findall(r"^\s*#\s*include\s*<(torch/[^>]+)>", text, re.MULTILINE)
        headers = [(tree / moved.get(header, header)).read_text(encoding="utf-8") for header in included]
        within = "".join(header.partition("\nnamespace c10d {")[2] for header in headers)
        constants = set(re.findall(r"\bc10d::(k[A-Z]\w+)", text))
        assert constants <= set(re.findall(r"^constexpr\s.*?\b(k[A-Z]\w+)\s*=", within, re.MULTILINE)), binding.name
        named += len(constants)
    assert named, "the bindings of c10d name their timeouts"


def test_patched_python_compiles_and_is_packaged_from_where_it_lies(tree: Path) -> None:
    touched = {
        line.removeprefix("+++ b/")
        for patch in series_patches()
        for line in patch.read_text().split("\n")
        if line.startswith("+++ b/") and line.endswith(".py")
    }
    assert {"setup.py", "torch/__init__.py", "torch/utils/cpp_extension.py"} <= touched
    for name in touched:
        compile((tree / name).read_text(), name, "exec")
    packages = decoupled_packages(tree / "setup.py")
    assert set(packages) == {
        "torch.cuda",
        "torch.backends.cuda",
        "torch.backends.cudnn",
        "torch.backends.cusparselt",
        "torch._decoupled",
    }
    for name, folder in packages.items():
        root = tree if name != "torch._decoupled" else OVERLAY.parent
        assert (root / folder / "__init__.py").is_file(), name
        assert not (tree / name.replace(".", "/")).exists(), name


def decoupled_packages(setup: Path) -> dict[str, str]:
    for node in ast.parse(setup.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DECOUPLED_PACKAGES":
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError("setup.py has no DECOUPLED_PACKAGES")


def bindings_reached(text: str) -> Iterator[str]:
    """Names below ``torch._C`` that Python reaches: attributes, imports, hasattr/getattr, dotted strings."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module == "torch._C":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch._C":
            yield node.attr
        elif isinstance(node, ast.Call) and len(node.args) > 1 and ast.unparse(node.args[0]) == "torch._C":
            if ast.unparse(node.func) in {"hasattr", "getattr"} and isinstance(node.args[1], ast.Constant):
                yield str(node.args[1].value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\Atorch\._C\.(\w+)[\w.]*\Z", node.value)


def test_every_cuda_binding_that_python_reaches_through_the_core_is_one_that_the_loader_can_fill_in(tree: Path) -> None:
    sites: dict[str, int] = {}
    for folder in ("torch", str(MOVED / "core"), str(MOVED / "backends")):
        for path in (tree / folder).rglob("*.py"):
            for name in bindings_reached(path.read_text(encoding="utf-8")):
                if CUDA_BINDING.search(name):
                    sites[name] = sites.get(name, 0) + 1
    assert (len(sites), sum(sites.values())) == (121, 238), "docs/split.md gives these figures"
    defined = {
        literal
        for root in (tree / MOVED / "csrc", PROJECT / MOVED / "csrc", tree / "torch/csrc")
        for path in root.rglob("*")
        if path.suffix in {".cpp", ".cu"}
        for literal in re.findall(r'"(\w+)"', path.read_text(encoding="utf-8", errors="replace"))
    }
    assert set(sites) - defined == set()


def test_the_search_for_bindings_finds_each_way_of_reaching_one() -> None:
    text = (
        "import torch\nfrom torch._C import _cuda_a\nx = torch._C._cuda_b()\n"
        "hasattr(torch._C, '_cuda_c')\nnames = ['torch._C._cuda_d']\n# torch._C._cuda_comment\n"
    )
    assert sorted(bindings_reached(text)) == ["_cuda_a", "_cuda_b", "_cuda_c", "_cuda_d"]


@pytest.mark.tools("c++")
def test_the_hooks_of_a_hip_backend_are_numbered_as_the_cores(tree: Path, tmp_path: Path) -> None:
    """isGPUArch stood under USE_ROCM before deviceSynchronize: a core without the macro called one for the other."""
    (tmp_path / "c10/macros").mkdir(parents=True)
    (tmp_path / "c10/macros/cmake_macros.h").touch()  # written by the core's configuration
    (tmp_path / "unit.cpp").write_text("#include <ATen/detail/CUDAHooksInterface.h>\n")

    def table(*options: str) -> list[str]:
        include = (f"-I{tmp_path}", f"-I{tree / 'aten/src'}", f"-I{tree}")
        command = ("c++", "-std=c++17", "-fsyntax-only", "-fdump-lang-class=all.txt", *include, *options, "unit.cpp")
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        dumped = (tmp_path / "all.txt").read_text()
        found = re.search(r"^Vtable for at::CUDAHooksInterface\n.*?\n\n", dumped, re.MULTILINE | re.DOTALL)
        assert found
        return re.findall(r"at::(?:CUDA|Accelerator)HooksInterface::(~?\w+)$", found[0], re.MULTILINE)

    of_the_core = table()
    assert of_the_core[-2:] == [
        "deviceSynchronize",
        "isGPUArch",
    ]  # published headers have all but the last, in this order
    assert table("-DUSE_ROCM") == of_the_core


@pytest.mark.parametrize("is_hip", [False, True], ids=["CUDA", "ROCm"])
def test_an_extension_finds_the_package_that_brought_the_bindings(tree: Path, is_hip: bool) -> None:
    """Of CUDA, and of ROCm, where upstream has a branch of its own."""
    module = ast.parse((tree / "torch/utils/cpp_extension.py").read_text(encoding="utf-8"))
    asked = {"include_paths", "library_paths"}
    module.body = [one for one in module.body if isinstance(one, ast.FunctionDef) and one.name in asked]
    names: dict[str, object] = {
        "os": os,
        "List": list,
        "IS_WINDOWS": False,
        "CUDNN_HOME": None,
        "HIP_HOME": None,
        "IS_HIP_EXTENSION": is_hip,
        "_CUDA_PACKAGE": "/site/its",
        "_TORCH_PATH": "/t",
        "TORCH_LIB_PATH": "/t/lib",
        **{f"_join_{vendor}_home": lambda *parts: "/".join(("/toolkit", *parts)) for vendor in ("cuda", "rocm")},
    }
    exec(compile(module, "cpp_extension.py", "exec"), names)
    for function, folder in (("include_paths", "/site/its/include"), ("library_paths", "/site/its/lib")):
        ask = names[function]
        assert callable(ask)
        assert folder in ask("cuda")
        assert folder not in ask("cpu")


@pytest.mark.tools("cmake")
def test_the_core_looks_for_no_rocm_where_one_is_installed(tree: Path, tmp_path: Path) -> None:
    """Upstream has USE_ROCM on, on Linux, until it finds none; the sources it would compile have moved."""
    text = (tree / "CMakeLists.txt").read_text(encoding="utf-8")
    begin, last = (
        text.index('option(USE_CUDA "Use CUDA" ON)'),
        'cmake_dependent_option(USE_ROCM "Use ROCm" ON "LINUX" OFF)',
    )
    options = text[begin : text.index(last) + len(last)]
    script = tmp_path / "options.cmake"
    script.write_text(f"set(LINUX ON)\ninclude(CMakeDependentOption)\n{options}\n" + 'message("ROCm: ${USE_ROCM}")\n')
    assert subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True).stderr == "ROCm: OFF\n"
