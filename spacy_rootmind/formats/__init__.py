"""Formats of files to parse and of parses, a module for each."""
