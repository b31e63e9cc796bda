"""Run commands on the host or in the Debian root; name a build's places there."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import program_output
from decouple.base.checkout import Checkout
from decouple.base.mounts import remove_tree
from decouple.build import root_record
from decouple.build.rootfs import Root
from decouple.build.sandbox import BindMount, make_clean_environment, make_offline_prefix


class Places(Struct, frozen=True):
    """The folders of one release's build on the host.

    The stage-1 wheel is unpacked into ``core`` for stage 2, ``kernels`` holds compiled libraries that it is to build
    beside, if any; ``core_state`` says which stage-1 wheel is the last; ``verify`` holds the environments that wheels
    are tried in; ``locks`` are held by who builds a stage.
    """

    project: Path
    release: str
    tree: Path
    stage1: Path
    stage2: Path
    core: Path
    kernels: Path
    verify: Path
    raw: Path
    dist: Path
    state: Path
    core_state: Path
    locks: Path
    ccache: Path
    logs: Path

    @classmethod
    def of_release(cls, project: Path, release: str, cache: Path, tree: Path | None = None) -> Places:
        """Return the usual places; ``tree`` replaces ``build/<release>/src``."""
        base = Checkout(project).locate_build(release)
        checkout = hashlib.sha256(os.fsencode(project.resolve())).hexdigest()[:8]  # checkouts share the cache
        source = tree or base / "src"
        return cls(
            project=project,
            release=release,
            tree=source,
            stage1=source / "build",
            stage2=base / "stage2",
            core=base / "core",
            kernels=base / "kernels",
            verify=base / "verify",
            raw=base / "wheels",
            dist=project / "dist" / release,
            state=base / "state",
            core_state=base / "state",
            locks=base / "state",
            ccache=cache / "ccache",
            logs=cache / "logs" / f"{release}-{checkout}",
        )

    def with_stage2_in(self, name: str) -> Places:
        """Return the same places with stage 2's in ``build/<release>/<name>``.

        For a check, which must not touch a build that took hours. Inside a root the folders have the usual names.
        """
        return self._with_places_in(name, "stage2", "verify", "raw", "dist", "state", "locks")

    def with_cuda(self, kind: str, version: str) -> Places:
        """Return the same places with a folder of its own for stage 2 with that CUDA.

        The environment is of ``kind``; CMake keeps what it found.
        """
        return self._with_places_in(f"{kind}-cuda{version}", "stage2", "raw", "state")

    def for_portable(self, python: str = "") -> Places:
        """Return the same places with those of portable wheels in a folder.

        The folder is ``build/<release>/python<python>``, and ``portable`` where they are for the root's own Python. So
        the wheel that the last build for Debian's root made is still known as that. The tree with the objects of stage
        1 is shared, and so are the locks and the folder of the finished wheels.
        """
        own = ("stage2", "core", "kernels", "verify", "raw", "state", "core_state")
        return self._with_places_in(f"python{python}" if python else "portable", *own)

    def _with_places_in(self, name: str, *places: str) -> Places:
        """Return the same with ``places`` in ``build/<release>/<name>``.

        Each is in the folder of its usual name. Logs are apart, too: two builds' steps have the same file names.
        """
        base, called = self.stage2.parent / name, {"raw": "wheels", "core_state": "state", "locks": "state"}
        moved = {place: base / called.get(place, place) for place in places}
        return replace(self, logs=self.logs / name, **moved)

    def create_folders(self) -> None:
        """Create every folder but the tree's."""
        made = (self.stage2, self.core, self.kernels, self.verify, self.raw, self.dist, self.state)
        for folder in (*made, self.locks, self.ccache, self.logs):
            folder.mkdir(parents=True, exist_ok=True)


ENVIRONMENT_NOTE, TREE_NOTE, COMPILERS_NOTE = "decouple-environment", "decouple-tree", "decouple-toolchain.json"
"""Files beside a stage's objects that say what these are of. Objects without them are taken for those asked for."""


def remove_objects(folder: Path) -> None:
    """Delete a stage's objects, and what says whose they are last.

    Raises DecoupleError as `remove_tree` does.
    """
    remove_tree(folder, (ENVIRONMENT_NOTE, TREE_NOTE, COMPILERS_NOTE))


def locate_environment_note(stage1: Path) -> Path:
    """Return the file that says what stage 1's objects were compiled in."""
    return stage1 / ENVIRONMENT_NOTE


def read_environment_note(stage1: Path) -> str:
    """Return "KIND" or "KIND PYTHON" of stage 1's objects, "" where nothing says."""
    note = locate_environment_note(stage1)
    return note.read_text() if note.exists() else ""


def name_objects(kind: str, python: str) -> str:
    """Return what the note says of stage 1's objects in a ``kind`` for a ``python``."""
    return f"{kind} {python}".strip()


def holds_other_objects(stage1: Path, kind: str, python: str) -> bool:
    """Return whether the objects are of another environment or Python.

    Folders from before there was a note are no portable ones.
    """
    before = read_environment_note(stage1)
    return before != name_objects(kind, python) if before else kind == "portable"


def locate_kept_objects(stage1: Path, said: str) -> Path:
    """Return where objects wait while others are in ``stage1``.

    ``said`` is what their note says.
    """
    return stage1.with_name(f"{stage1.name}-{said.replace(' ', '-')}")


def list_kept_objects(stage1: Path) -> list[Path]:
    """List the folders in which such objects wait."""
    return sorted(note.parent for note in stage1.parent.glob(f"{stage1.name}-*/{ENVIRONMENT_NOTE}"))


def find_other_tree(stage2: Path, tree: Path) -> str:
    """Return the tree of which stage 2's objects are, "" where it is ``tree``."""
    note, own = stage2 / TREE_NOTE, str(tree.resolve())
    before = note.read_text() if note.exists() else own
    return "" if before == own else before


class Environment(Protocol):
    """What the stages need of an environment."""

    @property
    def kind(self) -> str:
        """Whose variables of ``stages.toml`` hold: "host", "rootfs" or "portable"."""

    @property
    def places(self) -> Places:
        """The folders on the host."""

    def name_places(self) -> dict[str, str]:
        """Return what the places are called inside.

        Tree, stage1, stage2, core, verify, raw, ccache, base, ...
        """

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        """Make the command line that runs ``command`` inside.

        It has exactly ``variables`` and a PATH, and begins in folder ``start``.
        """

    def describe_inputs(self, layers: Sequence[str]) -> dict[str, Any]:
        """Return where the toolchain came from and how it was checked, for the manifest."""


def keep_host_variables() -> dict[str, str]:
    """Return the variables of this process that its user's own toolchain keeps.

    Compilers write gigabytes to TMPDIR.
    """
    return {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}


class HostEnvironment(Struct, frozen=True):
    """The machine's own toolchain; every place keeps its name.

    Commands have no network where this machine can keep it from them, as `describe_inputs` says.
    """

    places: Places
    kind: str = "host"

    def name_places(self) -> dict[str, str]:
        places = self.places
        shown = ("tree", "stage1", "stage2", "core", "kernels", "verify", "raw", "ccache")
        named = {name: str(getattr(places, name)) for name in shown}
        return {**named, "base": str(places.tree.parent), "release": places.release, "project": str(places.project)}

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        assignments = [f"{name}={value}" for name, value in sorted({**keep_host_variables(), **variables}.items())]
        return [*make_offline_prefix(), "env", "-C", start, "-i", *assignments, *command]

    def describe_inputs(self, layers: Sequence[str]) -> dict[str, Any]:
        return {
            "network": "none" if make_offline_prefix() else "not kept from the build",
            "unchecked": ["this machine"],
        }


class RootEnvironment(Struct, frozen=True):
    """Run commands in a Debian root, where places have fixed names.

    So wheels and ccache keys do not depend on the checkout's path. ``overrides`` are files shown in place of those in
    the tree, and folders shown in empty ones. ``kind`` says whose variables of ``stages.toml`` hold: "rootfs" or
    "portable".
    """

    places: Places
    root: Root
    overrides: tuple[BindMount, ...] = ()
    kind: str = "rootfs"

    def name_places(self) -> dict[str, str]:
        base = f"/decouple/{self.places.release}"
        return {
            "base": base,
            "tree": f"{base}/src",
            "stage1": f"{base}/src/build",
            "stage2": f"{base}/stage2",
            "core": f"{base}/core",
            "kernels": f"{base}/kernels",
            "verify": f"{base}/verify",
            "raw": "/decouple/dist",
            "ccache": "/decouple/ccache",
            "project": "/decouple/project",
            "release": self.places.release,
        }

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        names, places = self.name_places(), self.places
        binds = [
            BindMount(getattr(places, place), names[place])
            for place in ("tree", "stage2", "core", "kernels", "verify", "raw", "ccache", "project")
        ]
        hidden = (f"{names['project']}/.git",) if (places.project / ".git").exists() else ()  # its tokens, for one
        return replace(self.root.make_sandbox([*binds, *self.overrides]), hidden=hidden).make_command(
            [*make_clean_environment(variables), *command], start=start
        )

    def describe_inputs(self, layers: Sequence[str]) -> dict[str, Any]:
        return {
            "network": "none",
            **root_record.describe_layers(self.root.tree, self.root.folder, self.root.description, layers),
        }


def replace_places(environment: Environment, places: Places) -> Environment:
    """Return the same environment with other folders on the host."""
    if isinstance(environment, HostEnvironment | RootEnvironment):
        return replace(environment, places=places)
    raise TypeError(f"{type(environment).__name__} has no places that can be exchanged")


def read_output(environment: Environment, command: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Return a short command's standard output, None when it fails or is not there."""
    done = program_output.run_program(environment.argv(command, variables, "/"))
    return done.stdout.strip() if done.returncode == 0 else None


def open_shell(environment: Environment, variables: Mapping[str, str]) -> int:
    """Open an interactive shell inside, in the tree; returns its exit status."""
    prompt = {"PS1": f"decouple {environment.places.release} ({environment.kind}) \\w \\$ "}
    return subprocess.run(
        environment.argv(["bash", "--norc", "-i"], {**variables, **prompt}, environment.name_places()["tree"])
    ).returncode
