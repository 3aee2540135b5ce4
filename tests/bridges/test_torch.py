"""Distributions and losses of tensors: kinds of trees × queries, next to the same over arrays.

Values equal the values over arrays, which tests/trees/test_grid.py compares with enumeration.
Derivatives equal the arrays' own where they have them, and finite differences of the values.
"""

import numpy as np
import pytest
import reference
from probability_cases import closed_pairs
from strategies import rng_for

import spacy_rootmind

torch = pytest.importorskip("torch", reason="needs torch, of the extra [torch]")
from spacy_rootmind import torch as tensors  # noqa: E402
from spacy_rootmind.trees.inference import Inference  # noqa: E402

LENGTHS = torch.tensor([4, 0, 1, 3, 2, 4])
WIDTH = 5
KINDS = {
    "single root": {},
    "any roots": {"single_root": False},
    "projective": {"projective": True},
}
QUERIES = {
    "log_partition": lambda trees: trees.log_partition,
    "marginals": lambda trees: trees.marginals,
    "entropy": lambda trees: trees.entropy(),
    "log_prob": lambda trees: trees.log_prob(like(trees, HEADS)),
    "log_prob of two": lambda trees: trees.log_prob(like(trees, PAIRS)),
    "kl_divergence": lambda trees: trees.kl_divergence(half_as_sure(trees)),
}
# Queries that have two derivatives.
TWICE = ("log_partition", "log_prob", "log_prob of two")

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
each_query = pytest.mark.parametrize("query", QUERIES)
each_narrow = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])


def make_batch(seed=0):
    """Scores with NaN where nobody may read and -inf for some arcs, and heads of possible trees."""
    rng = rng_for(f"torch {seed}")
    scores = np.full((len(LENGTHS), WIDTH, WIDTH), np.nan)
    forbidden, heads = rng.random(scores.shape) > 0.7, np.full(scores.shape[:2], -1)
    for own, holes, gold, n in zip(scores, forbidden, heads, LENGTHS.tolist(), strict=True):
        gold[1 : n + 1] = reference.random_projective_heads(rng, n, True)[1:]
        holes[np.arange(n + 1), gold[: n + 1]] = False
        inside = rng.standard_normal((n + 1, n + 1))
        own[: n + 1, : n + 1] = np.where(holes[: n + 1, : n + 1], -np.inf, inside)
        own[0] = np.nan
        np.fill_diagonal(own, np.nan)
    return torch.tensor(scores), torch.tensor(heads)


SCORES, HEADS = make_batch()
PAIRS = torch.stack([HEADS, make_batch(1)[1]], dim=1)
# Some of their heads are missing.
ARCS = torch.where((torch.arange(6)[:, None] + torch.arange(WIDTH)) % 3 == 0, HEADS, -1)


def like(trees, heads):
    """Heads of the class that a distribution takes, of its first sentence if it has only one."""
    heads = heads if trees.scores.ndim == 3 else heads[3, ..., : trees.scores.shape[-1]]
    return heads if isinstance(trees, tensors.TreeDistribution) else heads.numpy()


def half_as_sure(trees):
    """Another distribution over the same sentences."""
    is_tensor = isinstance(trees, tensors.TreeDistribution)
    own = (trees._trees if is_tensor else trees).sentences
    kind = {"single_root": own.single_root, "projective": own.projective}
    lengths = own.lengths if own.lengths.size > 1 else None
    return type(trees)(trees.scores / 2, lengths=lengths, **kind)


def distribution(scores, kind, **options):
    given = {"lengths": LENGTHS, **options}
    return tensors.TreeDistribution(scores, **given, **kind)


def of_arrays(scores, kind, **options):
    given = {"lengths": LENGTHS.numpy(), **options}
    return spacy_rootmind.TreeDistribution(scores.detach().numpy(), **given, **kind)


def leaf(scores):
    """Scores to differentiate by, without NaN, which finite differences would move."""
    return scores.detach().clone().nan_to_num(neginf=-torch.inf).requires_grad_()


def without_holes(scores):
    return scores.nan_to_num(neginf=-2.0)


# --- values and derivatives --------------------------------------------------------------------


@each_kind
@each_query
def test_values_are_those_of_arrays(query, kind):
    """With padding, an empty sentence and forbidden arcs; and of a sentence alone."""
    find = QUERIES[query]
    found, wanted = find(distribution(SCORES, kind)), find(of_arrays(SCORES, kind))
    assert (found.dtype, found.shape) == (torch.float64, wanted.shape)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-15)
    options = {"lengths": None}
    one = SCORES[3, :4, :4]
    np.testing.assert_allclose(
        find(distribution(one, kind, **options)), find(of_arrays(one, kind, **options)), atol=1e-15
    )


@each_kind
@each_query
def test_derivatives_match_finite_differences(query, kind):
    def find(scores):
        found = QUERIES[query](distribution(scores, kind))
        return torch.where(found > -torch.inf, found, 0.0)

    assert torch.autograd.gradcheck(find, leaf(SCORES))
    if query in TWICE:
        assert torch.autograd.gradgradcheck(find, leaf(SCORES))


@each_kind
@pytest.mark.parametrize("escape", [1.0, 100.0, 1000.0])
def test_derivatives_are_those_of_arrays_however_confident(escape, kind):
    """Words that prefer each other make the Laplacian singular to rounding."""
    rng = rng_for("torch confident", escape)
    scores = torch.tensor(closed_pairs(rng, 5, escape), requires_grad=True)
    values = torch.tensor(rng.standard_normal(scores.shape))
    trees = tensors.TreeDistribution(scores, **kind)
    arrays = spacy_rootmind.TreeDistribution(scores.detach().numpy(), **kind)
    for query, right in (
        (trees.log_partition, arrays.marginals),
        ((trees.marginals * values).sum(), arrays.expectation_gradient(values.numpy())),
        (trees.entropy(), -arrays.expectation_gradient(arrays.scores)),
    ):
        (found,) = torch.autograd.grad(query, scores)
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-14 * escape)


@each_kind
def test_loss_and_derivatives_are_those_of_arrays(kind):
    """With missing heads; a gradient follows the scores' strides, and is kept for a second call."""
    options = {"lengths": LENGTHS.numpy(), **kind}
    right, gradient = spacy_rootmind.tree_crf(SCORES.numpy(), ARCS.numpy(), **options)
    scores = SCORES.clone().requires_grad_()
    for own in (scores, scores.mT.contiguous().mT):
        loss = tensors.tree_crf(own, ARCS, lengths=LENGTHS, **kind)
        np.testing.assert_array_equal(loss.detach(), right)
        for _ in range(2):
            (found,) = torch.autograd.grad(loss.sum(), scores, retain_graph=True)
            np.testing.assert_array_equal(found, gradient)
    with pytest.raises(NotImplementedError, match=r"one derivative .* use TreeDistribution.log_p"):
        torch.autograd.grad(loss.sum(), scores, create_graph=True)
    with torch.no_grad():
        assert not tensors.tree_crf(scores, ARCS, lengths=LENGTHS).requires_grad

    def find(own):
        return tensors.tree_crf(own, ARCS, lengths=LENGTHS, **kind)

    assert torch.autograd.gradcheck(find, leaf(SCORES))


def test_divergence_is_infinite_where_trees_are_missing():
    scores = torch.zeros(2, 3, 3, requires_grad=True)
    others = scores.detach().clone()
    others[0, 1, 0] = -torch.inf
    found = tensors.TreeDistribution(scores).kl_divergence(tensors.TreeDistribution(others))
    assert found.tolist() == [torch.inf, 0.0]
    found.sum().backward()
    assert scores.grad[0].isnan().any()
    assert scores.grad[1].eq(0).all()


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_gradients_that_are_not_finite_give_nan(wrong):
    """In their own sentence alone, and not if they belong to an arc that cannot be."""
    scores = torch.randn(3, 4, 4, dtype=torch.float64)
    scores[1:, 2, 3] = -torch.inf
    scores.requires_grad_()
    marginals = tensors.TreeDistribution(scores).marginals
    finite = torch.randn(3, 4, 4, dtype=torch.float64)
    given = finite.clone()
    given[0, 3, 1] = given[1, 2, 3] = given[2, 0, 0] = wrong
    (found,) = torch.autograd.grad(marginals, scores, given, retain_graph=True)
    (wanted,) = torch.autograd.grad(marginals, scores, finite)
    assert torch.equal(found[1:], wanted[1:])
    assert torch.equal(found[0].isnan(), marginals[0] > 0)


def test_gradient_of_log_partition_needs_no_second_elimination(monkeypatch):
    scores = leaf(SCORES)
    log_z = distribution(scores, {}).log_partition
    monkeypatch.setattr(Inference, "_summarise", None)
    log_z.sum().backward()
    monkeypatch.undo()
    assert torch.equal(scores.grad, distribution(scores.detach(), {}).marginals)


@each_query
def test_further_derivatives_are_refused(query):
    scores = leaf(SCORES)
    found = QUERIES[query](distribution(scores, {}))
    total = torch.where(found > -torch.inf, found, 0.0).square().sum()
    (first,) = torch.autograd.grad(total, scores, create_graph=True)
    if query in TWICE:
        (first,) = torch.autograd.grad(first.square().sum(), scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="at most two derivatives"):
        torch.autograd.grad(first.square().sum(), scores)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, scores: torch.func.grad(lambda own: f(own).sum())(scores),
        lambda f, scores: torch.vmap(f)(scores.expand(2, 3, 3)),
        lambda f, scores: torch.autograd.functional.jacobian(f, scores, vectorize=True),
    ],
)
def test_transforms_are_refused(transform):
    with pytest.raises(RuntimeError):
        transform(lambda scores: tensors.TreeDistribution(scores).marginals, torch.zeros(3, 3))


# Warnings of torch about its own compiler, hidden by default.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore:.*should not be inst")
def test_compiled_functions_break_the_graph():
    """With the right numbers for other scores too; `fullgraph` is an error."""

    def function(scores):
        heads = torch.tensor([-1, 0, 1, 2])
        log_z = tensors.TreeDistribution(scores * 2).log_partition
        return log_z + tensors.tree_crf(scores, heads)

    compiled = torch.compile(function, backend="eager")
    for seed in (0, 1):
        scores = leaf(without_holes(make_batch(seed)[0][3, :4, :4]))
        again = leaf(scores)
        found, wanted = compiled(scores), function(again)
        found.backward()
        wanted.backward()
        assert torch.equal(found, wanted)
        assert torch.equal(scores.grad, again.grad)
    torch.compiler.reset()
    whole = torch.compile(function, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="spacy_rootmind"):
        whole(leaf(SCORES[3, :4, :4]))


# --- dtypes, strides, devices ------------------------------------------------------------------


@each_narrow
@pytest.mark.parametrize("query", [*QUERIES, "tree_crf"])
def test_narrow_numbers_are_rounded_once(query, dtype):
    """Numbers and gradients equal the results of the same scores in float64, rounded."""
    narrow = SCORES.to(dtype).requires_grad_()
    wide = narrow.detach().double().requires_grad_()
    if query in QUERIES:
        found, wanted = (QUERIES[query](distribution(own, {})) for own in (narrow, wide))
    else:
        found, wanted = (tensors.tree_crf(own, HEADS, lengths=LENGTHS) for own in (narrow, wide))
    (gradient,) = torch.autograd.grad(found.sum(), narrow)
    (expected,) = torch.autograd.grad(wanted.sum(), wide)
    assert found.dtype == gradient.dtype == dtype
    assert torch.equal(found, wanted.to(dtype))
    if query == "kl_divergence":
        # The gradients of both distributions are rounded, and then their sum.
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(gradient, expected.to(dtype), rtol=eps, atol=eps)
    elif dtype == torch.float32:
        torch.testing.assert_close(gradient, expected.to(dtype), rtol=0, atol=1e-7)
    else:
        assert torch.equal(gradient, expected.to(dtype))


def test_numbers_beyond_a_dtype_are_infinite():
    scores = torch.full((2, 4, 4), 3e4, dtype=torch.float16)
    scores[0] = 0
    trees = tensors.TreeDistribution(scores)
    assert trees.log_partition.isinf().tolist() == [False, True]
    assert trees.marginals.isfinite().all()


@pytest.mark.parametrize("query", ["log_partition", "marginals", "entropy"])
def test_strides_do_not_matter(query):
    """Transposed scores, and a row of scores repeated without copies."""
    rows = leaf(without_holes(SCORES[0]))
    for view in (
        lambda s: s.T,
        lambda s: s[:1].expand(5, 5),
        lambda s: s.expand(3, 5, 5),
        lambda s: s.repeat(2, 2)[::2, ::2],
    ):
        own, copied = view(rows), view(rows).clone()
        found, wanted = (QUERIES[query](tensors.TreeDistribution(s)) for s in (own, copied))
        assert torch.equal(found, wanted)
        first, second = (torch.autograd.grad(q.square().sum(), rows)[0] for q in (found, wanted))
        assert torch.equal(first, second)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_results_are_on_the_device_of_the_scores():
    scores = leaf(SCORES).detach().cuda().requires_grad_()
    trees = tensors.TreeDistribution(scores, lengths=LENGTHS)
    loss = trees.entropy() + tensors.tree_crf(scores, HEADS.cuda(), lengths=LENGTHS)
    loss.sum().backward()
    assert loss.device == scores.grad.device == scores.device
    assert trees.sample(2)[0].device == scores.device


# --- samples and the k best --------------------------------------------------------------------


def test_samples_follow_the_distribution_and_the_seed_of_torch():
    trees = tensors.TreeDistribution(leaf(SCORES[[0, 5]]))
    torch.manual_seed(0)
    first, _ = trees.sample(5000)
    again, _ = trees.sample(5000)
    torch.manual_seed(0)
    assert torch.equal(first, trees.sample(5000)[0])
    assert not torch.equal(first, again)
    arcs = torch.nn.functional.one_hot(first.clamp(min=0), 5).double().mean(dim=1)
    wanted = trees.marginals.detach()
    # Five standard errors: wrong once in a million.
    bound = 5 * (wanted * (1 - wanted) / 5000).sqrt() + 1e-12
    assert ((arcs - wanted)[:, 1:].abs() <= bound[:, 1:]).all()


def test_samples_follow_a_generator():
    trees = tensors.TreeDistribution(SCORES[0])
    state = torch.get_rng_state()
    draws = [
        trees.sample(50, generator=torch.Generator().manual_seed(seed))[0] for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), state)


@each_kind
@pytest.mark.parametrize("query", ["sample", "k_best"])
def test_trees_have_the_axes_of_the_class_over_arrays(query, kind):
    """The k trees of a sentence follow each other; rows without a tree are behind the last."""
    for scores, lengths in [(SCORES[0], 3), (SCORES[:4], LENGTHS[:4]), (SCORES[:0], LENGTHS[:0])]:
        shape, scores = scores.shape[:-2], leaf(scores)
        trees = tensors.TreeDistribution(scores, lengths=lengths, **kind)
        arrays = spacy_rootmind.TreeDistribution(
            scores.detach().numpy(), lengths=np.asarray(lengths), **kind
        )
        options = {"replace": False} if query == "sample" else {}
        heads, log_probs = getattr(trees, query)(30, **options)
        wanted = getattr(arrays, query)(30, **options)
        assert (heads.shape, log_probs.shape) == (wanted.heads.shape, wanted.scores.shape)
        assert heads.dtype == torch.int64
        assert torch.equal(trees.mode, torch.tensor(arrays.mode).long())
        exists = log_probs > -torch.inf
        assert np.array_equal(exists, wanted.scores > -np.inf)
        assert (heads[~exists] == -1).all()
        if query == "k_best":
            assert np.array_equal(heads, wanted.heads)
            np.testing.assert_array_equal(log_probs.detach(), wanted.scores)
        assert torch.equal(trees.log_prob(heads)[exists], log_probs[exists])
        (gradient,) = torch.autograd.grad(log_probs.exp().sum(), scores)
        assert gradient.isfinite().all()
        assert heads.shape[-2:] == (len(wanted.heads) if not shape else 30, 5)


# --- arguments ---------------------------------------------------------------------------------


def test_lengths_may_be_a_list_or_an_array():
    wanted = tensors.TreeDistribution(SCORES, lengths=LENGTHS).entropy()
    for lengths in (LENGTHS.tolist(), LENGTHS.numpy()):
        assert torch.equal(tensors.TreeDistribution(SCORES, lengths=lengths).entropy(), wanted)


ZEROS, GOLD = torch.zeros(2, 4, 4), torch.tensor([[-1, 0, 1, 2], [-1, 2, 0, 2]])
TREES = tensors.TreeDistribution(ZEROS)
CYCLE = torch.tensor([[-1, 0, 1, 2], [-1, 2, 1, 0]])


def make(*arguments, **options):
    return tensors.TreeDistribution(*arguments, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: make(ZEROS.long()), TypeError, "received int64; convert"),
        (lambda: make(ZEROS.to_sparse()), TypeError, r"to_dense\(\)"),
        (lambda: make(torch.zeros(3, 4)), ValueError, r"received \(3, 4\)"),
        (lambda: make(ZEROS, lengths=[3, 4]), ValueError, "0 to 3, received 4"),
        (lambda: TREES.log_prob(GOLD[:, :3]), ValueError, r"\(2, k, 4\) .* received \(2, 3\)"),
        (lambda: TREES.kl_divergence(ZEROS), TypeError, "a TreeDistribution, received Tensor"),
        (lambda: TREES.kl_divergence(make(ZEROS[0])), ValueError, r"received shape \(4, 4\)"),
        (lambda: tensors.tree_crf(ZEROS, GOLD + 2), ValueError, "sentence 0: word 3 has head 4"),
        (lambda: tensors.tree_crf(ZEROS, CYCLE), ValueError, r"sentence 1: .*mark .* missing"),
        (lambda: spacy_rootmind.decode(ZEROS), TypeError, "functions of spacy_rootmind.torch"),
    ],
)
def test_errors_name_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_results_are_for_their_owner_to_change():
    trees = tensors.TreeDistribution(SCORES, lengths=LENGTHS)
    wanted = [trees.marginals.clone(), trees.log_partition.clone()]
    trees.marginals.zero_()
    trees.log_partition.zero_()
    assert torch.equal(trees.marginals, wanted[0])
    assert torch.equal(trees.log_partition, wanted[1])


def test_names_and_kinds_are_those_over_arrays():
    # Expectations have gradients by torch.autograd here.
    arrays_alone = {"expectation_gradient"}
    ours, theirs = spacy_rootmind.TreeDistribution, tensors.TreeDistribution
    own = {name for name in dir(ours) if name[0] != "_"}
    other = {"scores", *(name for name in dir(theirs) if name[0] != "_")}
    assert own - other == arrays_alone
    assert other <= own
    for name in other - {"scores"}:
        of_ours, of_theirs = (isinstance(getattr(cls, name), property) for cls in (ours, theirs))
        assert of_ours == of_theirs, name
    assert repr(TREES) == "TreeDistribution(scores of shape (2, 4, 4), single_root=True)"


# --- other packages ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")
@pytest.mark.parametrize("multiroot", [True, False])
def test_marginals_are_those_of_torch_struct(multiroot):
    """Torch-Struct adds 1e-5 to each weight, which shows in the digits beyond."""
    torch_struct = pytest.importorskip("torch_struct", reason="needs torch-struct")
    scores = without_holes(SCORES[[0, 5]])
    # Its rows are heads, and root scores are on the diagonal.
    potentials = scores[:, 1:, 1:].transpose(1, 2).clone()
    potentials.diagonal(0, 1, 2).copy_(scores[:, 1:, 0])
    theirs = torch_struct.NonProjectiveDependencyCRF(potentials.float(), multiroot=multiroot)
    ours = tensors.TreeDistribution(scores.float(), single_root=not multiroot).marginals
    found = ours[:, 1:, 1:].transpose(1, 2).clone()
    found.diagonal(0, 1, 2).copy_(ours[:, 1:, 0])
    torch.testing.assert_close(found, theirs.marginals, rtol=0, atol=1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("multiroot", [True, False])
def test_queries_are_those_of_supar(multiroot):
    structs = pytest.importorskip("supar.structs", reason="needs supar")
    scores, others = (without_holes(make_batch(seed)[0][[0, 3]]) for seed in (0, 1))
    lengths = LENGTHS[[0, 3]]
    theirs, other = (
        structs.MatrixTree(own.requires_grad_(), lengths, multiroot=multiroot)
        for own in (scores, others)
    )
    kind = {"lengths": lengths, "single_root": not multiroot}
    ours, second = (tensors.TreeDistribution(own, **kind) for own in (scores, others))
    torch.testing.assert_close(ours.entropy().float(), theirs.entropy.float(), rtol=0, atol=1e-5)
    divergence = ours.kl_divergence(second).float()
    torch.testing.assert_close(divergence, theirs.kl(other).float(), rtol=0, atol=1e-5)


def test_scores_may_be_changed_after_a_loss():
    scores = ZEROS.clone().requires_grad_()
    masked = scores * 1.0
    loss = tensors.tree_crf(masked, GOLD)
    masked.masked_fill_(torch.ones_like(masked, dtype=torch.bool), 5.0)
    loss.sum().backward()
    again = ZEROS.clone().requires_grad_()
    tensors.tree_crf(again, GOLD).sum().backward()
    assert torch.equal(scores.grad, again.grad)
