"""Scaffolds third-party backends and checks them against the contract. Knows no CUDA."""
