"""Take CUDA out of PyTorch's core with a versioned patch series.

It is then built as a standalone backend.
"""

__version__ = "0.1.0"
