"""Make an environment with the simulated device in place of NVIDIA's libraries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simcuda.errors import SimcudaError, explain_os_error

HERE = Path(__file__).parent
NO_RANDOM_ADDRESSES = 0x0040000  # ADDR_NO_RANDOMIZE of personality(2)


@dataclass(frozen=True)
class Device:
    """What is simulated: the number of devices, memory in bytes, compute capability."""

    devices: int = 2
    memory: int = 16 << 30
    arch: str = "9.0"


def check_preloadable(path: Path) -> Path:
    """Return ``path`` if the dynamic linker can be given it in a list.

    Nor can names of libraries be given in place of paths: where a program has a DT_RPATH, NVIDIA's are found by that.

    Raises SimcudaError.
    """
    if set(str(path)) & set(" \t\n:;"):
        raise SimcudaError(
            f"{path}: has a blank, ':' or ';', where the dynamic linker separates paths, so nothing there is preloaded",
            next_step="set SIMCUDA_CACHE, or --built where it was given, to a folder without them in its path",
        )
    return path


def make_environment(
    built: Path,
    device: Device,
    *,
    ledger: Path | None = None,
    log: Path | None = None,
    shadows: bool = True,
    unset: Path | None = None,
    shake: int = 0,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return ``base`` plus what preloads the stand-ins of ``built``.

    With ``shadows`` it gives values. ``base``: without it this process's own. ``ledger``: every entry goes to that
    file, with the number of the process appended. ``log``: names of functions that were asked for and are not
    implemented. ``unset`` and ``shake``: see `simcuda.unset_bytes`. Raises SimcudaError where ``built`` cannot be
    preloaded from, or is of another vendor than ``device``.
    """
    check_preloadable(built)
    env = dict(os.environ if base is None else base)
    with explain_os_error(built / "preload", "name a folder that `python -m simcuda build` printed"):
        names = (built / "preload").read_text(encoding="utf-8").split()
    if device.arch.startswith("gfx") and not any(name.startswith("libamdhip64") for name in names):
        raise SimcudaError(
            f"{device.arch} is AMD's, and {built} stands in for CUDA", next_step="name a compute capability, as 9.0"
        )
    env["LD_PRELOAD"] = ":".join([*(str(built / name) for name in names), *filter(None, [env.get("LD_PRELOAD")])])
    # found by dlopen("libcuda.so.1") and the like, also where the stand-ins themselves link to each other
    env["LD_LIBRARY_PATH"] = ":".join([str(built), *filter(None, [env.get("LD_LIBRARY_PATH")])])
    env["SIMCUDA_DEVICES"] = str(device.devices)
    env["SIMCUDA_MEMORY"] = str(device.memory)
    env["SIMCUDA_ARCH"] = device.arch
    # images of no code must not reach the cache that a machine with a GPU reads
    env["USE_PYTORCH_KERNEL_CACHE"] = "0"
    if ledger:
        env["SIMCUDA_LEDGER"] = str(ledger)
    if log:
        env["SIMCUDA_LOG"] = str(log)
    if unset:
        env["SIMCUDA_UNSET"] = str(unset)
    if shake:
        env["SIMCUDA_SHAKE"] = str(shake)
        env["SIMCUDA_SHAKEN_STACK"] = "x" * (shake * 1237 % 4096)  # the environment lies above the stack
    if shadows:
        env["SIMCUDA_SHADOW"] = str(built / "libsimcuda_shadow.so")
    env["PYTHONPATH"] = ":".join([str(HERE / "inject"), str(HERE.parent), *filter(None, [env.get("PYTHONPATH")])])
    return env


def make_recording_environment(recorder: Path, *, ledger: Path | None = None) -> dict[str, str]:
    """Return this process's environment with the recorder before NVIDIA's runtime.

    Raises SimcudaError where it cannot be preloaded from there.
    """
    check_preloadable(recorder)
    env = dict(os.environ)
    env["LD_PRELOAD"] = ":".join([str(recorder), *filter(None, [env.get("LD_PRELOAD")])])
    if ledger:
        env["SIMCUDA_LEDGER"] = str(ledger)
    env["PYTHONPATH"] = ":".join([str(HERE / "inject"), str(HERE.parent), *filter(None, [env.get("PYTHONPATH")])])
    return env


def fix_addresses() -> bool:
    """Make this process's addresses repeat from run to run, from its next program on.

    Returns False where that is not allowed. Structures that are given to kernels hold bytes that nobody set, and those
    hold addresses of the host.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    personality = int(libc.personality(0xFFFFFFFF))
    return personality >= 0 and int(libc.personality(personality | NO_RANDOM_ADDRESSES)) >= 0
