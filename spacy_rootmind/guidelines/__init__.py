"""Restrictions on the trees of a parse: Universal Dependencies' rules, and a user's own."""
