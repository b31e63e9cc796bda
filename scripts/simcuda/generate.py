"""C++ source of the part of a stand-in that nobody wrote by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from simcuda.declarations import Function, Parameter
from simcuda.library import Fill, Library


def sources(
    library: Library, declared: Mapping[str, Function], wanted: Iterable[str], fills: tuple[Fill, ...]
) -> dict[str, str]:
    """Return file name -> text: a definition for each name in ``wanted``.

    It answers "success" where the rules say so, else not.
    """
    lines = [f"#include <{header}>" for header in library.headers]
    lines += ['#include "libraries/record.h"', ""]
    plain = []
    for name in sorted(set(wanted)):
        function = declared.get(name)
        if function is not None and function.parameters is not None:
            lines.append(defined(function, library, fills))
        else:
            plain.append(name)
    undeclared = '#include "interface.h"\n' + without_declaration(plain, library.not_supported)
    return {"declared.cpp": "\n".join(lines) + "\n", "undeclared.cpp": undeclared}


def defined(function: Function, library: Library, fills: tuple[Fill, ...]) -> str:
    """Define a function with its real prototype; the compiler holds it to the header."""
    assert function.parameters is not None
    listed = ", ".join(f"{p.type} {p.name}" for p in function.parameters)
    head = f'extern "C" __attribute__((visibility("default"))) {function.returns} {function.name}({listed})'
    if not library.answers_success(function.name):
        return (
            f'{head} {{ simcuda_not_supported("{function.name}"); {answer(function.returns, library.not_supported)} }}'
        )
    body = [f'simlib::Call call("{function.name}");']
    body += [f"call << {p.name};" for p in function.parameters]
    for p in function.parameters:
        target = p.writable
        fill = target and next((one for one in fills if one.matches(function.name, target, p.name)), None)
        if fill and target != "void":
            body.append(written(fill, p, function.parameters))
    return f"{head} {{ {' '.join(body)} {answer(function.returns, 0)} }}"


def written(fill: Fill, into: Parameter, parameters: Iterable[Parameter]) -> str:
    """Return the statement that writes through one pointer."""
    if not fill.value.startswith("simlib::"):
        return f"simlib::put({into.name}, {fill.value});"
    counts = [p.name for p in parameters if fill.count and re.fullmatch(fill.count, p.name)]
    return f"{fill.value}({', '.join([into.name, *counts[:1]])});"


def answer(returns: str, code: int) -> str:
    """Write the return statement: a status code where one is returned, else empty."""
    return "return;" if returns == "void" else f"return simlib::answer<{returns}>({code});"


def without_declaration(names: Iterable[str], code: int) -> str:
    """Define exports that nothing declares, or only in a way that is not parsed."""
    return "".join(
        f'extern "C" __attribute__((visibility("default"))) int {name}(void) '
        f'{{ simcuda_not_supported("{name}"); return {code}; }}\n'
        for name in names
    )
