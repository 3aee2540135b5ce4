"""The distribution over trees of tensors: the same as over arrays, with gradients."""

import copy
import pickle

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
    log_probs = trees.log_prob(every.expand(2, -1, -1))
    assert log_probs.shape == (2, len(every))
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(2).double())
    torch.testing.assert_close(-(log_probs.exp() * log_probs).sum(dim=1), trees.entropy())
    assert torch.equal(log_probs.max(dim=1).values, trees.log_prob(trees.mode))


def test_queries_are_those_of_the_functions():
    scores, others = make_scores(2, 5, 5), make_scores(2, 5, 5, seed=1)
    lengths = torch.tensor([4, 2])
    trees = tensors.TreeDistribution(scores, lengths=lengths)
    other = tensors.TreeDistribution(others, lengths=lengths)
    assert torch.equal(trees.log_partition, tensors.log_partition(scores, lengths=lengths))
    assert torch.equal(trees.marginals, tensors.arc_marginals(scores, lengths=lengths))
    assert torch.equal(trees.entropy(), tensors.entropy(scores, lengths=lengths))
    divergence = tensors.kl_divergence(scores, others, lengths=lengths)
    torch.testing.assert_close(trees.kl_divergence(other), divergence)
    wanted = spacy_rootmind.decode(scores.detach().numpy(), lengths=lengths.numpy())
    assert np.array_equal(trees.mode.numpy(), wanted)
    assert repr(trees) == "TreeDistribution(scores of shape (2, 5, 5), single_root=True)"


def test_projective_queries_are_those_of_arrays():
    scores = make_scores(2, 6, 6)
    trees = tensors.TreeDistribution(scores, projective=True)
    arrays = spacy_rootmind.TreeDistribution(scores.detach().numpy(), projective=True)
    assert trees.projective
    assert repr(trees).endswith("single_root=True, projective=True)")
    for name in ("log_partition", "marginals", "mode"):
        assert np.array_equal(getattr(trees, name).detach(), getattr(arrays, name))
    assert np.array_equal(trees.entropy().detach(), arrays.entropy())
    assert spacy_rootmind.is_projective(trees.sample(50)[0].flatten(0, 1).numpy()).all()
    wanted = arrays.k_best(50)
    heads, log_probs = trees.k_best(50)
    assert np.array_equal(heads, wanted.heads)
    assert np.array_equal(log_probs.detach(), wanted.scores)


@pytest.mark.parametrize("projective", [True, False])
def test_probabilities_of_arcs_have_gradients(projective):
    scores, lengths = make_scores(2, 5, 5), torch.tensor([4, 2])
    allowed = torch.ones(2, 5, 5, dtype=torch.bool)
    allowed[0, 2, 1] = False
    kind = {"lengths": lengths, "allowed": allowed, "projective": projective}
    heads = torch.full((2, 3, 5), -1)
    # The second has two roots, the third is no condition.
    heads[:, 0, 1], heads[:, 1, 1:3], heads[0, 0, 3] = 0, 0, 4

    def find(scores):
        return tensors.TreeDistribution(scores, **kind).log_prob_of_arcs(heads)

    found = find(scores)
    options = {**kind, "lengths": lengths.numpy(), "allowed": allowed.numpy()}
    arrays = spacy_rootmind.TreeDistribution(scores.detach().numpy(), **options)
    wanted = arrays.log_prob_of_arcs(heads.numpy())
    np.testing.assert_allclose(found.detach(), wanted, atol=1e-12)
    assert (found[:, 1] == -torch.inf).all()
    assert torch.autograd.gradcheck(lambda scores: find(scores)[:, [0, 2]], scores)
    [gradient] = torch.autograd.grad(found[:, 1:].sum(), scores)
    assert (gradient == 0).all()
    assert tensors.TreeDistribution(scores).log_prob_of_arcs(heads[:, :0]).shape == (2, 0)
    one = tensors.TreeDistribution(scores[0].float()).log_prob_of_arcs(heads[0, 0])
    assert one.shape == ()
    assert one.dtype == torch.float32


def test_divergence_of_kinds_of_trees():
    """Single-root trees are some of all trees, so the divergence is minus the log of a share."""
    scores = make_scores(4, 4)
    one = tensors.TreeDistribution(scores)
    every = tensors.TreeDistribution(scores, single_root=False)
    found = one.kl_divergence(every)
    torch.testing.assert_close(found, every.log_partition - one.log_partition)
    gradient = torch.autograd.grad(found, scores)[0]
    torch.testing.assert_close(gradient, every.marginals - one.marginals)


def test_gradient_of_log_prob():
    scores = make_scores(2, 4, 4)
    lengths = torch.tensor([3, 2])
    heads, _ = tensors.TreeDistribution(scores, lengths=lengths).sample(2)

    def log_prob(given):
        return tensors.TreeDistribution(given, lengths=lengths).log_prob(heads)

    assert torch.autograd.gradcheck(log_prob, scores)
    assert torch.autograd.gradgradcheck(log_prob, scores)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_queries_have_the_dtype_of_the_scores(dtype):
    scores = make_scores(2, 4, 4).detach().to(dtype).requires_grad_()
    trees, wide = tensors.TreeDistribution(scores), tensors.TreeDistribution(scores.double())
    heads, log_probs = trees.sample(3)
    for own in (trees.log_partition, trees.marginals, trees.entropy(), log_probs):
        assert own.dtype == dtype
    assert torch.equal(log_probs, wide.log_prob(heads).to(dtype))
    (gradient,) = torch.autograd.grad(log_probs.sum(), scores)
    assert gradient.dtype == dtype


# --- samples and the k best ----------------------------------------------------------------------


def test_samples_follow_the_distribution_and_the_seed_of_torch():
    trees = tensors.TreeDistribution(make_scores(2, 4, 4))
    torch.manual_seed(0)
    first, _ = trees.sample(5000)
    again, _ = trees.sample(5000)
    torch.manual_seed(0)
    assert torch.equal(first, trees.sample(5000)[0])
    assert not torch.equal(first, again)
    arcs = torch.nn.functional.one_hot(first.clamp(min=0), 4).double().mean(dim=1)
    wanted = trees.marginals.detach()
    # Five standard errors: wrong once in a million.
    bound = 5 * (wanted * (1 - wanted) / 5000).sqrt() + 1e-12
    assert ((arcs - wanted)[:, 1:].abs() <= bound[:, 1:]).all()


def test_samples_follow_a_generator():
    trees = tensors.TreeDistribution(make_scores(5, 5))
    state = torch.get_rng_state()
    draws = [
        trees.sample(50, generator=torch.Generator().manual_seed(seed))[0] for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("query", ["sample", "k_best"])
def test_trees_have_the_axes_of_the_class_over_arrays(query):
    """The k trees of a sentence follow each other; rows without a tree are behind the last."""
    for shape, lengths in [((), 3), ((4,), [4, 0, 1, 2]), ((0,), [])]:
        scores = make_scores(*shape, 5, 5)
        lengths = torch.tensor(lengths, dtype=torch.int64)
        trees = tensors.TreeDistribution(scores, lengths=lengths)
        arrays = spacy_rootmind.TreeDistribution(
            scores.detach().numpy().reshape(-1, 5, 5), lengths=lengths.numpy().reshape(-1)
        )
        options = {"replace": False} if query == "sample" else {}
        heads, log_probs = getattr(trees, query)(30, **options)
        wanted = getattr(arrays, query)(30, **options)
        k = 30 if shape else int(wanted.counts[0])
        assert heads.shape == (*shape, k, 5)
        assert heads.dtype == torch.int64
        assert log_probs.shape == (*shape, k)
        exists = (log_probs > -torch.inf).reshape(-1, k)
        assert np.array_equal(exists.sum(dim=1).numpy(), wanted.counts)
        assert (heads.reshape(-1, k, 5)[~exists] == -1).all()
        if query == "k_best":
            assert np.array_equal(heads.numpy().reshape(-1, k, 5), wanted.heads[:, :k])
            found = log_probs.detach().numpy().reshape(-1, k)
            np.testing.assert_array_equal(found, wanted.scores[:, :k])
        (gradient,) = torch.autograd.grad(log_probs.exp().sum(), scores)
        assert gradient.isfinite().all()
    # Many more than there are, and than there is memory for.
    _, log_probs = tensors.TreeDistribution(torch.zeros(3, 3)).k_best(10**12)
    assert log_probs.exp().sum().item() == pytest.approx(1)


def test_log_probs_take_one_tree_or_several():
    for shape in [(), (2,)]:
        trees = tensors.TreeDistribution(make_scores(*shape, 4, 4))
        heads, log_probs = trees.sample(5)
        assert torch.equal(trees.log_prob(heads), log_probs)
        assert torch.equal(trees.log_prob(heads[..., 1, :]), log_probs[..., 1])


# --- copies, errors ------------------------------------------------------------------------------


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
        (
            lambda: trees.log_prob(torch.zeros(3, 4, dtype=torch.int64)),
            r"shape \(2, 4\) or \(2, k, 4\) .* received \(3, 4\)",
        ),
        (
            lambda: trees.kl_divergence(tensors.TreeDistribution(make_scores(4, 4))),
            r"scores of shape \(2, 4, 4\), received \(4, 4\)",
        ),
        (lambda: trees.kl_divergence(trees.scores), "a TreeDistribution, received Tensor"),
        (lambda: trees.sample((3,)), "k as an integer, received tuple"),
        (lambda: trees.sample(0), "k of at least 1, received 0"),
        (lambda: trees.sample(1, generator=1), "generator as a torch.Generator, received int"),
        (lambda: tensors.entropy([[0.0]]), "scores as a torch tensor, received list; convert"),
        (
            lambda: (
                tensors.TreeDistribution(torch.zeros(2, 4, 4), lengths=torch.tensor([3, 4])).mode
            ),
            "a length of 0 to 3, received 4",
        ),
        (
            lambda: tensors.TreeDistribution(torch.zeros(2, 4, 4), lengths=[3, 4]),
            "a length of 0 to 3, received 4",
        ),
        (
            lambda: tensors.entropy(torch.zeros(3, 3), allowed=torch.ones(3, 3)),
            "allowed of dtype bool, received float32",
        ),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"expected .*{message}"):
            call()


# --- the same names as over arrays ---------------------------------------------------------------


ARRAYS_ALONE = {
    "inference",
    "sentences",
    "cross_entropy",
    "single_root_log_prob",
} | {
    # Here by torch.autograd.
    *("covariance", "expectation", "expectation_gradient", "entropy_gradient"),
}


def test_names_and_kinds_are_those_over_arrays():
    ours, theirs = spacy_rootmind.TreeDistribution, tensors.TreeDistribution
    own = {name for name in dir(ours) if name[0] != "_"}
    other = {name for name in dir(theirs(torch.zeros(3, 3))) if name[0] != "_"}
    assert own - other == ARRAYS_ALONE
    assert other - own == set()
    for name in other - {"scores", "single_root", "projective"}:
        of_ours, of_theirs = (isinstance(getattr(cls, name), property) for cls in (ours, theirs))
        assert of_ours == of_theirs, name


def test_what_a_distribution_is_of_can_be_read():
    scores, lengths = make_scores(3, 4, 4), torch.tensor([3, 0, 2])
    for given in (None, lengths):
        trees = tensors.TreeDistribution(scores, lengths=given, single_root=False)
        assert trees.scores is scores
        assert torch.equal(trees.lengths, torch.full((3,), 3) if given is None else lengths)
        assert trees.single_root is False
    arrays = spacy_rootmind.TreeDistribution(np.zeros((2, 4, 4)), lengths=np.array([3, 2]))
    assert arrays.scores.shape == (2, 4, 4)
    assert arrays.lengths.tolist() == [3, 2]
    assert (arrays.single_root, arrays.projective) == (True, False)
    one = spacy_rootmind.TreeDistribution(np.zeros((4, 4)), lengths=2, projective=True)
    assert one.lengths == 2
