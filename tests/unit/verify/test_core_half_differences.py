"""On the CPU half of the official wheel some faults must be; any other counts, and so does a reason for none."""

from __future__ import annotations

import re

from decouple.verify import core_half_differences
from decouple.verify.audit import ElfAudit, ElfFault
from decouple.verify.core_half_differences import HalfDifference

KNOWN = [HalfDifference("libtorch_python.so", re.compile("needs .*"), "upstream compiled it with CUDA")]


def test_a_fault_with_a_reason_is_none_and_any_other_stays() -> None:
    must = ElfFault("libtorch_python.so", "needs a CUDA library", "libtorch_cuda.so")
    new = ElfFault("libc10.so", "needs a CUDA library", "libcudart.so.12")
    (left,), (line,) = core_half_differences.judge_reports([ElfAudit("core without CUDA", 2, 9, (must, new))], KNOWN)
    assert left.faults == (new,)
    assert line.passed and line.observed == "upstream compiled it with CUDA"


def test_a_reason_for_a_fault_that_is_not_there_fails() -> None:
    _, (line,) = core_half_differences.judge_reports([ElfAudit("core without CUDA", 2, 9, ())], KNOWN)
    assert not line.passed


def test_every_shipped_reason_names_a_rule_of_the_audit() -> None:
    rules = ["needs a CUDA library", "names CUDA symbols", "undefined", "defines what libtorch_cpu.so defines"]
    rules.append("defines what libtorch_python.so defines")
    assert all(any(one.rule.fullmatch(rule) for rule in rules) for one in core_half_differences.load_differences())
