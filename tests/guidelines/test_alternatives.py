"""Alternatives keep guidelines: by the official validator, and in pipelines."""

import json

import numpy as np
import pytest
import spacy
from parsers import changeable, gold_examples, make_nlp, read_conllu, train
from reference_sampling import assert_fits, order_law
from spacy.tokens import Doc
from ud_sentences import is_tag_rule, syntax_errors

from spacy_rootmind import render
from spacy_rootmind.formats.conllu import write_conllu
from spacy_rootmind.formats.jsonl import write_jsonl
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.guidelines.ud import UDGuidelines, ud_guidelines
from spacy_rootmind.pipeline import find_alternatives
from spacy_rootmind.pipeline.alternatives import kbest, sample, sample_without_replacement

WORDS, TAGS = ["him", "saw", ","], ["PRON", "VERB", "PUNCT"]
LABELS = ["nsubj", "obj", "case", "punct", "dep"]
# More than there are.
ALL = 10**4
MAKERS = (kbest, sample, sample_without_replacement)


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

        def parse(count=1, **settings):
            change(**{"guidelines": ud_guidelines(fixed_tags=True), **settings})
            docs = [Doc(nlp.vocab, WORDS, pos=TAGS) for _ in range(count)]
            found = [next(doc.sents)._.parses for doc in nlp.pipe(docs)]
            return found if count > 1 else found[0]

        yield parse


def key(parse):
    return (*parse.heads.tolist(), *parse.deps)


@pytest.fixture
def accepted(parse, nlp):
    """Log probabilities of all trees that the validator accepts, best first."""

    def accepted(labelled):
        every = parse(guidelines=None, alternatives=kbest(ALL, labelled=True))
        wrong = {number for number, _ in syntax_errors([own.to_doc() for own in every])}
        assert 20 < len(wrong) < len(every) - 20
        valid = [own for i, own in enumerate(every) if i not in wrong]
        if labelled:
            return {key(own): own.log_prob for own in valid}
        # A tree has the best label that single arcs may have; that of the parse has the parse's.
        [trees] = (parse(guidelines=None, alternatives=kbest(ALL)),)
        log_probs = {own.heads.tobytes(): own.log_prob for own in trees}
        best = {own.heads.tobytes(): own for own in reversed(every) if is_allowed(own)}
        best[valid[0].heads.tobytes()] = valid[0]
        found = [own for heads, own in best.items() if own in valid]
        found = sorted(found, key=lambda own: -log_probs[own.heads.tobytes()])
        return {key(own): log_probs[own.heads.tobytes()] for own in found}

    def is_allowed(own):
        names = nlp.get_pipe("root_mst").labels
        doc = Doc(nlp.vocab, WORDS, pos=TAGS)
        mask = UDGuidelines(names)([(doc, np.arange(3))]).mask(0)
        heads = np.where(own.heads == np.arange(3), 0, own.heads + 1)
        return mask[[1, 2, 3], heads, [names.index(dep) for dep in own.deps]].all()

    return accepted


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("most", [16, 1])
def test_k_best_are_those_that_the_validator_accepts(labelled, most, parse, accepted, monkeypatch):
    """Listed or searched for; log probabilities are those among all trees."""
    monkeypatch.setattr(find_alternatives, "BEST_MADE", most)
    expected = accepted(labelled)
    assert len(expected) > 2
    for k in (1, 2, 5, ALL):
        found = parse(alternatives=kbest(k, labelled=labelled))
        assert list(map(key, found)) == list(expected)[:k]
        np.testing.assert_allclose(
            [own.log_prob for own in found], list(expected.values())[:k], atol=1e-4
        )
    distinct = parse(alternatives=sample_without_replacement(ALL, labelled=labelled))
    assert sorted(map(key, distinct)) == sorted(expected)


@pytest.mark.parametrize("labelled", [True, False])
def test_samples_are_as_by_rejection(labelled, parse, accepted):
    expected = accepted(labelled)
    law = np.array(list(expected.values()))
    law -= np.logaddexp.reduce(law)
    number = {own: i for i, own in enumerate(expected)}

    def draw(size, seed):
        found = parse(alternatives=sample(size, seed=seed, labelled=labelled))
        return np.array([number[key(own)] for own in found])

    def draw_two(size, seed):
        found = parse(size, alternatives=sample_without_replacement(2, None, labelled=labelled))
        return np.array([number[key(a)] * len(number) + number[key(b)] for a, b in found])

    assert_fits(draw, np.exp(law), 3000, ("valid samples", labelled))
    assert_fits(draw_two, order_law(law, 2).ravel(), 200, ("valid pairs", labelled))


# --- the shipped pipeline ----------------------------------------------------------------------

TEXTS = (
    "The big the dog he she barks barks.",
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


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("make", MAKERS)
def test_no_alternative_breaks_a_rule(make, labelled, shipped, change):
    change(alternatives=make(7, labelled=labelled), guidelines=None)
    assert "too-many-subjects" in errors_in(shipped(TEXTS[0]))
    change(guidelines=ud_guidelines())
    for doc in shipped.pipe(TEXTS):
        assert errors_in(doc) == set()
        for sentence in doc.sents:
            assert len(sentence._.parses) == 7
            if make is kbest:
                assert any(map(is_parse, sentence._.parses))
                assert is_parse(sentence._.parses[0]) or not labelled


@pytest.mark.slow
@pytest.mark.parametrize("name", ["English-EWT", "English-GUM"])
def test_the_first_of_the_k_best_labelled_trees_is_the_parse(name, shipped, change, ud_folder):
    change(alternatives=kbest(2, labelled=True))
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
            change(constraints=lambda doc, c=constraints: c, alternatives=make(4, labelled=True))
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
    monkeypatch.setattr(find_alternatives, "MADE_EACH", 0)
    monkeypatch.setattr(find_alternatives, "MADE_BESIDES", 0)
    monkeypatch.setattr(
        find_alternatives,
        "_mark_valid",
        lambda parsed, sentences, made: [np.zeros(len(own.heads), dtype=bool) for own in made],
    )
    shipped.get_pipe("root_mst")._warn_of_missing.has_warned = False
    change(alternatives=make(5), confidence=True)
    doc = shipped(TEXTS[-1])
    [warning] = [record.getMessage() for record in caplog.records]
    assert "'She saw the man with the telescope.' at token 0 has 0 of 5 alternatives" in warning
    assert "guidelines" in warning
    assert [sentence._.parses for sentence in doc.sents] == [[], []]
    record = InputRecord("in", 1, text=doc.text)
    assert b"# parse_1" not in write_conllu(doc, record)
    assert json.loads(write_jsonl(doc, record))["sents"][0]["parses"] == []
    assert "telescope" in render(doc)
