"""Alternatives keep guidelines: by the official validator, and in pipelines."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import spacy
from parsers import changeable, gold_examples, kbest, make_nlp, read_conllu, sample, train
from reference_sampling import assert_fits
from spacy.tokens import Doc
from ud_sentences import is_tag_rule, syntax_errors

from spacy_rootmind import render
from spacy_rootmind.formats.conllu import write_conllu
from spacy_rootmind.formats.jsonl import write_jsonl
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.guidelines.ud import ud_guidelines
from spacy_rootmind.pipeline import alternatives

WORDS, TAGS = ["him", "saw", ","], ["PRON", "VERB", "PUNCT"]
LABELS = ["nsubj", "obj", "case", "punct", "dep"]
# More than there are.
ALL = 10**4
MAKERS = (kbest, sample)


@pytest.fixture(scope="module")
def nlp():
    """A parser that has learnt too little to be sure."""
    nlp = make_nlp(sentences="doc", temperature=2.0)
    words = [*WORDS, "now", "here"]
    gold = Doc(nlp.vocab, words=words, heads=[1, 1, 1, 1, 1], deps=["obj", "ROOT", *LABELS[2:]])
    gold[0].dep_ = "nsubj"
    other = Doc(nlp.vocab, words=words[:2], heads=[1, 1], deps=["obj", "ROOT"])
    return train(nlp, gold_examples([gold, other], nlp), steps=2)


@pytest.fixture
def parse(nlp):
    """A function that parses the words by the given settings; returns the alternatives."""
    with changeable(nlp) as change:

        def parse(**settings):
            change(**{"guidelines": ud_guidelines(fixed_tags=True), **settings})
            return next(nlp(Doc(nlp.vocab, WORDS, pos=TAGS)).sents)._.parses

        yield parse


def key(parse):
    return (*parse.heads.tolist(), *parse.deps)


@pytest.fixture
def accepted(parse):
    """Log probabilities of all labelled trees that the validator accepts, best first."""
    every = parse(guidelines=None, **kbest(ALL))
    wrong = {number for number, _ in syntax_errors([own.to_doc() for own in every])}
    assert 20 < len(wrong) < len(every) - 20
    return {key(own): own.log_prob for i, own in enumerate(every) if i not in wrong}


@pytest.mark.parametrize("most", [16, 1])
def test_k_best_are_those_that_the_validator_accepts(most, parse, accepted, monkeypatch):
    """Listed or searched for; log probabilities are those among all trees."""
    monkeypatch.setattr(alternatives, "BEST_MADE", most)
    for k in (1, 2, 5, ALL):
        found = parse(**kbest(k))
        assert list(map(key, found)) == list(accepted)[:k]
        np.testing.assert_allclose(
            [own.log_prob for own in found], list(accepted.values())[:k], atol=1e-4
        )


def test_samples_are_as_by_rejection(parse, accepted):
    law = np.array(list(accepted.values()))
    law -= np.logaddexp.reduce(law)
    number = {own: i for i, own in enumerate(accepted)}

    def draw(size, seed):
        found = parse(**sample(size, seed=seed))
        return np.array([number[key(own)] for own in found])

    assert_fits(draw, np.exp(law), 3000, "valid samples")


# --- the shipped pipeline ----------------------------------------------------------------------

TEXTS = (
    "The big the dog he she ran ran.",
    "What we saw the man the dog.",
    "That very which not to ,",
    "She saw the man with the telescope. He didn't see her.",
)


@pytest.fixture(scope="module")
def shipped(web_pipeline):
    return spacy.load(web_pipeline, exclude=["ud_tag_repair"])


@pytest.fixture
def change(shipped):
    with changeable(shipped) as change:
        yield change


def errors_in(doc):
    """The broken rules of alternatives, except rules on parts of speech."""
    found = [own.to_doc() for sentence in doc.sents for own in sentence._.parses]
    return {name for _, name in syntax_errors(found) if not is_tag_rule(name)}


def is_parse(alternative):
    span = alternative.span
    heads = [token.head.i - span.start for token in span]
    return alternative.heads.tolist() == heads and alternative.deps == [t.dep_ for t in span]


@pytest.mark.parametrize("make", MAKERS)
def test_no_alternative_breaks_a_rule(make, shipped, change):
    change(**make(7), guidelines=None)
    assert "too-many-subjects" in errors_in(shipped(TEXTS[0]))
    change(guidelines=ud_guidelines())
    for doc in shipped.pipe(TEXTS):
        assert errors_in(doc) == set()
        for sentence in doc.sents:
            assert len(sentence._.parses) == 7
            if make is kbest:
                assert is_parse(sentence._.parses[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["English-EWT", "English-GUM"])
def test_the_first_of_the_k_best_is_the_parse(name, shipped, change, ud_folder):
    change(**kbest(2))
    [path] = (ud_folder / f"UD_{name}").glob("*-ud-dev.conllu")
    docs = [Doc(shipped.vocab, [t.text for t in doc]) for doc in read_conllu(path, shipped.vocab)]
    assert len(docs) > 1500
    parses = [sentence._.parses for doc in shipped.pipe(docs) for sentence in doc.sents]
    assert all(is_parse(own[0]) for own in parses)


def test_constraints_hold_in_alternatives_and_broken_parses_keep_all(shipped, change):
    """Two subjects of one verb, as the user wants them."""
    labels = [(4, "nsubj"), (5, "nsubj")]
    for own in (labels[:1], labels):
        constraints = Constraints(forced=[(4, 6), (5, 6)], labels=own)
        for make in MAKERS:
            change(constraints=lambda doc, c=constraints: c, **make(4))
            doc = shipped(TEXTS[0])
            [sentence] = doc.sents
            # Samples with one subject are rare here.
            assert len(sentence._.parses) == 4 or (make is not kbest and len(own) == 1)
            for parse in sentence._.parses:
                assert parse.heads[[4, 5]].tolist() == [6, 6]
                assert {(i, parse.deps[i]) for i in (4, 5)} >= set(own)
            assert bool(errors_in(doc)) == (len(own) == 2)


@pytest.mark.parametrize("make", MAKERS)
def test_fewer_and_a_warning_where_hardly_any_tree_is_valid(
    make, shipped, change, caplog, monkeypatch
):
    """None at all can be written as well."""
    for limit in ("BEST_MADE", "MADE_EACH", "MADE_BESIDES", "MAX_DECODES", "DECODES_EACH"):
        monkeypatch.setattr(alternatives, limit, 0)
    none_valid = SimpleNamespace(are_valid=lambda numbers, *trees: np.zeros(len(numbers), bool))
    make_valid = alternatives._make_valid
    monkeypatch.setattr(
        alternatives,
        "_make_valid",
        lambda make, k, most, rules, *rest: make_valid(make, k, most, none_valid, *rest),
    )
    monkeypatch.setattr(alternatives.warn_of_missing, "has_warned", False)
    change(**make(5), confidence=True)
    doc = shipped(TEXTS[-1])
    [warning] = [record.getMessage() for record in caplog.records]
    assert "0 of 5 alternatives of the sentence 'She saw the man with the telescope.'" in warning
    assert "guidelines" in warning
    assert [sentence._.parses for sentence in doc.sents] == [[], []]
    record = InputRecord("in", 1, text=doc.text)
    assert b"# parse_1" not in write_conllu(doc, record)
    assert json.loads(write_jsonl(doc, record))["sents"][0]["parses"] == []
    assert "telescope" in render(doc)


def test_long_sentences_have_all_alternatives(shipped, change):
    """Listed, where a search alone would end before it finds all of them."""
    change(**kbest(10))
    doc = shipped(
        "With the network of `cpu.cfg`, trained for 30 epochs, *predicted* tags, parts of speech "
        "and features as inputs raise UAS on all of twelve treebanks, by 1.3 on average (gold "
        "tokens and sentences, three seeds)."
    )
    [sentence] = doc.sents
    assert len(sentence._.parses) == 10
    assert is_parse(sentence._.parses[0])
