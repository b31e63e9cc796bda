"""Getting a PyTorch release: providers, verified downloads, safe unpacking, the git baseline. Knows no series."""
