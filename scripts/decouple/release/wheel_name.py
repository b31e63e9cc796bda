"""A wheel's file name in parts (PEP 427), with the label of a variant (PEP 825)."""

from __future__ import annotations

import re

from msgspec import Struct
from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from decouple.base.errors import DecoupleError
from decouple.release import variants

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")
_OLD_NAMES = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}


class WheelName(Struct, frozen=True):
    """The parts of a wheel's file name as they are spelled.

    ``build`` is "" where there is none, ``tag`` may be a compressed set.
    """

    distribution: str
    version: str
    build: str
    tag: str
    label: str | None = None

    def __str__(self) -> str:
        """Return the file name.

        >>> str(WheelName.parse("torch-2.6.0-1-py3-none-any.whl"))
        'torch-2.6.0-1-py3-none-any.whl'
        """
        parts = (self.distribution, self.version, self.build, self.tag, self.label)
        return "-".join(part for part in parts if part) + ".whl"

    @property
    def stem(self) -> str:
        """Return how the names of the wheel's own folders begin.

        It is ``torch-2.6.0`` of ``torch-2.6.0.dist-info``.
        """
        return f"{self.distribution}-{self.version}"

    @property
    def tags(self) -> frozenset[Tag]:
        """Return every single tag that ``tag`` stands for."""
        return parse_tag(self.tag)

    @property
    def platform(self) -> str:
        """Return the platforms, as they are spelled: ``linux_x86_64``."""
        return self.tag.rpartition("-")[2]

    @property
    def glibc(self) -> tuple[int, int] | None:
        """Return the oldest glibc that a manylinux tag among them promises.

        Source: PEP 600 and the names before it. Returns None without such a tag.

        >>> WheelName.parse("torch-2.6.0-cp313-cp313-manylinux2014_x86_64.manylinux_2_28_x86_64.whl").glibc
        (2, 17)
        """
        platforms = self.platform.split(".")
        versions = [(int(match[1]), int(match[2])) for platform in platforms if (match := _MANYLINUX.match(platform))]
        versions += [
            glibc for old, glibc in _OLD_NAMES.items() if any(platform.startswith(old) for platform in platforms)
        ]
        return min(versions, default=None)

    @classmethod
    def parse(cls, filename: str) -> WheelName:
        """Parse the parts of ``filename``.

        Raises DecoupleError when it is no wheel's.

        >>> WheelName.parse("torch-2.6.0-1-cp313-cp313-linux_x86_64.whl").build
        '1'
        >>> WheelName.parse("torch_cuda-2.6.0+variants-cp313-cp313-linux_x86_64-cu124.whl").label
        'cu124'
        """
        plain, label = variants.split_label(filename)
        try:
            build = parse_wheel_filename(plain)[2]
        except (InvalidWheelFilename, InvalidVersion, ValueError) as error:
            raise DecoupleError(
                f"{filename}: not a wheel's file name: {error}", next_step="give it the name that it was built with"
            ) from error
        distribution, version, *rest = plain.removesuffix(".whl").split("-")
        return cls(distribution, version, rest[0] if build else "", "-".join(rest[-3:]), label)
