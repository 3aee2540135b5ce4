"""Noun chunks of a UD tree by way of spaCy's own iterator: the tree is first converted.

The conversion to the scheme of spaCy's English parsers (CLEAR) covers what decides about noun
chunks: prepositions and copulas become heads, names end in their head, coordinators and commas
attach to the first conjunct. Nothing here is shared with the package.
"""

from spacy.lang.en.syntax_iterators import noun_chunks
from spacy.tokens import Doc

NOMINALS = {"NOUN", "PROPN", "PRON"}
LABELS = {
    "root": "ROOT",
    "obj": "dobj",
    "iobj": "dative",
    "nsubj:pass": "nsubjpass",
    "nsubj:outer": "nsubj",
    "nmod:poss": "poss",
    "nmod:desc": "compound",
    "nmod:unmarked": "npadvmod",
    "obl:unmarked": "npadvmod",
    "obl:agent": "pobj",
    "vocative": "npadvmod",
    "list": "dep",
}
# Dependents of a nominal predicate that belong to it, and not to its clause.
OWN = {"det", "amod", "nummod", "compound", "flat", "fixed", "goeswith", "case", "acl", "appos"}
OWN_SUBTYPES = {"nmod:unmarked", "nmod:poss", "nmod:desc", "cc:preconj"}


class Tree:
    """Heads and labels under conversion; a root is its own head."""

    def __init__(self, doc):
        self.doc = doc
        self.heads = [token.head.i for token in doc]
        self.labels = ["root" if token.dep_ == "ROOT" else token.dep_ for token in doc]

    def children(self, i):
        return [j for j, head in enumerate(self.heads) if head == i and j != i]

    def raise_over(self, new, old):
        """Put a dependent in the place of its head, and the head below it."""
        is_root = self.heads[old] == old
        self.heads[new] = new if is_root else self.heads[old]
        self.labels[new] = self.labels[old]
        self.heads[old] = new

    def move(self, dependents, head):
        for j in dependents:
            if j != head:
                self.heads[j] = head


def convert(doc):
    """Return a copy of a UD Doc with a tree as spaCy's English parsers make them."""
    tree = Tree(doc)
    for i in range(len(doc)):
        names_end_in_their_head(tree, i)
    for i in range(len(doc)):
        copulas_are_heads(tree, i)
    for i in range(len(doc)):
        prepositions_are_heads(tree, i)
    for i in range(len(doc)):
        punctuation_is_to_the_left(tree, i)
    labels = [LABELS.get(label, label.partition(":")[0]) for label in tree.labels]
    for i, token in enumerate(doc):
        if labels[i] == "expl" and token.lower_ == "it":
            labels[i] = "nsubj"
        if labels[i] == "xcomp" and token.pos_ in NOMINALS:
            labels[i] = "oprd"
    converted = Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        pos=[token.pos_ for token in doc],
        heads=tree.heads,
        deps=labels,
    )
    assert [token.head.i for token in converted] == tree.heads
    return converted


def names_end_in_their_head(tree, i):
    flat = [j for j in tree.children(i) if tree.labels[j] in ("flat", "goeswith") and j > i]
    if not flat:
        return
    last = flat[-1]
    if tree.doc[last].pos_ not in NOMINALS:
        return
    before = tree.children(i)
    tree.raise_over(last, i)
    tree.move(before, last)
    for j in [i, *flat[:-1]]:
        tree.labels[j] = "compound"


def copulas_are_heads(tree, i):
    copulas = [j for j in tree.children(i) if tree.labels[j] == "cop"]
    if not copulas:
        return
    children = tree.children(i)
    copula = copulas[0]
    tree.raise_over(copula, i)
    # In front of a preposition it is an adverbial, and gets its label below.
    tree.labels[i] = "attr" if tree.doc[i].pos_ in NOMINALS else "acomp"
    for j in children:
        label = tree.labels[j]
        is_own = label in OWN_SUBTYPES or label.partition(":")[0] in OWN | {"nmod"}
        if not is_own:
            tree.move([j], copula)


def prepositions_are_heads(tree, i):
    if tree.labels[i] in ("poss", "nmod:poss", "advmod", "amod", "compound", "case", "fixed"):
        return
    if tree.doc[i].pos_ not in NOMINALS:
        return
    cases = [j for j in tree.children(i) if tree.labels[j] == "case"]
    if not cases:
        return
    first = cases[0]
    before = [j for j in tree.children(i) if j < cases[-1] < i and j not in cases]
    label = tree.labels[i]
    tree.raise_over(first, i)
    tree.labels[first] = "conj" if label == "conj" else "root" if label == "root" else "prep"
    top = first
    for j in cases[1:]:
        tree.heads[j], tree.labels[j] = top, "prep"
        top = j
    tree.heads[i], tree.labels[i] = top, "pobj"
    tree.move(before, first)


def punctuation_is_to_the_left(tree, i):
    for j in tree.children(i):
        is_before = all(j <= k for k in tree.children(i)) and j < i
        if (is_before and tree.labels[j] == "punct") or (j < i and tree.labels[j] == "cc"):
            tree.heads[j] = tree.heads[i]


def reference_chunks(doc):
    """List the start and end of each of spaCy's noun chunks in a UD Doc."""
    return [(start, end) for start, end, _ in noun_chunks(convert(doc))]
