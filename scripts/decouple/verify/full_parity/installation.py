"""Read an installed torch: what it says of itself, its files and its libraries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement

from decouple.verify import elf, parity
from decouple.verify.elf import Library
from decouple.verify.full_parity import comparison, exports, files
from decouple.verify.full_parity.comparison import SectionComparison


class TorchLocation(Struct, frozen=True):
    """Where a torch is.

    A command line that ends in its Python, a folder for its answer, and how that Python calls the folder; ``root`` is
    what that Python takes for ``/``.
    """

    prefix: tuple[str, ...]
    folder: Path
    inside: str | None = None
    root: Path = Path("/")


class WholeOffer(Struct, frozen=True):
    """What :func:`ask_torch` found. ``said`` is the answer of ``inside/dump.py``."""

    said: Mapping[str, Any]
    root: Path

    @property
    def side(self) -> str:
        """The kind of torch it is, as ``reasons.toml`` names them."""
        return comparison.find_side(self.said["installed"], self.said["torch"])

    @property
    def new_abi(self) -> bool:
        """Whether it is of gcc's C++11 ABI."""
        return bool(self.said["said"]["values"]["torch._C._GLIBCXX_USE_CXX11_ABI"])

    def files(self) -> dict[str, Path]:
        """Return what the wheels of this side brought, by its place in a wheel."""
        entries = self.said["installed"].values()
        places = [entry[key] for entry in entries for key in ("package", "info") if entry.get(key)]
        folders = {self._outside(place) for place in places if "torch/_decoupled" not in place}
        found = files.list_files(sorted(folder for folder in folders if folder.is_dir()))
        beside = {path.resolve() for path in found.values() if path.suffix == ".so"}
        for library in self._opened():  # a distribution has its libraries elsewhere
            if library.resolve() not in beside:
                found[f"torch/lib/{library.name}"] = library
        return found

    def libraries(self, there: Mapping[str, Path]) -> list[Library]:
        """Return the shared libraries among its files, each once."""
        shared = {path.resolve() for name, path in there.items() if re.search(r"\.so[.\d]*$", name)}
        return [elf.read_library(path) for path in sorted(shared) if elf.is_elf(path)]

    def _outside(self, place: str) -> Path:
        return self.root / place.lstrip("/")

    def _opened(self) -> list[Path]:
        """Return the libraries of torch that the process had open.

        And their neighbours of such names.
        """
        folders = {self._outside(place).parent for place in self.said["opened"]}
        pattern = files.load_rules().libraries
        near = [path for folder in sorted(folders) for path in sorted(folder.glob("lib*.so")) if path.is_file()]
        return [path for path in near if pattern.fullmatch(path.name)]


def ask_torch(one: TorchLocation) -> WholeOffer:
    """Ask an installed torch for all that it has.

    Raises DecoupleError with the last line of the import's own error.
    """
    known = files.load_rules()
    wanted = {
        "dispatch_keys": None,
        "binding_words": None,
        "modules": None,
        "backends": known.backends,
        "environment": known.environment,
        "distributions": known.packages,
        "libraries": known.libraries.pattern,
    }
    return WholeOffer(parity.dump_torch(one.prefix, one.folder, one.inside, wanted), one.root)


def compare_offers(ours: WholeOffer, theirs: WholeOffer) -> list[SectionComparison]:
    """Compare every section of two offers.

    How each was built, what each offers, and what each brought to disk.
    """
    mine, wanted = ours.said, theirs.said
    found = [
        comparison.compare_names(name, read(mine), read(wanted))
        for name, read in (
            ("torch.__config__.show()", lambda one: parse_settings(one["said"]["show"])),
            ("torch.__config__.parallel_info()", lambda one: parse_threads(one["said"]["parallel_info"])),
            ("torch.backends", lambda one: one["backends"]),
            ("versions and facts of the build", lambda one: {**one["said"]["values"], **one["facts"]}),
            ("dispatcher", _list_registrations),
            ("operators", lambda one: one["schemas"]),
            ("torch._C names", lambda one: one["bindings"]),
            ("API of torch", lambda one: one["api"]),
            ("metadata", _list_metadata),
            ("entry points", _map_entry_points),
        )
    ]
    here, there = ours.files(), theirs.files()
    found += files.compare_files(here, there)
    return found + exports.compare_exports(
        ours.libraries(here), theirs.libraries(there), same_abi=ours.new_abi == theirs.new_abi
    )


def _list_registrations(said: Mapping[str, Any]) -> list[str]:
    return [f"{key} {operator}" for key, operators in said["dispatcher"].items() for operator in operators]


def _map_entry_points(said: Mapping[str, Any]) -> dict[str, str]:
    points = [point for package in said["installed"].values() for point in package.get("entry_points", ())]
    return {f"{group} {name}": value for group, name, value in points}


def _list_metadata(said: Mapping[str, Any]) -> list[str]:
    """Return each field with its value as a name. A side's distributions together."""
    kept = set(files.load_rules().metadata)
    pairs = [pair for package in said["installed"].values() for pair in package.get("metadata", ())]
    return sorted({f"{key}: {_normalise_value(key, value)}" for key, value in pairs if key in kept})


def _normalise_value(key: str, value: str) -> str:
    """Write a requirement in one way. "a (==1) ; x" is "a==1; x"."""
    try:
        return str(Requirement(value)) if key == "Requires-Dist" else value.strip()
    except InvalidRequirement:
        return value


#: One setting of the last line of ``torch.__config__.show()``: what follows runs up to the next name in capitals.
_SETTING = re.compile(r"([A-Z][A-Z0-9_]*)=(.*?), (?=[A-Z][A-Z0-9_]*=|$)")
#: How CMake's switches may be written.
_SWITCHES = {"1": "ON", "0": "OFF"}
#: A library and its version, as ``show()`` and ``parallel_info()`` write them.
_VERSION = re.compile(r"(.+?)(?: Version| v)? ?(\d[\w.+-]*\b.*)")


def parse_settings(show: str) -> dict[str, str]:
    r"""Parse ``torch.__config__.show()`` into names with values.

    Each compiler flag is a name of its own. A part is ON or OFF, also where whoever configured wrote 1 or 0.

    >>> parse_settings("PyTorch built with:\n  - GCC 9.3\n  - LAPACK is enabled (x)\n  - Build settings: CXX_FLAGS= -O2 -fPIC, USE_NCCL=1, ")
    {'GCC': '9.3', 'LAPACK': 'is enabled (x)', 'CXX_FLAGS -O2': '', 'CXX_FLAGS -fPIC': '', 'USE_NCCL': 'ON'}
    """  # noqa: E501 - a line of torch's
    found: dict[str, str] = {}
    for line in show.splitlines():
        text = line.strip().removeprefix("- ")
        if text.startswith("Build settings:"):
            for name, value in _SETTING.findall(f"{text.removeprefix('Build settings:').strip()} "):
                if name.endswith("_FLAGS"):
                    found.update({f"{name} {flag}": "" for flag in value.split()})
                else:
                    found[name] = _SWITCHES.get(value, value) if name.startswith("USE_") else value
        elif line.lstrip().startswith("- "):
            found.update([_parse_line(text)])
    return found


def parse_threads(parallel_info: str) -> dict[str, str]:
    r"""Parse ``torch.__config__.parallel_info()`` into names with values.

    >>> parse_threads("ATen/Parallel:\n\tat::get_num_threads() : 2\nOpenMP 201511 (x)\nATen parallel backend: OpenMP\n")
    {'at::get_num_threads()': '2', 'OpenMP': '201511 (x)', 'ATen parallel backend': 'OpenMP'}
    """
    found: dict[str, str] = {}
    for line in parallel_info.splitlines():
        name, colon, value = line.strip().rpartition(": ")
        if colon:
            found[name.strip()] = value.strip()
        elif line.strip() and not line.rstrip().endswith(":"):
            found.update([_parse_line(line.strip())])
    return found


def _parse_line(text: str) -> tuple[str, str]:
    """Parse a line into a name and what it says.

    Parted by the colon, by " is ", or before the number.
    """
    name, colon, value = text.partition(": ")
    if colon:
        return name, value
    name, word, value = text.partition(" is ")
    if word:
        return name, f"is {value}"
    if match := _VERSION.fullmatch(text):
        return match[1].strip(), match[2]
    return text, ""
