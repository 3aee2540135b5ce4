"""Multiword tokens: scripts that make their words, and the component that chooses a script."""
