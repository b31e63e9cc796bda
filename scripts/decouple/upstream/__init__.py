"""Getting a release: providers, verified downloads, the git baseline. Knows Debian's series, not ours."""
