"""List the names that two installations' libraries export, by namespace."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from collections.abc import Callable, Sequence

from decouple.base.errors import DecoupleError
from decouple.verify import audit, parity
from decouple.verify.elf import Library
from decouple.verify.full_parity.comparison import SectionComparison
from decouple.verify.full_parity.files import load_rules

#: How gcc's two ABIs write one name, once it is demangled (libstdc++ manual, "Dual ABI").
_ABI = re.compile(r"\[abi:cxx11\]|(?<=std::)__cxx11::")
_STRING = re.compile(r"std::basic_string<char, std::char_traits<char>, std::allocator<char> ?>")
_VERSION = re.compile(r"\.so[.\d]*$")
_Demangle = Callable[[str], str]


def compare_exports(
    ours: Sequence[Library], theirs: Sequence[Library], *, same_abi: bool = True
) -> list[SectionComparison]:
    """Compare the strong symbols of both sides, one section a namespace.

    A weak symbol of ours answers for a strong one. A missing one is named with the library that has it. With
    ``same_abi`` False both are compared as C++ writes them, without the marks of the ABI.
    """
    written: _Demangle = str if same_abi else _load_demangler()
    mine, wanted = _collect_strong(ours), _collect_strong(theirs)
    soft, other_soft = ({written(symbol) for library in side for symbol in library.vague} for side in (ours, theirs))
    found = []
    for rule in load_rules().namespace:
        here, there = _take_namespace(mine, rule.symbols, written), _take_namespace(wanted, rule.symbols, written)
        lack = sorted(symbol for symbol in there.keys() - here.keys() if symbol not in soft)
        more = sorted(symbol for symbol in here.keys() - there.keys() if symbol not in other_soft)
        missing, extra = (tuple(f"{name} [{of[name]}]" for name in them) for them, of in ((lack, there), (more, here)))
        found.append(SectionComparison(rule.section, len(there) - len(lack), missing, extra))
    return found


def _collect_strong(found: Sequence[Library]) -> dict[str, str]:
    """Map each strong symbol to the library that has it.

    Nothing that nobody outside can link, or that every library has.
    """
    local, everywhere = parity.load_rules().symbols.local, audit.load_rules().everywhere
    return {
        symbol: _VERSION.sub("", library.name)
        for library in found
        for symbol in library.defined
        if not local.search(symbol) and symbol not in everywhere
    }


def _take_namespace(left: dict[str, str], pattern: re.Pattern[str], written: _Demangle) -> dict[str, str]:
    """Remove the symbols of one namespace from ``left`` and return them.

    Written for comparing.
    """
    here = [symbol for symbol in left if pattern.match(symbol)]
    return {written(symbol): left.pop(symbol) for symbol in here}


def _load_demangler() -> _Demangle:
    """Return a function that writes a mangled name as C++ does, the ABI aside.

    It is the C++ library's own ``__cxa_demangle``.
    """
    try:
        library = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6")
        demangle, release = library.__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError) as error:
        raise DecoupleError(f"libstdc++ cannot be asked: {error}", next_step="install libstdc++6") from None
    demangle.restype, release.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def demangle_symbol(symbol: str) -> str:
        status = ctypes.c_int()
        made = demangle(symbol.encode(), None, None, ctypes.byref(status))
        if status.value or not made:
            return symbol
        text = ctypes.string_at(made).decode("utf-8", "replace")
        release(made)
        return _STRING.sub("std::string", _ABI.sub("", text))

    return demangle_symbol
