"""What the relocated CUDA sources ask of a vendor whose device takes the CUDA key.

>>> from decouple.flows.reuse import ReuseRequest, count_reuse
>>> count_reuse(ReuseRequest(project, "2.6", tree=coupled)).open
()
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.errors import UsageError
from decouple.base.files import write_output
from decouple.device import reuse as counting
from decouple.device.reuse import ReuseReport, VendorNames
from decouple.flows import pristine_tree
from decouple.flows.listener import QUIET, Listener
from decouple.flows.pristine_tree import PristineRequest
from decouple.inventory import rules
from decouple.relocate.plan import make_plan


class ReuseRequest(PristineRequest, frozen=True):
    """Which tree, and a vendor's names (TOML), which ``header`` is then to map."""

    names: Path | None = None
    header: Path | None = None
    toolkit: tuple[Path, ...] = ()
    """Folders of headers: only names that they hold are a library's."""


class ReuseResult(Struct, frozen=True):
    """Report what was counted, and which names given stay ``open``, with use counts."""

    report: ReuseReport
    names: VendorNames | None = None
    open: tuple[tuple[str, int], ...] = ()


def count_reuse(request: ReuseRequest, listener: Listener = QUIET) -> ReuseResult:
    """Count the names, and write the header.

    Raises UsageError where the header has no names to map, DecoupleError.
    """
    if request.header and not request.names:
        raise UsageError("--header needs a vendor's names", next_step="add --names FILE")
    families = counting.load_families()
    names = counting.load_names(request.names) if request.names else None
    declared = counting.read_declared_words(request.toolkit, families.headers) if request.toolkit else None
    tree = pristine_tree.fetch_tree(request, listener)
    paths = list(make_plan(tree, rules.load_rules()).mapping)
    listener.progress.start("files", len(paths))
    report = counting.count_names(tree, paths, families, declared=declared, on_file=listener.progress.advance)
    listener.progress.finish()
    if names is None:
        return ReuseResult(report)
    if request.header:
        write_output(request.header, counting.format_header(report, names, f"PyTorch {request.release}"))
    return ReuseResult(report, names, tuple(report.list_open_names(names)))
