"""The k best trees that keep UD's rules, by the search, against enumeration."""

import itertools

import numpy as np
import pytest
from reference import enumerate_trees, is_projective
from strategies import rng_for
from ud_sentences import as_rules, marked_sentence, random_sentence

from spacy_rootmind.guidelines.rules import LabelTables
from spacy_rootmind.trees.constrained import decode_kbest_valid

RELATIONS = ["ROOT", "punct", "nsubj", "obj", "case", "obl", "dep"]
TABLES = LabelTables(RELATIONS)


def random_cases(name, projective):
    """Rules, log-weights and log probabilities of labels of sentences of one to three words."""
    rng = rng_for("k best valid", name, projective)
    for i in range(18):
        make, n, spread = (marked_sentence, random_sentence)[i % 2], 1 + i % 3, 0.3 * 4 ** (i % 3)
        weights = spread * rng.normal(size=(n + 1, n + 1))
        scores = spread * rng.normal(size=(n + 1, n + 1, len(RELATIONS) - 1))
        log_probs = scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)
        yield as_rules([make(rng, n)], TABLES), weights, log_probs


def enumerate_valid(rules, weights, log_probs, projective):
    """All valid trees with their weights, best first."""
    n, found = len(weights) - 1, []
    for heads in enumerate_trees(n, True):
        if projective and not is_projective(heads):
            continue
        choices = [range(1, len(RELATIONS)) if head else [0] for head in heads[1:]]
        for labels in itertools.product(*choices):
            own = np.array([-1, *labels], dtype=np.int32)
            if rules.are_valid([0], [heads], [own])[0]:
                weight = sum(
                    weights[dep, heads[dep]]
                    + (log_probs[dep, heads[dep], own[dep] - 1] if heads[dep] else 0)
                    for dep in range(1, n + 1)
                )
                found.append((weight, (*heads.tolist(), *own.tolist())))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("max_decodes", [10**4, 5])
def test_the_k_best_are_those_of_enumeration(projective, max_decodes):
    """Beyond the limit of decodes, the first of them."""
    incomplete = fewer = 0
    for rules, weights, log_probs in random_cases(max_decodes, projective):
        best = enumerate_valid(rules, weights, log_probs, projective)
        for k in (1, 3, 20, 10**3):

            def find_log_probs(deps, heads, log_probs=log_probs):
                return log_probs[deps, heads]

            (heads, labels, scores), is_complete = decode_kbest_valid(
                *(weights, k, find_log_probs, rules, 0),
                projective=projective,
                max_decodes=max_decodes,
            )
            found = np.concatenate([heads, labels], axis=1).tolist()
            expected = best[:k] if max_decodes > 5 else best[: len(found)]
            assert list(map(tuple, found)) == [tree for _, tree in expected]
            np.testing.assert_allclose(scores, [weight for weight, _ in expected], atol=1e-9)
            assert len(found) == min(k, len(best)) or not is_complete
            incomplete += not is_complete
            fewer += is_complete and len(found) < k
    assert bool(incomplete) == (max_decodes == 5)
    assert fewer > 10
