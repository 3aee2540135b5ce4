"""Fuzzers of the array functions: what the oracles say, or an error that is documented.

An input is a batch of up to three sentences of up to four words, in either float type and any
memory layout, with any value anywhere, padded with NaN. Arguments of no use only have to be
refused.
"""

import re
from inspect import signature

import numpy as np
import reference
from checks import assert_best, assert_k_best
from fuzzing import VALUES, fuzz, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_cases import (
    MOST_BELOW,
    assert_marginals,
    assert_near,
    entropy_tolerance,
    log_partition_tolerance,
    log_prob_tolerance,
    may_fail,
)
from reference_probabilities import enumerated
from strategies import DTYPES, FAMILIES, LAYOUTS, SINGLE_ROOT, UNCONSTRAINED, pad_batch

import spacy_rootmind
from spacy_rootmind import NoTreeError, TreeDistribution
from spacy_rootmind.trees.sampling import METHODS

EXPLAINED = (
    r"expected|received|sentence|needs|unknown|no memory|too large|overflow|takes|cannot|use "
)

VALUE_KINDS = {
    "ties": st.integers(-3, 3).map(float),
    "usual": st.floats(-30, 30),
    "any": st.floats(allow_nan=False, allow_infinity=False),
    "magnitudes": st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, -1e15, 1e16, 3e38, -3e38, 1e300, -1e300, 8e307]
    ),
}
RARE = st.sampled_from([np.nan, np.inf, -np.inf, 1.7e308, -1.7e308])


@st.composite
def matrices(draw, dtype, most):
    """Scores of one sentence, either of a family or number by number."""
    n = draw(st.integers(0, most))
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(FAMILIES)))
        return FAMILIES[name](np.random.default_rng(draw(st.integers(0, 2**32 - 1))), n, dtype)
    values = VALUE_KINDS[draw(st.sampled_from(sorted(VALUE_KINDS)))]
    if draw(st.booleans()):
        values = st.one_of(values, st.just(-np.inf))
    if draw(st.integers(0, 2)) == 0:
        values = st.one_of(values, values, values, RARE)
    size = (n + 1) ** 2
    numbers = draw(st.lists(values, min_size=size, max_size=size))
    with np.errstate(over="ignore"):
        return np.array(numbers).astype(dtype).reshape(n + 1, n + 1)


class Problem:
    """Arguments of a call, and each sentence as the oracles take it."""

    def __init__(self, scores, lengths, options):
        self.scores, self.lengths, self.options = scores, lengths, options

    @property
    def sentences(self):
        """Scores of each sentence without padding."""
        batch = self.scores if self.scores.ndim == 3 else self.scores[None]
        lengths = self.lengths
        if lengths is None:
            lengths = [batch.shape[1] - 1] * len(batch)
        return [
            sentence[: n + 1, : n + 1]
            for sentence, n in zip(batch, np.atleast_1d(lengths).tolist(), strict=True)
        ]

    @property
    def single_root(self):
        return self.options["single_root"]

    @property
    def is_one(self):
        return self.scores.ndim == 2

    def arguments(self):
        """Keyword arguments that all functions of whole sentences take."""
        return {"lengths": self.lengths, **self.options}

    def __repr__(self):
        return f"scores={self.scores!r}, lengths={self.lengths!r}, {self.options}"


@st.composite
def problems(draw, *, one=False, most=4):
    """Draw a problem: a batch, or a single sentence."""
    dtype = draw(st.sampled_from(DTYPES))
    is_one = one or draw(st.booleans())
    count = 1 if is_one else draw(st.integers(0, 3))
    sentences = [draw(matrices(dtype, most)) for _ in range(count)]
    lengths = None
    if is_one:
        [scores] = sentences
    elif sentences:
        scores, lengths = pad_batch(sentences, np.nan, extra=draw(st.integers(0, 1)))
    else:
        scores = np.zeros((0, 3, 3), dtype)
    if draw(st.integers(0, 3)) == 0:
        rate = draw(st.sampled_from([0.3, 0.7]))
        kept = np.random.default_rng(draw(st.integers(0, 99))).random(scores.shape) < rate
        scores = np.where(kept, scores, -np.inf).astype(dtype)
    layout = draw(st.sampled_from(sorted(LAYOUTS)))
    scores = LAYOUTS[layout](scores) if scores.size else scores
    options = {"single_root": draw(st.booleans()), "num_threads": draw(st.integers(1, 3))}
    return Problem(scores, lengths, options)


def draw_heads(rng, problem, are_trees):
    """Draw heads for each sentence: of a tree with one root, or any, also outside the sentence."""
    heads = rng.integers(-1, 5, size=problem.scores.shape[:-1])
    heads[..., 0] = -1
    if are_trees:
        rows = heads[None] if problem.is_one else heads
        for row, sentence in zip(rows, problem.sentences, strict=True):
            words = 1 + rng.permutation(len(sentence) - 1)
            for i, word in enumerate(words):
                row[word] = rng.choice(words[:i]) if i else 0
    return heads


def call(function, *arguments, errors=(ValueError, ArithmeticError), **options):
    """Call a function within limits; returns its result or its error, which must be documented."""
    arrays = [a for a in (*arguments, *options.values()) if isinstance(a, np.ndarray)]
    before = [array.tobytes() for array in arrays]
    with no_hang(), np.errstate(over="ignore", invalid="ignore"):
        try:
            result = function(*arguments, **options)
        except errors as error:
            assert re.search(EXPLAINED, str(error)), repr(error)  # noqa: PT017
            result = error
    assert [array.tobytes() for array in arrays] == before
    return result


def is_bad(sentence):
    """Tell whether NaN or +inf stands where a score is read."""
    wrong = ~(sentence < np.inf)
    wrong[0] = False
    np.fill_diagonal(wrong, False)
    return bool(wrong.any())


def is_wild(sentence):
    """Tell whether sums or differences of some scores may overflow."""
    inside = np.abs(reference.clean(sentence))
    largest = inside[np.isfinite(inside)].max(initial=0.0)
    return bool(largest > np.finfo(np.float64).max / (4 * len(sentence)))


def assert_refusal_is_right(problem, error):
    """Assert that an error is that of some sentence: NaN, no tree, or numbers too far apart."""
    inside = problem.sentences
    reasons = {
        ValueError: any(map(is_bad, inside)),
        NoTreeError: any(
            is_bad(s) or is_wild(s) or not reference.has_tree(s, problem.single_root)
            for s in inside
        ),
    }
    if not isinstance(error, ArithmeticError):
        assert reasons[type(error)], f"{error!r}\n{problem}"
        named = re.match(r"sentence (\d+)", str(error))
        assert named is None or int(named[1]) < len(inside), error


def assert_nothing_to_refuse(problem):
    """Assert that all sentences have a tree and no NaN, as a call that returns something says."""
    for sentence in problem.sentences:
        assert not is_bad(sentence), problem
        assert is_wild(sentence) or reference.has_tree(sentence, problem.single_root), problem


# --- the best trees ----------------------------------------------------------------------------


@st.composite
def decodings(draw):
    problem = draw(problems())
    projective = draw(st.integers(0, 3)) == 0
    names = SINGLE_ROOT if problem.single_root else UNCONSTRAINED
    algorithm = "gabow_tarjan" if projective else draw(st.sampled_from(names))
    arcmax = draw(st.booleans())
    return problem, {"projective": projective, "algorithm": algorithm, "arcmax": arcmax}


@settings(fuzz(100))
@given(decodings())
def test_decode(drawn):
    problem, options = drawn
    heads = call(spacy_rootmind.decode, problem.scores, **problem.arguments(), **options)
    loses_digits = options["algorithm"].startswith("reweighting")
    if isinstance(heads, Exception):
        wild = loses_digits or any(map(is_wild, problem.sentences))
        assert wild or not isinstance(heads, ArithmeticError), f"{heads!r}\n{problem}"
        if options["projective"] and isinstance(heads, NoTreeError):
            return
        assert_refusal_is_right(problem, heads)
        return
    assert_nothing_to_refuse(problem)
    assert heads.shape == problem.scores.shape[:-1]
    rows = heads[None] if problem.is_one else heads
    for own, sentence in zip(rows, problem.sentences, strict=True):
        n = len(sentence) - 1
        assert (own[n + 1 :] == -1).all()
        own = own[: n + 1]
        assert reference.is_tree(own, problem.single_root), problem
        assert not options["projective"] or reference.is_projective(own)
        if not loses_digits and not is_wild(sentence):
            best = reference.best_enumerated(
                sentence, problem.single_root, projective=options["projective"]
            )
            assert_best(sentence, own, best, problem.single_root, note=f"{problem} {options}")


@settings(fuzz(50))
@given(
    problems(one=True),
    st.one_of(st.integers(1, 30), st.sampled_from([2**31, 2**63, 10**30])),
    st.booleans(),
)
def test_decode_kbest(problem, k, projective):
    kind = {"single_root": problem.single_root, "projective": projective}
    found = call(spacy_rootmind.decode_kbest, problem.scores, k, **kind)
    [sentence] = problem.sentences
    if isinstance(found, Exception):
        assert is_wild(sentence) or not isinstance(found, ArithmeticError), problem
        if projective and isinstance(found, NoTreeError):
            assert reference.best_enumerated(
                sentence, problem.single_root, projective=True
            ) is None or is_wild(sentence)
        else:
            assert_refusal_is_right(problem, found)
        return
    assert_nothing_to_refuse(problem)
    if is_wild(sentence):
        heads, totals = found
        assert len({tree.tobytes() for tree in heads}) == len(heads) <= k
        assert (np.diff(totals) <= 0).all()
        return
    expected = reference.k_best_enumerated(sentence, min(k, 10**6), **kind)
    assert_k_best(sentence, found, expected, problem, **kind)


# --- distributions -----------------------------------------------------------------------------


def assert_sums_are_right(problem, found, sentence, own_marginals, trees):
    log_z, entropy, log_prob = found
    right = enumerated(sentence, problem.single_root)
    assert_near(log_z, right.log_partition, log_partition_tolerance(sentence, right), problem)
    assert_near(entropy, right.entropy, entropy_tolerance(sentence, right), problem)
    is_possible = reference.clean(sentence) > -np.inf
    assert_marginals(own_marginals, is_possible, problem.single_root)
    if len(trees) > 1:
        tolerance = log_prob_tolerance(sentence, trees, right)
        assert_near(log_prob, right.log_prob(sentence, trees), tolerance, problem)


@settings(fuzz(100))
@given(problems(most=3), st.integers(0, 2**32 - 1), st.booleans())
def test_distributions(problem, seed, same):
    """Sums next to enumeration; divergences are not negative, and the sum of ones does not vary."""
    trees = TreeDistribution(problem.scores, **problem.arguments())
    log_z = call(lambda: trees.log_partition)
    found = [call(lambda: trees.marginals), call(trees.entropy), call(lambda: trees.mode)]
    if isinstance(log_z, Exception):
        assert [type(one) for one in found[:2]] == [type(log_z)] * 2, problem
        assert_refusal_is_right(problem, log_z)
        if isinstance(log_z, ArithmeticError):
            assert any(
                is_wild(s) or right is None or may_fail(s, right)
                for s in problem.sentences
                for right in [enumerated(s, problem.single_root)]
            ), f"{log_z!r}\n{problem}"
        return
    assert_nothing_to_refuse(problem)
    if any(map(is_wild, problem.sentences)):
        return
    marginals, entropy, best = found
    rows = [log_z, entropy, trees.log_prob(best), marginals, best]
    if problem.is_one:
        rows = [np.array([one]) for one in rows]
    for own, sentence in zip(zip(*rows, strict=True), problem.sentences, strict=True):
        *numbers, square, heads = own
        n = len(sentence) - 1
        assert not square[n + 1 :].any()
        assert not square[:, n + 1 :].any()
        assert_sums_are_right(problem, numbers, sentence, square[: n + 1, : n + 1], heads[: n + 1])
    ones = np.ones(problem.scores.shape)
    np.testing.assert_allclose(trees.expectation_gradient(ones), 0, rtol=0, atol=1e-10)
    assert np.isfinite(trees.expectation_gradient(problem.scores)).all()
    rng = np.random.default_rng(seed)
    others = problem.scores if same else rng.normal(size=ones.shape) * rng.choice([1, 1e9])
    options = {**problem.arguments(), "single_root": bool(seed % 2)}
    other = TreeDistribution(others, **options)
    divergence = call(trees.kl_divergence, other)
    # The other distribution may allow no tree where this one has some.
    assert isinstance(divergence, NoTreeError | ArithmeticError) or np.all(divergence >= 0)
    if same and problem.single_root == options["single_root"]:
        assert not np.any(divergence), problem


# --- samples -----------------------------------------------------------------------------------


@settings(fuzz(50))
@given(
    problems(most=3),
    st.integers(1, 20),
    st.sampled_from(METHODS),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 50)),
    st.integers(0, 3),
)
def test_sample_trees(problem, k, method, replace, max_steps, seed):
    if max_steps is None and method.startswith("wilson"):
        # 10^8 by default, about a second.
        max_steps = 1000
    found = call(
        spacy_rootmind.sample_trees,
        problem.scores,
        k,
        **problem.arguments(),
        method=method,
        replace=replace,
        max_steps=max_steps,
        seed=seed,
        errors=(ValueError, ArithmeticError, RuntimeError),
    )
    if isinstance(found, RuntimeError):
        assert method.startswith("wilson"), problem
        return
    if isinstance(found, Exception):
        goes_together = (replace or method in ("auto", "ancestral")) and (
            problem.single_root or method != "wilson_reject"
        )
        if goes_together:
            assert_refusal_is_right(problem, found)
        return
    assert_nothing_to_refuse(problem)
    heads, log_probs = (one[None] if problem.is_one else one for one in found)
    for own, own_probs, sentence in zip(heads, log_probs, problem.sentences, strict=True):
        n = len(sentence) - 1
        assert (own[:, n + 1 :] == -1).all()
        drawn = own_probs > -np.inf
        for tree in own[drawn]:
            assert reference.is_tree(tree[: n + 1], problem.single_root), problem
            assert reference.tree_score(sentence, tree[: n + 1]) > -np.inf, problem
        if not replace:
            possible = reference.enumerate_scores(sentence, problem.single_root) > -np.inf
            assert len({tree.tobytes() for tree in own[drawn]}) == drawn.sum() <= possible.sum()
            # Some trees that are next to impossible are not drawn.
            right = enumerated(sentence, problem.single_root)
            if not may_fail(sentence, right) and reference.spread_of(sentence) < MOST_BELOW / 2:
                assert drawn.sum() == min(k, possible.sum()), problem
        assert np.exp(own_probs[drawn]).max(initial=0) <= 1 + 1e-9


# --- losses ------------------------------------------------------------------------------------


@settings(fuzz(50))
@given(
    problems(most=3),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 1.0, 1e9]),
    st.booleans(),
)
def test_losses(problem, seed, missing, margin, are_trees):
    """Numbers, never infinite nor NaN, or errors; and no known heads are no loss."""
    rng = np.random.default_rng(seed)
    heads = draw_heads(rng, problem, are_trees)
    heads[rng.random(heads.shape) < missing] = -1
    arguments = problem.arguments()
    found = {
        "tree_crf": call(spacy_rootmind.tree_crf, problem.scores, heads, **arguments),
        "perceptron": call(
            spacy_rootmind.perceptron, problem.scores, heads, margin=margin, **arguments
        ),
        "head_selection": call(
            spacy_rootmind.head_selection,
            *(problem.scores, heads),
            lengths=problem.lengths,
        ),
    }
    for name, result in found.items():
        if isinstance(result, Exception):
            continue
        losses, gradient = result
        assert gradient.dtype == problem.scores.dtype
        assert gradient.shape == problem.scores.shape
        assert np.isfinite(losses).all(), (name, problem)
        assert np.isfinite(gradient).all(), (name, problem)
        assert (np.abs(gradient) <= 1 + 1e-6).all(), (name, problem)
        assert (np.asarray(losses) >= (-1e-12 if name == "head_selection" else 0)).all(), problem
        if missing == 1.0 and not (name == "perceptron" and any(map(is_wild, problem.sentences))):
            assert not np.any(losses), (name, problem)
            assert not gradient.any(), (name, problem)


# --- checks of trees ---------------------------------------------------------------------------


@settings(fuzz(50))
@given(problems(), st.lists(st.integers(-2, 5), max_size=5), st.integers(0, 9), st.booleans())
def test_tree_checks(problem, given_heads, seed, are_trees):
    rng = np.random.default_rng(seed)
    heads = draw_heads(rng, problem, are_trees)
    heads = heads.astype(rng.choice(["i1", "i4", "i8", "u2", ">i4"]))
    heads = (heads if heads.dtype.kind == "i" else np.abs(heads)).astype(heads.dtype)
    heads[..., 0] = -1 if heads.dtype.kind == "i" else 0
    rows = heads[None] if problem.is_one else heads
    rows.flat[: len(given_heads)] = np.abs(given_heads[: rows.size])
    trees = call(
        spacy_rootmind.is_tree,
        heads,
        lengths=problem.lengths,
        single_root=problem.single_root,
    )
    lengths = [len(sentence) - 1 for sentence in problem.sentences]
    own = [row[: n + 1].astype(int) for row, n in zip(rows, lengths, strict=True)]
    expected = [
        row[0] == -1
        and bool(((row[1:] >= 0) & (row[1:] < len(row))).all())
        and reference.is_tree(row, problem.single_root)
        for row in own
    ]
    assert np.atleast_1d(trees).tolist() == expected
    projective = call(spacy_rootmind.is_projective, heads, lengths=problem.lengths)
    if isinstance(projective, ValueError):
        assert not all(spacy_rootmind.is_tree(row, single_root=False) for row in own)
    else:
        assert np.atleast_1d(projective).tolist() == [reference.is_projective(row) for row in own]
    total = call(spacy_rootmind.tree_score, problem.scores, heads, lengths=problem.lengths)
    inside = [bool(((row[1:] >= 0) & (row[1:] < len(row))).all()) for row in own]
    assert isinstance(total, ValueError) != all(inside)


# --- arguments of no use -----------------------------------------------------------------------

JUNK_ARRAYS = st.one_of(
    st.tuples(
        st.lists(st.integers(0, 4), max_size=4).map(tuple),
        st.sampled_from(
            ["f2", "f4", "f8", ">f8", "g", "i1", "i8", "u8", "?", "c16", "O", "U3", "M8[s]", "V4"]
        ),
    ).map(lambda drawn: np.zeros(*drawn)),
    st.integers(0, 3).map(lambda n: np.zeros((n + 1, n + 1))),
    st.integers(0, 3).map(lambda n: np.ma.masked_all((n + 1, n + 1))),
)
JUNK = st.one_of(JUNK_ARRAYS, VALUES)
NO_ARRAYS = {"NoTreeError", *spacy_rootmind._LAZY}
FUNCTIONS = {
    name: getattr(spacy_rootmind, name)
    for name in sorted({*spacy_rootmind.__all__} - NO_ARRAYS)
    if name[0] != "_"
}
# All but the first.
ARGUMENTS = {name: [*signature(call).parameters][1:] for name, call in FUNCTIONS.items()}
FIRST = {"is_tree": "heads", "is_projective": "heads"}
NEEDED = {
    name: [
        one.name for one in [*signature(call).parameters.values()][1:] if one.default is one.empty
    ]
    for name, call in FUNCTIONS.items()
}


@st.composite
def junk_calls(draw):
    name = draw(st.sampled_from([*FUNCTIONS]))
    good_first = draw(st.booleans())
    n = draw(st.integers(0, 3))
    first = np.zeros((n + 1, n + 1))
    if name in FIRST:
        first = np.array([-1, 0, 1, 1][: n + 1])
    if not good_first:
        first = draw(JUNK)
    chosen = draw(st.lists(st.sampled_from(ARGUMENTS[name]), max_size=2, unique=True))
    options = {key: draw(JUNK) for key in {*chosen, *NEEDED[name]}}
    return name, first, options


@settings(fuzz(150))
@given(junk_calls())
def test_arguments_of_no_use_are_refused(drawn):
    name, first, options = drawn
    errors = (TypeError, ValueError, ArithmeticError, MemoryError)
    with no_hang():
        try:
            FUNCTIONS[name](first, **options)
        except errors as error:
            assert str(error), drawn  # noqa: PT017
