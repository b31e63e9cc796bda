"""Say how many of many, in percent."""

from __future__ import annotations


def cut_percent(part: int, whole: int) -> float:
    """Return the percentage, cut after two places: 100.0 only where all are."""
    return 10000 * part // whole / 100 if whole else 0.0
