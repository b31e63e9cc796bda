"""For all packages: errors, git, TOML, atomic writes, processes; knows no CUDA."""
