"""Says as JSON what an installed torch offers for CUDA. Runs in a process of its own, with that torch on its path.

Arguments: a JSON object with dispatch_keys, binding_words and modules. Needs no GPU and uses only torch and the
standard library. Output goes to the file named by the second argument, because importing torch may print.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from typing import Any


def registrations(torch: Any, keys: list[str]) -> dict[str, list[str]]:
    """Dispatch key -> operators with a kernel registered for it."""
    return {key: sorted(set(torch._C._dispatch_get_registrations_for_dispatch_key(key))) for key in keys}


def bindings(torch: Any, words: list[str]) -> list[str]:
    """Names under torch._C that speak of CUDA: its own, those of its sub-modules, and the members of their classes."""
    found: set[str] = set()
    modules = [("", torch._C)]
    known = {id(torch._C)}
    while modules:
        path, module = modules.pop()
        for name in dir(module):
            value, dotted = getattr(module, name), f"{path}{name}"
            if inspect.ismodule(value):
                if id(value) not in known and value.__name__.startswith("torch."):
                    known.add(id(value))
                    modules.append((f"{dotted}.", value))
            elif inspect.isclass(value):
                members = (member for member in dir(value) if not member.startswith("__"))
                found.update([dotted, *(f"{dotted}.{member}" for member in members)])
                continue
            found.add(dotted)
    return sorted(name for name in found if any(word in name.lower() for word in words))


def api(modules: list[str]) -> dict[str, str]:
    """Public name -> what it is: a signature, the methods of a class, or the type of a value."""
    found: dict[str, str] = {}
    for module_name in modules:
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            found[module_name] = f"does not import: {error}"
            continue
        for name in dir(module):
            if name.startswith("_") or inspect.ismodule(getattr(module, name, None)):
                continue
            found[f"{module_name}.{name}"] = describe(module, name)
    return found


def describe(module: Any, name: str) -> str:
    """One line for one public name."""
    try:
        thing = getattr(module, name)
    except Exception as error:  # a property of a module may need a device
        return f"raises {type(error).__name__}"
    if inspect.isclass(thing):
        return f"class({', '.join(part for part in dir(thing) if not part.startswith('_'))})"
    if callable(thing):
        try:
            return f"def{inspect.signature(thing)}"
        except (TypeError, ValueError):
            return "callable"
    return type(thing).__name__


def facts(torch: Any) -> dict[str, Any]:
    """What a user asks first; a call that needs a device is told by the class and text of its error."""
    questions = {
        "version.cuda": lambda: torch.version.cuda,
        "cuda.is_available()": torch.cuda.is_available,
        "backends.cuda.is_built()": torch.backends.cuda.is_built,
        "backends.cudnn.version()": torch.backends.cudnn.version,
        "cuda.nccl.version()": lambda: list(torch.cuda.nccl.version()),
        "cuda.get_arch_list()": torch.cuda.get_arch_list,
        "_C._cuda_getArchFlags().split()": lambda: torch._C._cuda_getArchFlags().split(),
        "_C._cuda_getCompiledVersion()": lambda: torch._C._cuda_getCompiledVersion(),
        "distributed.is_nccl_available()": lambda: torch.distributed.is_nccl_available(),
        "cuda.device_count()": torch.cuda.device_count,
        "torch.ones(1).cuda()": lambda: str(torch.ones(1).cuda()),
        'torch.Generator(device="cuda")': lambda: str(torch.Generator(device="cuda").device),
        "torch.cuda.Stream": lambda: torch.cuda.Stream.__mro__[1].__name__,
        "torch.cuda._CUDAC": lambda: bool(torch.cuda._CUDAC),
    }
    return {name: ask(question) for name, question in questions.items()}


def ask(question: Any) -> Any:
    """The answer, or the error in one line."""
    try:
        answer = question()
        json.dumps(answer)
        return answer
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def main() -> None:
    """Import torch, look, write."""
    wanted = json.loads(sys.argv[1])
    import torch  # type: ignore[import-not-found,unused-ignore]

    document = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "facts": facts(torch),
        "dispatcher": registrations(torch, wanted["dispatch_keys"]),
        "bindings": bindings(torch, wanted["binding_words"]),
        "api": api(wanted["modules"]),
    }
    with open(sys.argv[2], "w", encoding="utf-8") as out:  # noqa: PTH123 - as little as possible beside torch
        json.dump(document, out, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
