"""Write results as JUnit XML, the format that CI hosts read."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from decouple.base.files import write_atomically
from decouple.suites.store import SuiteResult


def write_junit(results: Iterable[SuiteResult], path: Path) -> None:
    """Write one ``testsuite`` per suite and one ``testcase`` per test.

    Characters that XML cannot hold are replaced.
    """
    root = ElementTree.Element("testsuites")
    ordered = sorted(results, key=lambda result: (result.suite, result.id))
    for suite, members in groupby(ordered, key=lambda result: result.suite):
        suite_results = list(members)
        failures = [result for result in suite_results if result.outcome in ("failed", "too slow", "died")]
        element = ElementTree.SubElement(
            root,
            "testsuite",
            name=suite,
            tests=str(len(suite_results)),
            failures=str(len(failures)),
            skipped=str(sum(result.outcome in ("skipped", "xfailed") for result in suite_results)),
            time=f"{sum(result.seconds for result in suite_results):.3f}",
        )
        for result in suite_results:
            class_name, _, name = result.id.rpartition("::")
            case = ElementTree.SubElement(
                element,
                "testcase",
                classname=_replace_unprintable(class_name),
                name=_replace_unprintable(name),
                time=f"{result.seconds:.3f}",
            )
            if result in failures:
                ElementTree.SubElement(case, "failure", type=result.outcome, message=_replace_unprintable(result.why))
            elif result.outcome in ("skipped", "xfailed"):
                ElementTree.SubElement(case, "skipped", type=result.outcome, message=_replace_unprintable(result.why))
    ElementTree.indent(root)
    write_atomically(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _replace_unprintable(text: str) -> str:
    return "".join(character if character.isprintable() or character in "\n\t" else "?" for character in text)
