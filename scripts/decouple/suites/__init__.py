"""Upstream's CUDA test suites on a torch, test by test; and what two torches did compared."""
