"""What every room may use: errors, paths, atomic writes, injected stops, subprocesses. Knows no domain."""
