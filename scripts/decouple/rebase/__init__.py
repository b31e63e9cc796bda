"""Carrying a series to another upstream release: what fits, what upstream took over, what a person must settle."""
