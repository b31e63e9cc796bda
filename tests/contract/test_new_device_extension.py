"""NewDeviceCppExtension on a torch that nobody patched: a backend package of one library, an extension of it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

MODULE = Path(__file__).parents[2] / "third_device/added_to_core/torch/_decoupled/cpp_extension.py"
PROLOGUE = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("new_device", {str(MODULE)!r})
new_device = importlib.util.module_from_spec(spec)
sys.modules["new_device"] = new_device
spec.loader.exec_module(new_device)
"""


def load_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("new_device", MODULE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["new_device"] = module
    spec.loader.exec_module(module)
    return module


new_device = load_module()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like site-packages with the backend package ``tiny_backend``: a header and a library.

    Its name has a space, as that of a checkout may.
    """
    folder = tmp_path_factory.mktemp("a site")
    package = folder / "tiny_backend"
    for part in ("include", "lib"):
        (package / part).mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "include" / "tiny_backend.h").write_text("int tiny_backend_answer();\n")
    source = folder / "tiny_backend.cpp"
    source.write_text("int tiny_backend_answer() { return 42; }\n")
    library = package / "lib" / "libtiny_backend.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-Wl,-soname,libtiny_backend.so", "-o", library, source], check=True)
    (folder / "module.cpp").write_text(
        "#include <torch/csrc/utils/pybind.h>\n#include <tiny_backend.h>\n"
        "int internal_detail() { return tiny_backend_answer(); }\n"
        "int64_t elements(const at::Tensor& t) { return t.numel() + tiny_backend_answer(); }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("answer", &internal_detail).def("elements", &elements); }\n'
    )
    return folder


def run(interpreter: Path, code: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        [str(interpreter), "-c", code], cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.tools("nm", "readelf")
@pytest.mark.timeout(600)
def test_build_extension_and_move_the_result(interpreter: Path, site: Path, tmp_path: Path) -> None:
    build = PROLOGUE + (
        "from setuptools import setup\n"
        "from torch.utils.cpp_extension import BuildExtension\n"
        "sys.argv[1:] = ['-q', 'build_ext', '--build-lib', '.', '--build-temp', 'objects']\n"
        "extension = new_device.NewDeviceCppExtension('tiny_user.inner._C', ['module.cpp'], backend='tiny_backend')\n"
        "setup(name='tiny_user', ext_modules=[extension], cmdclass={'build_ext': BuildExtension}, packages=[])\n"
    )
    run(interpreter, build, site, PYTHONPATH=str(site), MAX_JOBS="1")
    moved = tmp_path / "elsewhere"
    site_copy = subprocess.run(["cp", "-r", str(site), str(moved)], check=False)
    assert site_copy.returncode == 0
    library = next((moved / "tiny_user" / "inner").glob("_C.*so"))
    (site / "tiny_backend" / "lib" / "libtiny_backend.so").rename(site / "hidden.so")  # only $ORIGIN can find it now
    try:
        said = run(
            interpreter,
            "import torch, tiny_user.inner._C as c; print(c.answer(), c.elements(torch.zeros(2, 4)))",
            tmp_path,
            PYTHONPATH=str(moved),
        )
    finally:
        (site / "hidden.so").rename(site / "tiny_backend" / "lib" / "libtiny_backend.so")
    assert said.split() == ["42", "50"]
    symbols = subprocess.run(["nm", "-DC", str(library)], capture_output=True, text=True, check=True).stdout
    assert "PyInit__C" in symbols
    assert "internal_detail" not in symbols  # hidden visibility
    dynamic = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    assert "libtorch_python.so" in dynamic
    assert "$ORIGIN/../../tiny_backend/lib" in dynamic
    assert str(site) not in dynamic


@pytest.mark.timeout(600)
def test_just_in_time(interpreter: Path, site: Path, tmp_path: Path) -> None:
    code = PROLOGUE + (
        "module = new_device.load_new_device('tiny_jit', ['module.cpp'], backend='tiny_backend')\n"
        "print(module.answer())\n"
    )
    path = str(interpreter.parent) + os.pathsep + os.environ["PATH"]
    said = run(
        interpreter, code, site, PYTHONPATH=str(site), TORCH_EXTENSIONS_DIR=str(tmp_path), MAX_JOBS="1", PATH=path
    )
    assert said.split()[-1] == "42"


@pytest.fixture
def with_compiler(site: Path, tmp_path: Path) -> Path:
    """A site like `site` whose backend has a compiler for ``.acme``: the C++ compiler, which notes its calls."""
    folder = tmp_path / "with_compiler"
    shutil.copytree(site, folder)
    compiler = folder / "acmecc"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\nexec c++ -x c++ "$@"\n')
    compiler.chmod(0o755)
    row = {
        "name": "acme",
        "suffixes": [".acme"],
        "command": [
            *("{ACMECXX}", "{ACMEFLAGS}", "{defines}", "{includes}", "-fPIC", "-MD", "-MF", "{depfile}"),
            *("-c", "{source}", "-o", "{object}"),
        ],
        "parameters": {
            "ACMECXX": {"kind": "path", "default": str(compiler)},
            "ACMEFLAGS": {"kind": "flags", "default": "-O1 -g0"},
        },
    }
    (folder / "tiny_backend" / "compilers.json").write_text(json.dumps([row]))
    (folder / "twice.h").write_text("#define FACTOR 2\n")
    (folder / "twice.acme").write_text(
        '#include <c10/macros/Macros.h>\n#include <tiny_backend.h>\n#include "twice.h"\n'
        "int twice() { return FACTOR * tiny_backend_answer(); }\n"
    )
    (folder / "twice.cpp").write_text(
        "#include <torch/csrc/utils/pybind.h>\nint twice();\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }\n'
    )
    return folder


def assert_torch_s_abi(interpreter: Path, folder: Path) -> None:
    """The device's compiler takes std::string for what torch takes it for."""
    asked = run(interpreter, "import torch; print(int(torch.compiled_with_cxx11_abi()))", folder)
    assert f"-D_GLIBCXX_USE_CXX11_ABI={asked.strip()} " in (folder / "calls").read_text()


@pytest.mark.timeout(600)
def test_sources_of_the_device_s_own_compiler(interpreter: Path, with_compiler: Path) -> None:
    folder, calls = with_compiler, with_compiler / "calls"
    code = PROLOGUE + (
        "from setuptools import setup\n"
        "sys.argv[1:] = ['-q', 'build_ext', '--build-lib', '.', '--build-temp', 'objects']\n"
        "extension = new_device.NewDeviceCppExtension('tiny_device', ['twice.cpp', 'twice.acme'],\n"
        "    depends=['twice.h'], backend='tiny_backend', extra_compile_args={'cxx': ['-O0'], 'acme': ['-DMORE']})\n"
        "setup(name='tiny', ext_modules=[extension], cmdclass={'build_ext': new_device.new_device_build_ext()})\n"
    )

    def build_and_call(**variables: str) -> tuple[int, str]:
        calls.unlink(missing_ok=True)
        run(interpreter, code, folder, PYTHONPATH=str(folder), MAX_JOBS="1", **variables)
        said = run(interpreter, "import torch, tiny_device; print(tiny_device.twice())", folder, PYTHONPATH=str(folder))
        return len(calls.read_text().splitlines()) if calls.exists() else 0, said.strip()

    assert build_and_call() == (1, "84")
    assert "-O1 -g0" in calls.read_text() and "-DMORE" in calls.read_text()
    assert_torch_s_abi(interpreter, folder)
    assert build_and_call() == (0, "84")
    (folder / "twice.h").write_text("#define FACTOR 3\n")
    assert build_and_call() == (1, "126")


STABLE = """
#if !defined(TORCH_STABLE_ONLY) || TORCH_TARGET_VERSION != 0x020a000000000000
#error "not the stable interface of 2.10"
#endif
"""


@pytest.mark.timeout(600)
def test_every_compiler_sees_the_stable_interface_alone(interpreter: Path, with_compiler: Path) -> None:
    for name in ("host.cpp", "device.acme"):
        (with_compiler / name).write_text(STABLE)
    code = PROLOGUE + (
        "from setuptools import setup\n"
        "sys.argv[1:] = ['-q', 'build_ext', '--build-lib', '.', '--build-temp', 'objects']\n"
        "extension = new_device.NewDeviceCppExtension('tiny_stable', ['host.cpp', 'device.acme'],\n"
        "    backend='tiny_backend', stable_abi='2.10', define_macros=[('MORE', '1')])\n"
        "setup(name='tiny', ext_modules=[extension], cmdclass={'build_ext': new_device.new_device_build_ext()})\n"
    )
    run(interpreter, code, with_compiler, PYTHONPATH=str(with_compiler), MAX_JOBS="1")
    assert "-DMORE=1 -DTORCH_STABLE_ONLY" in (with_compiler / "calls").read_text()


@pytest.mark.timeout(600)
def test_just_in_time_with_the_device_s_own_compiler(interpreter: Path, with_compiler: Path, tmp_path: Path) -> None:
    folder = with_compiler
    code = PROLOGUE + (
        "module = new_device.load_new_device('tiny_jit', ['twice.cpp', 'twice.acme'], backend='tiny_backend')\n"
        "print(module.twice())\n"
    )
    variables = {
        "PYTHONPATH": str(folder),
        "TORCH_EXTENSIONS_DIR": str(tmp_path / "built here"),
        "MAX_JOBS": "1",
        "PATH": str(interpreter.parent) + os.pathsep + os.environ["PATH"],
    }
    assert run(interpreter, code, folder, **variables).split()[-1] == "84"
    assert_torch_s_abi(interpreter, folder)
    (folder / "twice.h").write_text("#define FACTOR 3\n")
    assert run(interpreter, code, folder, **variables).split()[-1] == "126"
    (folder / "twice.acme").write_text("int twice() { return nothing; }\n")
    done = subprocess.run(
        [str(interpreter), "-c", code], cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert "DeviceCompilerError" in done.stderr and "twice.acme" in done.stderr and "nothing" in done.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("just_in_time", [False, True], ids=["setup", "load"])
def test_every_source_may_be_the_device_s(
    interpreter: Path, with_compiler: Path, tmp_path: Path, just_in_time: bool
) -> None:
    """As a CUDA extension of one ``.cu``; torch's own step refuses an extension without a C++ source."""
    (with_compiler / "alone.acme").write_text('extern "C" int alone() { return 7; }\n')
    if just_in_time:
        code = PROLOGUE + (
            "made = new_device.load_new_device(\n"
            "    'tiny_alone', 'alone.acme', backend='tiny_backend', is_python_module=False)\n"
        )
    else:
        code = PROLOGUE + (
            "from setuptools import setup\n"
            "sys.argv[1:] = ['-q', 'build_ext', '--build-lib', '.', '--build-temp', 'objects']\n"
            "extension = new_device.NewDeviceCppExtension('tiny_alone', ['alone.acme'], backend='tiny_backend')\n"
            "setup(name='tiny', ext_modules=[extension], cmdclass={'build_ext': new_device.new_device_build_ext()})\n"
        )
    path = str(interpreter.parent) + os.pathsep + os.environ["PATH"]
    variables = {"PYTHONPATH": str(with_compiler), "TORCH_EXTENSIONS_DIR": str(tmp_path), "MAX_JOBS": "1", "PATH": path}
    run(interpreter, code, with_compiler, **variables)
    built = next((tmp_path if just_in_time else with_compiler).rglob("tiny_alone*.so"))
    assert run(interpreter, f"import torch, ctypes; print(ctypes.CDLL({str(built)!r}).alone())", tmp_path) == "7\n"


@pytest.mark.timeout(600)
def test_without_ninja_too_a_changed_source_is_linked(interpreter: Path, with_compiler: Path, tmp_path: Path) -> None:
    """setuptools compared the C++ sources with the library, and left the old kernel in it."""
    code = PROLOGUE + (
        "from setuptools import setup\n"
        "sys.argv[1:] = ['-q', 'build_ext', '--build-lib', '.', '--build-temp', 'objects']\n"
        "extension = new_device.NewDeviceCppExtension('tiny_alone', ['alone.acme'], backend='tiny_backend')\n"
        "build = new_device.new_device_build_ext().with_options(use_ninja=False)\n"
        "setup(name='tiny', ext_modules=[extension], cmdclass={'build_ext': build})\n"
    )
    for number in (7, 8):
        (with_compiler / "alone.acme").write_text(f'extern "C" int alone() {{ return {number}; }}\n')
        run(interpreter, code, with_compiler, PYTHONPATH=str(with_compiler), MAX_JOBS="1")
        built = next(with_compiler.glob("tiny_alone*.so"))
        said = run(interpreter, f"import torch, ctypes; print(ctypes.CDLL({str(built)!r}).alone())", tmp_path)
        assert said == f"{number}\n"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("named", "variables"),
    [("build_directory='made', ", {}), ("", {"TORCH_EXTENSIONS_DIR": "made"})],
    ids=["build_directory", "TORCH_EXTENSIONS_DIR"],
)
def test_the_build_directory_may_be_relative(
    interpreter: Path, with_compiler: Path, named: str, variables: dict[str, str]
) -> None:
    """As torch's `load` takes it, which links in that folder."""
    (with_compiler / "alone.acme").write_text('extern "C" int alone() { return 7; }\n')
    code = PROLOGUE + (
        "import ctypes\n"
        "made = new_device.load_new_device(\n"
        f"    'tiny_alone', 'alone.acme', backend='tiny_backend', {named}is_python_module=False)\n"
        "print(ctypes.CDLL(made).alone())\n"
    )
    path = str(interpreter.parent) + os.pathsep + os.environ["PATH"]
    said = run(interpreter, code, with_compiler, PYTHONPATH=str(with_compiler), MAX_JOBS="1", PATH=path, **variables)
    assert said.splitlines()[-1] == "7"


def test_an_object_is_made_again_when_a_header_is_newer(tmp_path: Path) -> None:
    command = (
        *("cc", "-x", "c", "-MD", "-MF", "{depfile}", "{includes}", "{defines}"),
        *("-c", "{source}", "-o", "{object}"),
    )
    compiler = new_device.DeviceCompiler("acme", (".acme",), command, {})
    folder, source = tmp_path / "a b", tmp_path / "a b" / "k.acme"
    folder.mkdir()
    (folder / "k.h").write_text("\n")
    source.write_text('#include "k.h"\nint k(void) { return N; }\n')
    made = compiler.compile(source, tmp_path / "objects", macros=[("N", "3")])
    first = made.stat().st_mtime_ns
    assert compiler.compile(source, tmp_path / "objects", macros=[("N", "3")]).stat().st_mtime_ns == first
    (folder / "k.h").write_text("/* changed */\n")
    assert compiler.compile(source, tmp_path / "objects", macros=[("N", "3")]).stat().st_mtime_ns > first
    with pytest.raises(new_device.DeviceCompilerError, match=r"(?s)k\.acme: cc .*undeclared"):
        compiler.compile(source, tmp_path / "objects")


def test_a_compiler_may_quote_a_source_that_is_not_utf_8(tmp_path: Path) -> None:
    program, source = tmp_path / "acmecc", tmp_path / "k.acme"
    program.write_text("#!/bin/sh\nprintf 'error: \\351t\\351' >&2\nexit 1\n")
    program.chmod(0o755)
    compiler = new_device.DeviceCompiler("acme", (".acme",), (str(program), "{source}"), {})
    with pytest.raises(new_device.DeviceCompilerError, match=r"error: .t."):
        compiler.compile(source, tmp_path / "objects")


def test_flags_that_nobody_set_are_none_and_those_of_a_shell_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the backend's own build, which takes the same table."""
    (tmp_path / "k.acme").write_text("text\n")
    flags = {"ACMEFLAGS": {"kind": "flags", "default": None}}
    compiler = new_device.DeviceCompiler("acme", (".acme",), ("cp", "{ACMEFLAGS}", "{source}", "{object}"), flags)
    assert compiler.compile(tmp_path / "k.acme", tmp_path / "objects").read_text() == "text\n"
    monkeypatch.setenv("ACMEFLAGS", "-D'A B")
    with pytest.raises(new_device.DeviceCompilerError, match=r"ACMEFLAGS=-D'A B: .*; close the quotation"):
        compiler.compile(tmp_path / "k.acme", tmp_path / "objects")


@pytest.mark.parametrize("later", [1000, -1000])
def test_an_object_is_made_again_by_another_compiler_in_the_same_place(tmp_path: Path, later: int) -> None:
    """As an update of the SDK leaves it, whose files may have the times of their packing."""
    program, source = tmp_path / "acmecc", tmp_path / "k.acme"
    program.write_text('#!/bin/sh\necho one > "$2"\n')
    program.chmod(0o755)
    source.touch()
    compiler = new_device.DeviceCompiler("acme", (".acme",), (str(program), "{source}", "{object}"), {})
    made = compiler.compile(source, tmp_path / "objects")
    first = made.stat().st_mtime_ns
    assert compiler.compile(source, tmp_path / "objects").stat().st_mtime_ns == first
    was = program.stat().st_mtime
    program.write_text('#!/bin/sh\necho two > "$2"\n')
    os.utime(program, (was + later, was + later))
    assert compiler.compile(source, tmp_path / "objects").read_text() == "two\n"


def test_an_object_under_its_content_s_name_is_written_once_for_whoever_may_read_it(tmp_path: Path) -> None:
    """Each load wrote it anew, and its owner alone could link it in a cache that users share."""
    made = tmp_path / "k.acme.o"
    made.write_bytes(b"an object")
    copy = Path(new_device._name_by_content(made))
    first = copy.stat()
    assert copy.read_bytes() == b"an object" and first.st_mode == made.stat().st_mode
    assert new_device._name_by_content(made) == str(copy)
    assert (copy.stat().st_ino, copy.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    made.write_bytes(b"another")
    assert new_device._name_by_content(made) != str(copy)


RANK = (
    PROLOGUE
    + """
from pathlib import Path
compiler = new_device.DeviceCompiler("acme", (".acme",), ("./acmecc", "{source}", "{object}"), {})
Path("came." + sys.argv[1]).touch()
made = compiler.compile("k.acme", Path("objects").resolve())
print(Path(new_device._name_by_content(made)).read_text(), end="")
"""
)
SLOW_COMPILER = """#!/bin/sh
echo "$@" >> calls
echo one > "$2"
until [ -e came.0 ] && [ -e came.1 ] && [ -e came.2 ]; do sleep 0.05; done
sleep 0.5
echo two >> "$2"
"""


def test_ranks_that_compile_at_the_same_time_link_one_whole_object(tmp_path: Path) -> None:
    """As `torchrun` does with a program that begins with `load_new_device`."""
    (tmp_path / "k.acme").touch()
    (tmp_path / "acmecc").write_text(SLOW_COMPILER)
    (tmp_path / "acmecc").chmod(0o755)
    commands = [[sys.executable, "-c", RANK, str(rank)] for rank in range(3)]
    ranks = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [rank.communicate()[0] for rank in ranks] == ["one\ntwo\n"] * 3
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_one_source_may_be_given_without_a_list(interpreter: Path, with_compiler: Path, tmp_path: Path) -> None:
    """As `torch.utils.cpp_extension.load` takes it."""
    code = PROLOGUE + "new_device.load_new_device('tiny_jit', 'absent.acme', backend='tiny_backend')\n"
    variables = {**os.environ, "PYTHONPATH": str(with_compiler), "TORCH_EXTENSIONS_DIR": str(tmp_path)}
    command = [str(interpreter), "-c", code]
    done = subprocess.run(command, cwd=with_compiler, env=variables, capture_output=True, text=True)
    assert f"DeviceCompilerError: {with_compiler / 'absent.acme'}" in done.stderr


@pytest.mark.parametrize("release", ["2.9", "9.0", "two"])
def test_a_release_without_a_stable_interface_is_named(interpreter: Path, site: Path, release: str) -> None:
    code = PROLOGUE + f"new_device.NewDeviceCppExtension('x', [], backend='tiny_backend', stable_abi={release!r})\n"
    variables = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([str(interpreter), "-c", code], cwd=site, env=variables, capture_output=True, text=True)
    assert f"ValueError: NewDeviceCppExtension: stable_abi={release!r}" in done.stderr


def test_an_absent_backend_is_named() -> None:
    with pytest.raises(new_device.BackendNotFoundError, match="'torch_nowhere' is not installed; pip install it"):
        new_device.find_backend("torch_nowhere")


def test_a_backend_without_headers_or_libraries_is_named(tmp_path: Path) -> None:
    with pytest.raises(new_device.BackendNotFoundError, match="has no include/"):
        new_device.find_backend("torch_foo", tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "lib").mkdir()
    with pytest.raises(new_device.BackendNotFoundError, match=r"has no lib\*\.so"):
        new_device.find_backend("torch_foo", tmp_path)
    (tmp_path / "lib" / "libfoo.so").touch()
    with pytest.raises(new_device.BackendNotFoundError, match=r"has no libbar\.so"):
        new_device.find_backend("torch_foo", tmp_path, ["bar"])
    assert new_device.find_backend("torch_foo", tmp_path).libraries == ("foo",)


def test_flags_of_cuda_extensions_keep_their_compiler() -> None:
    made = new_device._with_flags({"cxx": ["-O2"], "nvcc": ["-lineinfo"]})
    assert made == {"cxx": ["-fvisibility=hidden", "-fvisibility-inlines-hidden", "-O2"], "nvcc": ["-lineinfo"]}
