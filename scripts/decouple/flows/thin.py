"""Make a torch_cuda wheel for one GPU of one for many.

What its libraries hold is read where machine code is compared.

>>> from pathlib import Path
>>> from decouple.flows.thin import thin_wheel
>>> thin_wheel(Path("dist/2.6/torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl"), ["9.0"], Path("dist/2.6"))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: dist/2.6/torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl: not a wheel: ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from decouple.build import wheel_thinning as thinning
from decouple.build.wheel_thinning import KeptImages
from decouple.release.projects import CUDA, HIP
from decouple.verify.kernels import bundles, fatbin


def thin_wheel(wheel: Path, archs: Sequence[str], folder: Path) -> Path:
    """Thin a wheel as `decouple.build.wheel_thinning.thin_wheel` does."""
    return thinning.thin_wheel(wheel, archs, folder, {CUDA: _thin_containers, HIP: bundles.keep_architectures})


def _thin_containers(library: Path, archs: Sequence[str]) -> None:
    thinning.rewrite_library(library, _read_containers(library, archs))


def _read_containers(library: Path, archs: Sequence[str]) -> Iterator[KeptImages]:
    """Read the containers.

    One that has nothing for one of the architectures stays as it is: the wheel for all has no more.
    """
    for container in list(fatbin.list_containers(library)):
        names = {name for name, _, _ in container.images}
        wanted = [thinning.select_loadable(names, arch) for arch in archs]
        if all(wanted):
            kept = set().union(*wanted)
            images = tuple((at, size) for name, at, size in container.images if name in kept)
            yield KeptImages(container.size_at, container.begin, container.end, images)
