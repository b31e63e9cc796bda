"""The coupling scanner: every place where the tree knows of CUDA, what kind it is, and what becomes of it.

Knows nothing of patches: its caller says which patch touches which file.
Entry point: :func:`decouple.census.scan.scan`.
"""
