"""Describe the torch whose suites are run: its command line and its identity."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from decouple.base import program_output
from decouple.base.errors import DecoupleError, UsageError

#: Asked of the torch itself: version, its libraries' sizes, which device there is; of the wheels that it was installed
#: from what their RECORD has of each file, and the series in their build manifest; and versions of what tests compare
#: with.
_QUESTION = """
import hashlib, importlib.metadata, json, os, sys, torch
from decouple.release.installed_wheels import list_series, list_wheels
records = {}
for name, found in list_wheels().items():
    lines = (found.read_text("RECORD") or "").splitlines()
    kept = sorted(line for line in lines if not (".dist-info/" in line or ".pyc," in line or line[:3] == "../"))
    records[name] = hashlib.sha256("".join(kept).encode()).hexdigest() if kept else ""
folder = os.path.join(os.path.dirname(torch.__file__), "lib")
names = sorted(name for name in os.listdir(folder) if ".so" in name) if os.path.isdir(folder) else []
stat = {name: os.stat(os.path.join(folder, name)).st_size for name in names}
seen = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
memory = [torch.cuda.get_device_properties(number).total_memory for number in seen]
packages = {}
for name in ("numpy", "scipy"):
    try:
        packages[name] = importlib.metadata.version(name) or "none"
    except importlib.metadata.PackageNotFoundError:
        packages[name] = "none"
print("decouple:" + json.dumps({"torch": torch.__version__, "git": torch.version.git_version,
 "cuda": torch.version.cuda,
 "python": sys.version.split()[0], "libraries": stat, "available": torch.cuda.is_available(),
 "devices": torch.cuda.device_count(), "memory": memory, "records": records, "series": list_series(),
 "packages": packages}))
"""


class Target(Struct, frozen=True):
    """A torch and the device that its tests see.

    ``enter`` is the command line that enters the environment of the torch (empty on this machine), ``python`` what
    starts its Python in there, ``variables`` what that needs, ``tests`` upstream's ``test/`` as seen in there.
    ``folder`` is a folder that both sides see, called ``work`` in there. ``project`` is this checkout in there: its
    ``scripts`` holds the plug-in that records tests, and the simulated device. ``recorded``: on a real GPU, with a
    ledger.
    """

    label: str
    python: tuple[str, ...]
    device: str
    tests: str
    folder: Path
    work: str
    project: str
    variables: Mapping[str, str] = {}
    enter: tuple[str, ...] = ()
    simulation: tuple[str, ...] = ()
    recorded: bool = False

    def argv(self, arguments: Sequence[str]) -> list[str]:
        """Return the command line that runs this Python with ``arguments``.

        It runs on the target's device, in upstream's ``test/``.
        """
        path = ":".join(filter(None, [f"{self.project}/scripts", self.variables.get("PYTHONPATH", "")]))
        words = [f"{name}={value}" for name, value in sorted({**self.variables, "PYTHONPATH": path}.items())]
        device = [*self.python, "-m", "simcuda", "run", *self.simulation] if self.device == "simulated" else []
        if self.recorded:
            device = [*self.python, "-m", "simcuda", "record"]
        return [*self.enter, "env", "-C", self.tests, *words, *device, *self.python, *arguments]

    def describe_torch(self) -> dict[str, Any]:
        """Return what the torch reports of itself, with its device.

        Raises DecoupleError with the message of a failed import.
        """
        process = program_output.run_program(self.argv(["-c", _QUESTION]))
        lines = [line for line in process.stdout.splitlines() if line.startswith("decouple:")]
        if process.returncode or not lines:
            reason, hint = program_output.read_failure(process)
            raise DecoupleError(
                f"{self.label}: torch cannot be asked: {reason}",
                next_step=hint or shlex.join([*self.python, "-c", "import torch"]),
            )
        description: dict[str, Any] = json.loads(lines[-1].removeprefix("decouple:"))
        return description | {"label": self.label, "device": self.device, "recorded": self.recorded}


def check_device(about: Mapping[str, Any], wanted: str) -> None:
    """Raise DecoupleError when the torch does not see the device of its tests."""
    if not about["available"]:
        raise DecoupleError(
            f"{about['label']}: torch {about['torch']} sees no CUDA device ({wanted})",
            next_step="--device simulated needs no GPU"
            if wanted == "gpu"
            else "look at what `python -m simcuda run python` says",
        )


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Return whether this machine has an NVIDIA GPU.

    A device node counts, the driver's own (``nvidiactl``) does not.
    """
    return any(devices.glob("nvidia[0-9]*"))


def choose_device(wanted: str, gpu: bool) -> str:
    """Return "gpu" or "simulated" for ``wanted``; ``auto`` prefers a GPU.

    Raises UsageError for any other word.
    """
    if wanted not in ("auto", "gpu", "simulated"):
        raise UsageError(f"--device {wanted}: no such device", next_step="choose auto, gpu or simulated")
    return ("gpu" if gpu else "simulated") if wanted == "auto" else wanted


def hash_identity(about: Mapping[str, Any]) -> str:
    """Return a hash of the torch and its device, which stored results belong to.

    Upstream skips tests that need more memory; on a GPU ledgers are recorded or not.
    """
    names = ("torch", "git", "cuda", "python", "libraries", "device", "devices", "memory", "recorded")
    parts = {name: about[name] for name in names}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
