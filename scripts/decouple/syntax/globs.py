"""Path globs as data files write them.

``*``, ``?`` and ``[ab]`` stay within a name, ``**`` spans folders, ``{a,b}`` chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from decouple.base.errors import UsageError

_LONGEST = 4096
"""Characters of a glob: as many as Linux takes for a path."""
#: A run of either says no more than one, and each alone would be tried at every place of a path.
_FOLDERS, _STARS = re.compile(r"(?:\*\*/)+"), re.compile(r"\*{2,}")


@lru_cache(maxsize=2048)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Make the regular expression that a whole POSIX path must match.

    ``a/**`` is everything below ``a``; ``a/**/b`` is ``b`` at any depth below ``a``, zero included. Raises UsageError
    for an unclosed ``[`` or ``{``, a range that runs backwards, and more than 4,096 characters.
    """
    if len(pattern) > _LONGEST:
        raise UsageError(f"glob {pattern[:200]!r}…: longer than {_LONGEST} characters", next_step="write several")
    out: list[str] = []
    depth = 0
    i = 0
    star: int | None = None  # where in `out` the last * of this name begins, if nothing but single characters follow
    span: int | None = None  # the same for the last **, where names may follow
    while i < len(pattern):
        char = pattern[i]
        if folders := _FOLDERS.match(pattern, i):
            star, span = None, None if depth else _settle_star(out, span if pattern[:i].endswith("/") else None)
            out.append("(?:[^/]+/)*")
            i = folders.end()
            continue
        if stars := _STARS.match(pattern, i):
            if not depth:
                _settle_star(out, star)
            star, span = None, None if depth else _settle_star(out, span)
            out.append(".*")
            i = stars.end()
            continue
        if char == "*":
            star = None if depth else _settle_star(out, star)
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = pattern.find("]", i + 2)
            if end < 0:
                raise UsageError(
                    f"glob {pattern!r}: '[' is never closed",
                    next_step="close it, or write [[] for the character itself",
                )
            body = re.sub(r"([\\\[&~|])", r"\\\1", pattern[i + 1 : end])
            out.append("(?!/)" + (f"[^{body[1:]}]" if body.startswith("!") else f"[{body}]"))
            i = end
        elif char == "{":
            depth += 1
            star = span = None
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        else:
            star = None if char == "/" else star
            out.append(re.escape(char))
        i += 1
    if depth:
        raise UsageError(
            f"glob {pattern!r}: '{{' is never closed", next_step="close it, or write [{] for the character itself"
        )
    try:
        return re.compile("".join(out), re.DOTALL)
    except (re.error, RecursionError) as error:  # "[z-a]", or braces a thousand deep
        raise UsageError(f"glob {pattern[:200]!r}: {error}", next_step="write it in another way") from None


def _settle_star(out: list[str], begin: int | None) -> int:
    """Have the star at ``begin`` take as little as it can, for good.

    Another star follows; where that one is, is returned.
    What stands between two stars has one length, or one end in each name: its first place leaves the most to the
    second star. So nothing that fails later is tried again from another place, which takes hours on a long name.
    """
    if begin is not None:
        out[begin:] = [f"(?>{out[begin]}?{''.join(out[begin + 1 :])})"]
    return len(out)


def find_fixed_text(pattern: str) -> str:
    """Return the longest text in everything the glob matches; "" if there is none."""
    outside = re.sub(r"\{[^}]*\}|\[[^]]+\]", "*", pattern)
    return max(re.split(r"[*?]", outside), key=len)


def find_match(path: str, patterns: Iterable[str]) -> str | None:
    """Return the first of ``patterns`` that ``path`` matches as a whole, or None."""
    for pattern in patterns:
        if compile_glob(pattern).fullmatch(path):
            return pattern
    return None
