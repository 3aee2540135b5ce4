"""Thinc layers of the parser, one a file. None of them knows spaCy."""
