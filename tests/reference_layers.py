"""The compiled loops of the network's layers, in NumPy, for numbers of any precision."""

from itertools import pairwise

import numpy as np

from spacy_rootmind.kernel import layers as kernel


def score_arcs(DW, H, by_dep, by_head, buckets):
    """Score arcs, as `kernel.layers.score_arcs`."""
    scores = []
    for bucket in buckets:
        m = np.arange(bucket.rows.shape[1])
        products = bucket.pad(DW) @ bucket.pad(H).transpose((0, 2, 1))
        near = bucket.pad(by_dep)[:, m[:, None], bucket.distances]
        scores.append(products + near + bucket.pad(by_head)[:, m[None], bucket.distances])
    return scores


def add_context(rows, scores, buckets):
    """Join rows with their likely heads and dependents, as `kernel.layers.add_context`."""
    width, probs = rows.shape[1], []
    context = np.zeros((len(rows), 3 * width), dtype=rows.dtype)
    context[:, :width] = rows
    for bucket, S in zip(buckets, scores, strict=True):
        allowed = bucket.allowed
        masked = S + (allowed - 1.0) * 1e9
        weights = np.exp(masked - masked.max(axis=2, keepdims=True)) * allowed
        P = weights / (weights.sum(axis=2, keepdims=True) + (allowed.sum(axis=2) == 0)[:, :, None])
        probs.append(P.astype(rows.dtype))
        padded = bucket.pad(rows)
        bucket.add_unpadded(P @ padded, context[:, width : 2 * width])
        bucket.add_unpadded(P.transpose((0, 2, 1)) @ padded, context[:, 2 * width :])
    return context, probs


def places_of(roots, lengths, side):
    """List the rows of each sentence in the order of a direction."""
    for root, n in zip(roots.tolist(), lengths.tolist(), strict=True):
        yield list(range(root, root + n + 1))[:: -1 if side else 1]


def qrnn(gates, bias, roots, lengths):
    """Run a quasi-recurrent layer, as `kernel.layers.qrnn`."""
    gates += bias
    h = gates.shape[2] // 3
    gates[:, :, :h] = np.tanh(gates[:, :, :h])
    gates[:, :, h:] = 0.5 + 0.5 * np.tanh(0.5 * gates[:, :, h:])
    z, f, o = np.split(gates, 3, axis=2)
    cells, states = (1.0 - f) * z, np.empty((gates.shape[1], 2 * h), dtype=gates.dtype)
    for side in range(2):
        for places in places_of(roots, lengths, side):
            for before, now in pairwise(places):
                cells[side, now] += f[side, now] * cells[side, before]
        states[:, side * h : (side + 1) * h] = o[side] * cells[side]
    return cells, states


def qrnn_gradient(gates, roots, lengths, cells, d_states):
    """Find the gradient of the products, as `kernel.layers.qrnn_gradient`."""
    z, f, o = np.split(gates, 3, axis=2)
    d_states = np.stack(np.split(d_states, 2, axis=1))
    d_cells, previous = d_states * o, np.zeros_like(cells)
    for side in range(2):
        for places in places_of(roots, lengths, side):
            for before, now in reversed(list(pairwise(places))):
                d_cells[side, before] += f[side, now] * d_cells[side, now]
                previous[side, now] = cells[side, before]
    d_z = d_cells * (1.0 - f) * (1.0 - z * z)
    d_f = d_cells * (previous - z) * f * (1.0 - f)
    return np.concatenate((d_z, d_f, d_states * cells * o * (1.0 - o)), axis=2)


def windows(rows, places):
    """Join rows with their neighbours, as `kernel.layers.windows`."""
    kept = np.zeros((len(rows) + 2, rows.shape[1]), dtype=rows.dtype)
    kept[places + 1] = rows[places]
    return np.concatenate([kept[places + step] for step in range(3)], axis=1)


def arc_maxout(by_dep, by_head, by_distance, deps, heads, buckets):
    """Find the larger of two sums, as `kernel.layers.arc_maxout`."""
    sums = by_dep[deps] + by_head[heads] + by_distance[buckets]
    sums = sums.reshape((len(sums), -1, 2))
    return sums.max(axis=2), sums.argmax(axis=2).astype("int32")


LOOPS = (score_arcs, add_context, qrnn, qrnn_gradient, windows, arc_maxout)


def use_numpy(monkeypatch):
    """Put these loops in the place of the compiled ones."""
    for loop in LOOPS:
        monkeypatch.setattr(kernel, loop.__name__, loop)
