"""Write a manifest as TOML: same manifest, same bytes, and it reads back equal."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict

from decouple.base.toml import SCHEMA, format_string
from decouple.release.manifest import NOT_KNOWN, Manifest, RemoteFile

PINS = ("tree", "patched_tree")
"""Keys that a manifest leaves out where they are not known: what an earlier one had was made by unpacking."""
_HEAD = """\
# PyTorch {version}: facts read off published files. Written by `decouple manifest fill {release} --write`, and only by
# it: what is edited by hand is overwritten. "{not_known}" stands where a fact could not be read; nothing is guessed.
# `auto` tries the sources in the order in which they stand here.

"""


def render_manifest(manifest: Manifest) -> str:
    """Render the text of ``series/<release>.toml``."""
    lines = [f"schema = {SCHEMA}"]
    for name in ("release", "version", "tag", "commit"):
        lines.append(f"{name} = {_render_value(getattr(manifest, name))}")
    for source in manifest.sources:
        lines += ["", "[[source]]", f"provider = {_render_value(source.provider)}"]
        values = {name: value for name, value in asdict(source).items() if value is not None or name not in PINS}
        lines += [
            f"{name} = {_render_value(value)}" for name, value in values.items() if not isinstance(value, RemoteFile)
        ]
        for name, value in values.items():
            if isinstance(value, RemoteFile):
                lines += ["", f"[source.{name}]", *_render_table(value)]
    lines += ["", "[toolchain]", *_render_table(manifest.toolchain)]
    head = _HEAD.format(version=manifest.version, release=manifest.release, not_known=NOT_KNOWN)
    return head + "\n".join(lines) + "\n"


def _render_table(item: Struct) -> list[str]:
    return [f"{name} = {_render_value(value)}" for name, value in asdict(item).items()]


def _render_value(value: object) -> str:
    if value is None:
        return _render_value(NOT_KNOWN)
    if isinstance(value, tuple):
        if sum(len(str(item)) + 4 for item in value) < 90:
            return f"[{', '.join(_render_value(item) for item in value)}]"
        return "[\n" + "".join(f"    {_render_value(item)},\n" for item in value) + "]"
    if isinstance(value, int):
        return str(value)
    return format_string(str(value))
