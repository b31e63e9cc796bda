"""Reading upstream's text: conditionals, include graphs, build lists. Knows files; no CUDA, no git."""
