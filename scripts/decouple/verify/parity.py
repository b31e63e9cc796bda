"""Compare with the monolith what both offer.

Each is asked in a process of its own; the answers are compared as sets.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet

from decouple.base import program_output, toml
from decouple.base.errors import DecoupleError
from decouple.base.interpreter import run_python
from decouple.base.mangled_names import OWN_SYMBOL
from decouple.base.percent import cut_percent

_FILE = Path(__file__).with_name("parity.toml")
_DUMP = Path(__file__).parent / "inside" / "dump.py"


class Parity(Struct, frozen=True):
    """One category: names missing, extra, and present but different.

    ``total`` is how many the monolith has. ``reasons`` says of missing names why they are missing on purpose. They
    lower the percentage all the same.
    """

    category: str
    total: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def unexplained(self) -> tuple[str, ...]:
        """The names that differ, and those that are missing without a reason."""
        return (*self.different, *(name for name in self.missing if name not in self.reasons))

    @property
    def ok(self) -> bool:
        """Whether there was something to compare, and nothing lacks a reason.

        What differs or is missing may have one.
        """
        return self.total > 0 and not self.unexplained

    @property
    def percent(self) -> float:
        """The share of the monolith's that is there and the same.

        100 only when nothing is missing or different.
        """
        return cut_percent(self.total - len(self.missing) - len(self.different), self.total)


class ExportedSymbols(Struct, frozen=True):
    """The symbols that a library offers to those who link it.

    Strong symbols, and weak or unique ones that linkers merge.
    """

    strong: frozenset[str]
    vague: frozenset[str]


class SymbolRules(Struct, frozen=True):
    """Which libraries' symbols count.

    Also which of them nobody outside can link, and why some are missing on purpose.
    """

    libraries: tuple[str, ...]
    local: re.Pattern[str]
    reasons: Mapping[str, str]


class KnownAbsence(Struct, frozen=True):
    """Names of a category that are missing on purpose, and why.

    Those that a pattern matches, on that kind of core, or with those CUDAs.
    """

    category: str
    name: re.Pattern[str]
    why: str
    core: str = ""
    cuda: str = ""

    def concerns(self, core: str, cuda: str) -> bool:
        """Return whether the entry is about this core or this CUDA.

        ``cuda`` is the version that was compiled with, empty for the official wheel's own.
        """
        if self.core:
            return self.core == core
        return bool(cuda) and SpecifierSet(self.cuda).contains(cuda)


class ParityRules(Struct, frozen=True):
    """``parity.toml``, which explains its keys."""

    dispatch_keys: tuple[str, ...]
    binding_words: tuple[str, ...]
    modules: tuple[str, ...]
    symbols: SymbolRules
    without: tuple[KnownAbsence, ...]


@cache
def load_rules() -> ParityRules:
    """Read ``parity.toml``."""
    return toml.read_own_table(_FILE, ParityRules)


def dump_torch(
    prefix: Sequence[str], folder: Path, inside: str | None = None, wanted: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Ask the torch behind ``prefix`` what it offers for CUDA.

    ``prefix`` is a command line ending in a Python; ``wanted`` asks for other things. ``folder`` takes the answer;
    ``inside`` is its name for that Python when it differs (in a root). Raises DecoupleError with the last line of the
    import's own error.
    """
    wanted = wanted or {key: getattr(load_rules(), key) for key in ("dispatch_keys", "binding_words", "modules")}
    with tempfile.NamedTemporaryFile(dir=folder.absolute(), suffix=".json") as answer:
        target = f"{inside}/{Path(answer.name).name}" if inside else answer.name
        argv = [*prefix, "-c", _DUMP.read_text(encoding="utf-8"), json.dumps(wanted), target]
        done = run_python(argv)
        text = Path(answer.name).read_text()
    if done.returncode or not text:
        reason, hint = program_output.read_failure(done)
        raise DecoupleError(
            f"torch cannot be asked: {reason}", next_step=hint or " ".join(prefix[-3:]) + " -c 'import torch'"
        )
    found: dict[str, Any] = json.loads(text)
    return found


def compare_parity(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Parity]:
    """Compare two dumps: every dispatch key, the names under torch._C, the public API."""
    made = [
        _compare_sets(f"dispatcher {key}", ours["dispatcher"].get(key, ()), theirs["dispatcher"][key])
        for key in theirs["dispatcher"]
    ]
    made.append(_compare_sets("torch._C names", ours["bindings"], theirs["bindings"]))
    api = _compare_sets("torch.cuda and torch.backends API", ours["api"], theirs["api"])
    differ = sorted(
        f"{name}: {ours['api'][name]} instead of {what}"
        for name, what in theirs["api"].items()
        if name in ours["api"] and ours["api"][name] != what
    )
    made.append(Parity(api.category, api.total, api.missing, api.extra, tuple(differ)))
    return made


def explain_missing(found: Parity, core: str, cuda: str = "") -> Parity:
    """Add the reasons of what is missing on purpose.

    What that kind of core ("built", "stock") or another CUDA ("11.8") cannot have.
    """
    known = [rule for rule in load_rules().without if rule.concerns(core, cuda) and rule.category == found.category]
    reasons = {name: rule.why for name in found.missing for rule in known if rule.name.fullmatch(name)}
    return replace(found, reasons={**reasons, **found.reasons})


def compare_symbols(library: str, ours: ExportedSymbols, theirs: ExportedSymbols) -> Parity:
    """Compare the exported C++ symbols of PyTorch's namespaces.

    Those that somebody else can link. What only the headers define (inline functions, templates) is in every library
    that uses it, as the compiler likes: such a symbol answers for a strong one, but is not asked for.
    """
    table = load_rules().symbols

    def select_linkable(names: Iterable[str]) -> set[str]:
        return {name for name in names if OWN_SYMBOL.match(name) and not table.local.search(name)}

    mine, wanted = select_linkable(ours.strong), select_linkable(theirs.strong)
    missing, extra = wanted - mine - ours.vague, mine - wanted - theirs.vague
    reasons = {name: why for name, why in table.reasons.items() if name in missing}
    return Parity(f"symbols of {library}", len(wanted), tuple(sorted(missing)), tuple(sorted(extra)), reasons=reasons)


def _compare_sets(category: str, ours: Iterable[str], theirs: Iterable[str]) -> Parity:
    mine, wanted = set(ours), set(theirs)
    return Parity(category, len(wanted), tuple(sorted(wanted - mine)), tuple(sorted(mine - wanted)))
