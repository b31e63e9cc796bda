"""Write as JSON what an installed torch offers.

It runs in a process of its own, with that torch on its path. Arguments: a JSON object with dispatch_keys, binding_words
and modules; each of them null for all there are. With backends, environment, distributions and libraries it also says
how torch was built and installed. Needs no GPU and uses only torch and the standard library. Output goes to the file
named by the second argument, because importing torch may print.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import sys
import warnings
from typing import Any

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
#: A set as it is printed, in the order of this process's hashes, or of those of whoever compiled the module.
SET = re.compile(r"\{((?:(?!: )[^{}])+)\}")


def list_registrations(torch: Any, keys: list[str] | None) -> dict[str, list[str]]:
    """Map each dispatch key to the operators with a kernel registered for it."""
    found = {}
    for key in sorted(torch._C.DispatchKey.__members__) if keys is None else keys:
        try:
            found[key] = sorted(set(torch._C._dispatch_get_registrations_for_dispatch_key(key)))
        except Exception:
            if keys is not None:  # some of all the names are of no key that a kernel can have
                raise
    return found


def list_schemas(torch: Any) -> dict[str, str]:
    """Map each operator to what it takes and returns."""
    return {f"{one.name}.{one.overload_name}".rstrip("."): str(one) for one in torch._C._jit_get_all_schemas()}


def list_bindings(torch: Any, words: list[str] | None) -> list[str]:
    """Return the names under torch._C that have one of the words in them.

    Its own, those of its sub-modules, and the members of their classes.
    """
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
    return sorted(name for name in found if words is None or any(word in name.lower() for word in words))


def describe_api(modules: list[str]) -> dict[str, str]:
    """Map each public name to what it is.

    A signature, the methods of a class, or the type of a value.
    """
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
            found[f"{module_name}.{name}"] = describe_name(module, name)
    return found


def list_public_modules(torch: Any) -> list[str]:
    """Return every public module of torch, by the files of the package.

    No part of its name has an underscore.
    """
    found, top = {"torch"}, torch.__path__[0]
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(one for one in folders if not one.startswith("_"))
        relative = os.path.relpath(folder, top)
        package = "torch" if relative == "." else "torch." + relative.replace(os.sep, ".")
        if "__init__.py" in files:
            found.add(package)
        found.update(f"{package}.{one[:-3]}" for one in files if one.endswith(".py") and not one.startswith("_"))
    return sorted(found)


def describe_whole_api(torch: Any) -> dict[str, str]:
    """Map each public name of torch to what it is.

    What was defined elsewhere is described there, once, with the members of a class.
    """
    found: dict[str, str] = {}
    described: set[str] = set()
    for module_name in list_public_modules(torch):
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            found[module_name] = f"does not import: {type(error).__name__}"
            continue
        found[module_name] = "module"
        for name in list_names(module):
            try:
                thing = getattr(module, name)
            except Exception as error:  # a property of a module may need a device
                found[f"{module_name}.{name}"] = f"raises {type(error).__name__}"
                continue
            if name.startswith("_") or inspect.ismodule(thing):
                continue
            dotted, home = f"{module_name}.{name}", find_home(thing)
            found[dotted] = f"is {home}" if home and home != dotted else describe_name(module, name)
            if home and home.startswith("torch.") and home not in described:
                described.add(home)
                found[home] = describe_thing(thing)
                found.update(describe_members(home, thing) if inspect.isclass(thing) else {})
    places = [torch.__path__[0].rpartition(os.sep)[0], sys.prefix]
    return {name: remove_places(text, *places) for name, text in found.items()}


def list_names(module: Any) -> list[str]:
    """Return the names of a module.

    A module of torch.backends may stand before the one that has them (``PropModule``).
    """
    behind = getattr(module, "m", None)
    return sorted({*dir(module), *(dir(behind) if inspect.ismodule(behind) else ())})


def describe_members(home: str, thing: type) -> dict[str, str]:
    """Describe what a class itself defines, its constructor with it."""
    found = {}
    for name in vars(thing):
        if name == "__init__" or not name.startswith("_"):
            try:
                found[f"{home}.{name}"] = describe_thing(getattr(thing, name))
            except Exception as error:
                found[f"{home}.{name}"] = f"raises {type(error).__name__}"
    return found


def find_home(thing: Any) -> str | None:
    """Find where a class or function was defined.

    None where it does not say, or is neither.
    """
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return None
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) and "<" not in name else None


def remove_places(text: str, *places: str) -> str:
    """Remove from a text what is of this process and of these places."""
    for place in places:
        text = text.replace(place, "<prefix>")
    return ADDRESS.sub("", text)


def describe_name(module: Any, name: str) -> str:
    """Describe one public name in one line."""
    try:
        thing = getattr(module, name)
    except Exception as error:  # a property of a module may need a device
        return f"raises {type(error).__name__}"
    return describe_thing(thing)


def _sort_set(found: re.Match[str]) -> str:
    return "{" + ", ".join(sorted(found[1].split(", "))) + "}"


def describe_thing(thing: Any) -> str:
    """Describe what a name stands for in one line."""
    if inspect.isclass(thing):
        return f"class({', '.join(part for part in dir(thing) if not part.startswith('_'))})"
    if callable(thing):
        try:
            return f"def{SET.sub(_sort_set, str(inspect.signature(thing)))}"
        except (TypeError, ValueError):
            return "callable"
    return type(thing).__name__


def collect_facts(torch: Any) -> dict[str, Any]:
    """Collect what a user asks first.

    A call that needs a device is told by the class and text of its error.
    """
    questions = {
        "version.cuda": lambda: torch.version.cuda,
        "cuda.is_available()": lambda: torch.cuda.is_available(),
        "backends.cuda.is_built()": lambda: torch.backends.cuda.is_built(),
        "backends.cudnn.version()": lambda: torch.backends.cudnn.version(),
        "cuda.nccl.version()": lambda: list(torch.cuda.nccl.version()),
        "cuda.get_arch_list()": lambda: torch.cuda.get_arch_list(),
        "_C._cuda_getArchFlags().split()": lambda: torch._C._cuda_getArchFlags().split(),
        "_C._cuda_getCompiledVersion()": lambda: torch._C._cuda_getCompiledVersion(),
        "distributed.is_nccl_available()": lambda: torch.distributed.is_nccl_available(),
        "cuda.device_count()": lambda: torch.cuda.device_count(),
        "torch.ones(1).cuda()": lambda: str(torch.ones(1).cuda()),
        'torch.Generator(device="cuda")': lambda: str(torch.Generator(device="cuda").device),
        "torch.cuda.Stream": lambda: torch.cuda.Stream.__mro__[1].__name__,
        "torch.cuda._CUDAC": lambda: bool(torch.cuda._CUDAC),
        "__config__.show() USE_CUDA": lambda: find_setting(torch, "USE_CUDA"),
        "__config__.show() CUDA_VERSION": lambda: find_setting(torch, "CUDA_VERSION"),
    }
    return {name: ask_question(question) for name, question in questions.items()}


def find_setting(torch: Any, name: str) -> str | None:
    """Find a setting in torch.__config__.show(); None where it is not there."""
    found = re.search(rf"\b{name}=(.*?), ", torch.__config__.show())
    return found and found.group(1)


def ask_backends(torch: Any, pattern: str) -> dict[str, Any]:
    """Ask each module of torch.backends the questions whose names match.

    Those that take no argument.
    """
    found = {}
    for module_name in list_public_modules(torch):
        if module_name.startswith("torch.backends."):
            try:
                module = importlib.import_module(module_name)
            except Exception as error:
                found[module_name] = f"does not import: {type(error).__name__}"
                continue
            for name in list_names(module):
                if re.fullmatch(pattern, name) and callable(getattr(module, name, None)):
                    found[f"{module_name}.{name}()"] = ask_question(getattr(module, name))
    return found


def collect_statements(torch: Any, fields: list[str]) -> dict[str, Any]:
    """Collect what torch says of how it was built.

    Texts, to be taken apart elsewhere, and values by name.
    """
    from torch.utils import collect_env  # type: ignore[import-not-found,unused-ignore]

    collect_env.run = lambda command: (0, "", "")  # of the machine nothing is asked here
    environment = ask_any(collect_env.get_env_info)
    versions = [name for name, value in vars(torch.version).items() if name[:1] != "_" and not callable(value)]
    values = {
        f"torch.version.{name}": ask_question(lambda name=name: getattr(torch.version, name)) for name in versions
    }
    values.update({f"torch._C.{name}": getattr(torch._C, name) for name in dir(torch._C) if name.startswith("has_")})
    available = [name for name in dir(torch.distributed) if re.fullmatch(r"is_\w*available", name)]
    values.update({f"torch.distributed.{name}()": ask_question(getattr(torch.distributed, name)) for name in available})
    values.update({f"collect_env {name}": str(getattr(environment, name, environment)) for name in fields})
    values["torch._C._GLIBCXX_USE_CXX11_ABI"] = torch._C._GLIBCXX_USE_CXX11_ABI
    values["torch._C._show_config() is torch.__config__.show()"] = torch._C._show_config() == torch.__config__.show()
    return {
        "show": torch.__config__.show(),
        "parallel_info": torch.__config__.parallel_info(),
        "values": {name: remove_places(value) if isinstance(value, str) else value for name, value in values.items()},
    }


def describe_distributions(names: list[str]) -> dict[str, Any]:
    """Map each distribution to its metadata and entry points.

    Its folder too, and those of the packages of these names.
    """
    found: dict[str, Any] = {}
    for name in names:
        entry: dict[str, Any] = {}
        try:
            one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            pass
        else:
            keys = [key for key in dict.fromkeys(one.metadata) if key != "Description"]
            entry["metadata"] = [[key, value] for key in keys for value in one.metadata.get_all(key) or ()]
            entry["entry_points"] = [[point.group, point.name, point.value] for point in one.entry_points]
            entry["info"] = str(getattr(one, "_path", ""))
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:  # of the package that it is in
            spec = None
        if spec and spec.submodule_search_locations:
            entry["package"] = next(iter(spec.submodule_search_locations))
        if entry:
            found[name] = entry
    return found


def list_open_libraries(pattern: str) -> list[str]:
    """Return the shared libraries in this process whose names match."""
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123 - as little as possible beside torch
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
    return sorted(path for path in paths if re.fullmatch(pattern, path.rpartition("/")[2]))


def ask_any(question: Any) -> Any:
    """Return the answer, whatever it is, or the error in one line."""
    try:
        return question()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def ask_question(question: Any) -> Any:
    """Return the answer, or the error in one line."""
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

    warnings.simplefilter("ignore")
    document = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "facts": collect_facts(torch),
        "dispatcher": list_registrations(torch, wanted["dispatch_keys"]),
        "bindings": list_bindings(torch, wanted["binding_words"]),
    }
    if "distributions" in wanted:  # all of torch is asked for, and not of CUDA's half alone
        document["said"] = collect_statements(torch, wanted["environment"])
        document["schemas"] = list_schemas(torch)
        document["installed"] = describe_distributions(wanted["distributions"])
        document["opened"] = list_open_libraries(wanted["libraries"])
        document["backends"] = ask_backends(torch, wanted["backends"])
    document["api"] = describe_whole_api(torch) if wanted["modules"] is None else describe_api(wanted["modules"])
    with open(sys.argv[2], "w", encoding="utf-8") as out:  # noqa: PTH123 - as little as possible beside torch
        json.dump(document, out, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
