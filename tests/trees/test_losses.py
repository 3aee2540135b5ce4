"""The losses of arrays: against torch, over lists of trees, and what they refuse."""

from decimal import localcontext

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from strategies import each_dtype, each_root, rng_for

from spacy_rootmind import (
    NoTreeError,
    arc_marginals,
    decode,
    decode_kbest,
    head_selection,
    perceptron,
    tree_crf,
    tree_cross_entropy,
)

LENGTHS = np.array([4, 0, 1, 3, 2, 4])
OF_HEADS = {"tree_crf": tree_crf, "perceptron": perceptron, "head_selection": head_selection}
OVER_TREES = ("tree_crf", "perceptron")
MARGIN = 0.7

each_loss = pytest.mark.parametrize("name", OF_HEADS)


class Case:
    """A batch with padding, forbidden arcs and missing heads, all around gold trees."""

    def __init__(self, name, *, single_root=True, dtype=np.float64, missing=0.0, holes=0.0):
        rng = rng_for(f"losses {name} {single_root} {missing} {holes}")
        size, m = len(LENGTHS), LENGTHS.max() + 1
        # Nobody may read the padding, row 0 or the diagonal.
        self.scores = np.full((size, m, m), np.nan, dtype=dtype)
        self.heads = np.full((size, m), 77)
        self.allowed = rng.random((size, m, m)) >= holes
        for i, n in enumerate(LENGTHS.tolist()):
            own = rng.standard_normal((n + 1, n + 1))
            gold = reference.random_heads(rng, n, single_root)
            own[rng.random(own.shape) < holes] = -np.inf
            words = np.arange(1, n + 1)
            own[words, gold[1:]] = rng.standard_normal(n)
            own[0] = np.nan
            np.fill_diagonal(own, np.nan)
            self.allowed[i, words, gold[1:]] = True
            self.scores[i, : n + 1, : n + 1] = own
            gold[1:][rng.random(n) < missing] = -1
            self.heads[i, 1 : n + 1] = gold[1:]
        self.single_root = single_root

    def call(self, name, **settings):
        if name != "head_selection":
            settings = {"single_root": self.single_root, **settings}
        if name == "perceptron":
            settings = {"margin": MARGIN, **settings}
        given = {"allowed": self.allowed, **settings}
        return OF_HEADS[name](self.scores, self.heads, lengths=LENGTHS, **given)

    def sentence(self, i):
        """The scores of one sentence, -inf where there is no arc, its gold heads and its trees."""
        n = LENGTHS[i]
        scores = self.scores[i, : n + 1, : n + 1].astype(np.float64)
        possible = self.allowed[i, : n + 1, : n + 1] & (scores > -np.inf)
        possible[0] = False
        np.fill_diagonal(possible, False)
        trees = reference.enumerate_trees(int(n), self.single_root)
        sound = possible[np.arange(1, n + 1), trees[:, 1:]].all(axis=1)
        return np.where(possible, scores, -np.inf), self.heads[i, : n + 1], trees[sound]


def need_torch():
    return pytest.importorskip("torch", reason="needs torch, of the extra [torch]")


def by_torch(name, scores, heads, trees):
    """The loss of one sentence from a list of its possible trees, and its gradient by autodiff."""
    torch = need_torch()
    n = len(scores) - 1
    variable = torch.tensor(scores, requires_grad=True)
    words = torch.arange(1, n + 1)
    known = torch.tensor(heads[1:]) >= 0
    if name == "head_selection":
        loss = torch.tensor(0.0, dtype=torch.float64)
        for word in words[known].tolist():
            others = np.flatnonzero(scores[word] > -np.inf)
            logs = variable[word, torch.tensor(others)]
            loss = loss + logs.logsumexp(dim=0) - variable[word, int(heads[word])]
    else:
        listed = torch.tensor(trees[:, 1:].astype(np.int64)).reshape(len(trees), n)
        totals = variable[words, listed].sum(dim=1)
        wrong = ((listed != torch.tensor(heads[1:])) & known).sum(dim=1)
        if name == "tree_crf":
            loss = totals.logsumexp(dim=0) - totals[wrong == 0].logsumexp(dim=0)
        else:
            loss = (totals + MARGIN * wrong.double()).max() - totals[wrong == 0].max()
    if not loss.requires_grad:
        return loss.item(), np.zeros(scores.shape)
    (gradient,) = torch.autograd.grad(loss, variable)
    return loss.item(), gradient.numpy()


@each_root
@each_dtype
@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("missing", [0.0, 0.4, 1.0])
@each_loss
def test_losses_and_gradients_match_autodiff(name, missing, holes, dtype, single_root):
    case = Case(name, single_root=single_root, dtype=dtype, missing=missing, holes=holes)
    losses, gradient = case.call(name)
    assert losses.dtype == np.float64
    assert losses.shape == (len(LENGTHS),)
    assert gradient.dtype == dtype
    assert gradient.shape == case.scores.shape
    atol = 1e-13 if dtype == np.float64 else 1e-6
    for i, n in enumerate(LENGTHS.tolist()):
        wanted, by_scores = by_torch(name, *case.sentence(i))
        assert losses[i] == pytest.approx(wanted, rel=0, abs=atol)
        np.testing.assert_allclose(gradient[i, : n + 1, : n + 1], by_scores, rtol=0, atol=atol)
        assert not gradient[i, n + 1 :].any()
        assert not gradient[i, :, n + 1 :].any()


@each_dtype
def test_tree_crf_matches_autodiff_of_the_determinant(dtype):
    """The usual formula, in float64, for sentences whose trees nobody can list."""
    torch = need_torch()
    rng = rng_for("losses determinant")
    for n in (12, 40):
        scores = rng.standard_normal((n + 1, n + 1)).astype(dtype)
        heads = reference.random_heads(rng, n, True)
        loss, gradient = tree_crf(scores, heads)
        variable = torch.tensor(scores.astype(np.float64), requires_grad=True)
        weights = torch.exp(variable[1:])
        words = weights[:, 1:] * (1 - torch.eye(n, dtype=torch.float64))
        laplacian = torch.diag(words.sum(dim=1)) - words
        laplacian = torch.cat([weights[:, :1], laplacian[:, 1:]], dim=1)
        arcs = variable[torch.arange(1, n + 1), torch.tensor(heads[1:])]
        wanted = torch.linalg.slogdet(laplacian)[1] - arcs.sum()
        wanted.backward()
        assert loss == pytest.approx(wanted.item(), rel=1e-11)
        atol = 1e-11 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(gradient, variable.grad.numpy(), rtol=0, atol=atol)


@each_root
@each_dtype
def test_cross_entropy_matches_autodiff(dtype, single_root):
    torch = need_torch()
    case = Case("teacher", single_root=single_root, dtype=dtype, holes=0.3)
    settings = {"allowed": case.allowed, "single_root": single_root}
    teacher = np.where(case.scores > -np.inf, 0.5 * case.scores - 1, -np.inf)
    marginals = arc_marginals(teacher, lengths=LENGTHS, **settings)
    marginals[:, 0] = np.nan  # ignored
    losses, gradient = tree_cross_entropy(case.scores, marginals, lengths=LENGTHS, **settings)
    assert gradient.dtype == dtype
    atol = 1e-13 if dtype == np.float64 else 1e-6
    for i, n in enumerate(LENGTHS.tolist()):
        scores, _, trees = case.sentence(i)
        listed = torch.tensor(trees[:, 1:].astype(np.int64)).reshape(len(trees), n)
        variable = torch.tensor(scores, requires_grad=True)
        own = variable[torch.arange(1, n + 1), listed].sum(dim=1)
        taught = torch.tensor(teacher[i, : n + 1, : n + 1].astype(np.float64))
        taught = taught[torch.arange(1, n + 1), listed].sum(dim=1).softmax(dim=0)
        wanted = -(taught * own.log_softmax(dim=0)).sum()
        (by_scores,) = torch.autograd.grad(wanted, variable)
        assert losses[i] == pytest.approx(wanted.item(), rel=0, abs=atol)
        np.testing.assert_allclose(
            gradient[i, : n + 1, : n + 1], by_scores.numpy(), rtol=0, atol=atol
        )


def test_cross_entropy_is_infinite_where_the_student_has_no_arc():
    scores = np.zeros((2, 3, 3))
    teacher = arc_marginals(scores)
    masked = scores.copy()
    masked[1, 1, 0] = -np.inf
    allowed = masked > -np.inf
    for losses, _ in (
        tree_cross_entropy(masked, teacher),
        tree_cross_entropy(scores, teacher, allowed=allowed),
    ):
        assert losses.tolist() == [pytest.approx(np.log(2)), np.inf]


# --- large scores ------------------------------------------------------------------------------


def large_cases(name, constant, single_root):
    """Scores around constants of each word and, with a single root, one of all root arcs."""
    rng = rng_for(f"large losses {name} {constant}")
    for n in (1, 2, 4, 5):
        scores = constant * rng.integers(1, 4, size=(n + 1, 1)) + rng.normal(size=(n + 1, n + 1))
        if single_root:
            scores[:, 0] += constant / 100
        yield rng, scores


def exact_law(scores, single_root, projective):
    find = oracle.enumerated_projective if projective else oracle.enumerated
    return find(scores, single_root)


def loss_of_part(every, part):
    """The log of the ratio of two sums, of which both may be large."""
    with localcontext(oracle.wide_context(oracle.DIGITS)):
        shift = oracle.as_decimal(every.shift - part.shift)
        return float(shift + every.log_total - part.log_total)


@each_root
@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("constant", [0.0, 1e6, 1e12, 1e15])
def test_losses_with_missing_heads_do_not_cancel(constant, projective, single_root):
    """In exact arithmetic except for exponentials. The rarest gold heads as well, and the best."""
    kind = {"single_root": single_root, "projective": projective}
    for rng, scores in large_cases("crf", constant, single_root):
        every = exact_law(scores, **kind)
        for _ in range(4):
            heads = decode(rng.normal(size=scores.shape), **kind)
            heads[1 + rng.integers(len(heads) - 1)] = -1
            heads[1:][rng.random(len(heads) - 1) < 0.3] = -1
            part = exact_law(oracle.agreeing(scores, heads), **kind)
            for lower in (0.0, 1e3):
                lowered, wanted = scores, loss_of_part(every, part)
                if lower:
                    of_gold = heads[:, None] == np.arange(len(heads))
                    lowered = np.where(of_gold, scores - lower, scores)
                    low = exact_law(oracle.agreeing(lowered, heads), **kind)
                    wanted = loss_of_part(exact_law(lowered, **kind), low)
                loss, _ = tree_crf(lowered, heads, **kind)
                assert loss == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@each_root
@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("constant", [2.0**20, 2.0**44])
def test_a_cross_entropy_does_not_cancel(constant, projective, single_root):
    """Constants of words, which float64 adds to these scores without rounding."""
    kind = {"single_root": single_root, "projective": projective}
    rng = rng_for(f"large cross entropies {constant}")
    for n in (1, 2, 5):
        scores = rng.integers(-512, 512, size=(n + 1, n + 1)) / 128
        teacher = arc_marginals(rng.normal(size=scores.shape), **kind)
        large = scores + constant * rng.integers(1, 4, size=(n + 1, 1))
        wanted, by_scores = tree_cross_entropy(scores, teacher, **kind)
        loss, gradient = tree_cross_entropy(large, teacher, **kind)
        assert loss == pytest.approx(wanted, rel=1e-12)
        np.testing.assert_allclose(gradient, by_scores, rtol=0, atol=1e-14)


@each_dtype
def test_a_margin_counts_however_large_the_scores(dtype):
    """In float32 these scores are 8 apart."""
    scores = np.full((3, 3), 1e8, dtype=dtype)
    loss, gradient = perceptron(scores, np.array([-1, 0, 1]), margin=1.0)
    assert loss == 2.0
    assert gradient[1:].tolist() == [[-1, 0, 1], [1, -1, 0]]
    assert gradient.dtype == dtype


def test_differences_that_overflow_are_no_warning():
    """To heads of probability 0, and of margins beyond the dtype."""
    scores = np.zeros((3, 3))
    scores[1] = [1.7e308, 0, -1.7e308]
    loss, gradient = head_selection(scores, np.array([-1, 0, -1]))
    assert loss == 0.0
    assert not gradient.any()
    loss, _ = perceptron(np.zeros((3, 3), dtype="f"), np.array([-1, 0, 1]), margin=1e300)
    assert loss == 2e300


def test_a_loss_with_missing_heads_of_which_a_difference_overflows():
    """The gold head lies 2e308 below the others; with these, another word has a root arc."""
    scores = np.zeros((2, 4, 4))
    scores[1, 1, [0, 2, 3]] = -1e308, 1e308, 1e308
    scores[1, 2:, 0] = -7e307
    heads = np.array([[-1, -1, -1, 0], [-1, 0, -1, -1]])
    losses, _ = tree_crf(scores, heads)
    assert losses[1] == pytest.approx(1.3e308, rel=1e-12)
    scores[1, 2:, 0] = 0
    with pytest.raises(ArithmeticError, match=r"sentence 1: .*overflow"):
        tree_crf(scores, heads)


# --- what is refused ---------------------------------------------------------------------------


CONTRADICTIONS = {
    "cycle": [-1, 2, 1, 0],
    "cycle, the rest missing": [-1, 2, 1, -1],
    "own head": [-1, 1, 0, 2],
    "own head, the rest missing": [-1, 1, -1, -1],
    "two roots": [-1, 0, 0, 1],
    "two roots, the rest missing": [-1, 0, 0, -1],
    "no root": [-1, 2, 3, 1],
}


@pytest.mark.parametrize("name", OVER_TREES)
@pytest.mark.parametrize("heads", CONTRADICTIONS.values(), ids=list(CONTRADICTIONS))
def test_contradictory_heads_are_refused_with_their_sentence(name, heads):
    """Behind a whole tree and an incomplete one, so that neither shifts the number."""
    gold = np.array([[-1, 2, 0, 2], [-1, 0, -1, -1], heads])
    with pytest.raises(NoTreeError, match=r"sentence 2: no tree .* its gold heads.*missing \(-1\)"):
        OF_HEADS[name](np.zeros((3, 4, 4)), gold)


@pytest.mark.parametrize("name", OVER_TREES)
def test_several_roots_contradict_a_single_root_alone(name):
    heads = np.array([-1, 0, 0, 2])
    scores = rng_for("several roots").standard_normal((4, 4))
    loss, _ = OF_HEADS[name](scores, heads, single_root=False)
    assert loss >= 0
    with pytest.raises(NoTreeError, match="a single root"):
        OF_HEADS[name](scores, heads)


@pytest.mark.parametrize("rest", [2, -1], ids=["complete", "missing"])
@pytest.mark.parametrize("masked", [False, True], ids=["-inf", "allowed"])
@each_loss
def test_gold_arcs_that_cannot_be_are_refused(name, masked, rest):
    scores = np.zeros((2, 4, 4))
    heads = np.array([[-1, 2, 0, 2], [-1, 2, 0, rest]])
    if not masked:
        scores[1, 1, 2] = -np.inf
    allowed = None
    if masked:
        allowed = np.ones(scores.shape, dtype=bool)
        allowed[1, 1, 2] = False
    error = ValueError if name == "head_selection" else NoTreeError
    with pytest.raises(error, match=r"sentence 1: .*gold head.* -inf"):
        OF_HEADS[name](scores, heads, allowed=allowed)


@each_loss
def test_heads_may_be_missing_but_not_outside_their_sentence(name):
    heads = np.array([[-1, -1, -1, -1], [-1, 3, -1, -1]])
    with pytest.raises(ValueError, match="sentence 1: word 1 has head 3, expected 0 to 2, or -1"):
        OF_HEADS[name](np.zeros((2, 4, 4)), heads, lengths=np.array([3, 2]))


@each_loss
def test_losses_beyond_float64_are_refused(name):
    """Rather than infinite, with a gradient that looks right."""
    scores = np.zeros((2, 3, 3))
    scores[1, 1] = [1.7e308, 0, -1.7e308]
    with pytest.raises(ArithmeticError, match=r"sentence 1: .*overflow"):
        OF_HEADS[name](scores, np.array([[-1, 0, 1], [-1, 2, 0]]))


def test_margins_and_marginals_are_checked():
    scores, heads = np.zeros((3, 3)), np.array([-1, 0, 1])
    for margin in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"a margin of at least 0, received {margin}"):
            perceptron(scores, heads, margin=margin)
    with pytest.raises(ValueError, match=r"marginals of the shape of scores, \(3, 3\), .*\(2, 3\)"):
        tree_cross_entropy(scores, np.zeros((2, 3)))
    marginals = arc_marginals(scores)
    marginals[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"sentence 0: the teacher's marginal of dep 2, head 1"):
        tree_cross_entropy(scores, marginals)


def test_margins_that_overflow_are_an_error_of_arithmetic():
    scores = np.zeros((2, 3, 3))
    scores[1] = 1.79e308
    heads = np.array([[-1, 0, 1], [-1, 0, 1]])
    with pytest.raises(ArithmeticError, match=r"sentence 1: .* overflow"):
        perceptron(scores, heads, margin=1e307)
    scores[1, 2, 1] = np.inf
    with pytest.raises(ValueError, match="sentence 1: the score of dep 2, head 1 is inf"):
        perceptron(scores, heads, margin=1e307)


# --- properties --------------------------------------------------------------------------------


def test_head_selection_has_no_least_probability():
    """The log is right for any share of the gold head."""
    scores = np.zeros((3, 3), dtype=np.float32)
    scores[1, 0] = 2000
    loss, gradient = head_selection(scores, np.array([-1, 2, -1]))
    assert loss == 2000
    assert gradient[1].tolist() == [1, 0, -1]


def test_perceptron_is_never_below_zero():
    """Differences between trees that tie, of numbers that are rounded, may add up to less."""
    rng = rng_for("losses below zero")
    for n in (3, 4, 6, 9) * 5:
        scores = 0.1 * rng.integers(0, 4, size=(n + 1, n + 1))
        trees, totals = decode_kbest(scores, 20)
        for heads in trees[totals > totals[0] - 0.05]:
            for margin in (0.0, 0.1):
                loss, _ = perceptron(scores, heads, margin=margin)
                assert loss >= 0
                assert margin or loss < 1e-12
