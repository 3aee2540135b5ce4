"""Head probabilities of a trained pipeline, and their calibration."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from lib.pipelines import load, on_gold_tokens

BINS = 10


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


def measure_confidence(
    model: str, temperature: float | None, gold: Sequence[Doc]
) -> tuple[NDArray, NDArray]:
    """Return the probability of each token's head, and whether the head is correct.

    The temperature is by default the pipeline's.
    """
    nlp = load(model, confidence=True, temperature=temperature)
    probs, right = [], []
    for parsed, doc in zip(on_gold_tokens(nlp, gold), gold, strict=True):
        for token, truth in zip(parsed, doc, strict=True):
            probs.append(token._.head_prob)
            right.append(token.head.i == truth.head.i)
    return np.array(probs), np.array(right)
