"""C declarations of functions, as a preprocessed header gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simcuda import compile
from simcuda.errors import SimcudaError


@dataclass(frozen=True)
class Parameter:
    """``type`` and ``name``; an array is a pointer, as C has it."""

    type: str
    name: str

    @property
    def writable_target(self) -> str | None:
        """Return what the parameter points to, if the function may write there.

        None for values and pointers to constants.
        """
        if not self.type.endswith("*"):
            return None
        target = self.type[:-1].strip()
        return None if re.search(r"\bconst\b", target) else target


@dataclass(frozen=True)
class Function:
    """One prototype.

    ``parameters`` is None when it has something that is left alone (a function pointer, ``...``).
    """

    name: str
    returns: str
    parameters: tuple[Parameter, ...] | None


PROTOTYPE = re.compile(r"^(?P<returns>[\w\s*]+?)\b(?P<name>\w+)\s*\((?P<parameters>.*)\)$", re.DOTALL)
ATTRIBUTE = re.compile(
    r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\[\[[^\]]*\]\]|\b__extension__\b|\b__restrict(?:__)?\b"
)
BOUNDARY = re.compile(r"[;{}]|'(?:\\.[^'\n]*|[^'\\\n])'|\"(?:\\.|[^\"\\\n])*\"")
"""The end of a statement or of a part of it, and literals, which may hold the same characters."""


def preprocess_headers(headers: Sequence[str], include: Sequence[Path], defines: Sequence[str] = ()) -> str:
    """Return what the C++ compiler sees of ``headers``, without line markers.

    ``headers`` are names as in ``#include <...>``.
    """
    source = "".join(f"#include <{name}>\n" for name in headers)
    command = [compile.find_compiler()[-1], "-x", "c++", "-E", "-P", *(f"-D{d}" for d in defines)]
    done = compile.run_in_english([*command, *(f"-I{path}" for path in include), "-"], source)
    if done.returncode:
        reason = compile.find_first_error(done.stderr)
        raise SimcudaError(f"cannot preprocess {', '.join(headers)}: {reason}", next_step="look at the include folders")
    return done.stdout


def parse_functions(text: str) -> Iterator[Function]:
    """Return the functions of preprocessed ``text``, outside bodies and structures."""
    depth = start = 0
    outer = 0  # braces of extern "C", which do not hide declarations
    for match in BOUNDARY.finditer(text):
        at, sign = match.start(), match.group()
        if sign[0] in "\"'":
            continue
        if sign == "{":
            if depth == 0 and re.search(r'extern\s+"C(\+\+)?"\s*$', text[start:at]):
                outer += 1
                start = at + 1
            else:
                depth += 1
        elif sign == "}":
            if depth:
                depth -= 1
            else:
                outer -= 1
            if depth == 0:
                start = at + 1
        elif depth == 0:
            if function := parse_function(text[start:at]):
                yield function
            start = at + 1


def parse_function(statement: str) -> Function | None:
    """Return the function that a statement declares, None if it declares none."""
    text = re.sub(r"\s+", " ", ATTRIBUTE.sub(" ", statement)).strip()
    text = re.sub(r'^(extern "C" |extern )', "", text)
    if text.startswith(("typedef", "static", "inline", "template", "using", "namespace", "constexpr")) or "=" in text:
        return None
    match = PROTOTYPE.match(text)
    if match is None or not match["returns"].strip() or match["returns"].strip() in {"return", "else"}:
        return None
    return Function(match["name"], match["returns"].strip(), parse_parameters(match["parameters"]))


def parse_parameters(text: str) -> tuple[Parameter, ...] | None:
    """Return the parameter list of a prototype, or None where one is not simple."""
    text = text.strip()
    if text in {"", "void"}:
        return ()
    if "(" in text or "..." in text:
        return None
    return tuple(parse_parameter(part, number) for number, part in enumerate(text.split(",")))


def parse_parameter(text: str, number: int) -> Parameter:
    """Parse one parameter; an unnamed one gets a name from its number."""
    text, array, _ = text.strip().partition("[")
    text = text.strip()
    match = re.match(r"^(?P<type>.*[\s*])(?P<name>\w+)$", text)
    known = {"int", "long", "char", "short", "unsigned", "float", "double", "void"}
    if match is None or match["name"] in known or match["type"].strip() in {"const", "struct", "enum"}:
        kind, name = text, f"unnamed{number}"
    else:
        kind, name = match["type"].strip(), match["name"]
    if array:
        kind += " *"
    return Parameter(re.sub(r"\s*\*", " *", kind).strip(), f"{name}_" if name in {"or", "and", "not"} else name)
