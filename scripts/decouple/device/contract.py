"""Run the contract on a PyTorch that was built here.

A backend is compiled against those wheels where they run.

`tests/contract` does the same with a PyTorch that pip has. The wheels of ``dist/`` belong to the Debian root that built
them (its Python, its libraries), so compiling and checking happen in there, in the folder of one virtual environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import remove_folder, write_atomically
from decouple.base.process import CommandPlace, run_logged
from decouple.base.untrusted_input import read_json
from decouple.device.scaffold import RECORD, scaffold_backend
from decouple.release.status import ContractSection

CONTRACT = "contract"
SIMULATED = "sim"
"""The device of the template as it stands: `open_backend` without a name makes ``torch_sim`` of it."""
UNTRIED = "missing"
"""The status of an item whose tests did not run, or not all, as third_device_contract says it."""
SHARED = ("layer", "added_to_core", "tools")
"""Beside the project itself, in ``third_device``: the layer, NewDeviceCppExtension, the toolkit."""


class ContractSite(Struct, frozen=True):
    """A virtual environment with the wheels in it.

    ``folder`` is its path from outside, ``inside`` the one from in there. ``libraries`` is the LD_LIBRARY_PATH that the
    wheels need, ``ccache`` the folder of objects inside, ``prefix`` where a distribution's PyTorch was unpacked to, its
    headers in ``include``.
    """

    environment: CommandPlace
    folder: Path
    inside: str
    libraries: str
    ccache: str
    log: Path
    prefix: str = ""

    @property
    def python(self) -> str:
        """The interpreter, inside."""
        return f"{self.inside}/venv/bin/python"

    def make_search_paths(self) -> dict[str, str]:
        """Return where compilers look beside their own folders.

        Torch's build tools expect a distribution's files in those.
        """
        if not self.prefix:
            return {}
        include = f"{self.prefix}/include"
        return {"CPATH": f"{include}:{include}/torch/csrc/api/include", "LIBRARY_PATH": self.libraries}

    def make_variables(self, **more: str) -> dict[str, str]:
        """Return the environment of every command here."""
        return {**({"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}), **more}


def find_only_wheel(dist: Path, name: str) -> Path:
    """Return the wheel of project ``name`` in ``dist``.

    Raises UsageError when there is none, or more than one.
    """
    wheels = sorted(dist.glob(f"{name}-*.whl"))
    if len(wheels) != 1:
        seen = ", ".join(path.name for path in wheels) or "none"
        step = f"delete or move all but one of them: a build leaves those of other versions in {dist}"
        raise UsageError(
            f"{dist}: one wheel of {name} is needed, there is {seen}",
            next_step=step if wheels else "decouple build RELEASE",
        )
    return wheels[0]


@contextmanager
def open_backend(third_device: Path, device: str | None) -> Iterator[Path]:
    """Find the folder of ``torch_<device>``, or render the template as ``sim``.

    What is rendered is gone afterwards: a build copies it to where it keeps its objects. Raises UsageError when
    ``third_device`` has no such backend.
    """
    if device is None:
        with tempfile.TemporaryDirectory(prefix="decouple-backend-") as scratch:
            folder = Path(scratch, f"torch_{SIMULATED}")
            yield scaffold_backend(third_device / "template", folder, SIMULATED).folder
        return
    folder = third_device / f"torch_{device}"
    if not (folder / "pyproject.toml").is_file():  # an earlier build may have left its objects
        raise UsageError(f"{folder}: no backend there", next_step=f"decouple new-device {device}")
    yield folder


def install_backend(site: ContractSite, third_device: Path, project: Path, *, jobs: int | None = None) -> str:
    """Build the backend in ``project`` against the site's PyTorch.

    Returns its folder inside, for PYTHONPATH. ``jobs`` compilers run at once; without it what cores and memory allow
    (wrapped_cmake). The sources are copied to the site, so that objects for another PyTorch are never mixed in and the
    checkout stays clean. Nothing is done when these sources were built here. Raises DecoupleError when the build fails.
    """
    name = project.name
    target, stamp = site.folder / "site" / name, site.folder / f"{name}.digest"
    inside = f"{site.inside}/site/{name}"
    read = [project, *(third_device / shared for shared in SHARED)]
    key = compute_digest(read)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == key:
        return inside
    stamp.unlink(missing_ok=True)
    for source in read:
        mirror_sources(source, site.folder / "third_device" / source.name)
    remove_folder(target, ignore_errors=True)
    command = [site.python, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["--target", inside, f"{site.inside}/third_device/{name}"]
    variables = site.make_variables(
        PATH=f"/usr/lib/ccache:{site.inside}/venv/bin:/usr/local/bin:/usr/bin:/bin",
        CCACHE_DIR=site.ccache,
        CCACHE_BASEDIR=site.inside,
        CCACHE_NOHASHDIR="1",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        **site.make_search_paths(),
        **({"MAX_JOBS": str(jobs)} if jobs else {}),
    )
    run_logged(site.environment.argv(command, variables, "/"), log=site.log, what=f"build {name}")
    write_atomically(stamp, key)
    return inside


def run_contract(site: ContractSite, device: str, folders: Sequence[str], arguments: Sequence[str]) -> int:
    """Run the contract on ``device`` with ``folders``; return pytest's exit status."""
    (site.folder / "run").mkdir(exist_ok=True)
    command = [site.python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    command += ["-p", "third_device_contract.plugin", "--pyargs", "third_device_contract", "--device", device]
    variables = site.make_variables(PYTHONPATH=":".join(folders), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return subprocess.run(site.environment.argv([*command, *arguments], variables, f"{site.inside}/run")).returncode


class _TestOutcome(Struct, frozen=True):
    test: str
    outcome: str


class _ReportItem(Struct, frozen=True):
    tests: tuple[_TestOutcome, ...]


class _Report(Struct, frozen=True):
    """The report of third_device_contract, as far as it is read."""

    torch: str
    counts: Mapping[str, int]
    items: tuple[_ReportItem, ...]


def read_summary(report: Path) -> ContractSection:
    """Read what ``contract.json`` says in all.

    PyTorch, items by status, tests by outcome. Raises OSError; DecoupleError, where pytest died without one, too.
    """
    if not report.exists():
        raise DecoupleError(
            f"{report}: pytest ended before it wrote this", next_step="read what it said above, and run it again"
        )
    document = read_json(report, _Report, mend="run the contract again")
    tests = {test.test: test.outcome for item in document.items for test in item.tests}
    items = {status: count for status, count in document.counts.items() if count}
    return ContractSection(items, dict(Counter(tests.values())), document.torch)


def mirror_sources(folder: Path, to: Path) -> None:
    """Make ``to`` the sources of ``folder`` and the objects of earlier builds.

    From those objects ninja goes on. A file is written where its bytes differ, whatever times the two have, so that
    what changed is compiled and nothing else. Not what setuptools packs wheels from: it would pack a module that the
    sources no longer have.
    """
    wanted = {to / path.relative_to(folder): path for path in list_sources(folder)}
    for entry in [*to.glob("*"), *to.glob("build/lib*")]:
        if entry != to / "build":
            _prune_entry(entry, wanted.keys())
    for target, source in wanted.items():
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # it may be read-only, as its source was
            shutil.copyfile(source, target)
        shutil.copymode(source, target)


def _prune_entry(entry: Path, kept: Set[Path]) -> None:
    """Remove ``entry`` unless it is in ``kept``.

    Of a folder each entry is removed so, and the folder itself when nothing is left in it.
    """
    if entry.is_dir() and not entry.is_symlink():
        for each in list(entry.iterdir()):
            _prune_entry(each, kept)
        if not any(entry.iterdir()):
            entry.rmdir()
    elif entry not in kept or entry.is_symlink():
        entry.unlink()


def compute_digest(folders: Sequence[Path]) -> str:
    """SHA-256 over name and content of every file that a build reads."""
    total = hashlib.sha256()
    for folder in folders:
        for path in list_sources(folder):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(folder.parent)}\0{content}\n".encode())
    return total.hexdigest()


def list_sources(folder: Path) -> list[Path]:
    """Return the files of ``folder`` that a build reads, in order.

    Those behind links to folders are among them.
    """
    found = []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not _is_unread(name)]
        found += [Path(place, name) for name in files if not _is_unread(name)]
    return sorted(path for path in found if path.is_file())


def _is_unread(name: str) -> bool:
    """Return whether no build reads a file or folder of this name.

    An earlier build left it, or ``decouple new-device``.
    """
    return name in ("build", "__pycache__", ".mypy_cache", RECORD) or name.endswith(".egg-info")
