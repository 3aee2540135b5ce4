"""Modules that the benchmark scripts share."""
