"""Trees that are the best together with their labels: by enumeration, and without any shortcut."""

import numpy as np
import pytest
from parsers import SMALL_MODEL, assign, gold_examples, kbest, make_nlp, sample, score_labels, train
from reference_labelled import ArcLabels, labelled_score, with_best_labels
from strategies import FAMILIES, places_of, rng_for

from spacy_rootmind import NoTreeError, TreeDistribution, decode, tree_score
from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.network import label_scorer
from spacy_rootmind.network.architecture import ParserInput
from spacy_rootmind.network.label_scorer import find_best_labels
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.labelled import decode_labelled

TEXT = "The cat  saw a dog that slept.\nShe said that it rained."


def problem(note, family, lengths, spread, fill=np.nan):
    """Scores and labels of sentences; what must not be read, diagonals among it, holds `fill`."""
    rng = rng_for("labelled", note, family)
    sentences = [FAMILIES[family](rng, n, np.float64) for n in lengths]
    for scores in sentences:
        scores[0] = fill
        np.fill_diagonal(scores, fill)
    shapes = [(*scores.shape, 3) for scores in sentences]
    return sentences, ArcLabels(*(-spread * rng.exponential(size=shape) for shape in shapes))


def trees_of(search):
    """The heads and labels of each sentence."""
    return zip(
        *(np.split(own, search.roots[1:-1]) for own in (search.heads, search.labels)), strict=True
    )


def assert_best_labels(heads, labels, log_probs):
    best = log_probs[np.arange(len(heads)), heads].argmax(axis=1) + 1
    assert labels[1:].tolist() == np.where(heads, best, ROOT_LABEL)[1:].tolist()
    assert heads[0] == labels[0] == MISSING


def test_a_round_for_each_word():
    """Each word can avoid the improbable label of the root's dependent until it is known."""
    n = 82
    scores, log_probs = np.full((n + 1, n + 1), -np.inf), np.zeros((n + 1, n + 1))
    # "1" is the root, and "2" is below "3"; all others are below "2" at first.
    scores[1, 0] = scores[2, 3] = 0.0
    scores[3:, 1], scores[4:, 2], log_probs[3:, 1] = -0.5, 0.0, -1000.0
    scores[range(3, n), range(4, n + 1)] = -0.1
    rounds = []

    def find_labels(deps, heads):
        rounds.append(len(deps))
        return np.ones(len(deps), dtype=np.intp), log_probs[deps, heads]

    search = decode_labelled([scores], find_labels)
    np.testing.assert_array_equal(search.heads, decode(scores + log_probs))
    assert len(rounds) > 64


@pytest.mark.one_each("family", "projective")
@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("spread", [0.0, 0.3, 6.0, 300.0])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_as_good_as_with_the_labels_of_all_arcs(family, spread, projective):
    scores, labels = problem(spread, family, [40, 1, 2, 12, 5, 0, 4, 33, 3], spread)
    options = {"temperature": 0.7, "projective": projective}
    try:
        joint = [
            with_best_labels(own / 0.7, log_probs)
            for own, log_probs in zip(scores, labels.sentences, strict=True)
        ]
        best = [decode(own, projective=projective) for own in joint]
    except NoTreeError:
        with pytest.raises(NoTreeError):
            decode_labelled(scores, labels.best, **options)
        return
    search = decode_labelled(scores, labels.best, **options)
    for i, (heads, found) in enumerate(trees_of(search)):
        expected = tree_score(joint[i], best[i])
        assert tree_score(joint[i], heads) == pytest.approx(expected, rel=1e-12, abs=1e-9)
        assert_best_labels(heads, found, labels.sentences[i])


@pytest.mark.parametrize("fill", [np.nan, np.inf, 1e9])
def test_only_arcs_between_words_are_labelled_each_once(fill):
    scores, labels = problem("asked", "zeros", [20, 7, 16], 3.0, fill)
    decode_labelled(scores, labels.best)
    for asked in labels.asked:
        assert asked.max() == 1
        assert not asked[0].any()
        assert not asked[:, 0].any()
        assert not asked.diagonal().any()


@pytest.mark.parametrize(
    ("family", "lengths", "spread", "most"),
    [
        ("trained_like", [30] * 20, 0.6, 1.1),
        ("gaussian", [30] * 20, 0.9, 7.0),
        # Labels decide everything here, in few rounds.
        ("zeros", [200], 3.0, np.inf),
    ],
)
def test_few_arcs_are_labelled_where_trees_are_clear(family, lengths, spread, most):
    scores, labels = problem("clear", family, lengths, spread)
    decode_labelled(scores, labels.best)
    assert sum(asked.sum() for asked in labels.asked) < most * sum(lengths)
    assert labels.rounds < (12 if family == "zeros" else 16)


def test_settled_sentences_are_left_alone():
    flat, labels = problem("settled", "zeros", [20] * 10, 3.0)
    scores, asked = [100.0 * np.eye(21, k=-1)] * 9 + flat[9:], []

    def counted(deps, heads):
        asked.append({place[0] for place in places_of(scores, deps, heads)})
        return labels.best(deps, heads)

    decode_labelled(scores, counted)
    # All at first, and then the one where labels decide.
    assert asked[0] == set(range(10))
    assert len(asked) > 3
    assert all(own == {9} for own in asked[1:])


def test_labels_of_the_best_trees_without_labels():
    scores, labels = problem("given trees", "gaussian", [1, 5, 3, 9], 300.0)
    search = decode_labelled(scores, labels.best, decode_again=False)
    assert labels.rounds == 1
    for own, log_probs, (heads, found) in zip(
        scores, labels.sentences, trees_of(search), strict=True
    ):
        assert heads.tolist() == decode(own).tolist()
        assert_best_labels(heads, found, log_probs)


# --- the component -------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "null_label"])
def unsure(request, quickstart_docs):
    """A parser that has learnt little, whose labels decide between many trees."""
    model = {**SMALL_MODEL, "null_label": request.param}
    nlp = make_nlp(model=model, decode="labelled_tree", temperature=6.0)
    nlp.add_pipe("sentencizer", first=True)
    train(nlp, gold_examples(quickstart_docs[:20], nlp), steps=10)
    nlp.get_pipe("root_mst").cfg["label_temperature"] = 0.5
    return nlp


@pytest.fixture
def parser(unsure):
    """The parser, with its settings put back after a test."""
    parser = unsure.get_pipe("root_mst")
    before, block = parser.settings, dict(unsure.get_pipe_config("root_mst"))
    yield parser
    parser.use_settings(before)
    unsure.get_pipe_config("root_mst").update(block)


def weights_of(parser, doc):
    """Log-weights of each sentence's arcs, and log probabilities of all their labels."""
    trees = parser.model.predict(ParserInput([doc], [sentences_of(doc)])).trees
    found = {}
    for bucket, arcs in zip(trees.layout.buckets, trees.arcs, strict=True):
        for i, number in enumerate(bucket.sentences):
            m, root = bucket.lengths[i] + 1, trees.layout.roots[number]
            deps, heads = 1 + np.array(np.nonzero(~np.eye(m - 1, dtype=bool)))
            # The null label, if there is one, is the last, and none of these.
            log_probs = np.zeros((m, m, len(parser.labels) - 1))
            scores = score_labels(parser.model, trees, deps + root, heads + root)
            log_probs[deps, heads] = scores[:, : log_probs.shape[2]]
            log_probs /= parser.cfg["label_temperature"]
            log_probs -= np.logaddexp.reduce(log_probs, axis=2, keepdims=True)
            found[number] = arcs[i, :m, :m].astype("f8") / parser.temperature, log_probs
    return [found[number] for number in sorted(found)]


def tree_of(parser, sentence, heads, deps):
    """Heads and numbers of labels by the words of a sentence, without its spaces."""
    words = [i for i, token in enumerate(sentence) if not token.is_space]
    place = {token: number for number, token in enumerate(words, start=1)}
    own = [0 if heads[i] == i else place[int(heads[i])] for i in words]
    labels = [parser.labels.index(deps[i]) for i in words]
    return np.array([MISSING, *own]), np.array([MISSING, *labels])


def test_component_finds_the_best_labelled_trees(unsure, parser):
    doc = unsure(TEXT)
    assign(parser, decode="tree")
    plain = unsure(TEXT)
    assert [t.head.i for t in doc] != [t.head.i for t in plain]
    for sentence, weights in zip(doc.sents, weights_of(parser, doc), strict=True):
        places = [token.head.i - sentence.start for token in sentence]
        heads, labels = tree_of(parser, sentence, places, [token.dep_ for token in sentence])
        assert heads.tolist() == decode(with_best_labels(*weights)).tolist()
        assert_best_labels(heads, labels, weights[1])


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_log_probabilities_of_the_best_labels(unsure, parser, temperature):
    doc = unsure.make_doc("The cat saw a dog")
    trees = parser.model.predict(ParserInput([doc], [[np.arange(5)]])).trees
    deps, heads = np.array([1, 2, 2, 4, 5]), np.array([2, 3, 1, 5, 3])
    scores = score_labels(parser.model, trees, deps, heads).astype("f8") / temperature
    labels, log_probs = find_best_labels(
        parser.model.get_ref("labels"), trees, deps, heads, temperature
    )
    scores = scores[:, : len(parser.labels) - 1]
    expected = scores.max(axis=1) - np.logaddexp.reduce(scores, axis=1)
    assert log_probs == pytest.approx(expected, abs=1e-5)
    assert labels.tolist() == (1 + scores.argmax(axis=1)).tolist()


def test_confidence_is_of_trees(unsure, parser):
    assign(parser, confidence=True)
    doc = unsure(TEXT)
    for sentence, weights in zip(doc.sents, weights_of(parser, doc), strict=True):
        places = [token.head.i - sentence.start for token in sentence]
        heads, _ = tree_of(parser, sentence, places, [token.dep_ for token in sentence])
        expected = TreeDistribution(weights[0]).log_prob(heads)
        assert sentence._.parse_log_prob == pytest.approx(float(expected), abs=1e-4)


def assert_log_prob(parser, weights, parse):
    """The log probability of an alternative is of its tree and labels, by the network's scores."""
    total = labelled_score(*weights, *tree_of(parser, parse.span, parse.heads, parse.deps))
    expected = total - TreeDistribution(weights[0]).log_partition
    assert parse.log_prob == pytest.approx(expected, abs=1e-4)


def test_labelled_k_best_begin_with_the_parse(unsure, parser, monkeypatch):
    assign(parser, temperature=1.0)
    monkeypatch.setitem(parser.cfg, "label_temperature", 3.0)
    assign(parser, **kbest(k=60))
    doc = unsure(TEXT)
    for sentence, weights in zip(doc.sents, weights_of(parser, doc), strict=True):
        parses = sentence._.parses
        assert len(parses) == 60
        assert parses[0].heads.tolist() == [token.head.i - sentence.start for token in sentence]
        assert parses[0].deps == [token.dep_ for token in sentence]
        log_probs = [parse.log_prob for parse in parses]
        assert log_probs == sorted(log_probs, reverse=True)
        assert len({(parse.heads.tobytes(), *parse.deps) for parse in parses}) == 60
        # Some tree has several labellings.
        assert len({parse.heads.tobytes() for parse in parses}) < 60
        for parse in parses[::6]:
            assert_log_prob(parser, weights, parse)


def test_samples_have_the_probability_of_tree_and_labels(unsure, parser):
    assign(parser, temperature=0.3, **sample(k=40, seed=3))
    doc, (_, again) = unsure(TEXT), unsure.pipe(["It rained.", TEXT])
    for sentence, other, weights in zip(
        doc.sents, again.sents, weights_of(parser, doc), strict=True
    ):
        parses = sentence._.parses
        assert len(parses) == 40
        for parse in parses[::8]:
            assert_log_prob(parser, weights, parse)
        assert len({tuple(parse.deps) for parse in parses}) > 1
        assert [parse.deps for parse in other._.parses] == [parse.deps for parse in parses]


def test_constraints_are_respected(unsure, parser):
    free = unsure("The cat saw a dog that slept.")
    token = next(token for token in free if token.head != token)
    other = next(t for t in free if t not in (token, token.head) and token not in t.ancestors)
    assign(parser, constraints=lambda doc: Constraints(forced=[(token.i, other.i)]))
    bound = unsure("The cat saw a dog that slept.")
    assert bound[token.i].head.i == other.i
    assert sum(t.head == t for t in bound) == 1


def test_labels_that_are_not_finite_are_named(unsure, monkeypatch):
    plain = label_scorer.iterate_label_scores

    def spoilt(*arguments):
        for start, scores in plain(*arguments):
            scores[0, 0] = np.nan
            yield start, scores

    monkeypatch.setattr(label_scorer, "iterate_label_scores", spoilt)
    with pytest.raises(ValueError, match="label scores"):
        unsure("It rained.")
