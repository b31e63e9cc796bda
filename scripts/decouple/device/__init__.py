"""Scaffolds third-party backends, checks them against the contract. Knows no CUDA."""
