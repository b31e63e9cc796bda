"""What must differ on an official wheel's CPU half: a fault with a reason is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import toml
from decouple.verify.audit import ElfAudit, ElfFault
from decouple.verify.checks import CheckResult

_FILE = Path(__file__).with_name("core_half_differences.toml")


class HalfDifference(Struct, frozen=True):
    """An entry of ``core_half_differences.toml``: file, broken rule, and why.

    ``symbols``: where it is given each symbol that breaks the rule matches it.
    """

    file: str
    rule: re.Pattern[str]
    why: str
    symbols: re.Pattern[str] | None = None

    def explains_fault(self, fault: ElfFault) -> bool:
        """Return whether the entry is the reason of ``fault``, of all in it."""
        if self.file != fault.file or not self.rule.fullmatch(fault.rule):
            return False
        return self.symbols is None or all(map(self.symbols.fullmatch, fault.symbols))


class _File(Struct, frozen=True):
    differs: tuple[HalfDifference, ...]


@cache
def load_differences() -> tuple[HalfDifference, ...]:
    """Read ``core_half_differences.toml``."""
    return toml.read_own_table(_FILE, _File).differs


def judge_reports(
    reports: Sequence[ElfAudit], known: Sequence[HalfDifference] | None = None
) -> tuple[list[ElfAudit], list[CheckResult]]:
    """Return the audits without expected faults, and a check for each reason.

    A check passes when there was such a fault.
    """
    reasons = load_differences() if known is None else known
    met: dict[HalfDifference, int] = dict.fromkeys(reasons, 0)

    def is_unexpected(fault: ElfFault) -> bool:
        for reason in reasons:
            if reason.explains_fault(fault):
                met[reason] += 1
                return False
        return True

    left = [replace(report, faults=tuple(filter(is_unexpected, report.faults))) for report in reports]
    lines = [
        CheckResult(
            f"must differ: {reason.file} {reason.rule.pattern}", bool(count), reason.why if count else "it does not now"
        )
        for reason, count in met.items()
    ]
    return left, lines
