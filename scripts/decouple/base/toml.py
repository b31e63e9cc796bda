"""Read TOML into frozen values, and format the strings of what is written.

An error is one line: file, key (``$.layer[0].name``), remedy.
"""

from __future__ import annotations

import functools
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from decouple.base.errors import DecoupleError

T = TypeVar("T")
SCHEMA = 1
"""What ``schema`` says in each data file of this project; a change that old code cannot read gets the next number."""


def read_toml(path: Path, kind: type[T], *, mend: str, schema: int | None = SCHEMA) -> T:
    """Read the file as a ``kind``.

    ``mend`` is the next step to tell, ``schema`` None where the file has no such key.

    ``kind`` is a frozen ``msgspec.Struct`` whose fields are the file's keys, renamed where a key is a keyword of
    Python's. A ``re.Pattern`` is compiled; what ``__post_init__`` raises as ValueError is told like any wrong value.
    Raises DecoupleError, OSError.
    """
    try:
        return parse_toml(path.read_text(encoding="utf-8"), kind, path, mend=mend, schema=schema)
    except UnicodeDecodeError as error:
        raise DecoupleError(f"{path}: not TOML: {error}", next_step=mend) from None


def read_own_table(path: Path, kind: type[T], *, schema: int | None = SCHEMA) -> T:
    """Read a data file of this checkout, as `read_toml` does.

    Git has it as it should be.
    """
    return read_toml(path, kind, mend=format_restore(path), schema=schema)


def format_restore(path: Path) -> str:
    """Format the command that gives a file of this checkout back, from any folder."""
    return f"git -C {shlex.quote(str(path.parent))} checkout -- {shlex.quote(path.name)}"


def format_string(text: str) -> str:
    """Format ``text`` as a basic string of TOML.

    It is one of JSON but for DEL, which JSON leaves as it is, and for characters past U+FFFF, which JSON may write as
    two halves. A text with a half of a pair, which stands for a byte that is no UTF-8, has no string in TOML.
    """
    import json  # only for who writes a file

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_toml(text: str, kind: type[T], path: Path, *, mend: str, schema: int | None = SCHEMA) -> T:
    """Parse text that is not on disk; ``path`` is only for messages. See `read_toml`."""
    return convert_tables(parse_tables(text, path, mend=mend, schema=schema), kind, path, mend=mend)


def parse_tables(text: str, path: Path, *, mend: str, schema: int | None = SCHEMA) -> dict[str, Any]:
    """Parse the tables of a text, without the key ``schema``.

    Raises DecoupleError where it is no TOML, or of another schema.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for 5,000 digits, or brackets 5,000 deep
        raise DecoupleError(f"{path}: not TOML: {error}", next_step=mend) from None
    if schema is not None and (number := data.pop("schema", None)) != schema:
        raise DecoupleError(
            f"{path}: schema: expected {schema} (this program reads no other), found {number!r}", next_step=mend
        )
    return data


def convert_tables(data: dict[str, Any], kind: type[T], path: Path, *, mend: str, at: str = "$") -> T:
    """Convert parsed data, the table ``at`` of the file. Raises DecoupleError."""
    import msgspec  # takes longer to import than all of base: only for who reads a file

    for place, key, known in _find_unknown_keys(data, _inspect_type(kind), at):  # type: ignore[arg-type]  # mypy: type[T] is no Hashable
        import difflib  # only for a mistake

        near = difflib.get_close_matches(key, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(sorted(known))}"
        raise DecoupleError(f"{path}: {place}.{key}: no such key ({hint})", next_step=mend)
    try:
        return msgspec.convert(data, kind, dec_hook=_convert_pattern)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        raise DecoupleError(f"{path}: {at}{place.strip('`')[1:]}: {message}", next_step=mend) from None


@functools.cache
def _inspect_type(kind: type) -> Any:
    """Return msgspec's view of ``kind``: slower to make than to read a small file."""
    import msgspec

    return msgspec.inspect.type_info(kind)


def _convert_pattern(kind: Any, value: Any) -> Any:
    if getattr(kind, "__origin__", kind) is not re.Pattern:
        raise NotImplementedError(kind)
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"pattern {value!r}: {error}") from None


def _find_unknown_keys(value: Any, kind: Any, at: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each key that ``kind`` does not have.

    With it go its place, its name and the known neighbours. ``kind`` is msgspec's view of a type.
    """
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_unknown_keys(item, getattr(kind, "item_type", None), f"{at}[{number}]")
    elif isinstance(value, dict) and hasattr(kind, "fields"):
        known = {field.encode_name: field.type for field in kind.fields}
        for key, item in value.items():
            if key not in known:
                yield at, key, list(known)
            yield from _find_unknown_keys(item, known.get(key), f"{at}.{key}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find_unknown_keys(item, getattr(kind, "value_type", None), f"{at}.{key}")
