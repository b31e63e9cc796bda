"""Build roots, the two stages, ccache, wheels and their manifests. Knows not how patches are made."""
