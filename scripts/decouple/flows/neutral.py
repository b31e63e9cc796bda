r"""Programs written for ``torch.cuda`` as they would be without naming it.

>>> from decouple.flows.neutral import NeutralRequest, rewrite_programs
>>> program = python / "program.py"
>>> _ = program.write_text("import torch\n\nprint(torch.cuda.device_count())\n")
>>> (done,) = rewrite_programs(NeutralRequest((program,)))
>>> print(done.diff.splitlines()[-1])
+print(torch.accelerator.device_count())
>>> done.left
()
"""

from __future__ import annotations

import difflib
import os
import tokenize
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.device.neutral import RemainingName, rewrite_program
from decouple.patch.lines import split_lines


class NeutralRequest(Struct, frozen=True):
    """Choose the programs.

    ``device`` is for ``torch.NAME`` where torch.accelerator has nothing; ``write`` changes the programs.
    """

    files: tuple[Path, ...]
    device: str = ""
    write: bool = False


class NeutralFile(Struct, frozen=True):
    """One program: the diff, how many places are other, and what still names CUDA."""

    path: Path
    diff: str
    """As git takes it from the current folder. Surrogates stand for bytes that are no UTF-8."""
    changes: int
    left: tuple[RemainingName, ...]


def rewrite_programs(request: NeutralRequest) -> list[NeutralFile]:
    """Rewrite each program in memory or, with ``write``, on disk.

    The disk is written once all programs could be read. Raises DecoupleError when one cannot be read or does not parse;
    then none is changed.
    """
    texts = {path: _read_program(path) for path in request.files}
    made = {path: rewrite_program(text, device=request.device, file=str(path)) for path, text in texts.items()}
    done = []
    for path, text in texts.items():
        before = path.read_bytes()
        after = made[path].text.encode(_detect_encoding(path)) if made[path].text != text else before
        if request.write and after != before:
            mode = path.stat().st_mode & 0o7777
            write_atomically(path.resolve(), after, mode=mode)  # a link to a program stays one
        done.append(NeutralFile(path, _make_diff(path, before, after), made[path].changes, made[path].left))
    return done


def _make_diff(path: Path, before: bytes, after: bytes) -> str:
    old, new = (split_lines(data.decode("utf-8", "surrogateescape")) for data in (before, after))
    here, whole = Path.cwd(), Path(os.path.normpath(path.absolute()))  # git refuses a name with ".." in it
    name = whole.relative_to(here) if whole.is_relative_to(here) else Path(*whole.parts[1:])
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _detect_encoding(path: Path) -> str:
    """Return what the file itself says that its encoding is."""
    with path.open("rb") as file:
        return tokenize.detect_encoding(file.readline)[0]


def _read_program(path: Path) -> str:
    try:
        return path.read_bytes().decode(_detect_encoding(path))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise DecoupleError(f"{path}: {error}", next_step="name files of Python") from None
