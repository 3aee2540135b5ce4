"""Conversion between spaCy's Docs and arrays, in both directions."""
