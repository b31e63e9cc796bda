"""Build the binding module of a backend, or an extension of one.

``NewDeviceCppExtension`` does it.

``torch.utils.cpp_extension`` offers the names of this module. In a ``setup.py``::

    from torch.utils.cpp_extension import BuildExtension, NewDeviceCppExtension

    setup(
        ext_modules=[NewDeviceCppExtension("torch_foo._C", ["csrc/module.cpp"], backend="torch_foo")],
        cmdclass={"build_ext": BuildExtension},
    )

and without one: ``load_new_device("name", ["module.cpp"], backend="torch_foo")``. Sources with a suffix that the
backend has a compiler for (its ``compilers.json``) are compiled by that; a ``setup.py`` then says
``cmdclass={"build_ext": new_device_build_ext()}``.

``stable_abi="2.10"`` builds an extension that loads on that release of PyTorch and on later ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "Backend",
    "BackendNotFoundError",
    "DeviceCompiler",
    "DeviceCompilerError",
    "NewDeviceCppExtension",
    "find_backend",
    "load_new_device",
    "new_device_build_ext",
]

COMPILERS = "compilers.json"
"""What a backend's build writes into its package of the compilers in its ``wrapped_cmake.toml``."""
_COMPILE = ["-fvisibility=hidden", "-fvisibility-inlines-hidden"]
_PLACE = re.compile(r"\{(\w+)\}")


class BackendNotFoundError(ImportError):
    """The backend package is not installed, or has nothing to build against."""


class DeviceCompilerError(RuntimeError):
    """A source was not compiled; the message names it and what the compiler did."""


@dataclasses.dataclass(frozen=True)
class DeviceCompiler:
    """A backend's compiler: its command, and its parameters in the environment."""

    name: str
    suffixes: tuple[str, ...]
    command: tuple[str, ...]
    parameters: Mapping[str, Mapping[str, Any]]

    def compile(
        self,
        source: str | Path,
        folder: Path,
        *,
        include_dirs: Sequence[str] = (),
        macros: Iterable[tuple[str, str | None]] = (),
        flags: Sequence[str] = (),
    ) -> Path:
        """Compile ``source`` into ``folder`` unless that is done; returns the object.

        Done is what the same command of the same compiler made of files that are older: of ``source`` and of those in
        the compiler's file of dependencies. Raises DeviceCompilerError.
        """
        apart = hashlib.sha256(str(Path(source).resolve()).encode()).hexdigest()[:8]  # two sources of one name
        made = folder / f"{Path(source).name}.{apart}.o"
        depfile, record = made.with_suffix(".o.d"), made.with_suffix(".o.command")
        places = {
            "source": [str(source)],
            "object": [str(made)],
            "depfile": [str(depfile)],
            "includes": [f"-I{path}" for path in include_dirs],
            "defines": [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in macros],
            "launcher": [],
        }
        command = [argument for part in self.command for argument in self._fill_place(part, places)] + list(flags)
        said = shlex.join(command)
        recorded = f"{said}\n{_describe_program(command[0])}\n"
        folder.mkdir(parents=True, exist_ok=True)
        with _hold_lock(made.with_suffix(".o.lock")):  # the ranks of one program compile at the same time
            if (
                record.is_file()
                and record.read_text() == recorded
                and _is_newer(made, _read_dependencies(depfile, str(source)))
            ):
                return made
            record.unlink(missing_ok=True)
            try:
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            except OSError as error:
                raise DeviceCompilerError(f"{source}: {error}; set {', '.join(self.parameters) or 'PATH'}") from None
            if done.returncode:
                raise DeviceCompilerError(f"{source}: {said} failed:\n{done.stdout}{done.stderr}")
            record.write_text(recorded)
        return made

    def _fill_place(self, part: str, places: Mapping[str, list[str]]) -> list[str]:
        """Return one part of the command as arguments."""
        whole = _PLACE.fullmatch(part)
        if whole and whole[1] in places:
            return places[whole[1]]
        if whole and self.parameters[whole[1]]["kind"] == "flags":
            return self._split_flags(whole[1])
        return [_PLACE.sub(lambda place: self._find_value(place[1]), part)]

    def _split_flags(self, name: str) -> list[str]:
        """Split flags as a shell does. None are none, as in the backend's own build."""
        value = self._read_value(name) or ""
        try:
            return shlex.split(value)
        except ValueError as error:
            raise DeviceCompilerError(f"{name}={value}: {error}; close the quotation in it") from None

    def _read_value(self, name: str) -> str | None:
        value: str | None = os.environ.get(name) or self.parameters[name]["default"]
        return value

    def _find_value(self, name: str) -> str:
        value = self._read_value(name)
        if value is None:
            raise DeviceCompilerError(f"compiler {self.name}: {name} is not set; set {name}")
        return value


def _describe_program(name: str) -> str:
    """Return which file a command runs, and which one of those that lay there."""
    path = shutil.which(name)
    if path is None:
        return ""
    found = Path(path).stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"  # an older time is a change, too: packages keep theirs


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Keep other processes out until the block ends, or this process does.

    Raises DeviceCompilerError on a file system that has no locks.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise DeviceCompilerError(f"{path}: {error}; build in a folder of a file system that has locks") from None
        yield


def _read_dependencies(depfile: Path, source: str) -> list[str]:
    """List what an object was made from: ``source``, and files of a make rule."""
    if not depfile.is_file():
        return [source]
    _, _, listed = depfile.read_text().replace("\\\n", " ").partition(": ")
    return [source, *(word.replace("\\ ", " ") for word in re.findall(r"(?:\\ |\S)+", listed))]


def _is_newer(made: Path, files: Iterable[str]) -> bool:
    """Return whether ``made`` exists, no older than ``files``, which all exist."""
    try:
        return all(Path(path).stat().st_mtime_ns <= made.stat().st_mtime_ns for path in files)
    except OSError:
        return False


@dataclasses.dataclass(frozen=True)
class Backend:
    """A backend: ``folder`` with ``include/`` and ``lib/``, ``libraries`` for ``-l``."""

    name: str
    folder: Path
    libraries: tuple[str, ...]
    compilers: tuple[DeviceCompiler, ...] = ()

    @property
    def include_dirs(self) -> list[str]:
        """Its header folders."""
        return [str(self.folder / "include")]

    @property
    def library_dir(self) -> str:
        """The folder of its shared libraries."""
        return str(self.folder / "lib")

    def find_compiler(self, source: str | Path) -> DeviceCompiler | None:
        """Return the compiler for a source of that suffix; None for the C++ compiler."""
        return next((one for one in self.compilers if Path(source).suffix in one.suffixes), None)

    def link_arguments(self) -> list[str]:
        """Link every library, needed or not: loading one registers its operators."""
        return [
            "-Wl,--push-state,--no-as-needed",
            f"-L{self.library_dir}",
            *(f"-l{library}" for library in self.libraries),
            "-Wl,--pop-state",
        ]


def find_backend(name: str, folder: str | Path | None = None, libraries: Sequence[str] | None = None) -> Backend:
    """Look up the backend package ``name`` without importing it.

    ``folder`` names it when it is not installed yet (a backend that builds its own bindings); ``libraries`` picks some
    of its libraries, by default every ``lib/lib*.so``. Raises BackendNotFoundError naming what is missing.
    """
    if folder is None:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise BackendNotFoundError(
                f"NewDeviceCppExtension: the backend package {name!r} is not installed; "
                f"pip install it, or pass backend_dir= with its include/ and lib/",
                name=name,
            )
        folder = places[0]
    root = Path(folder).resolve()
    for part in ("include", "lib"):
        if not (root / part).is_dir():
            raise BackendNotFoundError(
                f"NewDeviceCppExtension: the backend package {name!r} at {root} has no {part}/ to build against; "
                f"install one that ships its headers and libraries",
                name=name,
                path=str(root),
            )
    found = sorted(path.name[3:-3] for path in (root / "lib").glob("lib*.so"))
    absent = sorted(set(libraries or ()) - set(found))
    if absent or not found:
        wanted = ", ".join(f"lib{library}.so" for library in absent) or "lib*.so"
        raise BackendNotFoundError(
            f"NewDeviceCppExtension: the backend package {name!r} has no {wanted} in {root / 'lib'}",
            name=name,
            path=str(root),
        )
    table = root / COMPILERS
    rows = json.loads(table.read_text(encoding="utf-8")) if table.is_file() else []
    compilers = (
        DeviceCompiler(row["name"], tuple(row["suffixes"]), tuple(row["command"]), row["parameters"]) for row in rows
    )
    return Backend(name, root, tuple(libraries) if libraries else tuple(found), tuple(compilers))


def NewDeviceCppExtension(
    name: str,
    sources: Sequence[str],
    *,
    backend: str,
    backend_dir: str | Path | None = None,
    backend_libraries: Sequence[str] | None = None,
    stable_abi: str | None = None,
    **kwargs: Any,
) -> Any:
    """Make a ``setuptools.Extension`` that builds against torch and ``backend``.

    ``backend`` is the name of the backend package.

    It gets the backend's headers and libraries, torch_python, hidden visibility, and an rpath relative to ``$ORIGIN``
    that holds wherever ``torch``, the backend and the extension are installed side by side. ``kwargs`` go to
    ``torch.utils.cpp_extension.CppExtension``; a dict of ``extra_compile_args`` may have the names of the backend's
    compilers as keys. ``stable_abi`` is the first release of PyTorch that the extension is for, as "2.10": it then sees
    PyTorch's stable interface alone, and of the backend what is C (``third_device/stable.h``).

    Raises BackendNotFoundError when there is no such backend, ValueError for a release that has no stable interface.
    """
    from torch.utils.cpp_extension import CppExtension

    found = find_backend(backend, backend_dir, backend_libraries)
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *found.include_dirs]
    given = kwargs.get("extra_compile_args")
    own = {one.name: list(given.get(one.name, ())) for one in found.compilers} if isinstance(given, dict) else {}
    host = {key: value for key, value in given.items() if key not in own} if isinstance(given, dict) else given
    kwargs["extra_compile_args"] = _with_flags(host)
    kwargs["define_macros"] = [*kwargs.get("define_macros", ()), *_stable_macros(stable_abi)]  # for every compiler
    if stable_abi is not None:
        kwargs.setdefault("py_limited_api", True)
    kwargs["extra_link_args"] = [
        *kwargs.get("extra_link_args", ()),
        *found.link_arguments(),
        *(f"-Wl,-rpath,{path}" for path in _relative_rpaths(name, backend)),
    ]
    made = CppExtension(name, list(sources), **kwargs)
    made.new_device, made.new_device_flags = found, own  # for `new_device_build_ext`
    return made


def new_device_build_ext() -> type:
    """Return torch's ``build_ext`` that runs the backend's compiler on its sources."""
    from torch.utils.cpp_extension import BuildExtension

    class BuildNewDevice(BuildExtension):  # type: ignore[misc]  # torch need not be typed for who checks this
        def build_extension(self, ext: Any) -> None:
            backend: Backend | None = getattr(ext, "new_device", None)
            given = list(ext.sources), list(ext.extra_objects), list(ext.depends)
            device = [source for source in ext.sources if backend and backend.find_compiler(source)]
            try:
                host = [source for source in ext.sources if source not in device]
                ext.sources = host or [str(_make_empty_source(Path(self.build_temp).resolve(), ext.name))]
                for source in device:
                    made = str(self.compile_for_device(ext, source))
                    ext.extra_objects.append(made)
                    ext.depends.append(made)  # without ninja setuptools links only what is older than these
                super().build_extension(ext)
            finally:
                ext.sources, ext.extra_objects, ext.depends = given

        def compile_for_device(self, ext: Any, source: str) -> Path:
            compiler = ext.new_device.find_compiler(source)
            return compiler.compile(  # type: ignore[no-any-return]
                source,
                Path(self.build_temp).resolve(),
                include_dirs=ext.include_dirs,
                macros=[*ext.define_macros, *_abi_macros()],
                flags=ext.new_device_flags.get(compiler.name, ()),
            )

    return BuildNewDevice


def load_new_device(
    name: str,
    sources: str | Sequence[str],
    *,
    backend: str,
    backend_dir: str | Path | None = None,
    backend_libraries: Sequence[str] | None = None,
    build_directory: str | Path | None = None,
    **kwargs: Any,
) -> Any:
    """Compile and import at once against the backend package.

    It is as ``torch.utils.cpp_extension.load`` does. The module stays in torch's cache of extensions, so its rpath is
    the backend's absolute folder. Raises BackendNotFoundError when there is no such backend, DeviceCompilerError.
    """
    from torch.utils.cpp_extension import _get_build_directory, include_paths, load

    sources = [sources] if isinstance(sources, str) else sources
    found = find_backend(backend, backend_dir, backend_libraries)
    folder = Path(build_directory or _get_build_directory(name, kwargs.get("verbose", False))).resolve()  # linked there
    given = [str(path) for path in kwargs.get("extra_include_paths") or ()]
    kwargs["extra_include_paths"] = [*given, *found.include_dirs]
    objects = []
    for source in sources:
        compiler = found.find_compiler(source)
        if compiler is not None:
            made = compiler.compile(
                Path(source).resolve(),
                folder,
                include_dirs=[*kwargs["extra_include_paths"], *include_paths()],  # torch's load adds them for C++ alone
                macros=_abi_macros(),
            )
            objects.append(_name_by_content(made))
    kwargs["extra_cflags"] = [*(kwargs.get("extra_cflags") or ()), *_COMPILE]
    ours = [*found.link_arguments(), f"-Wl,-rpath,{found.library_dir}"]
    kwargs["extra_ldflags"] = [  # words of a shell's line, which torch has ninja run
        *map(shlex.quote, objects),
        *(kwargs.get("extra_ldflags") or ()),
        *map(shlex.quote, ours),
    ]
    host = [source for source in sources if found.find_compiler(source) is None]
    return load(name, host or [str(_make_empty_source(folder, name))], build_directory=str(folder), **kwargs)


def _make_empty_source(folder: Path, name: str) -> Path:
    """Return an empty C++ source for ``name``: torch builds no extension without one.

    It is ``At least one source`` of torch/utils/cpp_extension.py, ``_write_ninja_file``.
    """
    path = folder / f"{name}.no_host_source.cpp"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():  # a newer file would be compiled again
        path.touch()
    return path


def _name_by_content(made: Path) -> str:
    """Return a copy named by content: torch links anew only for another command."""
    with _hold_lock(made.with_suffix(".o.lock")):
        content = made.read_bytes()
        copy = made.with_suffix(f".{hashlib.sha256(content).hexdigest()[:16]}.o")
        if not copy.exists():
            part = copy.with_suffix(".part")
            part.write_bytes(content)
            part.replace(copy)  # whole at any time: another rank may be linking it
    return str(copy)


def _abi_macros() -> list[tuple[str, str | None]]:
    """Return the macro by which strings are what they are in torch.

    Torch gives it to the C++ compiler; without it a source with strings in its interface compiles and does not load.
    """
    import torch

    return [("_GLIBCXX_USE_CXX11_ABI", str(int(torch.compiled_with_cxx11_abi())))]


def _stable_macros(release: str | None) -> list[tuple[str, str | None]]:
    """Return the macros of PyTorch's stable interface as ``release`` had it.

    For None there are none. Raises ValueError for text that is no release, and where the PyTorch that is installed has
    no such interface.
    """
    if release is None:
        return []
    import torch
    from torch.utils.cpp_extension import include_paths

    parts = re.fullmatch(r"(\d+)\.(\d+)", release)
    if not parts:
        raise ValueError(f"NewDeviceCppExtension: stable_abi={release!r}: write a release as '2.10'")
    wanted = int(parts[1]), int(parts[2])
    there = any(Path(path, "torch", "csrc", "stable", "version.h").is_file() for path in include_paths())
    installed = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not there or not (2, 10) <= wanted <= installed:
        raise ValueError(
            f"NewDeviceCppExtension: stable_abi={release!r}: PyTorch {torch.__version__} has no stable interface of "
            "that release (torch/csrc/stable/version.h, 2.10 is the first); name an older one, or leave stable_abi out"
        )
    return [
        ("TORCH_STABLE_ONLY", None),
        ("TORCH_TARGET_VERSION", f"0x{wanted[0]:02x}{wanted[1]:02x}000000000000"),
    ]


def _with_flags(given: Any) -> Any:
    """Add our C++ flags to BuildExtension's list, or dict of lists by compiler."""
    if isinstance(given, dict):
        return {**given, "cxx": [*_COMPILE, *given.get("cxx", ())]}
    return [*_COMPILE, *(given or ())]


def _relative_rpaths(name: str, backend: str) -> list[str]:
    """Return run paths from ``name``'s folder to torch, the backend, and its own."""
    up = "/.." * name.count(".")
    return [f"$ORIGIN{up}/{backend.replace('.', '/')}/lib", f"$ORIGIN{up}/torch/lib"]
