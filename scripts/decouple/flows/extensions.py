"""Compile projects with CUDA kernels against an installed torch and use them.

>>> from decouple.flows.extensions import ExtensionsRequest, try_extensions
>>> try_extensions(ExtensionsRequest(project, "2.6", python=python / "python", names=("no_such",)))
Traceback (most recent call last):
decouple.base.errors.UsageError: no_such: no project of extensions.toml (use one of: ...)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import UsageError
from decouple.base.interpreter import find_python
from decouple.base.paths import find_cache
from decouple.build.environment import HostEnvironment, Places
from decouple.build.estimate import count_cores
from decouple.flows.listener import QUIET, Listener
from decouple.flows.work_environment import hold_trials
from decouple.upstream.download import Downloader
from decouple.verify import extensions as rules
from decouple.verify.checks import CheckResult
from decouple.verify.extensions import Extension
from decouple.verify.venvs import TorchEnvironment, Workplace


class ExtensionsRequest(Struct, frozen=True):
    """Choose a torch, a toolkit, and what is compiled against it on this machine."""

    project: Path
    release: str
    python: Path
    """Has torch, and setuptools and wheel to build with."""
    toolkit: Path | None = None
    """The folder of CUDA with bin/nvcc; none: what CUDA_HOME says."""
    archs: str = "9.0"
    names: tuple[str, ...] = ()
    """Of ``extensions.toml``; empty: all."""


def try_extensions(request: ExtensionsRequest, listener: Listener = QUIET) -> Iterator[CheckResult]:
    """Compile and use each; yields a line for each.

    Raises UsageError at once without a toolkit, or for a name that is none.
    """
    wanted = rules.select_extensions(request.names)
    named = request.toolkit or os.environ.get("CUDA_HOME")
    if not named or not (Path(named) / "bin/nvcc").exists():
        raise UsageError(
            f"{named}: no bin/nvcc in it" if named else "no CUDA toolkit is named",
            next_step="name the folder of CUDA with --toolkit, or set CUDA_HOME",
        )
    toolkit = Path(named)
    python = find_python(request.python, "name the Python of an environment with torch: --python venv/bin/python")
    environment = HostEnvironment(Places.of_release(request.project, request.release, find_cache()))
    places = environment.places
    place = Workplace(environment, places.verify, str(places.verify), places.logs / "extensions.log")
    folder = places.verify / "extensions-here"
    home = toolkit.absolute()
    variables = {
        "CUDA_HOME": str(home),
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "TORCH_CUDA_ARCH_LIST": request.archs,
        "MAX_JOBS": os.environ.get("MAX_JOBS", str(count_cores())),
    }
    on = TorchEnvironment("here", (str(python),), folder, str(folder))

    def compile_each() -> Iterator[CheckResult]:
        with hold_trials(places, "try extensions"):
            for extension in wanted:
                yield compile_extension(place, on, extension, variables, str(request.project), places, listener)

    return compile_each()


def compile_extension(
    place: Workplace,
    on: TorchEnvironment,
    extension: Extension,
    variables: Mapping[str, str],
    project: str,
    places: Places,
    listener: Listener,
) -> CheckResult:
    """Compile ``extension``, its sdists fetched.

    ``project`` is this checkout as the environment of ``place`` sees it.
    """
    progress = listener.progress
    downloader = Downloader(find_cache(), progress=progress)
    source = (
        places.project / extension.source
        if isinstance(extension.source, Path)
        else downloader.fetch_file(extension.source)[0]
    )
    progress.start(f"CUDA extension {extension.name}")
    result = rules.compile_and_try(place, on, extension, source, variables, project)
    progress.finish()
    return result
