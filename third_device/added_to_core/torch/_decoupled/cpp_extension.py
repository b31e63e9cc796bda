"""``NewDeviceCppExtension``: how a backend, or an extension of one, builds its binding module.

``torch.utils.cpp_extension`` offers the names of this module. In a ``setup.py``::

    from torch.utils.cpp_extension import BuildExtension, NewDeviceCppExtension

    setup(
        ext_modules=[NewDeviceCppExtension("torch_foo._C", ["csrc/module.cpp"], backend="torch_foo")],
        cmdclass={"build_ext": BuildExtension},
    )

and without one: ``load_new_device("name", ["module.cpp"], backend="torch_foo")``.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Backend", "BackendNotFoundError", "NewDeviceCppExtension", "find_backend", "load_new_device"]

_COMPILE = ["-fvisibility=hidden", "-fvisibility-inlines-hidden"]


class BackendNotFoundError(ImportError):
    """The backend package is not installed, or has nothing to build against."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """A backend package: ``folder`` holds ``include/`` and ``lib/``; ``libraries`` are names for ``-l``."""

    name: str
    folder: Path
    libraries: tuple[str, ...]

    @property
    def include_dirs(self) -> list[str]:
        """Its header folders."""
        return [str(self.folder / "include")]

    @property
    def library_dir(self) -> str:
        """The folder of its shared libraries."""
        return str(self.folder / "lib")

    def link_arguments(self) -> list[str]:
        """Links every library, needed or not: a backend registers its operators when it is loaded."""
        return [
            "-Wl,--push-state,--no-as-needed",
            f"-L{self.library_dir}",
            *(f"-l{library}" for library in self.libraries),
            "-Wl,--pop-state",
        ]


def find_backend(name: str, folder: str | Path | None = None, libraries: Sequence[str] | None = None) -> Backend:
    """The backend package ``name``, looked up without importing it.

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
    return Backend(name, root, tuple(libraries) if libraries else tuple(found))


def NewDeviceCppExtension(
    name: str,
    sources: Sequence[str],
    *,
    backend: str,
    backend_dir: str | Path | None = None,
    backend_libraries: Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """A ``setuptools.Extension`` that builds against torch and the backend package ``backend``.

    It gets the backend's headers and libraries, torch_python, hidden visibility, and an rpath relative to ``$ORIGIN``
    that holds wherever ``torch``, the backend and the extension are installed side by side. ``kwargs`` go to
    ``torch.utils.cpp_extension.CppExtension``. Raises BackendNotFoundError when there is no such backend.
    """
    from torch.utils.cpp_extension import CppExtension

    found = find_backend(backend, backend_dir, backend_libraries)
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *found.include_dirs]
    kwargs["extra_compile_args"] = _with_flags(kwargs.get("extra_compile_args"))
    kwargs["extra_link_args"] = [
        *kwargs.get("extra_link_args", ()),
        *found.link_arguments(),
        *(f"-Wl,-rpath,{path}" for path in _relative_rpaths(name, backend)),
    ]
    return CppExtension(name, list(sources), **kwargs)


def load_new_device(
    name: str,
    sources: Sequence[str],
    *,
    backend: str,
    backend_dir: str | Path | None = None,
    backend_libraries: Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """Compile and import at once, as ``torch.utils.cpp_extension.load`` does, against the backend package.

    The module stays in torch's cache of extensions, so its rpath is the backend's absolute folder. Raises
    BackendNotFoundError when there is no such backend.
    """
    from torch.utils.cpp_extension import load

    found = find_backend(backend, backend_dir, backend_libraries)
    kwargs["extra_include_paths"] = [*(kwargs.get("extra_include_paths") or ()), *found.include_dirs]
    kwargs["extra_cflags"] = [*(kwargs.get("extra_cflags") or ()), *_COMPILE]
    kwargs["extra_ldflags"] = [
        *(kwargs.get("extra_ldflags") or ()),
        *found.link_arguments(),
        f"-Wl,-rpath,{found.library_dir}",
    ]
    return load(name, list(sources), **kwargs)


def _with_flags(given: Any) -> Any:
    """BuildExtension takes a list, or a dict of lists by compiler; add our flags for the C++ compiler."""
    if isinstance(given, dict):
        return {**given, "cxx": [*_COMPILE, *given.get("cxx", ())]}
    return [*_COMPILE, *(given or ())]


def _relative_rpaths(name: str, backend: str) -> list[str]:
    """From the folder that ``name`` is installed in: torch's libraries, the backend's, its own package's."""
    up = "/.." * name.count(".")
    return [f"$ORIGIN{up}/{backend.replace('.', '/')}/lib", f"$ORIGIN{up}/torch/lib"]
