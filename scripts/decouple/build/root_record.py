"""Record what a Debian root was made from.

The record has the chain of hashes and signatures that leads to each package. ``record.json`` beside the root has, for
each package, the SHA-256 that a package list gave for it; for each list, the one that a release file gave; for each
release file, the keys of Debian's keyring that signed it. apt checked the same when it installed them; the record says
so afterwards, and to others. What no list of the time names is left without a hash. Sources: deb822(5), Debian's
repository format, GnuPG's doc/DETAILS.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from decouple.base import program_output
from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, write_atomically
from decouple.base.untrusted_input import read_json
from decouple.build.root_description import Description

NAME = "record.json"
SUMS = ".decouple-sha256"
"""What sha256sum said of the .deb files, in the folder that they were unpacked into."""
_LISTS = "var/lib/apt/lists"
_PACKAGES = re.compile(r"(?P<release>.+)_(?P<component>[^_]+)_(?P<binary>binary-[^_]+)_Packages")
_WANTED = ("Package", "Architecture", "Version", "SHA256")


def read_installed_packages(tree: Path) -> dict[tuple[str, str], str]:
    """Map (package, architecture) to version, as dpkg's status has it installed."""
    status = tree / "var/lib/dpkg/status"
    if not status.exists():
        return {}
    return {
        (fields["Package"], fields.get("Architecture", "")): fields["Version"]
        for fields in _read_paragraphs(status, ("Package", "Architecture", "Version", "Status"))
        if fields.get("Status") == "install ok installed"
    }


def update_record(tree: Path, folder: Path, keyring: Path, prefixes: Sequence[str] = ()) -> None:
    """Bring the record in ``folder`` up to what is installed in ``tree`` now.

    What an earlier list said stays.

    In each of ``prefixes`` packages were just unpacked beside the others, which left their hashes in `SUMS`.
    """
    old = read_record(folder)
    releases = {**old.get("releases", {}), **_read_releases(tree, keyring)}
    known: dict[tuple[str, str, str], tuple[str, str]] = {}
    for path, release in _find_package_lists(tree):
        if compute_sha256(path) not in releases.get(release, {}).get("lists", ()):
            continue  # no list that a release file vouches for
        for fields in _read_paragraphs(path, _WANTED):
            key = fields["Package"], fields.get("Architecture", ""), fields["Version"]
            known[key] = fields.get("SHA256", ""), release
    packages: dict[str, dict[str, str]] = {}
    before = old.get("packages", {})
    for (name, architecture), version in sorted(read_installed_packages(tree).items()):
        listed = known.get((name, architecture, version))
        if listed:
            packages[name] = {"version": version, "sha256": listed[0], "release": listed[1]}
        elif before.get(name, {}).get("version") == version:
            packages[name] = before[name]
        else:
            packages[name] = {"version": version}
    vouched = dict(known.values())  # hash -> release
    beside = dict(old.get("beside", {}))
    for prefix in prefixes:
        sums = _read_sums(tree / prefix.lstrip("/") / SUMS)
        beside[prefix] = {name: {"sha256": sha, "release": vouched[sha]} for name, sha in sums if sha in vouched}
    document = {
        "keyring": {"path": str(keyring), "sha256": compute_sha256(keyring) if keyring.exists() else None},
        "releases": releases,
        "packages": packages,
        "beside": beside,
    }
    write_atomically(folder / NAME, json.dumps(document, indent=1, sort_keys=True) + "\n")


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record in ``folder``, empty when there is none that can be read.

    It is made anew.
    """
    try:
        return read_json(folder / NAME, dict[str, Any], mend="")
    except (OSError, DecoupleError):
        return {}


def describe_layers(tree: Path, folder: Path, description: Description, layers: Sequence[str]) -> dict[str, Any]:
    """Describe each package that the layers name, for a build manifest.

    It has the package's hash and who signed for it. The keys are ``packages_sha256`` (name to 64 hex digits),
    ``signed_by`` (fingerprints), ``pypi`` (file to hash, as the description pins it), ``debs`` (the same, of packages
    that it pins) where there are such, and ``unchecked``: what neither a signature nor a pin vouches for.
    """
    if not (folder / NAME).exists():
        update_record(tree, folder, Path(description.bootstrap.keyring))
    document = read_record(folder)
    packages, releases, besides = (document.get(key, {}) for key in ("packages", "releases", "beside"))
    wanted = [description.find_layer(name) for name in layers]
    names = sorted({name for layer in wanted for name in layer.packages})
    entries = [(name, name, packages.get(name, {})) for name in names]  # package, how it is told, what is recorded
    for beside in (beside for layer in wanted for beside in layer.unpacked_parts):
        files: dict[str, dict[str, str]] = besides.get(beside.prefix, {})
        for name in beside.packages:
            entry = next((files[file] for file in files if file.startswith(f"{name}_")), {})
            entries.append((name, f"{name} in {beside.prefix}", entry))
    hashes: dict[str, str] = {}
    unchecked: set[str] = set()
    keys: set[str] = set()
    for name, label, entry in entries:
        signed = releases.get(entry.get("release"), {}).get("keys", ())
        if entry.get("sha256") and signed:
            hashes[name] = entry["sha256"]
            keys.update(signed)
        else:
            unchecked.add(label)
    debs = {Path(path).name: sha for layer in wanted for piece in layer.debs for path, sha in piece.files}
    return {
        **({"debs": debs} if debs else {}),
        "packages_sha256": hashes,
        "signed_by": sorted(keys),
        "pypi": {piece.file: piece.sha256 for layer in wanted for piece in layer.pinned_files},
        "unchecked": sorted(unchecked),
    }


def _find_package_lists(tree: Path) -> Iterator[tuple[Path, str]]:
    """Return each package list of apt and the release file's name that has its hash."""
    for path in sorted((tree / _LISTS).glob("*_Packages")):
        if match := _PACKAGES.fullmatch(path.name):
            yield path, match["release"]


def _read_releases(tree: Path, keyring: Path) -> dict[str, dict[str, Any]]:
    """Read the release files of apt that ``keyring`` verifies, by their lists' prefix."""
    made: dict[str, dict[str, Any]] = {}
    for path in sorted((tree / _LISTS).glob("*_InRelease")):
        keys = _find_signers(path, keyring)
        text = path.read_text(encoding="utf-8", errors="replace")
        fields = dict(re.findall(r"^(Origin|Suite|Codename|Version|Date): (.+)$", text, re.M))
        listed = re.findall(r"^ ([0-9a-f]{64}) +\d+ \S+/Packages$", text, re.M)
        made[path.name.removesuffix("_InRelease")] = {
            "sha256": compute_sha256(path),
            "keys": keys,
            "lists": sorted(listed) if keys else [],
            **{name.lower(): value for name, value in sorted(fields.items())},
        }
    return made


def _find_signers(path: Path, keyring: Path) -> list[str]:
    """List primary keys' fingerprints of signatures on ``path`` that gpgv finds good."""
    if shutil.which("gpgv") is None or not keyring.exists():
        return []
    command = ["gpgv", "--keyring", str(keyring), "--status-fd", "1", str(path)]
    done = program_output.run_program(command)
    if done.returncode:
        return []
    return sorted({line.split()[-1] for line in done.stdout.splitlines() if line.startswith("[GNUPG:] VALIDSIG ")})


def _read_paragraphs(path: Path, wanted: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield the wanted fields of each paragraph of a deb822 file, read line by line.

    A package list has 60 MB.
    """
    fields: dict[str, str] = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line == "\n":
                if len(fields) >= 3:
                    yield fields
                fields = {}
            else:
                name, colon, value = line.partition(": ")
                if colon and name in wanted:
                    fields[name] = value.rstrip("\n")
    if len(fields) >= 3:
        yield fields


def _read_sums(path: Path) -> list[tuple[str, str]]:
    """Read (file, hash) of sha256sum's output; empty where there is none."""
    if not path.exists():
        return []
    return [(name, sha) for sha, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", path.read_text(), re.M)]
