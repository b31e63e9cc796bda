"""Judging a series: lint, check, forecast, dependencies. No checkout, no CUDA."""
