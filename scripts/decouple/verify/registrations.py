"""Operators that torchgen writes registrations for.

They are compared with those that an installed torch has on that key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.interpreter import run_python
from decouple.verify.parity import Parity
from decouple.verify.venvs import TorchEnvironment

_BLOCK = re.compile(r"^TORCH_LIBRARY_IMPL\((\w+), (\w+), m\) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'\bm\.impl\(\s*"([^"]+)"')
_ASK = """
import json, sys, torch
wanted = json.loads(sys.argv[1])
names, has = torch._C._dispatch_get_all_op_names(), torch._C._dispatch_has_kernel_for_dispatch_key
print(json.dumps({key: sorted(name for name in names if has(name, key)) for key in wanted}))
"""


def read_registrations(folder: Path) -> dict[str, frozenset[str]]:
    """Read the files ``Register*.cpp`` of torchgen in ``folder``.

    Returns dispatch key -> the operators, with their namespace. Raises DecoupleError where they register nothing.
    """
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("Register*.cpp")):
        for space, key, text in _BLOCK.findall(path.read_text(encoding="utf-8")):
            found.setdefault(key, set()).update(f"{space}::{name}" for name in _NAME.findall(text))
    if not any(found.values()):
        raise DecoupleError(f"{folder}: no registration in it", next_step="build it again")
    return {key: frozenset(names) for key, names in sorted(found.items())}


def compare_registrations(torch: TorchEnvironment, wanted: Mapping[str, frozenset[str]]) -> list[Parity]:
    """Compare what ``torch`` has kernels of with ``wanted``, key by key.

    More than that is no fault. Raises DecoupleError when torch cannot be imported.
    """
    done = run_python([*torch.prefix, "-c", _ASK, json.dumps(sorted(wanted))])
    if done.returncode:
        raise DecoupleError(
            f"{torch.name}: torch is not imported: {(done.stderr.splitlines() or ['no word'])[-1]}",
            next_step="look at what the linker misses: LD_DEBUG=libs",
        )
    has = {key: frozenset(names) for key, names in json.loads(done.stdout.splitlines()[-1]).items()}
    return [
        Parity(f"operators on {key}", len(names), tuple(sorted(names - has[key])), ()) for key, names in wanted.items()
    ]
