"""Writes a wheel index; downloads and verifies from one. Knows no building."""
