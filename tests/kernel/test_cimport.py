"""The installed `.pxd` serves modules outside the package, which know no sizes of its structs."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import run_python

import spacy_rootmind
from spacy_rootmind import TreeDistribution, arc_marginals, decode, decode_kbest, log_partition

PACKAGE = Path(spacy_rootmind.__file__).parent
PUBLIC = ("__init__.pxd", "kernel/__init__.pxd", "kernel/c_api.pxd")

OUTSIDE = '''
from libc.stdint cimport int32_t
from spacy_rootmind.kernel.c_api cimport (
    TREE_BAD_SCORE, TREE_LOST_DIGITS, TREE_NO_MEMORY, TREE_NONE, TREE_OK, ProjectiveDecoder,
    TreeDecoder, TreeSampler, TreeSums, decode_kbest, decode_projective, decode_tree,
    projective_decoder_free, projective_decoder_new, sum_trees, tree_decoder_free,
    tree_decoder_new, tree_sampler_begin, tree_sampler_draw, tree_sampler_free, tree_sampler_new,
    tree_sums_free, tree_sums_new)

STATUSES = TREE_OK, TREE_NONE, TREE_BAD_SCORE, TREE_NO_MEMORY, TREE_LOST_DIGITS

cdef enum:
    STRIDE = 9
    MOST = 8        # words

cdef struct Sentence:
    Py_ssize_t n
    double[81] scores
    float[81] narrow
    int32_t[72] heads       # of up to 8 trees
    double[81] marginals

cdef Sentence sentence_of(list rows):
    cdef Sentence sentence
    sentence.n = len(rows) - 1
    for i, row in enumerate(rows):
        for j, score in enumerate(row):
            sentence.scores[i * STRIDE + j] = sentence.narrow[i * STRIDE + j] = score
    return sentence

cdef list heads_of(Sentence* sentence, Py_ssize_t tree=0):
    return [sentence.heads[tree * (sentence.n + 1) + i] for i in range(sentence.n + 1)]

cdef double scripted(void* numbers) noexcept nogil:
    """A generator whose state is its next number, over 2 ** 32."""
    cdef unsigned int* state = <unsigned int*>numbers
    state[0] = state[0] * 1664525 + 1013904223
    return state[0] / 4294967296.0

def best(list rows, bint single_root):
    cdef Sentence sentence = sentence_of(rows)
    cdef TreeDecoder* decoder = tree_decoder_new(MOST)
    cdef int status, narrow
    with nogil:
        narrow = decode_tree(
            decoder, &sentence.narrow[0], STRIDE, sentence.n, single_root, sentence.heads)
        status = decode_tree(
            decoder, &sentence.scores[0], STRIDE, sentence.n, single_root, sentence.heads)
        tree_decoder_free(decoder)
    return status, narrow, heads_of(&sentence)

def best_projective(list rows, bint single_root):
    cdef Sentence sentence = sentence_of(rows)
    cdef ProjectiveDecoder* decoder = projective_decoder_new(MOST)
    cdef int status = decode_projective(
        decoder, &sentence.scores[0], STRIDE, sentence.n, single_root, sentence.heads)
    projective_decoder_free(decoder)
    return status, heads_of(&sentence)

def k_best(list rows, Py_ssize_t k, bint single_root):
    cdef Sentence sentence = sentence_of(rows)
    cdef Py_ssize_t found
    cdef int status = decode_kbest(
        &sentence.scores[0], STRIDE, sentence.n, k, single_root, sentence.heads, &found)
    return status, [heads_of(&sentence, i) for i in range(found)]

def sums(list rows, bint single_root):
    cdef Sentence sentence = sentence_of(rows)
    cdef Py_ssize_t width = sentence.n + 1
    cdef TreeSums* workspace = tree_sums_new(MOST)
    cdef double log_z = 0, again = 0
    cdef int status = sum_trees(
        workspace, &sentence.scores[0], STRIDE, sentence.n, single_root, &log_z,
        sentence.marginals)
    if status == TREE_OK:
        status = sum_trees(
            workspace, &sentence.scores[0], STRIDE, sentence.n, single_root, &again, NULL)
    tree_sums_free(workspace)
    marginals = [[sentence.marginals[i * width + j] for j in range(width)] for i in range(width)]
    return status, log_z, again, marginals

def samples(list rows, Py_ssize_t k, bint single_root):
    """Draw k trees, one by one."""
    cdef Sentence sentence = sentence_of(rows)
    cdef TreeSampler* sampler = tree_sampler_new(MOST, single_root)
    cdef unsigned int state = 1
    cdef double log_prob
    cdef int status = tree_sampler_begin(sampler, &sentence.scores[0], STRIDE, sentence.n)
    found = []
    while status == TREE_OK and len(found) < k:
        status = tree_sampler_draw(sampler, 1, scripted, &state, sentence.heads, &log_prob)
        found.append((heads_of(&sentence), log_prob))
    tree_sampler_free(sampler)
    return status, found

def too_long():
    """The statuses of a sentence of more words than the workspaces are for, and of no room."""
    cdef Sentence sentence = sentence_of([[0, 0], [0, 0]])
    cdef TreeDecoder* decoder = tree_decoder_new(0)
    cdef ProjectiveDecoder* chart = projective_decoder_new(0)
    cdef TreeSums* workspace = tree_sums_new(0)
    cdef TreeSampler* sampler = tree_sampler_new(0, True)
    cdef double log_z
    statuses = [
        decode_tree(decoder, &sentence.scores[0], STRIDE, 1, True, sentence.heads),
        decode_projective(chart, &sentence.scores[0], STRIDE, 1, True, sentence.heads),
        sum_trees(workspace, &sentence.scores[0], STRIDE, 1, True, &log_z, NULL),
        tree_sampler_begin(sampler, &sentence.scores[0], STRIDE, 1)]
    tree_decoder_free(decoder)
    projective_decoder_free(chart)
    tree_sums_free(workspace)
    tree_sampler_free(sampler)
    # All are harmless on NULL, which is what there is no memory for.
    tree_decoder_free(tree_decoder_new(-1))
    projective_decoder_free(projective_decoder_new(-1))
    tree_sums_free(tree_sums_new(-1))
    tree_sampler_free(tree_sampler_new(-1, True))
    return statuses, tree_decoder_new(-1) is NULL, tree_sums_new(<Py_ssize_t>1 << 40) is NULL
'''

WORKSPACES = ("TreeDecoder", "ProjectiveDecoder", "TreeSums", "TreeSampler")
KNOWS_THE_SIZE = f"""
from spacy_rootmind.kernel.c_api cimport {", ".join(WORKSPACES)}

cdef struct Mine:
{"".join(f"    {name} its_{name}{chr(10)}" for name in WORKSPACES)}
"""

# Cython looks along sys.path by itself, but does not see editable installs. The first folder there
# has no other `.pxd` than an installed package.
SETUP = """
from Cython.Build import cythonize
from setuptools import Extension, setup
setup(
    name="outside",
    script_args=["build_ext", "--inplace"],
    ext_modules=cythonize(
        [Extension("{name}", ["{name}.pyx"])],
        compiler_directives={{"language_level": 3}},
        include_path=["installed"],
    ),
)
"""


def build(folder, name, text):
    """Compile a module against the public declarations alone."""
    for path in PUBLIC:
        place = folder / "installed" / "spacy_rootmind" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / path, place)
    (folder / f"{name}.pyx").write_text(text, encoding="utf8")
    (folder / "setup.py").write_text(SETUP.format(name=name), encoding="utf8")
    return subprocess.run(
        [sys.executable, "setup.py"],
        cwd=folder,
        env={**os.environ, "CFLAGS": "-O0"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Give a function that calls one of the functions of an outside module in another process."""
    folder = tmp_path_factory.mktemp("outside")
    built = build(folder, "outside", OUTSIDE)
    assert built.returncode == 0, built.stdout + built.stderr

    def call(*calls):
        code = f"inf, nan = float('inf'), float('nan'); print([{', '.join(calls)}])"
        return ast.literal_eval(run_python(f"from outside import *; {code}", cwd=folder))

    return call


def cases():
    rng = np.random.default_rng(3)
    for n in (0, 1, 2, 5, 7):
        scores = rng.normal(size=(n + 1, n + 1)).astype("f").astype("d")
        # Whoever reads them finds out.
        scores[0] = np.nan
        np.fill_diagonal(scores, np.nan)
        yield scores


@pytest.mark.parametrize("single_root", [True, False])
def test_an_outside_module_finds_what_the_package_finds(single_root, outside):
    calls = ("best", "best_projective", "k_best", "sums", "samples")
    numbers = {"k_best": "6, ", "samples": "300, "}
    found = outside(
        *(
            f"{name}({scores.tolist()}, {numbers.get(name, '')}{single_root})"
            for scores in cases()
            for name in calls
        )
    )
    for number, scores in enumerate(cases()):
        own = found[len(calls) * number :][: len(calls)]
        best, projective, k_best, sums, samples = own
        trees = TreeDistribution(scores, single_root=single_root)
        assert best == (0, 0, decode(scores, single_root=single_root).tolist())
        right = decode(scores, single_root=single_root, projective=True).tolist()
        assert projective == (0, right)
        assert k_best == (0, decode_kbest(scores, 6, single_root=single_root)[0].tolist())
        assert sums[:2] == (0, log_partition(scores, single_root=single_root))
        assert sums[2] == sums[1]
        assert sums[3] == arc_marginals(scores, single_root=single_root).tolist()
        status, drawn = samples
        assert status == 0
        heads, log_probs = map(np.array, zip(*drawn, strict=True))
        np.testing.assert_array_equal(trees.log_prob(heads), log_probs)
        arcs = (heads[:, 1:, None] == np.arange(len(scores))).mean(axis=0)
        np.testing.assert_allclose(arcs, trees.marginals[1:], atol=0.15)


def test_statuses_of_an_outside_module(outside):
    statuses, none, bad, lost, too_long = outside(
        "STATUSES",
        "best([[0, 0], [-inf, 0]], True)[:2] + sums([[0, 0], [-inf, 0]], True)[:1]",
        "best([[0, 0], [nan, 0]], True)[:2] + samples([[0, 0], [nan, 0]], 1, True)[:1]",
        "sums([[0, 0, 0], [1e308, 0, 1e308], [1e308, 1e308, 0]], True)[0]",
        "too_long()",
    )
    assert statuses == (0, -1, -2, -3, -4)
    assert none == (-1, -1, -1)
    assert bad == (-2, -2, -2)
    assert lost == -4
    assert too_long == ([-3] * 4, True, True)


def test_no_outside_module_knows_the_size_of_a_workspace(tmp_path):
    built = build(tmp_path, "knows", KNOWS_THE_SIZE)
    assert built.returncode != 0
    refused = re.findall(r"type '(\w+)' is incomplete", built.stdout + built.stderr)
    assert refused == list(WORKSPACES), built.stdout + built.stderr
