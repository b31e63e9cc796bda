"""Check whether a compiled wheel finds its symbols in other libraries.

The wheel was made for the official torch, the libraries are such as ours. Most of PyPI's wheels for PyTorch are linked
against its official wheel. The dynamic linker takes whatever library defines a name, so such a wheel works on a build
of ours exactly if every torch symbol that it names is defined there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from decouple.base.mangled_names import SPELT_NAMESPACES
from decouple.verify.audit import ElfAudit, ElfFault, collect_defined
from decouple.verify.elf import Library

#: Names that only torch's libraries define. The mangled name of a C++ symbol (Itanium ABI) spells each part of it with
#: its length, so a namespace shows as such; what torch exports with C linkage begins with one of a few words.
TORCH = re.compile(rf"_Z.*?(?<!\d)(?:{SPELT_NAMESPACES})|THP|aoti_torch_|c10_|torch_")
#: The names by which others link torch's own libraries.
_LIBRARY = re.compile(r"lib(c10|caffe2|shm|torch)(_\w+)?\.so")
#: How a mangled name shows a std::string of gcc's two ABIs (libstdc++ manual, "Dual ABI"): the old one has the
#: abbreviation ``Ss``; a function that only returns the new one has a tag instead. They make the hint, not the verdict.
_NEW_STRING = "NSt7__cxx1112basic_string"
_TAG = "B5cxx11"
_OLD_STRING = re.compile(r"[A-Z_v]Ss")


def list_wanted_symbols(extension: Sequence[Library]) -> dict[str, str]:
    """Return torch's symbols that a wheel names and does not define.

    Symbol -> a file that names it. A symbol that is only weak may stay away (elf(5)) and does not count.
    """
    own = collect_defined(extension)
    found: dict[str, str] = {}
    for library in extension:
        for symbol in library.undefined - own:
            if TORCH.match(symbol):
                found.setdefault(symbol, library.path.name)
    return found


def audit_elsewhere(what: str, extension: Sequence[Library], offered: Sequence[Library]) -> ElfAudit:
    """Audit one wheel against the libraries that are ``offered``.

    ``symbols`` counts what it wants of torch; a fault for each that ``offered`` lacks. So is each of torch's libraries
    that it needs by a name which none of ``offered`` has.
    """
    have = collect_defined(offered)
    wants = list_wanted_symbols(extension)
    new = any(_NEW_STRING in symbol for symbol in have if TORCH.match(symbol))
    tagged = {symbol.replace(_TAG, "") for symbol in have if _TAG in symbol}
    faults = [
        ElfFault(file, "needs a symbol that no library has", symbol + _make_hint(symbol, new, tagged))
        for symbol, file in sorted(wants.items())
        if symbol not in have
    ]
    names = {library.name for library in (*extension, *offered)}
    faults += [
        ElfFault(library.path.name, "needs a library that is not there", needed)
        for library in extension
        for needed in library.needed
        if _LIBRARY.fullmatch(needed) and needed not in names
    ]
    return ElfAudit(f"{what} on these libraries", len(extension), len(wants), tuple(faults))


def _make_hint(symbol: str, new: bool, tagged: Set[str]) -> str:
    if not new and (_NEW_STRING in symbol or _TAG in symbol):
        return " (of the new C++ ABI; the libraries have the old one)"
    if new and (_OLD_STRING.search(symbol) or symbol in tagged):
        return " (of the old C++ ABI; the libraries have the new one)"
    return ""
