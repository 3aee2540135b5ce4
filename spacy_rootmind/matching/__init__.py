"""Patterns of dependency trees, matched over all trees of a sentence.

`patterns` reads the format of spaCy's DependencyMatcher, `search` finds the matches in a sentence
with their probabilities, `chains` bounds the probability of ancestors, and `matcher` goes through
Docs.
"""
