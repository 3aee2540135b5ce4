"""The component `ud_label_map`: names of spaCy's English scheme on UD trees."""

import pytest
import spacy
from parsers import arcs_of, make_nlp
from reference_noun_chunks import reference_chunks
from spacy.tokens import Doc
from trees_of_text import read_tree

from spacy_rootmind.pipeline.label_map import map_labels

VOCAB = spacy.blank("en").vocab
# Labels of spaCy's English pipelines.
SPACYS = """
    ROOT acl acomp advcl advmod agent amod appos attr aux auxpass case cc ccomp compound conj csubj
    csubjpass dative dep det dobj expl intj mark meta neg nmod npadvmod nsubj nsubjpass nummod oprd
    parataxis pcomp pobj poss preconj predet prep prt punct quantmod relcl xcomp
"""
SENTENCES = {
    "passive": (
        "He/PRON/nsubj:pass/4 was/AUX/aux:pass/4 n't/PART/advmod/4 seen/VERB/root/0 by/ADP/case/7 "
        "a/DET/det/7 friend/NOUN/obl:agent/4 in/ADP/case/9 Rome/PROPN/obl/4",
        "nsubjpass auxpass neg ROOT agent det pobj prep pobj",
    ),
    "objects": (
        "I/PRON/nsubj/2 gave/VERB/root/0 Anna/PROPN/iobj/2 her/PRON/nmod:poss/5 key/NOUN/obj/2 "
        "last/ADJ/amod/7 week/NOUN/obl:unmarked/2",
        "nsubj ROOT dative poss dobj amod npadvmod",
    ),
    "complements": (
        "They/PRON/nsubj/2 called/VERB/root/0 him/PRON/obj/2 a/DET/det/5 fool/NOUN/xcomp/2 "
        "to/PART/mark/7 become/VERB/xcomp/2 rich/ADJ/xcomp/7",
        "nsubj ROOT dobj det oprd aux xcomp acomp",
    ),
    "possessors and names": (
        "Marie/PROPN/nmod:poss/4 Curie/PROPN/flat/1 's/PART/case/1 husband/NOUN/root/0 "
        "that/PRON/nsubj/6 died/VERB/acl:relcl/4",
        "poss compound case ROOT nsubj relcl",
    ),
    "prepositions without a noun after them": (
        "What/PRON/obl/4 are/AUX/aux/4 you/PRON/nsubj/4 thinking/VERB/root/0 of/ADP/case/1",
        "pobj aux nsubj ROOT prep",
    ),
    "copulas stay below the predicate": (
        "It/PRON/nsubj/4 is/AUX/cop/4 about/ADV/advmod/4 ten/NUM/root/0",
        "nsubj cop quantmod ROOT",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_names(name):
    text, expected = SENTENCES[name]
    doc = read_tree(VOCAB, text)
    assert " ".join(token.dep_ for token in map_labels(doc)) == expected


def test_names_of_a_treebank_are_spacys(quickstart_docs):
    for doc in quickstart_docs:
        heads = [token.head.i for token in doc]
        mapped = map_labels(doc.copy())
        labels = [token.dep_ for token in mapped]
        assert set(labels) <= {*SPACYS.split(), "cop"}
        assert [token.head.i for token in mapped] == heads
        assert [sent.start for sent in mapped.sents] == [sent.start for sent in doc.sents]
        assert [token.dep_ for token in map_labels(mapped)] == labels


def add_map(nlp):
    nlp.add_pipe("ud_label_map")
    return nlp


def test_in_a_saved_pipeline(trained_english, tmp_path):
    nlp = add_map(make_nlp("en").from_bytes(trained_english.to_bytes()))
    nlp.to_disk(tmp_path / "model")
    text = "The teacher gave the boy a book ."
    plain = trained_english(text)
    mapped = map_labels(plain.copy())
    assert arcs_of(spacy.load(tmp_path / "model")(text)) == arcs_of(mapped) != arcs_of(plain)


def test_probabilities_and_alternatives_remain(trained_english):
    nlp = make_nlp("en", confidence=True, alternatives={"@misc": "spacy_rootmind.kbest.v1", "k": 2})
    nlp.from_bytes(trained_english.to_bytes())
    text = "The teacher gave the boy a book ."
    plain, mapped = nlp(text), add_map(nlp)(text)
    assert [token._.head_prob for token in mapped] == [token._.head_prob for token in plain]
    for before, after in zip(plain, mapped, strict=True):
        # The known probability is that of the parser's label.
        assert after._.arc_prob == (before._.arc_prob if before.dep_ == after.dep_ else None)
    [before], [after] = plain.sents, mapped.sents
    assert after._.parse_log_prob == before._.parse_log_prob
    assert [parse.deps for parse in after._.parses] == [parse.deps for parse in before._.parses]


def test_noun_chunks_are_those_of_the_tree(quickstart_docs):
    nlp = add_map(make_nlp("en"))
    right = n_found = n_gold = 0
    for bundled in quickstart_docs:
        doc = Doc(nlp.vocab).from_bytes(bundled.to_bytes())
        gold = set(reference_chunks(doc))
        mapped = nlp.get_pipe("ud_label_map")(doc)
        found = {(chunk.start, chunk.end) for chunk in mapped.noun_chunks}
        right, n_found, n_gold = right + len(found & gold), n_found + len(found), n_gold + len(gold)
    assert right > 0.97 * n_found
    assert right > 0.97 * n_gold


def test_noun_chunks_after_another_parser():
    nlp = spacy.blank("en")
    relabel = nlp.add_pipe("ud_label_map")
    mapped = relabel(read_tree(nlp.vocab, SENTENCES["passive"][0]))
    assert [chunk.text for chunk in mapped.noun_chunks] == ["He", "a friend", "Rome"]
