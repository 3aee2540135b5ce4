"""Functions of tensors and their derivatives, against enumeration and other packages."""

import functools
import itertools

import numpy as np
import pytest
import reference
from probability_cases import closed_pairs, scaled
from strategies import rng_for

import spacy_rootmind

torch = pytest.importorskip("torch", reason="needs torch, of the extra [torch]")
from spacy_rootmind import torch as tensors  # noqa: E402
from spacy_rootmind.trees.inference import Inference  # noqa: E402

ONE = ("log_partition", "arc_marginals", "entropy")
# And the query of two scores.
QUERIES = (*ONE, "kl_divergence")
each_query = pytest.mark.parametrize("query", QUERIES)
each_of_one = pytest.mark.parametrize("name", ONE)
each_root = pytest.mark.parametrize("single_root", [True, False])


def random_scores(*shape, seed=0, scale=1.0, holes=0.0):
    """Normal scores, with -inf at a rate around a tree, and NaN where nobody may read."""
    rng = rng_for(f"torch {shape} {seed}")
    n = shape[-1] - 1
    batch = [scaled(rng, n, scale, holes=holes) for _ in range(int(np.prod(shape[:-2])))]
    return torch.tensor(np.array(batch).reshape(shape), requires_grad=True)


def check_scores(*shape, seed=0):
    """Scores for finite differences, which are taken at every element."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)


def arguments_of(query, make, *shape, **settings):
    """Make the scores that a query takes: one or two."""
    count = 1 + (query == "kl_divergence")
    return [make(*shape, seed=seed, **settings) for seed in range(count)]


class Enumeration:
    """The functions of one sentence, over the list of its trees, differentiated by torch."""

    def __init__(self, n, single_root):
        trees = torch.tensor(reference.enumerate_trees(n, single_root), dtype=torch.int64)
        arcs = torch.nn.functional.one_hot(trees.clamp(min=0), n + 1).double()
        arcs[:, 0] = 0
        self.arcs = arcs

    def log_probs(self, scores):
        possible = self.arcs.any(dim=0) & (scores > -torch.inf)
        sound = (self.arcs * ~possible).sum(dim=(1, 2)) == 0
        totals = (self.arcs * torch.where(possible, scores, 0.0)).sum(dim=(1, 2))
        totals = torch.where(sound, totals, -torch.inf)
        return totals - totals.logsumexp(dim=0), totals

    def log_partition(self, scores):
        return self.log_probs(scores)[1].logsumexp(dim=0)

    def arc_marginals(self, scores):
        log_probs, _ = self.log_probs(scores)
        return (self.arcs * log_probs.exp()[:, None, None]).sum(dim=0)

    def entropy(self, scores):
        return self.kl_divergence(scores, None)

    def kl_divergence(self, scores, others):
        own = self.log_probs(scores)[0]
        there = own > -torch.inf
        finite = torch.where(there, own, 0.0)
        if others is None:
            return -(torch.where(there, own.exp(), 0.0) * finite).sum()
        other = torch.where(there, self.log_probs(others)[0], 0.0)
        return (torch.where(there, own.exp(), 0.0) * (finite - other)).sum()


def derivatives(function, *inputs, twice=False):
    """The value, the gradient and, if wanted, the gradient of the gradient of a functional."""
    value = function(*inputs)
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(value.shape, generator=generator, dtype=value.dtype)
    first = torch.autograd.grad((value * direction).sum(), inputs, create_graph=twice)
    if not twice:
        return [value, *first]
    ways = [torch.randn(g.shape, generator=generator, dtype=g.dtype) for g in first]
    total = sum((g * way).sum() for g, way in zip(first, ways, strict=True))
    second = torch.autograd.grad(total, inputs, allow_unused=True)
    return [value, *first, *second]


# --- derivatives -------------------------------------------------------------------------------


def confident(escape):
    """Words that prefer each other make the Laplacian singular to rounding."""
    return torch.tensor(closed_pairs(rng_for("torch pairs"), 5, escape), requires_grad=True)


def beyond_float64():
    """Weights from exp(-3000) on, all of which count once the others cancel."""
    scores = torch.zeros(4, 4, dtype=torch.float64)
    scores[1, [0, 3]] = scores[2, [0, 3]] = -3000
    scores[3, 0] = scores[3, 1] = -1500
    return scores.requires_grad_()


CASES = [
    *itertools.product(ONE, [(1, 0.0), (2, 0.0), (3, 0.3), (5, 0.0), (5, 0.3)]),
    *(("kl_divergence", (n, 0.0)) for n in (2, 4)),
    *(("arc_marginals", confident(escape)) for escape in (1.0, 100.0, 1000.0)),
    *((name, beyond_float64()) for name in ONE),
]


@each_root
@pytest.mark.parametrize(("query", "case"), CASES, ids=range(len(CASES)))
def test_derivatives_match_enumeration(query, case, single_root):
    """Second ones of the log partition as well."""
    if isinstance(case, tuple):
        n, holes = case
        inputs = arguments_of(query, random_scores, n + 1, n + 1, holes=holes)
    else:
        inputs = [case]
    ours = functools.partial(getattr(tensors, query), single_root=single_root)
    oracle = getattr(Enumeration(len(inputs[0]) - 1, single_root), query)
    twice = query == "log_partition"
    found, wanted = (derivatives(one, *inputs, twice=twice) for one in (ours, oracle))
    largest = inputs[0].detach().nan_to_num(0, 0, 0).abs().max().item()
    for result, expected in zip(found, wanted, strict=True):
        rtol = 1e-11 if largest >= 1500 else 0
        torch.testing.assert_close(result, expected, rtol=rtol, atol=1e-15 * max(largest, 1000))


@pytest.mark.parametrize("kind", [{}, {"single_root": False}, {"projective": True}], ids=str)
@each_query
def test_gradcheck(query, kind):
    """With padding, a forbidden arc and an empty sentence."""
    options = {"lengths": torch.tensor([3, 2, 0]), **kind}
    if query in ONE:
        options["allowed"] = torch.ones(3, 4, 4, dtype=torch.bool)
        options["allowed"][0, 2, 1] = False
    function = functools.partial(getattr(tensors, query), **options)
    inputs = arguments_of(query, check_scores, 3, 4, 4)
    assert torch.autograd.gradcheck(function, inputs)
    if query == "log_partition":
        assert torch.autograd.gradgradcheck(function, inputs)


@each_root
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_gradients_that_are_not_finite_give_nan(wrong, single_root):
    """In their own sentence alone, and not if they belong to an arc that cannot be."""
    scores = random_scores(3, 4, 4).detach()
    scores[1:, 2, 3] = -torch.inf
    scores.requires_grad_()
    marginals = tensors.arc_marginals(scores, single_root=single_root)
    finite = torch.randn(3, 4, 4, dtype=torch.float64)
    given = finite.clone()
    given[0, 3, 1] = given[1, 2, 3] = given[2, 0, 0] = wrong
    (found,) = torch.autograd.grad(marginals, scores, given, retain_graph=True)
    (wanted,) = torch.autograd.grad(marginals, scores, finite)
    assert torch.equal(found[1:], wanted[1:])
    assert torch.equal(found[0].isnan(), marginals[0] > 0)
    assert found[0].nan_to_num().eq(0).all()


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_gradients_may_have_any_size(size):
    scores = random_scores(4, 4)
    marginals = tensors.arc_marginals(scores)
    given = torch.rand(4, 4, dtype=torch.float64)
    (wanted,) = torch.autograd.grad(marginals, scores, given, retain_graph=True)
    (found,) = torch.autograd.grad(marginals, scores, given * size)
    torch.testing.assert_close(found / size, wanted, rtol=1e-12, atol=1e-13)


def test_gradient_of_log_partition_needs_no_second_elimination(monkeypatch):
    scores = random_scores(2, 6, 6)
    log_z = tensors.log_partition(scores)
    monkeypatch.setattr(Inference, "_summarise", None)
    log_z.sum().backward()
    monkeypatch.undo()
    assert torch.equal(scores.grad, tensors.arc_marginals(scores.detach()))


def test_second_derivatives_keep_to_the_graph_of_the_scores():
    """Through parameters that scores are made of, as in training."""
    weights = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    features = check_scores(2, 5, 5).detach()

    def log_partition_of(weight):
        return tensors.log_partition(weight * features).sum()

    assert torch.autograd.gradcheck(log_partition_of, weights)
    assert torch.autograd.gradgradcheck(log_partition_of, weights)


@each_root
@pytest.mark.parametrize(
    ("query", "derive"), [("log_partition", "hessian"), ("arc_marginals", "jacobian")]
)
def test_derivatives_in_all_directions_match_enumeration(query, derive, single_root):
    scores = check_scores(4, 4).detach()
    ours = functools.partial(getattr(tensors, query), single_root=single_root)
    oracle = getattr(Enumeration(3, single_root), query)
    derive = getattr(torch.autograd.functional, derive)
    torch.testing.assert_close(derive(ours, scores), derive(oracle, scores), rtol=0, atol=1e-13)


@each_query
def test_further_derivatives_are_refused(query):
    """Third derivatives of the log partition, and second ones of its own derivatives."""
    inputs = arguments_of(query, check_scores, 3, 3)
    function = getattr(tensors, query)

    def gradient(*scores):
        total = function(*scores).square().sum()
        return torch.autograd.grad(total, scores, create_graph=True)[0]

    with pytest.raises(NotImplementedError, match="at most two derivatives"):
        derivatives(gradient if query == "log_partition" else function, *inputs, twice=True)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, scores: torch.func.grad(lambda own: f(own).sum())(scores),
        lambda f, scores: torch.vmap(f)(scores.expand(2, 3, 3)),
        lambda f, scores: torch.autograd.functional.jacobian(f, scores, vectorize=True),
    ],
)
def test_transforms_are_refused(transform):
    with pytest.raises(RuntimeError, match=r"not available; use torch\.autograd"):
        transform(tensors.arc_marginals, torch.zeros(3, 3))


# Warnings of torch about its own compiler, hidden by default.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore:.*should not be inst")
def test_compiled_functions_break_the_graph():
    """With the right numbers for other scores too; `fullgraph` is an error."""

    def function(scores):
        heads = torch.tensor([-1, 0, 1, 2])
        return tensors.log_partition(scores * 2) + tensors.tree_crf(scores, heads)

    compiled = torch.compile(function, backend="eager")
    for seed in (0, 1):
        scores, again = check_scores(4, 4, seed=seed), check_scores(4, 4, seed=seed)
        found, wanted = compiled(scores), function(again)
        found.backward()
        wanted.backward()
        assert torch.equal(found, wanted)
        assert torch.equal(scores.grad, again.grad)
    torch.compiler.reset()
    whole = torch.compile(function, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="spacy_rootmind"):
        whole(check_scores(4, 4))


# --- arguments: shapes, lengths, dtypes, strides -----------------------------------------------


@each_of_one
def test_sentences_of_a_batch_are_as_alone(name):
    """Padding and all that nobody may read hold NaN, and get gradient 0."""
    lengths = [4, 2, 0, 3]
    batch = torch.full((4, 5, 5), torch.nan, dtype=torch.float64)
    for row, n in zip(batch, lengths, strict=True):
        row[: n + 1, : n + 1] = random_scores(n + 1, n + 1).detach()
    batch.requires_grad_()
    function = getattr(tensors, name)
    found = function(batch, lengths=torch.tensor(lengths), num_threads=2)
    found.square().sum().backward()
    for sentence, n in enumerate(lengths):
        alone = batch[sentence, : n + 1, : n + 1].detach().requires_grad_()
        value = function(alone)
        value.square().sum().backward()
        own = found[sentence, : n + 1, : n + 1] if found.ndim == 3 else found[sentence]
        torch.testing.assert_close(own, value, rtol=0, atol=0)
        grad = batch.grad[sentence]
        torch.testing.assert_close(grad[: n + 1, : n + 1], alone.grad, rtol=0, atol=1e-12)
        assert grad[n + 1 :].eq(0).all()
        assert grad[:, n + 1 :].eq(0).all()


@each_of_one
def test_results_are_those_of_arrays(name):
    """Also without any sentence or word."""
    function = getattr(tensors, name)
    scores, lengths = check_scores(3, 4, 4).detach(), torch.tensor([3, 0, 2])
    wanted = getattr(spacy_rootmind, name)(scores.numpy(), lengths=lengths.numpy())
    assert np.array_equal(function(scores, lengths=lengths).numpy(), wanted)
    for shape in [(0, 4, 4), (2, 1, 1), (1, 1)]:
        nothing = torch.zeros(shape, requires_grad=True)
        function(nothing).sum().backward()
        assert nothing.grad.tolist() == torch.zeros(shape).tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@each_of_one
def test_narrow_numbers_are_rounded_once(name, dtype):
    """Numbers and gradients equal the results of the same scores in float64, rounded."""
    narrow = check_scores(3, 5, 5).detach().to(dtype).requires_grad_()
    wide = narrow.detach().double().requires_grad_()
    function = functools.partial(getattr(tensors, name), lengths=torch.tensor([4, 3, 0]))
    found, wanted = function(narrow), function(wide)
    (gradient,) = torch.autograd.grad(found.sum(), narrow)
    (expected,) = torch.autograd.grad(wanted.sum(), wide)
    assert found.dtype == gradient.dtype == dtype
    assert torch.equal(found, wanted.to(dtype))
    if dtype == torch.float32:
        torch.testing.assert_close(gradient, expected.to(dtype), rtol=0, atol=1e-7)
    else:
        assert torch.equal(gradient, expected.to(dtype))


def test_numbers_beyond_a_dtype_are_infinite():
    scores = torch.full((2, 4, 4), 3e4, dtype=torch.float16)
    scores[0] = 0
    assert tensors.log_partition(scores).isinf().tolist() == [False, True]
    assert tensors.arc_marginals(scores).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_strides_do_not_matter(dtype):
    """Transposed scores, and a row of scores repeated without copies."""
    rows = check_scores(4, 4).detach().to(dtype).requires_grad_()
    for view in (
        lambda s: s.T,
        lambda s: s[:1].expand(4, 4),
        lambda s: s.expand(3, 4, 4),
        lambda s: s.repeat(2, 2)[::2, ::2],
    ):
        for name in ONE:
            function = getattr(tensors, name)
            (found,) = torch.autograd.grad(function(view(rows)).square().sum(), rows)
            copied = view(rows).clone()
            (wanted,) = torch.autograd.grad(function(copied).square().sum(), rows)
            assert torch.equal(function(view(rows)), function(copied))
            assert torch.equal(found, wanted)


@pytest.mark.parametrize("flag", [True, False])
def test_flags_of_numpy_count_in_all_derivatives(flag):
    scores = check_scores(4, 4).detach()

    def second(single_root):
        query = functools.partial(tensors.log_partition, single_root=single_root)
        return torch.autograd.functional.hessian(query, scores)

    assert torch.equal(second(np.bool_(flag)), second(flag))
    for wrong in ("no", None, 1):
        with pytest.raises(TypeError, match="expected single_root as True or False, received"):
            tensors.log_partition(scores, single_root=wrong)


def test_lengths_may_be_numbers_lists_and_arrays():
    scores = random_scores(2, 4, 4).detach()
    wanted = tensors.entropy(scores, lengths=torch.tensor([3, 2]))
    for lengths in ([3, 2], np.array([3, 2])):
        assert torch.equal(tensors.entropy(scores, lengths=lengths), wanted)
    for length in (2, torch.tensor(2), torch.tensor([2])):
        assert torch.equal(tensors.entropy(scores[1], lengths=length), wanted[1])


def test_divergence_is_infinite_where_trees_are_missing():
    scores = check_scores(2, 3, 3)
    others = scores.detach().clone()
    others[0, 1, 0] = -torch.inf
    found = tensors.kl_divergence(scores, others)
    assert found.tolist() == [torch.inf, 0.0]
    found.sum().backward()
    assert scores.grad[0].isnan().any()
    assert scores.grad[1].eq(0).all()


def test_divergence_ignores_impossible_arcs_of_the_other():
    """An arc that no tree can have does not count, whatever the other distribution says of it."""
    scores = torch.tensor(
        [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0]], dtype=torch.float64
    )
    scores[1, 1:] = -torch.inf
    scores.requires_grad_()
    others = scores.detach().clone()
    others[2, 0] = -torch.inf
    found = tensors.kl_divergence(scores, others)
    found.backward()
    assert found.item() == pytest.approx(0.0, abs=1e-15)
    assert scores.grad.abs().max() < 1e-15


ZEROS = torch.zeros(3, 3)
NAN = torch.zeros(2, 3, 3)
NAN[1, 2, 1] = torch.nan
WRONG = [
    ((np.zeros((3, 3)),), {}, TypeError, r"torch tensor, received ndarray"),
    ((ZEROS.long(),), {}, TypeError, r"received torch.int64; convert .* scores.float"),
    ((ZEROS.to_sparse(),), {}, TypeError, r"to_dense\(\)"),
    ((ZEROS.to("meta"),), {}, NotImplementedError, "meta"),
    ((torch.zeros(3, 4),), {}, ValueError, r"shape \(n \+ 1, n \+ 1\) or .*, received \(3, 4\)"),
    (
        *((ZEROS,), {"allowed": torch.ones(2, 3, dtype=torch.bool)}),
        *(ValueError, r"shape of scores, \(3, 3\), received \(2, 3\)"),
    ),
    ((ZEROS,), {"allowed": ZEROS.long()}, TypeError, "dtype bool, received int64"),
    *(
        ((ZEROS[None],), {"lengths": lengths}, TypeError, r"lengths as integers, received dtype")
        for lengths in (torch.tensor([2.0]), [2.0])
    ),
    (
        *((torch.zeros(2, 4, 4), torch.zeros(3, 4, 4)), {}),
        *(ValueError, r"scores of shape \(2, 4, 4\), received \(3, 4, 4"),
    ),
    ((NAN,), {}, ValueError, r"sentence 1: the score of dep 2, head 1 is nan"),
    ((ZEROS - torch.inf,), {}, spacy_rootmind.NoTreeError, "sentence 0"),
]


@pytest.mark.parametrize(("inputs", "options", "error", "match"), WRONG, ids=range(len(WRONG)))
def test_errors_name_what_is_wrong(inputs, options, error, match):
    function = tensors.entropy if len(inputs) == 1 else tensors.kl_divergence
    with pytest.raises(error, match=match):
        function(*inputs, **options)


def test_results_are_for_their_owner_to_change():
    scores = check_scores(2, 4, 4).detach()
    trees = tensors.TreeDistribution(scores)
    wanted = trees.marginals.clone()
    trees.marginals.zero_()
    trees.log_partition.zero_()
    assert torch.equal(trees.marginals, wanted)
    assert torch.equal(trees.log_partition, tensors.log_partition(scores))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_results_are_on_the_device_of_the_scores():
    scores = random_scores(2, 5, 5).detach().cuda().requires_grad_()
    found = tensors.entropy(scores, lengths=torch.tensor([4, 2]))
    found.sum().backward()
    assert found.device == scores.grad.device == scores.device
    assert tensors.TreeDistribution(scores).sample(2)[0].device == scores.device


# --- other packages ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")
@pytest.mark.parametrize("multiroot", [True, False])
def test_marginals_are_those_of_torch_struct(multiroot):
    """Torch-Struct adds 1e-5 to each weight, which shows in the digits beyond."""
    torch_struct = pytest.importorskip("torch_struct", reason="needs torch-struct")
    scores = random_scores(2, 6, 6).detach().nan_to_num()
    # Its rows are heads, and root scores are on the diagonal.
    potentials = scores[:, 1:, 1:].transpose(1, 2).clone()
    potentials.diagonal(0, 1, 2).copy_(scores[:, 1:, 0])
    theirs = torch_struct.NonProjectiveDependencyCRF(potentials.float(), multiroot=multiroot)
    ours = tensors.arc_marginals(scores.float(), single_root=not multiroot)
    found = ours[:, 1:, 1:].transpose(1, 2).clone()
    found.diagonal(0, 1, 2).copy_(ours[:, 1:, 0])
    torch.testing.assert_close(found, theirs.marginals, rtol=0, atol=1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("multiroot", [True, False])
def test_queries_are_those_of_supar(multiroot):
    structs = pytest.importorskip("supar.structs", reason="needs supar")
    scores = random_scores(2, 6, 6).detach().nan_to_num().requires_grad_()
    others = random_scores(2, 6, 6, seed=1).detach().nan_to_num()
    lengths = torch.tensor([5, 3])
    theirs = structs.MatrixTree(scores, lengths, multiroot=multiroot)
    other = structs.MatrixTree(others, lengths, multiroot=multiroot)
    ours = functools.partial(tensors.entropy, lengths=lengths, single_root=not multiroot)
    torch.testing.assert_close(ours(scores).float(), theirs.entropy.float(), rtol=0, atol=1e-5)
    divergence = tensors.kl_divergence(scores, others, lengths=lengths, single_root=not multiroot)
    torch.testing.assert_close(divergence.float(), theirs.kl(other).float(), rtol=0, atol=1e-5)
