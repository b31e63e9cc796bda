"""Make the page of an index that a person sees first.

It says what is there for which PyTorch, CUDA and Python, and how to install it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from decouple.index.catalog import CatalogEntry
from decouple.index.offer import parse_wheel_name


def render_page(releases: Mapping[str, Sequence[CatalogEntry]]) -> str:
    """Render the landing page as HTML, newest release first.

    No date and no script, so equal input gives equal bytes.
    """
    template = resources.files("decouple.index").joinpath("landing.html").read_text(encoding="utf-8")
    sections = "".join(_render_section(release, releases[release]) for release in reversed(list(releases)))
    return template.replace("<!-- releases -->", sections or "<p>Nothing is published yet.</p>\n")


def _render_section(release: str, entries: Sequence[CatalogEntry]) -> str:
    rows = "".join(
        _render_row(release, entry) for entry in sorted(entries, key=lambda entry: (entry.cuda or "", entry.filename))
    )
    digests = sorted({entry.series_digest for entry in entries if entry.yanked is None})
    series = ", ".join(f"<code>{digest}</code>" for digest in digests) or "none"
    return (
        f'<section id="r{escape(release)}">\n<h2>PyTorch {escape(release)}</h2>\n<p>Series digest: {series}</p>\n'
        "<table>\n<thead><tr><th>File</th><th>CUDA</th><th>Architectures</th><th>Python</th><th>Platform</th>"
        f"<th>Size</th><th></th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</section>\n"
    )


def _render_row(release: str, entry: CatalogEntry) -> str:
    tags = parse_wheel_name(entry.filename)[2]
    pythons = ", ".join(sorted({tag.interpreter for tag in tags}))
    platforms = ", ".join(sorted({tag.platform for tag in tags}))
    address = entry.make_address(release)
    notes = [f'<a href="{escape(address)}.decouple.json">manifest</a>']
    if entry.signed:
        notes.append(f'<a href="{escape(address)}.intoto.json">signed statement</a>')
    if entry.yanked is not None:
        notes.append(f"<strong>yanked</strong>: {escape(entry.yanked) or 'no reason given'}")
    cells = [
        f'<a href="{escape(address)}#sha256={entry.sha256}">{escape(entry.filename)}</a>',
        escape(entry.cuda) if entry.cuda else "none",
        escape(", ".join(entry.arch_list)) or "—",
        escape(pythons),
        escape(platforms),
        f"{entry.size / 2**20:.1f}&nbsp;MiB" if entry.size >= 1 << 20 else f"{entry.size / 2**10:.0f}&nbsp;KiB",
        "; ".join(notes),
    ]
    style = ' class="yanked"' if entry.yanked is not None else ""
    return f"<tr{style}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n"
