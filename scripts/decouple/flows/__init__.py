"""What a command does, from a request to a value: callable from Python, printing nothing."""
