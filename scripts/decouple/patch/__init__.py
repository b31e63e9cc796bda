"""Reading one patch: text, header, names, what it does to files, what is wrong. Knows no CUDA."""
