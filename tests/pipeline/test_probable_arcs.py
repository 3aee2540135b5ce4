"""Arcs that are probable, with their labels."""

import numpy as np
import pytest
from parsers import changeable, score_labels

from spacy_rootmind import TreeDistribution
from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.network.architecture import ParserInput

TEXT = "The cat  saw a dog that slept.\nShe said that it rained."


@pytest.fixture(autouse=True)
def change(unsure, monkeypatch):
    """Lets the parser keep nearly all arcs, and changes its settings for a test."""
    monkeypatch.setitem(unsure.get_pipe("root_mst").cfg, "label_temperature", 1.5)
    with changeable(unsure) as change:
        change(arc_threshold=1e-7, temperature=2.0)
        yield change


def listed(span):
    return [(a.token.i, a.head.i, a.dep, a.prob) for a in span._.arcs]


def expected_arcs(parser, doc):
    """Every labelled arc and its probability, one matrix and one arc at a time."""
    found = {}
    scores = parser.model.predict(ParserInput([doc], [sentences_of(doc)])).trees
    roots = np.asarray(scores.layout.roots)
    for bucket, arcs in zip(scores.layout.buckets, scores.arcs, strict=True):
        for i, number in enumerate(bucket.sentences):
            words = [token.i for token in list(doc.sents)[number] if not token.is_space]
            m = len(words) + 1
            marginals = TreeDistribution(
                arcs[i, :m, :m].astype("f8") / parser.temperature
            ).marginals
            for dep in range(1, m):
                found[words[dep - 1], words[dep - 1], "ROOT"] = marginals[dep, 0]
                for head in range(1, m):
                    rows = np.array([dep]) + roots[number], np.array([head]) + roots[number]
                    of_labels = score_labels(parser.model, scores, *rows)[0].astype("f8")
                    of_labels /= parser.cfg["label_temperature"]
                    of_labels = np.exp(of_labels - of_labels.max())
                    for label, share in zip(
                        parser.labels[1:], of_labels / of_labels.sum(), strict=True
                    ):
                        place = words[dep - 1], words[head - 1], label
                        found[place] = marginals[dep, head] * share
    return found


def test_arcs_are_marginals_times_label_probabilities(unsure):
    doc = unsure(TEXT)
    expected = expected_arcs(unsure.get_pipe("root_mst"), doc)
    found = {place: prob for s in doc.sents for *place, prob in listed(s) for place in [(*place,)]}
    assert len(found) > 200
    assert found == pytest.approx({place: expected[place] for place in found}, abs=1e-6)
    assert all(prob < 2e-7 for place, prob in expected.items() if place not in found)


@pytest.mark.parametrize("decode", ["tree", "labelled_tree"])
@pytest.mark.parametrize("max_scores", [1 << 20, 1])
def test_arc_prob_is_the_marginal_times_the_label_probability(
    unsure, change, decode, max_scores, monkeypatch
):
    """The sentences are parsed together, or one by one."""
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_SCORES", max_scores)
    parser = unsure.get_pipe("root_mst")
    change(confidence=True, decode=decode)
    docs = list(unsure.pipe([TEXT, "", " ", "It rained.\nWho saw the old dog?"]))
    for doc in docs:
        expected = expected_arcs(parser, doc)
        for token in doc:
            if token.is_space:
                assert token._.arc_prob == 1.0
                continue
            place = token.i, token.head.i, token.dep_
            assert token._.arc_prob == pytest.approx(expected[place], rel=1e-5)
            assert token._.arc_prob in [pytest.approx(arc.prob, rel=1e-5) for arc in token._.arcs]
            assert token._.arc_prob <= token._.head_prob
            assert token.dep_ != "ROOT" or token._.arc_prob == token._.head_prob
    assert any(token._.arc_prob < 0.9 * token._.head_prob for doc in docs for token in doc)


def test_threshold_counts_to_the_last_digit(unsure, change):
    # An arc from ROOT is sure of its label, so that its probability is that of the tree alone.
    text = "She said that it rained."
    roots = [arc.prob for arc in unsure(text)[:]._.arcs if arc.dep == "ROOT"]
    assert len(roots) > 3
    for prob in roots:
        change(arc_threshold=prob)
        found = [arc.prob for arc in unsure(text)[:]._.arcs if arc.dep == "ROOT"]
        assert min(found) == prob
        change(arc_threshold=np.nextafter(prob, 1))
        found = [arc.prob for arc in unsure(text)[:]._.arcs if arc.dep == "ROOT"]
        assert prob not in found
        assert len(found) < len(roots)


def test_arcs_come_word_by_word_the_most_probable_first(unsure):
    doc = unsure(TEXT)
    for sentence in doc.sents:
        keys = [(token, -prob) for token, _, _, prob in listed(sentence)]
        assert keys == sorted(keys)
        words = [token for token in sentence if not token.is_space]
        assert [arc for token in words for arc in token._.arcs] == sentence._.arcs
        for token in words:
            assert sum(arc.prob for arc in token._.arcs) == pytest.approx(1, abs=1e-4)
        roots = [arc for arc in sentence._.arcs if arc.head == arc.token]
        assert sum(arc.prob for arc in roots) == pytest.approx(1, abs=1e-4)
        assert {arc.dep for arc in roots} == {"ROOT"}
    spaces = [token for token in doc if token.is_space]
    assert [token._.arcs for token in spaces] == [[], []]
    assert not any(arc.head.is_space for sentence in doc.sents for arc in sentence._.arcs)
