"""How every command ends: one line and an exit code, whatever happened. Nobody is shown a traceback."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence

from decouple.base.errors import CANNOT_HERE, CHECK_FAILED, FAULT, DecoupleError
from decouple.cli.shown import escaping, open_closed_streams

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def ending(
    run: Callable[[], int], words: Sequence[str], parser: Callable[[Sequence[str]], ArgumentParser] | None = None
) -> int:
    """``run()``'s exit code, or that of the error it raised, which is told in one line and what to do next.

    What nobody foresaw is a fault of ours: its traceback goes to a file, whose place is told, and the code is 70.
    ``words`` are the command's arguments, for that file, and ``parser`` tells which options such words may have: no
    other is advised.
    """
    open_closed_streams()
    with escaping():
        try:
            code = run()
            sys.stdout.flush()  # here, not when Python ends, where a reader that is gone looks like a fault
            return code
        except DecoupleError as error:
            from decouple.cli.advice import fitting  # here: no command that ends well pays for it

            advice = error.next_step
            return _say(error.what, fitting(advice, words, parser) if advice and parser else advice, error.code)
        except BrokenPipeError:  # `| head` has seen enough; what is still buffered must not fail when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return CHECK_FAILED
        except KeyboardInterrupt:
            return _say("interrupted; run the same command again to go on", None, INTERRUPTED)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            return _say(f"{where}{error.strerror or error}", None, CHECK_FAILED)
        except MemoryError:
            return _say("not enough memory", "end other programs, or take a larger machine", CANNOT_HERE)
        except Exception as error:
            from decouple.cli import fault_log  # here: no command that ends well pays for it

            what = ": ".join(word for word in (type(error).__name__, str(error)[:300]) if word)
            return _say(
                f"a fault of decouple's own: {what}", f"tell its authors; {fault_log.written(error, words)}", FAULT
            )


def _say(what: str, next_step: str | None, code: int) -> int:
    print(f"decouple: {_one_line(what)}", file=sys.stderr)
    if next_step:
        print(f"  next: {_one_line(next_step)}", file=sys.stderr)
    return code


def _one_line(text: str) -> str:
    """Words of others may hold newlines, and with them lines that look like ours."""
    return text.strip().replace("\n", "\\n")
