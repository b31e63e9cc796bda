"""``python -m tests.support.stopped MODULE ARGUMENTS``: run a module that can be killed right before its writes.

With ``KILL_AT=N`` the N-th call of ``decouple.base.steps.mark_step`` ends the process with SIGKILL, as a power cut
would; with ``TRACE_STEPS=FILE`` each call's name is appended to FILE, so that a test knows how many there are.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

from decouple.base import steps


def arm() -> None:
    """Do from here on what the variables say."""
    kill_at = int(os.environ.pop("KILL_AT", "0"))
    trace = os.environ.pop("TRACE_STEPS", "")
    count = 0

    def told(name: str) -> None:
        nonlocal count
        count += 1
        if trace:
            with open(trace, "a", encoding="utf-8") as out:  # noqa: PTH123 - as little as can be
                out.write(f"{name}\n")
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if kill_at or trace:
        steps.observe_steps(told)


def main() -> None:
    """Take the module's name off the arguments and be that module."""
    arm()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
