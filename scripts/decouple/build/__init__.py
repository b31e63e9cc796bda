"""Environments, the two stages, wheels and their manifests. Knows not how patches are made."""
