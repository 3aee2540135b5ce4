"""From the network's scores to what `alternatives` keeps of each sentence."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotate import SPACE_LABEL, attach_spaces
from spacy_rootmind.loss import MISSING
from spacy_rootmind.makers import Maker
from spacy_rootmind.models import ParserScores
from spacy_rootmind.probabilities import distribution

Record = dict[str, Any]


def find_confidence(
    scores: ParserScores, heads: NDArray[np.int64], temperature: float
) -> list[Record]:
    """Find each sentence's head probabilities (index 0 is ROOT's), log probability and entropy.

    `heads` are flat rows, as of `ParserScores.layout`, MISSING for ROOT.
    """
    ops = scores.labeller.ops
    roots = ops.to_numpy(scores.layout.roots)
    records: list[Record] = [{} for _ in roots]
    for bucket, arcs in zip(scores.layout.buckets, scores.arcs, strict=True):
        rows = ops.to_numpy(bucket.rows)
        inside = rows < bucket.n_rows
        inside[:, 0] = False
        local = np.full(rows.shape, MISSING, dtype=np.int64)
        local[inside] = (
            heads[rows[inside]]
            - roots[bucket.sentences][:, None].repeat(rows.shape[1], axis=1)[inside]
        )
        cooled = ops.to_numpy(arcs).astype(np.float64) / temperature
        trees = distribution(cooled, bucket.lengths, heads=local)
        chosen = np.take_along_axis(trees.marginals, np.maximum(local, 0)[..., None], axis=2)
        for i, sentence in enumerate(bucket.sentences):
            records[sentence] = {
                "head_probs": chosen[i, : bucket.lengths[i] + 1, 0].astype(np.float32),
                "log_prob": float(trees.log_prob[i]),
                "entropy": float(trees.entropy[i]),
            }
    return records


def make_alternatives(
    scores: ParserScores, maker: Maker, words: Sequence[Sequence[str]], temperature: float
) -> list[Record]:
    """Make each sentence's alternatives: heads, (k, n + 1), labels by number, log probabilities.

    A label is that of the network, in its order; -1 on arcs from ROOT.
    """
    ops = scores.labeller.ops
    roots = ops.to_numpy(scores.layout.roots)
    records: list[Record] = [{} for _ in roots]
    for bucket, arcs in zip(scores.layout.buckets, scores.arcs, strict=True):
        square = ops.to_numpy(arcs).astype(np.float64) / temperature
        for i, sentence in enumerate(bucket.sentences):
            n = int(bucket.lengths[i])
            heads, log_probs = maker(square[i, : n + 1, : n + 1], words[sentence])
            records[sentence] = {"heads": heads, "log_probs": log_probs}
    _label(scores, records, roots)
    return records


def _label(scores: ParserScores, records: list[Record], roots: NDArray[np.int64]) -> None:
    """Add the best label of each arc; arcs that several trees have are scored once."""
    n_rows = scores.layout.n_rows
    arcs = []
    for root, record in zip(roots.tolist(), records, strict=True):
        heads = record["heads"].astype(np.int64)
        deps = np.arange(heads.shape[1]) + root
        arcs.append(np.where(heads > 0, deps * n_rows + heads + root, MISSING))
    flat = np.concatenate([own.ravel() for own in arcs]) if arcs else np.zeros(0, "i8")
    unique, places = np.unique(flat, return_inverse=True)
    labels = np.full(len(unique), -1, dtype=np.int32)
    real = unique != MISSING
    if real.any():
        guesses, _ = scores.begin_labels(unique[real] // n_rows, unique[real] % n_rows, False)
        labels[real] = scores.labeller.ops.to_numpy(guesses.argmax(axis=1))
    ends = np.cumsum([own.size for own in arcs])
    for record, own, end in zip(records, arcs, ends.tolist(), strict=True):
        record["deps"] = labels[places[end - own.size : end]].reshape(own.shape)


def token_records(
    doc: Doc,
    starts: NDArray[np.int64],
    sentences: Sequence[NDArray[np.int64]],
    records: Iterator[Record],
    labels: Sequence[str],
    root_label: str,
) -> list[tuple[int, int, Record]]:
    """Bring records from scored words to tokens, whitespace included; (first token, end, record).

    `records` gives those of the Doc's sentences, in order.
    """
    names = [*labels, SPACE_LABEL, root_label]
    found = []
    for start, stop, tokens in zip(
        starts[:-1].tolist(), starts[1:].tolist(), sentences, strict=True
    ):
        record = dict(next(records))
        words = tokens - start
        if "head_probs" in record:
            probs = np.ones(stop - start, dtype=np.float32)
            probs[words] = record["head_probs"][1:]
            record["head_probs"] = probs
        if "heads" in record:
            record["heads"] = _token_heads(record["heads"], words, stop - start)
            deps = np.full(record["heads"].shape, len(labels), dtype=np.int32)
            # Of -1, for arcs from ROOT, the last name.
            deps[:, words] = np.where(record["deps"] < 0, len(names) - 1, record["deps"])[:, 1:]
            if not len(words):
                deps[:, 0] = len(names) - 1
            used, deps = np.unique(deps, return_inverse=True)
            record["deps"] = deps.reshape(record["heads"].shape).astype(np.int32)
            record["labels"] = [names[i] for i in used.tolist()]
        found.append((start, stop, record))
    return found


def _token_heads(
    heads: NDArray[np.int32], words: NDArray[np.int64], n_tokens: int
) -> NDArray[np.int32]:
    """Bring heads of words, (k, n + 1), to tokens, counted from 0; a root's is its own index."""
    spaces = np.full(n_tokens, MISSING, dtype=np.int32)
    spaces[words] = words
    attach_spaces(spaces, 0)
    out = np.tile(spaces, (len(heads), 1))
    if len(words):
        local = heads[:, 1:]
        out[:, words] = np.where(local == 0, words, words[np.maximum(local, 1) - 1])
    return out
