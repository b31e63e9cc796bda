"""Getting a release: providers, verified downloads, the git baseline. Knows no series."""
