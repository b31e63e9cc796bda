"""The table of a whole torch against another: what is planted in one is found by name, and reasons are kept honest."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs

from decouple import cli
from decouple.base.files import compute_sha256
from decouple.base.paths import find_project
from decouple.cli.parity import print_table
from decouple.flows import parity as flow
from decouple.prebuilt.pairing import Pair, RemoteWheel
from decouple.release import status
from decouple.verify import elf
from decouple.verify.elf import Library
from decouple.verify.full_parity import comparison, exports, files, installation
from decouple.verify.full_parity.comparison import ChangedName, Reason, SectionComparison, What
from tests.unit.verify import pretended
from tests.unit.verify.conftest import Compile

Sections = dict[str, SectionComparison]


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """Two pretended torches, ours and theirs, that are the same."""
    return pretended.write(tmp_path / "ours"), pretended.write(tmp_path / "theirs")


def table(ours: Path, theirs: Path) -> Sections:
    offers = [
        installation.ask_torch(installation.TorchLocation((str(python),), python.parent)) for python in (ours, theirs)
    ]
    return {one.section: one for one in installation.compare_offers(*offers)}


def test_the_same_twice_differs_in_nothing(both: tuple[Path, Path]) -> None:
    found = table(*both)
    assert all(not one.missing and not one.extra and not one.different for one in found.values())
    assert found["torch.backends"].equal == 2  # one of them behind a module of properties, as in torch
    some = ("dispatcher", "operators", "torch._C names", "API of torch", "headers", "licences")
    assert all(found[name].equal for name in (*some, "metadata", "entry points", "programs in bin", "Python files"))


def test_what_is_planted_is_found_by_name(both: tuple[Path, Path]) -> None:
    ours, _ = both
    site = ours.parent / "site"
    (site / "torch/backends/cudnn.py").write_text("")
    (site / "torch/utils/collect_env.py").rename(site / "torch/utils/_collect_env.py")
    (site / "torch/utils/collect_env.pyi").touch()  # of the same name, and no module
    (site / "torch/utils/__init__.py").write_text("from . import _collect_env as collect_env\n")
    (site / "torch/include/ATen/ATen.h").write_text("#pragma twice\n")
    (site / "torch/bin/torch_shm_manager").unlink()
    pretended.plant(ours, "torch/nn.py", "def forward(self, input)", "def forward(self, input, more)")
    pretended.plant(ours, "torch/_C.py", '"aten::add", "aten::mm"', '"aten::add"')
    pretended.plant(ours, "torch/_C.py", "add(Tensor a)", "add(Tensor b)")
    pretended.plant(ours, "torch/_C.py", "def query", "def ask")
    pretended.plant(ours, "torch/_C.py", "-O2 -fPIC", "-fPIC")
    pretended.plant(ours, "torch/version.py", "'12.4'", "'12.1'")
    pretended.plant(ours, "torch-2.6.0.dist-info/METADATA", "(==1)", "(==2)")
    found = table(*both)
    assert "torch.utils.collect_env" in found["API of torch"].missing
    assert found["torch.backends"].missing == ("torch.backends.cudnn.version()",)
    (changed,) = [one for one in found["API of torch"].different if "forward" in one.name]
    assert (changed.name, changed.ours) == ("torch.nn.Linear.forward", "def(self, input, more)")
    assert found["dispatcher"].missing == ("CPU aten::mm", "CUDA aten::mm")
    assert [one.name for one in found["operators"].different] == ["aten::add"]
    assert found["torch._C names"].missing == ("_CudaStreamBase.query",)
    assert found["torch.__config__.show()"].missing == ("CXX_FLAGS -O2",)
    assert "torch.version.cuda" in [one.name for one in found["versions and facts of the build"].different]
    assert found["metadata"].missing == ('Requires-Dist: a==1; python_version >= "3.9"',)
    assert [one.name for one in found["headers"].different] == ["torch/include/ATen/ATen.h"]
    assert found["programs in bin"].missing == ("torch/bin/torch_shm_manager",)


def run(both: tuple[Path, Path], *more: str) -> int:
    ours, theirs = both
    return cli.main(["parity", "2.6", "--against", str(theirs), "--python", str(ours), *more])


def test_the_command_prints_one_page_and_says_with_its_exit_code_what_has_no_reason(
    both: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(both) == 0
    assert "verdict (other): ok" in capsys.readouterr().out
    pretended.plant(both[0], "torch/nn.py", "inplace=False", "inplace=True")
    assert run(both, "--json", str(tmp_path / "table.json")) == 1
    said = capsys.readouterr().out
    assert "unexplained, API of torch: differs: torch.nn.relu: def(input, inplace=True), theirs def(input," in said
    document = json.loads((tmp_path / "table.json").read_text())
    assert (document["ok"], document["unexplained"]) == (False, 2)  # the name, and the file


def test_what_it_found_is_recorded_where_asked_to(
    both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ci" / "status").mkdir(parents=True)
    for name in ("series", "patches"):
        (tmp_path / name).mkdir()
    (tmp_path / "series" / "2.6.toml").write_bytes((find_project() / "series" / "2.6.toml").read_bytes())
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    pretended.plant(both[0], "torch/nn.py", "inplace=False", "inplace=True")
    assert run(both, "--record") == 2
    assert "leave --python and --against out" in capsys.readouterr().err
    request = flow.ParityRequest(tmp_path, "2.6", against=str(both[1]), python=str(both[0]))
    compared = flow.compare_parity(request)
    flow.record_table(request, compared, "old")  # as for the wheels of a build
    section = status.read_status(tmp_path / "ci" / "status" / "2.6.json").whole["other"]
    found = section.parity
    assert found and found.different == len(found.unexplained) == 2 and found.total > 2
    assert section.series == "old", "of the series that the wheels were made of"

    flow.record_table(
        request, structs.replace(compared, sections=compared.sections[:1], unused=("API: torch.gone",)), "old"
    )
    found = status.read_status(tmp_path / "ci" / "status" / "2.6.json").whole["other"].parity
    assert found and found.unexplained == ("out of date in reasons.toml: API: torch.gone",), "the command failed by it"


def test_a_hidden_module_is_one_line_of_the_page(both: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    site = both[0].parent / "site"
    (site / "torch/nn.py").rename(site / "torch/_nn.py")
    assert run(both) == 1
    said = capsys.readouterr().out
    assert "unexplained, API of torch: missing: torch.nn, with 3 names in it\n" in said
    assert "torch.nn.Linear" not in said


def test_a_torch_of_another_release_is_refused(both: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    pretended.plant(both[0], "torch/version.py", "'2.6.0+cu124'", "'2.5.1'")
    assert run(both) == 1
    assert "has torch 2.5.1, and 2.6 is 2.6.0" in capsys.readouterr().err


def wheel(folder: Path, python: Path) -> Path:
    """A wheel of a pretended torch, for the Python that this runs on."""
    path = folder / f"torch-2.6.0-cp3{sys.version_info.minor}-none-any.whl"
    site = python.parent / "site"
    info = "torch-2.6.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for one in sorted(site.rglob("*")):
            if one.is_file():
                archive.write(one, one.relative_to(site))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            f"{info}/RECORD", "\n".join(f"{name},," for name in archive.namelist()) + f"\n{info}/RECORD,,\n"
        )
    return path


def test_wheels_are_asked_in_place_of_what_the_other_python_has(tmp_path: Path) -> None:
    ours, theirs = pretended.write(tmp_path / "ours"), Path(sys.executable)
    pretended.plant(ours, "torch/version.py", "+cu124", "+decoupled")
    made = wheel(tmp_path, ours)
    python = flow.unpack_wheels(theirs, tmp_path / "made/whole", [made])
    assert (
        installation.ask_torch(installation.TorchLocation((str(python),), tmp_path)).said["torch"] == "2.6.0+decoupled"
    )
    mark = tmp_path / "made/whole.content"
    before = mark.stat().st_mtime_ns
    flow.unpack_wheels(theirs, tmp_path / "made/whole", [made])
    assert mark.stat().st_mtime_ns == before  # nothing was made anew
    pretended.plant(ours, "torch/version.py", "+decoupled", "+decoupled.1")
    again = flow.unpack_wheels(theirs, tmp_path / "made/whole", [wheel(tmp_path, ours)])
    assert (
        installation.ask_torch(installation.TorchLocation((str(again),), tmp_path)).said["torch"] == "2.6.0+decoupled.1"
    )


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a wheel that stands for the official one."""
    if shutil.which(f"python3.{sys.version_info.minor}") is None:
        pytest.skip("this Python is not on the path by its version")
    folder = tmp_path / "wheels"
    folder.mkdir()
    python = pretended.write(tmp_path / "source")
    pretended.plant(
        python,
        "torch-2.6.0.dist-info/METADATA",
        "Requires-Dist: a (==1) ;",
        "Requires-Dist: a (==1) ; extra == 'a' and",
    )
    path = wheel(folder, python)
    known = RemoteWheel(path.name, "https://pypi.invalid/x", path.stat().st_size, compute_sha256(path), "0" * 64)
    monkeypatch.setattr(flow, "load_pair", lambda release: Pair("pre-C++11", known, ()))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return folder


def test_the_official_wheel_is_installed_once(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = pretended.write(tmp_path / "ours")
    arguments = ["parity", "2.6", "--against", "pypi", "--python", str(ours)]
    assert cli.main([*arguments, "--wheels", str(official)]) == 1
    assert "unexplained, metadata: missing: Requires-Dist: a==1;" in capsys.readouterr().out
    shutil.rmtree(official)
    assert cli.main(arguments) == 1  # from the cache
    assert "unexplained, metadata" in capsys.readouterr().out


def test_a_python_of_pyenv_that_is_not_chosen_is_not_installed(
    official: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = pretended.write(tmp_path / "ours")
    shim = tmp_path / "shims" / f"python3.{sys.version_info.minor}"
    shim.parent.mkdir()
    shim.write_text(
        "#!/bin/sh\necho 'pyenv: command not found' >&2\necho 'one of these versions has it' >&2\nexit 127\n"
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent), prepend=os.pathsep)
    assert cli.main(["parity", "2.6", "--python", str(ours), "--wheels", str(official)]) == 1
    said = capsys.readouterr().err
    assert f"{shim.name}: not installed" in said and "--against PYTHON" in said


def test_another_wheel_of_that_name_is_refused(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = official.iterdir()
    arguments = ["parity", "2.6", "--python", str(pretended.write(tmp_path / "ours")), "--wheels", str(official)]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert cli.main(arguments) == 1
    assert "not the official wheel: its SHA-256 is another" in capsys.readouterr().err
    path.unlink()
    assert cli.main(arguments) == 2
    assert f"no {path.name} in it" in capsys.readouterr().err


def reason(names: str, what: What | None = None, sides: tuple[str, ...] = ("built",)) -> Reason:
    kinds = frozenset([what] if what else get_args(What))
    return Reason(frozenset(sides), re.compile("API"), re.compile(names), kinds, f"because of {names}")


def test_a_reason_explains_what_is_missing_or_different_and_one_that_nothing_meets_is_a_fault() -> None:
    section = comparison.compare_names("API", {"a": 1, "b": 1, "mine": 1}, {"a": 2, "b": 1, "gone": 1})
    found = comparison.judge_sections([section], "built", [reason("a"), reason("never"), reason("x", sides=("half",))])
    (judged,) = found.sections
    assert (judged.unexplained, found.unused, found.ok) == (("gone",), ("API: never",), False)
    assert [(one.why, one.names) for one in judged.reasons] == [("because of a", ("a",))]
    assert comparison.judge_sections(
        [section], "built", [reason("a"), reason("g.*")]
    ).ok  # what is extra needs no reason
    assert not comparison.judge_sections(
        [section], "half", [reason("a|gone")]
    ).ok  # those of another kind of torch do not count


def test_where_the_other_side_has_no_name_nothing_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    empty = comparison.judge_sections([comparison.compare_names("API", {}, {})], "other")
    assert print_table(empty) == 1
    assert "verdict (other): FAILED: nothing to compare" in capsys.readouterr().out
    known, unread = comparison.compare_names("API", {"a": 1}, {"a": 1}), comparison.compare_names("files", {"b": 1}, {})
    assert print_table(comparison.judge_sections([known, unread], "other")) == 1, "a kind of names that was not read"
    assert "unexplained, files: nothing to compare" in capsys.readouterr().out


def test_a_reason_explains_only_what_it_says_that_it_does() -> None:
    section = comparison.compare_names("API", {"changed": 1, "more": 1}, {"changed": 2, "gone": 1})
    wrong: tuple[What, ...] = ("different", "missing", "missing")
    found = comparison.judge_sections([section], "built", [*map(reason, ("gone", "changed", "more"), wrong)])
    assert found.sections[0].unexplained == ("gone", "changed") and len(found.unused) == 3
    right: tuple[What, ...] = ("missing", "different", "extra")
    assert comparison.judge_sections([section], "built", [*map(reason, ("gone", "changed", "more"), right)]).ok


CHANGED = {
    "headers": ("torch/include/ATen/Config.h", "torch/include/torch/csrc/utils.h", "torch/include/sleef.h"),
    "CMake files": ("torch/share/cmake/Torch/TorchConfig.cmake", "torch/share/cmake/Caffe2/Caffe2Config.cmake"),
    "Python files": ("torch/cuda/__init__.py", "torch/utils/cpp_extension.py"),
    "licences": ("torch.dist-info/LICENSE",),
    "torch.backends": ("torch.backends.nnpack.is_available()",),
}


def test_why_the_series_changes_a_file_does_not_explain_a_wheel_without_it() -> None:
    """Each ``find_package(Torch)`` fails with a wheel that has lost TorchConfig.cmake."""
    without = [SectionComparison(section, 1, missing=names) for section, names in CHANGED.items()]
    table = comparison.judge_sections(without, "built")
    assert {judged.compared.section: judged.unexplained for judged in table.sections} == CHANGED
    changed = {section: tuple(ChangedName(name, "a", "b") for name in names) for section, names in CHANGED.items()}
    other = [SectionComparison(section, 1, different=names) for section, names in changed.items()]
    assert comparison.judge_sections(other, "built").unexplained == 0


def test_the_kind_of_a_torch_is_known_by_its_packages_or_version() -> None:
    patched: dict[str, dict[str, str]] = {"torch": {}, "torch._decoupled": {}}
    official, compiled = ({"info": f"/s/torch_cuda-2.6.0+cu124{end}.dist-info"} for end in (".official", ""))
    assert comparison.find_side({**patched, "torch_cuda": official}, "2.6.0+decoupled") == "built"
    assert comparison.find_side({**patched, "torch_cuda": compiled}, "2.6.0+decoupled") == "compiled"
    assert comparison.find_side({"torch": {}, "torch_core_half": {}, "torch_cuda": official}, "2.6.0+cu124") == "half"
    assert comparison.find_side({"torch": {}}, "2.6.0+debian") == "debian"
    assert comparison.find_side({"torch": {}}, "2.6.0") == "other"


def test_the_reasons_of_a_side_hold_for_one_that_extends_it() -> None:
    section = comparison.compare_names("API", {}, {"a": 1, "b": 1})
    known = [reason("a"), reason("b", sides=("compiled",))]
    assert comparison.judge_sections([section], "compiled", known).ok
    assert comparison.judge_sections([section], "built", known).unexplained == 1


def test_every_reason_is_of_a_known_side_and_section() -> None:
    sides = {one.name for one in comparison.load_reasons().side}
    assert {one.extends for one in comparison.load_reasons().side if one.extends} <= sides
    assert [one.sides for one in comparison.load_reasons().reason if not one.sides <= sides] == []


SHOW = """PyTorch built with:
  - GCC 9.3
  - C++ Version: 201703
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - LAPACK is enabled (usually provided by MKL)
  - CPU capability usage: AVX512
  - Build settings: BLAS_INFO=mkl, CXX_FLAGS= -O2 -DA=ON, LAPACK_INFO=mkl, USE_CUDA=ON, 
"""  # noqa: W291 - as torch prints it


def test_settings_are_read_off_the_text_that_torch_prints() -> None:
    found = installation.parse_settings(SHOW)
    assert found["GCC"] == "9.3"
    assert found["Intel(R) oneAPI Math Kernel Library"].startswith("2024.2-Product")
    assert (found["LAPACK"], found["CPU capability usage"]) == ("is enabled (usually provided by MKL)", "AVX512")
    assert (found["BLAS_INFO"], found["USE_CUDA"], found["CXX_FLAGS -DA=ON"]) == ("mkl", "ON", "")


def test_threads_are_read_too() -> None:
    said = (
        "ATen/Parallel:\n\tat::get_num_threads() : 2\nOpenMP 201511 (a.k.a.)\nEnvironment variables:\n\tA : [not set]\n"
    )
    assert installation.parse_threads(said) == {
        "at::get_num_threads()": "2",
        "OpenMP": "201511 (a.k.a.)",
        "A": "[not set]",
    }


def at(folder: Path, **texts: str) -> dict[str, Path]:
    found = {}
    for number, (name, text) in enumerate(texts.items()):
        path = folder / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        found[name] = path
    return found


def test_a_file_that_the_split_moved_is_the_same_file(tmp_path: Path) -> None:
    ours = at(
        tmp_path / "a", **{"torch_cuda/include/c10/cuda/X.h": "x", "torch_cuda/lib/libc10_cuda.so": "", "own.py": ""}
    )
    theirs = at(tmp_path / "b", **{"torch/include/c10/cuda/X.h": "y", "torch/lib/libc10_cuda.so": "z", "their.py": ""})
    found = {one.section: one for one in files.compare_files(ours, theirs)}
    assert [one.name for one in found["headers"].different] == ["torch/include/c10/cuda/X.h"]
    assert found["shared libraries"].equal == 1
    assert (found["Python files"].missing, found["Python files"].extra) == (("their.py",), ("own.py",))


def test_a_link_that_leads_nowhere_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/libc10.so").symlink_to("/nowhere/libc10.so")
    assert not files.list_files([tmp_path / "torch"])


def test_what_pip_writes_is_no_content(tmp_path: Path) -> None:
    info = tmp_path / "torch-2.6.0+x.dist-info"
    (info / "__pycache__").mkdir(parents=True)
    for name in ("RECORD", "INSTALLER", "METADATA", "LICENSE", "__pycache__/a.pyc"):
        (info / name).touch()
    assert list(files.list_files([info])) == ["torch.dist-info/LICENSE"]


def library(name: str, *defined: str, vague: tuple[str, ...] = ()) -> Library:
    nothing: Any = frozenset()
    return Library(Path(name), name, (), (), frozenset(defined), frozenset(vague), nothing, nothing)


def test_a_removed_symbol_is_named_with_the_library_that_had_it(compile_library: Compile) -> None:
    code = "void _ZN2at3addEv(void) {} void _ZN2at3mulEv(void) {} void cblas_sgemm(void) {}"
    theirs = elf.read_library(compile_library("libtorch_cpu.so", code, side="theirs"))
    ours = elf.read_library(
        compile_library("libtorch_cpu.so", code.replace("void _ZN2at3mulEv(void) {}", ""), side="ours")
    )
    found = {one.section: one for one in exports.compare_exports([ours], [theirs])}
    assert found["symbols of at::"].missing == ("_ZN2at3mulEv [libtorch_cpu]",)
    assert found["symbols of bundled C"].equal == 1


def test_a_symbol_that_moved_to_another_library_or_became_weak_is_there() -> None:
    ours = [library("libtorch_cuda.so", "_ZN2at3addEv", vague=("_ZN3c103fooEv",))]
    theirs = [library("libtorch_cpu.so", "_ZN2at3addEv"), library("libc10.so", "_ZN3c103fooEv")]
    assert all(not one.missing for one in exports.compare_exports(ours, theirs))


def test_the_abi_aside_a_string_is_a_string() -> None:
    new = "_ZN2at4nameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    old = "_ZN2at4nameERKSs"
    tagged, plain = "_ZN3c106to_strB5cxx11Ev", "_ZN3c106to_strEv"
    sides = [library("libc10.so", new, tagged)], [library("libc10.so", old, plain)]
    aside = exports.compare_exports(*sides, same_abi=False)
    assert [one.missing for one in aside if one.missing] == []
    assert sum(one.equal for one in aside) == 2
    assert sum(len(one.missing) for one in exports.compare_exports(*sides)) == 2


def test_each_core_header_that_a_patch_changes_has_a_reason() -> None:
    """Else the next patch of a header is a difference without one, seen only when wheels are compared."""
    patches = "".join(path.read_text("utf-8") for path in sorted((find_project() / "patches/2.6").glob("*.patch")))
    changed = re.findall(r"^\+\+\+ b/(?:aten/src/|(?=torch/csrc/))(\S+\.h)$", patches, re.MULTILINE)
    installed = [f"torch/include/{path}" for path in changed if "/jit/codegen/" not in path]
    assert "torch/include/ATen/detail/CUDAHooksInterface.h" in installed
    reasons = [each for each in comparison.load_reasons().reason if "different" in each.what]
    known = [reason.names for reason in reasons if reason.section.fullmatch("headers")]
    assert [path for path in installed if not any(names.fullmatch(path) for names in known)] == []
