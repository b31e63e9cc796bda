"""Take CUDA out of PyTorch's core with a versioned patch series, and build it as a standalone backend."""

__version__ = "0.1.0"
