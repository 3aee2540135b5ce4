"""`TreeDistribution` in several threads, interleaved at each line of its code."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spacy_rootmind import TreeDistribution
from spacy_rootmind.kernel import query_batch
from spacy_rootmind.trees import distribution, inference

# Whose lines are interleaved.
CODE = {module.__file__ for module in (distribution, inference)}
RNG = np.random.default_rng(5)
SCORES, OTHER = RNG.normal(size=(2, 3, 5, 5))
HEADS = np.tile([-1, 0, 1, 2, 3], (3, 1))

QUERIES = {
    "log_partition": lambda trees: trees.log_partition,
    "marginals": lambda trees: trees.marginals,
    "entropy": lambda trees: trees.entropy(),
    "single_root_log_prob": lambda trees: trees.single_root_log_prob,
    "log_prob": lambda trees: trees.log_prob(of(HEADS, trees)),
    "cross_entropy": lambda trees: trees.cross_entropy(TreeDistribution(of(OTHER, trees))),
    "cross_entropy to it": lambda trees: TreeDistribution(of(OTHER, trees)).cross_entropy(trees),
    "kl_divergence": lambda trees: trees.kl_divergence(TreeDistribution(of(OTHER, trees))),
    "kl_divergence to it": lambda trees: TreeDistribution(of(OTHER, trees)).kl_divergence(trees),
    "expectation": lambda trees: trees.expectation(of(OTHER, trees)),
    "expectation_gradient": lambda trees: trees.expectation_gradient(of(OTHER, trees)),
    "covariance": lambda trees: trees.covariance(of(OTHER, trees)),
    "entropy_gradient": lambda trees: trees.entropy_gradient(),
}
# Queries whose results are kept.
KEEPERS = ("log_partition", "marginals", "entropy", "single_root_log_prob")
SIZES = {"one": SCORES[0], "batch": SCORES}


def of(batch, trees):
    """Drop the axis of sentences as the distribution does."""
    return batch[0] if trees.sentences.is_one else batch


def numbers(result):
    return np.asarray(result).tobytes()


class Interleaving:
    """A thread that asks one thing, another thread that asks another thing at a given step.

    The other one has already begun and waits in the kernel, or begins then.
    """

    def __init__(self, scores, asked, meanwhile, step, begun):
        self.trees = TreeDistribution(scores)
        self.asked, self.meanwhile = QUERIES[asked], QUERIES[meanwhile]
        self.step = step
        self.begun = begun
        self.steps = 0
        self.waits, self.go = threading.Event(), threading.Event()
        self.results = {}
        self.other = threading.Thread(target=self.run_other)

    def run(self):
        if self.begun:
            self.other.start()
            assert self.waits.wait(timeout=60)
        else:
            self.go.set()
        first = threading.Thread(target=self.run_first)
        first.start()
        first.join(timeout=60)
        self.let_other_end()
        return numbers(self.results["asked"]), numbers(self.results["meanwhile"])

    def run_first(self):
        sys.settrace(self.trace)
        try:
            self.results["asked"] = self.asked(self.trees)
        finally:
            sys.settrace(None)

    def run_other(self):
        self.results["meanwhile"] = self.meanwhile(self.trees)

    def pause(self):
        """Wait in the other thread's first call of the kernel, whose result is not kept yet."""
        if threading.current_thread() is self.other:
            self.waits.set()
            assert self.go.wait(timeout=60)

    def trace(self, frame, event, argument):
        if frame.f_code.co_filename not in CODE:
            return None
        if event == "line":
            if self.steps == self.step:
                self.let_other_end()
            self.steps += 1
        return self.trace

    def let_other_end(self):
        self.go.set()
        if not self.other.ident:
            self.other.start()
        self.other.join(timeout=60)
        assert not self.other.is_alive()


@pytest.fixture
def pausing(monkeypatch):
    """Make the kernel's sums start from NaN, and wait at their end where an interleaving says."""
    current = []
    original = query_batch.sum_batch

    def sum_batch(*arguments, **options):
        arguments[3].fill(np.nan)
        found = original(*arguments, **options)
        for interleaving in current:
            interleaving.pause()
        return found

    monkeypatch.setattr(query_batch, "sum_batch", sum_batch)
    return current


@pytest.mark.one_each("asked")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("meanwhile", KEEPERS)
@pytest.mark.parametrize("asked", QUERIES)
def test_every_query_is_right_while_another_thread_asks(asked, meanwhile, size, pausing):
    scores = SIZES[size]
    expected = tuple(numbers(QUERIES[key](TreeDistribution(scores))) for key in (asked, meanwhile))
    kept = {name: numbers(QUERIES[name](TreeDistribution(scores))) for name in KEEPERS}
    for begun in (True, False):
        step, steps = 0, 1
        while step < steps:
            one = Interleaving(scores, asked, meanwhile, step, begun)
            pausing[:] = [one]
            assert one.run() == expected, (step, begun)
            # The kept result is right as well.
            for name in KEEPERS:
                assert numbers(QUERIES[name](one.trees)) == kept[name], (name, step, begun)
            step, steps = step + 1, one.steps
        assert steps > 1


@pytest.mark.parametrize("query", ["cross_entropy", "kl_divergence"])
def test_two_distributions_may_ask_each_other(query, monkeypatch):
    """Each in a thread of its own, and both in the kernel at once."""
    pairs = [TreeDistribution(SCORES), TreeDistribution(OTHER)]
    expected = [
        numbers(getattr(TreeDistribution(a), query)(TreeDistribution(b)))
        for a, b in ((SCORES, OTHER), (OTHER, SCORES))
    ]
    original = query_batch.sum_batch
    together = threading.Barrier(2)
    own = threading.local()

    def sum_batch(*arguments, **options):
        if not hasattr(own, "waited"):
            own.waited = True
            together.wait(timeout=60)
        return original(*arguments, **options)

    monkeypatch.setattr(query_batch, "sum_batch", sum_batch)
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda two: getattr(two[0], query)(two[1]), (pairs, pairs[::-1]))
        assert [numbers(result) for result in results] == expected


@pytest.mark.parametrize("name", KEEPERS)
def test_ctrl_c_in_the_kernel_leaves_nothing_locked_or_half_done(name, monkeypatch):
    trees = TreeDistribution(SCORES[0])

    def sum_batch(*arguments, **options):
        arguments[3].fill(np.nan)
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(query_batch, "sum_batch", sum_batch)
        with pytest.raises(KeyboardInterrupt):
            QUERIES[name](trees)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(QUERIES[name], trees).result(timeout=60)
    assert numbers(found) == numbers(QUERIES[name](TreeDistribution(SCORES[0])))
