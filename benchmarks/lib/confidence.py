"""Head probabilities of a trained pipeline, and their calibration."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example

from lib.pipelines import load, on_gold_tokens

BINS = 10
# A head that is found in text is right, or one of its words is none of the treebank's, its sentence
# is none of the treebank's, or the tree is wrong.
RIGHT, WORDS, SENTENCES, TREE = range(4)


def reliability(
    probs: NDArray[np.float64], right: NDArray[np.bool_]
) -> tuple[float, list[tuple[float, float, int]]]:
    """Compute the calibration error, and (mean probability, share correct, tokens) of each bin."""
    bins = np.minimum((probs * BINS).astype(int), BINS - 1)
    rows = []
    error = 0.0
    for number in range(BINS):
        inside = bins == number
        if inside.any():
            mean, share = float(probs[inside].mean()), float(right[inside].mean())
            rows.append((mean, share, int(inside.sum())))
            error += inside.mean() * abs(mean - share)
    return error, rows


def measure_confidence(nlp: Language, gold: Sequence[Doc]) -> tuple[NDArray, NDArray]:
    """Return the probability of each token's head, and whether the head is correct.

    The pipeline has been loaded with `confidence`.
    """
    probs, right = [], []
    for parsed, doc in zip(on_gold_tokens(nlp, gold), gold, strict=True):
        for token, truth in zip(parsed, doc, strict=True):
            probs.append(token._.head_prob)
            right.append(token.head.i == truth.head.i)
    return np.array(probs), np.array(right)


class HeadLaws(NamedTuple):
    """Distributions over the heads of words, next to the parse and the treebank.

    Arrays over words: the probability of the parse's head, whether that is right, the probability
    of the right head, and Brier's score.
    """

    chosen: NDArray[np.float64]
    right: NDArray[np.bool_]
    of_gold: NDArray[np.float64]
    brier: NDArray[np.float64]


def measure_given(
    model: str, gold: Sequence[Doc], guidelines: dict[str, Any] | None, k: int
) -> tuple[HeadLaws, HeadLaws]:
    """Compare heads with exact probabilities, and with those in k samples that keep guidelines.

    The exact ones are of all trees, and count as one more sample, so that no head has 0. The
    pipeline parses with its own guidelines.
    """
    parses = on_gold_tokens(load(model), gold)
    draw = {"alternatives": "sample", "n_alternatives": k}
    nlp = load(model, guidelines=guidelines, arc_threshold=1e-5, **draw)
    exact, sampled = [], []
    for drawn, parse, doc in zip(on_gold_tokens(nlp, gold), parses, gold, strict=True):
        for sentence in drawn.sents:
            n, start = len(sentence), sentence.start
            words, probs, counts = np.arange(n), np.zeros((n, n)), np.zeros((n, n))
            for arc in sentence._.arcs:
                probs[arc.token.i - start, arc.head.i - start] += arc.prob
            for tree in sentence._.parses:
                counts[words, tree.heads] += 1
            heads, truth = (
                np.array([token.head.i - start for token in each[start : start + n]])
                for each in (parse, doc)
            )
            for found, own in ((exact, probs), (sampled, probs + counts)):
                law = own / own.sum(axis=1, keepdims=True)
                of_gold = np.maximum(law[words, truth], 1e-5)
                brier = (law**2).sum(axis=1) - 2 * law[words, truth] + 1
                found.append((law[words, heads], heads == truth, of_gold, brier))
    columns = (map(np.concatenate, zip(*found, strict=True)) for found in (exact, sampled))
    return tuple(HeadLaws(*own) for own in columns)


def judge_heads_from_text(
    model: str, gold: Sequence[Doc]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the probability of each word's head, and whether it is right or what is wrong."""
    nlp = load(model, confidence=True)
    probs, verdicts = [], []
    for parsed, doc in zip(nlp.pipe(doc.text for doc in gold), gold, strict=True):
        truth = _same_words(Example(parsed, doc))
        words = {gold_word: word for word, gold_word in truth.items()}
        for token in parsed:
            if not token.is_space:
                probs.append(token._.head_prob)
                verdicts.append(_judge(token, doc, truth, words))
    return np.array(probs), np.array(verdicts)


def _same_words(example: Example) -> dict[int, int]:
    """Map the tokens that are words of the treebank to these."""
    there, back = example.alignment.x2y, example.alignment.y2x
    pairs = {i: int(there[i][0]) for i in range(len(example.predicted)) if len(there[i]) == 1}
    return {i: j for i, j in pairs.items() if len(back[j]) == 1}


def _judge(token: Token, doc: Doc, truth: dict[int, int], words: dict[int, int]) -> int:
    """Compare a token's head with the treebank's, in a Doc with its words."""
    if token.i not in truth or token.head.i not in truth:
        return WORDS
    own = doc[truth[token.i]]
    if own.head.i not in words:
        return WORDS
    if own.head.i == truth[token.head.i]:
        return RIGHT
    found, expected = token.sent, own.sent
    ends = (found.start_char, found.end_char), (expected.start_char, expected.end_char)
    return TREE if ends[0] == ends[1] else SENTENCES
