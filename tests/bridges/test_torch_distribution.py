"""The distribution as one of torch.distributions."""

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
    trees = tensors.TreeDistribution(scores, lengths)
    other = tensors.TreeDistribution(others, lengths)
    assert torch.equal(trees.log_partition, tensors.log_partition(scores, lengths))
    assert torch.equal(trees.marginals, tensors.arc_marginals(scores, lengths))
    assert torch.equal(trees.entropy(), tensors.entropy(scores, lengths))
    divergence = torch.distributions.kl_divergence(trees, other)
    torch.testing.assert_close(divergence, tensors.kl_divergence(scores, others, lengths))
    wanted = spacy_rootmind.decode(scores.detach().numpy(), lengths.numpy())
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
    heads = tensors.TreeDistribution(scores, lengths).sample((2,))

    def log_prob(given):
        return tensors.TreeDistribution(given, lengths).log_prob(heads)

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


def test_heads_of_another_shape_are_refused():
    trees = tensors.TreeDistribution(make_scores(2, 4, 4))
    with pytest.raises(ValueError, match=r"shape \(\*, 2, 4\) .* received \(3, 4\)"):
        trees.log_prob(torch.zeros(3, 4, dtype=torch.int64))
    other = tensors.TreeDistribution(make_scores(4, 4))
    with pytest.raises(ValueError, match=r"batch shape \(2,\), received \(\)"):
        torch.distributions.kl_divergence(trees, other)
