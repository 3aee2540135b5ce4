"""Exceptions and messages of the array functions."""

LOST_DIGITS = (
    "scores of such magnitudes are beyond float64: their sums overflow, or every tree needs an arc "
    "whose score is 1e15 below that of another arc to the same word; forbid arcs by -inf, not by "
    "very low scores, and scale the scores down"
)
SUMS_OVERFLOW = "sums of scores of such magnitudes overflow; scale them down"


class NoTreeError(ValueError):
    """No tree of the wanted kind has a score above -inf."""
