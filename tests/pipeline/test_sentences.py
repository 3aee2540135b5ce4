"""Sentences: those that a Doc has, those that the parser finds, and what it learns them from."""

import itertools
import logging
import math

import numpy as np
import pytest
import spacy
from parsers import (
    arcs_of,
    assert_parsed,
    assign,
    gold_examples,
    join,
    make_nlp,
    random_words,
    settable,
    starts_of,
    train,
    with_weights_of,
)
from reference import random_heads
from spacy.tokens import Doc
from spacy.training import Example
from strategies import rng_for

from spacy_rootmind.annotation.gold import GoldBatch
from spacy_rootmind.annotation.sentences import (
    AT_LINE_END,
    CERTAIN,
    SURE,
    TokenRow,
    bounds,
    choose_starts,
    join_wordless,
    move_past_references,
    scored_tokens,
    words_of,
)
from spacy_rootmind.annotation.writing import ParsedSentences, annotate, join_sentences
from spacy_rootmind.guidelines.constraints import CONSTRAINTS, Constraints
from spacy_rootmind.network.architecture import ParserInput
from spacy_rootmind.network.boundaries import NOT_A_WORD
from spacy_rootmind.pipeline.details import sigmoid
from spacy_rootmind.pipeline.prediction import plan_sentences
from spacy_rootmind.pipeline.sentence_parser import PredictionContext
from spacy_rootmind.pipeline.settings import Settings

VOCAB = spacy.blank("xx").vocab
TEXT = "The teacher woke up. A dog that she met slept. Who broke the old window?"
TEXT_STARTS = [0, 5, 12]


@pytest.fixture
def make(segmenter):
    """Gives the pipeline other settings until the next call."""
    with settable(segmenter) as set_all:
        yield set_all


def boundary_scores(nlp, doc):
    """The network's log-odds of a start, token by token."""
    model = nlp.get_pipe("root_mst").model
    return model.predict(ParserInput([doc], [[np.arange(len(doc))]], [words_of(doc)])).boundaries


def starts_by(doc, log_odds, is_sure=None):
    """The sentence starts of positive log-odds, after sentences without a word are joined."""
    row = TokenRow([doc])
    is_sure = np.zeros(row.n_tokens, dtype=bool) if is_sure is None else is_sure
    return choose_starts(row, join_wordless(row, log_odds, is_sure), 512)[0].tolist()[:-1]


# --- finding them ------------------------------------------------------------------------------


def test_the_parser_alone_finds_sentences(segmenter, quickstart_docs):
    scores = segmenter.evaluate(gold_examples(join(quickstart_docs[:200], 5), segmenter))
    assert scores["sents_f"] > 0.9
    assert scores["dep_uas"] > 0.9
    assert scores["root_violations"] == 0.0
    # Also in other texts.
    docs = join(quickstart_docs[200:260], 4)
    scores = segmenter.evaluate(gold_examples(docs, segmenter))
    assert scores["sents_f"] > 0.8
    # One start a Doc is no achievement.
    assert len(docs) < 0.3 * sum(
        len(list(doc.sents)) for doc in segmenter.pipe(d.text for d in docs)
    )
    assert starts_of(segmenter(TEXT)) == TEXT_STARTS


def test_predict_leaves_docs_alone_and_parsing_again_keeps_sentences(segmenter):
    parser = segmenter.get_pipe("root_mst")
    doc = segmenter.make_doc(TEXT)
    parser.predict([doc])
    assert not doc.has_annotation("SENT_START")
    assert not doc.has_annotation("DEP")
    arcs = arcs_of(parser(doc))
    assert starts_of(parser(doc)) == TEXT_STARTS
    assert arcs_of(doc) == arcs


def test_predict_says_when_the_boundary_weights_are_damaged(segmenter):
    nlp = with_weights_of(segmenter)
    linear = nlp.get_pipe("root_mst").model.get_ref("boundaries").layers[0].layers[-1]
    linear.set_param("W", linear.get_param("W") * np.nan)
    with pytest.raises(ValueError, match="not finite"):
        nlp(TEXT)


# --- keeping them ------------------------------------------------------------------------------


def test_auto_takes_partial_annotation_for_what_it_says(make):
    nlp = make(blank_lines=False)
    rng = rng_for("partial")
    forced = forbidden = free = 0
    for _ in range(40):
        words = random_words(rng, int(rng.integers(2, 30)), spaces=0.2)
        marks = [[None, None, None, True, False][i] for i in rng.integers(0, 5, size=len(words))]
        doc = nlp(Doc(nlp.vocab, words=words, sent_starts=marks))
        scores = boundary_scores(nlp, doc)
        found = set(starts_of(doc))
        assert 0 in found
        stated = np.array([{None: 0, True: CERTAIN, False: -CERTAIN}[mark] for mark in marks])
        expected = starts_by(doc, scores + stated, scores >= SURE)
        for token, mark in list(zip(doc, marks, strict=True))[1:]:
            if mark is None:
                assert (token.i in found) == (token.i in expected)
                free += token.i in found
            else:
                assert (token.i in found) == mark
                forced += mark and scores[token.i] <= 0
                forbidden += not mark and scores[token.i] > 0
        assert_parsed(doc)
    # All of that occurred.
    assert min(forced, forbidden, free) > 10


def test_auto_keeps_boundaries_next_to_labels_that_came_first(segmenter):
    # An earlier component that sets DEP makes spaCy itself refuse to set boundaries.
    doc = segmenter.make_doc(TEXT)
    doc[0].dep_ = "det"
    assert starts_of(segmenter(doc)) == TEXT_STARTS
    assert_parsed(doc)


@pytest.mark.parametrize("mode", ["auto", "given"])
def test_boundaries_are_kept_without_heads_and_without_labels_of_roots(make, mode):
    nlp = make(sentences=mode)
    words = ["She", "slept", "The", "dog", "came"]
    # As from a sentencizer and rules that set labels after it: there is no tree yet.
    doc = Doc(nlp.vocab, words=words, sent_starts=[1, 0, 1, 0, 0])
    doc[2].dep_ = "det"
    assert starts_of(nlp(doc)) == [0, 2]
    heads, deps = [1, 1, 3, 4, 4], ["a", "top", "b", "c", "top"]
    assert starts_of(nlp(Doc(nlp.vocab, words=words, heads=heads, deps=deps))) == [0, 2]


# --- whitespace --------------------------------------------------------------------------------


def test_any_tree_comes_into_the_doc_with_whitespace_anywhere():
    rng = rng_for("any tree")
    crossing = 0
    for _ in range(150):
        n = int(rng.integers(1, 40))
        doc = Doc(VOCAB, words=random_words(rng, n, 0.3))
        starts = bounds(np.flatnonzero(rng.random(n) < 0.15), n)
        row = TokenRow([doc])
        sentences = scored_tokens(row, starts)
        trees = [random_heads(rng, len(words), True) for words in sentences]
        heads = np.concatenate(trees, dtype="i4")
        found = ParsedSentences(heads, (heads > 0).astype("i4"), [None] * len(trees))
        annotate(doc, *join_sentences(row, starts, found, ("ROOT", "x")))
        assert starts_of(doc) == starts[:-1].tolist()
        assert_parsed(doc)
        for words, tree in zip(sentences, trees, strict=True):
            for word, head in zip(words.tolist(), tree[1:].tolist(), strict=True):
                assert doc[word].head.i == (word if head == 0 else words[head - 1])
        crossing += any(t.left_edge.i < t.i < t.head.i < t.right_edge.i for t in doc)
    assert crossing > 10


def test_docs_in_a_row_are_planned_like_each_alone():
    """Empty ones, whitespace, lines, known starts and heads and constraints among them."""
    rng, texts = rng_for("docs in a row"), ["a", "5", "(", ".", "-", "\n", "\n\n", " ", "He"]
    settings = Settings(confidence=True, distribution_threshold=0.1, max_sentence_length=4)
    context, joined = PredictionContext(settings, ("ROOT", "x")), 0
    for _ in range(40):
        docs, alone = [], []
        for n in rng.integers(0, 12, size=6).tolist():
            words = [texts[i] for i in rng.integers(0, len(texts), size=n)]
            doc = Doc(VOCAB, words=words, spaces=(rng.random(n) < 0.5).tolist())
            for token in list(doc)[1:]:
                token.is_sent_start = (None, None, True, False)[rng.integers(4)]
            if rng.random() < 0.2 and n:
                doc = Doc(VOCAB, words=words, heads=[0] * n, deps=["ROOT", *["x"] * (n - 1)])
            named = [token.i for token in doc if token.text == "He"][:1]
            doc.user_data[CONSTRAINTS] = Constraints(labels=[(token, "x") for token in named])
            docs.append(doc)
        row = TokenRow(docs)
        log_odds = np.where(row.is_space, NOT_A_WORD, rng.normal(size=row.n_tokens)).astype("f4")
        sentences = []
        for number, doc in enumerate(docs):
            starts, own = plan_sentences(TokenRow([doc]), log_odds[row.place(number)], context)
            alone += (starts[:-1] + row.bounds[number]).tolist()
            sentences += own
        starts, together = plan_sentences(row, log_odds, context)
        assert starts.tolist() == [*alone, row.n_tokens]
        for own, other in zip(together, sentences, strict=True):
            assert own.doc is other.doc
            assert own.words.tolist() == other.words.tolist()
            first = next(row.bounds[i] for i, doc in enumerate(docs) if doc is own.doc)
            assert (own.rows == own.words + first).all()
            assert bool(own.constraints) == bool(other.constraints)
            assert own.log_odds.tolist() == other.log_odds.tolist()
            assert (own.start_probs is None) == (other.start_probs is None)
            if own.start_probs is not None:
                np.testing.assert_array_equal(own.start_probs, other.start_probs)
        joined += len(alone)
    assert joined > 500


# --- one sentence a Doc ------------------------------------------------------------------------


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if "cannot be learnt" in r.getMessage()]


def test_training_docs_of_one_sentence_each_are_told_of_and_learnt(
    quickstart_docs, caplog, tmp_path
):
    nlp = make_nlp()
    with caplog.at_level(logging.WARNING, logger="spacy"):
        nlp.initialize(lambda: gold_examples(quickstart_docs[:20], nlp))
    [message] = warnings_of(caplog)
    assert message.startswith("[root_mst]")
    assert "one sentence" in message
    examples = gold_examples(quickstart_docs[:20], nlp)
    parser = nlp.get_pipe("root_mst")
    before = parser.model.get_ref("boundaries").to_bytes()
    optimizer = nlp.resume_training()
    for _ in range(3):
        nlp.update(examples, sgd=optimizer)
    assert parser.model.get_ref("boundaries").to_bytes() == before
    nlp.to_disk(tmp_path)
    in_memory = make_nlp().from_bytes(nlp.to_bytes())
    for pipeline in (nlp, spacy.load(tmp_path), in_memory, with_weights_of(nlp)):
        doc = pipeline(TEXT * 3)
        assert len(list(doc.sents)) == 1
        # A boundary that is known counts still.
        doc = pipeline.make_doc(TEXT)
        doc[12].is_sent_start = True
        assert starts_of(pipeline(doc)) == [0, 12]


def finds_boundaries(nlp):
    return nlp.get_pipe("root_mst").cfg["finds_boundaries"]


def test_boundaries_are_learnt_once_training_sees_one(quickstart_docs, caplog, tmp_path):
    """A parser of single sentences is saved, loaded and trained further on Docs of several."""
    first = make_nlp()
    train(first, gold_examples(quickstart_docs[:40], first), steps=5)
    assert not finds_boundaries(first)
    first.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    examples = gold_examples(join(quickstart_docs[:200], 5), nlp)
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.01
    caplog.clear()
    for step in range(40):
        start = step * 4 % len(examples)
        nlp.update(examples[start : start + 4], sgd=optimizer, drop=0.0)
    assert starts_of(nlp(TEXT)) == TEXT_STARTS
    # Later batches without any do not turn it off.
    nlp.update(gold_examples(quickstart_docs[:4], nlp), sgd=optimizer)
    nlp.to_disk(tmp_path)
    assert finds_boundaries(spacy.load(tmp_path))
    assert not warnings_of(caplog)


@pytest.mark.parametrize("mode", ["given", "doc"])
def test_other_modes_learn_no_boundaries_and_warn_of_none(quickstart_docs, caplog, mode):
    nlp = make_nlp(sentences=mode)
    with caplog.at_level(logging.WARNING, logger="spacy"):
        nlp.initialize(lambda: gold_examples(quickstart_docs[:10], nlp))
    assert warnings_of(caplog) == []
    nlp = make_nlp(sentences=mode)
    examples = gold_examples(join(quickstart_docs[:8], 4), nlp)
    optimizer = nlp.initialize(lambda: examples)
    parser = nlp.get_pipe("root_mst")
    gold = GoldBatch.from_examples(examples, parser.root_label, mode)
    scores, _ = parser.model.begin_update(parser._make_input(examples, gold))
    assert parser._loss(gold, scores)[1].boundaries is None
    before = parser.model.get_ref("boundaries").to_bytes()
    nlp.update(examples, sgd=optimizer)
    assert parser.model.get_ref("boundaries").to_bytes() == before
    assert not finds_boundaries(nlp)
    assign(parser, sentences="auto")
    nlp.update(examples, sgd=optimizer)
    assert finds_boundaries(nlp)


# --- given -------------------------------------------------------------------------------------


def test_given_demands_boundaries(make):
    nlp = make(sentences="given")
    doc = nlp.make_doc(TEXT)
    with pytest.raises(ValueError, match=r"no sentence boundaries.*sentencizer"):
        nlp(doc)
    assert not doc.has_annotation("DEP")
    assert not doc.has_annotation("SENT_START")
    for text in ("Yes", ""):
        assert len(list(nlp(text).sents)) == len(nlp(text))


# --- the whole Doc -------------------------------------------------------------------------------


def test_doc_mode_takes_a_doc_for_one_sentence(segmenter, make):
    # Another parser has split it.
    split = segmenter(TEXT)
    nlp = make(sentences="doc")
    words = ["She", "slept", ".", "\n", "Yes"]
    for doc in (
        nlp.make_doc(TEXT),
        Doc(nlp.vocab, words=words, sent_starts=[True, False, False, True, True]),
        Doc(nlp.vocab, words=["\n", "\n"], sent_starts=[1, 1]),
        split,
    ):
        parsed = nlp.get_pipe("root_mst")(doc)
        assert starts_of(parsed) == [0]
        assert_parsed(parsed)


# --- odd batches ---------------------------------------------------------------------------------


def test_heads_on_a_cycle_are_learnt_around(segmenter):
    """All heads of four words; spaCy has no root for a sentence that is cut out of a cycle."""
    parser = with_weights_of(segmenter).get_pipe("root_mst")
    words = ["a", "b", "c", "d"]
    examples = []
    for heads in itertools.product(range(4), repeat=4):
        deps = ["ROOT" if head == i else "x" for i, head in enumerate(heads)]
        gold = Doc(VOCAB, words=words, heads=list(heads), deps=deps)
        examples.append(Example(Doc(VOCAB, words=words), gold))
    for i in range(0, len(examples), 64):
        assert np.isfinite(parser.update(examples[i : i + 64])["root_mst"])
    for parse in parser.predict([example.reference for example in examples]):
        assert len(parse.starts) >= 2


@pytest.mark.parametrize("threshold", [0, 1e-6, 0.2, 0.8, 1 - 1e-6, 1])
def test_a_threshold_on_the_probability_of_a_start(make, threshold):
    nlp = make(boundary_threshold=threshold, blank_lines=False)
    rng = rng_for("threshold")
    found = 0
    for _ in range(6):
        doc = nlp(Doc(nlp.vocab, words=random_words(rng, 40)))
        # In double precision: single tells probabilities near 0 badly apart.
        scores = boundary_scores(nlp, doc).astype(np.float64)
        is_word = np.array([not token.is_space for token in doc])
        is_start = is_word & (sigmoid(scores) > threshold if threshold < 1 else False)
        log_odds = np.where(is_start, 1e3 + scores, scores - 1e3)
        assert starts_of(doc) == starts_by(doc, log_odds, scores >= SURE)
        found += len(starts_of(doc)) - 1
    assert found > 10 or threshold > 0.5


# --- probabilities of starts ---------------------------------------------------------------------


def start_probs(doc):
    """By token, the probability of starting a sentence."""
    return [token._.sent_start_prob for token in doc]


def expected_probs(nlp, doc):
    """The network's probabilities, None for the first word and for whitespace."""
    log_odds = boundary_scores(nlp, doc).astype("f8")
    own = {i: 1 / (1 + math.exp(-log_odds[i])) for i in words_of(doc)[1:].tolist()}
    return [own.get(i) for i in range(len(doc))]


def assert_probs(found, expected):
    assert [prob is None for prob in found] == [prob is None for prob in expected]
    known = [(a, b) for a, b in zip(found, expected, strict=True) if b is not None]
    assert [a for a, _ in known] == pytest.approx([b for _, b in known], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.9, 1.0])
def test_probabilities_of_starts_are_the_networks_whatever_the_threshold(make, threshold):
    nlp = make(confidence=True, boundary_threshold=threshold)
    made = nlp.make_doc(TEXT)
    expected = expected_probs(nlp, made)
    doc = nlp(made)
    assert_probs(start_probs(doc), expected)
    assert max(expected[1:]) > 0.5
    if 0 < threshold < 1:
        found = [i for i, prob in enumerate(start_probs(doc)) if i == 0 or prob > threshold]
        assert starts_of(doc) == found


def test_stated_starts_have_no_probability(make):
    nlp = make(confidence=True)
    made = nlp.make_doc(TEXT)
    expected = expected_probs(nlp, made)
    made[3].is_sent_start, made[5].is_sent_start = True, False
    expected[3] = expected[5] = None
    assert_probs(start_probs(nlp(made)), expected)


def test_starts_have_no_probability_where_nothing_predicts_them(make, segmenter, trained):
    """After a sentencizer, by a parser that has learnt none, and without confidence."""
    sentencizer = spacy.blank("xx").add_pipe("sentencizer")
    after = [
        make(confidence=True, sentences=mode)(sentencizer(segmenter.make_doc(TEXT)))
        for mode in ("auto", "given", "doc")
    ]
    with settable(trained) as set_all:
        untaught = set_all(confidence=True)(TEXT)
    without = make()(TEXT)
    for doc in (*after, untaught, without):
        assert start_probs(doc) == [None] * len(doc)
        assert (doc[0]._.head_prob is None) == (doc is without)


def test_lines_constraints_and_joined_sentences_leave_probabilities_of_starts(make, monkeypatch):
    """Each of the three decides a boundary against the network; Docs are encoded in slices too."""
    text = "The old\n\nwindow woke .\n\n)\n\nThe teacher slept . She met"
    nlp = make(confidence=True)
    assign(nlp.get_pipe("root_mst"), constraints=lambda doc: Constraints(forced=[(13, 11)]))
    for size in (4096, 4):
        monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_TOKENS", size)
        made = nlp.make_doc(text)
        expected = expected_probs(nlp, made)
        doc = nlp(made)
        assert_probs(start_probs(doc), expected)
    decided = {
        token.text: token.is_sent_start
        for token, prob in zip(doc, expected, strict=True)
        if prob is not None and (prob > 0.5) != token.is_sent_start
    }
    assert decided == {"window": True, ")": True, "She": False}
    # A blank line would have made it one.
    assert [token.is_sent_start for token in doc if token.text == "The"] == [True, False]


# --- references --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "starts", "expected"),
    [
        ("He slept . [ 17 ] She came", [3], [0, 6]),
        ("He slept . [ 2][3 ] [ 4-6 ] She came", [3, 6], [0, 9]),
        ("He slept . [ 17 ] She came", [6], [0, 6]),
        ("He slept . [ 17 ]", [3], [0]),
        ("He slept . [ 17 ] \n She came", [3, 7], [0, 7]),
        # They may be no references, or begin a line.
        ("He slept . [ she ] She came", [3], [0, 3]),
        ("He slept . [ 17 or 18 ] She came", [3], [0, 3]),
        ("He slept . \n [ 17 ] She came", [4], [0, 4]),
        ("[ 17 ] She came", [], [0]),
        ("He slept . [ 17", [3], [0, 3]),
    ],
)
def test_a_sentence_does_not_start_with_a_reference(words, starts, expected):
    doc = Doc(VOCAB, words=words.split(" "))
    row = TokenRow([Doc(VOCAB, words=["Yes", "."]), doc])
    log_odds = np.full(row.n_tokens, -1.0)
    log_odds[[start + 2 for start in starts]] = 1.0
    move_past_references(row, log_odds)
    assert (choose_starts(row, log_odds, 512)[0][1:-1] - 2).tolist() == expected


def test_the_parser_moves_starts_past_references_unless_they_are_stated(make):
    nlp = make()
    words = ["The", "window", "woke", ".", "[", "17", "]", "The", "teacher", "slept", "."]
    doc = Doc(nlp.vocab, words=words)
    assert boundary_scores(nlp, doc)[4] > 0
    assert starts_of(nlp(doc)) == [0, 7]
    stated = [True, None, None, None, True, *[None] * 6]
    assert 4 in starts_of(nlp(Doc(nlp.vocab, words=words, sent_starts=stated)))
    ruled_out = [True, *[None] * 6, False, *[None] * 3]
    assert starts_of(nlp(Doc(nlp.vocab, words=words, sent_starts=ruled_out))) == [0]


# --- sentences without a word -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "starts", "expected"),
    [
        # A mark without a space between it and a word belongs to that word.
        ('He said so. "She came.', ['"', "She"], ["He said so.", '"She came.']),
        ('"He said so." She came.', ['"', "She"], ['"He said so."', "She came."]),
        ("He said so. (She came.)", ["(", "She", ")"], ["He said so.", "(She came.)"]),
        # At equal distances and odds, it belongs to what is before it.
        ("He said so ... She came", ["...", "She"], ["He said so ...", "She came"]),
        ("He said so ) ( She came", [")", "(", "She"], ["He said so ) (", "She came"]),
        # A line end separates more than a space, and a blank line more than that.
        ("He said so\n- She came", ["-", "She"], ["He said so", "- She came"]),
        ("He said so -\nShe came", ["-", "She"], ["He said so -", "She came"]),
        ("He said so\n\n---\nShe came", ["---", "She"], ["He said so", "---\nShe came"]),
        ("He said so\n---\n\nShe came", ["---", "She"], ["He said so\n---", "She came"]),
        ("He said so\n\n## \n\nShe came", ["#", "She"], ["He said so", "## \n\nShe came"]),
        # At the ends of a Doc there is one neighbour.
        ('" \nShe came', ["She"], ['" \nShe came']),
        ("She came --", ["--"], ["She came --"]),
        ("-- ?! --", ["?", "--"], ["-- ?! --"]),
        # A line across the page is a sentence.
        (
            "He said so\n--------\nShe came",
            ["--------", "She"],
            ["He said so", "--------", "She came"],
        ),
        ("He came ???? She came", ["????", "She"], ["He came ????", "She came"]),
        ("Il a dit 3 4", ["3", "4"], ["Il a dit", "3", "4"]),
        ("नमस्ते । राम", ["।", "राम"], ["नमस्ते ।", "राम"]),
    ],
)
def test_each_sentence_has_a_word(text, starts, expected):
    doc = spacy.blank("xx")(text)
    log_odds = np.array([1.0 if t.text in starts else -1e3 if t.is_space else -1.0 for t in doc])
    chosen = [*starts_by(doc, log_odds), len(doc)]
    found = [doc[a:b].text.strip() for a, b in itertools.pairwise(chosen)]
    assert found == expected


@pytest.mark.parametrize(("before", "after"), [(2.0, 1.0), (1.0, 2.0)])
def test_the_less_likely_boundary_goes(before, after):
    doc = spacy.blank("xx")('She came " He slept')
    starts = starts_by(doc, np.array([3, -1, before, after, -1]))
    assert starts == [0, 2 if before > after else 3]


def test_boundaries_that_are_sure_stay():
    doc = spacy.blank("xx")('She came " He slept')
    log_odds = np.array([3, -1, 1, 2, -1])
    for sure, expected in [([2, 3], [0, 2, 3]), ([2], [0, 2, 3]), ([3], [0, 3])]:
        assert starts_by(doc, log_odds, np.isin(range(5), sure)) == expected


def test_a_blank_line_stays_next_to_a_boundary_that_is_sure():
    doc = spacy.blank("xx")('She came "\n\nHe slept')
    log_odds = np.array([3, -1, 3, -1e3, AT_LINE_END, -1])
    for sure, expected in [([2], [0, 2, 4]), ([], [0, 4]), ([2, 4], [0, 2, 4])]:
        assert starts_by(doc, log_odds, np.isin(range(6), sure)) == expected


def test_joined_sentences_keep_what_is_known():
    """Random words, marks and whitespace, with boundaries that are stated or ruled out."""
    rng = rng_for("wordless")
    names = ["Anna", "5", "(", ")", '"', "-", "...", "\n", "\n\n", " "]
    n_kept = n_joined = 0
    for _ in range(500):
        words = [names[i] for i in rng.integers(0, len(names), size=int(rng.integers(0, 15)))]
        doc = Doc(VOCAB, words=words, spaces=(rng.random(len(words)) < 0.5).tolist())
        stated = CERTAIN * rng.choice([0, 0, 0, 1, -1], size=len(doc))
        log_odds = np.where([t.is_space for t in doc], -1e3, rng.normal(size=len(doc))) + stated
        row = TokenRow([doc])
        before, _ = choose_starts(row, log_odds, 512)
        is_sure = (log_odds > 0) & (rng.random(len(doc)) < 0.2)
        after, _ = choose_starts(row, join_wordless(row, log_odds, is_sure), 512)
        fixed, sure = (
            {0, len(doc), *np.flatnonzero(stated > 0).tolist()},
            {*np.flatnonzero(is_sure)},
        )
        assert fixed <= set(after.tolist())
        assert not set(np.flatnonzero(stated < 0).tolist()) & set(after[1:-1].tolist())
        for start, stop in itertools.pairwise(after.tolist()):
            if not any(map(str.isalnum, doc[start:stop].text)):
                assert {start, stop} <= fixed or {start, stop} & sure
        n_words = [
            [any(t.text.isalnum() for t in doc[a:b]) for a, b in itertools.pairwise(s.tolist())]
            for s in (before, after)
        ]
        # As many sentences with words as before.
        assert sum(n_words[0]) == sum(n_words[1])
        if all(n_words[0]):
            assert before.tolist() == after.tolist()
        n_kept += not all(n_words[1])
        n_joined += len(before) - len(after)
    assert min(n_kept, n_joined) > 50


# --- line ends ---------------------------------------------------------------------------------

LINES = "The old\n\nteacher woke up\nand slept. \n \n\nA dog"


def starts_in(nlp, text_or_doc):
    doc = nlp(text_or_doc)
    assert_parsed(doc)
    return [sentence[0].text for sentence in doc.sents]


def test_a_blank_line_ends_a_sentence(make):
    with_them, without = starts_in(make(), LINES), starts_in(make(blank_lines=False), LINES)
    assert [word for word in with_them if word not in without] == ["teacher"]
    assert "A" in with_them
    assert "and" not in with_them


def test_line_ends_end_sentences_on_request(make):
    assert starts_in(make(line_ends=True), LINES)[:4] == ["The", "teacher", "and", "A"]
    known = Doc(VOCAB, words=["a", "\n", "b"], sent_starts=[True, None, False])
    assert starts_in(make(line_ends=True), known) == ["a"]
    for mode in ("given", "doc"):
        for space, is_on in (("\n", True), ("\n\n", False)):
            given = Doc(VOCAB, words=["a", space, "b"], sent_starts=[True, False, False])
            assert starts_in(make(line_ends=is_on, sentences=mode), given) == ["a"]


ITEMS = "The teacher woke up\n- (b) She met a dog that slept next to the old window\n1.2 Tom slept"


def test_marks_that_a_line_begins_with_share_a_start(make):
    nlp = make(boundary_threshold=0, confidence=True)
    made = nlp.make_doc(ITEMS)
    expected = expected_probs(nlp, made)
    shared = [["-", "(", "b", ")", "She"], ["1.2", "Tom"]]
    for texts in shared:
        [first] = [token.i for token in made if token.text == texts[0]]
        stop = first + len(texts)
        expected[first:stop] = [sum(expected[first:stop])] + [0.0] * (len(texts) - 1)
    doc = nlp(made)
    assert_probs(start_probs(doc), expected)
    inside = [text for texts in shared for text in texts[1:]]
    words = [token.text for token in doc if not token.is_space]
    assert starts_in(nlp, ITEMS) == [word for word in words if word not in inside]


@pytest.mark.parametrize(
    "text", ["\n\nThe cat slept.", "  Yes", " \n The cat. See the dog.", "\nSee the file."]
)
def test_whitespace_before_the_first_word_is_no_sentence(make, text):
    nlp = make(boundary_threshold=1e-9)
    with_head = nlp.make_doc(text)
    for article in [token for token in with_head if token.text == "the"]:
        article.dep_, article.head = "det", with_head[article.i + 1]
    for doc in (nlp(text), nlp(with_head)):
        assert_parsed(doc)
        assert not next(doc.sents).text.isspace()


def test_boundaries_of_a_doc_and_constraints_go_before_blank_lines(make):
    words = ["a", "\n\n", "b", "\n\n", "c"]
    doc = Doc(VOCAB, words=words, sent_starts=[True, None, False, None, None])
    assert starts_in(make(), doc) == ["a", "c"]
    doc = Doc(VOCAB, words=words)
    doc.user_data[CONSTRAINTS] = Constraints(forced=[(4, 2)])
    assert starts_in(make(), doc) == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "starts", "expected"),
    [
        (["a", "\n\n", "b"], [True, True, None], ["a", "\n\n"]),
        (["a", "\n", "\n", "b"], [True, None, True, None], ["a", "\n"]),
        (["a", "\n", "\n", "b"], [True, None, False, None], ["a", "b"]),
    ],
)
def test_a_boundary_within_a_blank_line_is_the_only_one(make, words, starts, expected):
    assert starts_in(make(), Doc(VOCAB, words=words, sent_starts=starts)) == expected
