"""Hostile files for the readers of machine code, of builds, of upstream's text and of what earlier runs left.

`ATTACKS` has these and those of `hostile`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import lzma
import runpy
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st
from msgspec import to_builtins

from decouple.base.errors import DecoupleError
from decouple.build import estimate, wheel_finishing
from decouple.census import report, taxonomy
from decouple.census.build_files import scan_build_file
from decouple.census.cpp import scan_cpp
from decouple.census.python import scan_python
from decouple.census.taxonomy import load_taxonomy
from decouple.device import contract, scaffold
from decouple.inventory import rules
from decouple.patch import lint, parse
from decouple.prebuilt import dynamic_symbols, program_headers
from decouple.rebase import rebase_state, resolutions
from decouple.release import status
from decouple.release.manifest import RemoteFile
from decouple.release.wheel_name import WheelName
from decouple.stack.journal import Journal
from decouple.suites import store
from decouple.syntax import build_lists, conditions, preprocessor
from decouple.upstream import debian_index, readers, unpacked_release
from decouple.upstream.download import Downloader, make_session
from decouple.upstream.providers import wheel as wheel_provider
from decouple.upstream.remote_zip import RemoteZip
from decouple.verify import audit, elf
from decouple.verify.kernels import cubin, fatbin
from decouple.verify.ninja_deps import DependencyLog
from decouple.verify.stage1_units import read_units
from tests.support import cubins, hostile
from tests.support.hostile import Attack, changed_json, damaged, toml_text
from tests.support.variables import set_variables

ROOT = Path(__file__).parents[2]
SHA = "a" * 64

# ---- bytes of a layout

_NUMBERS = (
    0,
    1,
    7,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
)


@st.composite
def binary(draw: st.DrawFn, seeds: Callable[[], Sequence[bytes]]) -> bytes:
    """A file with up to four fields overwritten by numbers that a reader may not expect, perhaps damaged."""
    data = bytearray(draw(st.sampled_from(list(seeds()))))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 4]))):
        size = draw(st.sampled_from([1, 2, 4, 8]))
        at = draw(st.integers(0, max(0, len(data) // size - 1))) * size
        data[at : at + size] = (draw(st.sampled_from(_NUMBERS)) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return draw(damaged(bytes(data)))


@st.composite
def lines(draw: st.DrawFn, text: str, words: Iterable[str]) -> str:
    """A text with lines left out, said twice, mixed up with ``words``, or cut, perhaps damaged."""
    rows = text.splitlines(keepends=True)
    start = draw(st.integers(0, max(0, len(rows) - 1)))
    rows = rows[start : start + draw(st.sampled_from([5, 40, 400]))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(rows) - 1)))
        word = draw(st.one_of(st.sampled_from(list(words)), hostile.NASTY_TEXT))
        how = draw(st.sampled_from(["gone", "twice", "in", "before", "many"]))
        line = rows[at] if rows else ""
        cut = draw(st.integers(0, len(line)))
        made = {"gone": "", "twice": line + line, "in": line[:cut] + word + line[cut:], "before": f"{word}\n{line}"}
        rows[at : at + 1] = [made.get(how, word * 3000 + "\n")]
    return "".join(rows)


_MADE: dict[str, Any] = {}


def _libraries() -> Sequence[bytes]:
    """Small libraries with versions of symbols, device images of each packing; made once."""
    if "libraries" not in _MADE:
        folder = Path(tempfile.mkdtemp(prefix="decouple-hostile-elf-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        images = [("sm_90", _cubin()), ("compute_90", b".version 8.0\n")]
        made = []
        for packing in ("", "lz4", "zstd"):
            path = cubins.library(folder / f"lib{packing}.so", [cubins.fatbin(images, packing)] * 2, calls=["other"])
            subprocess.run(["strip", str(path)], check=False)
            made.append(path.read_bytes())
        _MADE["libraries"] = made
    return _MADE["libraries"]  # type: ignore[no-any-return]


def _cubin() -> bytes:
    functions = [cubins.Made("_Z3foov", b"code" * 8, b"constants"), cubins.Made("_ZN2at3barEv", b"more" * 4)]
    return cubins.cubin(functions, [("table", b"x" * 16)])


def shared_library(body: bytes, folder: Path) -> None:
    path = folder / "lib.so"
    path.write_bytes(body)
    for reader in (elf.read_library, dynamic_symbols.read_file_symbols):
        with contextlib.suppress(DecoupleError):
            reader(path)
    program_headers.put_loadable_first(path)
    assert path.stat().st_size < 1 << 20, "the file has grown"


def device_images(body: bytes, folder: Path) -> None:
    path = folder / "lib.so"
    path.write_bytes(body)
    for one in fatbin.read_images(path):
        if not one.ptx:
            with contextlib.suppress(DecoupleError):
                cubin.read_cubin(one.data)
    fatbin.count_images(path)
    list(fatbin.list_containers(path))


def device_image(body: bytes, folder: Path) -> None:
    cubin.read_cubin(body)


def _ninja_log() -> Sequence[bytes]:
    import struct

    def entry(body: bytes, deps: bool = False) -> bytes:
        return struct.pack("<I", len(body) | deps << 31) + body

    paths = [b"a.o\0", b"a.cpp", b"../b.h\0\0"]
    named = b"".join(entry(name + struct.pack("<I", ~number & 0xFFFFFFFF)) for number, name in enumerate(paths))
    log = b"# ninjadeps\n" + struct.pack("<i", 4) + named + entry(struct.pack("<IQII", 0, 5, 1, 2), True)
    return [log, log + log[16:]]


def ninja_deps(body: bytes, folder: Path) -> None:
    (folder / ".ninja_deps").write_bytes(body)
    log = DependencyLog.read(folder / ".ninja_deps", PurePosixPath("/build"))
    log.opened(PurePosixPath("/build/a.o"))
    log.time(PurePosixPath("/build/a.o"))


def ninja_log(text: str, folder: Path) -> None:
    (folder / ".ninja_log").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "a.o").touch()
    estimate.sum_object_seconds(folder)


NINJA_LOG = "# ninja log v5\n" + "0\t1500\t17\ta.o\tabc\n10\t20\t0\tb.o\tdef\n" * 3
COMMANDS = [{"file": "/s/a.cpp", "directory": "/b", "command": "c++ -c -o a.o '/s/a.cpp'"}]
COMMANDS += [{"file": "/s/b.cc", "directory": "/b", "arguments": ["c++", "-o", "b.o"]}]  # type: ignore[dict-item]


def compile_commands(body: bytes, folder: Path) -> None:
    (folder / "compile_commands.json").write_bytes(body)
    for unit in read_units(folder / "compile_commands.json"):
        str(unit.output)


# ---- zips that are no wheel of an index


def build_wheel(body: bytes, folder: Path) -> None:
    path = folder / hostile.WHEEL
    path.write_bytes(body)
    for reader in (wheel_finishing.read_manifest, wheel_finishing.count_components, _audited, _members):
        with contextlib.suppress(DecoupleError):
            reader(path)  # type: ignore[operator]


def _audited(path: Path) -> None:
    with audit.open_folder(path) as folder, contextlib.suppress(DecoupleError):
        audit.list_libraries(folder)


def _members(path: Path) -> None:
    wheel_provider.open_wheel(path, {"torch/__init__.py"})


def archive(given: tuple[str, bytes], folder: Path) -> None:
    packed, data = given
    path = folder / f"a{packed}"
    path.write_bytes(data)
    found = readers.read_archive(path, {"a", "b/c", "__init__.py"}, None)
    for name in ("a", "b/c", "__init__.py"):
        if found.mode(name) in (0o100644, 0o100755):
            found.read(name)


def _archives() -> st.SearchStrategy[tuple[str, bytes]]:
    tars = hostile.tar_file().map(lambda one: (f".tar{one[0]}", one[1]))
    return st.one_of(tars, hostile.wheel_file().map(lambda data: (".zip", data)))


class _Answer:
    """The answer of a server to a request for a range."""

    status_code = 206

    def __init__(self, data: bytes, first: int, total: int) -> None:
        self.headers = {"Content-Range": f"bytes {first}-{first + len(data) - 1}/{total}"}
        self._left = [data]
        self.raw = self

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def read1(self, size: int, decode_content: bool = False) -> bytes:
        data = self._left.pop() if self._left else b""
        if data[size:]:
            self._left.append(data[size:])
        return data[:size]


class _Ranges(Downloader):
    """A downloader whose server has one file."""

    body: bytes = b""

    def open_response(self, url: str, headers: Any) -> Any:
        asked = headers["Range"].removeprefix("bytes=")
        first, _, last = asked.partition("-")
        start = max(0, len(self.body) - int(last)) if not first else int(first)
        end = len(self.body) if not first else int(last) + 1
        return _Answer(self.body[start:end], start, len(self.body))


def zip_by_range(body: bytes, folder: Path) -> None:
    downloader = _Ranges(folder, attempts=1, connect_attempts=1, body=body, sleep=lambda seconds: None)
    remote = RemoteZip(RemoteFile("a.whl", ("https://example.org/a.whl",), None, None), downloader)
    for member in remote.load_members(lambda info: True)[:5]:
        with contextlib.suppress(DecoupleError):
            remote.read(member)
        with contextlib.suppress(DecoupleError):
            for _ in remote.stream_content(member):
                pass


# ---- files of ours, which others may have written

SCAFFOLD = {
    "name": "acme", "key": "PrivateUse1",
    "files": {"torch_acme/__init__.py": "x = 1\n", "gone.py": "old\n", "README.md": "text\n"},
}  # fmt: skip


def scaffold_record(body: bytes, folder: Path) -> None:
    template, made = folder / "template", folder / "made"
    for place in (template / "torch_newdevice", made):
        place.mkdir(parents=True)
    (template / "torch_newdevice/__init__.py").write_text("x = 1\n")
    (made / ".scaffold.json").write_bytes(body)
    (made / "gone.py").write_text("old\n")
    try:
        scaffold.scaffold_backend(template, made, "acme")
    finally:
        shutil.rmtree(template)
        shutil.rmtree(made)


WAITING = {
    "version": 1, "old": "2.6", "new": "2.7", "source": "auto", "debian_patches": False, "from_source": "auto",
    "decisions": {"split": {"tree": "1" * 40, "preimage": "2" * 40, "reason": ""}},
    "legs": [{"release": "2.8", "source": "x"}],
    "stopped_at": "2.6/0001-x.patch", "tip": "3" * 40,
}  # fmt: skip


def waiting_rebase(body: bytes, folder: Path) -> None:
    (folder / "state.json").write_bytes(body)
    rebase_state.load_state(folder / "state.json")


RESOLUTIONS = """\
schema = 1

[[resolution]]
patch = "split"
name = "2.6/0001-x.patch"
tree = "1111"
conflict = ["a", "b"]
reason = "x"
since = "2.7"

[[resolution.file]]
path = "torch/core.py"

[[resolution.file.change]]
before = ["=1234"]
gone = ["=12"]
after = ["=34"]
put = ["+x"]

[[resolution.file]]
path = "a"
gone = true
"""


def resolution_file(text: str, folder: Path) -> None:
    (folder / "a.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    for one in resolutions.load_resolutions(folder / "a.toml"):
        resolutions.remember_resolution(folder / "b.toml", one)
        assert resolutions.load_resolutions(folder / "b.toml")
        (folder / "b.toml").unlink()


JOURNAL = {
    "verb": "push", "old": "1" * 40, "new": "2" * 40, "head": "1" * 40, "index": True,
    "files": [{"path": "patches/2.6/x.patch", "staged": "0"}], "state": json.dumps(hostile.STATE),
}  # fmt: skip


def journal(body: bytes, folder: Path) -> None:
    (folder / "journal.json").write_bytes(body)
    here = SimpleNamespace(state_folder=folder, root=folder / "src")
    made = Journal(here, [Path("/p/patches"), Path("/p/series")])  # type: ignore[arg-type]
    for one in made._read_record().files:
        path = made._find_file(one)
        assert path.is_relative_to("/p/patches") or path.is_relative_to("/p/series")
        assert ".." not in path.parts


FETCHED = {
    "provider": "debian", "kind": "source", "path": "src", "identity": SHA, "why": "", "notes": ["x"],
    "files": [{"name": "a", "url": "u", "size": 1, "sha256": SHA, "verified": "manifest"}], "debian": "debian",
}  # fmt: skip


def fetched_record(body: bytes, folder: Path) -> None:
    (folder / unpacked_release.RECORD).write_bytes(body)
    found = unpacked_release.read_record(folder)
    assert found is not None and found.path.is_relative_to(folder)
    json.dumps(found.to_json())
    assert all(isinstance(file.name, str) and isinstance(file.size, int) for file in found.files)
    assert isinstance(found.provider, str) and isinstance(found.identity, str | None)


def status_file(body: bytes, folder: Path) -> None:
    (folder / "2.6.json").write_bytes(body)
    status.read_status(folder / "2.6.json")


def _status() -> Any:
    return json.loads((ROOT / "ci/status/2.6.json").read_text(encoding="utf-8"))


_KEY_NUMBER = {"key_number": {"before": 5, "after": 0}}
CENSUS = {
    "schema": report.SCHEMA,
    "summary": {"release": "2.6", "series": SHA, "vendors": dict.fromkeys(taxonomy.DATA, _KEY_NUMBER)},
}


def census_file(body: bytes, folder: Path) -> None:
    (folder / "census.json").write_bytes(body)
    found = report.read_couplings(folder / "census.json", "2.6", SHA)
    assert all(isinstance(number, int) for pair in found.values() for number in pair)


RESULT = {"id": "test/test_x.py::T::a", "outcome": "passed", "seconds": 1.5, "why": "", "attempts": 1, "ledger": {}}


@st.composite
def results(draw: st.DrawFn) -> bytes:
    rows = [draw(changed_json(RESULT)) for _ in range(draw(st.integers(0, 3)))]
    data = b"\n".join([json.dumps(RESULT).encode(), *rows])
    packed = lzma.compress(data, preset=0) if draw(st.booleans()) else data
    return draw(damaged(packed))


def suite_results(body: bytes, folder: Path) -> None:
    (folder / "results.jsonl").write_bytes(body)
    found = store.read_results(folder / "results.jsonl")
    store.write_packed(found.values(), folder / "packed.xz")
    assert all(isinstance(one.seconds, int | float) and isinstance(one.outcome, str) for one in found.values())


ABOUT = {"torch": "2.6.0", "device": "simulated", "digest": SHA, "devices": 2, "memory": [1, 1], "recorded": False}


def suite_store(body: bytes, folder: Path) -> None:
    (folder / "about.json").write_bytes(body)
    (folder / "collected.json").write_bytes(body)
    (folder / "texts.json").write_bytes(body)
    with contextlib.suppress(DecoupleError):
        store.ResultStore(folder, {}, SHA)
    (folder / "about.json").unlink(missing_ok=True)
    with contextlib.suppress(DecoupleError):
        store.ResultStore(folder, {}, SHA).forget_changed({"t.py": SHA})
    found = store.ResultStore(folder, {}, SHA).read_collected()
    assert all(isinstance(name, str) for names in found.values() for name in names)


REPORT = {"torch": "2.6.0", "counts": {"held": 1}, "items": [{"tests": [{"test": "a", "outcome": "passed"}]}]}


def contract_report(body: bytes, folder: Path) -> None:
    (folder / "contract.json").write_bytes(body)
    to_builtins(contract.read_summary(folder / "contract.json"))


# ---- upstream's text

CMAKE = """\
set(SRCS a.cpp "b c.cpp" ${OTHER})
if(USE_CUDA AND NOT (USE_ROCM OR MSVC))
  list(APPEND SRCS cuda/a.cu) # comment
  file(GLOB found "aten/*.cpp" aten/**/*.h)
elseif(USE_XPU)
  target_link_libraries(torch PRIVATE CUDA::cudart)
  #[[ bracket
  comment ]]
endif()
set(T [==[text]==])
"""
BZL = "a = ['a.cpp', 'b.cpp']\nb = a + [\n  'c.cu',\n]\ndef f(x):\n    return [y for y in x]\nc = sorted(a + b)\n"
CPP = """\
#include <a.h>
#  include "b/c.cuh" // x
#if defined(USE_CUDA) && (CUDA_VERSION >= 11000 || !defined __HIP__)
const char* s = R"x(text)x" "at::cuda";
#elif 1 ? 2 : 3 << 4 \\
  && 'c' == 0x1F
at::cuda::getCurrentCUDAStream(); /* comment */
#else
#ifdef USE_ROCM
#endif
#endif
"""
PYTHON = """\
import torch
from torch import cuda as c, _C
def f(x, *, y: int = 3):
    if torch.cuda.is_available():
        return torch._C._cuda_getDevice()
    return getattr(torch._C, "_cuda_init")
class A(torch.nn.Module):
    device = "cuda:0"
"""
WORDS = ("(", ")", '"', "\\", "#[==[", "]==]", "${", "}", "if(", "endif()", "#if ", "#endif\n", "/*", "*/",
         'R"x(', "((((",
         "!!!!", "1?", "~~~~", "::", "not ", "lambda:", "[", "{", "\t", "\\\n",
         "'", "//", "defined(", "<<", "%0", "/0")  # fmt: skip


def cmake_file(text: str, folder: Path) -> None:
    with contextlib.suppress(DecoupleError):
        list(build_lists.read_cmake(text))
    if not hostile.is_writable(text):
        return
    scan_build_file("CMakeLists.txt", text, _taxonomy())
    (folder / "CMakeLists.txt").write_text(text, encoding="utf-8")
    lists = build_lists.CMakeLists(folder, ["CMakeLists.txt"], ["aten/a.cpp", "aten/b/c.h", "a.cpp"], {"x": ["a.cpp"]})
    for name in lists.list_variables():
        lists.get(name)


def bzl_file(text: str, folder: Path) -> None:
    if not hostile.is_writable(text):
        return
    (folder / "a.bzl").write_text(text, encoding="utf-8")
    scan_build_file("a.bzl", text, _taxonomy())
    build_lists.read_bzl(folder / "a.bzl")


def cpp_file(text: str, folder: Path) -> None:
    found = list(preprocessor.parse_directives(text))
    spans = preprocessor.find_branches(found, text.count("\n") + 1)
    preprocessor.parse_includes(text, conditions.Macros({"CUDA_VERSION": 12000}, frozenset({"USE_ROCM"})))  # type: ignore[dict-item]
    preprocessor.blank_comments(text)
    for branch in spans:
        branch.list_conditions()
    scan_cpp("a.cpp", text, _taxonomy(), frozenset({"a.h"}), names=True)


def python_file(text: str, folder: Path) -> None:
    if hostile.is_writable(text):
        scan_python("a.py", text, _taxonomy())


def _taxonomy() -> Any:
    if "taxonomy" not in _MADE:
        _MADE["taxonomy"] = load_taxonomy()
    return _MADE["taxonomy"]


def taxonomy_file(text: str, folder: Path) -> None:
    (folder / "a.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    load_taxonomy(folder / "a.toml")


def rule_file(text: str, folder: Path) -> None:
    (folder / "a.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    rules.load_rules(folder / "a.toml")


# ---- what servers and people's files say

SOURCES = (
    "Package: other\nVersion: 1\n\nPackage: pytorch\nVersion: 2.6.0+dfsg-7\nDirectory: pool/p\n"
    "Checksums-Sha256:\n {sha} 5 a.dsc\n\n"
)


@st.composite
def debian_files(draw: st.DrawFn) -> bytes:
    """The Sources of a suite, as lzma; perhaps no lzma."""
    text = draw(
        lines(SOURCES.format(sha=SHA) * 2, ("Package: pytorch", "Version:", " ", ":", "\0", "\x85", "Version: 2.6.0"))
    )
    data = text.encode("utf-8", "surrogatepass") + draw(st.sampled_from([b"", b"", b"\xff\n\n"]))
    return draw(damaged(lzma.compress(data, preset=0)))


def debian_sources(body: bytes, folder: Path) -> None:
    (folder / "Sources.xz").write_bytes(body)
    found = debian_index.find_paragraph(folder / "Sources.xz", "pytorch", "2.6.0")
    assert found is None or found["package"] == "pytorch"


NETRC = "machine example.org login a password b\ndefault login c password d\nmacdef init\n  x\n\n# comment\n"


def netrc_file(text: str, folder: Path) -> None:
    """What the session makes of it, as it would for a request; nothing is sent."""
    import requests

    (folder / ".netrc").write_bytes(text.encode("utf-8", "surrogatepass"))
    with set_variables(NETRC=str(folder / ".netrc")):
        make_session().prepare_request(requests.Request("GET", "https://example.org/a"))


PATCH = (
    "From: A <a@example.org>\nDate: Thu, 2 Jan 2025 03:04:05 +0000\nSubject: [PATCH] x\n\nbody\n---\n a | 2 +-\n\n"
    "diff --git a/a b/a\nindex 0123456..789abcd 100644\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@ f\n x\n-old\n+new\n y\n"
    "diff --git a/b b/c\nsimilarity index 90%\nrename from b\nrename to c\n"
    "diff --git a/d b/d\nnew file mode 100755\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+x\n"
    "\\ No newline at end of file\n"
    "diff --git a/e b/e\ndeleted file mode 120000\nGIT binary patch\nliteral 3\nKcmZ\n\n"
    "literal 0\nHcmV?d00001\n\n-- \n2.39.5\n"
)
PATCH_WORDS = ("@@ -1 +1 @@", "@@ -0,0 +99999999999 @@", "--- a/../../x", "+++ /etc/x", "diff --git ",
               '"a\\303\\', "rename to ../x",
               "new file mode 160000", "old mode 000000", "Index: x", "===",
               "GIT binary patch", "literal 99999999", "\r", "\t", "From ")  # fmt: skip


def patch_text(text: str, folder: Path) -> None:
    data = text.encode("utf-8", "surrogatepass")
    read, problems = parse.scan_patch(data)
    assert problems or read.to_text() == data
    lint.lint_patch(data, "patches/x.patch")


def wheel_name(text: str, folder: Path) -> None:
    from decouple.index.offer import parse_wheel_name

    for reader in (WheelName.parse, parse_wheel_name):
        with contextlib.suppress(DecoupleError):
            reader(text)


LAUNCH = ["launch", "kernel", 1, "00ff [1,8]"]
LAUNCHED = {"id": "t", "seconds": 1, "entries": [LAUNCH, ["copy", "HD"]], "processes": [[LAUNCH], []]}


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    rows = [draw(changed_json(LAUNCHED)) for _ in range(draw(st.integers(0, 2)))]
    return b"\n".join([json.dumps(LAUNCHED).encode(), *rows, b""])


def launches(body: bytes, folder: Path) -> None:
    from simcuda import unset_bytes
    from simcuda.errors import SimcudaError

    for name in ("one", "other"):
        (folder / name).write_bytes(body)
    for reader in (unset_bytes.read_launches, unset_bytes._read_seconds, unset_bytes.read_table):
        with contextlib.suppress(SimcudaError):
            reader(folder / "one")  # type: ignore[operator]
    try:
        unset_bytes.choose_tests(folder / "one", folder / "other")
    except SimcudaError as error:
        raise DecoupleError(str(error)) from None


RECORDED = "nvidia/cudnn/lib/libcudnn.so.9,sha256=x,5\nnvidia/a.py,,\nnvidia_cudnn_cu12-9.1.0.70.dist-info/RECORD,,\n"


def record_of_nvidia(text: str, folder: Path) -> None:
    """What ``import torch`` reads of NVIDIA's wheels, whose dist-info anybody's installer may have written."""
    if "list_overwritten" not in _MADE:
        path = ROOT / "third_device/torch_cuda/torch_cuda/_wheel_conflicts.py"
        _MADE["list_overwritten"] = runpy.run_path(str(path))["list_overwritten"]
    for name in ("nvidia_cudnn_cu12-9.1.0.70.dist-info", "nvidia_cudnn_cu11-8.0.dist-info"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "RECORD").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "nvidia/cudnn/lib").mkdir(parents=True, exist_ok=True)
    (folder / "nvidia/cudnn/lib/libcudnn.so.9").touch()
    _MADE["list_overwritten"](folder, "12.4")


ATTACKS: dict[str, Attack] = {
    **hostile.ATTACKS,
    "shared library": Attack(binary(_libraries), shared_library),
    "device images": Attack(binary(_libraries), device_images),
    "device image": Attack(binary(lambda: [_cubin()]), device_image),
    "dependencies that ninja kept": Attack(binary(_ninja_log), ninja_deps),
    "ninja's log": Attack(lines(NINJA_LOG, ("\t", "9" * 5000, "\u00b2", "-1", "a.o")), ninja_log),
    "compile commands": Attack(changed_json(COMMANDS), compile_commands),
    "wheel of a build": Attack(hostile.wheel_file(), build_wheel),
    "archive of a source": Attack(_archives(), archive),
    "zip by range": Attack(hostile.wheel_file(), zip_by_range),
    ".scaffold.json": Attack(changed_json(SCAFFOLD), scaffold_record),
    "rebase that waits": Attack(changed_json(WAITING), waiting_rebase),
    "resolutions": Attack(toml_text(RESOLUTIONS), resolution_file),
    "journal": Attack(changed_json(JOURNAL), journal),
    "record of a download": Attack(changed_json(FETCHED), fetched_record),
    "status file": Attack(st.deferred(lambda: changed_json(_status())), status_file),
    "census": Attack(changed_json(CENSUS), census_file),
    "results of suites": Attack(results(), suite_results),
    "store of results": Attack(changed_json(ABOUT), suite_store),
    "report of the contract": Attack(changed_json(REPORT), contract_report),
    "CMake file": Attack(lines(CMAKE, WORDS), cmake_file),
    "bzl file": Attack(lines(BZL, WORDS), bzl_file),
    "C++ file": Attack(lines(CPP, WORDS), cpp_file),
    "Python file": Attack(lines(PYTHON, WORDS), python_file),
    "taxonomy": Attack(st.deferred(lambda: toml_text(_text("census/taxonomy.toml"))), taxonomy_file, seconds=20),
    "rules of what moves": Attack(st.deferred(lambda: toml_text(_text("inventory/rules.toml"))), rule_file, seconds=20),
    "Debian's Sources": Attack(debian_files(), debian_sources),
    ".netrc": Attack(lines(NETRC, ("machine", "default", "macdef", '"', "\\", "\0", "#")), netrc_file),
    "patch": Attack(lines(PATCH, PATCH_WORDS), patch_text),
    "launches of two builds": Attack(entries(), launches),
    "RECORD that the loader reads": Attack(
        lines(RECORDED, (",", '"', "\0", "x" * 300 + ".so,,1", "a.so,,9" * 3, "\u00b2", "../../a.so,x,\u0663")),
        record_of_nvidia,
    ),
    "name of a wheel": Attack(
        st.one_of(hostile.NASTY_TEXT, st.just("torch-2.6.0+decoupled.1-1-cp313.py3-abi3-linux_x86_64.whl")), wheel_name
    ),
}


def _text(name: str) -> str:
    return (ROOT / "scripts/decouple" / name).read_text(encoding="utf-8")
