"""What the generator reads from a preprocessed header."""

from __future__ import annotations

import pytest

from simcuda.declarations import Parameter, parse_function, parse_functions


def test_a_prototype_gives_types_and_names() -> None:
    function = parse_function(
        "extern acmeStatus_t acmeGemm(acmeHandle_t handle, int m, const float *A, float *C, int dims[])"
    )
    assert function is not None and function.returns == "acmeStatus_t"
    assert function.parameters == (
        Parameter("acmeHandle_t", "handle"),
        Parameter("int", "m"),
        Parameter("const float *", "A"),
        Parameter("float *", "C"),
        Parameter("int *", "dims"),
    )
    assert [p.writable_target for p in function.parameters] == [None, None, None, "float", "int"]


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("int f(void)", ()),
        ("int f(unsigned count)", (Parameter("unsigned", "count"),)),
        ("int f(unsigned int)", (Parameter("unsigned int", "unnamed0"),)),
        ("int f(struct acme)", (Parameter("struct acme", "unnamed0"),)),
        ("int f(void (*callback)(int))", None),
        ("int f(const char *format, ...)", None),
    ],
)
def test_parameters_that_are_unusual(text: str, parameters: tuple[Parameter, ...] | None) -> None:
    function = parse_function(text)
    assert function is not None and function.parameters == parameters


def test_what_declares_no_function_is_left_out() -> None:
    text = """
    typedef int (*acmeCallback)(int);
    struct acme { int size; int (*member)(void); };
    extern "C" {
    int acmeOne(void) __attribute__((deprecated("use acmeTwo (it is newer)")));
    static inline int acmeBody(int x) { return acmeOne(); }
    acmeStatus_t acmeTwo(int x);
    }
    int acmeThree(int x);
    [[deprecated("use acmeTwo instead")]] acmeStatus_t acmeFour(int x);
    """
    assert [function.name for function in parse_functions(text)] == ["acmeOne", "acmeTwo", "acmeThree", "acmeFour"]


def test_a_brace_in_a_literal_opens_nothing() -> None:
    """hipblaslt.h includes <regex>, whose scanner compares with braces: nothing after it was found."""
    text = """namespace std { bool opens(char c) { return c == '{' || c == '\\'' || "}{"[0] == c; } }
extern "C" { int hipblasLtCreate(void** handle); }"""
    assert [function.name for function in parse_functions(text)] == ["hipblasLtCreate"]
