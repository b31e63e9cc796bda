"""Record attributes of PyTorch that a program could change, and did change."""

from __future__ import annotations

import sys
import types

import torch

Trace = dict[str, dict[str, object]]


def trace() -> Trace:
    """Record attributes of PyTorch's and threading's modules, classes, registries."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("torch", "threading") and isinstance(module, types.ModuleType)
    ]
    found: Trace = {}
    for module in modules:
        held = dict(object.__getattribute__(module, "__dict__"))
        found[f"module {module.__name__}"] = {**held, "__class__": type(module)}
        for name, value in held.items():
            if isinstance(value, type) and str(vars(value).get("__module__")).partition(".")[0] in (
                "torch",
                "threading",
            ):
                found[f"class {module.__name__}.{name}"] = dict(vars(value))
    found["torch.device"] = dict(vars(torch.device))
    found["deserializers"] = {str(place): entry for place, entry in enumerate(torch.serialization._package_registry)}
    found["modes"] = {str(place): mode for place, mode in enumerate(torch.overrides._get_current_function_mode_stack())}
    return found


def changes(before: Trace, after: Trace) -> list[str]:
    """List what is no longer the same object, is gone or was added.

    Modules that were first imported meanwhile are not listed.
    """
    told = []
    for owner, held in before.items():
        now = after.get(owner)
        if now is None:
            told.append(f"{owner} is gone")
            continue
        for name in sorted(held.keys() | now.keys()):
            if (
                name in ("__warningregistry__", "__cached__", "next_id", "__slotnames__")  # the last is copyreg's cache
                or f"{owner}.{name}" == "module threading.excepthook"  # pytest's own before 8.4: one for each phase
                or f"module {owner.removeprefix('module ')}.{name}" in after
            ):
                continue
            if held.get(name, changes) is not now.get(name, changes):
                told.append(f"{owner}.{name}")
    return told
