"""The linear parser: its features against a plain listing, its gradients, what it learns."""

from collections import Counter

import numpy as np
import pytest
import spacy
from conftest import QUICKSTART
from gradients import assert_parameters, in_double
from parsers import arcs_of, assign, gold_examples, join, make_nlp, read_conllu
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import SGD, Adam

from spacy_rootmind import decode
from spacy_rootmind.network import distance
from spacy_rootmind.network.boundaries import NOT_A_WORD, BoundaryInput
from spacy_rootmind.network.label_scorer import LabelInput
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.linear import (
    NOTHING,
    LinearLabels,
    LinearStarts,
    LinearTreeScorer,
    build_linear_parser,
    list_templates,
    make_arc_keys,
)
from spacy_rootmind.network.tree_scorer import TreeGradient, TreeInput, TreeScores
from spacy_rootmind.training.objective import OBJECTIVES

MODEL = {
    "@architectures": "spacy_rootmind.LinearParser.v1",
    "arc_bits": 18,
    "label_bits": 12,
}
# Three columns: two attributes of dependents and heads, and that of contexts.
N_ATTRS, CONTEXT = 2, 2


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def names_of_features(words, dep, head):
    """The features of an arc as tuples; `words` are the attributes of ROOT and the words."""
    context = [own[CONTEXT] for own in words]
    edges = ["edge", *context, "end"]

    def side(i):
        left = ("left", edges[i] if i else "edge", context[i])
        right = ("right", context[i], edges[i + 2])
        return [("attr", a, words[i][a]) for a in range(N_ATTRS)] + [left, right]

    bucket = int(distance.bucket_of(np.array(dep), np.array(head)))
    found = []
    for t, (of_dep, of_head) in enumerate(list_templates(N_ATTRS)):
        parts = [
            None if place == NOTHING else side(i)[place]
            for i, place in ((dep, of_dep), (head, of_head))
        ]
        found += [(t, *parts), (t, *parts, bucket)]
    if head:
        for middle in set(context[min(dep, head) + 1 : max(dep, head)]):
            found.append(("between", context[dep], context[head], middle, head > dep))
            found.append(("alone", middle, head > dep))
    return found


def test_features_are_those_of_the_templates(rng):
    """Weights of arcs' scores are in as many arcs, and the same ones, as features listed by name.

    The gradient of one arc's score counts how often each weight is in it.
    """
    model = LinearTreeScorer(N_ATTRS, CONTEXT, 3, arc_bits=20, label_bits=8, nO=2)
    model.initialize()
    sentences = [[np.arange(n) for n in (1, 2, 5)], [np.arange(7)]]
    X = TreeInput([rng.integers(0, 2, size=(n, 3)).astype(np.uint64) for n in (5, 7)], sentences)
    scores, backprop = model.begin_update(X)
    flat = [vectors[own] for vectors, doc in zip(*X, strict=True) for own in doc]
    by_name, by_place = {}, {}
    for b, bucket in enumerate(scores.layout.buckets):
        for i, sentence in enumerate(bucket.sentences):
            words = [("root",) * 3, *map(tuple, flat[sentence].tolist())]
            for dep in range(1, len(words)):
                for head in set(range(len(words))) - {dep}:
                    arc = sentence, dep, head
                    for name, count in Counter(names_of_features(words, dep, head)).items():
                        by_name.setdefault(name, []).append((arc, count))
                    d_scores = [np.zeros_like(square) for square in scores.arcs]
                    d_scores[b][i, dep, head] = 1.0
                    backprop(TreeGradient([d_scores], scores.rows))
                    counts = model.get_grad("W")
                    places = counts.nonzero()[0]
                    for place in places.tolist():
                        by_place.setdefault(place, []).append((arc, int(counts[place])))
                    counts[places] = 0.0
    assert len(by_name) > 600
    assert sorted(map(sorted, by_name.values())) == sorted(map(sorted, by_place.values()))


def trees_case(rng):
    # Attributes of few values, so that words are often equal, in Docs of several sentences.
    vectors = [rng.integers(0, 4, size=(n, 3)).astype(np.uint64) for n in (11, 16)]
    sentences = [
        [np.arange(3), np.arange(3, 4), np.arange(4, 11)],
        [np.arange(1, 4), np.arange(4, 16)],
    ]
    model = LinearTreeScorer(N_ATTRS, CONTEXT, 3, arc_bits=9, label_bits=8, nO=2)
    return model, TreeInput(vectors, sentences)


def labels_case(rng):
    layout = Layout.from_lengths([3, 1, 7, 3, 12])
    attributes = rng.integers(0, 4, size=(len(layout.words), 3)).astype(np.uint64)
    keys = make_arc_keys(attributes, layout, N_ATTRS, CONTEXT).templates
    heads = layout.roots[layout.sentence_of_row[layout.words]]
    heads[::2] += 1
    # Few weights, so that some are shared, also within an arc.
    return LinearLabels(5, nO=3), LabelInput(keys, layout, layout.words, heads)


def starts_case(rng):
    vectors = [rng.integers(0, 3, size=(n, 3)).astype(np.uint64) for n in (6, 0, 9)]
    words = [np.array([0, 1, 4, 5]), np.zeros(0, int), np.arange(9)]
    return LinearStarts(3), BoundaryInput(vectors, words)


def scores_of_layer(found):
    return found.arcs if isinstance(found, TreeScores) else [found]


@pytest.mark.parametrize("case", [trees_case, labels_case, starts_case])
def test_gradient_matches_finite_differences(case, rng):
    """Gradients of several passes add up."""
    model, X = case(rng)
    in_double(model, rng)
    weights = []
    for _ in range(2):
        found, backprop = model.begin_update(X)
        own = [rng.normal(size=part.shape) for part in scores_of_layer(found)]
        is_trees = isinstance(found, TreeScores)
        d_X = backprop(TreeGradient([own], found.rows) if is_trees else own[0])
        assert not any(map(np.any, d_X))
        weights.append(own)
    for layer in model.layers:
        layer.set_grad("W", np.zeros_like(layer.get_param("W")))

    def total():
        # Whitespace has a score, and no weights.
        parts = zip(*weights, scores_of_layer(model.predict(X)), strict=True)
        return sum(((a + b) * part * (part != NOT_A_WORD)).sum() for a, b, part in parts)

    assert_parameters(model, total, rng)


def test_starts_see_the_words_around_whitespace(rng):
    model = in_double(LinearStarts(2), rng)
    words = rng.integers(0, 9, size=(5, 2)).astype(np.uint64)
    plain = model.predict(BoundaryInput([words], [np.arange(5)]))
    apart = np.insert(words, 2, 77, axis=0)
    spaced = model.predict(BoundaryInput([apart], [np.array([0, 1, 3, 4, 5])]))
    np.testing.assert_array_equal(np.delete(spaced, 2), plain)


@pytest.mark.parametrize(
    "settings",
    [{"arc_bits": 0}, {"arc_bits": 31}, {"label_bits": 8.5}, {"label_bits": True}],
    ids=str,
)
def test_wrong_settings_are_refused(settings):
    [name] = settings
    with pytest.raises(ValueError, match=f"expected {name} as "):
        build_linear_parser(**settings)


# --- in the component --------------------------------------------------------------------------


def make_linear(**config):
    """A blank pipeline with a linear parser."""
    return make_nlp(**{"model": MODEL, **config})


def learn(nlp, examples, epochs, optimizer, size=20):
    nlp.initialize(lambda: examples)
    for _ in range(epochs):
        for start in range(0, len(examples), size):
            nlp.update(examples[start : start + size], sgd=optimizer)
    return nlp


def scores_of(nlp, docs):
    return nlp.evaluate(gold_examples(docs, nlp))


@pytest.fixture(scope="module")
def dev_docs():
    path = QUICKSTART / "assets" / "en_quick-ud-dev.conllu"
    return read_conllu(path, spacy.blank("xx").vocab)


@pytest.fixture(scope="module")
def learnt(quickstart_docs):
    """A parser after two passes over the bundled treebank."""
    nlp, optimizer = make_linear(), SGD(0.03, L2=0.0, grad_clip=0.0, use_averages=False)
    return learn(nlp, gold_examples(join(quickstart_docs, 4), nlp), 2, optimizer, size=2)


def test_parser_learns_the_bundled_treebank(learnt, quickstart_docs, dev_docs):
    assert scores_of(learnt, join(quickstart_docs[:200], 4))["dep_las_all"] > 0.95
    dev = gold_examples(dev_docs, learnt)
    for example in dev:
        # As one sentence.
        for token in example.predicted:
            token.is_sent_start = token.i == 0
    scores = learnt.evaluate(dev)
    assert scores["dep_uas_all"] > 0.8
    assert scores["dep_las_all"] > 0.7
    assert scores["root_violations"] == 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_teaches_it(objective, quickstart_docs):
    docs, nlp = quickstart_docs[:40], make_linear(objective=objective)
    learn(nlp, gold_examples(docs, nlp), 4, Adam(0.01, L2=0.0), size=10)
    assert scores_of(nlp, docs)["dep_las_all"] > 0.95


def test_plain_perceptron_learns_with_averages(quickstart_docs):
    """The textbook's: steps of one, no margin, and the average of all weights so far."""
    docs, nlp = quickstart_docs[:40], make_linear(objective="perceptron", margin=0.0)
    optimizer = SGD(1.0, L2=0.0, grad_clip=0.0, use_averages=True)
    learn(nlp, gold_examples(docs, nlp), 5, optimizer, size=4)
    trees = nlp.get_pipe("root_mst").model.get_ref("trees")
    weights = trees.get_param("W")
    # Sums of whole steps.
    np.testing.assert_array_equal(weights, np.round(weights))
    with nlp.use_params(optimizer.averages):
        assert scores_of(nlp, docs)["dep_uas_all"] > 0.95
        assert not np.array_equal(trees.get_param("W"), weights)


def test_tags_are_features(quickstart_docs):
    """Words that say nothing leave the tags."""
    docs = quickstart_docs[:60]
    nlp = make_linear(model={**MODEL, "attrs": ["TAG"], "context": "POS"})
    learn(nlp, [Example(gold.copy(), gold) for gold in docs], 6, Adam(0.01, L2=0.0))
    assert nlp.evaluate([Example(gold.copy(), gold) for gold in docs])["dep_uas_all"] > 0.9
    with pytest.raises(ValueError, match="expected TAG on the tokens of each Doc"):
        nlp("No tags here.")


@pytest.mark.parametrize(
    "other",
    [{"arc_bits": 17}, {"label_bits": 11}, {"attrs": ["NORM", "SUFFIX"]}],
    ids=str,
)
def test_weights_of_another_network_are_refused(learnt, other):
    parser = make_linear(model={**MODEL, **other}).get_pipe("root_mst")
    with pytest.raises(ValueError, match="cannot load the given bytes"):
        parser.from_bytes(learnt.get_pipe("root_mst").to_bytes())


def test_batches_and_long_docs_are_parsed_as_each_doc_alone(learnt, dev_docs):
    texts = ["", " \n ", *(doc.text for doc in dev_docs[:20]), "Hi!\n\n" * 3]
    assert list(map(arcs_of, learnt.pipe(texts))) == [arcs_of(learnt(text)) for text in texts]
    words = ["The", "cat", "saw", "a", "dog", "."] * 900
    doc = learnt(Doc(learnt.vocab, words=words))
    assert len(list(doc.sents)) > 500
    assert (doc[5305].text, doc[5305].head.text) == ("cat", "saw")


def test_confidence_and_alternatives_work(quickstart_docs, learnt):
    parser = learnt.get_pipe("root_mst")
    before = assign(parser, confidence=True, alternatives="kbest", n_alternatives=3)
    try:
        doc = learnt(quickstart_docs[0].text)
        assert len(next(doc.sents)._.parses) == 3
        assert 0.0 < doc[0]._.head_prob <= 1.0
        assert 0.1 < parser.fit_temperature(gold_examples(quickstart_docs[:20], learnt)) < 20.0
    finally:
        parser.use_settings(before)
        parser.cfg.update(temperature=1.0, label_temperature=1.0)


def learn_one_tree(heads, margin):
    """Weights after a step of one from zero; `heads` of "Book that flight", the first ROOT's."""
    nlp = make_linear(objective="perceptron", margin=margin, sentences="doc")
    places = [dep if head == 0 else head - 1 for dep, head in enumerate(heads[1:])]
    deps = ["ROOT" if head == 0 else "dep" for head in heads[1:]]
    gold = Doc(nlp.vocab, words=["Book", "that", "flight"], heads=places, deps=deps)
    learn(nlp, gold_examples([gold], nlp), 1, SGD(1.0, L2=0.0, grad_clip=0.0, use_averages=False))
    return nlp.get_pipe("root_mst").model.get_ref("trees").get_param("W")


def test_without_margin_the_perceptron_only_learns_from_errors():
    """All weights are zero, so that all trees are tied, and `decode` takes one of them."""
    best = decode(np.zeros((4, 4))).tolist()
    for margin in (0.0, 1.0):
        assert learn_one_tree(best, margin=margin).any() == (margin > 0)
