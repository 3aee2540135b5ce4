"""The installed `.pxd` serves modules outside the package, down to C."""

import subprocess
import sys

OUTSIDE = '''
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from spacy_rootmind.kernel.decode cimport (
    DECODE_OK, TreeWorkspace, decode_tree, workspace_free, workspace_init)
from spacy_rootmind.kernel.eisner cimport (
    ChartWorkspace, chart_workspace_free, chart_workspace_init, decode_projective)
from spacy_rootmind.kernel.kbest cimport KBestSearch, k_best_free, k_best_trees
from spacy_rootmind.kernel.elimination cimport TreeSum, tree_sum_free, tree_sum_init
from spacy_rootmind.kernel.matrix_tree cimport log_partition, sum_trees
from spacy_rootmind.kernel.random cimport RandomSource
from spacy_rootmind.kernel.sample cimport (
    SAMPLE_WILSON, TreeSampler, sampler_begin, sampler_draw, sampler_free, sampler_init)

cdef int best_tree(double* scores, Py_ssize_t n, int32_t* heads) noexcept nogil:
    cdef TreeWorkspace workspace
    cdef int status = workspace_init(&workspace, n)
    if status == DECODE_OK:
        status = decode_tree(<const double*>scores, n + 1, n, True, True, heads, &workspace)
        workspace_free(&workspace)
    return status

cdef int best_projective_tree(double* scores, Py_ssize_t n, int32_t* heads) noexcept nogil:
    cdef ChartWorkspace workspace
    cdef int status = chart_workspace_init(&workspace, n)
    if status == DECODE_OK:
        status = decode_projective(scores, n, True, False, heads, &workspace)
        chart_workspace_free(&workspace)
    return status

cdef int second_best_tree(double* scores, Py_ssize_t n, int32_t* heads) noexcept nogil:
    cdef KBestSearch search
    cdef int status = k_best_trees(scores, n, 2, True, &search)
    cdef Py_ssize_t i
    if status == DECODE_OK:
        for i in range(n + 1):
            heads[i] = search.heads[(search.found - 1) * (n + 1) + i]
    k_best_free(&search)
    return status

cdef double log_z(double* scores, Py_ssize_t n) noexcept nogil:
    cdef TreeSum workspace
    cdef double result = -1
    if tree_sum_init(&workspace, n) == DECODE_OK:
        if sum_trees(scores, n, True, &workspace) == DECODE_OK:
            result = log_partition(&workspace)
    tree_sum_free(&workspace)
    return result

cdef double always(void* number) noexcept nogil:
    return (<double*>number)[0]

cdef int sample(double* scores, Py_ssize_t n, double draw, int32_t* heads) noexcept nogil:
    """Draw one tree where each random number is `draw`."""
    cdef TreeSampler sampler
    cdef RandomSource random
    cdef double log_probability
    cdef Py_ssize_t found
    cdef int status = sampler_init(&sampler, SAMPLE_WILSON, n, True, 1000)
    random.next_double = always
    random.state = &draw
    if status == DECODE_OK:
        status = sampler_begin(&sampler, scores, n)
    if status == DECODE_OK:
        status = sampler_draw(&sampler, 1, &random, heads, n + 1, &log_probability, &found)
    sampler_free(&sampler)
    return status

def run_probabilities():
    cdef double[9] scores
    cdef int32_t[3] low
    cdef int32_t[3] high
    cdef int i
    for i, value in enumerate((0, 0, 0, 3, -INFINITY, 1, 3, 2, -INFINITY)):
        scores[i] = value
    status = sample(&scores[0], 2, 0.0, &low[0]) | sample(&scores[0], 2, 0.99, &high[0])
    return (
        status, round(log_z(&scores[0], 2), 6), [low[i] for i in range(3)],
        [high[i] for i in range(3)])

def run():
    cdef double[9] scores
    cdef int32_t[3] heads
    cdef int32_t[3] projective
    cdef int32_t[3] second
    cdef int i, status
    for i, value in enumerate((0, 0, 0, 3, 0, 1, 3, 2, 0)):
        scores[i] = value
    with nogil:
        status = best_tree(&scores[0], 2, &heads[0])
        status |= best_projective_tree(&scores[0], 2, &projective[0])
        status |= second_best_tree(&scores[0], 2, &second[0])
    return (
        status, [heads[i] for i in range(3)], [projective[i] for i in range(3)],
        [second[i] for i in range(3)])
'''

# Cython looks along sys.path by itself, but does not see editable installs.
SETUP = """
from pathlib import Path

import spacy_rootmind
from Cython.Build import cythonize
from setuptools import Extension, setup
setup(
    name="outside",
    script_args=["build_ext", "--inplace"],
    ext_modules=cythonize(
        [Extension("outside", ["outside.pyx"])],
        compiler_directives={"language_level": 3},
        include_path=[str(Path(spacy_rootmind.__file__).parents[1])],
    ),
)
"""


def test_cimport_from_an_outside_module(tmp_path):
    (tmp_path / "outside.pyx").write_text(OUTSIDE, encoding="utf8")
    (tmp_path / "setup.py").write_text(SETUP, encoding="utf8")
    built = subprocess.run(
        [sys.executable, "setup.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    used = subprocess.run(
        [sys.executable, "-c", "import outside; print(outside.run(), outside.run_probabilities())"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    decoded = (0, [-1, 0, 1], [-1, 0, 1], [-1, 2, 0])
    # The log of exp(3 + 2) + exp(3 + 1). With one root token the other word has one head left.
    probabilities = (0, 5.313262, [-1, 0, 1], [-1, 2, 0])
    assert used.stdout.strip() == f"{decoded} {probabilities}"
