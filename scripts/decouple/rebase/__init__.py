"""Carrying a series to another release; what a person must settle waits for them."""
