"""The machine code in a CUDA library, kernel by kernel: read, kept as hashes, compared; never executed."""
