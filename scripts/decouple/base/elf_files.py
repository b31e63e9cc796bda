"""ELF files by pyelftools, which trusts most of what a file says: what it raises for a damaged one, in one line."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from decouple.base.errors import DecoupleError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_FAULTS = (struct.error, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What pyelftools raises for a damaged file beside its own: it trusts most fields. So is an OSError without a name."""


@contextlib.contextmanager
def open_elf(path: Path, mend: str = "build it again") -> Iterator[ELFFile]:
    """Open an ELF file for pyelftools; ``mend`` is the next step to tell.

    Raises DecoupleError for what the file turns out to be in the ``with``, OSError when it cannot be opened.
    """
    from elftools.common.exceptions import ELFError  # of an extra, which not every command has
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        try:
            yield ELFFile(file)
        except (ELFError, *_FAULTS) as error:
            raise DecoupleError(f"{path}: not a readable ELF file: {error}", next_step=mend) from error
        except OSError as error:
            if error.filename is not None:
                raise
            raise DecoupleError(f"{path}: not a readable ELF file: {error}", next_step=mend) from error
