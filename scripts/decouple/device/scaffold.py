"""Make a new backend from ``third_device/template``, or update an old one.

An old one is brought up to a newer template. A vendor that takes the CUDA key gets ``third_device/template_key``, a
thin folder beside ``torch_cuda``.

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
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import write_atomically
from decouple.base.git import GitError, try_git
from decouple.base.path_names import RelativePath, locate_path
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import JSON_BOUND, read_bounded, read_json

PLACEHOLDER = "newdevice"
RECORD = ".scaffold.json"

_FILE = Path(__file__).with_name("taken.toml")


class ReservedNames(Struct, frozen=True):
    """Names that others have."""

    by: str
    names: frozenset[str]
    begin: bool = False
    """Whether a name is taken as well that begins with one of these, or that one of these begins with: PyTorch tests
    only the beginning of them."""

    def has(self, name: str) -> bool:
        """Say whether a device called ``name`` would meet one of these."""
        if self.begin:
            return any(name.startswith(reserved) or reserved.startswith(name) for reserved in self.names)
        return name in self.names


class _ReservedFile(Struct, frozen=True):
    taken: tuple[ReservedNames, ...]


class _ScaffoldRecord(Struct, frozen=True):
    """``.scaffold.json``: the device, and each file's text as the template had it."""

    name: str
    files: Mapping[RelativePath, str]
    key: str = ""
    """The dispatch key, which says of which template the files are; records were made without it, too."""

    def find_key(self) -> str:
        """Return the dispatch key of the backend."""
        return self.key or ("PrivateUse1" if "operators.yaml" in self.files else "CUDA")


class ScaffoldResult(Struct, frozen=True):
    """What one run did, as paths below ``folder``."""

    folder: Path
    created: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def check_name(name: str) -> str:
    """Return a usable device ``name``. Raises UsageError that says who has it."""
    if not re.fullmatch(r"[a-z]+", name):  # PyTorch reads no digit in a device string (c10/core/Device.cpp)
        raise UsageError(f"device name {name!r}: lower-case letters alone", next_step="e.g. acme")
    for reserved in toml.read_own_table(_FILE, _ReservedFile).taken:
        if reserved.has(name):
            raise UsageError(f"device name {name!r} is taken by {reserved.by}", next_step="choose another, e.g. acme")
    if keyword.iskeyword(name):
        raise UsageError(f"device name {name!r} is a word of Python", next_step="choose another, e.g. acme")
    return name


def render_template(template: Path, name: str) -> dict[str, str]:
    """Render the template for the device ``name``.

    Returns relative path -> text of every file. In capitals the word stands for the name in capitals. Raises
    DecoupleError.
    """

    def put_name(text: str) -> str:
        return text.replace(PLACEHOLDER, name).replace(PLACEHOLDER.upper(), name.upper())

    made = {
        put_name(path.relative_to(template).as_posix()): put_name(path.read_text(encoding="utf-8"))
        for path in sorted(template.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    if not made:
        raise DecoupleError(f"no template in {template}", next_step="run this in a checkout of the project")
    return made


def scaffold_backend(template: Path, folder: Path, name: str, key: str = "PrivateUse1") -> ScaffoldResult:
    """Make or update the backend ``name`` in ``folder`` from ``template``.

    ``key`` is the dispatch key that the template is for. Nothing is written when it raises: UsageError for a name that
    is taken, or a folder of another device's or key's; DecoupleError when ``folder`` holds files that no run of this
    made, or links or FIFOs in their place; OSError.
    """
    check_name(name)
    wanted = render_template(template, name)
    base = _read_record(folder, name, key)
    mine = {path: text for path in {**wanted, **base} if (text := _read_text(locate_path(folder, path))) is not None}
    if not base:
        strangers = sorted(path for path in wanted if mine.get(path, wanted[path]) != wanted[path])
        if strangers:
            raise DecoupleError(
                f"{folder / strangers[0]} exists and did not come from the template",
                next_step=f"move {folder} away, or choose another name",
            )
    done: dict[str, list[str]] = {"created": [], "merged": [], "unchanged": [], "removed": [], "conflicts": []}
    for path, text in wanted.items():
        done[_update_file(folder / path, mine.get(path), base.get(path), text)].append(path)
    for path in sorted(set(base) - set(wanted)):
        if path in mine and _split_ends(mine[path])[1] == base[path]:
            mark_step(f"remove {path}")
            (folder / path).unlink()
            done["removed"].append(path)
    document = {"name": name, "key": key, "files": wanted}
    write_atomically(folder / RECORD, json.dumps(document, indent=1, sort_keys=True) + "\n")
    return ScaffoldResult(folder, **{key: tuple(paths) for key, paths in done.items()})


def _read_record(folder: Path, name: str, key: str) -> Mapping[str, str]:
    """Read the texts of the last run for the device ``name`` on ``key``.

    None where ``folder`` is new.
    """
    path = locate_path(folder, RECORD)
    if not path.exists():
        return {}
    record = read_json(path, _ScaffoldRecord, mend="restore it from git")
    if record.name != name:
        raise UsageError(f"{folder} is the backend {record.name!r}", next_step=f"name another folder for {name!r}")
    if record.find_key() != key:  # its files would go for the other template's
        raise UsageError(
            f"{folder} is the backend {name!r} on the key {record.find_key()}, not {key}",
            next_step=f"--key {record.find_key()}, or another folder: --into FOLDER",
        )
    return record.files


def _read_text(path: Path) -> str | None:
    """Read the text of a file; None where there is none."""
    try:
        return read_bounded(path, JSON_BOUND).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise DecoupleError(f"{path}: not UTF-8: {error.reason}", next_step="move it away, or restore it") from None


def _update_file(path: Path, mine: str | None, base: str | None, wanted: str) -> str:
    """Bring one file, which now is ``mine``, to the new template; its line ends stay.

    Returns what happened, as a field of ScaffoldResult.
    """
    if mine is None:
        if base is not None:  # the vendor removed it
            return "unchanged"
        write_atomically(path, wanted)
        return "created"
    ends, mine = _split_ends(mine)
    if wanted in (mine, base):
        return "unchanged"
    merged, clean = (wanted, True) if mine == base else merge_texts(mine, base or "", wanted)
    write_atomically(path, merged.replace("\n", ends))
    return "merged" if clean else "conflicts"


def _split_ends(text: str) -> tuple[str, str]:
    """Return the line end of a text, and the text as the template has it.

    Git may have made the line end that of Windows.
    """
    ends = "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"
    return ends, text.replace(ends, "\n")


def merge_texts(mine: str, base: str, theirs: str) -> tuple[str, bool]:
    """Merge three ways by git; return the text, and whether it is clean.

    It is False if the text has conflict markers. Raises DecoupleError without git.
    """
    with tempfile.TemporaryDirectory() as scratch:
        files = [Path(scratch) / label for label in ("yours", "base", "template")]
        for file, text in zip(files, (mine, base, theirs), strict=True):
            file.write_text(text, encoding="utf-8")
        labels = ("-L", "yours", "-L", "base", "-L", "template")
        done = try_git("merge-file", "-p", *labels, *map(str, files), cwd=Path(scratch))
    if done.status < 0 or done.status > 127:
        raise GitError("git merge-file", done, next_step="run the same command again")
    return done.out.decode("utf-8"), done.status == 0
