"""Build side of the torch_cuda project: PEP 517 backend and the helpers that CMake calls. Never installed."""
