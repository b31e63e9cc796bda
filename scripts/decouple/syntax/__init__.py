"""Reading upstream's text: preprocessor conditionals, include graphs, build lists. Knows files; no CUDA, no git."""
