"""torch_cuda of another CUDA than the official wheel's: what it is made with, and NVIDIA's libraries of it for a trial.

>>> from decouple.flows.alternate_cuda import make_toolchain
>>> from decouple.upstream.manifests import load_release
>>> make_toolchain("2.6", load_release(project, "2.6").toolchain, "11.8").cuda
'11.8'
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from decouple.base import zips
from decouple.base.process import run_logged
from decouple.build import root_description, toolkits, wheel_finishing
from decouple.flows import portable_environment
from decouple.release import projects
from decouple.release.manifest import Toolchain


def make_toolchain(release: str, official: Toolchain, cuda: str) -> Toolchain:
    """Return the official wheel's toolchain where ``cuda`` is its own or empty.

    Else it is one with the libraries that CUDA's layer is made of.

    Raises UsageError where the release has no such CUDA.
    """
    if cuda in ("", official.cuda):
        return official
    toolkits.check_release(release, portable_environment.KIND, cuda)
    return replace(official, cuda=cuda, libraries=tuple(_list_pins(cuda)))


def _list_pins(cuda: str) -> Iterator[str]:
    found = toolkits.find_toolkit(portable_environment.KIND, cuda)
    root = root_description.load_description(root_description.PORTABLE)
    for layer in found.layers if found else ():
        for toolkit in root.find_layer(layer).toolkit:
            yield from (f"{wheel.project}=={wheel.version}" for wheel in toolkit.wheels)


def install_libraries(python: Path, trial: Path, backend: Path, log: Path) -> None:
    """Put what the wheel ``backend`` requires of NVIDIA into the Python ``trial`` by the pip of ``python``.

    Raises CommandError.
    """
    with zips.open_zip(backend) as archive:
        metadata = archive.read(f"{wheel_finishing.find_dist_info(archive, backend)}/METADATA")
    wanted = projects.parse_requirements(projects.parse_metadata(metadata))
    libraries = [str(requirement) for requirement in wanted if requirement.name.startswith("nvidia-")]
    pip = [str(python.absolute()), "-m", "pip", "--python", str(trial.absolute())]
    command = [*pip, "install", "-q", "--no-deps", *libraries]
    run_logged(command, cwd=Path("/"), log=log, what=f"pip install {' '.join(libraries)}")
