"""Check that virtual functions stand where the core calls them.

A backend that was compiled with other headers than the core's may have one function more in the middle of a class:
each call of a later one lands in its neighbour, and nothing says so. The compiler prints the tables of all classes:
once with the core's headers as the core was compiled, once as the backend and extensions of it are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from decouple.base.errors import DecoupleError
from decouple.base.interpreter import run_python
from decouple.verify.checks import CheckResult
from decouple.verify.venvs import TorchEnvironment

#: Classes through which the core calls a backend on the CUDA key.
HEADERS = (
    "ATen/detail/CUDAHooksInterface.h",
    "ATen/core/Generator.h",
    "c10/core/Allocator.h",
    "c10/core/impl/DeviceGuardImplInterface.h",
)
_PROGRAM = """
import json, os, subprocess, sys, tempfile
headers, variables = json.loads(sys.argv[1])
os.environ.update(variables)
import torch
from torch.utils import cpp_extension
own = os.path.join(os.path.dirname(torch.__file__), "include")
def read_tables(folders, flags):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "probe.cpp"), "w") as source:
            source.write("".join(f"#include <{name}>\\n" for name in headers))
        command = ["c++", "-std=c++17", "-fsyntax-only", "-w", "-fdump-lang-class=tables", *flags]
        subprocess.run([*command, *(f"-isystem{path}" for path in folders), "probe.cpp"], cwd=folder, check=True)
        with open(os.path.join(folder, "tables")) as text:
            return "\\n\\n".join(block for block in text.read().split("\\n\\n") if block.startswith("Vtable for "))
flags = cpp_extension.COMMON_HIP_FLAGS if cpp_extension.IS_HIP_EXTENSION else []
core = read_tables([own, os.path.join(own, "torch/csrc/api/include")], [])
print(json.dumps([core, read_tables(cpp_extension.include_paths("cuda"), flags)]))
"""
_SLOT = re.compile(r"^\d+ +(?:\(int \(\*\)\(\.\.\.\)\))?(.*)$")

Tables = Mapping[str, tuple[str, ...]]


def check_virtual_functions(both: TorchEnvironment, variables: Mapping[str, str]) -> CheckResult:
    """Compare the tables as the core has them and as code for the backend sees them.

    ``variables`` are those that the compiler of an extension needs. Raises DecoupleError where it fails.
    """
    done = run_python([*both.prefix, "-c", _PROGRAM, json.dumps([HEADERS, dict(variables)])])
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no word"]
        raise DecoupleError(
            f"{both.name}: no tables of classes: {next((line for line in lines if 'error:' in line), lines[-1])}",
            next_step="is g++ there? clang++ does not print them",
        )
    core, backend = (parse_tables(text) for text in json.loads(done.stdout.splitlines()[-1]))
    moved = list_moved(core, backend)
    compared = sum(bool(core[name]) for name in core.keys() & backend.keys())
    return CheckResult(
        "virtual functions stand where the core calls them",
        bool(compared) and not moved,
        "; ".join(moved) or f"{compared} classes",
    )


def parse_tables(text: str) -> Tables:
    """Return each class with its entries, as g++ ``-fdump-lang-class`` prints them."""
    blocks = (block.splitlines() for block in text.split("\n\n") if block.startswith("Vtable for "))
    return {
        lines[0].removeprefix("Vtable for "): tuple(match[1] for line in lines[2:] if (match := _SLOT.match(line)))
        for lines in blocks
    }


def list_moved(core: Tables, backend: Tables) -> list[str]:
    """Return a line for each class in which an entry of the core's is another one's.

    Entries behind all of the core's move none.
    """
    lines = []
    for name in sorted(core.keys() & backend.keys()):
        pairs = enumerate(zip(core[name], [*backend[name], *["nothing"] * len(core[name])], strict=False))
        if found := next(((8 * place, *pair) for place, pair in pairs if pair[0] != pair[1]), None):
            lines.append(f"{name}: at {found[0]} the core has {found[1]}, the backend {found[2]}")
    return lines
