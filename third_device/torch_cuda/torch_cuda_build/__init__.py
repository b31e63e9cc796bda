"""The build side of the torch_cuda project.

It has the PEP 517 backend and the helpers that CMake calls. It is never installed.
"""
