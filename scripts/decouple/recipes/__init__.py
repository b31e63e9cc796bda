"""Patches from a description: what to find in any tree, and what stands there then. Quotes no text."""
