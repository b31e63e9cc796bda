"""Reads one patch: text, header, names, changes and faults. Knows no CUDA."""
