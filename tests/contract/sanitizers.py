"""Running Python with a backend that was built with a sanitizer, and what the sanitizer had to say."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import backend_env
from tests.support.tools import find_missing

HERE = Path(__file__).parent
SUPPRESSIONS = HERE / "tsan.supp"


class NoSanitizerError(Exception):
    """A sanitizer cannot be used here; the message says why."""


@dataclasses.dataclass(frozen=True)
class Sanitizer:
    """One of GCC's sanitizers.

    Python is not built with it, so its ``libraries`` are preloaded; each takes its options from a variable in
    ``options``. ``symbol`` is what every instrumented object asks of the runtime. ``stable_addresses``: the process
    runs without randomised addresses, since the sanitizer knows only some layouts of memory.
    """

    flavour: str
    libraries: tuple[str, ...]
    options: Mapping[str, str]
    symbol: str
    stable_addresses: bool = False


# handle_segv=0: reading device memory must kill the process as ever, which a test of the contract sees to. UBSan has
# no log_path: beside AddressSanitizer it writes to stderr all the same, and the option moves AddressSanitizer's
# reports. It ends the process instead, so that none is missed whose stderr nobody reads.
SANITIZERS = (
    Sanitizer(
        "address",
        # libstdc++ too: the runtime looks for __cxa_throw when it starts, and only Python's extensions would bring it
        ("libasan.so", "libubsan.so", "libstdc++.so.6"),
        {
            # CPython and PyTorch keep thousands of allocations until the process ends: leaks are looked for by hand
            "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:detect_stack_use_after_return=1:log_path={log}/address",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        },
        "__asan_init",
    ),
    Sanitizer(
        "thread",
        ("libtsan.so", "libstdc++.so.6"),
        {
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:handle_segv=0:history_size=4:"
            "suppressions={suppressions}:log_path={log}/thread"
        },
        "__tsan_init",
        stable_addresses=True,
    ),
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a command needs to run under a sanitizer. In the folder ``log`` reports appear, a file for each process."""

    environment: dict[str, str]
    launcher: tuple[str, ...]
    log: Path

    def reports(self, done: subprocess.CompletedProcess[str]) -> str:
        """What the sanitizer said of ``done`` and its children: the files in ``log``, and UBSan's part of stderr."""
        said = [path.read_text(errors="replace") for path in sorted(self.log.iterdir())]
        undefined = done.stderr.find("runtime error:")
        if undefined >= 0:
            said.append(done.stderr[done.stderr.rfind("\n", 0, undefined) + 1 :])
        return "\n".join(said)


def prepare(sanitizer: Sanitizer, log: Path) -> Setting:
    """Find the sanitizer's runtime, and prove that a Python starts under it.

    Raises NoSanitizerError when the compiler has no such library, or the runtime does not start on this machine.
    """
    if missing := find_missing("c++", "nm"):
        raise NoSanitizerError(missing)
    libraries = [_library("c++", name) for name in sanitizer.libraries]
    log.mkdir(parents=True)
    options = {name: text.format(log=log, suppressions=SUPPRESSIONS) for name, text in sanitizer.options.items()}
    # One thread for OpenMP: its own synchronisation is by instructions that no interceptor sees.
    preloaded = {"LD_PRELOAD": " ".join(map(str, libraries)), "OMP_NUM_THREADS": "1"}
    launcher: tuple[str, ...] = ()
    if sanitizer.stable_addresses and _runs("setarch", platform.machine(), "-R", "true"):
        launcher = ("setarch", platform.machine(), "-R")
    setting = Setting({**options, **preloaded}, launcher, log)
    tried = run(setting, backend_env.python(), "-c", "print('started')", folders=[])
    if "started" not in tried.stdout:
        first = (tried.stderr.strip() or "no word why").splitlines()[0]
        raise NoSanitizerError(f"nothing runs under {libraries[0].name}: {first}")
    return setting


def run(
    setting: Setting, interpreter: Path, *arguments: str, folders: Sequence[Path], **more: str
) -> subprocess.CompletedProcess[str]:
    """Run Python under a sanitizer with the packages in ``folders``; ``more`` is added to the environment.

    Raises TimeoutExpired after 20 minutes.
    """
    path = os.pathsep.join(map(str, folders))
    environment = dict(os.environ, PYTHONPATH=path) | setting.environment | more
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    command = [*setting.launcher, str(interpreter), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=setting.log.parent, timeout=1200
    )


def uninstrumented(sanitizer: Sanitizer, folder: Path, pattern: str) -> list[Path]:
    """The objects or libraries below ``folder`` that do not ask for the sanitizer's runtime.

    Raises NoSanitizerError when nothing matches ``pattern``: nothing was looked at then.
    """
    found = sorted(folder.rglob(pattern))
    if not found:
        raise NoSanitizerError(f"{folder}: nothing matches {pattern}")
    return [path for path in found if not re.search(rf"\b{sanitizer.symbol}\b", _symbols(path))]


def _symbols(path: Path) -> str:
    done = subprocess.run(["nm", "--undefined-only", str(path)], capture_output=True, text=True, check=True)
    return done.stdout


def _library(compiler: str, name: str) -> Path:
    """Where the compiler has a library; it answers with the bare name when it has none."""
    asked = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(asked.stdout.strip())
    if not path.is_absolute():
        raise NoSanitizerError(f"the compiler has no {name}")
    return path.resolve()


def _runs(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
