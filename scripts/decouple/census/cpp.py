"""C++ and CUDA sources: conditionals on CUDA macros, includes of CUDA headers, CUDA-named code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from decouple.census.finding import Raw
from decouple.census.taxonomy import Taxonomy
from decouple.syntax.conditions import Macros, evaluate, names_in
from decouple.syntax.preprocessor import Branch, Directive, Spans, branches, directives, hidden, is_live

NVCC_ONLY = "nvcc's branch"
"""How the detail of a finding begins that stands only where nvcc compiles."""
CONFIGURED = "under a build macro"
"""How it begins where stage 1 never compiles, but because of the configuration."""
SUFFIXES = (".h", ".hpp", ".hh", ".inl", ".c", ".cc", ".cpp", ".cu", ".cuh", ".mm", ".m", ".hip", ".h.in")
_DEFINING = ("define", "cmakedefine")
_INCLUDE = re.compile(r"""[<"]([^>"]+)[>"]""")


def scan(path: str, text: str, taxonomy: Taxonomy, moved_headers: frozenset[str], *, names: bool) -> list[Raw]:
    """Every coupling of one file. ``moved_headers`` are include names that relocation moves.

    ``names=False`` leaves CUDA-named code out: a file that is CUDA's as a whole consists of it.
    """
    candidates = [found.span() for found in (taxonomy.words if names else taxonomy.macro_words).finditer(text)]
    covered = hidden(text) if candidates else None
    lines = list(directives(text, covered))
    spans = branches(lines, text.count("\n") + 1)
    out = list(_conditionals(path, spans, taxonomy))
    out += _includes(path, lines, spans, taxonomy, moved_headers)
    if covered is not None:
        out += _words(path, text, candidates, covered, lines, spans, taxonomy, names=names)
    return out


@lru_cache(maxsize=512)
def _without(names: frozenset[str]) -> Macros:
    return Macros(undefined=names)


def _conditionals(path: str, spans: list[Branch], taxonomy: Taxonomy) -> Iterator[Raw]:
    """One finding for each ``#if`` … ``#endif`` group of which any branch asks for a CUDA macro."""
    groups: dict[int, list[Branch]] = {}
    for branch in spans:
        groups.setdefault(branch.opened, []).append(branch)
    for opened, group in groups.items():
        asked = [name for branch in group for name in names_in(branch.own) if taxonomy.macro_family(name)]
        if not asked:
            continue
        asked = list(dict.fromkeys(asked))
        families = {taxonomy.macro_family(name) for name in asked}
        without = _without(frozenset(asked))
        dead = [branch for branch in group if evaluate(branch.condition, without) is False]
        detail = "; ".join(f"{b.word} {b.own}".strip() + f" [{b.line}-{b.end}]" for b in group)
        yield Raw(
            category="macro",
            symbol="+".join(sorted(asked)),
            path=path,
            line=opened,
            end_line=group[-1].end,
            lines=sum(branch.end - branch.line - 1 for branch in dead),
            needs_cuda="build" in families,
            detail=detail,
        )


def _includes(
    path: str, lines: list[Directive], spans: list[Branch], taxonomy: Taxonomy, moved_headers: frozenset[str]
) -> Iterator[Raw]:
    macros = taxonomy.at_stage1
    for directive in lines:
        if directive.word not in ("include", "include_next"):
            continue
        found = _INCLUDE.match(directive.rest)
        if not found:
            continue
        name = found[1]
        moved = name in moved_headers
        if not moved and not taxonomy.is_external_header(name):
            continue
        around = innermost(spans, directive.line)
        live = is_live(around, macros)
        guard = " && ".join(around.conditions()) if around else ""
        if live is not False:
            detail = f"guarded: {guard}" if guard else "unguarded"
        else:
            nvcc = is_live(around, taxonomy.without_nvcc) is False
            detail = f"{NVCC_ONLY if nvcc else CONFIGURED}: {guard}"
        yield Raw(
            category="include",
            symbol=name,
            path=path,
            line=directive.line,
            end_line=directive.line,
            lines=1,
            needs_cuda=live is not False,
            detail=detail,
        )


def _dead_lines(spans: list[Branch], macros: Macros) -> frozenset[int]:
    """The lines that are never compiled under ``macros``, whatever the others are."""
    out: set[int] = set()
    for branch in spans:
        if evaluate(branch.condition, macros) is False:
            out.update(range(branch.line + 1, branch.end))
    return frozenset(out)


def innermost(spans: list[Branch], line: int) -> Branch | None:
    """The smallest branch whose body holds ``line``."""
    best: Branch | None = None
    for branch in spans:
        if branch.line < line < branch.end and (best is None or branch.line >= best.line):
            best = branch
    return best


def _words(
    path: str,
    text: str,
    candidates: Spans,
    covered: Spans,
    lines: list[Directive],
    spans: list[Branch],
    taxonomy: Taxonomy,
    *,
    names: bool,
) -> Iterator[Raw]:
    """CUDA macros used outside conditionals, CUDA-named code and string literals: one finding per name and file.

    Candidates come first, from the text as it is, and where each of them stands is asked then: few files have many.
    Directives that define nothing have findings of their own. A name cannot reach into a comment or a string, so that
    none is cut off or grows by what is hidden beside it.
    """
    uses: dict[str, list[int]] = {}
    quoted: dict[str, list[int]] = {}
    taken = _other_lines(lines)
    end = nth = 0
    line, counted = 1, 0
    handled = -1
    for at, stop in candidates:
        if at < end:
            continue
        while nth < len(covered) and covered[nth][1] <= at:
            nth += 1
        if nth < len(covered) and covered[nth][0] <= at:
            if nth != handled and names:
                content = _literal(text, *covered[nth])
                if content is not None and taxonomy.string_pattern.search(content):
                    where = text.count("\n", 0, covered[nth][0]) + 1
                    quoted.setdefault(content, []).append(where)
            handled = nth
            continue
        line += text.count("\n", counted, at)
        counted = at
        if line in taken:
            continue
        begin, end = _qualified(text, at, stop)
        uses.setdefault(text[begin:end], []).append(line)
    dead: tuple[frozenset[int], frozenset[int]] | None = None
    for name, where_used in uses.items():
        first, count = where_used[0], len(where_used)
        family = taxonomy.macro_family(name)
        if family:
            yield Raw("macro", name, path, first, first, 1, count, family == "build", f"{family} macro used")
        elif names and taxonomy.name_words.search(name):
            judged, reason = taxonomy.judge(name)
            dead = dead or (_dead_lines(spans, taxonomy.without_nvcc), _dead_lines(spans, taxonomy.at_stage1))
            if dead[0].issuperset(where_used):
                reason = f"{NVCC_ONLY}: {reason}"
            elif dead[1].issuperset(where_used):
                reason = f"{CONFIGURED}: {reason}"
            yield Raw(judged, name, path, first, first, 1, count, False, reason)
    for content, where_quoted in quoted.items():
        first = where_quoted[0]
        yield Raw("dispatch", f'"{content}"', path, first, first, 1, len(where_quoted), False, "names the device")


def _other_lines(lines: list[Directive]) -> frozenset[int]:
    """The lines of all directives but ``#define`` and CMake's form of it, which asks the configuration for a macro."""
    return frozenset(
        line for found in lines if found.word not in _DEFINING for line in range(found.line, found.end_line + 1)
    )


def _literal(text: str, begin: int, end: int) -> str | None:
    """What stands between the quotes of the string at [begin, end); None for a comment or a character."""
    if text[begin] == "/" or text[end - 1] != '"':
        return None
    return text[text.index('"', begin) + 1 : end - 1]


def _qualified(code: str, begin: int, end: int) -> tuple[int, int]:
    """Widen [begin, end) to the whole name with its ``::`` qualifiers."""
    while begin > 0 and (code[begin - 1].isalnum() or code[begin - 1] in "_:"):
        begin -= 1
    while end < len(code) and (code[end].isalnum() or code[end] in "_:"):
        end += 1
    while begin < end and code[begin] == ":":
        begin += 1
    while end > begin and code[end - 1] == ":":
        end -= 1
    return begin, end
