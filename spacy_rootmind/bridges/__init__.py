"""Decoders of other parsers, replaced by ours: a module for each parser, with `install()`."""
