"""Kernels that somebody else compiled, under our own bindings: what they need, whether it is there, and taking them."""
