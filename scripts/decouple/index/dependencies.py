"""Make pages for what our wheels need from elsewhere.

So ``pip install --index-url`` with our index alone is enough. Nothing is copied: a page links to the files where they
are (PyPI), with the hash that pip must see. Which files is pip's own answer (``pip install --dry-run --report``), so an
index holds exactly what its wheels resolve to. Without such pages users add ``--extra-index-url``, and then any torch
with a higher version wins over ours.
"""

from __future__ import annotations

import collections
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct, convert
from msgspec.structs import asdict
from packaging.requirements import Requirement
from packaging.tags import Tag, platform_tags
from packaging.utils import canonicalize_name

from decouple.base import program_output
from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.interpreter import OWN
from decouple.base.untrusted_input import JSON_BOUND, is_basename, parse_json, read_bounded
from decouple.index.offer import parse_project_name
from decouple.release.manifest import Sha256

FILE = "dependencies.json"
PUBLIC_HOST = "files.pythonhosted.org"
"""Where PyPI has its files."""
PYPI_ALONE = "PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX= PIP_INDEX_URL= PIP_EXTRA_INDEX_URL= PIP_FIND_LINKS="
"""With which pip asks PyPI, whatever it is configured for: it passes over what is empty."""
_SCHEMA = 1


class LinkedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of another project, linked where it is."""

    project: str
    version: str
    filename: str
    url: str
    sha256: Sha256
    requires_python: str | None = None

    @property
    def host(self) -> str:
        """Return the host, and the port if it has one, that has the file."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def read_links(site: Path) -> tuple[LinkedFile, ...]:
    """Read what the site links to.

    Raises DecoupleError when the file is damaged.
    """
    path = site / FILE
    if not path.exists():
        return ()
    try:
        files = convert(parse_json(read_bounded(path, JSON_BOUND))["files"], tuple[LinkedFile, ...])
        for file in files:
            _check_facts(file)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DecoupleError(
            f"{path}: not a list of dependencies: {error!r}", next_step="restore it from git"
        ) from error
    return files


def _check_facts(file: LinkedFile) -> None:
    """Raise ValueError for facts that a page may not say (`decouple.index.offer`)."""
    good = (
        parse_project_name(file.project) is not None
        and is_basename(file.filename)
        and urlsplit(file.url).scheme in ("http", "https")
    )
    if not good:
        raise ValueError(f"{file.filename!r} of {file.project!r}")


def write_links(site: Path, files: Iterable[LinkedFile]) -> None:
    """Replace the list; the same files always give the same bytes."""
    rows = [asdict(linked) for linked in sorted(set(files), key=_make_sort_key)]
    write_atomically(site / FILE, json.dumps({"schema": _SCHEMA, "files": rows}, indent=1, sort_keys=True) + "\n")


def count_hosts(files: Iterable[LinkedFile]) -> dict[str, int]:
    """Count the files by the host that has them, in the order of their names."""
    return dict(sorted(collections.Counter(file.host for file in files).items()))


def collect_requirements(metadata: Iterable[Sequence[str]], own: Iterable[str], python: str | None = None) -> list[str]:
    """Collect ``Requires-Dist`` values that name none of our ``own`` projects.

    Extras are left out; each stands once, and they are sorted. Markers are settled for version ``python`` (``"3.13"``,
    ``"3.13t"``; None: the running one) and left out as well.
    """
    ours = set(own)
    environment = {"extra": ""}
    if python:
        number = python.removesuffix("t")
        environment |= {"python_version": number, "python_full_version": f"{number}.0"}
    requirements = set()
    for lines in metadata:
        for text in lines:
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate(environment)
            requirement.marker = None
            if canonicalize_name(requirement.name) not in ours and wanted:
                requirements.add(str(requirement))
    return sorted(requirements)


def find_python(tags: Iterable[Tag]) -> str | None:
    """Return the one CPython version that a wheel's tags allow.

    It is ``"3.13"`` or ``"3.13t"``. None when they allow several.
    """
    pythons = {(tag.interpreter, tag.abi.endswith("t")) for tag in tags}
    interpreter, free = pythons.pop() if len(pythons) == 1 else ("", False)
    only = re.fullmatch(r"cp3(\d+)", interpreter)
    return f"3.{only[1]}{'t' * free}" if only else None


def resolve_requirements(
    requirements: Sequence[str], python: str | None = None, options: Sequence[str] = ()
) -> list[LinkedFile]:
    """Return the files that pip would take for ``requirements`` on this platform.

    ``options`` are pip's own. ``python`` is the version that they are for (None: the running one). What the
    requirements need in turn pip decides by the markers of the Python that it runs under, whatever it is asked for.
    Raises DecoupleError with pip's last words, and for a file without a sha256.
    """
    if not requirements:
        return []
    command = [*OWN, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    command += ["--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as nowhere:
        if python is not None:
            abi = f"cp{python.replace('.', '')}"
            command += ["--python-version", python.removesuffix("t"), "--implementation", "cp"]
            command += [word for name in (abi, "abi3", "none") for word in ("--abi", name)]
            command += [word for name in platform_tags() for word in ("--platform", name)]
            command += ["--target", nowhere]  # an older pip asks for it even though nothing is installed
        variables = {**os.environ, "PIP_USER": "0"}  # pip refuses --target where its configuration says `user`
        done = program_output.run_program([*command, *options, *requirements], variables)
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")] or [f"exit {done.returncode}"]
        raise DecoupleError(
            f"pip finds no files for {', '.join(requirements)}: {words[-1]}",
            next_step="see whether the index that pip is configured for has them",
        )
    return [_make_link(item) for item in json.loads(done.stdout)["install"]]


def _make_link(item: Mapping[str, Any]) -> LinkedFile:
    metadata, download = item["metadata"], item["download_info"]
    sha256 = download.get("archive_info", {}).get("hashes", {}).get("sha256")
    if urlsplit(download["url"]).scheme not in ("http", "https"):
        raise DecoupleError(
            f"{download['url']}: only this machine has it, so no page can link it",
            next_step=f"say it with {PYPI_ALONE} before it: then pip asks pypi.org alone",
        )
    if not sha256:
        raise DecoupleError(f"{download['url']}: pip was given no sha256 for it", next_step="use an index that has one")
    return LinkedFile(
        project=canonicalize_name(metadata["name"]),
        version=metadata["version"],
        filename=unquote(urlsplit(download["url"]).path).rpartition("/")[2],
        url=download["url"],
        sha256=sha256,
        requires_python=metadata.get("requires_python"),
    )


def _make_sort_key(linked: LinkedFile) -> tuple[str, str, str]:
    return linked.project, linked.version, linked.filename
