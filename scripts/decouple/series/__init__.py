"""Judging a series without a checkout: lint, check, forecast, dependencies. Knows no CUDA."""
