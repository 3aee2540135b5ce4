"""Trees that are the best together with their labels: by enumeration, and without any shortcut."""

import numpy as np
import pytest
from parsers import SMALL_MODEL, assign, gold_examples, make_nlp, score_labels, train
from reference import enumerate_trees
from strategies import FAMILIES, places_of, rng_for

from spacy_rootmind import NoTreeError, TreeDistribution, decode, tree_score
from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.network import label_scorer
from spacy_rootmind.network.architecture import ParserInput
from spacy_rootmind.network.label_scorer import find_best_labels
from spacy_rootmind.pipeline.alternatives import kbest, sample, sample_without_replacement
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.labelled import decode_labelled

TEXT = "The cat  saw a dog that slept.\nShe said that it rained."


class Labels:
    """Labels of all arcs of some sentences, known from the start, that counts the queries."""

    def __init__(self, rng, scores, spread):
        shapes = [own.shape for own in scores]
        self.labels = [rng.integers(1, 41, shape) for shape in shapes]
        self.log_probs = [-spread * rng.exponential(size=shape) for shape in shapes]
        self.asked = [np.zeros(shape, dtype=int) for shape in shapes]
        self.rounds = 0

    def __call__(self, deps, heads):
        self.rounds += 1
        places = places_of(self.asked, deps, heads)
        for i, dep, head in places:
            self.asked[i][dep, head] += 1
        return tuple(
            np.array([of[i][dep, head] for i, dep, head in places], dtype=kind)
            for of, kind in ((self.labels, "i8"), (self.log_probs, "f8"))
        )

    def together(self, i, weights):
        """Log-weights of one sentence's arcs together with their labels; ROOT's have none."""
        joint = weights + self.log_probs[i]
        joint[:, 0] = weights[:, 0]
        return joint


def sentences_from(rng, family, lengths, fill=np.nan):
    """Scores of sentences; what must not be read, diagonals among it, holds `fill`."""
    sentences = [FAMILIES[family](rng, n, np.float64) for n in lengths]
    for scores in sentences:
        scores[0] = fill
        np.fill_diagonal(scores, fill)
    return sentences


def trees_of(search):
    """The heads and labels of each sentence."""
    return zip(
        *(np.split(own, search.roots[1:-1]) for own in (search.heads, search.labels)), strict=True
    )


@pytest.mark.one_each("family")
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("family", ["gaussian", "integer_ties", "zeros", "trained_like"])
def test_best_of_all_labelled_trees(family, spread):
    rng = rng_for("labelled", family, spread)
    scores = sentences_from(rng, family, [1, 2, 5, 0, 4, 5, 5, 3, 3])
    labels = Labels(rng, scores, spread)
    search = decode_labelled(scores, labels, temperature=0.7)
    for i, (heads, found) in enumerate(trees_of(search)):
        n = len(heads) - 1
        joint = labels.together(i, scores[i] / 0.7)
        best = max(tree_score(joint, tree) for tree in enumerate_trees(n, True))
        assert tree_score(joint, heads) == pytest.approx(best, abs=1e-12)
        for dep in range(1, n + 1):
            known = labels.labels[i][dep, heads[dep]] if heads[dep] else ROOT_LABEL
            assert found[dep] == known
        assert heads[0] == found[0] == MISSING


@pytest.mark.one_each("family")
@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("spread", [0.1, 2.0])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_as_good_as_with_the_labels_of_all_arcs(family, spread, projective):
    rng = rng_for("labelled", family, spread, "long")
    scores = sentences_from(rng, family, [40, 12, 33])
    labels = Labels(rng, scores, spread)
    kind = {"projective": projective}
    try:
        joint = [labels.together(i, own) for i, own in enumerate(scores)]
        expected = [tree_score(own, decode(own, **kind)) for own in joint]
    except NoTreeError:
        with pytest.raises(NoTreeError):
            decode_labelled(scores, labels, **kind)
        return
    for i, (heads, _) in enumerate(trees_of(decode_labelled(scores, labels, **kind))):
        assert tree_score(joint[i], heads) == pytest.approx(expected[i], rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("fill", [np.nan, np.inf, 1e9])
def test_only_arcs_between_words_are_labelled_each_once(fill):
    rng = rng_for("labelled", "asked")
    scores = sentences_from(rng, "zeros", [20, 7, 16], fill)
    labels = Labels(rng, scores, 1.0)
    decode_labelled(scores, labels)
    for asked in labels.asked:
        assert asked.max() == 1
        assert not asked[0].any()
        assert not asked[:, 0].any()
        assert not asked.diagonal().any()


@pytest.mark.parametrize(
    ("family", "lengths", "spread", "most"),
    [
        ("trained_like", [30] * 20, 0.2, 1.1),
        ("gaussian", [30] * 20, 0.3, 7.0),
        # Labels decide everything here, in few rounds.
        ("zeros", [200], 1.0, np.inf),
    ],
)
def test_few_arcs_are_labelled_where_trees_are_clear(family, lengths, spread, most):
    rng = rng_for("labelled", "clear", family)
    scores = sentences_from(rng, family, lengths)
    labels = Labels(rng, scores, spread)
    decode_labelled(scores, labels)
    assert sum(asked.sum() for asked in labels.asked) < most * sum(lengths)
    assert labels.rounds < (12 if family == "zeros" else 16)


def test_settled_sentences_are_left_alone():
    rng = rng_for("labelled", "settled")
    chain, flat = 100.0 * np.eye(21, k=-1), np.zeros((21, 21))
    scores = [chain] * 9 + [flat]
    labels, asked = Labels(rng, scores, 1.0), []

    def counted(deps, heads):
        asked.append({place[0] for place in places_of(scores, deps, heads)})
        return labels(deps, heads)

    decode_labelled(scores, counted)
    # All at first, and then the one where labels decide.
    assert asked[0] == set(range(10))
    assert len(asked) > 3
    assert all(own == {9} for own in asked[1:])


def test_labels_of_the_best_trees_without_labels():
    rng = rng_for("labelled", "given trees")
    scores = sentences_from(rng, "gaussian", [1, 5, 3, 9])
    labels = Labels(rng, scores, 100.0)
    search = decode_labelled(scores, labels, decode_again=False)
    assert labels.rounds == 1
    for i, (heads, found) in enumerate(trees_of(search)):
        assert heads.tolist() == decode(scores[i]).tolist()
        known = labels.labels[i][np.arange(len(heads)), heads]
        assert found[1:].tolist() == np.where(heads, known, ROOT_LABEL)[1:].tolist()


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
    parser.saved_settings = before.as_config()


def joint_weights(parser, doc):
    """Log-weights of each sentence's arcs with their best labels, and these labels."""
    trees = parser.model.predict(ParserInput([doc], [sentences_of(doc)])).trees
    found = {}
    for bucket, arcs in zip(trees.layout.buckets, trees.arcs, strict=True):
        for i, number in enumerate(bucket.sentences):
            m, root = bucket.lengths[i] + 1, trees.layout.roots[number]
            joint = arcs[i, :m, :m].astype("f8") / parser.temperature
            names = np.full((m, m), "ROOT", dtype=object)
            for dep in range(1, m):
                for head in set(range(1, m)) - {dep}:
                    rows = np.array([dep]) + root, np.array([head]) + root
                    scores = score_labels(parser.model, trees, *rows)[0].astype("f8")
                    scores /= parser.cfg["label_temperature"]
                    # The null label, if there is one, is the last, and none of these.
                    scores = scores[: len(parser.labels) - 1]
                    joint[dep, head] += scores.max() - np.logaddexp.reduce(scores)
                    names[dep, head] = parser.labels[1 + scores.argmax()]
            found[number] = joint, names
    return [found[number] for number in sorted(found)]


def words_of(sentence):
    return [token for token in sentence if not token.is_space]


def test_component_finds_the_best_labelled_trees(unsure, parser):
    doc = unsure(TEXT)
    assign(parser, decode="tree")
    plain = unsure(TEXT)
    assert [t.head.i for t in doc] != [t.head.i for t in plain]
    for sentence, (joint, names) in zip(doc.sents, joint_weights(parser, doc), strict=True):
        words = words_of(sentence)
        place = {token.i: i for i, token in enumerate(words, start=1)}
        heads = decode(joint)
        expected = [(int(heads[i]), names[i, heads[i]]) for i in range(1, len(heads))]
        found = [(0 if t.head == t else place[t.head.i], t.dep_) for t in words]
        assert found == expected


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


def test_confidence_and_alternatives_are_of_trees(unsure, parser):
    assign(parser, confidence=True, alternatives=kbest(k=50))
    doc = unsure(TEXT)
    behind = 0
    for sentence in doc.sents:
        own = [token.head.i - sentence.start for token in sentence]
        tree = [parse for parse in sentence._.parses if parse.heads.tolist() == own]
        behind += own != sentence._.parses[0].heads.tolist()
        for parse in tree:
            assert parse.log_prob == pytest.approx(sentence._.parse_log_prob, abs=1e-5)
            assert parse.deps == [token.dep_ for token in sentence]
        assert len(tree) == 1
    assert behind


def labelled_log_prob(parser, doc, number, parse):
    """Log probability of an alternative with its labels, from the network's scores."""
    trees = parser.model.predict(ParserInput([doc], [sentences_of(doc)])).trees
    words = [i for i, token in enumerate(parse.span) if not token.is_space]
    place = {token: i for i, token in enumerate(words, start=1)}
    heads = [-1] + [0 if parse.heads[i] == i else place[int(parse.heads[i])] for i in words]
    for bucket, arcs in zip(trees.layout.buckets, trees.arcs, strict=True):
        for i, sentence in enumerate(bucket.sentences):
            if sentence == number:
                weights = arcs[i, : len(heads), : len(heads)].astype("f8") / parser.temperature
    total = TreeDistribution(weights).log_prob(np.array(heads))
    root = trees.layout.roots[number]
    for dep, head in enumerate(heads[1:], start=1):
        if head:
            rows = np.array([dep]) + root, np.array([head]) + root
            scores = score_labels(parser.model, trees, *rows)[0].astype("f8")
            scores = scores[: len(parser.labels) - 1] / parser.cfg["label_temperature"]
            label = parser.labels.index(parse.deps[words[dep - 1]])
            total += scores[label - 1] - np.logaddexp.reduce(scores)
        else:
            assert parse.deps[words[dep - 1]] == "ROOT"
    return total


def test_labelled_k_best_begin_with_the_parse(unsure, parser, monkeypatch):
    assign(parser, temperature=1.0)
    monkeypatch.setitem(parser.cfg, "label_temperature", 3.0)
    assign(parser, alternatives=kbest(k=60, labelled=True))
    doc = unsure(TEXT)
    for number, sentence in enumerate(doc.sents):
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
            expected = labelled_log_prob(parser, doc, number, parse)
            assert parse.log_prob == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("make", [sample, sample_without_replacement])
def test_labelled_samples_have_the_probability_of_tree_and_labels(make, unsure, parser):
    assign(parser, temperature=0.3, alternatives=make(k=40, seed=3, labelled=True))
    doc, (_, again) = unsure(TEXT), unsure.pipe(["It rained.", TEXT])
    for number, sentence in enumerate(doc.sents):
        parses = sentence._.parses
        assert len(parses) == 40
        for parse in parses[::8]:
            expected = labelled_log_prob(parser, doc, number, parse)
            assert parse.log_prob == pytest.approx(expected, abs=1e-4)
        assert len({tuple(parse.deps) for parse in parses}) > 1
        n_different = len({(parse.heads.tobytes(), *parse.deps) for parse in parses})
        assert (n_different == 40) == (make is sample_without_replacement)
        other = list(again.sents)[number]._.parses
        assert [parse.deps for parse in other] == [parse.deps for parse in parses]


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
