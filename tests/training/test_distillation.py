"""Learning from tree distributions: the losses, what Docs keep, and whole trainings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from gradients import assert_directional
from parsers import SMALL_MODEL, arc_scores, assign, gold_examples, join, make_nlp, settable, train
from spacy.tokens import Doc
from spacy.training import Example
from strategies import rng_for

from spacy_rootmind import TreeDistribution
from spacy_rootmind.annotation.gold import GoldBatch
from spacy_rootmind.annotation.records import read_record
from spacy_rootmind.annotation.teacher_records import make_target
from spacy_rootmind.trees.conventions import MISSING

TEXT = "The cat  saw a dog that slept.\nShe said that it rained. A man waved!"


# --- what a Doc keeps --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def teacher(quickstart_docs):
    """A parser that has learnt a little, finds boundaries, and keeps its distributions."""
    nlp = make_nlp(distribution_threshold=1e-9, temperature=1.5)
    return train(nlp, gold_examples(join(quickstart_docs[:60], 4), nlp), steps=25, size=5)


def stored_of(doc):
    """The sentences with their distributions."""
    return [(sent, read_record(sent).distribution) for sent in doc.sents]


def scored(nlp, doc):
    """The arc log-weights of each sentence of a parsed Doc, from the network itself."""
    return [scores / nlp.get_pipe("root_mst").temperature for scores in arc_scores(nlp, doc)]


def n_words_in(sent):
    return sum(not token.is_space for token in sent)


def test_stored_weights_make_the_distribution_again(teacher):
    doc = teacher(TEXT)
    assert len(list(doc.sents)) > 1
    for (sent, stored), weights in zip(stored_of(doc), scored(teacher, doc), strict=True):
        found = make_target(stored, n_words_in(sent), doc.vocab.strings)
        expected = TreeDistribution(weights).marginals
        np.testing.assert_allclose(found.marginals, expected, atol=1e-5)
        # Labels of all arcs between words, each as probable as its arc in total.
        totals = np.zeros_like(expected)
        np.add.at(totals, (found.deps, found.heads), found.label_probs)
        np.testing.assert_allclose(totals[:, 1:], found.marginals[:, 1:], atol=1e-6)
        assert not totals[:, 0].any()
        assert {doc.vocab.strings[label] for label in found.labels.tolist()} <= set(
            teacher.get_pipe("root_mst").labels[1:]
        )


@pytest.mark.parametrize("least", [1e-6, 0.01, 0.3, 1.0])
def test_targets_are_distributions_whatever_was_left_out(teacher, least):
    with settable(teacher) as set_all:
        doc = set_all(distribution_threshold=least)(TEXT)
    for sent, stored in stored_of(doc):
        words = np.array([token.i for token in sent if not token.is_space])
        n = len(words)
        target = make_target(stored, n, doc.vocab.strings)
        sums = target.marginals.sum(axis=1)
        np.testing.assert_allclose(sums[1:], 1.0, atol=1e-9)
        assert target.marginals[:, 0].sum() == pytest.approx(1.0, abs=1e-9)
        assert len(stored.dependents) >= n
        if least == 1.0:
            assert len(stored.dependents) == n
            heads = [doc[word].head.i for word in words.tolist()]
            assert words[stored.heads].tolist() == heads


def test_a_later_parse_replaces_the_distribution(teacher, quickstart_docs):
    doc = teacher(TEXT)
    first = stored_of(doc)
    other = make_nlp(distribution_threshold=1e-9)
    other.initialize(lambda: gold_examples(quickstart_docs[:8], other))
    other.get_pipe("root_mst")(doc)
    for (sent, again), (own, stored) in zip(stored_of(doc), first, strict=True):
        assert sent.text == own.text
        assert not np.array_equal(again.log_weights, stored.log_weights)
    # Without the setting, a parse drops them as all else that no longer holds.
    assign(other.get_pipe("root_mst"), distribution_threshold=None)
    other.get_pipe("root_mst")(doc)
    assert not doc.user_data


def starts_taught_in(doc):
    """The probability that each token starts a sentence; NaN for whitespace."""
    found = np.full(len(doc), np.nan)
    for sent in doc.sents:
        details = read_record(sent)
        found[sent.start + details.words] = details.distribution.start_probs
    return found


def test_starts_are_the_network_s_where_the_doc_states_none(teacher):
    doc = teacher(TEXT)
    found = starts_taught_in(doc)
    starts = np.array([token.is_sent_start for token in doc])
    plain = np.array([not token.is_space and token.i > 0 for token in doc])
    assert (found[plain & starts] > 0.5).all()
    assert (found[plain & ~starts] <= 0.5).all()
    assert ((found[plain] > 0) & (found[plain] < 1)).any()


def test_starts_that_the_doc_states_are_certain(teacher):
    doc = teacher(TEXT)
    words = [token.i for token in doc if not token.is_space]
    stated = {words[2]: True, words[8]: False, words[6]: True}
    given = teacher.make_doc(TEXT)
    for i, is_start in stated.items():
        given[i].is_sent_start = is_start
    taught = teacher(given)
    found = starts_taught_in(taught)
    assert [found[i] for i in stated] == [1.0, 0.0, 1.0]
    # To a later teacher, the Doc states all starts.
    again = starts_taught_in(teacher.get_pipe("root_mst")(taught))
    assert set(again[words].tolist()) == {0.0, 1.0}
    others = np.array([i for i in words if i not in stated])
    np.testing.assert_allclose(found[others], starts_taught_in(doc)[others], atol=1e-6)


# --- from Docs to targets ----------------------------------------------------------------------


def align(nlp, doc, predicted=None, **settings):
    example = Example(nlp.make_doc(doc.text) if predicted is None else predicted, doc)
    return GoldBatch.from_examples([example], "ROOT", **settings)


def test_sentences_with_teachers_have_no_gold(teacher):
    doc = teacher(TEXT)
    batch = align(teacher, doc)
    assert set(batch.targets) == set(range(len(list(doc.sents))))
    assert (batch.heads == MISSING).all()
    assert not batch.deps.any()
    is_known = batch.boundaries != MISSING
    assert is_known.tolist() == [i > 0 and not t.is_space for i, t in enumerate(doc)]
    assert ((batch.boundaries[is_known] > 0) & (batch.boundaries[is_known] < 1)).any()
    for number, (sent, stored) in enumerate(stored_of(doc)):
        expected = make_target(stored, n_words_in(sent), doc.vocab.strings)
        np.testing.assert_array_equal(batch.targets[number].marginals, expected.marginals)
    plain = align(teacher, doc, teachers=False)
    assert not plain.targets
    assert (plain.heads != MISSING).any()


def test_other_tokens_or_sentences_learn_the_teacher_s_tree(teacher):
    """Distributions fit the tokens of the sentence that was parsed, and no others."""
    doc = teacher(TEXT)
    words = [token.text for token in doc]
    spaces = [bool(token.whitespace_) for token in doc]
    at = words.index("saw")
    split = Doc(
        teacher.vocab,
        words=[*words[:at], "sa", "w", *words[at + 1 :]],
        spaces=[*spaces[:at], False, spaces[at], *spaces[at + 1 :]],
    )
    sentence = next(i for i, s in enumerate(doc.sents) if s.start <= at < s.end)
    batch = align(teacher, doc, split)
    assert set(batch.targets) == set(range(len(list(doc.sents)))) - {sentence}
    assert (batch.heads != MISSING).sum() >= 3
    # Sentences that are cut at a maximum length.
    longest = max(n_words_in(sent) for sent in doc.sents)
    cut = align(teacher, doc, max_words=longest - 1)
    assert len(cut.targets) < len(batch.sentences[0]) + 1
    assert (cut.heads != MISSING).any()


# --- training ----------------------------------------------------------------------------------


def divergence(teacher, student, texts):
    """Mean Kullback-Leibler divergence of the student's tree distributions from the teacher's."""
    total = []
    for text in texts:
        doc = teacher(text)
        pairs = zip(scored(teacher, doc), scored(student, doc), strict=True)
        total += [TreeDistribution(a).kl_divergence(TreeDistribution(b)) for a, b in pairs]
    return float(np.mean(total))


# The loss of the one is found where the scores are, that of the others on the host.
@pytest.mark.parametrize("objective", ["head_selection", "tree_crf"])
def test_a_student_becomes_its_teacher(teacher, quickstart_docs, objective):
    texts = [" ".join(doc.text for doc in quickstart_docs[i : i + 2]) for i in range(60, 68, 2)]
    student = make_nlp(objective=objective)
    examples = [Example(student.make_doc(text), teacher(text)) for text in texts]
    train(student, examples, steps=1, size=8)
    before = divergence(teacher, student, texts)
    train(student, examples, steps=30, size=8)
    after = divergence(teacher, student, texts)
    assert after < 0.15 * before
    # The student is unsure where the teacher was; labels are learnt too.
    same = [t.dep_ == s.dep_ for x in texts for t, s in zip(teacher(x), student(x), strict=True)]
    assert np.mean(same) > 0.8


@pytest.mark.parametrize("null_label", [False, True])
def test_the_gradient_is_that_of_the_loss(teacher, quickstart_docs, null_label):
    """Arc and label scores and boundaries are moved, one at a time."""
    doc = teacher(TEXT)
    plain = Doc.from_docs(quickstart_docs[:2])
    student = make_nlp(model={**SMALL_MODEL, "null_label": null_label})
    examples = [Example(student.make_doc(d.text), d) for d in (plain, doc)]
    student.initialize(lambda: examples)
    parser = student.get_pipe("root_mst")
    gold = parser._align(examples)
    scores, _ = parser.model.begin_update(parser._make_input(examples, gold))
    assert len(scores.labels) == 2 + null_label
    rng = rng_for("whole gradient", null_label)
    # In double precision, for differences.
    rounds = [[a.astype("f8") for a in arcs] for arcs in scores.trees.rounds]
    trees = replace(scores.trees, rounds=rounds)
    labels = [one._replace(scores=one.scores.astype("f8")) for one in scores.labels]
    scores = scores._replace(trees=trees, labels=labels, boundaries=scores.boundaries.astype("f8"))
    _, gradient = parser._loss(gold, scores)

    def loss():
        return parser._loss(gold, scores)[0]

    for arcs, d_arcs in zip(scores.trees.rounds[-1], gradient.rounds[-1], strict=True):
        assert_directional(loss, arcs, d_arcs, rng, rel=1e-4)
    for one, d_scores in zip(scores.labels, gradient.labels, strict=True):
        assert_directional(loss, one.scores, d_scores, rng, rel=1e-4)
    assert_directional(loss, scores.boundaries, gradient.boundaries, rng, rel=1e-4)


def test_labels_that_the_student_lacks_teach_nothing(teacher):
    doc = teacher(TEXT)
    example = Example(teacher.make_doc(TEXT), doc)
    student = make_nlp()
    known = teacher.get_pipe("root_mst").labels[1:3]
    student.get_pipe("root_mst").initialize(
        lambda: [example], labels={"root_label": "ROOT", "labels": list(known)}
    )
    parser = student.get_pipe("root_mst")
    arcs = parser._make_input([example], parser._align([example]))
    scores = parser.model.predict(arcs._replace(choose_arcs=None))
    [chosen] = arcs.choose_arcs(scores.trees)
    assert chosen.targets.shape == (len(chosen.deps), 2)
    expected = sum(
        target.label_probs[i]
        for target in align(teacher, doc).targets.values()
        for i, label in enumerate(target.labels.tolist())
        if doc.vocab.strings[label] in known
    )
    assert chosen.targets.sum() == pytest.approx(expected)
    assert math.isfinite(parser.update([example])["root_mst"])


def test_temperatures_are_fitted_to_trees(teacher):
    """A teacher's confidence says nothing about the student's errors."""
    doc = teacher(TEXT)
    plain = doc.copy()
    plain.user_data.clear()
    parser = teacher.get_pipe("root_mst")
    before = {**parser.cfg}
    try:
        with_teachers, without = (
            parser.fit_temperature([Example(teacher.make_doc(TEXT), own)]) for own in (doc, plain)
        )
    finally:
        parser.cfg.update(before)
    assert with_teachers == without != 1.0
