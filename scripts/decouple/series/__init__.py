"""Judging a series without a checkout: lint, check on a source, forecast, what depends on what. Knows no CUDA."""
