"""Arguments that all array functions share: flags, counts and names."""

from inspect import signature

import numpy as np
import pytest

import spacy_rootmind
from spacy_rootmind import arc_marginals, decode, perceptron, sample_trees, tree_cross_entropy
from spacy_rootmind.kernel import sample_batch
from spacy_rootmind.trees.decoding import ALGORITHMS
from spacy_rootmind.trees.sampling import METHODS

SCORES = np.zeros((3, 3))
HEADS = np.array([-1, 0, 1])
NEEDED = {"k": 2, "heads": HEADS, "marginals": arc_marginals(SCORES)}
FLAGS = ("single_root", "projective", "replace")
WITH_FLAGS = [
    (name, flag)
    for name in sorted(spacy_rootmind.__all__)
    if name[0] != "_" and name not in ("NoTreeError", "configure", "render")
    for flag in FLAGS
    if flag in signature(getattr(spacy_rootmind, name)).parameters
]


def call(name, **options):
    function = getattr(spacy_rootmind, name)
    first, *others = signature(function).parameters.values()
    needed = {one.name: NEEDED[one.name] for one in others if one.default is one.empty}
    return function(HEADS if first.name == "heads" else SCORES, **needed, **options)


@pytest.mark.parametrize(("name", "flag"), WITH_FLAGS)
def test_flags_are_bools_of_python_or_numpy(name, flag):
    assert {"decode", "is_tree", "TreeDistribution"} <= {name for name, _ in WITH_FLAGS}
    seed = {"seed": 0} if name == "sample_trees" else {}
    for value in (True, False):
        wanted, found = (call(name, **{flag: kind(value)}, **seed) for kind in (bool, np.bool_))
        if name == "TreeDistribution":
            wanted, found = repr(wanted), repr(found)
        np.testing.assert_equal(found, wanted)
    for wrong in ("no", None, 2, np.array([True])):
        with pytest.raises(TypeError, match=f"expected {flag} as True or False, received"):
            call(name, **{flag: wrong})


def test_contradictory_heads_are_refused_with_a_flag_of_numpy():
    with pytest.raises(ValueError, match="no tree with a single root agrees"):
        perceptron(SCORES, np.array([-1, 0, 0]), single_root=np.True_)


@pytest.mark.parametrize("wrong", [1.5, "2", np.array([2]), True])
def test_counts_are_named(wrong):
    for name, run in {
        "num_threads": lambda: decode(SCORES, num_threads=wrong),
        "k": lambda: sample_trees(SCORES, wrong),
        "max_steps": lambda: sample_trees(SCORES, 1, max_steps=wrong),
    }.items():
        with pytest.raises(TypeError, match=f"expected {name} as an integer, received"):
            run()


@pytest.mark.parametrize("wrong", ["", "best", None, np.array(["auto"]), ["auto"]])
def test_names_are_refused_with_those_that_are_known(wrong):
    with pytest.raises(ValueError, match=rf"unknown method .*{', '.join(METHODS)}$"):
        sample_trees(SCORES, 1, method=wrong)
    with pytest.raises(ValueError, match=rf"unknown algorithm .*{', '.join(ALGORITHMS)}$"):
        decode(SCORES, algorithm=wrong)
    with pytest.raises(ValueError, match="expected arcmax True, False, 'before' or 'inside'"):
        decode(SCORES, arcmax=wrong)


def test_methods_are_those_of_the_kernel_and_of_the_documentation():
    assert {*METHODS, "distinct"} == {*sample_batch.METHODS}
    for method in METHODS:
        assert f'- "{method}": ' in sample_trees.__doc__


@pytest.mark.parametrize("wrong", ["1", None, np.array([1.0]), 1j])
def test_margins_are_numbers(wrong):
    with pytest.raises(TypeError, match="expected margin as a number, received"):
        perceptron(SCORES, HEADS, margin=wrong)
    found = perceptron(SCORES, HEADS, margin=np.float32(1))
    np.testing.assert_equal(found, perceptron(SCORES, HEADS, margin=1))


def test_marginals_are_an_array_of_numbers():
    for wrong in (np.full((3, 3), "a"), np.zeros((3, 3), dtype=complex), np.ma.zeros((3, 3))):
        with pytest.raises(TypeError, match="expected marginals as an array of numbers, received"):
            tree_cross_entropy(SCORES, wrong)
    loss, _ = tree_cross_entropy(SCORES, NEEDED["marginals"].tolist())
    assert loss == pytest.approx(np.log(2))
