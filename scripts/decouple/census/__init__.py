"""Finds and reports every coupling between the core and CUDA. Knows no patches."""
