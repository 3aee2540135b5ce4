"""The installed `.pxd` serves modules outside the package, down to C."""

import subprocess
import sys

OUTSIDE = """
from libc.stdint cimport int32_t
from spacy_rootmind._decode cimport (
    DECODE_OK, TreeWorkspace, decode_tree, workspace_free, workspace_init)
from spacy_rootmind._eisner cimport (
    ChartWorkspace, chart_workspace_free, chart_workspace_init, decode_projective)
from spacy_rootmind._kbest cimport KBestSearch, k_best_free, k_best_trees

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
"""

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
        [sys.executable, "-c", "import outside; print(outside.run())"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert used.stdout.strip() == "(0, [-1, 0, 1], [-1, 0, 1], [-1, 2, 0])"
