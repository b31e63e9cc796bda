"""A new backend from ``third_device/template``, and an old one brought up to a newer template.

The template is a project like any other, for a device called ``newdevice``; in a path or a text that stands for the
name. What was rendered is kept in ``.scaffold.json`` beside the result, so that a later run can merge three ways, as a
rebase does: what the vendor changed stays, what the template changed comes in, and where both changed the same lines
there are conflict markers.
"""

from __future__ import annotations

import json
import keyword
import re
import tempfile
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.fault import step
from decouple.base.files import write_atomically
from decouple.base.git import GitError, ask
from decouple.base.outside import JSON_BOUND, parse_json, read_bounded

PLACEHOLDER = "newdevice"
RECORD = ".scaffold.json"

#: device types that PyTorch has already (c10/core/DeviceType.h), and names of the language or of torch itself
RESERVED = frozenset(
    [
        "cpu",
        "cuda",
        "mkldnn",
        "opengl",
        "opencl",
        "ideep",
        "hip",
        "fpga",
        "maia",
        "ort",
        "xla",
        "vulkan",
        "metal",
        "xpu",
        "mps",
        "meta",
        "hpu",
        "ve",
        "lazy",
        "ipu",
        "mtia",
        "privateuseone",
        "newdevice",
    ]
)

#: words of C++ and namespaces of torch's own that a name could be: it becomes a namespace of the kernels
CPP = frozenset([
    "alignas", "alignof", "asm", "at", "auto", "bitand", "bitor", "bool", "c10", "case", "catch", "char",
    "compl", "concept", "const", "consteval", "constexpr", "constinit", "decltype", "default", "delete", "do",
    "double", "enum", "explicit", "export", "extern", "false", "float", "friend", "goto", "inline", "int",
    "long", "mutable", "namespace", "new", "noexcept", "nullptr", "operator", "private", "protected", "public",
    "register", "requires", "short", "signed", "sizeof", "static", "std", "struct", "switch", "template",
    "this", "throw", "torch", "true", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
    "void", "volatile", "xor",
])  # fmt: skip


class Scaffolded(Struct, frozen=True):
    """What one run did, as paths below ``folder``."""

    folder: Path
    created: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def check_name(name: str) -> str:
    """``name`` if a device can be called so. Raises UsageError."""
    if not re.fullmatch(r"[a-z][a-z0-9]*", name):
        raise UsageError(f"device name {name!r}: lower-case letters and digits, a letter first", next_step="e.g. acme")
    if name in RESERVED | CPP or keyword.iskeyword(name):
        raise UsageError(f"device name {name!r} is taken by PyTorch, Python or C++", next_step="choose another")
    return name


def render(template: Path, name: str) -> dict[str, str]:
    """Every file of the template for the device ``name``: relative path -> text. Raises DecoupleError, UsageError."""
    check_name(name)
    made = {
        path.relative_to(template).as_posix().replace(PLACEHOLDER, name): path.read_text(encoding="utf-8").replace(
            PLACEHOLDER, name
        )
        for path in sorted(template.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    if not made:
        raise DecoupleError(f"no template in {template}", next_step="run this in a checkout of the project")
    return made


def scaffold(template: Path, folder: Path, name: str) -> Scaffolded:
    """Make or update the backend ``name`` in ``folder`` from ``template``.

    Raises DecoupleError when ``folder`` holds files that no run of this made, UsageError for a bad name, OSError.
    """
    wanted = render(template, name)
    record = folder / RECORD
    base = _read_record(record)
    if base is None:
        strangers = sorted(path for path in wanted if (folder / path).exists() and _text(folder / path) != wanted[path])
        if strangers:
            raise DecoupleError(
                f"{folder / strangers[0]} exists and did not come from the template",
                next_step=f"move {folder} away, or choose another name",
            )
        base = {}
    done: dict[str, list[str]] = {"created": [], "merged": [], "unchanged": [], "removed": [], "conflicts": []}
    for path, text in wanted.items():
        done[_bring(folder / path, base.get(path), text)].append(path)
    for path in sorted(set(base) - set(wanted)):
        if (folder / path).exists() and _text(folder / path) == base[path]:
            step(f"remove {path}")
            (folder / path).unlink()
            done["removed"].append(path)
    document = {"name": name, "files": wanted}
    write_atomically(record, json.dumps(document, indent=1, sort_keys=True) + "\n")
    return Scaffolded(folder, **{key: tuple(paths) for key, paths in done.items()})


def _read_record(record: Path) -> dict[str, str] | None:
    if not record.exists():
        return None
    try:
        files = parse_json(read_bounded(record, JSON_BOUND))["files"]
        return {str(path): str(text) for path, text in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DecoupleError(f"{record}: not a record of the scaffold", next_step="restore it from git") from error


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _bring(path: Path, base: str | None, wanted: str) -> str:
    """Bring one file to the new template; returns what happened, as a field of Scaffolded."""
    if not path.exists():
        if base is not None:  # the vendor removed it
            return "unchanged"
        write_atomically(path, wanted)
        return "created"
    mine = _text(path)
    if mine == wanted or base == wanted:
        return "unchanged"
    if mine == base:
        write_atomically(path, wanted)
        return "merged"
    merged, clean = merge(mine, base or "", wanted)
    write_atomically(path, merged)
    return "merged" if clean else "conflicts"


def merge(mine: str, base: str, theirs: str) -> tuple[str, bool]:
    """Three-way merge by git; the text, and False if it has conflict markers. Raises DecoupleError without git."""
    with tempfile.TemporaryDirectory() as scratch:
        files = [Path(scratch) / label for label in ("yours", "base", "template")]
        for file, text in zip(files, (mine, base, theirs), strict=True):
            file.write_text(text, encoding="utf-8")
        labels = ("-L", "yours", "-L", "base", "-L", "template")
        done = ask("merge-file", "-p", *labels, *map(str, files), cwd=Path(scratch))
    if done.status < 0 or done.status > 127:
        raise GitError("git merge-file", done, next_step="run the same command again")
    return done.out.decode("utf-8"), done.status == 0
