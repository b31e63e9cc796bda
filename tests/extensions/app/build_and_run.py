"""Configures the program of this folder as PyTorch's documentation has it, builds it and runs it."""

import subprocess
import sys

import torch

where = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
subprocess.run(["cmake", "-G", "Ninja", "-S", ".", "-B", "built", "-DCMAKE_BUILD_TYPE=Release", where], check=True)
subprocess.run(["cmake", "--build", "built"], check=True)
sys.stdout.flush()
subprocess.run(["built/app"], check=True)
