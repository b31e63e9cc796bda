"""For every room: errors, git, TOML, atomic writes, processes; no CUDA, no patch."""
