"""Reads upstream's text: conditionals, includes, build lists. No CUDA, no git."""
