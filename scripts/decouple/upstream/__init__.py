"""Get a verified release: providers, git baseline, Debian's series but not ours."""
