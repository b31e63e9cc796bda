"""Fetch chosen wheels, trusting none until hash, manifest and series agree."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_version

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256, create_file, hold_lock, refuse_file
from decouple.base.interpreter import OWN, run_python
from decouple.base.steps import mark_step
from decouple.index import archive, provenance, wheel
from decouple.index.offer import Offer, parse_local_path
from decouple.index.remote import STATEMENT_BOUND, Index
from decouple.index.site import STATEMENT
from decouple.index.wheel import Wheel
from decouple.release.installed_wheels import EDITED, name_series
from decouple.release.manifest import RemoteFile
from decouple.release.projects import BACKENDS, name_libraries
from decouple.upstream.download import Downloader

_LIST_RECORDS = """
import csv, importlib.metadata as metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        wheel = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    record = wheel.read_text("RECORD") or ""  # not wheel.files: from Python 3.12 on those are the ones that are there
    rows = csv.reader(record.splitlines())
    gone = any(len(row) > 1 and row[1] and not wheel.locate_file(row[0]).exists() for row in rows)
    found[name] = wheel.version, record, gone
print(json.dumps(found))
"""
"""Run by somebody's Python: projects -> version, ``RECORD``, and whether a file of it is gone."""

NAME_PYTHON = "name an interpreter: --into PATH/bin/python"


class Trust(Struct, frozen=True):
    """What a wheel must agree with.

    The checkout's series digest (None: any, ``--trust-index``) and a public key.
    """

    series_digest: str | None
    key: Path | None = None


def get_wheels(
    index: Index,
    packages: Sequence[Offer],
    folder: Path,
    trust: Trust,
    downloader: Downloader,
    mirrors: Sequence[Index] = (),
) -> list[Wheel]:
    """Download ``packages``, verify each, and put them into ``folder``.

    The download goes through the shared cache. Returns the wheels in order.

    ``mirrors`` are asked for a file that ``index`` cannot give; they must promise the same sha256. Nothing comes into
    ``folder`` before every file was verified, so what is there may be installed. Raises DecoupleError rather than
    replace a file with other bytes there.
    """
    refuse_file(folder, "name a folder: --dest FOLDER")
    for package in packages:  # before minutes of download
        if package.sha256 is not None:  # without one `_fetch_to_cache` refuses it
            _is_placed(folder / package.filename, package.sha256)
    wheels = [
        _verify_wheel(index, package, _fetch_to_cache(index, package, downloader, mirrors), trust)
        for package in packages
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder):  # of two at once each would rename the other's half
        return [_place_wheel(read, folder) for read in wheels]


def _fetch_to_cache(index: Index, package: Offer, downloader: Downloader, mirrors: Sequence[Index]) -> Path:
    """Fetch the file with the promised hash: cached, or where a local index has it."""
    sha256 = package.sha256
    if sha256 is None:
        raise DecoupleError(
            f"{package.filename}: {index.address} gives no sha256 for it",
            next_step="publish with `decouple index build`, which puts one on every link",
        )
    local = parse_local_path(package.url)
    if local is None:
        urls = (package.url, *(url for mirror in mirrors for url in _find_same_file(mirror, package)))
        return downloader.fetch_file(RemoteFile(package.filename, urls, package.size, sha256))[0]
    if compute_sha256(local) != sha256:
        raise DecoupleError(
            f"{local}: not the bytes the index promised (sha256 {sha256[:12]}…)",
            next_step=f"decouple index check {shlex.quote(index.address)}",
        )
    return local


def _find_same_file(mirror: Index, package: Offer) -> Iterator[str]:
    """Return the address of the same file, by name and sha256, on another server."""
    with contextlib.suppress(DecoupleError):  # a mirror that does not answer is no reason to stop
        for other in mirror.read_project(package.project).offers:
            if (other.filename, other.sha256) == (package.filename, package.sha256) and parse_local_path(
                other.url
            ) is None:
                yield other.url


def _place_wheel(read: Wheel, folder: Path) -> Wheel:
    target = folder / read.path.name
    if _is_placed(target, read.sha256):
        return replace(read, path=target)
    part = target.with_name(f".{target.name}.part")
    mark_step(f"copy {target.name}")
    with read.path.open("rb") as source, create_file(part) as out:
        shutil.copyfileobj(source, out)
    mark_step(f"rename {target.name} into place")
    part.replace(target)
    return replace(read, path=target)


def _is_placed(target: Path, sha256: str) -> bool:
    """Return whether the file is there. Raises DecoupleError where another is."""
    if not target.exists():
        return False
    there = compute_sha256(target)
    if there != sha256:
        raise DecoupleError(
            f"{target}: there already, with other bytes (sha256 {there[:12]}…, the index's {sha256[:12]}…)",
            next_step="it may be what you built: name another folder with --dest FOLDER",
        )
    return True


def _verify_wheel(index: Index, package: Offer, path: Path, trust: Trust) -> Wheel:
    read = wheel.read_wheel(path)
    if trust.series_digest is not None and read.manifest.series.digest != trust.series_digest:
        raise DecoupleError(
            f"{path.name}: made from another series (digest {read.manifest.series.digest[:12]}…, this checkout's is "
            f"{trust.series_digest[:12]}…)",
            next_step="check out the matching commit, or accept the index's series with --trust-index",
        )
    if trust.series_digest is not None and name_series(trust.series_digest, read.manifest.tree).endswith(EDITED):
        raise DecoupleError(
            f"{path.name}: made from a tree with edits that are in no patch of the series",
            next_step="tell its publisher, or accept them with --trust-index",
        )
    if trust.key is not None:
        provenance.verify_statement(
            read, index.read_address(package.make_sibling_address(STATEMENT), STATEMENT_BOUND), trust.key
        )
    return read


def read_python_version(python: Path) -> str:
    """Read the version of an interpreter, "3.13", or "3.13t" if it is free-threaded.

    Raises UsageError when it is none.
    """
    code = (
        "import sys, sysconfig; "
        "print('%d.%d' % sys.version_info[:2] + 't' * (sysconfig.get_config_var('Py_GIL_DISABLED') or 0))"
    )
    try:
        done = run_python([str(python), "-c", code])
        done.check_returncode()
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{python}: not a Python that runs", next_step=NAME_PYTHON) from error
    return done.stdout.strip()


def install_wheels(wheels: Sequence[Wheel], python: Path) -> None:
    """Have pip install the verified files for the interpreter ``python``.

    It need not have a pip of its own; their other dependencies pip takes from where it is configured to. Raises
    DecoupleError.

    A wheel whose version is installed with other files is installed over it, which pip alone leaves: an earlier build
    of the same version, or PyTorch's own. So is one of which pip deleted files with the wheel that had them before: of
    torch-cuda in one wheel and in two (`decouple repack split`), each way.

    NVIDIA's wheels for two CUDAs write the same files (cuDNN, NCCL): where those of another are installed too, the ones
    that the wheels ask for are installed again, so that the files are theirs.
    """
    pip = [*OWN, "-m", "pip", "--python", str(python)]
    _reinstall_stale(pip, wheels, python)
    _run_pip([*pip, "install", *(str(wheel.path) for wheel in wheels)], wheels, python)
    names = {wheel.name for wheel in wheels}
    halves = {name_libraries(name) for name in names & BACKENDS.keys()} - names
    if left := halves & _read_installed(halves, wheels, python).keys():  # of a torch-cuda in two wheels
        _run_pip([*pip, "uninstall", "--yes", *sorted(left)], wheels, python)
    _reinstall_stale(pip, wheels, python)
    if own := {wheel.manifest.cuda.partition(".")[0] for wheel in wheels if wheel.manifest.cuda}:
        listed = _run_pip([*pip, "list", "--format=json"], wheels, python, stdout=subprocess.PIPE)
        ours, others = list[str](), list[str]()
        for row in json.loads(listed):
            if match := re.fullmatch(r"nvidia-.+-cu(\d+)", row["name"]):
                (ours if match[1] in own else others).append(f"{row['name']}=={row['version']}")
        if ours and others:
            _run_pip([*pip, "install", "--force-reinstall", "--no-deps", *ours], wheels, python)


def _reinstall_stale(pip: Sequence[str], wheels: Sequence[Wheel], python: Path) -> None:
    for stale in sorted(_select_stale(wheels, python), key=lambda one: one.name):  # the core first
        _run_pip([*pip, "install", "--force-reinstall", "--no-deps", str(stale.path)], wheels, python)


def _read_installed(names: Iterable[str], wheels: Sequence[Wheel], python: Path) -> dict[str, tuple[str, str, bool]]:
    """Read what ``python`` has of these projects, as `_LIST_RECORDS` says it."""
    done = run_python([str(python), "-c", _LIST_RECORDS, *names])
    if done.returncode:
        raise DecoupleError(
            f"{python}: cannot tell what is installed: {(done.stderr.strip() or 'no word why').splitlines()[-1]}",
            next_step=f"the files are verified and kept in {wheels[0].path.parent}",
        )
    found: dict[str, tuple[str, str, bool]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _select_stale(wheels: Sequence[Wheel], python: Path) -> Iterator[Wheel]:
    """Select the wheels of which ``python`` has the version, but not every file.

    Files are compared by the hashes of both ``RECORD``, without those that an installer changes (scripts).
    """
    found = _read_installed([wheel.name for wheel in wheels], wheels, python)
    for one in wheels:
        version, record, gone = found.get(one.name, ("", "", False))
        if canonicalize_version(str(version), strip_trailing_zero=False) == str(one.version):
            with archive.open_wheel(one.path) as members:
                info = archive.find_dist_info(members, one.path.name)
                ours = archive.read_member(members, f"{info}/RECORD", one.path.name, archive.RECORD_BOUND)
            if gone or _list_hashes(ours.decode()) - _list_hashes(record):
                yield one


def _list_hashes(record: str) -> set[tuple[str, str]]:
    """List the files of a ``RECORD`` that are installed as they are, with hashes."""
    rows = csv.reader(record.splitlines())
    return {(row[0], row[1]) for row in rows if len(row) > 1 and row[1] and not re.match(r"[^/]+\.data/", row[0])}


def _run_pip(command: Sequence[str], wheels: Sequence[Wheel], python: Path, stdout: int | None = None) -> str:
    done = subprocess.run(command, stdout=stdout, text=True)
    if done.returncode:
        raise DecoupleError(
            f"pip could not install {', '.join(wheel.path.name for wheel in wheels)} for {python}",
            next_step=f"the files are verified and kept in {wheels[0].path.parent}",
        )
    return done.stdout
