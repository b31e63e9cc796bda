"""An environment with a PyTorch release and torch_sim built for it, kept in the cache between runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock, write_atomically
from decouple.base.paths import find_cache, find_project
from decouple.device.contract import SHARED, compute_digest, mirror_sources, open_backend
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

ROOT = Path(__file__).parents[2]
THIRD_DEVICE = ROOT / "third_device"
TORCH = "2.13.0"
PACKAGES = (
    "numpy",
    "pytest",
    "pytest-timeout",
    "cmake",
    "ninja",
    "pyyaml",
    "packaging",
    "setuptools>=77",
    "wheel",
    "expecttest",
)
CUDA_PACKAGES = ("torch==2.6.0", "nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cuda-nvcc-cu12==12.4.131")
"""PyTorch for CUDA, and what torch_puone is compiled with, without the 2 GB of libraries that a GPU needs."""
CUDA_NEEDS = ("filelock", "fsspec", "jinja2", "networkx", "sympy==1.13.1", "typing-extensions")

#: compiler flags of a build that is not the usual one, by the name of the sanitizer. Without vptr: with it GCC 12 finds
#: the static_assert of makeFromUnboxedFunction (ATen/core/boxing/KernelFunction_impl.h) not to be constant.
#: By -O1, as the sanitizers' manuals have it: by -O3 the table of operators alone compiles for minutes.
FLAVOURS: dict[str, tuple[str, ...]] = {
    "": (),
    "address": ("-O1", "-DNDEBUG", "-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-omit-frame-pointer"),
    "thread": ("-O1", "-DNDEBUG", "-fsanitize=thread", "-fno-omit-frame-pointer"),
}

#: file below third_device -> (what it says once, what stands there instead)
Changes = Mapping[str, tuple[str, str]]


class NoTorchError(Exception):
    """PyTorch could not be installed here; the message is pip's last line."""


def python(torch: str = TORCH) -> Path:
    """The interpreter of the environment, installed once. ``$DECOUPLE_CONTRACT_PYTHON`` names one that is ready.

    Raises NoTorchError.
    """
    named = os.environ.get("DECOUPLE_CONTRACT_PYTHON")
    if named:
        return Path(named)
    home = find_cache() / "contract" / name_environment(torch, Path(sys.executable))
    binary = home / "bin" / "python"
    with hold_lock(name_lock(home)):
        ready, wanted = home / "ready", "\n".join((f"torch=={torch}", *PACKAGES)) + "\n"
        if not ready.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        if not ready.exists() or ready.read_text() != wanted:
            command = [str(binary), "-m", "pip", "install", "-q", *wanted.splitlines()]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise NoTorchError((done.stderr.strip() or "pip failed").splitlines()[-1])
            write_atomically(ready, wanted)
    return binary


def cuda_python() -> Path:
    """The interpreter of an environment with the official wheel of PyTorch for CUDA, installed once; its libraries are
    the simulated device's. ``$SIMCUDA_TORCH`` names one that is ready.

    Raises NoTorchError.
    """
    named = os.environ.get("SIMCUDA_TORCH")
    if named:
        return Path(named)
    home = find_cache() / "contract" / f"cuda-{name_environment(CUDA_PACKAGES[0].split('==')[1], Path(sys.executable))}"
    binary = home / "bin" / "python"
    with hold_lock(name_lock(home)):
        ready, wanted = home / "ready", "\n".join((*CUDA_PACKAGES, *CUDA_NEEDS, *PACKAGES)) + "\n"
        if not ready.exists() or ready.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            for words in (["--no-deps", *CUDA_PACKAGES], [*CUDA_NEEDS, *PACKAGES]):
                command = [str(binary), "-m", "pip", "install", "-q", *words]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise NoTorchError((done.stderr.strip() or "pip failed").splitlines()[-1])
            write_atomically(ready, wanted)
    return binary


def name_environment(torch: str, executable: Path) -> str:
    """Return the folder's name: of the release, this Python's version, and where the Python itself lies.

    The cache may be shared with a root whose Python is another one; a virtual environment is a link to its own.
    """
    where = hash_text(str(executable.resolve()))
    return f"torch-{torch}-py{sys.version_info[0]}.{sys.version_info[1]}-{where}"


def name_lock(home: Path) -> Path:
    """Return the lock of an environment: beside it, of its whole name, which has dots (``py3.11``)."""
    return home.with_name(f"{home.name}.lock")


def open_builds(interpreter: Path, checkout: Path) -> Path:
    """Return the folder of what ``checkout`` builds for an interpreter.

    Another checkout, whose sources are others, would delete what tests of this one import. Folders of checkouts that
    are gone go, too.
    """
    shared = find_cache() / "contract" / f"{interpreter.parents[1].name}-{hash_text(str(interpreter))}"
    home = shared / hash_text(str(checkout))
    home.mkdir(parents=True, exist_ok=True)
    write_atomically(home / "checkout", str(checkout))
    for note in shared.glob("*/checkout"):
        with contextlib.suppress(FileNotFoundError):  # another run has just removed it
            if not Path(note.read_text()).is_dir():
                shutil.rmtree(note.parent, ignore_errors=True)
    return home


def hash_text(text: str) -> str:
    """Return a short name for a path."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def install_sim(interpreter: Path, flavour: str = "") -> Path:
    """`install` the template as ``torch_sim``."""
    with open_backend(THIRD_DEVICE, None) as project:
        return install(interpreter, project, flavour)


def install(interpreter: Path, project: Path, flavour: str = "") -> Path:
    """Build ``project`` and install it into a folder of its own, for ``PYTHONPATH``; nothing if this source was built.

    A folder of its own because only one backend of the PrivateUse1 key may be found by ``import torch``. ``flavour`` is
    a key of FLAVOURS, or empty for a plain build. A copy of the sources is built, so that the checkout stays clean and
    the objects of each flavour lie apart. Raises CalledProcessError after showing the build's output.
    """
    home = open_builds(interpreter, ROOT)
    name = f"{project.name}-{flavour}" if flavour else project.name
    target, stamp, source = home / name, home / f"{name}.digest", home / f"{name}.source"
    compiled_with = "".join(FLAVOURS[flavour])
    key = compute_digest([project, *(THIRD_DEVICE / shared for shared in SHARED)]) + compiled_with
    with hold_lock(home / f"{name}.lock"):
        built = stamp.read_text() if stamp.exists() else ""
        if built == key:
            return target
        if built[64:] != compiled_with:  # after the digest; CMake keeps the flags of its first run
            shutil.rmtree(source, ignore_errors=True)
        stamp.unlink(missing_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        build(interpreter, copy_sources(project, source), target, flavour)
        write_atomically(stamp, key)
    return target


def build(interpreter: Path, project: Path, target: Path, flavour: str = "") -> None:
    """Build ``project`` and install it into ``target``. Raises CalledProcessError after showing the build's output."""
    for packed in project.glob("build/lib*"):  # setuptools would pack modules again that the project no longer has
        shutil.rmtree(packed)
    command = [str(interpreter), "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps"]
    done = subprocess.run(
        [*command, "--target", str(target), str(project)],
        capture_output=True,
        text=True,
        env=build_environment(interpreter, project) | flags(flavour),
    )
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-8000:])
    done.check_returncode()


def install_changed(interpreter: Path, flavour: str, changes: Changes, target: Path) -> None:
    """Build a flavour of torch_sim with other sources and install it into ``target``; the flavour itself stays.

    Only what depends on the changed files is compiled, since a flavour's objects lie beside its copy of the sources.
    Raises KeyError when a text to change is not there exactly once, CalledProcessError.
    """
    source = install_sim(interpreter, flavour).with_suffix(".source")
    with hold_lock(source.with_suffix(".lock")):
        try:
            for name, (old, new) in changes.items():
                text = (THIRD_DEVICE / name).read_text()
                if text.count(old) != 1:
                    raise KeyError(f"{name} has {text.count(old)} times {old!r}")
                (source / name).write_text(text.replace(old, new))
            build(interpreter, source / "torch_sim", target, flavour)
        finally:
            for name in changes:
                (source / name).write_text((THIRD_DEVICE / name).read_text())


def copy_sources(project: Path, to: Path) -> Path:
    """Copy ``project`` and the shared sources into ``to``; return its copy there."""
    for folder in (project, *(THIRD_DEVICE / shared for shared in SHARED)):
        mirror_sources(folder, to / folder.name)
    return to / project.name


def flags(flavour: str) -> dict[str, str]:
    """What a build's environment says of a flavour: the same flags for C, C++ and the linker, whoever calls them.

    CMake adds none of its own to a build type that it does not know.
    """
    given = " ".join(FLAVOURS[flavour])
    return dict.fromkeys(("CFLAGS", "CXXFLAGS", "LDFLAGS"), given) | {"CMAKE_BUILD_TYPE": "Flavour"} if given else {}


def build_environment(interpreter: Path, project: Path | None = None) -> dict[str, str]:
    """The environment of a build: the interpreter's own tools first, ccache where it is, two compilers at once.

    Backends that lie beside ``layer`` share its objects: ccache sees paths relative to their parent.
    """
    made = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    path = [str(interpreter.parent), made.get("PATH", "")]
    if Path("/usr/lib/ccache/c++").exists():
        path.insert(0, "/usr/lib/ccache")
        made.setdefault("CCACHE_DIR", str(find_cache() / "contract" / "ccache"))
        made["CCACHE_NOHASHDIR"] = "1"
        if project is not None:
            made["CCACHE_BASEDIR"] = str(project.parent)
    made["PATH"] = os.pathsep.join(path)
    made.setdefault("MAX_JOBS", "2")
    return made


def upstream_tests(interpreter: Path) -> tuple[Path | None, str]:
    """The ``test`` folder of the source of the interpreter's PyTorch, and why there is none.

    ``$DECOUPLE_CONTRACT_UPSTREAM`` names one; otherwise it is that of a release that ``series/`` has, from the cache:
    nothing is downloaded for it.
    """
    named = os.environ.get("DECOUPLE_CONTRACT_UPSTREAM")
    if named:
        return Path(named), ""
    question = "import importlib.metadata as m; print(m.version('torch'))"
    asked = subprocess.run([str(interpreter), "-c", question], capture_output=True, text=True, check=True)
    release = Version(asked.stdout.strip())
    series = f"{release.major}.{release.minor}"
    root = find_project()
    if not (root / "series" / f"{series}.toml").is_file():
        return None, f"torch {release}: no series {series}; set DECOUPLE_CONTRACT_UPSTREAM to its source's test folder"
    try:
        return fetch_source(load_release(root, series), "auto", offline=True).path / "test", ""
    except DecoupleError as error:
        return None, f"the source of {series} is not in the cache ({error.what}); run `nox -s fetch-{series}`"


def check(
    interpreter: Path,
    device: str,
    folders: list[Path],
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the contract on ``device`` with the packages in ``folders``.

    ``environment`` is added to this process's; ``launcher`` is put before the command.
    """
    plugins = ["-p", "no:cacheprovider", "-p", "third_device_contract.plugin"]
    tests = ["--pyargs", "third_device_contract", "--device", device]
    command = [*launcher, str(interpreter), "-m", "pytest", "-q", *plugins, *tests, *arguments]
    made = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, folders)), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    made.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    made |= environment or {}
    return subprocess.run(command, capture_output=True, text=True, env=made, cwd=folders[0])
