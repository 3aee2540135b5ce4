"""Under a cap on memory, a call that needs more raises MemoryError, and the next one works."""

import os
import sys
import textwrap

import pytest
from processes import run_python

from spacy_rootmind.trees.sampling import METHODS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs limits on memory")

# The 200 MiB that are left do not suffice for these.
CALLS = [
    "decode(even(9000))",
    "decode(even(4000), projective=True)",
    "decode(even(6000), algorithm='naive', num_threads=4)",
    "decode_kbest(even(6000), 1)",
    "decode_kbest(even(4000), 1, projective=True)",
    "decode_kbest(even(12), 10**7, projective=True)",
    "TreeDistribution(even(6000)).marginals",
    "TreeDistribution(np.broadcast_to(even(100), (9000, 101, 101))).marginals",
    "TreeDistribution(even(3000), projective=True).expectation_gradient(even(3000))",
    *(f"sample_trees(even(6000), 1, method={method!r})" for method in METHODS),
    "sample_trees(even(6000), 1, replace=False)",
    "sample_trees(even(1000), 9, replace=False)",
    "sample_trees(even(100), 10**7)",
    "tree_crf(even(6000), np.arange(6001) - 1)",
    "is_tree(np.broadcast_to(np.arange(1001) - 1, (50000, 1001)))",
]

PROGRAM = """
    import resource
    import numpy as np
    from spacy_rootmind import (
        TreeDistribution, decode, decode_kbest, is_tree, sample_trees, tree_crf)

    def even(n):
        return np.broadcast_to(np.float32(0), (n + 1, n + 1))

    small = even(50)
    expected = TreeDistribution(small).marginals
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 200 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for call in {calls}:
        try:
            eval(call)
        except MemoryError as error:
            assert str(error), call
        else:
            print("enough memory for", call)
        assert (TreeDistribution(small).marginals == expected).all()
"""


def test_calls_without_enough_memory_raise_and_the_next_one_works():
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    assert run_python(textwrap.dedent(PROGRAM).format(calls=CALLS), env=env) == ""
