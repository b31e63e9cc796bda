"""Do a command's work, from a request to a value, and print nothing."""
