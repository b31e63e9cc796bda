"""Build the core by upstream's own packer on the applied tree.

It is setup.py, or what its pyproject.toml names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.mounts import remove_tree
from decouple.build import inputs, settings, toolchain
from decouple.build.environment import (
    holds_other_objects,
    locate_environment_note,
    locate_kept_objects,
    name_objects,
    read_environment_note,
    read_output,
    remove_objects,
)
from decouple.build.stage import HOW, Stage
from decouple.release import projects
from decouple.release.wheel_name import WheelName

_HOME = re.compile(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", re.MULTILINE)


class Stage1(Stage):
    """The core."""

    number, project = 1, projects.CORE

    @property
    def version(self) -> str:
        return self.variables["PYTORCH_BUILD_VERSION"]

    @property
    def folder(self) -> Path:
        return self.places.stage1

    def describe_stage(self) -> dict[str, Any]:
        return {"flags": {"profile": self.job.choices.profile}}

    def prepare(self) -> None:
        self._clear_other_objects()
        for prepare in self.facts.prepare:
            made, needless = self.places.tree / prepare.makes, self.places.tree / prepare.unless
            if prepare.environment == self.environment.kind and not made.exists() and not needless.exists():
                made.parent.mkdir(parents=True, exist_ok=True)
                self.run_step(prepare.what, prepare.command, self.names["tree"])
        self._configure_tree()

    def make_raw_wheel(self) -> Path:
        tree, packer = self.names["tree"], settings.find_packer(self.places.tree)
        self._uninstall_files()
        self.compile_targets(*packer.targets)
        raw = self.pack_wheel([word.format(python=self.find_python()) for word in packer.wheel], tree)
        version = WheelName.parse(raw.name).version
        if version != self.version:
            raise DecoupleError(
                f"{raw.name}: its version is {version}, expected {self.version}", next_step=f"read {self.log}"
            )
        if self.environment.kind != "portable":
            return raw
        return graft_libraries(
            raw, lambda what, command: self.run_step(what, command, f"{self.names['raw']}/stage1"), self.log
        )

    def _clear_other_objects(self) -> None:
        """Move a build directory of another environment or Python aside.

        Delete one of another compiler. CMake keeps what it found there for good, and ninja what is newer than the new
        compiler's headers. What was moved aside is moved back for its own environment: ninja compiles what changed.
        """
        kind, python = self.environment.kind, self.job.choices.python
        self._move_others_aside(kind, python)
        own = locate_kept_objects(self.folder, name_objects(kind, python))
        if own.exists() and not self.folder.exists():
            own.rename(self.folder)
        why = self.find_other_compilers()
        if self.folder.exists() and why:
            self.job.say(f"stage 1: the objects in {self.folder} {why}: deleted")
            self._uninstall_files()
            remove_objects(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(locate_environment_note(self.folder), name_objects(kind, python))
        toolchain.note_compilers(self.folder, self.describe_origin())

    def _move_others_aside(self, kind: str, python: str) -> None:
        """Move objects of another environment or Python to where they wait.

        Those of which nothing says whose they are cannot be taken back: they are deleted.
        """
        if not self.folder.exists() or not holds_other_objects(self.folder, kind, python):
            return
        self._uninstall_files()
        whose = f"stage 1: the objects in {self.folder} are of another environment or Python"
        if said := read_environment_note(self.folder):
            kept = locate_kept_objects(self.folder, said)
            self.job.say(f"{whose}: kept as {kept.name}")
            remove_objects(kept)  # of before a kill
            self.folder.rename(kept)
        else:
            self.job.say(f"{whose}: deleted")
            remove_objects(self.folder)

    def _configure_tree(self) -> None:
        """Run upstream's configure step unless the same variables were configured before."""
        stamp = self.places.state / "stage1.configured"
        own = Checkout(self.places.project).locate_tree(self.places.release)
        tree = {} if self.places.tree == own else {"tree": str(self.places.tree)}  # each has its build directory
        digest = inputs.compute_digest({**{k: v for k, v in self.variables.items() if k not in HOW}, **tree})
        if (self.folder / "build.ninja").exists() and stamp.exists() and stamp.read_text() == digest:
            return
        stamp.unlink(missing_ok=True)  # what a configure that fails leaves is of no variables that are known
        packer = settings.find_packer(self.places.tree)
        self._check_modules(packer.modules)
        command = packer.configure.format(python=self.find_python())
        self.run_step("configure stage 1", ["sh", "-c", command], self.names["tree"])
        write_atomically(stamp, digest)

    def _check_modules(self, modules: Sequence[str]) -> None:
        """Raise DecoupleError for what packing needs of Python and has not.

        Hours later it would say so itself.
        """
        for name in modules:
            if read_output(self.environment, [self.find_python(), "-c", f"import {name}"], self.variables) is None:
                raise DecoupleError(
                    f"stage 1: {self.find_python()} has no module {name}, and {self.places.tree / 'pyproject.toml'} is "
                    "packed by it",
                    next_step=f"{shlex.quote(self.find_python())} -m pip install "
                    f"{' '.join(modules).replace('_', '-')}, then again",
                )

    def _uninstall_files(self) -> None:
        """Remove what earlier runs installed into the tree and gathered for the wheel.

        Setup.py packages what it finds.
        """
        uninstall_files(self.places.tree, self.folder)
        for gathered in (*self.folder.glob("lib.*"), *self.folder.glob("bdist.*")):
            remove_tree(gathered)


def uninstall_files(tree: Path, folder: Path) -> None:
    """Remove what the build in ``folder`` installed into the tree.

    The list is CMake's own, with the name that the tree had for it: a root has another than the host. A file that git
    tracks stays. Raises DecoupleError when ``tree`` is no applied tree.
    """
    manifest, cache = folder / "install_manifest.txt", folder / "CMakeCache.txt"
    if not manifest.exists():
        return
    named = _HOME.search(cache.read_text(encoding="utf-8", errors="replace")) if cache.exists() else None
    prefix, tracked = Path(named[1]) if named else tree, inputs.list_tracked_files(tree)
    for line in manifest.read_text(encoding="utf-8").splitlines():
        if Path(line).is_relative_to(prefix):
            name = Path(line).relative_to(prefix).as_posix()
            if name not in tracked:
                (tree / name).unlink(missing_ok=True)


Run = Callable[[str, Sequence[str]], None]
"""Runs a command (what it does, the command) in the folder of the wheel, inside the root."""


def graft_libraries(raw: Path, run: Run, log: Path) -> Path:
    """Graft libraries into the wheel ``raw``, in a folder beside it.

    Raises DecoupleError where a library needs what no old system has; what auditwheel said is in ``log``.

    auditwheel gives a grafted library a SONAME with a hash in it. Here it gets its own back, as in the official wheel:
    a library of somebody else's that needs ``libgomp.so.1`` (torchaudio's does) then takes the one that is loaded
    already, where the machine has none and where it has another.
    """
    grafted, unpacked, packed = (raw.parent / name for name in ("grafted", "unpacked", "packed"))
    table = settings.read_facts().portable
    run("graft stage 1", [*table.graft, grafted.name, raw.name])
    wheels = sorted(grafted.glob("*.whl"))
    if len(wheels) != 1 or WheelName.parse(wheels[0].name).glibc is None:
        raise DecoupleError(
            f"{raw.name}: no manylinux wheel came of it ({', '.join(wheel.name for wheel in wheels) or 'none'})",
            next_step=f"read {log}: a library needs what no old system has",
        )
    run(
        "unpack what was grafted", [*table.wheel, "unpack", "--dest", unpacked.name, f"{grafted.name}/{wheels[0].name}"]
    )
    for library in sorted(unpacked.glob("*/*.libs/*")):
        for name, soname in table.sonames.items():
            if library.name.startswith(f"{name}-"):
                path = library.relative_to(raw.parent).as_posix()
                run(f"SONAME of {library.name}", ["patchelf", "--set-soname", soname, path])
    (folder,) = unpacked.iterdir()
    packed.mkdir()
    run("pack it again", [*table.wheel, "pack", "--dest-dir", packed.name, f"{unpacked.name}/{folder.name}"])
    (made,) = packed.glob("*.whl")  # of several platforms its name may put another first
    return made
