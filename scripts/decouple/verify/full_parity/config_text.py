"""What torch says of itself in prose, taken apart: a line or a setting is one name with one value."""

from __future__ import annotations

import re

#: One setting of the last line of ``torch.__config__.show()``: what follows runs up to the next name in capitals.
_SETTING = re.compile(r"([A-Z][A-Z0-9_]*)=(.*?), (?=[A-Z][A-Z0-9_]*=|$)")
#: A library and its version, as ``show()`` and ``parallel_info()`` write them.
_VERSION = re.compile(r"(.+?)(?: Version| v)? ?(\d[\w.+-]*\b.*)")


def parse_settings(show: str) -> dict[str, str]:
    r"""Parse ``torch.__config__.show()`` into names with values.

    Each compiler flag is a name of its own.

    >>> parse_settings("PyTorch built with:\n  - GCC 9.3\n  - LAPACK is enabled (x)\n  - Build settings: BLAS_INFO=mkl, CXX_FLAGS= -O2 -fPIC, ")
    {'GCC': '9.3', 'LAPACK': 'is enabled (x)', 'BLAS_INFO': 'mkl', 'CXX_FLAGS -O2': '', 'CXX_FLAGS -fPIC': ''}
    """  # noqa: E501 - a line of torch's
    found: dict[str, str] = {}
    for line in show.splitlines():
        text = line.strip().removeprefix("- ")
        if text.startswith("Build settings:"):
            for name, value in _SETTING.findall(f"{text.removeprefix('Build settings:').strip()} "):
                flags = {f"{name} {flag}": "" for flag in value.split()} if name.endswith("_FLAGS") else {name: value}
                found.update(flags)
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
