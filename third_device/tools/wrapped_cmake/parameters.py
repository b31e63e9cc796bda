"""Every parameter of a backend's build, in one typed table.

Names and spellings are upstream's: ``setup.py`` documents them at its top and ``tools/setup_helpers/cmake.py`` reads
them (PyTorch 2.6). As there, each variable of the environment that starts with ``BUILD_``, ``USE_`` or ``CMAKE_`` goes
to CMake whether it is listed here or not; the table adds types, defaults, help, and the few other names that upstream
passes on. Names that begin with ``WRAPPED_CMAKE_`` are the toolkit's own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from .errors import WrappedCMakeError

#: Spellings that upstream's ``check_env_flag`` and ``check_negative_env_flag`` take.
TRUE = frozenset({"ON", "1", "YES", "TRUE", "Y"})
FALSE = frozenset({"OFF", "0", "NO", "FALSE", "N"})

_PASSED_ON = ("BUILD_", "USE_", "CMAKE_")
_ARCH = re.compile(r"\d{1,2}\.\d[af]?(\+PTX)?")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One variable: ``kind`` is flag, switch (a flag, or auto: where it is found), text, path, number (of ``unit``) or
    archs; ``cmake`` the variable CMake gets."""

    name: str
    kind: str
    default: str | None
    meaning: str
    cmake: str | None = None
    unit: str = ""


def _parameter(name: str, kind: str, default: str | None, meaning: str, cmake: str | None = None) -> Parameter:
    unit = "MiB" if name.endswith("_MEMORY") else ""
    return Parameter(name, kind, default, meaning, cmake, unit)


PARAMETERS: tuple[Parameter, ...] = (
    _parameter("MAX_JOBS", "number", None, "compile jobs at once; default: what cores and free memory allow"),
    _parameter("CMAKE_BUILD_TYPE", "text", "Release", "Debug, Release or RelWithDebInfo"),
    _parameter("CMAKE_ARGS", "text", None, "more arguments for CMake, as a shell splits them"),
    _parameter("DEBUG", "flag", "0", "build with -O0 -g (unless CMAKE_BUILD_TYPE is set)"),
    _parameter("REL_WITH_DEB_INFO", "flag", "0", "build optimised with -g (unless CMAKE_BUILD_TYPE is set)"),
    _parameter("USE_CUDNN", "flag", "1", "cuDNN convolutions and RNNs"),
    _parameter("USE_NCCL", "flag", "1", "the NCCL process group"),
    _parameter("USE_MAGMA", "switch", "auto", "MAGMA, for torch.linalg.eig and others"),
    _parameter("USE_CUSPARSELT", "switch", "auto", "cuSPARSELt semi-structured matrix multiply"),
    _parameter("USE_CUDSS", "switch", "0", "cuDSS, for torch.sparse.spsolve"),
    _parameter("USE_CUFILE", "switch", "0", "cuFile, for torch.cuda.gds"),
    _parameter("USE_UCC", "switch", "0", "UCC, a backend of torch.distributed"),
    _parameter("USE_NVSHMEM", "flag", "0", "NVSHMEM, where the release uses it"),
    _parameter("USE_FLASH_ATTENTION", "flag", "1", "flash attention kernels (needs most memory per job)"),
    _parameter("USE_MEM_EFF_ATTENTION", "flag", "1", "memory-efficient attention kernels"),
    _parameter("TORCH_CUDA_ARCH_LIST", "archs", None, "e.g. '8.0;9.0+PTX'", "TORCH_CUDA_ARCH_LIST"),
    _parameter("CUDA_HOME", "path", None, "the CUDA toolkit", "CUDAToolkit_ROOT"),
    _parameter("CUDACXX", "path", None, "nvcc", "CMAKE_CUDA_COMPILER"),
    _parameter("CUDAHOSTCXX", "path", None, "the host compiler of nvcc", "CMAKE_CUDA_HOST_COMPILER"),
    _parameter("CUDNN_ROOT", "path", None, "cuDNN's folder", "CUDNN_ROOT"),
    _parameter("CUDNN_INCLUDE_DIR", "path", None, "the folder of cudnn.h", "CUDNN_INCLUDE_DIR"),
    _parameter("CUDNN_LIB_DIR", "path", None, "the folder of libcudnn.so", "CUDNN_LIB_DIR"),
    _parameter("CUDNN_LIBRARY", "path", None, "libcudnn.so itself", "CUDNN_LIBRARY"),
    _parameter("NCCL_ROOT", "path", None, "NCCL's folder", "NCCL_ROOT"),
    _parameter("NCCL_INCLUDE_DIR", "path", None, "the folder of nccl.h", "NCCL_INCLUDE_DIR"),
    _parameter("NCCL_LIB_DIR", "path", None, "the folder of libnccl.so", "NCCL_LIB_DIR"),
    _parameter("MAGMA_HOME", "path", None, "MAGMA's folder", "MAGMA_HOME"),
    _parameter("CUSPARSELT_ROOT", "path", None, "cuSPARSELt's folder", "CUSPARSELT_ROOT"),
    _parameter("CUSPARSELT_INCLUDE_DIR", "path", None, "the folder of cusparseLt.h", "CUSPARSELT_INCLUDE_DIR"),
    _parameter("CUDSS_ROOT", "path", None, "cuDSS's folder", "CUDSS_ROOT"),
    _parameter("CUDSS_INCLUDE_DIR", "path", None, "the folder of cudss.h", "CUDSS_INCLUDE_DIR"),
    _parameter("UCC_HOME", "path", None, "UCC's folder", "UCC_HOME"),
    _parameter("UCX_HOME", "path", None, "UCX's folder, which UCC is built on", "UCX_HOME"),
    _parameter("WRAPPED_CMAKE_LAUNCHER", "text", "auto", "compiler launcher: auto, ccache, sccache, none or a path"),
    _parameter("WRAPPED_CMAKE_LINKER", "text", "auto", "linker: auto (mold, then lld), mold, lld, none"),
    _parameter("WRAPPED_CMAKE_JOB_MEMORY", "number", "1500", "memory to reckon with for one C++ compile"),
    _parameter("WRAPPED_CMAKE_CUDA_JOB_MEMORY", "number", "4096", "memory to reckon with for one .cu compile"),
    _parameter("WRAPPED_CMAKE_LINK_JOB_MEMORY", "number", "4096", "memory to reckon with for one link"),
    _parameter("WRAPPED_CMAKE_TREE", "path", None, "PyTorch's source tree; default: the one this toolkit lies in"),
)
BY_NAME: dict[str, Parameter] = {parameter.name: parameter for parameter in PARAMETERS}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The parameters as read from one environment."""

    environ: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """The value, or its default; an empty variable counts as not set. Raises KeyError for an unlisted name."""
        return self.environ.get(name) or BY_NAME[name].default

    def flag(self, name: str) -> bool:
        """A flag in upstream's spellings. Raises WrappedCMakeError for anything else."""
        value = self.text(name) or "0"
        if value.upper() not in TRUE | FALSE:
            raise WrappedCMakeError(f"{name}={value}: not a flag", "use 1 or 0")
        return value.upper() in TRUE

    def switch(self, name: str) -> bool | None:
        """A flag, or None for "auto". Raises WrappedCMakeError for anything else."""
        value = self.text(name) or "0"
        if value.lower() == "auto":
            return None
        if value.upper() not in TRUE | FALSE:
            raise WrappedCMakeError(f"{name}={value}: not a switch", "use 1, 0 or auto")
        return value.upper() in TRUE

    def number(self, name: str) -> int | None:
        """A positive whole number. Raises WrappedCMakeError for anything else."""
        value = self.text(name)
        if value is None:
            return None
        if not value.isdigit() or int(value) == 0:
            raise WrappedCMakeError(f"{name}={value}: not a positive number", f"set {name} to a whole number")
        return int(value)

    def archs(self) -> list[str]:
        """``TORCH_CUDA_ARCH_LIST`` split as upstream splits it (space, comma or semicolon).

        Raises WrappedCMakeError for an entry that is no architecture.
        """
        found = [part for part in re.split(r"[ ;,]+", self.text("TORCH_CUDA_ARCH_LIST") or "") if part]
        for arch in found:
            if not _ARCH.fullmatch(arch):
                raise WrappedCMakeError(
                    f"TORCH_CUDA_ARCH_LIST: {arch!r} is no CUDA architecture", "write them as '8.0;9.0' or '9.0+PTX'"
                )
        return found

    def build_type(self) -> str:
        """By upstream's rule: CMAKE_BUILD_TYPE, else DEBUG, else REL_WITH_DEB_INFO, else Release."""
        if self.environ.get("CMAKE_BUILD_TYPE"):
            return self.environ["CMAKE_BUILD_TYPE"]
        return "Debug" if self.flag("DEBUG") else "RelWithDebInfo" if self.flag("REL_WITH_DEB_INFO") else "Release"

    def definitions(self) -> dict[str, str]:
        """What goes to CMake as ``-D``: the table's ``cmake`` names and every BUILD_*, USE_* and CMAKE_* variable."""
        self.check()
        found = {
            name: value
            for name, value in self.environ.items()
            if value
            and name.startswith(_PASSED_ON)
            and name not in ("CMAKE_ARGS", "CMAKE_GENERATOR", "CMAKE_INSTALL_PREFIX")
        }
        for parameter in PARAMETERS:
            value = self.environ.get(parameter.name)
            if parameter.cmake and value:
                found.setdefault(parameter.cmake, value)
        found["CMAKE_BUILD_TYPE"] = self.build_type()
        return found

    def check(self) -> None:
        """Read every listed variable once, so that a wrong one stops the build before it starts."""
        readers: dict[str, Any] = {"flag": self.flag, "switch": self.switch, "number": self.number}
        for parameter in PARAMETERS:
            if parameter.name in self.environ and parameter.kind in readers:
                readers[parameter.kind](parameter.name)
        self.archs()


def help_text() -> str:
    """The table for ``--help``: a line per variable, with its kind, default and meaning."""
    width = max(len(parameter.name) for parameter in PARAMETERS)
    lines = ["environment variables:"]
    for parameter in PARAMETERS:
        kind = parameter.unit or parameter.kind
        default = f" [{parameter.default}]" if parameter.default is not None else ""
        lines.append(f"  {parameter.name:<{width}}  {kind:<6}  {parameter.meaning}{default}")
    lines.append("  BUILD_*, USE_*, CMAKE_*: passed on to CMake, as upstream's setup.py does")
    return "\n".join(lines)
