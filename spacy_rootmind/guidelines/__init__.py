"""Which trees a parse may have.

`rules` is the table of Universal Dependencies' rules, `words` what they read of words, `ud` what
the search in `spacy_rootmind.trees.constrained` asks of them, `tag_repair` the parts of speech that
go with labels. `constraints` are the user's own, on single arcs, labels and spans.
"""
