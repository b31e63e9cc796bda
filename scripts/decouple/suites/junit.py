"""Results as JUnit XML, as CI hosts read it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from decouple.base.files import write_atomically
from decouple.suites.store import SuiteResult


def write(results: Iterable[SuiteResult], path: Path) -> None:
    """One ``testsuite`` per suite, one ``testcase`` per test; what XML cannot say is replaced."""
    root = ElementTree.Element("testsuites")
    ordered = sorted(results, key=lambda one: (one.suite, one.id))
    for suite, members in groupby(ordered, key=lambda one: one.suite):
        found = list(members)
        bad = [one for one in found if one.outcome in ("failed", "too slow", "died")]
        element = ElementTree.SubElement(
            root,
            "testsuite",
            name=suite,
            tests=str(len(found)),
            failures=str(len(bad)),
            skipped=str(sum(one.outcome in ("skipped", "xfailed") for one in found)),
            time=f"{sum(one.seconds for one in found):.3f}",
        )
        for one in found:
            where, _, name = one.id.rpartition("::")
            case = ElementTree.SubElement(
                element, "testcase", classname=_clean(where), name=_clean(name), time=f"{one.seconds:.3f}"
            )
            if one in bad:
                ElementTree.SubElement(case, "failure", type=one.outcome, message=_clean(one.why))
            elif one.outcome in ("skipped", "xfailed"):
                ElementTree.SubElement(case, "skipped", type=one.outcome, message=_clean(one.why))
    ElementTree.indent(root)
    write_atomically(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _clean(text: str) -> str:
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text)
