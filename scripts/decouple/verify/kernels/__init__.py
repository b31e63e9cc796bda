"""Read a CUDA library's machine code by kernel; hash, compare, never execute."""
