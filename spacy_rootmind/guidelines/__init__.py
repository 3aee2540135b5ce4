"""Restrictions on the trees of a parse.

`rules` is the table of Universal Dependencies' rules, `words` the arrays that these read, `ud`
their form for the search in `spacy_rootmind.trees.constrained`, `tag_repair` the component that
makes parts of speech agree with labels. `constraints` are the user's own, on single arcs, labels
and spans.
"""
