"""GPU architectures as upstream's builds name them."""

from __future__ import annotations

import re

CONFIG = "ATen/cuda/CUDAConfig.h"
"""The header of a CUDA build, below its include folder, that records nvcc's flags."""


def parse_arch_list(config: str) -> list[str]:
    """Read the architectures from the flags that upstream's CUDAConfig.h records.

    They are in the words of TORCH_CUDA_ARCH_LIST.

    >>> parse_arch_list('"-gencode;arch=compute_90a,code=sm_90a;-gencode;arch=compute_100,code=compute_100"')
    ['9.0a', '10.0+PTX']
    """
    codes = re.findall(r"code=(sm|compute)_(\d+)(\d[af]?)", config)
    return [f"{major}.{minor}{'+PTX' if kind == 'compute' else ''}" for kind, major, minor in codes]
