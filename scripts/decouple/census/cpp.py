"""C++ and CUDA sources: conditionals on CUDA macros, includes of CUDA headers, CUDA-named code."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from decouple.census.finding import Raw
from decouple.census.taxonomy import Taxonomy
from decouple.source.conditions import Macros, evaluate, names_in
from decouple.source.globs import matches
from decouple.source.preprocessor import Branch, Directive, branches, code_and_strings, directives, is_live

NVCC_ONLY = "nvcc's branch"
"""How the detail of a finding begins that stands only where nvcc compiles."""
CONFIGURED = "under a build macro"
"""How it begins where stage 1 never compiles, but because of the configuration."""
SUFFIXES = (".h", ".hpp", ".hh", ".inl", ".c", ".cc", ".cpp", ".cu", ".cuh", ".mm", ".m", ".hip", ".h.in")
_INCLUDE = re.compile(r"""[<"]([^>"]+)[>"]""")


def scan(path: str, text: str, taxonomy: Taxonomy, moved_headers: frozenset[str], *, names: bool) -> list[Raw]:
    """Every coupling of one file. ``moved_headers`` are include names that relocation moves.

    ``names=False`` leaves CUDA-named code out: a file that is CUDA's as a whole consists of it.
    """
    code, strings = code_and_strings(text)
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    last_line = len(starts)
    lines = list(directives(text))
    spans = branches(lines, last_line)
    out = list(_conditionals(path, spans, taxonomy))
    out += _includes(path, lines, spans, taxonomy, moved_headers)
    code = _without_directives(code, lines, starts)
    nvcc, configured = _dead_lines(spans, taxonomy.compiler_only), _dead_lines(spans, taxonomy.undefined)
    out += _words(path, code, strings, starts, taxonomy, (nvcc, configured), names=names)
    return out


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
        without = Macros(undefined=frozenset(asked))
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
    macros = Macros(undefined=taxonomy.undefined)
    for directive in lines:
        if directive.word not in ("include", "include_next"):
            continue
        found = _INCLUDE.match(directive.rest)
        if not found:
            continue
        name = found[1]
        moved = name in moved_headers
        if not moved and not matches(name, taxonomy.external_headers):
            continue
        around = innermost(spans, directive.line)
        live = is_live(around, macros)
        guard = " && ".join(around.conditions()) if around else ""
        if live is not False:
            detail = f"guarded: {guard}" if guard else "unguarded"
        else:
            nvcc = is_live(around, Macros(undefined=taxonomy.compiler_only)) is False
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


def _dead_lines(spans: list[Branch], undefined: frozenset[str]) -> frozenset[int]:
    """The lines that are never compiled where ``undefined`` are not defined, whatever the other macros are."""
    macros = Macros(undefined=undefined)
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


def _without_directives(code: str, lines: list[Directive], starts: list[int]) -> str:
    """``code`` with all directives but ``#define`` blanked: those have findings of their own."""
    parts: list[str] = []
    at = 0
    for directive in lines:
        if directive.word == "define":
            continue
        begin = starts[directive.line - 1]
        end = starts[directive.end_line] if directive.end_line < len(starts) else len(code)
        if begin < at:
            continue
        parts.append(code[at:begin])
        parts.append(re.sub(r"[^\n]", " ", code[begin:end]))
        at = end
    parts.append(code[at:])
    return "".join(parts)


def _words(
    path: str,
    code: str,
    strings: list[tuple[int, str]],
    starts: list[int],
    taxonomy: Taxonomy,
    dead: tuple[frozenset[int], frozenset[int]],
    *,
    names: bool,
) -> Iterator[Raw]:
    """CUDA macros used outside conditionals, CUDA-named code and string literals: one finding per name and file."""
    uses: dict[str, list[int]] = {}
    end = 0
    for found in taxonomy.words.finditer(code):
        if found.start() < end:
            continue
        begin, end = _qualified(code, found.start(), found.end())
        uses.setdefault(code[begin:end], []).append(bisect.bisect_right(starts, begin))
    for name, where in uses.items():
        family = taxonomy.macro_family(name)
        if family:
            yield Raw("macro", name, path, where[0], where[0], 1, len(where), family == "build", f"{family} macro used")
        elif names and taxonomy.name_words.search(name):
            judged, reason = taxonomy.judge(name)
            if dead[0].issuperset(where):
                reason = f"{NVCC_ONLY}: {reason}"
            elif dead[1].issuperset(where):
                reason = f"{CONFIGURED}: {reason}"
            yield Raw(judged, name, path, where[0], where[0], 1, len(where), False, reason)
    if not names:
        return
    quoted: dict[str, list[int]] = {}
    for offset, content in strings:
        if taxonomy.string_pattern.search(content):
            quoted.setdefault(content, []).append(bisect.bisect_right(starts, offset))
    for content, where in quoted.items():
        yield Raw("dispatch", f'"{content}"', path, where[0], where[0], 1, len(where), False, "names the device")


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
