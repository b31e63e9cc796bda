"""Reading preprocessor text: what counts as code, where a branch begins and ends, what stage 1 cannot compile."""

from __future__ import annotations

import pytest

from decouple.syntax.conditions import Macros, evaluate_condition, list_macro_names
from decouple.syntax.preprocessor import blank_comments, find_branches, parse_directives, parse_includes, split_strings

NO_CUDA = Macros(undefined=frozenset({"USE_CUDA", "USE_ROCM", "__CUDACC__"}))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("defined(USE_CUDA)", False),
        ("!defined(USE_CUDA)", True),
        ("defined USE_CUDA && OTHER > 3", False),
        ("defined(USE_CUDA) || defined(OTHER)", None),
        ("(defined(__CUDACC__) && 1) || (USE_ROCM == 0)", True),
        ("USE_CUDA", False),
        ("__has_include(<cuda.h>) && defined(USE_CUDA)", False),
        ("OTHER(1, 2) ? defined(USE_CUDA) : 0", False),
        ("0x10 == 16 && 1'000 == 1000", True),
        ("1 / 0", None),
        ("not an expression (", None),
        ("!defined(OTHER) and defined(USE_ROCM)", False),
        ("defined(__CUDACC__) or defined(USE_CUDA)", False),
        ("not defined(USE_XPU) && not defined(USE_CUDA)", None),
        ("not defined(USE_CUDA)", True),
        ("(6 bitand 3) == 2 and (6 bitor 1) == 7 and (6 xor 3) == 5 and compl 0 == -1 and 1 not_eq 2", True),
        ("(" * 3000, None),
        ("(" * 3000 + "1" + ")" * 3000, None),
        ("1 << 99999999999", None),
        ("1 << -1", None),
        ("1 << 63", True),
        ("0xFFFFFFFFFFFFFFFF == 0xFFFFFFFFFFFFFFFF", True),
        ("1" + " * 0xFFFFFFFF" * 9, None),
        ("~0xFFFFFFFFFFFFFFFF == 0", None),  # 1 to a compiler, whose type it wraps
        ("-7 / 2 == -3", None),
        ("-7 % 2 == -1", None),
        ("010 == 8 && 0 == 00", True),
        ("09", None),
        ("-1 > 0u", None),  # true to a compiler, as are the next two
        ("~0U == 0xffffffffffffffff", None),
        ("0u - 1 > 0", None),
        ("-1 < 9223372036854775808", None),
        ("3u > 2 && 0xfu == 15", True),
        ("-1 < 0 && -1 >> 1 == -1", True),
        ("(1 << 63) < 0", True),
    ],
)
def test_an_expression_is_true_false_or_not_known(expression: str, value: bool | None) -> None:
    assert evaluate_condition(expression, NO_CUDA) is value


def test_an_operator_that_is_a_word_is_no_macro() -> None:
    assert list_macro_names("not defined(A) and B or (C not_eq 1)") == ("A", "B", "C")


def test_comments_go_and_strings_stay_in_place() -> None:
    text = "int a; // USE_CUDA\n/* two\nlines */ f(\"cuda // no comment\", 'x', 1'000);\n"
    clean = blank_comments(text)
    assert len(clean) == len(text) and clean.count("\n") == text.count("\n")
    assert "USE_CUDA" not in clean and "two" not in clean and '"cuda // no comment"' in clean and "1'000" in clean


def test_string_contents_are_no_code_and_are_handed_out() -> None:
    code, strings = split_strings('auto s = "cuda"; auto t = R"(is_cuda " quoted)"; // "cuda" again\nuse(is_cuda);')
    assert [content for _, content in strings] == ["cuda", '(is_cuda " quoted)']
    assert code.count("cuda") == 1 and "use(is_cuda)" in code


def test_a_hash_in_a_comment_or_raw_string_is_no_directive() -> None:
    text = '/*\n#ifdef USE_CUDA\n*/\nauto s = R"(\n#if 1\n)";\n#  define X 1 // why\n#if A && \\\n  B\n#endif\n'
    assert [(d.word, d.rest, d.line, d.end_line) for d in parse_directives(text)] == [
        ("define", "X 1", 7, 7),
        ("if", "A &&    B", 8, 9),
        ("endif", "", 10, 10),
    ]


def test_a_directive_goes_on_behind_a_comment_of_several_lines() -> None:
    text = "#if A /* why\nand */ && /* how */ \\\n  B // so\nx\n#endif /* A\n*/ // the end\n#define Z /* not closed\n"
    assert [(d.word, d.rest.split(), d.line, d.end_line) for d in parse_directives(text)] == [
        ("if", ["A", "&&", "B"], 1, 3),
        ("endif", [], 5, 6),
        ("define", ["Z"], 7, 8),
    ]


def test_a_line_that_ends_in_cr_lf_goes_on_as_others_do() -> None:
    text = "// why \\\r\n#if 0 */\r\n#if A || \\\r\n    B\r\nx\r\n#endif\r\n"
    assert [(d.word, d.rest.split(), d.line, d.end_line) for d in parse_directives(text)] == [
        ("if", ["A", "||", "B"], 3, 4),
        ("endif", [], 6, 6),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_comment_that_goes_on_hides_the_next_line(end: str) -> None:
    """Where no comment of the other kind ended behind it, that line was read as a directive."""
    text = "// one \\\n two \\\n#if defined(USE_CUDA)\nint a;\n#ifdef X\n#endif\n".replace("\n", end)
    assert [(found.word, found.line) for found in parse_directives(text)] == [("ifdef", 5), ("endif", 6)]


def test_branches_of_a_nested_conditional() -> None:
    text = "#ifdef USE_CUDA\na\n#  if N > 1\nb\n#  endif\n#elif defined(USE_ROCM)\nc\n#else\nd\n#endif\n"
    found = find_branches(list(parse_directives(text)), 10)
    assert [(b.word, b.line, b.end, b.opening_line) for b in found] == [
        ("ifdef", 1, 6, 1),
        ("if", 3, 5, 3),
        ("elif", 6, 8, 1),
        ("else", 8, 10, 1),
    ]
    assert found[1].list_conditions() == ["defined(USE_CUDA)", "N > 1"]
    assert evaluate_condition(found[3].condition, NO_CUDA) is True, (
        "neither CUDA nor ROCm: the else branch is what stage 1 sees"
    )


def test_conditionals_in_one_another_are_read_to_any_depth() -> None:
    text = "#if A\n" * 3000 + "#include <cuda.h>\n" + "#endif\n" * 3000
    innermost = find_branches(list(parse_directives(text)), 6001)[-1]
    assert innermost.list_conditions() == ["A"] * 3000
    assert [include.live for include in parse_includes(text, NO_CUDA)] == [None]


def test_an_include_is_live_only_where_stage_1_compiles_it() -> None:
    text = (
        "#include <always.h>\n#ifdef USE_CUDA\n#include <cuda.h>\n#else\n#include <cpu.h>\n#endif\n"
        '#if OTHER\n#include "maybe.h" // because\n#endif\n// #include <never.h>\n'
    )
    assert [(i.name, i.quoted, i.live) for i in parse_includes(text, NO_CUDA)] == [
        ("always.h", False, True),
        ("cuda.h", False, False),
        ("cpu.h", False, True),
        ("maybe.h", True, None),
    ]
