"""Reading one patch: its text, header and names, what it does to files, what is wrong with it. Knows no CUDA."""
