"""Patches made from a description: what to find in any tree, and what stands there afterwards. Quotes no text."""
