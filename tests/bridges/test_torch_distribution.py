"""The distribution as one of torch.distributions."""

import copy
import pickle
from inspect import signature

import numpy as np
import pytest
import reference

import spacy_rootmind

torch = pytest.importorskip("torch", reason="needs torch, of the extra [torch]")
from spacy_rootmind import torch as tensors  # noqa: E402


def make_scores(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("single_root", [True, False])
def test_log_probs_are_those_of_all_trees(single_root):
    scores = make_scores(2, 4, 4)
    trees = tensors.TreeDistribution(scores, single_root=single_root)
    every = torch.tensor(reference.enumerate_trees(3, single_root))
    log_probs = trees.log_prob(every[:, None].expand(-1, 2, -1))
    assert log_probs.shape == (len(every), 2)
    torch.testing.assert_close(log_probs.exp().sum(dim=0), torch.ones(2).double())
    torch.testing.assert_close(-(log_probs.exp() * log_probs).sum(dim=0), trees.entropy())
    assert torch.equal(log_probs.max(dim=0).values, trees.log_prob(trees.mode))


def test_queries_are_those_of_the_functions():
    scores, others = make_scores(2, 5, 5), make_scores(2, 5, 5, seed=1)
    lengths = torch.tensor([4, 2])
    trees = tensors.TreeDistribution(scores, lengths=lengths)
    other = tensors.TreeDistribution(others, lengths=lengths)
    assert torch.equal(trees.log_partition, tensors.log_partition(scores, lengths=lengths))
    assert torch.equal(trees.marginals, tensors.arc_marginals(scores, lengths=lengths))
    assert torch.equal(trees.entropy(), tensors.entropy(scores, lengths=lengths))
    divergence = torch.distributions.kl_divergence(trees, other)
    torch.testing.assert_close(divergence, tensors.kl_divergence(scores, others, lengths=lengths))
    wanted = spacy_rootmind.decode(scores.detach().numpy(), lengths=lengths.numpy())
    assert np.array_equal(trees.mode.numpy(), wanted)
    assert repr(trees) == "TreeDistribution(2 sentences of up to 4 words, single_root=True)"


def test_divergence_of_kinds_of_trees():
    """Single-root trees are some of all trees, so the divergence is minus the log of a share."""
    scores = make_scores(4, 4)
    one = tensors.TreeDistribution(scores)
    every = tensors.TreeDistribution(scores, single_root=False)
    found = torch.distributions.kl_divergence(one, every)
    torch.testing.assert_close(found, every.log_partition - one.log_partition)
    gradient = torch.autograd.grad(found, scores)[0]
    torch.testing.assert_close(gradient, every.marginals - one.marginals)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_shapes(shape):
    trees = tensors.TreeDistribution(make_scores(*shape, 4, 4))
    assert trees.batch_shape == shape
    assert trees.event_shape == (4,)
    assert trees.entropy().shape == trees.log_partition.shape == shape
    for outer in [(), (3,), (2, 3), (0,)]:
        heads = trees.sample(outer)
        assert heads.shape == (*outer, *shape, 4)
        assert heads.dtype == torch.int64
        assert trees.log_prob(heads).shape == (*outer, *shape)


def test_gradient_of_log_prob():
    scores = make_scores(2, 4, 4)
    lengths = torch.tensor([3, 2])
    heads = tensors.TreeDistribution(scores, lengths=lengths).sample((2,))

    def log_prob(given):
        return tensors.TreeDistribution(given, lengths=lengths).log_prob(heads)

    assert torch.autograd.gradcheck(log_prob, scores)
    assert torch.autograd.gradgradcheck(log_prob, scores)


def test_samples_follow_the_distribution_and_the_seed_of_torch():
    trees = tensors.TreeDistribution(make_scores(2, 4, 4))
    torch.manual_seed(0)
    first = trees.sample((5000,))
    again = trees.sample((5000,))
    torch.manual_seed(0)
    assert torch.equal(first, trees.sample((5000,)))
    assert not torch.equal(first, again)
    arcs = torch.nn.functional.one_hot(first.clamp(min=0), 4).double().mean(dim=0)
    wanted = trees.marginals.detach()
    # Five standard errors: wrong once in a million.
    bound = 5 * (wanted * (1 - wanted) / 5000).sqrt() + 1e-12
    assert ((arcs - wanted)[:, 1:].abs() <= bound[:, 1:]).all()


# --- support -----------------------------------------------------------------------------------


def every_head(n):
    """All heads of n words, in order, with -1 at index 0."""
    heads = torch.cartesian_prod(*n * [torch.arange(n + 1)]).reshape(-1, n)
    return torch.nn.functional.pad(heads, (1, 0), value=-1)


@pytest.mark.parametrize("single_root", [True, False])
def test_support_is_where_trees_have_a_probability(single_root):
    """Every choice of heads, with padding, a forbidden arc and one of score -inf."""
    scores = make_scores(3, 4, 4).detach()
    scores[0, 2, 1] = -torch.inf
    allowed = torch.ones(3, 4, 4, dtype=torch.bool)
    allowed[1, 1, 0] = False
    trees = tensors.TreeDistribution(
        scores, lengths=torch.tensor([3, 3, 2]), allowed=allowed, single_root=single_root
    )
    heads = every_head(3)[:, None].expand(-1, 3, -1).clone()
    heads[:, 2, 1:3] = heads[:, 2, 1:3].clamp(max=2)
    support = trees.support
    assert isinstance(support, torch.distributions.constraints.Constraint)
    assert support.is_discrete
    assert support.event_dim == 1
    found = support.check(heads)
    assert found.shape == (64, 3)
    assert torch.equal(found, trees.log_prob(heads) > -torch.inf)
    assert found.any(dim=0).all()
    # ROOT has no head; whatever the padding holds.
    trees_alone = heads[found[:, 0], 0]
    trees_alone[:, 0] = 0
    alone = tensors.TreeDistribution(scores[0], single_root=single_root)
    assert not alone.support.check(trees_alone).any()
    heads[:, 2, 3] = 99
    assert torch.equal(support.check(heads)[:, 2], found[:, 2])


def test_heads_outside_the_support_are_refused_if_arguments_are_validated():
    scores = make_scores(4, 4)
    cycle = torch.tensor([-1, 2, 1, 0])
    assert tensors.TreeDistribution(scores).log_prob(cycle) == -torch.inf
    trees = tensors.TreeDistribution(scores, validate_args=True)
    with pytest.raises(ValueError, match="to be within the support"):
        trees.log_prob(cycle)
    heads = trees.sample((20,))
    assert torch.equal(trees.log_prob(heads), tensors.TreeDistribution(scores).log_prob(heads))
    with pytest.raises(ValueError, match="to be within the support"):
        trees.expand((2,)).log_prob(cycle.expand(2, -1))


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_enumerated_support_is_all_trees(n, single_root):
    trees = tensors.TreeDistribution(make_scores(2, n + 1, n + 1), single_root=single_root)
    heads = trees.enumerate_support()
    wanted = reference.enumerate_trees(n, single_root)
    assert heads.dtype == torch.int64
    assert heads.shape == (len(wanted), 2, n + 1)
    for sentence in range(2):
        assert sorted(heads[:, sentence].tolist()) == sorted(wanted.tolist())
    torch.testing.assert_close(trees.log_prob(heads).exp().sum(dim=0), torch.ones(2).double())
    narrow = trees.enumerate_support(expand=False)
    assert narrow.shape == (len(wanted), 1, n + 1)
    assert torch.equal(narrow.expand(-1, 2, -1), heads)


def test_enumerated_support_has_only_possible_trees():
    scores = make_scores(4, 4).detach()
    scores[1, 0] = -torch.inf
    trees = tensors.TreeDistribution(scores)
    heads = trees.enumerate_support()
    assert (heads[:, 1] != 0).all()
    assert len(heads) == 6
    torch.testing.assert_close(trees.log_prob(heads).exp().sum(), torch.tensor(1.0).double())
    # Many words, but few trees.
    allowed = torch.zeros(31, 31, dtype=torch.bool)
    allowed[range(1, 31), range(30)] = allowed[30, 28] = True
    chains = tensors.TreeDistribution(torch.zeros(31, 31), allowed=allowed)
    assert len(chains.enumerate_support()) == 2


def test_supports_that_cannot_be_listed_are_refused():
    long = tensors.TreeDistribution(torch.zeros(13, 13))
    with pytest.raises(NotImplementedError, match=r"12 words have more than 262144 .* `sample`"):
        long.enumerate_support()
    uneven = tensors.TreeDistribution(torch.zeros(2, 4, 4), lengths=torch.tensor([3, 2]))
    with pytest.raises(NotImplementedError, match="the same number of trees"):
        uneven.enumerate_support()
    scores = torch.zeros(2, 4, 4)
    scores[0, 1, 0] = scores[1, 2, 0] = -torch.inf
    differing = tensors.TreeDistribution(scores)
    assert differing.enumerate_support().shape == (6, 2, 4)
    with pytest.raises(NotImplementedError, match="expand=True"):
        differing.enumerate_support(expand=False)


# --- what torch.distributions asks for -----------------------------------------------------------


def test_expanded_distributions_repeat_sentences():
    scores, lengths = make_scores(2, 1, 4, 4), torch.tensor([[3], [2]])
    allowed = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    allowed[0, 0, 2, 1] = False
    trees = tensors.TreeDistribution(scores, lengths=lengths, allowed=allowed, single_root=False)
    wide = trees.expand((5, 2, 3))
    assert isinstance(wide, tensors.TreeDistribution)
    assert wide.batch_shape == (5, 2, 3)
    assert wide.event_shape == (4,)
    assert torch.equal(wide.entropy(), trees.entropy().expand(5, 2, 3))
    heads = wide.sample((7,))
    assert heads.shape == (7, 5, 2, 3, 4)
    wanted = trees.log_prob(heads.movedim(3, 0).unsqueeze(-2)).squeeze(-1).movedim(0, 3)
    torch.testing.assert_close(wide.log_prob(heads), wanted, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(wide.log_partition.sum(), scores)
    torch.testing.assert_close(gradient, 15 * trees.marginals)
    with pytest.raises(RuntimeError, match="expand"):
        trees.expand((3, 1))
    single = tensors.TreeDistribution(scores[0, 0], lengths=3).expand((2,))
    assert torch.equal(single.mode[0], single.mode[1])
    event = torch.distributions.Independent(single, 1)
    assert event.log_prob(single.mode) == single.log_prob(single.mode).sum()


def test_samples_follow_a_generator():
    trees = tensors.TreeDistribution(make_scores(5, 5))
    state = torch.get_rng_state()
    draws = [
        trees.sample((50,), generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_what_trees_do_not_have_is_said():
    trees = tensors.TreeDistribution(make_scores(4, 4))
    assert not trees.has_rsample
    for call, message in [
        (lambda: trees.mean, "no mean; `marginals`"),
        (lambda: trees.variance, "no variance; `marginals`"),
        (lambda: trees.stddev, "no variance; `marginals`"),
        (trees.rsample, "no gradient; use expected values"),
    ]:
        with pytest.raises(NotImplementedError, match=message):
            call()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_queries_have_the_dtype_of_the_scores(dtype):
    scores = make_scores(2, 4, 4).detach().to(dtype).requires_grad_()
    trees, wide = tensors.TreeDistribution(scores), tensors.TreeDistribution(scores.double())
    heads = trees.sample((3,))
    for own in (trees.log_partition, trees.marginals, trees.entropy(), trees.log_prob(heads)):
        assert own.dtype == dtype
    assert torch.equal(trees.log_prob(heads), wide.log_prob(heads).to(dtype))
    (gradient,) = torch.autograd.grad(trees.log_prob(heads).sum(), scores)
    assert gradient.dtype == dtype


def test_distributions_inside_transforms():
    scores = make_scores(3, 4, 4).detach()
    lengths = torch.tensor([3, 2, 3])
    whole = tensors.TreeDistribution(scores, lengths=lengths)
    heads = whole.sample((2,))

    def log_prob(own, words, trees):
        return tensors.TreeDistribution(own, lengths=words).log_prob(trees)

    found = torch.vmap(log_prob, in_dims=(0, 0, 1), out_dims=1)(scores, lengths, heads)
    assert torch.equal(found, whole.log_prob(heads))
    # Other trees of the same sentence.
    found = torch.vmap(log_prob, in_dims=(None, None, 0))(scores, lengths, heads)
    assert torch.equal(found, whole.log_prob(heads))
    mode = torch.vmap(lambda own, words: tensors.TreeDistribution(own, lengths=words).mode)
    assert torch.equal(mode(scores, lengths), whole.mode)

    def best(own):
        trees = tensors.TreeDistribution(own, lengths=lengths)
        return trees.log_prob(trees.mode).sum()

    for found in (torch.func.grad(best)(scores), torch.func.jacfwd(best)(scores)):
        (wanted,) = torch.autograd.grad(best(scores.requires_grad_()), scores)
        torch.testing.assert_close(found, wanted)
        scores = scores.detach()


@pytest.mark.parametrize("query", ["sample", "support", "enumerate_support"])
def test_queries_of_numbers_are_refused_inside_transforms(query):
    def ask(own):
        trees = tensors.TreeDistribution(own)
        assert "TreeDistribution" in repr(trees)
        found = getattr(trees, query)
        return found() if callable(found) else found

    with pytest.raises(RuntimeError, match=r"inside torch\.func transforms"):
        torch.vmap(ask)(torch.zeros(2, 4, 4))


def test_copies_are_equal():
    trees = tensors.TreeDistribution(
        make_scores(2, 4, 4).detach().float(), lengths=torch.tensor([3, 2])
    )
    wanted = trees.entropy()
    for again in (copy.deepcopy(trees), copy.copy(trees), pickle.loads(pickle.dumps(trees))):
        assert torch.equal(again.entropy(), wanted)
        assert repr(again) == repr(trees)


def test_messages_say_what_is_expected_and_received():
    trees = tensors.TreeDistribution(make_scores(2, 4, 4))
    for call, message in [
        (lambda: trees.log_prob([-1, 0, 1, 2]), "heads as a torch tensor, received list; convert"),
        (lambda: trees.support.check(np.zeros(4)), "heads as a torch tensor, received ndarray"),
        (lambda: trees.support.check(torch.zeros(3)), r"heads of shape \(\*, 4\), received \(3,\)"),
        (
            lambda: trees.log_prob(torch.zeros(3, 4, dtype=torch.int64)),
            r"shape \(\*, 2, 4\) .* received \(3, 4\)",
        ),
        (
            lambda: torch.distributions.kl_divergence(
                trees, tensors.TreeDistribution(make_scores(4, 4))
            ),
            r"batch shape \(2,\), received \(\)",
        ),
        (lambda: trees.sample(3), "sample_shape as a tuple of ints, received 3"),
        (lambda: trees.sample((-1,)), r"sample_shape of sizes of at least 0, received \(-1,\)"),
        (lambda: trees.sample((), generator=1), "generator as a torch.Generator, received int"),
        (lambda: trees.expand(2), "batch_shape as a tuple of ints, received 2"),
        (lambda: tensors.entropy([[0.0]]), "scores as a torch tensor, received list; convert"),
        (
            lambda: tensors.TreeDistribution(torch.zeros(2, 4, 4), lengths=torch.tensor([3, 4])),
            "a length of 0 to 3, received 4",
        ),
        (
            lambda: tensors.TreeDistribution(torch.zeros(2, 4, 4), lengths=[3, 4]),
            "a length of 0 to 3, received 4",
        ),
        (
            lambda: tensors.entropy(torch.zeros(3, 3), allowed=torch.ones(3, 3)),
            r"received torch.float32; convert it with allowed.bool\(\)",
        ),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"expected .*{message}"):
            call()


# --- the same as over arrays ---------------------------------------------------------------------

# Of torch.distributions, and what follows from another order of axes or from its transforms.
TORCH_ALONE = set(dir(torch.distributions.Distribution)) - set(dir(object))
ARRAYS_ALONE = {"inference", "sentences"} | {
    # Over projective trees there are no third derivatives.
    "projective",
    # Here by torch.autograd.
    *("covariance", "expectation", "expectation_gradient", "second_moment", "entropy_gradient"),
    *("cross_entropy", "kl_divergence", "single_root_log_prob"),
}


def test_names_and_kinds_are_those_over_arrays():
    ours, theirs = spacy_rootmind.TreeDistribution, tensors.TreeDistribution
    own = {name for name in dir(ours) if name[0] != "_"}
    other = {name for name in dir(theirs) if name[0] != "_"}
    shared = own & other
    assert own - shared == ARRAYS_ALONE
    assert other - shared - TORCH_ALONE == set()
    assert {"entropy", "k_best", "lengths", "log_prob", "mode", "sample", "scores"} <= shared
    for name in shared:
        of_ours, of_theirs = (isinstance(getattr(cls, name), property) for cls in (ours, theirs))
        assert of_ours == of_theirs, name


def test_arguments_are_those_of_functions_over_arrays():
    for name in ("log_partition", "arc_marginals", "entropy"):
        given = signature(getattr(tensors, name)).parameters
        wanted = signature(getattr(spacy_rootmind, name)).parameters
        assert [*given] == [one for one in wanted if one != "projective"]
        for one in given:
            assert given[one].kind == wanted[one].kind
            assert given[one].default == wanted[one].default


@pytest.mark.parametrize("validate_args", [True, False])
def test_k_best_trees(validate_args):
    lengths = [4, 0, 1, 2]
    scores = make_scores(2, 2, 5, 5)
    trees = tensors.TreeDistribution(
        scores, lengths=torch.tensor(lengths).reshape(2, 2), validate_args=validate_args
    )
    heads, log_probs = trees.k_best(6)
    arrays = spacy_rootmind.TreeDistribution(
        scores.detach().numpy().reshape(4, 5, 5), lengths=np.array(lengths)
    ).k_best(6)
    wanted = torch.tensor(arrays.heads.swapaxes(0, 1), dtype=torch.int64)
    assert torch.equal(heads, wanted.reshape(6, 2, 2, 5))
    np.testing.assert_array_equal(log_probs.detach().numpy().reshape(6, 4).T, arrays.scores)
    (gradient,) = torch.autograd.grad(log_probs[0].sum(), scores, retain_graph=True)
    (best,) = torch.autograd.grad(trees.log_prob(trees.mode).sum(), scores)
    assert torch.equal(gradient, best)
    (gradient,) = torch.autograd.grad(log_probs.exp().sum(), scores)
    assert torch.isfinite(gradient).all()
    if not validate_args:
        has_words = trees.lengths > 0
        assert torch.equal(trees.log_prob(heads)[:, has_words], log_probs[:, has_words])
    # Many more than there are, and than there is memory for.
    heads, log_probs = tensors.TreeDistribution(torch.zeros(3, 3)).k_best(10**12)
    assert heads.shape == (2, 3)
    assert log_probs.exp().sum().item() == pytest.approx(1)


def test_what_a_distribution_is_of_can_be_read():
    scores, lengths = make_scores(2, 3, 4, 4), torch.tensor([[3, 2, 1], [0, 3, 2]])
    for given in (None, lengths):
        trees = tensors.TreeDistribution(scores, lengths=given, single_root=False)
        assert trees.scores is scores
        assert torch.equal(trees.lengths, torch.full((2, 3), 3) if given is None else lengths)
        assert trees.single_root is False
    arrays = spacy_rootmind.TreeDistribution(np.zeros((2, 4, 4)), lengths=np.array([3, 2]))
    assert arrays.scores.shape == (2, 4, 4)
    assert arrays.lengths.tolist() == [3, 2]
    assert (arrays.single_root, arrays.projective) == (True, False)
    assert (
        spacy_rootmind.TreeDistribution(np.zeros((4, 4)), lengths=2, projective=True).lengths == 2
    )
