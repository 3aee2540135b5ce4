"""Patterns of dependency trees, matched over all trees of a sentence."""
