"""Others' compiled kernels under our own bindings: what they need, and taking them."""
