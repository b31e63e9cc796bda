"""Compare a torch with ours in it with the official wheel of the release.

All of it is compared, section by section, with reasons.

>>> from decouple.flows.parity import ParityRequest, compare_parity
>>> compare_parity(ParityRequest(project, "2.6", against=str(python / "python")))
Traceback (most recent call last):
decouple.base.errors.UsageError: ...dist/2.6: not both wheels are built...
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from decouple.base import zips
from decouple.base.errors import DecoupleError, UsageError, refuse_below
from decouple.base.files import compute_sha256, hold_lock, write_atomically
from decouple.base.interpreter import find_python, run_python
from decouple.base.mounts import remove_tree
from decouple.base.paths import find_cache
from decouple.base.process import run_logged
from decouple.build import inputs, root_description, wheel_finishing
from decouple.build.environment import Places
from decouple.build.sandbox import BindMount, make_clean_environment
from decouple.flows import portable_environment
from decouple.flows.build_request import BuildRequest
from decouple.flows.listener import QUIET, Listener
from decouple.flows.portable_wheels import PortableWheels
from decouple.flows.tree_overlay import warn_of_older_wheels
from decouple.flows.work_environment import WorkRequest, hold_trials
from decouple.index import dependencies
from decouple.prebuilt.pairing import RemoteWheel, load_pair
from decouple.release import status
from decouple.release.wheel_name import WheelName
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.verify import checks
from decouple.verify.full_parity import comparison, installation
from decouple.verify.full_parity.comparison import WholeTable
from decouple.verify.full_parity.installation import TorchLocation

PYPI = "pypi"
MONOLITH = "monolith"


class ParityRequest(WorkRequest, frozen=True):
    """Which torch, against which."""

    against: str = PYPI
    """"pypi": the official wheel of the release, installed in the cache; or a Python that has it."""
    python: str | None = None
    """A Python whose torch is compared; "monolith": the Debian root's CUDA build; None: the wheels of the last build,
    on all else that the other Python has."""
    kernels: str = "compiled"
    """Which build's torch_cuda, as ``Build.kernels`` says it."""
    wheels: Path | None = None
    """With "pypi": a folder with the official wheel and all that it requires; None: PyPI."""
    record: bool = False
    """Write the figures to ``ci/status``."""
    jobs: int | None = None
    """Torches asked at once, 1 or 2; None: as this machine has cores."""

    @property
    def places(self) -> Places:
        return BuildRequest(self.project, self.release, self.env, self.tree, kernels=self.kernels, core="built").places


def compare_parity(request: ParityRequest, listener: Listener = QUIET) -> WholeTable:
    """Make the table.

    Raises DecoupleError where a torch cannot be asked, or is of another release; UsageError.
    """
    refuse_below(1, jobs=request.jobs)
    if request.record and (request.python or request.against != PYPI):
        raise UsageError(
            "--record: recorded is how the wheels of a build compare with the official one",
            next_step="leave --python and --against out, or --record",
        )
    if request.wheels and request.against != PYPI:
        raise UsageError(
            f"--wheels {request.wheels}: for the official wheel's environment, and {request.against} has its own",
            next_step="leave --wheels or --against out",
        )
    if request.python and request.kernels != "compiled":
        raise UsageError(
            f"--kernels {request.kernels}: of the wheels in dist/{request.release}, which --python replaces",
            next_step="leave --kernels or --python out",
        )
    version = load_release(request.project, request.release).version
    own = _find_python(request.python) if request.python and request.python != MONOLITH else None
    portable = None if request.python or request.env != portable_environment.KIND else _name_portable_build(request)
    places = portable.places if portable else request.places
    wheels = [] if request.python else _find_wheels(request, places, portable)
    digests = {wheel_finishing.read_manifest(wheel).series.digest for wheel in wheels} if request.record else set[str]()
    if request.record:  # before the official wheel comes
        _refuse_mixed(request, digests)
    again = portable.format_command() if portable else f"nox -s build-{request.release}"
    series = wheel_finishing.find_series(wheels, again, listener.warn) if request.record else None
    warn_of_older_wheels(request, places, wheels, again, listener)
    theirs = _prepare_official(request, listener) if request.against == PYPI else _find_python(request.against)
    if not wheels:
        return _compare_torches(request, version, own, theirs, series, listener)
    with hold_trials(places, "parity"):
        ours = unpack_wheels(theirs, places.verify / "whole", wheels)
        return _compare_torches(request, version, ours, theirs, series, listener)


def _compare_torches(
    request: ParityRequest, version: str, ours: Path | None, theirs: Path, series: str | None, listener: Listener
) -> WholeTable:
    """Ask both, compare what they said, and record it where there is a ``series``."""
    asked = [_locate_side(ours, request, listener), _locate_torch(theirs)]
    listener.progress.start("asking both torches")
    with ThreadPoolExecutor(min(2, request.jobs or os.cpu_count() or 1)) as pool:
        offers = list(pool.map(installation.ask_torch, asked))
    listener.progress.finish()
    for offer, location in zip(offers, asked, strict=True):
        if str(offer.said["torch"]).partition("+")[0] != version:  # a builder adds to it: 2.6.0+cu124 is 2.6.0
            raise DecoupleError(
                f"{location.prefix[-1]}: has torch {offer.said['torch']}, and {request.release} is {version}",
                next_step="name a Python with that release",
            )
    listener.progress.start("comparing files and symbols")
    sections = installation.compare_offers(*offers)
    listener.progress.finish()
    table = comparison.judge_sections(sections, offers[0].side)
    if series is not None:
        record_table(request, table, series)
    return table


def record_table(request: ParityRequest, table: WholeTable, series: str) -> None:
    """Write the figures to ``ci/status``, under the kind of torch and of build.

    Reasons out of date stand among what has none. ``series`` is the digest of that which its wheels were made of.
    """
    parts = [judged.compared for judged in table.sections]
    counted = [(len(part.missing), len(part.extra), len(part.different)) for part in parts]
    missing, extra, different = (sum(counts) for counts in zip(*counted, strict=True))
    names = [f"{judged.compared.section}: {name}" for judged in table.sections for name in judged.unexplained]
    names += [f"out of date in reasons.toml: {reason}" for reason in table.unused]
    section = status.VerifySection(
        parity=status.ParitySection(table.total, missing, extra, different, tuple(names)),
        series=series,
    )
    built = [request.env if request.env == portable_environment.KIND else "", request.kernels]
    label = "-".join([table.side, *(word for word in built if word not in ("", "compiled"))])
    path = status.locate_status(request.project, request.release)
    status.update_status(path, whole={label: section})


def _refuse_mixed(request: ParityRequest, digests: Set[str]) -> None:
    if len(digests) != 1:
        raise DecoupleError(
            f"{request.places.dist}: made of different series, so nothing is recorded",
            next_step=f"decouple build {request.release}",
        )


def _find_python(named: str) -> Path:
    return find_python(named, "name the Python of an environment, as venv/bin/python")


def _find_wheels(request: ParityRequest, places: Places, portable: PortableWheels | None) -> list[Path]:
    """Return the wheels of the last build.

    Raises UsageError where there are none, or torch_cuda is for another core.
    """
    if portable:
        return [portable.find_wheel(1), portable.find_wheel(2)]
    stamps = (inputs.read_stamp(places.core_state / "stage1.json"), inputs.read_stamp(places.state / "stage2.json"))
    again = f"nox -s build-{request.release}"
    wheels = [inputs.locate_wheel(stamp, places.dist, again) for stamp in stamps if stamp]
    if len(wheels) < 2 or not all(wheel.is_file() for wheel in wheels):
        raise UsageError(
            f"{places.dist}: not both wheels are built",
            next_step=f"{again}, or name a --python",
        )
    wheel_finishing.refuse_portable_wheels(wheels, again)
    wheel_finishing.refuse_other_core(wheels[1], "built", again)
    return wheels


def _name_portable_build(request: ParityRequest) -> PortableWheels:
    """Name the build for the Python of the other torch."""
    if request.against == PYPI:
        python = dependencies.find_python(WheelName.parse(load_pair(request.release).wheel.name).tags) or ""
    else:
        said = "import sys; print('%d.%d' % sys.version_info[:2])"
        python = _read_output(_find_python(request.against), "-c", said)
    return PortableWheels(request.project, request.release, tree=request.tree, python=python, kernels=request.kernels)


def _locate_torch(python: Path) -> TorchLocation:
    return TorchLocation((str(python),), Path(tempfile.gettempdir()))


def _locate_side(python: Path | None, request: ParityRequest, listener: Listener) -> TorchLocation:
    """Return how a torch is asked; None: the monolith's, inside its root."""
    if python:
        return _locate_torch(python)
    root = portable_environment.make_root(
        root_description.load_description(), "Debian", ["core", "cuda", "monolith"], listener
    )
    places, inside = WorkRequest(request.project, request.release).places, f"/decouple/{request.release}/verify"
    places.verify.mkdir(parents=True, exist_ok=True)
    variables = make_clean_environment({**checks.make_monolith_variables(), "PYTHONHASHSEED": "0"})
    prefix = root.make_sandbox([BindMount(places.verify, inside)]).make_command([*variables, "python3"])
    return TorchLocation(tuple(prefix), places.verify, inside, root.tree)


def unpack_wheels(python: Path, folder: Path, wheels: Sequence[Path]) -> Path:
    """Make a virtual environment of ``python`` with ``wheels`` in place of its own.

    All else that ``python`` has is beside them. Made anew when a wheel is another. Returns its Python. Raises
    DecoupleError when that Python makes none.
    """
    content = hashlib.sha256("\n".join([str(python), *map(compute_sha256, wheels)]).encode()).hexdigest()
    mark = folder.with_name(f"{folder.name}.content")
    if not (mark.exists() and mark.read_text() == content):
        mark.unlink(missing_ok=True)  # first: a kill from here on leaves no mark of what is half deleted
        remove_tree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        others = _read_output(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
        _read_output(python, "-m", "venv", "--without-pip", str(folder))
        site = next((folder / "lib").glob("python3*/site-packages"))
        for wheel in wheels:
            with zips.open_zip(wheel) as archive:
                archive.extractall(site)
        (site / "beside.pth").write_text(f"{others}\n", encoding="utf-8")
        write_atomically(mark, content)
    return folder / "bin" / "python"


def _read_output(python: Path, *arguments: str) -> str:
    done = run_python([str(python), *arguments])
    if done.returncode:
        message = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise DecoupleError(f"{python}: {message}", next_step="mend that Python")
    return done.stdout.strip()


def _prepare_official(request: ParityRequest, listener: Listener) -> Path:
    """Make a cached environment of the official wheel (by SHA-256) and requirements."""
    wheel = load_pair(request.release).wheel
    folder = find_cache() / "official" / wheel.sha256[:16]
    environment, mark = folder / "environment", folder / "content"
    python = environment / "bin" / "python"
    with hold_lock(folder / ".lock"):
        if mark.exists() and mark.read_text() == wheel.sha256 and python.exists():
            return python
        interpreter = f"python{dependencies.find_python(WheelName.parse(wheel.name).tags) or 3}"
        own = _find_interpreter(interpreter)
        if own is None:
            raise DecoupleError(
                f"{interpreter}: not installed, and {wheel.name} is for it",
                next_step="install it, or name --against PYTHON",
            )
        file, pip = _fetch_verified(wheel, request.wheels, listener), ["install", "-q", "--no-compile"]
        mark.unlink(missing_ok=True)
        remove_tree(environment)
        _read_output(Path(own), "-m", "venv", str(environment))
        if request.wheels:
            pip += ["--no-index", "--find-links", str(request.wheels.absolute())]
        listener.progress.start(f"installing {wheel.name}")
        command = [str(python), "-m", "pip", *pip, str(file.absolute())]
        run_logged(command, cwd=Path("/"), log=find_cache() / "logs" / "official.log", what=f"install {wheel.name}")
        listener.progress.finish()
        write_atomically(mark, wheel.sha256)
    return python


def _find_interpreter(name: str) -> str | None:
    """Return the program, if it runs.

    pyenv has one for each version that it installed, which refuses where another version is chosen.
    """
    own = shutil.which(name)
    return own if own and run_python([own, "-c", "import venv"]).returncode == 0 else None


def _fetch_verified(wheel: RemoteWheel, folder: Path | None, listener: Listener) -> Path:
    """Return the file of the official wheel: of a folder, or downloaded.

    Raises DecoupleError when it is another.
    """
    if folder is None:
        return Downloader(find_cache(), progress=listener.progress).fetch_file(wheel.file)[0]
    path = folder / wheel.name
    if not path.is_file():
        raise UsageError(f"{folder}: no {wheel.name} in it", next_step="leave --wheels out: it is downloaded")
    if compute_sha256(path) != wheel.sha256:
        raise DecoupleError(f"{path}: not the official wheel: its SHA-256 is another", next_step="download it again")
    return path
