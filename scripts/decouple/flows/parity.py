"""All of a torch with ours in it against the official wheel of the release, section by section, with reasons.

>>> from decouple.flows.parity import WholeParity, parity
>>> parity(WholeParity(project, "2.6", against=str(python / "python")))
Traceback (most recent call last):
decouple.base.errors.UsageError: ...dist/2.6: not both wheels are built...
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from decouple.base import zips
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import locked, sha256_of, write_atomically
from decouple.base.mounts import remove_tree
from decouple.base.paths import cache_dir
from decouple.base.process import run_logged
from decouple.base.python import run_elsewhere
from decouple.build import description, inputs
from decouple.build.environment import Places
from decouple.build.sandbox import Bind, clean_environment
from decouple.flows import portable
from decouple.flows.build_request import Build
from decouple.flows.environment import Work
from decouple.flows.listener import QUIET, Listener
from decouple.index import dependencies
from decouple.prebuilt.pairing import RemoteWheel, load_pair
from decouple.release.wheel_name import WheelName
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.verify import checks
from decouple.verify.whole import compared, offer
from decouple.verify.whole.compared import WholeTable
from decouple.verify.whole.offer import TorchLocation, WholeOffer

PYPI = "pypi"
MONOLITH = "monolith"


class WholeParity(Work, frozen=True):
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
    jobs: int | None = None
    """Torches asked at once, 1 or 2; None: as this machine has cores."""

    @property
    def places(self) -> Places:
        return Build(self.project, self.release, self.env, self.tree, kernels=self.kernels, core="built").places


def parity(request: WholeParity, listener: Listener = QUIET) -> WholeTable:
    """The table. Raises DecoupleError where a torch cannot be asked, or is of another release; UsageError."""
    places = request.places
    version = load_release(request.project, request.release).version
    own = _python(request.python) if request.python and request.python != MONOLITH else None
    wheels = [] if request.python else _built(request, places)
    theirs = _official(request, listener) if request.against == PYPI else _python(request.against)
    ours = unpacked(theirs, places.verify / "whole", wheels) if wheels else own
    asked = [_asked(ours, request, listener), _plain(theirs)]
    listener.progress.start("asking both torches")
    with ThreadPoolExecutor(min(2, request.jobs or os.cpu_count() or 1)) as pool:
        offers = list(pool.map(offer.ask_torch, asked))
    listener.progress.finish()
    for one, where in zip(offers, asked, strict=True):
        if _public(one) != version:
            raise DecoupleError(
                f"{where.prefix[-1]}: has torch {one.said['torch']}, and {request.release} is {version}",
                next_step="name a Python with that release",
            )
    listener.progress.start("comparing files and symbols")
    sections = offer.compare_offers(*offers)
    listener.progress.finish()
    return compared.judge_sections(sections, offers[0].side)


def _public(one: WholeOffer) -> str:
    """Without what a builder adds: 2.6.0+cu124 is 2.6.0."""
    return str(one.said["torch"]).partition("+")[0]


def _python(named: str) -> Path:
    found = shutil.which(named)
    if found is None:
        raise UsageError(f"{named}: no Python there", next_step="name the Python of an environment, as venv/bin/python")
    return Path(found).absolute()  # a link into a virtual environment is that environment


def _built(request: WholeParity, places: Places) -> list[Path]:
    """The wheels of the last build. Raises UsageError where there are none."""
    stamps = (inputs.read_stamp(places.core_state / "stage1.json"), inputs.read_stamp(places.state / "stage2.json"))
    wheels = [places.dist / stamp.wheel for stamp in stamps if stamp]
    if len(wheels) < 2 or not all(wheel.is_file() for wheel in wheels):
        raise UsageError(
            f"{places.dist}: not both wheels are built",
            next_step=f"nox -s build-{request.release}, or name a --python",
        )
    return wheels


def _plain(python: Path) -> TorchLocation:
    return TorchLocation((str(python),), Path(tempfile.gettempdir()))


def _asked(python: Path | None, request: WholeParity, listener: Listener) -> TorchLocation:
    """How a torch is asked; None: the monolith's, inside its root."""
    if python:
        return _plain(python)
    root = portable.made_root(description.load(), "Debian", ["core", "cuda", "monolith"], listener)
    places, inside = Work(request.project, request.release).places, f"/decouple/{request.release}/verify"
    places.verify.mkdir(parents=True, exist_ok=True)
    variables = clean_environment({**checks.make_monolith_variables(), "PYTHONHASHSEED": "0"})
    prefix = root.sandbox([Bind(places.verify, inside)]).command([*variables, "python3"])
    return TorchLocation(tuple(prefix), places.verify, inside, root.tree)


def unpacked(python: Path, folder: Path, wheels: Sequence[Path]) -> Path:
    """A virtual environment of ``python`` with ``wheels`` in place of what they are, and all else that it has beside.

    Made anew when a wheel is another. Returns its Python. Raises DecoupleError when that Python makes none.
    """
    content = hashlib.sha256("\n".join([str(python), *map(sha256_of, wheels)]).encode()).hexdigest()
    mark = folder.with_name(f"{folder.name}.content")
    if not (mark.exists() and mark.read_text() == content):
        remove_tree(folder)
        mark.unlink(missing_ok=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        others = _said(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
        _said(python, "-m", "venv", "--without-pip", str(folder))
        site = next((folder / "lib").glob("python3*/site-packages"))
        for wheel in wheels:
            with zips.opened(wheel) as archive:
                archive.extractall(site)
        (site / "beside.pth").write_text(f"{others}\n", encoding="utf-8")
        write_atomically(mark, content)
    return folder / "bin" / "python"


def _said(python: Path, *arguments: str) -> str:
    done = run_elsewhere([str(python), *arguments])
    if done.returncode:
        said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise DecoupleError(f"{python}: {said}", next_step="mend that Python")
    return done.stdout.strip()


def _official(request: WholeParity, listener: Listener) -> Path:
    """A virtual environment in the cache with the official wheel, whose SHA-256 is known, and what it requires."""
    wheel = load_pair(request.release).wheel
    folder = cache_dir() / "official" / wheel.sha256[:16]
    environment, mark = folder / "environment", folder / "content"
    python = environment / "bin" / "python"
    with locked(folder / ".lock"):
        if mark.exists() and mark.read_text() == wheel.sha256 and python.exists():
            return python
        interpreter = f"python{dependencies.python_of(WheelName.parse(wheel.name).tags) or 3}"
        own = shutil.which(interpreter)
        if own is None:
            raise DecoupleError(
                f"{interpreter}: not installed, and {wheel.name} is for it",
                next_step="install it, or name --against PYTHON",
            )
        file, pip = _verified(wheel, request.wheels, listener), ["install", "-q", "--no-compile"]
        remove_tree(environment)
        _said(Path(own), "-m", "venv", str(environment))
        if request.wheels:
            pip += ["--no-index", "--find-links", str(request.wheels.absolute())]
        listener.progress.start(f"installing {wheel.name}")
        command = [str(python), "-m", "pip", *pip, str(file.absolute())]
        run_logged(command, cwd=Path("/"), log=cache_dir() / "logs" / "official.log", what=f"install {wheel.name}")
        listener.progress.finish()
        write_atomically(mark, wheel.sha256)
    return python


def _verified(wheel: RemoteWheel, folder: Path | None, listener: Listener) -> Path:
    """The file of the official wheel: of a folder, or downloaded. Raises DecoupleError when it is another."""
    if folder is None:
        return Downloader(cache_dir(), progress=listener.progress).get(wheel.file)[0]
    path = folder / wheel.name
    if not path.is_file():
        raise UsageError(f"{folder}: no {wheel.name} in it", next_step="leave --wheels out: it is downloaded")
    if sha256_of(path) != wheel.sha256:
        raise DecoupleError(f"{path}: not the official wheel: its SHA-256 is another", next_step="download it again")
    return path
