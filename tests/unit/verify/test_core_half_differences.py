"""On the CPU half of the official wheel some faults must be; any other counts, and so does a reason for none."""

from __future__ import annotations

import re

import pytest

from decouple.flows.verify import audit_wheels
from decouple.verify import core_half_differences
from decouple.verify.audit import ElfAudit, ElfFault
from decouple.verify.core_half_differences import HalfDifference
from tests.unit.verify.conftest import Compile

KNOWN = [HalfDifference("libtorch_python.so", re.compile("needs .*"), "upstream compiled it with CUDA")]


def test_a_fault_with_a_reason_is_none_and_any_other_stays() -> None:
    must = ElfFault("libtorch_python.so", "needs a CUDA library", "libtorch_cuda.so")
    new = ElfFault("libc10.so", "needs a CUDA library", "libcudart.so.12")
    (left,), (line,) = core_half_differences.judge_reports([ElfAudit("core without CUDA", 2, 9, (must, new))], KNOWN)
    assert left.faults == (new,)
    assert line.passed and line.observed == "upstream compiled it with CUDA"


@pytest.mark.parametrize(
    ("symbols", "known"), [(("_ZN10tensorpipe1aEv",), True), (("_ZN10tensorpipe1aEv", "_ZN2at3addEv"), False)]
)
def test_a_reason_is_of_all_symbols_or_of_none(symbols: tuple[str, ...], known: bool) -> None:
    """Whatever both libraries defined was known as TensorPipe."""
    fault = ElfFault("libtorch_cuda.so", "defines what libtorch_cpu.so defines", symbols[0], symbols)
    (left,), _ = core_half_differences.judge_reports([ElfAudit("nothing defined in both", 2, 9, (fault,))])
    assert bool(left.faults) is not known


def test_what_the_half_asks_of_torch_cuda_must_be_there(compile_library: Compile) -> None:
    """Alone the half lacks it, which is known; that torch_cuda lacks it, too, was not looked at."""
    ask = "int _ZN2at4cuda5sleepEl(void); int use(void) { return _ZN2at4cuda5sleepEl(); }"
    core = compile_library("libtorch_python.so", ask, side="core")
    backend = compile_library("libtorch_cuda.so", "int other(void) { return 1; }", side="backend")
    reports, _ = core_half_differences.judge_reports(audit_wheels(core.parent, backend.parent))
    faults = [str(fault) for report in reports for fault in report.faults]
    assert faults == ["libtorch_python.so: undefined in both wheels: _ZN2at4cuda5sleepEl"]


def test_a_reason_for_a_fault_that_is_not_there_fails() -> None:
    _, (line,) = core_half_differences.judge_reports([ElfAudit("core without CUDA", 2, 9, ())], KNOWN)
    assert not line.passed


def test_every_shipped_reason_names_a_rule_of_the_audit() -> None:
    rules = [
        "needs a CUDA library",
        "names CUDA symbols",
        "has CUDA inside it",
        "undefined",
        "defines what libtorch_cpu.so defines",
    ]
    rules.append("defines what libtorch_python.so defines")
    assert all(any(one.rule.fullmatch(rule) for rule in rules) for one in core_half_differences.load_differences())
