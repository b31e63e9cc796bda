"""How much is left, release by release: patches, changed lines, and the couplings that the census still counts.

The number of patches must shrink as upstream takes things over; this is where one sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from msgspec import Struct, to_builtins

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import read_json
from decouple.patch.size import measure_patch
from decouple.series import check


class BurnDownRow(Struct, frozen=True):
    """A series in figures.

    ``couplings`` is the census's key number after the series, None where no census was given.
    """

    release: str
    patches: int
    own: int
    """Patches with a body of their own; the others are listed from an earlier release."""
    moved: int
    """Files that are renamed."""
    changed: int
    """Lines added and removed in files that stay."""
    quoted: int
    """Upstream lines quoted as context."""
    couplings: int | None = None
    couplings_before: int | None = None


class _KeyNumber(Struct, frozen=True):
    before: int
    after: int


class _VendorSummary(Struct, frozen=True):
    key_number: _KeyNumber


class _Summary(Struct, frozen=True):
    vendors: Mapping[str, _VendorSummary]


class _CensusFile(Struct, frozen=True):
    summary: _Summary


def read_couplings(census: Path, release: str) -> dict[str, tuple[int, int]]:
    """Return each vendor's couplings before and after the series, of what ``decouple census --json`` wrote.

    CUDA's are among them. Raises DecoupleError.
    """
    mend = f"decouple census {release} --json FILE"
    vendors = read_json(census, _CensusFile, mend=mend).summary.vendors
    if "cuda" not in vendors:
        raise DecoupleError(f"{census}: summary.vendors has no cuda", next_step=mend)
    return {word: (one.key_number.before, one.key_number.after) for word, one in vendors.items()}


def measure_series(project: Path, release: str, census: Path | None = None) -> BurnDownRow:
    """Measure one series.

    Raises DecoupleError when a patch or the census file cannot be read.
    """
    patches = check.load_series(project, release)
    sizes = [measure_patch(patch.name, patch) for patch in patches]
    before = after = None
    if census is not None:
        before, after = read_couplings(census, release)["cuda"]
    return BurnDownRow(
        release=release,
        patches=len(patches),
        own=sum(patch.name.startswith(f"{release}/") for patch in patches),
        moved=sum(size.renames for size in sizes),
        changed=sum(size.added + size.removed for size in sizes),
        quoted=sum(size.context for size in sizes),
        couplings=after,
        couplings_before=before,
    )


def render_json(rows: Sequence[BurnDownRow]) -> str:
    """Write one JSON object per series."""
    return json.dumps(to_builtins(rows), indent=1) + "\n"


def render_svg(rows: Sequence[BurnDownRow]) -> str:
    """Draw bars of patches and of changed lines, side by side, one group per release.

    The drawing has labels and no script.
    """
    measures: Mapping[str, list[int]] = {
        "patches": [one.patches for one in rows],
        "changed lines": [one.changed for one in rows],
        "couplings left": [one.couplings or 0 for one in rows],
    }
    width, height, gap, left = 40 + 60 * len(rows), 150, 40, 10
    parts = []
    for number, (title, values) in enumerate(measures.items()):
        top = number * (height + gap) + 20
        most = max([*values, 1])
        parts.append(f'<text x="{left}" y="{top - 6}" class="title">{escape(title)}</text>')
        for at, (one, value) in enumerate(zip(rows, values, strict=True)):
            bar = round((height - 40) * value / most)
            x, y = left + at * 60, top + height - 20 - bar
            parts.append(f'<rect x="{x}" y="{y}" width="42" height="{bar}"/>')
            parts.append(f'<text x="{x + 21}" y="{y - 3}" class="value">{value}</text>')
            parts.append(f'<text x="{x + 21}" y="{top + height - 6}" class="value">{escape(one.release)}</text>')
    style = (
        "text{font:12px sans-serif;fill:#57606a}.title{font-weight:bold}.value{text-anchor:middle}rect{fill:#2f81f7}"
    )
    total = len(measures) * (height + gap)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" viewBox="0 0 {width} {total}">'
        f"<style>{style}</style>{''.join(parts)}</svg>\n"
    )
