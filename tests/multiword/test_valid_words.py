"""Words of multiword tokens keep the guidelines, by the official validator."""

import numpy as np
import spacy
from spacy.tokens import Doc
from ud_sentences import syntax_errors

from spacy_rootmind.annotation.words import OUTSIDE, Expansion, Word, write_expansions
from spacy_rootmind.multiword.valid_words import keep_guidelines

LABELS = ["nsubj", "obl", "case", "conj", "punct", "det", "aux", "nmod", "fixed", "obj"]
TAG_OF = {"case": "ADP", "punct": "PUNCT", "det": "DET", "aux": "AUX", "fixed": "ADV"}
NLP = spacy.blank("xx")


def tag_of(label):
    return TAG_OF.get(label, "NOUN")


def random_doc(rng, n):
    """A random tree with parts of speech that go with its labels."""
    order = rng.permutation(n).tolist()
    heads, deps = [0] * n, ["ROOT"] * n
    for i, token in enumerate(order):
        heads[token] = order[int(rng.integers(i))] if i else token
        if i:
            deps[token] = str(rng.choice(LABELS))
    words = [f"w{i}" for i in range(n)]
    return Doc(NLP.vocab, words=words, heads=heads, deps=deps, pos=[*map(tag_of, deps)])


def random_expansion(rng):
    """Two or three words, of which any depend on the topmost one or outside."""
    n = int(rng.integers(2, 4))
    top = int(rng.integers(n))
    words = []
    for place in range(n):
        label = str(rng.choice(LABELS))
        head = top if rng.random() < 0.5 else OUTSIDE
        word = Word(f"p{place}", pos=tag_of(label), dep=label, head=head)
        words.append(Word(f"p{place}") if place == top else word)
    return Expansion(top, tuple(words))


def with_errors(cases):
    """The numbers of the Docs in which the validator finds errors of syntax, given their words."""
    docs = []
    for doc, expansions in cases:
        write_expansions(doc, expansions)
        docs.append(doc)
    return {number for number, _ in syntax_errors(docs)}


def of_docs(docs, found):
    """Sort expansions of tokens, which are counted through all Docs, by their Docs."""
    starts = np.cumsum([0, *map(len, docs)])
    by_doc = [{} for _ in docs]
    for place, expansion in found.items():
        number = int(np.searchsorted(starts, place, side="right")) - 1
        by_doc[number][place - int(starts[number])] = expansion
    return by_doc


def test_words_break_no_rule_that_the_tree_keeps():
    rng = np.random.default_rng(0)
    docs = [random_doc(rng, int(rng.integers(2, 6))) for _ in range(1000)]
    wrong = with_errors([(doc, {}) for doc in docs])
    docs = [doc for number, doc in enumerate(docs) if number not in wrong]
    assert len(docs) > 200
    ranked = {
        place: [random_expansion(rng) for _ in range(3)]
        for place in np.flatnonzero(rng.random(sum(map(len, docs))) < 0.4).tolist()
    }
    chosen = {place: own[0] for place, own in ranked.items()}
    best = of_docs(docs, chosen)
    found = of_docs(docs, keep_guidelines(docs, chosen, ranked.__getitem__))
    # A Doc's words do not depend on the others.
    alone = [
        keep_guidelines([doc], own, lambda place, start=start: ranked[start + place])
        for doc, own, start in zip(docs, best, np.cumsum([0, *map(len, docs)]), strict=False)
    ]
    assert alone == found
    changed = {i for i, (a, b) in enumerate(zip(best, found, strict=True)) if a != b}
    assert len(changed) > 50
    assert with_errors(zip(docs, best, strict=True)) == changed
    assert with_errors(zip(docs, found, strict=True)) == set()
    # Hardly any token has to stay whole.
    n_words, n_left = (sum(map(len, each)) for each in (best, found))
    assert n_left > 0.9 * n_words


def test_forms_are_kept_where_others_will_do():
    doc = Doc(
        NLP.vocab,
        words=["ab", "c", "d"],
        heads=[1, 1, 1],
        deps=["nsubj", "ROOT", "obj"],
        pos=["NOUN", "VERB", "NOUN"],
    )

    def made(label, pos="NOUN"):
        return Expansion(0, (Word("a"), Word("b", pos=pos, dep=label)))

    # A conjunct follows its head, and here it would depend on the verb behind it.
    other = Expansion(0, (Word("a"), Word("x", pos="ADV", dep="advmod")))
    ranked = [made("conj"), other, made("advmod", "ADV")]
    assert keep_guidelines([doc], {0: ranked[0]}, lambda place: ranked) == {
        0: made("advmod", "ADV")
    }
    # Without another script for the forms, heads or labels change, the forms do not.
    [(_, found)] = keep_guidelines([doc], {0: ranked[0]}, lambda place: ranked[:2]).items()
    assert [word.form for word in found.words] == ["a", "b"]
    assert found.words[1].head == 0
    # Without a parse, nothing is known to be wrong.
    bare = Doc(NLP.vocab, words=["ab", "c"])
    assert keep_guidelines([bare], {0: ranked[0]}, lambda place: ranked) == {0: ranked[0]}
