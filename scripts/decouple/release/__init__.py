"""Release manifests and versions. Knows neither network nor git."""
