"""The loader, on real shared libraries and a small package that is laid out as torch is.

``torch/_C`` is a real extension module that asks, while it is created, whether ``cuda_is_here`` is in the process: the
question ATen asks once and for all.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from torch_cuda import _libraries, _preload
from torch_cuda_build import backend

from .conftest import PROJECT

CORE_PRELOAD = PROJECT.parent / "added_to_core" / "torch" / "_decoupled" / "preload.py"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

CORE = """
#include <Python.h>
#include <dlfcn.h>
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "torch._C", 0, -1, 0};
PyMODINIT_FUNC PyInit__C(void) {
  PyObject* module = PyModule_Create(&def);
  PyModule_AddObject(module, "saw_cuda", PyBool_FromLong(dlsym(RTLD_DEFAULT, "cuda_is_here") != 0));
  PyModule_AddObject(module, "_has_cuda", PyBool_FromLong(0));
  return module;
}
"""
BINDINGS = """
#include <Python.h>
static PyObject* version(PyObject* self, PyObject* none) { return PyLong_FromLong(12040); }
static PyObject* count(PyObject* self, PyObject* none) { return PyLong_FromLong(0); }
static PyMethodDef methods[] = {{"_cuda_getCompiledVersion", version, METH_NOARGS, 0},
                                {"_cuda_getDeviceCount", count, METH_NOARGS, 0}, {0}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "torch_cuda._CUDAC", 0, -1, methods};
PyMODINIT_FUNC PyInit__CUDAC(void) {
  PyObject* module = PyModule_Create(&def);
  PyModule_AddObject(module, "_has_cuda", PyBool_FromLong(1));
  return module;
}
"""
TORCH = "import torch.version\nfrom torch._C import *\nfrom torch import _C\nimport torch.cuda\n"

needs_cc = pytest.mark.tools("cc")


def compile_c(text: str, target: Path, *flags: str) -> Path:
    """One shared library out of one C source."""
    source = target.with_suffix(".c")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    include = sysconfig.get_path("include")
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(target), *flags], check=True)
    source.unlink()
    return target


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with a stock torch 2.6.0 and an installed torch_cuda."""
    folder = tmp_path / "site"
    torch = folder / "torch"
    compile_c(CORE, torch / f"_C{SUFFIX}")
    (torch / "cuda").mkdir()
    (torch / "cuda/__init__.py").write_text("import torch._C\nbuilt = torch._C._has_cuda\n")
    (torch / "__init__.py").write_text(TORCH)
    (torch / "version.py").write_text("__version__ = '2.6.0+debian'\ncuda = None\n")
    package = folder / "torch_cuda"
    package.mkdir()
    for path in (PROJECT / "torch_cuda").glob("*.py"):
        shutil.copy(path, package)
    shutil.copy(CORE_PRELOAD, package / "_core_preload.py")
    for name in backend.START:
        shutil.copy(PROJECT / name, folder)
    (package / "build_info.json").write_text(json.dumps({"torch": "2.6.0", "version": "2.6.0+cu124", "cuda": "12.4"}))
    compile_c("int c10_cuda(void) { return 1; }", package / "lib/libc10_cuda.so")
    compile_c("int cuda_is_here(void) { return 1; }", package / "lib/libtorch_cuda.so")
    compile_c("int nvrtc(void) { return 1; }", package / "lib/libcaffe2_nvrtc.so")
    compile_c(BINDINGS, package / f"_CUDAC{SUFFIX}")
    dist_info = folder / "torch_cuda-2.6.0+cu124.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-cuda\nVersion: 2.6.0+cu124\n")
    (dist_info / "entry_points.txt").write_text("[torch.backends.preload]\ncuda = torch_cuda._preload:preload\n")
    return folder


def python(site: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh Python with *site* as a site folder, so that its .pth is read as at any start."""
    start = f"import site; site.addsitedir({str(site)!r}); {code}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "PYTHONPATH"))}
    return subprocess.run(
        [sys.executable, "-c", start],
        env={**clean, **environment},
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )


def ask(site: Path, expression: str, **environment: str) -> str:
    """What ``print(expression)`` says after ``import torch``."""
    done = python(site, f"import torch; print({expression})", **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_cc
def test_libraries_of_another_toolkit_that_go_before_ours_are_blamed(site: Path, tmp_path: Path) -> None:
    """As `module load cuda/12.1` does: `undefined symbol: __nvJitLinkComplete_12_4` told nobody what to do."""
    soname = "-Wl,-soname,libnvJitLink.so.12"
    ours = compile_c("int complete_12_4(void) { return 1; }", site / "nvidia/nvjitlink/lib/libnvJitLink.so.12", soname)
    run_path = f"-Wl,-rpath,{ours.parent}"
    code = "int complete_12_4(void); int cuda_is_here(void) { return complete_12_4(); }"
    compile_c(code, site / "torch_cuda/lib/libtorch_cuda.so", str(ours), run_path)
    assert ask(site, "torch._C.saw_cuda", LD_LIBRARY_PATH="") == "True"
    other = compile_c("int complete_12_1(void) { return 1; }", tmp_path / "cuda-12.1/libnvJitLink.so.12", soname).parent
    done = python(site, "import torch", LD_LIBRARY_PATH=str(other))
    assert f"LD_LIBRARY_PATH={other} goes before" in done.stderr and "unset it" in done.stderr


def test_bindings_without_their_libraries_say_which_wheel_is_missing(tmp_path: Path) -> None:
    with pytest.raises(_libraries.LibraryError, match=r"torch-cuda-libraries==2\.6\.0\+cu124"):
        _preload.check_whole({"version": "2.6.0+cu124"}, tmp_path)
    (tmp_path / "libtorch_cuda.so").touch()
    _preload.check_whole({"version": "2.6.0+cu124"}, tmp_path)


def test_another_vendors_package_names_itself(tmp_path: Path) -> None:
    hip = {"package": "torch_hip", "word": "hip", "version": "2.6.0+rocm6.4", "torch": "2.6.0"}
    with pytest.raises(_libraries.LibraryError, match=r"torch-hip-libraries==2\.6\.0\+rocm6\.4"):
        _preload.check_whole(hip, tmp_path)
    with pytest.raises(_preload.VersionError, match=r"torch-hip 2\.6\.0\+rocm6\.4 .* the torch-hip of 2\.7\.0"):
        _preload.check_version(hip, "2.7.0+cpu", "")


@needs_cc
def test_libraries_come_before_the_core_and_bindings_right_after(site: Path) -> None:
    assert ask(site, "torch._C.saw_cuda, torch._C._has_cuda, torch.cuda.built") == "True True True"


@needs_cc
def test_the_profilers_library_is_in_the_process_when_the_bindings_are_imported(site: Path) -> None:
    compile_c("int torch_kineto_cuda_register(void) { return 1; }", site / "torch_cuda/lib/libtorch_kineto_cuda.so")
    said = ask(site, "__import__('ctypes').CDLL(None).torch_kineto_cuda_register()")
    assert said == "1"


LAZY = """
import torch._C
built, _queued = torch._C._has_cuda, []
_lazy_call = _queued.append
def init():
    for call in _queued: call()
"""


def take_official_kernels(site: Path) -> None:
    """Let the installed torch_cuda have upstream's kernels, and torch.cuda keep what is asked of it until `init`."""
    info = {"torch": "2.6.0", "version": "2.6.0+cu124", "cuda": "12.4", "kernels": "official"}
    (site / "torch_cuda/build_info.json").write_text(json.dumps(info))
    (site / "torch/cuda/__init__.py").write_text(LAZY)


@needs_cc
def test_a_library_that_asks_for_devices_is_opened_when_cuda_is_initialised(site: Path) -> None:
    """libtorch_cuda_linalg with MAGMA does: a child forked after ``import torch`` could not use CUDA.

    libtorch_cuda_patched comes with torch: it stands before the hooks of upstream's libtorch_cuda.
    """
    for name in ("linalg", "patched"):
        compile_c(f"int {name}_is_here(void) {{ return 1; }}", site / f"torch_cuda/lib/libtorch_cuda_{name}.so")
    take_official_kernels(site)
    here = "[hasattr(__import__('ctypes').CDLL(None), f'{name}_is_here') for name in ('patched', 'linalg')]"
    said = ask(site, f"torch.cuda._CUDAC is not None, {here}, torch.cuda.init(), {here}")
    assert said == "True [True, False] None [True, True]"


@needs_cc
def test_without_cusolver_cuda_works_and_says_what_it_lacks(site: Path) -> None:
    """As with upstream's wheel, which opens libtorch_cuda_linalg at the first use; each call of CUDA failed."""
    solver = compile_c("int solve(void) { return 0; }", site / "libcusolver.so.11", "-Wl,-soname,libcusolver.so.11")
    ours = site / "torch_cuda/lib/libtorch_cuda_linalg.so"
    compile_c("int solve(void); int use(void) { return solve(); }", ours, str(solver))
    solver.unlink()
    take_official_kernels(site)
    done = python(site, "import torch; torch.cuda.init(); print('initialised')")
    assert (done.returncode, done.stdout.strip()) == (0, "initialised"), done.stderr
    assert "operators of libtorch_cuda_linalg.so will fail: libtorch_cuda_linalg.so needs libcusolver" in done.stderr


@needs_cc
def test_without_cupti_torch_works_and_says_what_profiles_lack(site: Path) -> None:
    cupti = compile_c("int cuptiSubscribe(void) { return 0; }", site / "libcupti.so.12", "-Wl,-soname,libcupti.so.12")
    ours = site / "torch_cuda/lib/libtorch_kineto_cuda.so"
    compile_c("int cuptiSubscribe(void); int use(void) { return cuptiSubscribe(); }", ours, str(cupti))
    cupti.unlink()
    done = python(site, "import torch; print(torch._C._has_cuda)")
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "RuntimeWarning" in line]
    assert "torch.profiler will record no CUDA activities: libtorch_kineto_cuda.so needs libcupti.so.12" in line


@needs_cc
def test_bindings_are_reachable_under_the_name_of_the_rfc(site: Path) -> None:
    assert ask(site, "torch.cuda._CUDAC.__name__, torch._C._cuda_getDeviceCount()") == "torch_cuda._CUDAC 0"
    assert ask(site, "torch.version.cuda") == "12.4"


@needs_cc
def test_opting_out_leaves_the_core_alone(site: Path) -> None:
    environment = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert ask(site, "torch._C.saw_cuda, torch._C._has_cuda, torch.version.cuda", **environment) == "False False None"


@needs_cc
def test_another_torch_is_refused_in_one_clear_sentence(site: Path) -> None:
    (site / "torch/version.py").write_text("__version__ = '2.7.0'\ncuda = None\n")
    done = python(site, "import torch")
    assert done.returncode != 0
    assert "was built for torch 2.6.0, but torch 2.7.0 is installed" in done.stderr
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.stderr
    assert python(site, "import torch", TORCH_DEVICE_BACKEND_AUTOLOAD="0").returncode == 0


@needs_cc
def test_a_patched_core_is_left_to_load_us_itself(site: Path) -> None:
    (site / "torch/_decoupled").mkdir()
    (site / "torch/_decoupled/preload.py").touch()
    (site / "torch/__init__.py").write_text(f"from torch._decoupled import preload as _preload\n{TORCH}")
    assert ask(site, "torch._C.saw_cuda") == "False"


@needs_cc
def test_what_is_left_of_a_patched_core_hides_nothing(site: Path) -> None:
    """Once imported with python -O, pip leaves files of it behind when an unmodified torch takes its place."""
    (site / "torch/_decoupled/__pycache__").mkdir(parents=True)
    (site / "torch/_decoupled/__pycache__/preload.cpython-311.opt-1.pyc").touch()
    assert ask(site, "torch._C.saw_cuda, torch._C._has_cuda") == "True True"


def test_files_of_two_builds_are_refused_by_name(tmp_path: Path) -> None:
    """A wheel unpacked over one with upstream's kernels, not installed by pip, leaves libraries there to be opened."""
    compiled, official = {"version": "2.6.0+cu124"}, {"version": "2.6.0+cu124.official", "kernels": "official"}
    (tmp_path / "lib").mkdir()
    _preload.check_kind(compiled, tmp_path, tmp_path)
    (tmp_path / "lib/libtorch_cuda_linalg.so").touch()
    (tmp_path / "kernels.json").touch()
    _preload.check_kind(official, tmp_path, tmp_path)
    with pytest.raises(_preload.VersionError, match=r"kernels\.json"):
        _preload.check_kind(compiled, tmp_path, tmp_path)


def test_upstreams_kernels_for_an_unmodified_torch_are_refused_by_the_patched_one(tmp_path: Path) -> None:
    built = {"version": "2.6.0+cu124.official", "kernels": "official", "core": "stock"}
    (tmp_path / "torch/_decoupled/__pycache__").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").touch()
    _preload.check_kind(built, tmp_path, tmp_path / "torch")  # what is left of a patched one
    (tmp_path / "torch/__init__.py").write_text("from torch._decoupled import preload as _preload\n")
    told = "is for an unmodified torch, that in .* is the patched one"
    with pytest.raises(_preload.VersionError, match=told):
        _preload.check_kind(built, tmp_path, tmp_path / "torch")
    _preload.check_kind({**built, "core": "built"}, tmp_path, tmp_path / "torch")


@needs_cc
def test_a_python_that_never_imports_torch_imports_one_small_module_of_ours(site: Path) -> None:
    """Not json, pathlib or typing either, which would cost each start of Python more than all the rest of it."""
    code = (
        f"import sys, site; before = {{*sys.modules}}; site.addsitedir({str(site)!r}); print({{*sys.modules}} - before)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'torch_cuda_start'}", done.stderr


def test_only_a_wheel_for_a_stock_core_has_something_for_pythons_start(tmp_path: Path) -> None:
    assert {*backend.START} <= {*backend.list_members(tmp_path, {"core": "stock"})}
    assert not {*backend.START} & {*backend.list_members(tmp_path, {"core": "built"})}


@needs_cc
def test_a_library_in_another_folder_of_sys_path_is_found(tmp_path: Path) -> None:
    """Ours needs one library, which needs another: both in nvidia/*/lib of a second site folder."""
    lib = tmp_path / "other/nvidia/nvjitlink/lib"
    inner = compile_c(
        "int decouple_inner(void) { return 1; }", lib / "libdecinner.so.1", "-Wl,-soname,libdecinner.so.1"
    )
    outer_folder = tmp_path / "other/nvidia/cublas/lib"
    outer = compile_c(
        "int decouple_inner(void); int decouple_outer(void) { return decouple_inner(); }",
        outer_folder / "libdecouter.so.1",
        str(inner),
        "-Wl,-soname,libdecouter.so.1",
    )
    ours = compile_c(
        "int decouple_outer(void); int f(void) { return decouple_outer(); }", tmp_path / "libours.so", str(outer)
    )
    folders = _libraries.search_folders(tmp_path / "torch", [str(tmp_path / "other")])
    assert _libraries.open_library(ours, folders).f() == 1


@needs_cc
def test_what_the_bindings_alone_need_is_found_there_too(site: Path, tmp_path: Path) -> None:
    """Over the official kernels nothing but the bindings needs NVTX, and an import statement knows no folders."""
    folder = tmp_path / "other/nvidia/nvtx/lib"
    nvtx = compile_c("int nvtx(void) { return 1; }", folder / _preload.NVTX, f"-Wl,-soname,{_preload.NVTX}")
    compile_c(BINDINGS, site / f"torch_cuda/_CUDAC{SUFFIX}", "-Wl,--no-as-needed", str(nvtx))
    assert ask(site, "torch.cuda.built", PYTHONPATH=str(tmp_path / "other")) == "True"
    nvtx.unlink()
    assert _preload.NVTX in python(site, "import torch", PYTHONPATH=str(tmp_path / "other")).stderr


def write_catalogue(path: Path, texts: dict[str, str]) -> None:
    """Write translations as msgfmt does, which need not be here."""
    rows = sorted((text.encode(), said.encode()) for text, said in {"": "", **texts}.items())
    words = [word for column in zip(*rows, strict=True) for word in column]
    header = (0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
    places, end = [], 28 + 8 * len(words)
    for word in words:
        places += [len(word), end]
        end += len(word) + 1
    path.parent.mkdir(parents=True)
    path.write_bytes(struct.pack(f"<{7 + len(places)}I", *header, *places) + b"\0".join(words) + b"\0")


@needs_cc
def test_a_library_in_another_folder_is_found_where_messages_are_in_another_language(
    site: Path, tmp_path: Path
) -> None:
    """A program of Qt or GTK sets the locale, and glibc then translates what the dynamic linker says."""
    inner = compile_c(
        "int inner(void) { return 1; }",
        tmp_path / "other/nvidia/cublas/lib/libdecinner.so.1",
        "-Wl,-soname,libdecinner.so.1",
    )
    text = "int inner(void); int cuda_is_here(void) { return inner(); }"
    compile_c(text, site / "torch_cuda/lib/libtorch_cuda.so", str(inner))
    write_catalogue(tmp_path / "de/LC_MESSAGES/libc.mo", {"cannot open shared object file": "nicht gefunden"})
    code = (
        "import ctypes, locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8'); "
        f"ctypes.CDLL(None).bindtextdomain(b'libc', {os.fsencode(tmp_path)!r}); import torch; print(torch._C.saw_cuda)"
    )
    german = {"LANGUAGE": "de", "PYTHONPATH": str(tmp_path / "other")}
    done = python(site, code, **german)
    assert done.stdout == "True\n", done.stderr
    inner.unlink()
    told = python(site, code, **german).stderr
    assert "libtorch_cuda.so needs libdecinner.so.1, which is neither on the system" in told


@needs_cc
def test_a_library_that_is_nowhere_is_named_with_what_needs_it(tmp_path: Path) -> None:
    gone = compile_c("int g(void) { return 1; }", tmp_path / "libdecgone.so.1", "-Wl,-soname,libdecgone.so.1")
    ours = compile_c("int g(void); int h(void) { return g(); }", tmp_path / "libdecours.so", str(gone))
    gone.unlink()
    with pytest.raises(_libraries.LibraryError, match=r"libdecgone.*pip install"):
        _libraries.open_library(ours, [])


@pytest.mark.parametrize(
    ("core", "wanted"),
    [
        ({"core": "built", "core_version": "2.6.0+decoupled"}, "install torch==2.6.0+decoupled"),
        ({"core": "stock", "core_version": "2.6.0+cpu"}, "install a torch 2.6.0 without CUDA, such as 2.6.0+cpu"),
    ],
)
def test_the_torch_that_is_advised_is_not_refused_next(core: dict[str, str], wanted: str) -> None:
    """`pip install torch==2.6.0` brings PyPI's, which has CUDA in it."""
    built = {"torch": "2.6.0", "version": "2.6.0+cu124", **core}
    for version, inside in (("2.7.1", ""), ("2.6.0", "CUDA 12.4")):
        with pytest.raises(_preload.VersionError) as caught:
            _preload.check_version(built, version, inside)
        assert wanted in str(caught.value)


@needs_cc
@pytest.mark.parametrize("inside", [{"cuda": "12.4", "hip": None}, {"cuda": None, "hip": "6.2.41134"}])
def test_a_torch_with_a_vendors_half_inside_is_refused(site: Path, inside: dict[str, str | None]) -> None:
    """Its libraries would be opened beside ours: ``2.6.0+rocm6.2.4`` satisfies ``torch==2.6.0`` as well."""
    values = "".join(f"{name} = {value!r}\n" for name, value in inside.items())
    (site / "torch/version.py").write_text(f"__version__ = '2.6.0'\n{values}")
    said = python(site, "import torch").stderr
    assert f"already contains {'CUDA 12.4' if inside['cuda'] else 'ROCm 6.2.41134'}, and torch-cuda" in said


@needs_cc
def test_a_torch_of_another_abi_is_refused_by_its_name(site: Path) -> None:
    """What the dynamic linker says then is one mangled name."""
    (site / "torch_cuda/lib/libtorch_cuda.so").unlink()
    compile_c(
        "extern int of_the_other_abi; int *f(void) { return &of_the_other_abi; }",
        site / "torch_cuda/lib/libtorch_cuda.so",
    )
    info = json.loads((site / "torch_cuda/build_info.json").read_text())
    (site / "torch_cuda/build_info.json").write_text(json.dumps({**info, "cxx11_abi": "0"}))
    (site / "torch/lib").mkdir()
    config = site / "torch/share/cmake/Torch/TorchConfig.cmake"
    config.parent.mkdir(parents=True)
    config.write_text('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n')
    told = python(site, "import torch").stderr
    assert "is of the pre-C++11 ABI of libstdc++, the torch in" in told and "of the C++11 ABI; install" in told


@pytest.mark.parametrize("version", ["2.6.0", "2.6.0+debian", "2.6.0+decoupled", "2.6.0a0+git2236df1"])
def test_local_versions_of_the_same_release_are_accepted(version: str) -> None:
    _preload.check_version({"torch": "2.6.0", "version": "2.6.0+cu124"}, version, "")


CPP_EXTENSION = """
def include_paths(device_type='cpu'): return ['core']
def library_paths(device_type='cpu'): return ['core']
def _prepare_ldflags(extra_ldflags, with_cuda, verbose, is_standalone):
    return [*extra_ldflags, '-Lcore', '-lc10_cuda', *(['-Wl,-rpath,core'] if is_standalone else [])]
"""


def with_cpp_extension(site: Path, text: str) -> None:
    """Give the torch of *site* a ``torch.utils.cpp_extension``."""
    utils = site / "torch/utils"
    utils.mkdir()
    (utils / "__init__.py").write_text("")
    (utils / "cpp_extension.py").write_text(text)


@needs_cc
def test_extensions_for_cuda_look_into_this_package_too(site: Path) -> None:
    with_cpp_extension(site, CPP_EXTENSION)
    code = "import torch, torch.utils.cpp_extension as e; print(e.include_paths('cuda'), e.library_paths('cuda'), {})"
    done = python(site, code.format("e.library_paths()"))
    package = site / "torch_cuda"
    assert done.stdout.strip() == f"['{package / 'include'}', 'core'] ['{package / 'lib'}', 'core'] ['core']", (
        done.stderr
    )


@needs_cc
def test_a_question_whether_the_module_is_there_changes_nothing(site: Path) -> None:
    """The import behind it was bare: extensions found neither CUDA's headers nor our libraries."""
    with_cpp_extension(site, CPP_EXTENSION)
    asked = "import torch, importlib.util as u; assert u.find_spec('torch.utils.cpp_extension')"
    done = python(site, f"{asked}; import torch.utils.cpp_extension as e; print(e.include_paths('cuda'))")
    assert done.stdout.strip() == f"['{site / 'torch_cuda/include'}', 'core']", done.stderr


@needs_cc
def test_extensions_in_c_plus_plus_alone_find_the_headers_that_need_no_toolkit(site: Path) -> None:
    """As on the official wheel, where all headers lie in one folder: upstream's test_cpp_memory_snapshot_pickle."""
    with_cpp_extension(site, CPP_EXTENSION)
    done = python(
        site, "import torch, torch.utils.cpp_extension as e; print(e.include_paths(), e.include_paths('xpu'))"
    )
    assert done.stdout.strip() == f"['{site / 'torch_cuda/include'}', 'core'] ['core']", done.stderr


@needs_cc
def test_load_and_load_inline_link_our_libraries_and_programs_find_them(site: Path) -> None:
    """The linker's line of ``load`` names torch's folder alone; a stock torch could not link a .cu."""
    with_cpp_extension(site, CPP_EXTENSION)
    ours = site / "torch_cuda/lib"
    code = "import torch, torch.utils.cpp_extension as e; print(*e._prepare_ldflags(['-lmine'], {}, False, {}))"
    said = [python(site, code.format(cuda, alone)).stdout.strip() for cuda, alone in ((1, 0), (1, 1), (0, 1))]
    assert said == [
        f"-L{ours} -lmine -Lcore -lc10_cuda",
        f"-L{ours} -Wl,-rpath,{ours} -lmine -Lcore -lc10_cuda -Wl,-rpath,core",
        "-lmine -Lcore -lc10_cuda -Wl,-rpath,core",
    ]


@needs_cc
def test_load_links_our_libraries_with_a_torch_that_says_more_of_the_extension(site: Path) -> None:
    """2.13 asks whether there is SYCL, too; each load ended in a TypeError."""
    with_cpp_extension(site, CPP_EXTENSION.replace("with_cuda, verbose", "with_cuda, with_sycl, verbose"))
    ours = site / "torch_cuda/lib"
    code = "import torch, torch.utils.cpp_extension as e; print(*e._prepare_ldflags([], {}, True, False, {}))"
    asked = [python(site, code.format(cuda, alone)) for cuda, alone in ((1, 0), (1, "is_standalone=1"), (0, 1))]
    assert [done.stdout.strip() for done in asked] == [
        f"-L{ours} -Lcore -lc10_cuda",
        f"-L{ours} -Wl,-rpath,{ours} -Lcore -lc10_cuda -Wl,-rpath,core",
        "-Lcore -lc10_cuda -Wl,-rpath,core",
    ], asked[0].stderr


@needs_cc
def test_folders_that_the_patched_core_names_are_not_named_twice(site: Path) -> None:
    ours = site / "torch_cuda"
    patched = CPP_EXTENSION.replace("'core']", f"'core', *(['{ours}/include'] if device_type == 'cuda' else [])]", 1)
    with_cpp_extension(site, patched.replace("'-Lcore'", f"'-Lcore', '-L{ours}/lib'"))
    code = (
        "import torch, torch.utils.cpp_extension as e; print(e.include_paths('cuda'), *e._prepare_ldflags([], 1, 0, 0))"
    )
    assert python(site, code).stdout.strip() == f"['core', '{ours}/include'] -Lcore -L{ours}/lib -lc10_cuda"


PLANTED = "raise SystemExit('ran what lies in the working directory')\n"


def beside(site: Path, here: Path, words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Python as somebody starts it in the folder *here*, with *site* as a site folder."""
    venv = site.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (folder,) = (venv / "lib").glob("python*/site-packages")
    start = "import torch_cuda_start; torch_cuda_start.install()"
    (folder / "site.pth").write_text(f"{site}\n{start}\n")
    (here / "program.py").write_text("import torch; print(torch._C._has_cuda)")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "PYTHON"))}
    return subprocess.run(
        [venv / "bin/python", *words], env={**clean, **environment}, cwd=here, capture_output=True, text=True
    )


@needs_cc
@pytest.mark.parametrize(
    "words", [["-c", "import torch; print(torch._C._has_cuda)"], ["-m", "program"]], ids=["c", "m"]
)
@pytest.mark.parametrize("opted", ["1", "0"])
def test_a_torch_cuda_in_the_working_directory_is_not_run(
    site: Path, tmp_path: Path, words: list[str], opted: str
) -> None:
    package = tmp_path / "here" / "torch_cuda"
    package.mkdir(parents=True)
    for name in ("__init__", "_autoload", "_core_preload", "_preload", "_libraries"):
        (package / f"{name}.py").write_text(PLANTED)
    info = tmp_path / "here" / "planted-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch.backends.preload]\nplanted = program:torch\n")
    done = beside(site, tmp_path / "here", words, TORCH_DEVICE_BACKEND_AUTOLOAD=opted)
    assert done.stdout == ("True\n" if opted == "1" else "False\n"), done.stderr


@needs_cc
@pytest.mark.parametrize(
    "words", [["-c", "import torch; print(torch._C._has_cuda)"], ["-m", "program"]], ids=["c", "m"]
)
def test_no_library_of_the_working_directory_is_opened(site: Path, tmp_path: Path, words: list[str]) -> None:
    """A library of the name that ours misses, which nobody installed."""
    soname = "-Wl,-soname,libdecneeded.so.1"
    right = compile_c("int needed(void) { return 1; }", tmp_path / "libdecneeded.so.1", soname)
    text = "int needed(void); int cuda_is_here(void) { return needed(); }"
    compile_c(text, site / "torch_cuda/lib/libtorch_cuda.so", str(right))
    right.unlink()
    planted = 'extern int puts(const char*); int needed(void) { return 1; } __attribute__((constructor)) static void run(void) { puts("planted"); }'  # noqa: E501
    for folder in ("nvidia/planted/lib", "cusparselt/lib"):
        compile_c(planted, tmp_path / "here" / folder / "libdecneeded.so.1", soname)
    done = beside(site, tmp_path / "here", words)
    assert "planted" not in done.stdout and "libtorch_cuda.so needs libdecneeded.so.1" in done.stderr


@pytest.mark.parametrize("entry", ["", ".", "relative"])
def test_relative_folders_hold_no_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    (tmp_path / entry / "nvidia/cublas/lib").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert _libraries.search_folders(tmp_path / "torch", [entry]) == []


HIP_BINDINGS = BINDINGS.replace("torch_cuda._CUDAC", "torch_hip._CUDAC").replace(
    "return module;",
    'PyObject* said = PyDict_New(); PyDict_SetItemString(said, "hip", PyUnicode_FromString("6.4.43484"));\n'
    '  PyModule_AddObject(module, "_torch_version", said); return module;',
)


@pytest.fixture
def hip_site(site: Path) -> Path:
    """`site` with a torch_hip beside torch_cuda: our Python files under its name, its own libraries and bindings."""
    package = site / "torch_hip"
    shutil.copytree(site / "torch_cuda", package, ignore=shutil.ignore_patterns("lib", "_CUDAC*"))
    for name, content in backend.start_files("torch_hip").items():
        (site / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    info = {"torch": "2.6.0", "version": "2.6.0+rocm6.4", "hip": "6.4.43484", "package": "torch_hip", "word": "hip"}
    (package / "build_info.json").write_text(json.dumps(info))
    compile_c("int c10_hip(void) { return 1; }", package / "lib/libc10_hip.so")
    compile_c("int cuda_is_here(void) { return 1; }", package / "lib/libtorch_hip.so")
    compile_c("int nvrtc(void) { return 1; }", package / "lib/libcaffe2_nvrtc.so")
    compile_c(HIP_BINDINGS, package / f"_CUDAC{SUFFIX}")
    dist_info = site / "torch_hip-2.6.0+rocm6.4.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-hip\nVersion: 2.6.0+rocm6.4\n")
    (dist_info / "entry_points.txt").write_text("[torch.backends.preload]\nhip = torch_hip._preload:preload\n")
    return site


@needs_cc
def test_another_vendors_package_is_loaded_and_says_its_own_version(hip_site: Path) -> None:
    for name in ("torch_cuda", "torch_cuda-2.6.0+cu124.dist-info"):
        shutil.rmtree(hip_site / name)
    for name in backend.START:
        (hip_site / name).unlink()
    said = ask(hip_site, "torch._C.saw_cuda, torch.cuda.built, torch.version.cuda, torch.version.hip")
    assert said == "True True None 6.4.43484"


@needs_cc
def test_two_backends_for_one_key_are_refused_in_one_sentence_or_one_is_chosen(hip_site: Path) -> None:
    done = python(hip_site, "import torch")
    assert done.returncode
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("RuntimeError")]
    assert "2 backends that bring torch.cuda are installed (cuda, hip)" in line
    assert "TORCH_CUDA_BACKEND=cuda or TORCH_CUDA_BACKEND=hip" in line

    versions = "torch.cuda.built, torch.version.cuda, getattr(torch.version, 'hip', None)"
    assert ask(hip_site, versions, TORCH_CUDA_BACKEND="hip") == "True None 6.4.43484"
    assert ask(hip_site, versions, TORCH_CUDA_BACKEND="cuda") == "True 12.4 None"
    assert "no such backend is installed" in python(hip_site, "import torch", TORCH_CUDA_BACKEND="musa").stderr
