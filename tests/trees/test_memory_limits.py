"""Under a cap on memory, every call says how much it needed."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

from spacy_rootmind.trees.sampling import METHODS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs limits on memory")

# By the name in the message: calls for which the 200 MiB that are left do not suffice.
CALLS = {
    "decode": [
        "decode(normal(6500))",
        "decode(normal(3000), projective=True)",
        "decode(normal(4000), algorithm='naive', num_threads=4)",
        "decode(normal(4000), algorithm='chu_liu_edmonds', single_root=False)",
        "TreeDistribution(normal(6500)).mode",
    ],
    "decode_kbest": [
        "decode_kbest(normal(4000), 1)",
        "decode_kbest(normal(3000), 1, projective=True)",
        "decode_kbest(normal(4000), 2, allowed=np.ones((4001, 4001), dtype=bool))",
    ],
    "log_partition": ["log_partition(normal(3000))"],
    "arc_marginals": [
        "arc_marginals(normal(3000))",
        "arc_marginals(np.broadcast_to(normal(100), (9000, 101, 101)))",
    ],
    "entropy": ["entropy(normal(3000))"],
    "tree_log_prob": ["tree_log_prob(normal(3000), np.arange(3001) - 1)"],
    "TreeDistribution.log_partition": [
        "TreeDistribution(normal(3000)).log_partition",
        "TreeDistribution(normal(2000), projective=True).log_partition",
    ],
    "TreeDistribution.marginals": ["TreeDistribution(normal(3000)).marginals"],
    "TreeDistribution.entropy": ["TreeDistribution(normal(3000)).entropy()"],
    "TreeDistribution.single_root_log_prob": [
        "TreeDistribution(normal(3000)).single_root_log_prob"
    ],
    "TreeDistribution.log_prob": ["TreeDistribution(normal(3000)).log_prob(np.arange(3001) - 1)"],
    "TreeDistribution.cross_entropy": [
        "TreeDistribution(normal(3000)).cross_entropy(TreeDistribution(normal(3000)))"
    ],
    "TreeDistribution.kl_divergence": [
        "TreeDistribution(normal(3000)).kl_divergence(TreeDistribution(normal(3000)))"
    ],
    "TreeDistribution.expectation": ["TreeDistribution(normal(3000)).expectation(normal(3000))"],
    "TreeDistribution.expectation_gradient": [
        "TreeDistribution(normal(2000)).expectation_gradient(normal(2000))"
    ],
    "TreeDistribution.covariance": [
        "TreeDistribution(normal(2000)).covariance(normal(2000))",
        "TreeDistribution(normal(1200), projective=True).covariance(normal(1200))",
    ],
    "TreeDistribution.second_moment": [
        "TreeDistribution(normal(3000)).second_moment(normal(3000))"
    ],
    "TreeDistribution.entropy_gradient": ["TreeDistribution(normal(3000)).entropy_gradient()"],
    "sample_trees": [
        *(f"sample_trees(normal(3000), 1, method={method!r})" for method in METHODS),
        "sample_trees(normal(3000), 1, replace=False)",
        "sample_trees(normal(2000), 1, projective=True)",
        "sample_trees(normal(200), 10**5, projective=True, replace=False)",
        "sample_trees(normal(200), 10**5, replace=False)",
        "sample_trees(normal(100), 10**7)",
        "TreeDistribution(normal(3000)).sample(1)",
    ],
    "tree_crf": ["tree_crf(normal(3000), np.arange(3001) - 1)"],
    "tree_cross_entropy": ["tree_cross_entropy(normal(3000), np.zeros((3001, 3001)))"],
    "perceptron": ["perceptron(normal(5000), np.arange(5001) - 1)"],
    "head_selection": ["head_selection(normal(5000), np.arange(5001) - 1)"],
    "tree_score": [
        "tree_score(np.broadcast_to(normal(1000), (20000, 1001, 1001)), "
        "np.broadcast_to(np.arange(1001, dtype='i2') - 1, (20000, 1001)))"
    ],
    "is_tree": ["is_tree(np.broadcast_to(np.arange(1001) - 1, (50000, 1001)))"],
    "is_projective": ["is_projective(np.broadcast_to(np.arange(1001) - 1, (50000, 1001)))"],
}
FEW = ("arc_marginals", "sample_trees", "is_tree")

PROGRAM = """
    import resource
    import numpy as np
    from spacy_rootmind import (
        TreeDistribution, arc_marginals, decode, decode_kbest, entropy, head_selection,
        is_projective, is_tree, log_partition, perceptron, sample_trees, tree_crf,
        tree_cross_entropy, tree_log_prob, tree_score)

    def normal(n):
        return np.random.default_rng(0).standard_normal((n + 1, n + 1), dtype="f")

    small = normal(50)
    expected = arc_marginals(small)
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 200 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for call in {calls}:
        try:
            eval(call)
        except MemoryError as error:
            print(error)
        else:
            print("enough memory for", call)
        assert (arc_marginals(small) == expected).all()
"""


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in CALLS]
)
def test_errors_say_how_much_memory_which_call_needs(name):
    program = textwrap.dedent(PROGRAM).format(calls=CALLS[name])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    messages = done.stdout.splitlines()
    assert len(messages) == len(CALLS[name])
    for message, call in zip(messages, CALLS[name], strict=True):
        found = re.match(re.escape(name) + r" needs at least ([\d.]+) (MiB|GiB) of memory", message)
        assert found, (call, message)
        # No more was left, and no call needs ten times what it is said to.
        size = float(found[1]) * (1024 if found[2] == "GiB" else 1)
        assert size > 20, (call, message)
