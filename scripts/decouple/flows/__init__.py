"""Do a command's work, from a request to a value, from Python, without printing."""
