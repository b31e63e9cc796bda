"""Environments (host or Debian root), the two stages, wheels and their manifests. Knows not how patches are made."""
