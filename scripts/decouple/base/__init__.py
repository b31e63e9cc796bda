"""What every room may use: errors, git, TOML, atomic writes, processes. Knows no CUDA, reads no patch."""
