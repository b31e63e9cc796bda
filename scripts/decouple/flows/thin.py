"""A torch_cuda wheel for one GPU, of one for many. What its libraries hold is read where machine code is compared.

>>> from pathlib import Path
>>> from decouple.flows.thin import thin
>>> thin(Path("dist/2.6/torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl"), ["9.0"], Path("dist/2.6"))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: dist/2.6/torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl: not a wheel: ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from decouple.build import thin as thinning
from decouple.build.thin import KeptImages
from decouple.verify.kernels import fatbin


def thin(wheel: Path, archs: Sequence[str], folder: Path) -> Path:
    """As `decouple.build.thin.thin`."""
    return thinning.thin(wheel, archs, folder, _containers)


def _containers(library: Path, archs: Sequence[str]) -> Iterator[KeptImages]:
    """A container that has nothing for one of the architectures stays as it is: the wheel for all has no more."""
    for one in list(fatbin.list_containers(library)):
        names = {name for name, _, _ in one.images}
        wanted = [thinning.loaded(names, arch) for arch in archs]
        if all(wanted):
            kept = set().union(*wanted)
            images = tuple((at, size) for name, at, size in one.images if name in kept)
            yield KeptImages(one.size_at, one.begin, one.end, images)
