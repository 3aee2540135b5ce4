"""Cuts of sentences: the most likely boundaries, and no sentence longer than is allowed."""

import itertools
import math
import multiprocessing
import sys

import numpy as np
import pytest
import spacy
from parsers import assign, gold_examples, initialized, join, settable
from spacy.tokens import Doc, Span
from strategies import rng_for

from spacy_rootmind.annotation.sentences import TokenRow, choose_starts
from spacy_rootmind.pipeline import prediction
from spacy_rootmind.pipeline.prediction import plan_sentences
from spacy_rootmind.pipeline.sentence_parser import PredictionContext
from spacy_rootmind.pipeline.settings import Settings


def refuse(item):
    raise NotImplementedError("no vectors")


VOCAB = spacy.blank("xx").vocab
# Part of a Doc's words are whitespace, in this share.
SPACES = 0.25


def random_doc(rng, n, spaces=SPACES, marks=(None,)):
    """A Doc of words and whitespace, with sentence starts drawn from `marks`."""
    words = [["\n", " ", "\t\n"][i % 3] if rng.random() < spaces else f"w{i}" for i in range(n)]
    sent_starts = [marks[i] for i in rng.integers(0, len(marks), size=n).tolist()]
    return Doc(VOCAB, words=words, sent_starts=sent_starts if len(marks) > 1 else None)


def n_words(doc, start, stop):
    return sum(not doc[i].is_space for i in range(start, stop))


def longest(doc, starts):
    return max((n_words(doc, a, b) for a, b in itertools.pairwise(starts)), default=0)


def best_by_enumeration(doc, gains, max_words, forced=frozenset(), refused=frozenset()):
    """Enumerate the starts that leave no sentence too long, and hold `forced`.

    Returns for the best choice how many of `refused` are broken, which comes first, and its gain.
    """
    best = -math.inf, -math.inf
    places = [
        i for i in range(1, len(doc)) if i not in forced and (not doc[i].is_space or gains[i] > 0)
    ]
    for chosen in itertools.product([False, True], repeat=len(places)):
        cuts = sorted(forced | {i for i, taken in zip(places, chosen, strict=True) if taken})
        if longest(doc, [0, *cuts, len(doc)]) <= max_words:
            value = -sum(i in refused for i in cuts), math.fsum(gains[i] for i in cuts)
            best = max(best, value)
    return -best[0], best[1]


def total_gain(starts, gains):
    return math.fsum(gains[i] for i in starts[1:-1].tolist())


# --- choosing ----------------------------------------------------------------------------------


def test_choose_starts_matches_a_quadratic_table_on_long_docs():
    rng = rng_for("choose long")
    # The longest ones take linear time.
    for n, max_words in ((400, 7), (400, 40), (300, 299), (257, 1), (100_000, 1), (100_000, 512)):
        doc = Doc(VOCAB, words=["a"] * n)
        gains = -1 - rng.random(n)
        starts, split = choose_starts(TokenRow([doc]), gains, max_words)
        assert split.tolist() == [0]
        totals = np.full(n + 1, -np.inf)
        totals[0] = 0.0
        for end in range(1, n + 1):
            gain = gains[end] if end < n else 0.0
            totals[end] = totals[max(end - max_words, 0) : end].max() + gain
        assert total_gain(starts, gains) == pytest.approx(totals[n], rel=1e-12, abs=1e-9)
        assert np.diff(starts).max() <= max_words


# --- known boundaries, and length ----------------------------------------------------------------


def plan(doc, log_odds, **settings):
    context = PredictionContext(Settings(**settings), ("ROOT", "dep"))
    return plan_sentences(TokenRow([doc]), log_odds, context)


@pytest.mark.parametrize("mode", ["auto", "given", "doc"])
@pytest.mark.parametrize("max_words", [1, 2, 4, 20])
def test_plan_is_best_of_all_that_respect_what_is_known(mode, max_words):
    rng = rng_for("plan", mode, max_words)
    for _ in range(25):
        n = int(rng.integers(2, 10))
        doc = random_doc(rng, n, marks=(None, None, True, False, False))
        if not doc.has_annotation("SENT_START"):
            continue
        log_odds = rng.normal(size=n).astype("f")
        marks = [doc[i].is_sent_start for i in range(n)]
        marks[0] = True
        if mode == "doc":
            marks = [False] * n
        elif mode == "given":
            marks = [bool(mark) for mark in marks]
        else:
            # Unless it was said to, whitespace starts no sentence, nor does a word that would leave
            # one of whitespace alone.
            is_empty = True
            for token in doc:
                is_empty = is_empty or marks[token.i] is True
                if marks[token.i] is None and (token.is_space or is_empty):
                    marks[token.i] = False
                is_empty = is_empty and token.is_space
        refused = {i for i in range(n) if marks[i] is False}
        gains = [1e3 if marks[i] is True else float(log_odds[i]) for i in range(n)]
        # Whitespace is no place to split at either.
        gains = [
            -1.0 if doc[i].is_space and marks[i] is False else gain for i, gain in enumerate(gains)
        ]
        settings = {"sentences": mode, "blank_lines": False}
        starts = plan(doc, log_odds, max_sentence_length=max_words, **settings)[0]
        chosen = starts[1:-1].tolist()
        assert longest(doc, starts.tolist()) <= max_words
        forced = {i for i in range(1, n) if marks[i] is True}
        assert forced <= set(chosen)
        broken, best = best_by_enumeration(doc, gains, max_words, forced, refused)
        assert sum(i in refused for i in chosen) == broken
        assert math.fsum(gains[i] for i in chosen) == pytest.approx(best, abs=1e-6)


# --- in the component --------------------------------------------------------------------------


@pytest.fixture
def parser_of(segmenter):
    """Gives the parser other settings until the next call."""
    with settable(segmenter) as set_all:
        yield set_all


def long_doc(nlp, quickstart_docs):
    words = []
    for doc in quickstart_docs[:12]:
        words += [token.text for token in doc if token.text != "."]
        words.append("\n")
    return Doc(nlp.vocab, words=words)


@pytest.mark.one_each("max_words")
@pytest.mark.parametrize("max_words", [1, 2, 5, 30])
@pytest.mark.parametrize("mode", ["auto", "given", "doc"])
def test_no_parsed_sentence_is_longer_than_allowed(
    parser_of, quickstart_docs, mode, max_words, caplog, monkeypatch
):
    nlp = parser_of(sentences=mode, max_sentence_length=max_words)
    monkeypatch.setattr(prediction.warn_of_split, "has_warned", False)
    doc = long_doc(nlp, quickstart_docs)
    if mode == "given":
        doc[20].is_sent_start = True
    doc = nlp(doc)
    told = [r.getMessage() for r in caplog.records if "was split" in r.getMessage()]
    assert len(told) <= 1
    assert mode == "auto" or f"{doc[:8].text!r} has more than {max_words} words" in told[0]
    assert longest(doc, [*(s.start for s in doc.sents), len(doc)]) <= max_words
    for sentence in doc.sents:
        assert sum(token.head == token for token in sentence) == 1
        assert all(token.head in sentence for token in sentence)
        assert sentence.start == 0 or not sentence[0].is_space
    if mode == "given":
        assert doc[20].is_sent_start


def test_training_in_the_component_bounds_its_sentences(quickstart_docs, monkeypatch):
    nlp, examples = initialized([Doc.from_docs(quickstart_docs[:6])], max_sentence_length=4)
    model = nlp.get_pipe("root_mst").model
    seen = []
    forward = model._func

    def spy(model, X, is_train):
        seen.extend(len(sentence) for sentences in X.sentences for sentence in sentences)
        return forward(model, X, is_train)

    monkeypatch.setattr(model, "_func", spy)
    nlp.update(examples)
    assert max(seen) == 4
    seen.clear()
    nlp.get_pipe("root_mst").fit_temperature(examples)
    assert max(seen) == 4


# --- a long Doc in parts -------------------------------------------------------------------------


def parse_of(doc):
    return [(t.head.i, t.dep_, t.is_sent_start) for t in doc]


@pytest.mark.parametrize("size", [17, 64, 100])
def test_a_long_doc_seen_in_slices_is_parsed_as_if_seen_whole(
    segmenter, quickstart_docs, monkeypatch, size
):
    words = [token.text for doc in quickstart_docs[:30] for token in doc]
    whole = segmenter(Doc(segmenter.vocab, words=words))
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_TOKENS", size)
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.CONTEXT", 8)
    sliced = segmenter(Doc(segmenter.vocab, words=words))
    assert parse_of(sliced) == parse_of(whole)
    # One that has entities, and trees already, across the slices' ends.
    sliced.ents = [Span(sliced, i, i + 4, label="X") for i in range(2, len(sliced) - 4, 7)]
    again = segmenter.get_pipe("root_mst")(sliced)
    assert parse_of(again) == parse_of(whole)
    assert len(again.ents) > 30


# --- memory --------------------------------------------------------------------------------------


def test_no_call_of_the_network_gets_more_than_allowed(segmenter, quickstart_docs, monkeypatch):
    for name, most in {"MAX_TOKENS": 40, "CONTEXT": 8, "MAX_SCORES": 900, "MIN_SCORES": 50}.items():
        monkeypatch.setattr(prediction, name, most)
    tokens, costs = [], []

    def watch(name, seen, size_of):
        run = getattr(prediction, name)

        def run_and_watch(first, inputs, **kwargs):
            seen.append(size_of(inputs))
            return run(first, inputs, **kwargs)

        monkeypatch.setattr(prediction, name, run_and_watch)

    def cost(sentences):
        [own] = sentences
        sizes = [len(words) + 1 for words in own]
        # A long sentence is alone.
        return sum(m * max(m, 50) for m in sizes) if len(sizes) > 1 else 0

    watch("find_vectors", tokens, lambda docs: sum(map(len, docs)))
    watch("TreeInput", costs, cost)
    words = [token.text for doc in quickstart_docs[:20] for token in doc]
    short = [segmenter.make_doc("A dog came. It slept. Yes!") for _ in range(12)]
    docs = [*short, Doc(segmenter.vocab, words=words)]
    assert all(doc.has_annotation("DEP") for doc in segmenter.pipe(docs, batch_size=100))
    # Batches are as large as they may be, and slices have their context.
    assert 32 < max(tokens) <= 40 + 2 * 8
    assert 450 < max(costs) <= 900


@pytest.fixture(scope="module")
def of_default_size(quickstart_docs):
    """A parser with the default network, whose weights do not matter."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("root_mst")
    nlp.initialize(lambda: gold_examples(join(quickstart_docs[:8], 4), nlp))
    return nlp


def measure(nlp, settings, n):
    """Parse a Doc of n words without punctuation; returns what it took, for `in_a_fork`."""
    import resource

    assign(nlp.get_pipe("root_mst"), **settings)
    words = ["committee", "that", "reviewed", "the", "old", "proposals", "slept"]
    doc = Doc(nlp.vocab, words=np.random.default_rng(0).choice(words, n).tolist())
    # The first words allocate everything that is allocated once.
    nlp(" ".join(words))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nlp.get_pipe("root_mst")(doc)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    longest = max(len(sentence) for sentence in doc.sents)
    return {"mib": (after - before) / 1024, "longest": longest}


def in_a_fork(function, *arguments):
    """Call a function in a process that has the memory of this one, and a peak of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(function(*arguments)))
    process.start()
    # If the process dies, nothing is received.
    sender.close()
    try:
        return receiver.recv()
    finally:
        process.join()


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
# The child only parses.
may_fork = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


SLOW = pytest.mark.slow


@on_linux
@may_fork
@pytest.mark.parametrize(
    ("settings", "n", "most"),
    [
        # No boundary is found, so that all are cuts. All arc scores of one sentence would take 550
        # MiB, and each copy of all parts 24 MiB.
        ({"boundary_threshold": 1}, 12_000, 300),
        pytest.param({"sentences": "doc"}, 12_000, 300, marks=SLOW),
        pytest.param({"sentences": "doc"}, 100_000, 1024, marks=SLOW),
        pytest.param({"confidence": True}, 100_000, 1024, marks=SLOW),
    ],
)
def test_memory_of_a_long_doc_is_bounded(of_default_size, settings, n, most):
    found = in_a_fork(measure, of_default_size, settings, n)
    assert found["longest"] <= 512
    assert found["mib"] < most


def test_slices_have_what_the_doc_has():
    words = [*"abcdefgh"]
    doc = Doc(VOCAB, words=words, spaces=[False, True] * 4, tags=words, pos=["NOUN"] * 8)
    doc.ents = [Span(doc, 1, 4, label="X", kb_id="Q1"), Span(doc, 6, 8, label="Y")]
    doc.tensor = np.arange(16.0).reshape(8, 2)
    # A user's hook for vectors, which may fail or take long, is none of the parser's business.
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        hooks.update(vector=refuse, vector_norm=refuse)
    for token in doc:
        token.lemma_, token.norm_ = token.text * 2, token.text * 3
        token.dep_ = "dep"
        token.set_morph(f"Number={token.text}")
    piece = prediction._copy_slice(doc, 2, 7)
    for token in piece:
        other = doc[token.i + 2]
        for name in ("text_with_ws", "norm_", "lemma_", "tag_", "pos_", "dep_", "morph"):
            assert str(getattr(token, name)) == str(getattr(other, name))
        assert (token.ent_type_, token.ent_kb_id_) == (other.ent_type_, other.ent_kb_id_)
    assert [ent.text for ent in piece.ents] == ["cd", "g"]
    np.testing.assert_array_equal(piece.tensor, doc.tensor[2:7])
