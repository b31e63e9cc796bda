"""Get a release: providers, verified downloads, git baseline, Debian's series."""
