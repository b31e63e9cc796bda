"""End every command with one line and an exit code, never with a traceback."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence

from decouple.base.errors import CANNOT_HERE, CHECK_FAILED, FAULT, INTERRUPTED, DecoupleError
from decouple.cli.shown import escape_streams, escape_text, hide_secrets, open_closed_streams


def run_to_end(
    run: Callable[[], int], words: Sequence[str], parser: Callable[[Sequence[str]], ArgumentParser] | None = None
) -> int:
    """Return ``run()``'s exit code, or that of the error that it raised.

    Such an error is printed in one line, with what to do next.

    What nobody foresaw is a fault of ours: its traceback goes to a file, whose place is told, and the code is 70.
    ``words`` are the command's arguments, for that file, and ``parser`` tells which options such words may have: no
    other is advised.
    """
    open_closed_streams()
    with escape_streams():
        try:
            code = run()
            sys.stdout.flush()  # here, not when Python ends, where a reader that is gone looks like a fault
            return code
        except DecoupleError as error:
            from decouple.cli.advice import select_fitting  # here: no command that ends well pays for it

            advice = error.next_step
            return _print_fault(
                error.what, select_fitting(advice, words, parser) if advice and parser else advice, error.code
            )
        except BrokenPipeError:  # `| head` has seen enough; what is still buffered must not fail when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return CHECK_FAILED
        except KeyboardInterrupt:
            return _print_fault("interrupted; run the same command again to go on", None, INTERRUPTED)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            return _print_fault(f"{place}{error.strerror or error}", None, CHECK_FAILED)
        except MemoryError:
            return _print_fault("not enough memory", "end other programs, or take a larger machine", CANNOT_HERE)
        except Exception as error:
            message = ": ".join(word for word in (type(error).__name__, str(error)[:300]) if word)
            return _print_fault(
                f"a fault of decouple's own: {message}",
                f"tell its authors; {_write_traceback(error, words)}",
                FAULT,
            )


def _print_fault(message: str, next_step: str | None, code: int) -> int:
    print(f"decouple: {_join_lines(message)}", file=sys.stderr)
    if next_step:
        print(f"  next: {_join_lines(next_step)}", file=sys.stderr)
    return code


def _join_lines(text: str) -> str:
    """Words of others may hold newlines, and with them lines that look like ours."""
    return text.strip().replace("\n", "\\n")


def _write_traceback(error: Exception, words: Sequence[str]) -> str:
    """Write the traceback to a file; returns where."""
    import tempfile  # these here: no command that ends well pays for them
    import traceback
    from datetime import UTC, datetime

    from decouple import __version__
    from decouple.base.paths import find_cache

    lines = traceback.format_exception(error)
    text = f"decouple {__version__}, Python {sys.version.split()[0]}\n{' '.join(words)}\n{''.join(lines)}"
    for folder in (lambda: find_cache() / "faults", lambda: None):
        try:
            place = folder()
            if place:
                place.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            handle, name = tempfile.mkstemp(prefix=f"fault-{stamp}-", suffix=".log", dir=place)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write("".join(escape_text(hide_secrets(line)) for line in text.splitlines(keepends=True)))
            return f"its log is {name}"
        except Exception:  # a full disk, no home: there is another place, and then none
            continue
    return "no disk here takes its log"
