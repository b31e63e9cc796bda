"""Series files, patches and their headers, the stack, lint, rebase, forecast. Knows no CUDA."""
