"""Run the toolkit's command.

Call: ``python -m third_device.tools.wrapped_cmake``, or ``python path/to/wrapped_cmake``.
"""

from __future__ import annotations

import sys

if __package__:
    from .commands import main

    if __name__ == "__main__":
        sys.exit(main())
else:  # run as a folder: run again as a module of the package, so that relative imports work
    import runpy
    from pathlib import Path

    here = Path(__file__).resolve().parent
    sys.path[0] = str(here.parent)
    runpy.run_module(here.name, run_name="__main__", alter_sys=True)
