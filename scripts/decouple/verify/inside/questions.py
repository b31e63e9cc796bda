"""Ask an installed torch the questions of the patches.

It runs in a process of its own, with that torch on its path. Argument: a JSON list of programs; each leaves its answer
in ``answer``. Prints a line of JSON behind a mark for what torch this is, and one for each answer, so that what a torch
prints by itself does no harm and a death loses one answer. Uses only torch and the standard library, and so does the
module of ours that it imports: ``scripts`` is on the path.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

from decouple.release.installed_wheels import list_series

MARK = "decouple:"


def find_kind(torch: Any) -> str:
    """Find which core is under which kernels.

    A word of ``decouple.verify.patches.KINDS``.
    """
    if has_package("torch._decoupled"):
        return "patched" if has_package("torch_cuda") else "core"
    if has_package("torch_cuda"):
        return "half" if has_package("torch_core_half") else "unpatched"
    return "single" if torch.version.cuda else "cpu"


def has_package(name: str) -> bool:
    """Return whether it is installed, not merely a folder that pip left behind."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def run_program(torch: Any, program: str) -> str:
    """Return what the program left, or its error in one line."""
    names: dict[str, Any] = {"torch": torch}
    try:
        exec(program, names)
        return str(names["answer"])
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        return f"{type(error).__name__}: {first}"


def print_answer(found: object) -> None:
    """Return one line, at once: the next question may end the process."""
    print(f"{MARK}{json.dumps(found)}", flush=True)


def main() -> None:
    """Import torch, ask, tell."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    head = {"torch": torch.__version__, "kind": find_kind(torch), "device": torch.cuda.is_available()}
    print_answer({**head, "series": list_series()})
    for program in json.loads(sys.argv[1]):
        print_answer(run_program(torch, program))


if __name__ == "__main__":
    main()
