"""Make stand-ins and shadows for a PyTorch, cached by all that went in."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from simcuda import compile, declarations, generate, hip, library, symbols, vendor
from simcuda.errors import SimcudaError, explain_os_error
from simcuda.torchbuild import TorchBuild

HERE = Path(__file__).parent
NATIVE = HERE / "native"
UNFINISHED = "copying"
"""The mark ``done`` of a copy, under this name until all else is there."""
SHADOW = "libsimcuda_shadow.so"
RECORDER = "libsimcuda_record.so"
RULES = (
    "build.py", "compile.py", "declarations.py", "generate.py", "hip.py", "library.py", "symbols.py", "vendor.py",
    "hip.toml", "libraries.toml", "vendor.toml",
)  # fmt: skip


def find_cache_folder() -> Path:
    """Return the absolute ``SIMCUDA_CACHE``, or the XDG cache folder.

    Raises SimcudaError where there is no home, and for a "~", which only a shell replaces.
    """
    chosen, base = os.environ.get("SIMCUDA_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if chosen and chosen.startswith("~"):
        raise SimcudaError(
            f"SIMCUDA_CACHE is {chosen!r}: no shell replaced the ~", next_step="set SIMCUDA_CACHE to an absolute path"
        )
    if chosen:
        return Path(chosen).absolute()
    if Path(base).is_absolute():  # a relative one is to be ignored, says its specification: code is loaded from here
        return Path(base) / "simcuda"
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and a user whom the system has no entry for
        home = Path()
    if not home.is_absolute():
        raise SimcudaError("no home folder for the cache", next_step="set SIMCUDA_CACHE to a folder")
    return home / ".cache" / "simcuda"


def compute_fingerprint(version: str, torch: TorchBuild | None = None) -> str:
    """Return a digest that changes whenever a source, a rule or the torch changes.

    Without a torch it is that of the stand-ins.
    """
    digest = hashlib.sha256(version.encode())
    shadows = NATIVE / "shadow"
    for path in sorted([*NATIVE.rglob("*.cpp"), *NATIVE.rglob("*.h"), *map(HERE.joinpath, RULES)]):
        if torch or shadows not in path.parents:
            digest.update(path.read_bytes())
    if torch:
        digest.update(f"{torch.abi}".encode())
        for name in ("c10", "torch_cpu", f"torch_{torch.word}"):
            path = torch.find_library(name)
            digest.update(identify_library(path).encode())
        if torch.word == "hip":
            for path in hip.list_headers(hip.find_headers()):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def locate_build_folder(kind: str, digest: str) -> Path:
    """Return the folder of the cache for what has ``digest``.

    It is one that loads here, or the one to make. The cache is shared by systems: a machine and its build roots. What
    one has linked is loaded by another only if its C library is not older; so the name says which it was, and the
    youngest that is not too young is taken.
    """
    parent, here = find_cache_folder() / kind, read_c_library_version()
    folders = {}
    for folder in parent.glob(f"{digest}-glibc*"):
        version = tuple(map(int, re.findall(r"\d+", folder.name.rpartition("-glibc")[2])))
        if (folder / "done").exists() and version <= here:
            folders[version] = folder
    return folders[max(folders)] if folders else parent / f"{digest}-glibc{'.'.join(map(str, here))}"


def read_c_library_version() -> tuple[int, ...]:
    """Return the version of this system's C library; (0,) where it is not glibc."""
    version = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    return tuple(int(part) for part in re.findall(r"[0-9]+", version or "0"))


def identify_library(library: Path) -> str:
    """Return what tells one library from another.

    It is the SHA-256 in RECORD of the wheel that brought it. So every virtual environment with the same torch shares
    one shadow, which takes minutes to compile. Without a wheel, or where the file is of another size than that of the
    wheel, it is the path, the size and the time.
    """
    size = library.stat().st_size
    site = library.parent.parent.parent  # of site-packages/torch/lib/libtorch.so
    name = library.relative_to(site).as_posix()
    for record in sorted(site.glob("torch*.dist-info/RECORD")):
        for line in record.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name},sha256=") and line.endswith(f",{size}"):
                return line
    return f"{library} {size} {library.stat().st_mtime_ns}"


def read_cuda_version(torch: TorchBuild) -> str:
    """Return the CUDA version, as in ``vendor.toml``, whose runtime ``torch`` needs.

    Below HIP's names it is `vendor.CUDA`.
    """
    if torch.word == "hip":
        return vendor.CUDA
    return vendor.match_cuda_version(symbols.read_needed_libraries(torch.find_library("c10_cuda")))


def locate_stand_ins(version: str) -> Path:
    """Return the folder of the cache that `make_stand_ins` fills."""
    return locate_build_folder("stand-ins", compute_fingerprint(version))


def locate_device_libraries(torch: TorchBuild, version: str) -> Path:
    """Return the folder of the cache that `make_device_libraries` fills."""
    return locate_build_folder("built", compute_fingerprint(version, torch))


def make_stand_ins(site: Path, version: str = vendor.CUDA, say: Callable[[str], None] = print) -> Path:
    """Return the folder with every stand-in, for any torch.

    It is made if it is not there. ``site`` is a site-packages folder that may have NVIDIA's wheels installed,
    ``version`` NVIDIA's CUDA version; ``say`` gets one line per library made.
    """
    folder = locate_stand_ins(version)
    kit = vendor.find_kit(site, find_cache_folder() / "wheels", version)
    kit.list_include_folders()  # what a shadow is compiled with is in the cache from now on
    if (folder / "done").exists():
        return folder
    part = vendor.make_part_folder(folder)
    libraries, fills = library.load_libraries(kit.sonames)
    for stand_in in libraries:
        say(f"{stand_in.soname}: {compile_stand_in(stand_in, fills, kit, part)}")
    (part / "preload").write_text("\n".join(stand_in.soname for stand_in in libraries) + "\n", encoding="utf-8")
    return _finish_folder(part, folder)


def make_device_libraries(torch: TorchBuild, version: str = "", say: Callable[[str], None] = print) -> Path:
    """Return the folder with the stand-ins and the shadow for ``torch``.

    The shadow is ``libsimcuda_shadow.so``. It is made if it is not there. ``version``: another CUDA than the one whose
    runtime that torch needs.
    """
    version = version or read_cuda_version(torch)
    folder = locate_device_libraries(torch, version)
    if (folder / "done").exists():
        return folder
    stand_ins = make_stand_ins(torch.site, version, say)
    part = vendor.make_part_folder(folder)
    kit = vendor.find_kit(torch.site, find_cache_folder() / "wheels", version)
    names = (stand_ins / "preload").read_text(encoding="utf-8").split()
    if torch.word == "hip":
        names = [
            entry.soname for entry in library.load_libraries(kit.sonames)[0] if entry.name in hip.load_libraries()[1]
        ]
    for name in names:
        shutil.copy2(stand_ins / name, part)
    if torch.word == "hip":
        own = sorted(torch.find_library("c10_hip").parent.glob("lib*.so*"))
        names += hip.compile_stand_ins(own, hip.find_headers(), names, part, say)
    (part / "preload").write_text("\n".join(names) + "\n", encoding="utf-8")
    compile_shadow(torch, kit, part)
    say(f"{SHADOW}: for {torch.find_library(f'torch_{torch.word}').parent}")
    return _finish_folder(part, folder)


def make_recorder(site: Path, version: str = vendor.CUDA) -> Path:
    """Return the library that records requests to a real GPU; make it if missing."""
    folder = locate_build_folder("recorder", compute_fingerprint(version))
    if (folder / "done").exists():
        return folder / RECORDER
    kit = vendor.find_kit(site, find_cache_folder() / "wheels", version)
    part = vendor.make_part_folder(folder)
    shared = ("entries", "ledger", "addresses", "code_objects", "kernel_images", "kernel_names", "unset", "defined")
    sources = [NATIVE / "record/record.cpp", *(NATIVE / f"runtime/{name}.cpp" for name in shared)]
    include = [f"-I{path}" for path in (NATIVE, NATIVE / "runtime", *kit.list_include_folders())]
    parts = compile.compile_objects(sources, part / "work", ["-O2", "-Wall", *include])
    script = part / "work" / "exports.map"
    script.write_text(
        "{ global: cuda*; __cuda*; cuLaunchKernel; cuModuleGetFunction; simcuda_ledger_*; local: *; };\n",
        encoding="utf-8",
    )
    links = [f"-Wl,--version-script={script}", "-ldl", "-lpthread", *compile.OWN_RUNTIME]
    compile.link_shared_library(RECORDER, parts, part / RECORDER, links)
    return _finish_folder(part, folder) / RECORDER


def _finish_folder(part: Path, folder: Path) -> Path:
    """Give a folder of the cache its name when whole; one without the mark goes."""
    shutil.rmtree(part / "work", ignore_errors=True)
    (part / "done").write_text(f"{folder.name}\n", encoding="utf-8")
    if folder.exists() and not (folder / "done").exists():
        shutil.rmtree(folder)
    return vendor.place_folder(part, folder)


def prepare_copy_folder(made: Path, out: Path) -> None:
    """Make ``out``, where it is not, for a copy of ``made``.

    Raises SimcudaError for a folder that has anything else than such a copy, or a part of one.
    """
    with explain_os_error(out, "name another folder with --out"):
        out.mkdir(parents=True, exist_ok=True)
        empty = not any(out.iterdir())
    marks = [out / name for name in ("done", UNFINISHED)]
    if not empty and not any(mark.is_file() and mark.read_bytes() == f"{made.name}\n".encode() for mark in marks):
        raise SimcudaError(
            f"{out}: is there, and was not made of this torch, CUDA and simcuda",
            next_step="name another folder with --out, or remove this one",
        )


def copy_made_folder(made: Path, out: Path) -> Path:
    """Return ``out``, which `prepare_copy_folder` made, with a copy of ``made``.

    It is filled where it is, and gets no new name when whole: it may be a mount point, a link or the current folder.
    """
    if not (out / "done").exists():
        shutil.copy2(made / "done", out / UNFINISHED)
        shutil.copytree(made, out, ignore=shutil.ignore_patterns("done"), dirs_exist_ok=True)
        (out / UNFINISHED).rename(out / "done")
    return out


def list_compiler_flags(kit: vendor.Kit, stand_in: library.Library) -> list[str]:
    """Compiler flags of one stand-in."""
    major, minor = kit.version.split(".")
    include = [f"-I{path}" for path in (NATIVE, *kit.list_include_folders(stand_in.header_wheels))]
    return [
        "-O2",
        "-Wall",
        "-fno-builtin-malloc",
        f"-DSIMCUDA_CUDA_VERSION={int(major) * 1000 + int(minor) * 10}",
        *include,
    ]


def compile_stand_in(stand_in: library.Library, fills: tuple[library.FillRule, ...], kit: vendor.Kit, out: Path) -> str:
    """Compile and link one stand-in into ``out``.

    Returns how many functions are written by hand, recorded, not supported.
    """
    work = out / "work" / stand_in.soname
    work.mkdir(parents=True, exist_ok=True)
    defines = [f"-D{name}" for name in stand_in.defines]
    sources = [path for pattern in stand_in.sources for path in sorted(NATIVE.glob(pattern))]
    parts = compile.compile_objects(sources, work, [*list_compiler_flags(kit, stand_in), *defines])
    own = frozenset(name for part in parts for name in symbols.read_defined_functions(part, dynamic=False))
    plain_names = {re.sub(r"_v\d$", "", name): name for name in sorted(own)} if stand_in.unversioned else {}
    aliases = {plain: name for plain, name in plain_names.items() if plain not in own}
    declared = {}
    if stand_in.headers:
        text = declarations.preprocess_headers(
            stand_in.headers, kit.list_include_folders(stand_in.header_wheels), stand_in.defines
        )
        declared = {function.name: function for function in declarations.parse_functions(text)}
    wanted = (
        kit.read_exported_names(stand_in.wheel, stand_in.soname)
        if stand_in.wheel
        else select_prefixed_names(declared, stand_in)
    )
    rest = wanted - own - aliases.keys()
    if rest:
        generated = {
            work / name: text for name, text in generate.generate_sources(stand_in, declared, rest, fills).items()
        }
        for path, text in generated.items():
            path.write_text(text, encoding="utf-8")
        quiet = ["-O1", "-Wno-deprecated-declarations", "-Wno-unused"]
        parts += compile.compile_objects(list(generated), work, [*list_compiler_flags(kit, stand_in), *defines, *quiet])
    script = work / "exports.map"
    script.write_text(stand_in.make_version_script(), encoding="utf-8")
    link = [
        f"-Wl,--version-script={script}",
        f"-L{out}",
        *(f"-l:{name}" for name in stand_in.needs),
        "-ldl",
        "-lpthread",
    ]
    link += [*compile.OWN_RUNTIME, "-Wl,--no-undefined"]
    link += ["-Wl,-Bsymbolic-functions"]  # as NVIDIA's: what a library calls of itself passes nobody in front of it
    link += [f"-Wl,--defsym={plain}={name}" for plain, name in sorted(aliases.items())]
    compile.link_shared_library(stand_in.soname, parts, out / stand_in.soname, link)
    success = sum(stand_in.answers_success(name) for name in rest)
    return f"{len(wanted & own)} functions written, {success} recorded only, {len(rest) - success} not supported"


def select_prefixed_names(declared: dict[str, declarations.Function], stand_in: library.Library) -> frozenset[str]:
    """Return what a header declares whose library is not at hand (the driver's)."""
    prefix = {"cuda": "cu", "nvml": "nvml"}.get(stand_in.name)
    return frozenset(name for name in declared if prefix and name.startswith(prefix) and not name.startswith("cuda"))


def compile_shadow(torch: TorchBuild, kit: vendor.Kit, out: Path) -> None:
    """Make the library that computes CUDA tensors, for this torch's headers and ABI."""
    work = out / "work" / SHADOW
    toolkit = [hip.find_headers()] if torch.word == "hip" else kit.list_include_folders()
    include = [f"-I{path}" for path in (NATIVE, *torch.include, *toolkit)]
    flags = [
        f"-D_GLIBCXX_USE_CXX11_ABI={torch.abi}",
        "-O1",
        "-w",
        *(hip.FLAGS if torch.word == "hip" else ()),
        *include,
    ]
    sources = sorted((NATIVE / "shadow").glob("*.cpp"))
    parts = compile.compile_objects(sources, work, flags)
    links = [str(torch.find_library(name)) for name in ("c10", "torch_cpu", f"c10_{torch.word}", f"torch_{torch.word}")]
    # torch's own libraries are in the process already, and those that they need are not looked for here
    links += [
        f"-L{out}",
        f"-l:{kit.sonames['cudart']}",
        "-l:libsimcuda_threads.so",
        "-Wl,--unresolved-symbols=ignore-in-shared-libs",
    ]
    compile.link_shared_library(SHADOW, parts, out / SHADOW, links)
