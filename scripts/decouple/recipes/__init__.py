"""Patches from recipes: what to find in a tree, and what to put. Quotes no text."""
