"""What every room may use: errors, git, TOML, where a checkout keeps what, atomic writes, subprocesses. Knows no
CUDA, reads no patch."""
