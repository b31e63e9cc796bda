"""Compare installed torches: what the official wheel has, and ours has not."""
