"""Trees that are the best together with their labels: by enumeration, and without any shortcut."""

import pickle

import numpy as np
import pytest
from parsers import SMALL_MODEL, assign, gold_examples, make_nlp, score_labels, train
from reference import enumerate_trees
from spacy import registry
from strategies import FAMILIES, pad_batch, rng_for

from spacy_rootmind import NoTreeError, configure, decode, tree_log_prob, tree_score
from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.network import label_scorer
from spacy_rootmind.network.architecture import ParserInput
from spacy_rootmind.network.label_scorer import find_best_labels
from spacy_rootmind.pipeline.alternatives import kbest, sample, sample_without_replacement
from spacy_rootmind.trees import labelled
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.labelled import decode_labelled, label_trees

TEXT = "The cat  saw a dog that slept.\nShe said that it rained."


class Labels:
    """Labels of all arcs of some batches, known from the start, that counts the queries."""

    def __init__(self, rng, shapes, spread):
        self.labels = [rng.integers(1, 41, shape) for shape in shapes]
        self.log_probs = [-spread * rng.exponential(size=shape) for shape in shapes]
        self.asked = [np.zeros(shape, dtype=int) for shape in shapes]
        self.rounds = 0

    def __call__(self, arcs):
        self.rounds += 1
        for place in zip(*arcs, strict=True):
            self.asked[place[0]][place[1:]] += 1
        return tuple(
            np.array([of[place[0]][place[1:]] for place in zip(*arcs, strict=True)], dtype=kind)
            for of, kind in ((self.labels, "i8"), (self.log_probs, "f8"))
        )

    def together(self, i, sentence, weights):
        """Log-weights of one sentence's arcs together with their labels; ROOT's have none."""
        m = len(weights)
        joint = weights + self.log_probs[i][sentence, :m, :m]
        joint[:, 0] = weights[:, 0]
        return joint


def batch_of(rng, family, lengths, fill=np.nan):
    """Padded scores; what must not be read, diagonals among it, holds `fill`."""
    sentences = [FAMILIES[family](rng, n, np.float64) for n in lengths]
    for scores in sentences:
        scores[0] = fill
        np.fill_diagonal(scores, fill)
    return pad_batch(sentences, fill=fill, extra=2)


@pytest.mark.one_each("family")
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("family", ["gaussian", "integer_ties", "zeros", "trained_like"])
def test_best_of_all_labelled_trees(family, spread):
    rng = rng_for("labelled", family, spread)
    batches = [batch_of(rng, family, lengths) for lengths in ([1, 2, 5, 4, 5], [5], [3, 3])]
    weights, lengths = zip(*batches, strict=True)
    labels = Labels(rng, [batch.shape for batch in weights], spread)
    heads, found, *_ = decode_labelled(weights, lengths, labels)
    for i, batch in enumerate(weights):
        for sentence, n in enumerate(lengths[i].tolist()):
            joint = labels.together(i, sentence, batch[sentence, : n + 1, : n + 1])
            own = heads[i][sentence, : n + 1]
            best = max(tree_score(joint, tree) for tree in enumerate_trees(n, True))
            assert tree_score(joint, own) == pytest.approx(best, abs=1e-12)
            for dep in range(1, n + 1):
                known = labels.labels[i][sentence, dep, own[dep]] if own[dep] else ROOT_LABEL
                assert found[i][sentence, dep] == known
            assert (heads[i][sentence, n + 1 :] == -1).all()
            assert (found[i][sentence, n + 1 :] == -1).all()
            assert found[i][sentence, 0] == -1


@pytest.mark.one_each("family")
@pytest.mark.parametrize("spread", [0.1, 2.0])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_as_good_as_with_the_labels_of_all_arcs(family, spread):
    rng = rng_for("labelled", family, spread, "long")
    weights, lengths = batch_of(rng, family, [40, 12, 33])
    labels = Labels(rng, [weights.shape], spread)
    try:
        joint = [labels.together(0, i, weights[i, : n + 1, : n + 1]) for i, n in enumerate(lengths)]
        expected = [tree_score(scores, decode(scores)) for scores in joint]
    except NoTreeError:
        with pytest.raises(NoTreeError):
            decode_labelled([weights], [lengths], labels)
        return
    [heads], *_ = decode_labelled([weights], [lengths], labels)
    for i, n in enumerate(lengths.tolist()):
        found = tree_score(joint[i], heads[i, : n + 1])
        assert found == pytest.approx(expected[i], rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("fill", [np.nan, np.inf, 1e9])
def test_only_arcs_between_words_are_labelled_each_once(fill):
    rng = rng_for("labelled", "asked")
    weights, lengths = batch_of(rng, "zeros", [20, 7, 16], fill)
    labels = Labels(rng, [weights.shape], 1.0)
    decode_labelled([weights], [lengths], labels)
    [asked] = labels.asked
    assert asked.max() == 1
    inside = np.arange(weights.shape[1]) <= lengths[:, None]
    allowed = inside[:, :, None] & inside[:, None, :]
    allowed[:, 0] = allowed[:, :, 0] = False
    allowed &= ~np.eye(weights.shape[1], dtype=bool)
    assert not asked[~allowed].any()


@pytest.mark.parametrize(
    ("family", "lengths", "spread", "most"),
    [
        ("trained_like", [30] * 20, 0.2, 1.1),
        ("gaussian", [30] * 20, 0.3, 6.0),
        # Labels decide everything here, in few rounds.
        ("zeros", [200], 1.0, np.inf),
    ],
)
def test_few_arcs_are_labelled_where_trees_are_clear(family, lengths, spread, most):
    rng = rng_for("labelled", "clear", family)
    weights, lengths = batch_of(rng, family, lengths)
    labels = Labels(rng, [weights.shape], spread)
    decode_labelled([weights], [lengths], labels)
    assert labels.asked[0].sum() < most * lengths.sum()
    assert labels.rounds < 12


def test_settled_sentences_are_left_alone(monkeypatch):
    rng = rng_for("labelled", "settled")
    chain, flat = 100.0 * np.eye(21, k=-1), np.zeros((21, 21))
    weights, lengths = pad_batch([chain] * 9 + [flat], fill=np.nan)
    labels = Labels(rng, [weights.shape], 1.0)
    decoded = []

    def counted(scores, lengths, **kind):
        decoded.append(len(scores))
        return decode(scores, lengths=lengths, **kind)

    monkeypatch.setattr(labelled, "find_best", counted)
    decode_labelled([weights], [lengths], labels)
    # At first, with the first labels, and then the one where labels decide.
    assert decoded[:2] == [10, 10]
    assert len(decoded) > 3
    assert set(decoded[2:]) == {1}


def test_labels_of_given_trees():
    rng = rng_for("labelled", "given trees")
    batches = [batch_of(rng, "gaussian", lengths) for lengths in ([1, 5, 3], [9])]
    heads = [decode(scores, lengths=words) for scores, words in batches]
    lengths = [words for _, words in batches]
    labels = Labels(rng, [batch.shape for batch, _ in batches], 1.0)
    found = label_trees(heads, lengths, labels)
    for i, trees in enumerate(heads):
        for sentence, dep in np.ndindex(*trees.shape):
            head = trees[sentence, dep]
            outside = MISSING if dep == 0 or dep > lengths[i][sentence] else ROOT_LABEL
            known = labels.labels[i][sentence, dep, head] if head > 0 else outside
            assert found[i][sentence, dep] == known


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


def test_temperatures_weigh_trees_and_labels(unsure, parser, monkeypatch):
    texts = [TEXT, "Which book did Anna say that she had read?"]
    plain = [[t.head.i for t in unsure(text)] for text in texts]
    for arcs, labels in ((6.0, 5.0), (0.1, 0.5)):
        assign(parser, temperature=arcs)
        monkeypatch.setitem(parser.cfg, "label_temperature", labels)
        assert [[t.head.i for t in unsure(text)] for text in texts] != plain


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
    total = tree_log_prob(weights, np.array(heads))
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


def test_labelled_samples_without_replacement_by_config(unsure, parser):
    block = {
        "@misc": "spacy_rootmind.sample_without_replacement.v1",
        "k": 3,
        "seed": 1,
        "labelled": True,
    }
    found = []
    for maker in (
        sample_without_replacement(k=3, seed=1, labelled=True),
        registry.resolve({"maker": block})["maker"],
    ):
        configure(unsure, alternatives=pickle.loads(pickle.dumps(maker)))
        assert unsure.config["components"]["root_mst"]["alternatives"] == block
        parses = [parse for sentence in unsure(TEXT).sents for parse in sentence._.parses]
        found.append([(parse.heads.tolist(), parse.deps, parse.log_prob) for parse in parses])
    assert len(found[0]) == 6
    assert found[0] == found[1]


def test_constraints_are_respected(unsure, parser):
    free = unsure("The cat saw a dog that slept.")
    token = next(token for token in free if token.head != token)
    other = next(t for t in free if t not in (token, token.head) and token not in t.ancestors)
    assign(parser, constraints=lambda doc: Constraints(forced=[(token.i, other.i)]))
    bound = unsure("The cat saw a dog that slept.")
    assert bound[token.i].head.i == other.i
    assert sum(t.head == t for t in bound) == 1


@pytest.mark.parametrize("span", [(0, 2), (1, 4), (3, 5)])
def test_subtrees_keep_their_top_and_the_rest_is_the_best_with_labels(unsure, parser, span):
    """The top of a span is that of the most probable tree, labels aside."""
    assign(parser, constraints=lambda doc: Constraints(subtrees=[span]))
    text = "The cat saw a dog"
    words = set(range(span[0] + 1, span[1] + 1))

    def tops(heads):
        return [word for word in words if heads[word] not in words]

    def heads_of(doc):
        return [-1] + [0 if token.head == token else token.head.i + 1 for token in doc]

    doc = unsure(text)
    assign(parser, decode="tree")
    [top] = tops(heads_of(unsure(text)))
    [(joint, _)] = joint_weights(parser, doc)
    complying = [tree for tree in enumerate_trees(5, True) if tops(tree.tolist()) == [top]]
    best = max(tree_score(joint, tree) for tree in complying)
    assert tops(heads_of(doc)) == [top]
    assert tree_score(joint, np.array(heads_of(doc))) == pytest.approx(best, abs=1e-4)


def test_sentences_do_not_depend_on_one_another(unsure):
    texts = [TEXT, "It rained.", "", " ", "Which book did Anna say that she had read?"] * 3
    together = list(unsure.pipe(texts, batch_size=len(texts)))
    for text, doc in zip(texts, together, strict=True):
        alone = unsure(text)
        assert [(t.head.i, t.dep_) for t in doc] == [(t.head.i, t.dep_) for t in alone]


def test_labels_that_are_not_finite_are_named(unsure, monkeypatch):
    plain = label_scorer.iterate_label_scores

    def spoilt(*arguments):
        for start, scores in plain(*arguments):
            scores[0, 0] = np.nan
            yield start, scores

    monkeypatch.setattr(label_scorer, "iterate_label_scores", spoilt)
    with pytest.raises(ValueError, match="label scores"):
        unsure("It rained.")
