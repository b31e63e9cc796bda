"""A simulated CUDA device: stand-ins for NVIDIA's libraries that record what would be launched and execute nothing.

Any build of PyTorch runs on it unchanged. The values of CUDA tensors come from PyTorch's own CPU operators.
"""

__version__ = "0.1.0"
