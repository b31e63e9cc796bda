"""Others' compiled kernels under our own bindings: their symbols and files."""
