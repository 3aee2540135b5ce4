"""Confidence and alternative parses, and that they stay with their sentence."""

import pickle

import numpy as np
import pytest
from parsers import assign, changeable, kbest, make_nlp, sample
from spacy.tokens import Span, Token

from spacy_rootmind import is_tree
from spacy_rootmind.annotation.extensions import ATTRIBUTES, register_extensions

TEXT = "The cat  saw a dog that slept.\nShe said that it rained."


@pytest.fixture(autouse=True)
def change(unsure):
    """Gives the parser confidence, arcs and the five best trees; changes settings for a test."""
    with changeable(unsure) as change:
        change(confidence=True, arc_threshold=0.05, **kbest(5))
        yield change


@pytest.fixture
def doc(unsure):
    return unsure(TEXT)


def known(doc):
    """Everything that is known of a Doc's sentences, for comparison."""
    return [
        (
            [round(token._.head_prob, 6) for token in sentence],
            round(sentence._.parse_log_prob, 6),
            round(sentence._.parse_entropy, 6),
            [(p.heads.tolist(), p.deps, round(p.log_prob, 6)) for p in sentence._.parses],
            [
                (a.token.i - sentence.start, a.head.i - sentence.start, a.dep, round(a.prob, 6))
                for a in sentence._.arcs
            ],
        )
        for sentence in doc.sents
    ]


# --- what they are -----------------------------------------------------------------------------


def test_parses_are_trees_best_first(doc):
    for sentence in doc.sents:
        parses = sentence._.parses
        assert len(parses) == 5
        log_probs = [parse.log_prob for parse in parses]
        assert log_probs == sorted(log_probs, reverse=True)
        assert sentence._.parse_entropy >= 0
        assert len({(parse.heads.tobytes(), *parse.deps) for parse in parses}) == 5
        for parse in parses:
            own = np.arange(len(parse.heads))
            heads = np.where(parse.heads == own, 0, parse.heads + 1)
            assert is_tree(np.r_[-1, heads])
            assert (parse.deps[int(np.flatnonzero(heads == 0)[0])]) == "ROOT"
        # The best is the parse itself.
        assert log_probs[0] <= sentence._.parse_log_prob
        assert parses[0].heads.tolist() == [token.head.i - sentence.start for token in sentence]
        assert parses[0].deps == [token.dep_ for token in sentence]


def test_to_doc_has_the_tree_and_the_other_annotation(unsure, doc):
    doc[1].tag_ = "NN"
    for sentence in doc.sents:
        for parse in sentence._.parses:
            copied = parse.to_doc()
            assert copied.text == sentence.text
            assert [token.head.i for token in copied] == parse.heads.tolist()
            assert [token.dep_ for token in copied] == parse.deps
            assert len(list(copied.sents)) == 1
            assert [token.tag_ for token in copied] == [token.tag_ for token in sentence]


def test_without_settings_nothing_is_kept(trained):
    register_extensions()
    plain = trained("The cat slept.")
    assert plain.user_data == {}
    assert plain[0]._.head_prob is plain[0]._.arc_prob is plain[0]._.sent_start_prob is None
    assert next(plain.sents)._.parses is None
    assert next(plain.sents)._.arcs is None
    assert plain[0]._.arcs is None


def test_parsing_again_replaces_what_was_known(unsure, trained, doc):
    before = known(doc)
    assert known(unsure.get_pipe("root_mst")(doc)) == before
    trained.get_pipe("root_mst")(doc)
    assert doc[0]._.head_prob is None


@pytest.mark.parametrize("text", ["", " ", "\n\n", "Hello"])
def test_small_docs(unsure, text):
    small = unsure(text)
    for sentence in small.sents:
        assert [token._.head_prob for token in sentence]
        assert sentence._.parses
        assert sentence._.parse_log_prob == pytest.approx(0, abs=1e-9)
        assert sentence._.parses[0].to_doc().text == sentence.text
    arcs = [(a.token.i, a.head.i, a.dep, a.prob) for s in small.sents for a in s._.arcs]
    assert arcs == [(0, 0, "ROOT", 1.0)] * len(text.split())


# --- that they stay ----------------------------------------------------------------------------


def test_n_process_keeps_them(unsure, doc):
    docs = list(unsure.pipe([TEXT] * 3, n_process=2, batch_size=1))
    assert [known(other) for other in docs] == [known(doc)] * 3
    # As workers have it that are not forked, where no attributes are registered.
    data, expected = pickle.dumps(unsure), known(doc)
    Token.remove_extension("head_prob")
    assert known(pickle.loads(data)(TEXT)) == expected


# --- makers ------------------------------------------------------------------------------------


def test_samples_depend_on_seed_and_words(unsure, change):
    def draw(seed, text=TEXT, k=20):
        change(**sample(k, seed=seed))
        parses = next(unsure(text).sents)._.parses
        return [parse.heads.tolist() for parse in parses], [parse.deps for parse in parses]

    first = draw(1)
    assert draw(1) == first
    # More of them begin with the same ones.
    assert draw(1, k=40)[0][:20] == first[0]
    assert draw(2)[0] != first[0]
    assert draw(2)[1] != first[1]
    assert draw(1, TEXT.replace("cat", "dog"))[0] != first[0]
    assert draw(None) != draw(None)


def test_the_k_best_have_log_probabilities(unsure, change):
    change(**kbest(10**4), confidence=False)
    parses = next(unsure("It slept.").sents)._.parses
    assert np.exp([parse.log_prob for parse in parses]).sum() == pytest.approx(1)


def test_alternatives_alone_come_without_probabilities_of_heads(unsure, change):
    change(confidence=False, arc_threshold=None)
    doc = unsure("The cat slept.")
    assert len(next(doc.sents)._.parses) == 5
    assert doc[0]._.head_prob is None


# --- attributes --------------------------------------------------------------------------------


def forget_attributes():
    for owner, name, _ in ATTRIBUTES:
        if owner.has_extension(name):
            owner.remove_extension(name)


def test_an_attribute_of_the_users_own_is_not_overwritten():
    forget_attributes()
    Token.set_extension("head_prob", default="mine")
    try:
        with pytest.raises(ValueError, match=r"Token\._\.head_prob"):
            register_extensions()
        assert not Span.has_extension("parses")
        make_nlp()
    finally:
        Token.remove_extension("head_prob")
        register_extensions()
    register_extensions()


@pytest.mark.parametrize(
    ("setting", "value"), [("confidence", True), ("arc_threshold", 0.5), ("alternatives", "kbest")]
)
def test_attributes_are_there_once_a_setting_is_changed(trained, setting, value):
    forget_attributes()
    parser = trained.get_pipe("root_mst")
    before = parser.settings
    try:
        parser.use_settings(before)
        assert not any(owner.has_extension(name) for owner, name, _ in ATTRIBUTES)
        Span.set_extension("arcs", default="mine")
        with pytest.raises(ValueError, match=r"Span\._\.arcs"):
            assign(parser, **{setting: value})
        assert parser.settings is before
        Span.remove_extension("arcs")
        assign(parser, **{setting: value})
        assert all(owner.has_extension(name) for owner, name, _ in ATTRIBUTES)
        assert getattr(parser.settings, setting) == value
    finally:
        parser.use_settings(before)
        for owner, name, getter in ATTRIBUTES:
            owner.set_extension(name, getter=getter, force=True)
