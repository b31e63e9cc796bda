"""Check before a build that all is there that the stage needs.

Each lack is one line with the next step. ``probe_environment`` runs ``inside/environment_facts.py`` in the environment;
``check_stage2`` judges what it said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, json

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import toolkits
from decouple.build.environment import Environment, read_output

_SCRIPT = Path(__file__).parent / "inside" / "environment_facts.py"
_ARCH = re.compile(r"(\d+)\.(\d[af]?)(\+PTX)?")


class ProbeResult(Struct, frozen=True):
    """Hold versions of CUDA, cuDNN and the core, and nvcc's architectures ("90a").

    ``host_gcc`` is the major version of gcc where that is what nvcc is to use.
    """

    nvcc: str | None
    archs: tuple[str, ...]
    cudnn: str | None
    torch: str | None
    host_gcc: int | None = None


class Stage2Needs(Struct, frozen=True):
    """Hold stage 2's needs: CUDA ("12.4"), torch ("2.6.0"), TORCH_CUDA_ARCH_LIST."""

    cuda: str | None
    torch: str
    archs: tuple[str, ...]
    core_prefix: str
    cudnn: bool = True


def probe_environment(environment: Environment, variables: Mapping[str, str], core_prefix: str) -> ProbeResult:
    """Look at the environment.

    Raises DecoupleError when there is no Python inside to ask.
    """
    output = read_output(environment, ["python3", "-c", _SCRIPT.read_text(encoding="utf-8"), core_prefix], variables)
    if output is None:
        raise DecoupleError(
            f"python3 does not run in the {environment.kind} environment",
            next_step="install python3, or use --env rootfs",
        )
    return json.decode(output, type=ProbeResult)


def check_stage2(present: ProbeResult, wanted: Stage2Needs) -> None:
    """Raise DecoupleError for the first thing that stage 2 lacks."""
    if present.nvcc is None:
        raise DecoupleError(
            "no nvcc: stage 2 compiles CUDA", next_step="set CUDACXX to it, or use --env rootfs, which brings one"
        )
    if wanted.cuda and present.nvcc != wanted.cuda:
        raise DecoupleError(
            f"CUDA {present.nvcc} is installed, this release is built with {wanted.cuda}",
            next_step=f"install CUDA {wanted.cuda} and set CUDACXX to its nvcc, or use --env rootfs",
        )
    newest = toolkits.find_newest_gcc(present.nvcc)
    if newest and present.host_gcc and present.host_gcc > newest:
        raise DecoupleError(
            f"nvcc {present.nvcc} takes gcc up to {newest} as host compiler, here it is gcc {present.host_gcc}",
            next_step=f"set CUDAHOSTCXX to g++-{newest} or an older one, or use --env rootfs",
        )
    check_archs(wanted.archs, present.archs, present.nvcc)
    if wanted.cudnn and present.cudnn is None:
        raise DecoupleError(
            "cuDNN's headers are missing (no cudnn_version.h in CUDNN_ROOT, CUDNN_INCLUDE_DIR or /usr)",
            next_step="set CUDNN_ROOT to its folder, or build with USE_CUDNN=0",
        )
    if present.torch is None:
        raise DecoupleError(
            f"no torch in {wanted.core_prefix} to build against",
            next_step="build stage 1 first (--stage 1), or use --core stock",
        )
    if present.torch.split("+")[0] != wanted.torch:
        raise DecoupleError(
            f"the core in {wanted.core_prefix} is torch {present.torch}, the source is {wanted.torch}",
            next_step=f"build stage 1 again, or install torch {wanted.torch}",
        )


def check_archs(archs: Sequence[str], known: Sequence[str], nvcc: str) -> None:
    """Raise UsageError for no architecture, DecoupleError for one that nvcc lacks."""
    for arch in archs:
        match = _ARCH.fullmatch(arch)
        if match is None:
            raise UsageError(f"--arch {arch}: not an architecture", next_step="write them as '8.0;9.0' or '9.0+PTX'")
        if known and (match[1] + match[2]) not in known and (match[1] + match[2].rstrip("af")) not in known:
            listed = ", ".join(f"{name[:-1]}.{name[-1]}" for name in known if name[-1].isdigit())
            raise DecoupleError(f"--arch {arch}: nvcc {nvcc} does not know it", next_step=f"choose from {listed}")


def split_archs(text: str) -> tuple[str, ...]:
    """Split ``TORCH_CUDA_ARCH_LIST`` as upstream does: space, comma or semicolon."""
    return tuple(part for part in re.split(r"[ ,;]+", text) if part)
