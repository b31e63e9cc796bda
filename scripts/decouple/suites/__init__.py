"""Upstream's CUDA test suites: run on a torch, and compared between two builds."""
