"""Scan C++ and device sources for a vendor: conditionals, includes and names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from decouple.census.finding import RawFinding
from decouple.census.taxonomy import Taxonomy
from decouple.syntax.conditions import Macros, evaluate_condition, list_macro_names
from decouple.syntax.preprocessor import (
    Branch,
    Directive,
    Spans,
    find_branches,
    find_hidden_spans,
    is_live,
    parse_directives,
    read_included_name,
)

DEVICE_ONLY = "the device compiler's branch"
"""How the detail of a finding begins that stands only where the vendor's device compiler compiles."""
CONFIGURED = "under a build macro"
"""How it begins where stage 1 never compiles, but because of the configuration."""
_DEFINING = ("define", "cmakedefine")


def scan_cpp(
    path: str, text: str, taxonomy: Taxonomy, moved_headers: frozenset[str], *, names: bool
) -> list[RawFinding]:
    """Find every coupling of one file.

    ``moved_headers`` are include names that relocation moves. ``names=False`` leaves code named for the vendor
    out: a file that is CUDA's as a whole consists of it.
    """
    candidates = [match.span() for match in (taxonomy.words if names else taxonomy.macro_words).finditer(text)]
    covered = find_hidden_spans(text) if candidates else None
    lines = list(parse_directives(text, covered))
    spans = find_branches(lines, text.count("\n") + 1)
    findings = list(_scan_conditionals(path, spans, taxonomy))
    findings += _scan_includes(path, lines, spans, taxonomy, moved_headers)
    if covered is not None:
        findings += _scan_words(path, text, candidates, covered, lines, spans, taxonomy, names=names)
    return findings


@lru_cache(maxsize=512)
def _undefine_macros(names: frozenset[str]) -> Macros:
    return Macros(undefined=names)


def _scan_conditionals(path: str, spans: list[Branch], taxonomy: Taxonomy) -> Iterator[RawFinding]:
    """Return one finding per ``#if`` … ``#endif`` group on a macro of the vendor's."""
    groups: dict[int, list[Branch]] = {}
    for branch in spans:
        groups.setdefault(branch.opening_line, []).append(branch)
    for first_line, group in groups.items():
        macros = [name for branch in group for name in list_macro_names(branch.own) if taxonomy.macro_family(name)]
        if not macros:
            continue
        macros = list(dict.fromkeys(macros))
        families = {taxonomy.macro_family(name) for name in macros}
        without = _undefine_macros(frozenset(macros))
        dead = [branch for branch in group if evaluate_condition(branch.condition, without) is False]
        detail = "; ".join(f"{b.word} {b.own}".strip() + f" [{b.line}-{b.end}]" for b in group)
        yield RawFinding(
            category="macro",
            symbol="+".join(sorted(macros)),
            path=path,
            line=first_line,
            end_line=group[-1].end,
            lines=sum(branch.end - branch.line - 1 for branch in dead),
            needs_vendor="build" in families,
            detail=detail,
        )


def _scan_includes(
    path: str, lines: list[Directive], spans: list[Branch], taxonomy: Taxonomy, moved_headers: frozenset[str]
) -> Iterator[RawFinding]:
    macros = taxonomy.at_stage1
    for directive in lines:
        if directive.word not in ("include", "include_next"):
            continue
        name = read_included_name(directive)
        moved = name in moved_headers
        if not moved and not taxonomy.is_external_header(name):
            continue
        branch = find_innermost(spans, directive.line)
        live = is_live(branch, macros)
        guard = " && ".join(branch.list_conditions()) if branch else ""
        if live is not False:
            detail = f"guarded: {guard}" if guard else "unguarded"
        else:
            device = is_live(branch, taxonomy.without_device_compiler) is False
            detail = f"{DEVICE_ONLY if device else CONFIGURED}: {guard}"
        yield RawFinding(
            category="include",
            symbol=name,
            path=path,
            line=directive.line,
            end_line=directive.line,
            lines=1,
            needs_vendor=live is not False,
            detail=detail,
        )


def _find_dead_lines(spans: list[Branch], macros: Macros) -> frozenset[int]:
    """Return the lines that are never compiled under ``macros``.

    Other macros have no influence on it.
    """
    lines: set[int] = set()
    for branch in spans:
        if evaluate_condition(branch.condition, macros) is False:
            lines.update(range(branch.line + 1, branch.end))
    return frozenset(lines)


def find_innermost(spans: list[Branch], line: int) -> Branch | None:
    """Return the smallest branch whose body holds ``line``."""
    best: Branch | None = None
    for branch in spans:
        if branch.line < line < branch.end and (best is None or branch.line >= best.line):
            best = branch
    return best


def _scan_words(
    path: str,
    text: str,
    candidates: Spans,
    covered: Spans,
    lines: list[Directive],
    spans: list[Branch],
    taxonomy: Taxonomy,
    *,
    names: bool,
) -> Iterator[RawFinding]:
    """Find the vendor's macros outside conditionals, code named for it, strings.

    Strings are string literals. One finding per name and file. Candidates come first, from the text as it is, and where
    each of them stands is determined then: few files have many. Directives that define nothing have findings of their
    own. A name cannot reach into a comment or a string, so that none is cut off or grows by what is hidden beside it.
    """
    uses: dict[str, list[int]] = {}
    quoted: dict[str, list[int]] = {}
    directive_lines = _find_directive_lines(lines)
    end = covered_index = 0
    line, counted_to = 1, 0
    handled_index = -1
    for start, stop in candidates:
        if start < end:
            continue
        while covered_index < len(covered) and covered[covered_index][1] <= start:
            covered_index += 1
        if covered_index < len(covered) and covered[covered_index][0] <= start:
            if covered_index != handled_index and names:
                content = _parse_literal(text, *covered[covered_index])
                if content is not None and taxonomy.string_pattern.search(content):
                    literal_line = text.count("\n", 0, covered[covered_index][0]) + 1
                    quoted.setdefault(content, []).append(literal_line)
            handled_index = covered_index
            continue
        line += text.count("\n", counted_to, start)
        counted_to = start
        if line in directive_lines:
            continue
        begin, end = _widen_name(text, start, stop)
        uses.setdefault(text[begin:end], []).append(line)
    dead: tuple[frozenset[int], frozenset[int]] | None = None
    for name, where_used in uses.items():
        first, count = where_used[0], len(where_used)
        family = taxonomy.macro_family(name)
        if family:
            yield RawFinding("macro", name, path, first, first, 1, count, family == "build", f"{family} macro used")
        elif names and taxonomy.name_words.search(name):
            judged, reason = taxonomy.judge(name)
            dead = dead or (
                _find_dead_lines(spans, taxonomy.without_device_compiler),
                _find_dead_lines(spans, taxonomy.at_stage1),
            )
            if dead[0].issuperset(where_used):
                reason = f"{DEVICE_ONLY}: {reason}"
            elif dead[1].issuperset(where_used):
                reason = f"{CONFIGURED}: {reason}"
            yield RawFinding(judged, name, path, first, first, 1, count, False, reason)
    for content, where_quoted in quoted.items():
        first = where_quoted[0]
        yield RawFinding(
            "dispatch", f'"{content}"', path, first, first, 1, len(where_quoted), False, "names the device"
        )


def _find_directive_lines(lines: list[Directive]) -> frozenset[int]:
    """Return the lines of all directives but ``#define`` and ``#cmakedefine``.

    The latter, CMake's form of it, asks the configuration for a macro.
    """
    return frozenset(
        line
        for directive in lines
        if directive.word not in _DEFINING
        for line in range(directive.line, directive.end_line + 1)
    )


def _parse_literal(text: str, begin: int, end: int) -> str | None:
    """Return what stands between the quotes of the string at [begin, end).

    None for a comment or a character.
    """
    if text[begin] == "/" or text[end - 1] != '"':
        return None
    return text[text.index('"', begin) + 1 : end - 1]


def _widen_name(code: str, begin: int, end: int) -> tuple[int, int]:
    """Widen [begin, end) to the whole name with its ``::`` qualifiers."""
    while begin and (_is_of_name(code[begin - 1]) or code.endswith("::", 0, begin)):  # one colon is another's
        begin -= 1 if _is_of_name(code[begin - 1]) else 2
    while end < len(code) and (_is_of_name(code[end]) or code.startswith("::", end)):
        end += 1 if _is_of_name(code[end]) else 2
    while begin < end and code[begin] == ":":
        begin += 1
    while end > begin and code[end - 1] == ":":
        end -= 1
    return begin, end


def _is_of_name(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
