"""A driver in Python: ``torch_<name>/driver.py`` for ``csrc/driver.cpp``.

For who begins, or reaches the device from Python. Each name in ``__all__`` of that file is a member of the driver's
table (``third_device/driver.h``) and takes numbers: of devices (`HOST` is the host), of bytes, and addresses:

* ``device_count() -> int``, asked once;
* ``memory_alloc(device, bytes) -> address``, a multiple of 512 and not 0, in one space of addresses for all devices;
  MemoryError when there is none left;
* ``memory_free(device, address)``;
* ``copy(to, to_device, source, from_device, bytes)``, which returns when it is done;
* where they are wanted: ``memory_set(address, value, bytes)``, ``memory_info(device) -> (free, total)``,
  ``device_properties(device) -> {"name": str, "total_memory": int}``, with ``major``, ``minor`` and ``units``.

Streams, events and pinned memory stay those of ``csrc/driver.cpp``. The thread of a stream calls ``copy`` and
``memory_set``, in the stream's order. What a function raises is a RuntimeError of the call that asked for it, or of the
next that waits for the stream.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import types

HOST = -1
NEEDED = ("device_count", "memory_alloc", "memory_free", "copy")
KNOWN = (*NEEDED, "memory_set", "memory_info", "device_properties")


class DriverError(ImportError):
    """``driver.py`` is not a driver; the message names the function."""


def install_driver(package: str, binary: types.ModuleType) -> bool:
    """Make the functions of ``<package>.driver`` the driver of this process.

    Returns False where there is no such file.
    ``binary`` is the backend's ``_C``. Raises DriverError, and RuntimeError where there are streams for fewer devices.
    """
    name = f"{package}.driver"
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:  # a folder of that name is no file
        return False
    vendor = vars(importlib.import_module(name))
    names = set(vendor.get("__all__", ()))
    functions = {each: vendor[each] for each in names & set(vendor)}
    faults = {
        "no driver has {}": names - set(KNOWN),
        "{} is not in __all__": set(NEEDED) - names,
        "{} is in __all__ alone": names - set(vendor),
    }
    if wrong := [text.format(", ".join(sorted(each))) for text, each in faults.items() if each]:
        raise DriverError(f"{name}: {wrong[0]}; a driver in Python has {', '.join(KNOWN)}", name=name)
    count = functions["device_count"]()
    os.environ["TD_SIM_DEVICES"] = str(count)  # where streams are the simulation's: as many devices
    binary.use_python_driver(functions | {"device_count": lambda: count})
    atexit.register(binary.close_python_driver)
    return True
