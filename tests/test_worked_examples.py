"""Worked examples of the papers and of the textbook, with the numbers that are printed there."""

import math

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_rootmind import (
    TreeDistribution,
    decode,
    decode_kbest,
    tree_score,
)
from spacy_rootmind.pipeline.scorer import score_parses

FORBIDDEN = -np.inf
SINGLE_ROOT = ("gabow_tarjan", "reweighting", "preselection", "naive")


# --- Speech and Language Processing, chapter 18 ------------------------------------------------

# Figure 18.11; rows are dependents, columns heads: ROOT, Book, that, flight.
BOOK_THAT_FLIGHT = np.array([[0, 0, 0, 0], [12, 0, 6, 5], [4, 5, 0, 7], [4, 7, 8, 0]], dtype="f")
# Figure 18.13: the best arc into each word scores 0.
RESCORED = np.array([[0, 0, 0, 0], [0, 0, -6, -7], [-3, -2, 0, 0], [-4, -1, 0, 0]], dtype="f")


@pytest.mark.parametrize("scores", [BOOK_THAT_FLIGHT, RESCORED], ids=["scores", "rescored"])
@pytest.mark.parametrize("algorithm", [*SINGLE_ROOT, "tarjan", "chu_liu_edmonds"])
def test_book_that_flight(scores, algorithm):
    """Figure 18.13: ROOT → Book → flight → that, whether the root is constrained or not."""
    heads = decode(scores, algorithm=algorithm, single_root=algorithm in SINGLE_ROOT)
    assert heads.tolist() == [-1, 0, 3, 1]
    assert tree_score(scores, heads) == {12: 26, 0: -1}[scores[1, 0]]


# --- Speech and Language Processing, section 18.4 ----------------------------------------------

BOOK_ME = ["Book", "me", "the", "flight", "through", "Houston"]


def test_book_me_the_flight_through_houston():
    """Figure 18.15: LAS of 2/3, UAS of 5/6."""
    vocab = Vocab()
    reference = Doc(
        vocab,
        BOOK_ME,
        heads=[0, 0, 3, 0, 5, 3],
        deps=["ROOT", "iobj", "det", "obj", "case", "nmod"],
    )
    system = Doc(
        vocab,
        BOOK_ME,
        heads=[0, 3, 3, 0, 5, 3],
        deps=["ROOT", "nsubj", "det", "xcomp", "case", "nmod"],
    )
    scores = score_parses([Example(system, reference)])
    assert scores["dep_uas"] == pytest.approx(5 / 6)
    assert scores["dep_las"] == pytest.approx(2 / 3)
    assert scores["dep_ls"] == pytest.approx(4 / 6)
    assert scores["dep_uem"] == 0


# --- Please Mind the Root (Zmigrod, Vieira & Cotterell 2020) -----------------------------------


def figure_2() -> np.ndarray:
    """The left-most graph; the arc of 30, within the cycle, is in no tree below."""
    scores = np.full((5, 5), FORBIDDEN)
    for head, dep, weight in (
        (0, 1, 90),
        (0, 2, 40),
        (1, 3, 10),
        (2, 4, 60),
        (4, 3, 70),
        (3, 2, 50),
        (2, 3, 30),
        (4, 1, 20),
    ):
        scores[dep, head] = weight
    return scores


@pytest.mark.parametrize(
    ("algorithm", "options", "expected", "weight"),
    [
        # Step (b): root arcs of 90 and, into the contracted cycle, of 170.
        *(
            (name, {"single_root": False, "arcmax": False}, [-1, 0, 0, 4, 2], 260)
            for name in ("gabow_tarjan", "tarjan", "chu_liu_edmonds")
        ),
        # Steps (c) and (d): the root arc into the cycle goes, and 1 → 3 opens the cycle.
        *((name, {}, [-1, 0, 3, 1, 2], 210) for name in SINGLE_ROOT),
    ],
)
def test_figure_2_best_trees(algorithm, options, expected, weight):
    heads = decode(figure_2(), algorithm=algorithm, **options)
    assert heads.tolist() == expected
    assert tree_score(figure_2(), heads) == weight


def test_figure_2_other_root_arc_leads_to_190():
    """Step (c): without the root arc of 90 the best tree weighs 190, so 210 is preferred."""
    trees, weights = decode_kbest(figure_2(), 10)
    second = trees[trees[:, 2] == 0][0]
    assert second.tolist() == [-1, 4, 0, 4, 2]
    assert weights[trees[:, 2] == 0][0] == 190
    assert weights[0] == 210


# --- Efficient Sampling of Dependency Structures (Zmigrod, Vieira & Cotterell 2021) ------------


def theorem_2() -> np.ndarray:
    """A graph as in the proof: root arcs of 1/2 each; two trees use the first, one the second."""
    scores = np.full((4, 4), FORBIDDEN)
    scores[1, 0] = scores[2, 0] = math.log(0.5)
    # With word 1 as root: 1 → 2, and 3 under 1 or 2. With word 2: 2 → 3 → 1.
    for head, dep in ((1, 2), (1, 3), (2, 3), (3, 1)):
        scores[dep, head] = 0.0
    return scores


def test_theorem_2_root_arcs_have_marginals_of_two_and_one_third():
    trees, _ = decode_kbest(theorem_2(), 10)
    roots = (trees[:, 1:] == 0).argmax(axis=1) + 1
    assert sorted(roots.tolist()) == [1, 1, 2]
    marginals = TreeDistribution(theorem_2()).marginals
    assert marginals[1:, 0] == pytest.approx([2 / 3, 1 / 3, 0])
