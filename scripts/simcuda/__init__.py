"""A simulated CUDA device of stand-ins for NVIDIA's libraries.

They record what would be launched and execute nothing. Any build of PyTorch runs on it unchanged. The values of CUDA
tensors come from PyTorch's own CPU operators.
"""

__version__ = "0.1.0"
