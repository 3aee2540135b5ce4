"""Losses of tensors: against finite differences and the losses of arrays."""

import numpy as np
import pytest
import reference
from strategies import rng_for

import spacy_rootmind

torch = pytest.importorskip("torch", reason="needs torch, of the extra [torch]")
from spacy_rootmind import torch as tensors  # noqa: E402

LENGTHS = torch.tensor([4, 0, 1, 3, 2, 4])
WIDTH = 5
KINDS = {
    "single root": ("tree_crf", {}),
    "any roots": ("tree_crf", {"single_root": False}),
    "projective": ("tree_crf", {"projective": True}),
    "heads": ("head_selection", {}),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_loss = pytest.mark.parametrize("name", ["tree_crf", "head_selection"])


def make_batch(*, scale=1.0, missing=0.0, holes=0.0):
    """Scores with NaN where nobody may read, -inf around gold trees, and heads of these trees."""
    rng = rng_for(f"torch losses {scale} {missing} {holes}")
    scores = np.full((len(LENGTHS), WIDTH, WIDTH), np.nan)
    heads = np.full((len(LENGTHS), WIDTH), 77)
    for own, gold, n in zip(scores, heads, LENGTHS.tolist(), strict=True):
        gold[1 : n + 1] = reference.random_projective_heads(rng, n, True)[1:]
        for dep in range(1, n + 1):
            others = [head for head in range(n + 1) if head != dep]
            own[dep, others] = scale * rng.standard_normal(n)
            own[dep, [h for h in others if h != gold[dep] and rng.random() < holes]] = -np.inf
            if rng.random() < missing:
                gold[dep] = -1
    return torch.tensor(scores, requires_grad=True), torch.tensor(heads)


@each_kind
def test_gradcheck(kind):
    """With padding, forbidden arcs, missing heads and an empty sentence."""
    name, options = KINDS[kind]
    scores, heads = make_batch(missing=0.3)
    allowed = torch.ones(scores.shape, dtype=torch.bool)
    allowed[0, 1, 0] = heads[0, 1] == 0

    def loss(own):
        return getattr(tensors, name)(own, heads, lengths=LENGTHS, allowed=allowed, **options)

    inputs = scores.detach().nan_to_num().requires_grad_()
    assert torch.autograd.gradcheck(loss, inputs)


@each_loss
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_numbers_are_those_of_arrays(name, dtype):
    """Rounded to the dtype of the scores; of any strides and devices, alone or in a batch."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    scores, heads = make_batch(missing=0.3, holes=0.3)
    given = scores.detach().to(device, dtype).requires_grad_()
    wide = np.float64 if dtype == torch.float64 else np.float32
    arrays = given.detach().cpu().to(torch.float64).numpy().astype(wide)
    losses, gradient = getattr(spacy_rootmind, name)(arrays, heads.numpy(), lengths=LENGTHS.numpy())
    loss = getattr(tensors, name)
    strided = given.mT.contiguous().mT
    for own, gold, words in [
        (given, heads, LENGTHS),
        (strided, heads, LENGTHS.tolist()),
    ]:
        found = loss(own, gold.to(device), lengths=words)
        assert (found.dtype, found.device) == (dtype, given.device)
        assert torch.equal(found.cpu(), torch.tensor(losses).to(dtype))
        (by_scores,) = torch.autograd.grad(found.sum(), given)
        assert torch.equal(by_scores.cpu(), torch.tensor(gradient).to(dtype))
    for i, n in enumerate(LENGTHS.tolist()):
        alone = loss(given[i, : n + 1, : n + 1], heads[i, : n + 1].to(device))
        assert alone.shape == ()
        torch.testing.assert_close(alone.cpu(), torch.tensor(losses[i]).to(dtype))


@each_loss
def test_masks_are_another_way_to_give_lengths(name):
    scores, heads = make_batch()
    mask = torch.arange(WIDTH) <= LENGTHS[:, None]
    loss = getattr(tensors, name)
    wanted = loss(scores, heads, lengths=LENGTHS)
    for root in (False, True):
        mask[:, 0] = root
        assert torch.equal(loss(scores, heads, mask=mask), wanted)
        trees = tensors.TreeDistribution(scores, mask=mask)
        assert torch.equal(trees.lengths, LENGTHS)
        assert torch.equal(tensors.entropy(scores[3], mask=mask[3]), trees.entropy()[3])
    mask[0, 2] = False
    for wrong, message in [
        ({"mask": mask}, "without a gap"),
        ({"mask": mask.float()}, "of dtype bool"),
        # Without index 0, every sentence would lose a word.
        ({"mask": mask[:, 1:]}, "with index 0"),
        ({"mask": mask, "lengths": LENGTHS}, "received both"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss(scores, heads, **wrong)


@each_loss
def test_graphs_are_those_of_other_losses(name):
    """None without gradients; kept for a second call; no second derivatives."""
    scores, heads = make_batch()
    loss = getattr(tensors, name)
    assert not loss(scores.detach(), heads, lengths=LENGTHS).requires_grad
    with torch.no_grad():
        assert not loss(scores, heads, lengths=LENGTHS).requires_grad
    total = loss(scores, heads, lengths=LENGTHS).sum()
    first, again = (torch.autograd.grad(total, scores, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, again)
    with pytest.raises(NotImplementedError, match=r"one derivative .* use TreeDistribution.log_p"):
        torch.autograd.grad(total, scores, create_graph=True)
    for shape in [(0, 4, 4), (2, 1, 1), (1, 1)]:
        nothing = torch.zeros(shape, requires_grad=True)
        found = loss(nothing, torch.zeros(shape[:-1], dtype=torch.int64) - 1)
        found.sum().backward()
        assert found.tolist() == torch.zeros(shape[:-2]).tolist()
        assert nothing.grad.eq(0).all()


ZEROS = torch.zeros(2, 4, 4)
GOLD = torch.tensor([[-1, 0, 1, 2], [-1, 2, 0, 2]])
CYCLE = torch.tensor([[-1, 0, 1, 2], [-1, 2, 1, 0]])
WRONG = [
    ({"heads": GOLD[0]}, ValueError, r"heads of shape \(2, 4\) for scores .*, received \(4,\)"),
    ({"heads": GOLD.numpy()}, TypeError, "heads as a torch tensor, received ndarray"),
    ({"heads": GOLD.float()}, TypeError, "heads as an integer array, received dtype float32"),
    ({"heads": GOLD + 2}, ValueError, "sentence 0: word 3 has head 4, expected 0 to 3, or -1"),
    ({"scores": ZEROS.numpy()}, TypeError, "scores as a torch tensor, received ndarray"),
    ({"scores": ZEROS * torch.nan}, ValueError, "sentence 0: the score of dep 1, head 0 is nan"),
    ({"lengths": torch.tensor([3, 4])}, ValueError, "sentence 1: expected a length of 0 to 3"),
]


@pytest.mark.parametrize(("given", "error", "match"), WRONG, ids=range(len(WRONG)))
@each_loss
def test_errors_name_what_is_wrong(name, given, error, match):
    with pytest.raises(error, match=match):
        getattr(tensors, name)(**{"scores": ZEROS, "heads": GOLD, **given})


def test_gold_heads_that_no_tree_has_are_refused():
    with pytest.raises(spacy_rootmind.NoTreeError, match=r"sentence 1: .*mark heads .* missing"):
        tensors.tree_crf(ZEROS, CYCLE)
    forbidden = torch.ones(2, 4, 4, dtype=torch.bool)
    forbidden[1, 3, 2] = False
    for loss in (tensors.tree_crf, tensors.head_selection):
        with pytest.raises(ValueError, match=r"sentence 1: .*mark heads .* missing"):
            loss(ZEROS, GOLD, allowed=forbidden)


@pytest.mark.parametrize("name", ["decode", "log_partition", "tree_crf"])
def test_functions_of_arrays_name_those_of_tensors(name):
    given = (GOLD,) if name == "tree_crf" else ()
    match = r"received Tensor; .* spacy_rootmind.torch, .*TreeDistribution\(scores\).mode decodes"
    with pytest.raises(TypeError, match=match):
        getattr(spacy_rootmind, name)(ZEROS, *given)
