"""What must be different on the CPU half of an official wheel: a fault with a reason is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import toml
from decouple.verify.audit import ElfAudit, ElfFault
from decouple.verify.checks import Promise

_FILE = Path(__file__).with_name("half.toml")


class Differs(Struct, frozen=True):
    """One entry of ``half.toml``: a file, a pattern of the rule that it breaks, and why it must."""

    file: str
    rule: re.Pattern[str]
    why: str


class _File(Struct, frozen=True):
    differs: tuple[Differs, ...]


@cache
def rules() -> tuple[Differs, ...]:
    """The parsed file."""
    return toml.read(_FILE, _File, mend=f"git checkout {_FILE}").differs


def judged(reports: Sequence[ElfAudit], known: Sequence[Differs] | None = None) -> tuple[list[ElfAudit], list[Promise]]:
    """The audits without the faults that must be, and a line for each reason: kept when there was such a fault."""
    reasons = rules() if known is None else known
    met: dict[Differs, int] = dict.fromkeys(reasons, 0)

    def unexpected(fault: ElfFault) -> bool:
        for one in reasons:
            if one.file == fault.file and one.rule.fullmatch(fault.rule):
                met[one] += 1
                return False
        return True

    left = [replace(report, faults=tuple(filter(unexpected, report.faults))) for report in reports]
    lines = [
        Promise(f"must differ: {one.file} {one.rule.pattern}", bool(count), one.why if count else "it does not now")
        for one, count in met.items()
    ]
    return left, lines
