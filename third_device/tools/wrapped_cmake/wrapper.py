"""Configure and build a CMake project of a backend with upstream's conventions."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from . import features, jobs, ninja, standalone, upstream
from .errors import WrappedCMakeError
from .folder_lock import hold_folder
from .parameters import Settings
from .project import read_project

REPORT = "wrapped_cmake.json"
_STAMP = "wrapped_cmake.configured"
_GIVEN = "wrapped_cmake.given"
"""The names that CMake was given definitions of."""
_READ = "wrapped_cmake.read_once"
"""A digest of what `features.describe_read_once` says of the cache."""
_COMPILERS = "wrapped_cmake.compilers"
"""The compilers that CMake took, and the files that they were behind links, as JSON."""
_LONGEST_MESSAGE = 600
"""Characters of an error of CMake's: it may quote all that a compiler said, which the log has."""


class WrappedCMake:
    """One CMake project: ``configure()`` then ``build()``.

    Both may be run again and do only what is left to do. ``tree`` is PyTorch's source tree, whose
    ``tools.setup_helpers.cmake`` finds CMake, writes the definitions and reads the cache; without one (default: the
    tree that the toolkit lies in, if it lies in one) the toolkit does that itself. ``environ`` is the environment that
    parameters are read from (default: the process's own).
    """

    def __init__(
        self,
        source_dir: Path,
        build_dir: Path,
        *,
        tree: Path | None = None,
        install_prefix: Path | None = None,
        environ: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self.source_dir = source_dir.resolve()
        self.build_dir = build_dir.resolve()
        base = Path(os.path.commonpath([self.source_dir, self.build_dir]))
        self.environ = features.build_environment(os.environ if environ is None else environ, base)
        self.environ.pop("DESTDIR", None)  # a packager's for others: the caller packs what is below its prefix
        self.project = read_project(self.source_dir)
        self.settings = Settings(self.environ, self.project.parameters)
        # CMake would take a relative one for a folder below build_dir
        self.install_prefix = install_prefix and install_prefix.absolute()
        self.log = log or self.build_dir / "wrapped_cmake.log"
        self.limits = jobs.plan_jobs(self.settings, self.project)
        tree = tree.resolve() if tree else upstream.find_tree(self.settings)
        self._cmake: upstream.CMake | standalone.CMake = (
            upstream.CMake(tree, self.build_dir) if tree else standalone.CMake(self.build_dir, self.environ)
        )

    def definitions(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return all ``-D`` for CMake; ``extra`` (the project's) wins over detected ones."""
        made = {"Python_EXECUTABLE": sys.executable}
        program = self._find_program("ninja")
        if program:  # CMake would keep the one of a virtual environment that is gone
            made["CMAKE_MAKE_PROGRAM"] = program
        named = {name.partition(":")[0]: value for name, value in (extra or {}).items()}
        named |= _list_definitions(self.settings.list_words("CMAKE_ARGS"))
        made.update(features.detect_features(self.settings, named).definitions(self.settings))
        made.update(self.limits.definitions())
        made.update(self.settings.definitions())
        made.update(self.project.definitions(self.settings))
        made.update(extra or {})
        return made

    def _find_program(self, name: str) -> str | None:
        return shutil.which(name, path=self.environ.get("PATH"))

    def configure(self, extra: Mapping[str, str] | None = None, *, always: bool = False) -> bool:
        """Run CMake unless the same definitions were configured before (or ``always``).

        Other depths of the ninja pools alone are put into what CMake wrote.
        Returns whether it ran. A definition that an earlier run had, and this one has not, is taken back: CMake itself
        would keep it. A build directory that was copied or moved here with its project is configured from nothing, and
        so is one of other compilers, flags of theirs, or places of what it needs.
        Raises WrappedCMakeError with CMake's first error.
        """
        if not self._cmake.has_ninja:
            raise WrappedCMakeError("ninja is not on the PATH (or USE_NINJA=0)", "install ninja")
        arguments = self._list_arguments(extra)
        self.build_dir.mkdir(parents=True, exist_ok=True)
        with hold_folder(self.build_dir):
            return self._run_configure(arguments, always=always)

    def _list_arguments(self, extra: Mapping[str, str] | None) -> list[str]:
        definitions = self._cmake.arguments(self.definitions(extra))
        more = self.settings.list_words("CMAKE_ARGS")
        if self.install_prefix:  # conda-build's name its own, and there nobody looks for what is installed
            more.append(f"-DCMAKE_INSTALL_PREFIX={self.install_prefix}")
        return ["-GNinja", *definitions, *more, str(self.source_dir)]

    def _run_configure(self, arguments: Sequence[str], *, always: bool) -> bool:
        given = _list_definitions(arguments)
        pools = given.get("CMAKE_JOB_POOLS", "")
        stamp = self.build_dir / _STAMP
        cmake = self._find_program(self._cmake.command) or self._cmake.command  # what it writes calls it by its path
        read_once = features.describe_read_once(self.settings, given)
        place = str(self.build_dir)  # CMake writes it into what it makes
        lasting = "\0".join([cmake, place, read_once, *arguments]).replace(pools, re.sub(r"=\d+", "", pools))
        digest = hashlib.sha256(lasting.encode()).hexdigest()
        replaced = self._has_replaced_compilers()
        known = not always and not replaced and stamp.exists() and stamp.read_text() == digest
        if known and (self.build_dir / "build.ninja").exists():
            ninja.set_pools(self.build_dir, pools)
            return False
        stamp.unlink(missing_ok=True)
        self._forget_cache(hashlib.sha256(read_once.encode()).hexdigest(), objects=replaced)
        earlier = self._read_given()
        self._note_given({*earlier, *given})  # CMake keeps a definition also when it fails
        taken_back = [word for name in sorted(earlier - given.keys()) for word in ("-U", name)]
        self._run([self._cmake.command, *taken_back, *arguments])
        self._note_given(given)
        note = self.build_dir / _COMPILERS
        note.unlink(missing_ok=True)  # not through a link in its place
        note.write_text(json.dumps(self._list_compilers(), indent=2), encoding="utf-8")
        stamp.write_text(digest)
        return True

    def _list_compilers(self) -> dict[str, str]:
        """List the compilers that CMake took, of every language.

        Path -> the file that it is, behind links.
        """
        files = sorted(self.build_dir.glob("CMakeFiles/*/CMake*Compiler.cmake"))
        text = "\n".join(file.read_text(encoding="utf-8", errors="surrogateescape") for file in files)
        found = re.findall(r'^set\(CMAKE_\w+_COMPILER "(/[^"]+)"\)', text, re.MULTILINE)
        return {path: os.path.realpath(path) for path in found}

    def _has_replaced_compilers(self) -> bool:
        """Return whether one that CMake took is another file now.

        A link as ``/usr/local/cuda`` leads to another release's after an upgrade: CMake and ninja see its name alone.
        """
        try:
            noted = json.loads((self.build_dir / _COMPILERS).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # of an earlier version, which did not note them, or of a full disk
            return False
        return any(noted.get(path, file) != file for path, file in self._list_compilers().items())

    def _read_given(self) -> set[str]:
        note = self.build_dir / _GIVEN
        return set(note.read_text(encoding="utf-8").splitlines()) if note.exists() else set()

    def _note_given(self, names: Iterable[str]) -> None:
        note = self.build_dir / _GIVEN
        note.unlink(missing_ok=True)  # not through a link in its place
        note.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")

    def _read_cache(self) -> dict[str, Any]:
        """Read CMake's cache; it is empty before a configure.

        With CMake's own variables, which upstream's helper leaves out.
        """
        return standalone.read_cache(self.build_dir) if (self.build_dir / "CMakeCache.txt").exists() else {}

    def install(self, prefix: Path, *, strip: bool = False) -> Path:
        """Put what was built below ``prefix``, made anew; return it.

        Raises WrappedCMakeError with CMake's error.
        """
        prefix = prefix.absolute()
        command = [self._cmake.command, "--install", str(self.build_dir), "--prefix", str(prefix)]
        with hold_folder(self.build_dir):
            shutil.rmtree(prefix, ignore_errors=True)
            self._run([*command, *(["--strip"] if strip else [])])
        return prefix

    def _run(self, command: Sequence[str]) -> None:
        """Run CMake into the log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with ninja.open_log(self.log) as out:
            out.write(f"$ {' '.join(command)}\n")
            out.flush()
            began = out.tell()
            # CMake takes the name of its folder from PWD, which may lead there through a link
            environ = {**self.environ, "PWD": str(self.build_dir)}
            done = subprocess.run(command, cwd=self.build_dir, env=environ, stdout=out, stderr=out, check=False)
        if done.returncode:
            raise WrappedCMakeError(f"CMake: {_find_first_error(self.log, began)}", f"read {self.log}")

    def _forget_cache(self, read_once: str, *, objects: bool) -> None:
        """Forget a cache of other directories, or of what CMake reads once.

        CMake refuses the first and leaves it to the user to delete it. Of the second it keeps what it read; told of
        another compiler by a definition, it deletes it by itself, and with it all other definitions. Objects stay
        there: ninja knows of each what it was compiled with. With ``objects`` all that was made goes.
        """
        note, known = self.build_dir / _READ, self._read_cache()
        if known:
            places = [os.path.realpath(known.get(f"CMAKE_{name}", "/")) for name in ("HOME_DIRECTORY", "CACHEFILE_DIR")]
            before = note.read_text() if note.exists() else read_once  # of an earlier version, which did not note it
            moved = objects or places != [str(self.source_dir), str(self.build_dir)]
            if moved or before != read_once:
                (self.build_dir / "CMakeCache.txt").unlink()
            if moved:
                shutil.rmtree(self.build_dir / "CMakeFiles", ignore_errors=True)
        note.unlink(missing_ok=True)  # not through a link in its place
        note.write_text(read_once)

    def cache(self) -> dict[str, Any]:
        """Read the variables of ``CMakeCache.txt``.

        Raises OSError before a configure.
        """
        return self._cmake.cache()

    def build(
        self,
        targets: Sequence[str] = ("install",),
        *,
        on_status: Callable[[ninja.Status], None] = lambda _: None,
    ) -> ninja.Result:
        """Build ``targets``; write ``wrapped_cmake.json`` into the build directory.

        Raises WrappedCMakeError.
        """
        result = ninja.run_ninja(
            self.build_dir,
            targets,
            jobs=self.limits.jobs,
            environ=self.environ,
            log=self.log,
            on_status=on_status,
        )
        write_report(self.build_dir, result, self.limits)
        return result


def write_report(build_dir: Path, result: ninja.Result, limits: jobs.JobLimits) -> dict[str, Any]:
    """Say in ``wrapped_cmake.json`` what the last build did.

    It has edges, seconds, retries, job limits, slowest objects.
    """
    edges = ninja.read_log(build_dir)
    document: dict[str, Any] = {
        "edges": result.edges,
        "seconds": round(result.seconds, 3),
        "retried": list(result.retried),
        "jobs": dataclasses.asdict(limits),
        "objects": sum(1 for edge in edges if edge.output.endswith(".o")),
        "slowest": [dataclasses.asdict(edge) for edge in edges[:10]],
    }
    (build_dir / REPORT).unlink(missing_ok=True)  # not through a link in its place
    (build_dir / REPORT).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    return document


def _list_definitions(arguments: Sequence[str]) -> dict[str, str]:
    """Return the definitions among CMake's ``arguments``.

    They are written ``-DNAME=VALUE`` or ``-DNAME:TYPE=VALUE``, in one word or in two; ``--toolchain FILE`` is one, too.
    """
    found: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word.startswith("-D"):
            name, _, value = (word[2:] or next(words, "")).partition("=")
            found[name.partition(":")[0]] = value
        elif word == "--toolchain" or word.startswith("--toolchain="):
            found["CMAKE_TOOLCHAIN_FILE"] = word.partition("=")[2] or next(words, "")
    return {name: value for name, value in found.items() if name}


def _find_first_error(log: Path, offset: int) -> str:
    """Return the first error that CMake printed, as one line.

    CMake prints 'CMake Error at file:line (command):' and the message below, indented and broken at 77 columns, with
    blank lines around what it quotes.
    ``offset`` is where this run's part of the log begins, in bytes.
    """
    lines = log.read_bytes()[offset:].decode(errors="replace").splitlines()
    for number, line in enumerate(lines):
        if line.startswith("CMake Error"):
            below = takewhile(lambda text: not text.strip() or text.startswith(" "), lines[number + 1 :])
            message = textwrap.shorten(" ".join(below), _LONGEST_MESSAGE, placeholder=" ...")
            return f"{line.rstrip(':')}: {message}" if message else line
    return next((line for line in reversed(lines) if line.strip()), "failed without a word")
