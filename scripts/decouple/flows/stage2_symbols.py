"""Compare the symbols that libraries with kernels need with those of a core.

This is done before anything is built.

>>> from decouple.flows.stage2_symbols import SymbolsRequest, compare_symbols
>>> compare_symbols(SymbolsRequest(project, "2.6", core=python, kernels=python))
Traceback (most recent call last):
decouple.base.errors.UsageError: ...python: no libtorch_cpu and libc10 in it (...)
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.paths import find_cache
from decouple.flows.listener import QUIET, Listener
from decouple.prebuilt import official_symbols, symbols
from decouple.prebuilt.official_symbols import LibrarySymbols
from decouple.prebuilt.symbols import SymbolReport
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.wheel import find_wheel
from decouple.upstream.remote_zip import RemoteZip


class SymbolsRequest(Struct, frozen=True):
    """Whose kernels, on whose core."""

    project: Path
    release: str
    core: Path | None = None
    """A torch package or its lib; None: the official wheel's."""
    kernels: Path | None = None
    """A folder of libraries; None: the official wheel's."""


class SymbolsResult(Struct, frozen=True):
    """What the core lacks, and how many bytes were fetched to know."""

    report: SymbolReport
    received: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is lacking and both have one C++ ABI."""
        return not self.report.lacking and not self.report.other_abi


def compare_symbols(request: SymbolsRequest, listener: Listener = QUIET) -> SymbolsResult:
    """Compare the dynamic symbols.

    Of an official wheel only the parts that hold names are fetched. Raises DecoupleError when there is no such library,
    or the release has no wheel.
    """
    core = official_symbols.read_folder_symbols(request.core, official_symbols.CORE) if request.core else ()
    kernels = official_symbols.read_folder_symbols(request.kernels, official_symbols.KERNELS) if request.kernels else ()
    if core and kernels:
        return SymbolsResult(symbols.compare_symbols(kernels, core))
    faces = _read_wheel_symbols(request, listener)
    return SymbolsResult(symbols.compare_symbols(kernels or faces.kernels, core or faces.core), faces.received)


def _read_wheel_symbols(request: SymbolsRequest, listener: Listener) -> LibrarySymbols:
    named = find_wheel(load_release(request.project, request.release))
    if named is None:
        raise DecoupleError(
            f"{request.release}: its manifest names no wheel",
            next_step=f"decouple manifest fill {request.release} --write",
        )
    wheel = RemoteZip(named, Downloader(find_cache(), progress=listener.progress))
    return official_symbols.read_wheel_symbols(wheel, core=request.core is None)
