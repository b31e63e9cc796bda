"""Getting upstream source: providers, verified downloads, safe unpacking, git baselines. Knows no series."""
