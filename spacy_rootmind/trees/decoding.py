"""The best tree and the k best trees of a sentence."""

import sys
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import LOST_DIGITS, OK
from spacy_rootmind.kernel.decode import Decoder, TreeDecoder, decode_batch
from spacy_rootmind.kernel.eisner import ProjectiveDecoder
from spacy_rootmind.kernel.kbest import decode_kbest as kernel_kbest
from spacy_rootmind.kernel.papers import ReductionDecoder
from spacy_rootmind.trees.checks import sum_arcs
from spacy_rootmind.trees.conventions import (
    FLAG_TYPES,
    MISSING,
    IntArray,
    ScoreArray,
    TreeList,
    as_count,
    blocks_of_rows,
    check_choice,
    count_trees,
    filled,
)
from spacy_rootmind.trees.errors import SUMS_OVERFLOW
from spacy_rootmind.trees.sentences import Sentences


class Algorithm(NamedTuple):
    """A row of the table of algorithms: a decoder, and its arguments besides the common ones.

    `roots` says which values of `single_root` it is for. Algorithms for one root run another one
    inside, and so take `arcmax="inside"`.
    """

    decoder: Callable[..., Decoder]
    arguments: tuple[str | bool, ...] = ()
    roots: Literal["one", "many", "any"] = "any"


# The steps to add one are in CONTRIBUTING.md.
_TABLE = {
    "gabow_tarjan": Algorithm(TreeDecoder),
    "reweighting": Algorithm(ReductionDecoder, ("reweighting", False), "one"),
    "preselection": Algorithm(ReductionDecoder, ("preselection", False), "one"),
    "naive": Algorithm(ReductionDecoder, ("naive", False), "one"),
    "reweighting_chu_liu_edmonds": Algorithm(ReductionDecoder, ("reweighting", True), "one"),
    "preselection_chu_liu_edmonds": Algorithm(ReductionDecoder, ("preselection", True), "one"),
    "naive_chu_liu_edmonds": Algorithm(ReductionDecoder, ("naive", True), "one"),
    "tarjan": Algorithm(TreeDecoder, roots="many"),
    "chu_liu_edmonds": Algorithm(ReductionDecoder, ("unconstrained", True), "many"),
}
ALGORITHMS = tuple(_TABLE)
_PROJECTIVE = Algorithm(ProjectiveDecoder)

ArcMax = bool | Literal["inside"]


# The message where digits are lost, by whether it was reweighting that lost them.
_LOST_DIGITS = {
    True: "scores of such magnitudes are beyond reweighting, which lowers the root arcs by "
    "1 + n (max - min); use algorithm='gabow_tarjan'",
    False: SUMS_OVERFLOW,
}


def decode(
    scores: ScoreArray,
    *,
    lengths: IntArray | int | None = None,
    single_root: bool = True,
    projective: bool = False,
    algorithm: str = "gabow_tarjan",
    arcmax: ArcMax = True,
    num_threads: int = 1,
) -> NDArray[np.int32]:
    """Find the highest-scoring tree of each sentence.

    Parameters
    ----------
    scores : float32 or float64 array of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`; -inf forbids an arc. Any memory layout; never
        changed. Scores of more than 8e307 in magnitude may overflow when compared.
    lengths : int array of shape (B,), optional
        Words in each sentence, 0 to N. All sentences have N words by default. For a single
        sentence, an int.
    single_root : bool
        Whether exactly one word has the head ROOT, or at least one.
    projective : bool
        Whether arcs must not cross, that from ROOT before the first word included.
    algorithm : str
        One of `ALGORITHMS`; they differ in cost, and in which of several equally good trees they
        find. "gabow_tarjan" is the one to use. "reweighting", "preselection" and "naive" reduce
        single-root to unconstrained decoding, by Tarjan's algorithm or, with
        "_chu_liu_edmonds" appended, by the textbook's; "tarjan" and "chu_liu_edmonds" are these
        two, which need `single_root=False`. "reweighting" loses digits, and so the best tree,
        where scores differ in magnitude as with finite masks (-1e9).
    arcmax : bool or "inside"
        Whether to return the best head of each word right away where these form a tree of the
        wanted kind: before all else, or not. "inside", for the reductions only, instead does so in
        each of the unconstrained runs that they make. The score of the result is the same in all
        cases.
    num_threads : int
        Threads that share the sentences of a batch, 256 at most. The result does not depend on it.

    Returns
    -------
    heads : int32 array of shape (n + 1,) or (B, N + 1)
        -1 at index 0 and in the padding. A sentence of no words has the empty tree.

    Raises
    ------
    NoTreeError
        If a sentence has no such tree.
    ArithmeticError
        If "reweighting" lost digits and found several roots where a single one is possible, or its
        constant overflows. With `projective`, if sums of n scores overflow.
    TypeError, ValueError
        If the input is not as described; NaN and +inf inside a sentence among it.

    Notes
    -----
    O(n^2) time and memory per sentence; a sentence that ArcMax settles costs one pass over its
    scores. O(n^3) time for "chu_liu_edmonds" and with `projective`; times the number of root
    children of the best unconstrained tree for "preselection", times n for "naive". If several
    heads of a word are equally good at the greedy step, the lowest index is taken, so that the tree
    does not depend on batch, padding, threads or memory layout.

    References
    ----------
    Tarjan (1977), Finding optimum branchings. Gabow & Tarjan (1984), Efficient algorithms for a
    family of matroid intersection problems. Zmigrod, Vieira & Cotterell (2020), Please Mind the
    Root, section 2.2. Stanojevic & Cohen (2021), A Root of a Problem: "naive" and "preselection"
    (section 3), "reweighting" (section 4), ArcMax (section 5). Eisner (1996), Three new
    probabilistic models for dependency parsing.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> decode(scores, single_root=False).tolist()
    [-1, 0, 0]
    >>> decode(scores).tolist()
    [-1, 0, 1]
    >>> scores[1, 0] = -np.inf
    >>> decode(scores).tolist()
    [-1, 2, 0]
    """
    sentences = Sentences(scores, lengths, single_root, projective, num_threads)
    _check_algorithm(algorithm, sentences.single_root, sentences.projective, arcmax)
    heads = find_best(sentences, algorithm, arcmax)
    return heads[0] if sentences.is_one else heads


def find_best(
    sentences: Sentences, algorithm: str = "gabow_tarjan", arcmax: ArcMax = True
) -> NDArray[np.int32]:
    """Find the best tree of each sentence, (B, N + 1), as `decode` does."""
    own = sentences
    decoder, arguments, _ = _PROJECTIVE if own.projective else _TABLE[algorithm]
    settings = own.longest, own.single_root, arcmax != "inside" and bool(arcmax), arcmax == "inside"
    workers = [decoder(*settings, *arguments)]
    while len(workers) < own.workers:
        workers.append(decoder(*settings, *arguments))
    heads = np.empty(own.batch.shape[:2], np.int32)
    failed = decode_batch(own.buffer(), heads, workers)
    if failed[0] != OK:
        own.raise_failure(failed, lost_digits=_LOST_DIGITS[algorithm.startswith("reweighting")])
    return heads


def decode_kbest(
    scores: ScoreArray,
    k: int,
    *,
    lengths: IntArray | int | None = None,
    single_root: bool = True,
    projective: bool = False,
) -> TreeList:
    """Find the k highest-scoring trees of each sentence, best first.

    Arguments and errors are as for `decode`; ArithmeticError if sums of n scores overflow.

    Returns
    -------
    heads : int32 array of shape (k', n + 1) or (B, k, N + 1)
        Distinct trees. If a sentence has fewer than k, k' < k, or the further rows of a batch
        are -1.
    tree_scores : float64 array of shape (k',) or (B, k)
        Their scores, as of `tree_score`; never increasing. -inf in rows without a tree.

    Notes
    -----
    O(k n^2) time, O(k n + n^2) memory; with `projective`, O(n^3 + k n^2) time at most, and the
    memory of k derivations of each span that the trees have. Trees whose scores differ by no more
    than rounding may come in either order, and which of several equally good trees is the last is
    not said. Rounding is that of float64 at the largest magnitude among the scores of a word: to
    require an arc, forbid the others (-inf) rather than give it a score of 1e17.

    References
    ----------
    Camerini, Fratta & Maffioli (1980), The k best spanning arborescences of a network. Zmigrod,
    Vieira & Cotterell (2021), On Finding the K-best Non-projective Dependency Trees. Huang & Chiang
    (2005), Better k-best Parsing, algorithm 3 ("projective").

    Examples
    --------
    >>> import numpy as np
    >>> heads, tree_scores = decode_kbest(np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0.0]]), 5)
    >>> heads.tolist(), tree_scores.tolist()
    ([[-1, 0, 1], [-1, 2, 0]], [5.0, 4.0])
    """
    sentences = Sentences(scores, lengths, single_root, projective)
    return find_kbest(sentences, as_count("k", k))


def find_kbest(sentences: Sentences, k: int) -> TreeList:
    """Find the k best trees of each sentence, shaped as by `decode_kbest`."""
    own = sentences
    found = [_find_kbest(own, sentence, k) for sentence in range(len(own))]
    n_rows = len(found[0].heads) if own.is_one else k
    heads = filled((len(own), n_rows, own.batch.shape[1]), MISSING, np.int32)
    tree_scores = filled((len(own), n_rows), -np.inf, np.float64)
    for sentence, trees in enumerate(found):
        heads[sentence, : len(trees.heads), : own.lengths[sentence] + 1] = trees.heads
        tree_scores[sentence, : len(trees.heads)] = trees.scores
    return TreeList(own.shaped(heads), own.shaped(tree_scores))


def _find_kbest(sentences: Sentences, sentence: int, k: int) -> TreeList:
    """Find the k best trees of one sentence of a batch."""
    n, single_root = int(sentences.lengths[sentence]), sentences.single_root
    # Beyond that many there is nothing to find.
    most = min(k, count_trees(n, single_root), sys.maxsize)
    status, heads = kernel_kbest(
        sentences.square(sentence), most, single_root, sentences.projective
    )
    if heads is None:
        heads = np.empty((0, n + 1), dtype=np.int32)
    tree_scores = np.empty(len(heads))
    scores = sentences.batch[sentence, : n + 1, : n + 1]
    for rows in blocks_of_rows(len(heads), n + 1):
        part = heads[rows]
        repeated = np.broadcast_to(scores, (len(part), n + 1, n + 1))
        tree_scores[rows], overflows = sum_arcs(repeated, part, np.full(len(part), n))
        if overflows.any():
            status = LOST_DIGITS
    if status != OK:
        sentences.raise_failure((status, sentence), lost_digits=SUMS_OVERFLOW)
    order = np.argsort(-tree_scores, kind="stable")
    return TreeList(heads[order], tree_scores[order])


def _check_algorithm(algorithm: str, single_root: bool, projective: bool, arcmax: ArcMax) -> None:
    """Refuse settings that do not go together."""
    check_choice("algorithm", algorithm, ALGORITHMS)
    row = _TABLE[algorithm]
    if projective and algorithm != "gabow_tarjan":
        raise ValueError(
            f"projective=True has an algorithm of its own; leave out algorithm={algorithm!r}"
        )
    if row.roots == ("many" if single_root else "one"):
        raise ValueError(
            f"algorithm {algorithm!r} needs single_root={not single_root}; use 'gabow_tarjan'"
        )
    if not isinstance(arcmax, FLAG_TYPES) and not (isinstance(arcmax, str) and arcmax == "inside"):
        raise ValueError(f"expected arcmax True, False or 'inside', received {arcmax!r}")
    if arcmax == "inside" and row.roots != "one":
        raise ValueError(
            f"arcmax='inside' needs an algorithm that runs another one; with {algorithm!r}, use "
            f"arcmax=True or arcmax=False"
        )
