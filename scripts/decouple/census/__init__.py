"""Every coupling of a tree to CUDA or ROCm: its kind, and what becomes of it.

Knows nothing of patches: its caller says which patch touches which file. Entry point:
:func:`decouple.census.scan.scan_tree`.
"""
