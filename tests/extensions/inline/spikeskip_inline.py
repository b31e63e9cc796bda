"""Compiles spikeskip's one .cu, of its sdist in this folder, through ``load_inline``, and calls what came of it."""

from pathlib import Path

import torch
from torch.utils.cpp_extension import load_inline

source = next(Path.cwd().glob("spikeskip/csrc/sparse_linear.cu"))
built = Path("built")
built.mkdir(exist_ok=True)
module = load_inline("spikeskip_inline", "", source.read_text(), build_directory=str(built), verbose=True)
try:
    module.forward(torch.zeros(2, 2), torch.zeros(2, 2))
    raise AssertionError("CPU tensors were taken")
except RuntimeError as error:
    print(str(error).splitlines()[0], "- functions:", sum(not name.startswith("_") for name in dir(module)))
