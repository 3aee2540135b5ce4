"""A MemoryError names its call and the bytes it needed, however the arguments were given."""

import importlib
import inspect
import pkgutil
import re

import numpy as np
import pytest

from spacy_rootmind import TreeDistribution, arc_marginals, tree_score, trees
from spacy_rootmind.kernel import decode as check_kernel
from spacy_rootmind.kernel import query_batch, sample_batch
from spacy_rootmind.trees import constrained, decoding, errors
from spacy_rootmind.trees.errors import names_memory

SCORES = np.random.default_rng(0).normal(size=(2, 6, 6))
HEADS = np.tile([-1, 0, 1, 2, 3, 4], (2, 1))

# Arguments by name, which all go together.
VALUES = {
    "self": TreeDistribution(SCORES),
    "scores": SCORES,
    "heads": HEADS,
    "lengths": np.array([5, 5]),
    "allowed": np.ones(SCORES.shape, dtype=bool),
    "single_root": False,
    "projective": True,
    "algorithm": "gabow_tarjan",
    "arcmax": False,
    "num_threads": 2,
    "k": 3,
    "replace": False,
    "method": "auto",
    "max_steps": 10**6,
    "seed": 0,
    "values": SCORES,
    "other": SCORES,
    "marginals": arc_marginals(SCORES),
    "margin": 1.0,
    "label_scores": np.zeros((2, 6, 6, 3)),
    "find_conflicts": lambda heads, labels: (),
    "max_decodes": 10,
}
OWN_VALUES = {
    "TreeDistribution.cross_entropy": {"other": TreeDistribution(SCORES)},
    "TreeDistribution.kl_divergence": {"other": TreeDistribution(SCORES)},
}
KERNEL = [
    *((query_batch, name) for name in ("sum_batch", "log_prob_batch", "expectation_batch")),
    (sample_batch, "sample_batch"),
    (check_kernel, "form_trees"),
    (check_kernel, "are_projective"),
    (decoding, "decode_batch"),
    (decoding, "kernel_kbest"),
    (decoding, "kernel_projective_kbest"),
    (constrained, "SearchSpace"),
    # The one function that asks no kernel.
    (np, "take_along_axis"),
]


def decorated():
    """All functions of the package that `names_memory` decorates, by their full name."""
    found = {}
    for module in pkgutil.iter_modules(trees.__path__, f"{trees.__name__}."):
        for holder in [place := importlib.import_module(module.name), *classes_of(place)]:
            for value in vars(holder).values():
                function = value.fget if isinstance(value, property) else value
                code = getattr(function, "__code__", None)
                if code and (code.co_filename, code.co_name) == (errors.__file__, "call"):
                    found[function.__qualname__] = function
    return found


def classes_of(module):
    return [value for value in vars(module).values() if inspect.isclass(value)]


FUNCTIONS = decorated()


def ways_to_call(name):
    """Arguments of calls: required ones by place and by name, and each other one in both ways."""
    values = VALUES | OWN_VALUES.get(name, {})
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty]
    by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    yield [values[key] for key in required], {}
    yield [], {key: values[key] for key in required}
    yield [values[key] for key in by_place], {}
    yield [], {p.name: values[p.name] for p in parameters}
    for key in [p.name for p in parameters if p.name not in required]:
        yield [values[name] for name in required], {key: values[key]}


@pytest.fixture
def no_memory(monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError

    def start():
        # Of a distribution without results, so that each query asks the kernel.
        monkeypatch.setitem(VALUES, "self", TreeDistribution(SCORES))
        for module, name in KERNEL:
            monkeypatch.setattr(module, name, fail)

    return start


def test_all_functions_are_found():
    assert {"decode", "is_tree", "sample_trees", "tree_score"} <= set(FUNCTIONS)
    assert {"TreeDistribution.entropy", "TreeDistribution.log_prob"} <= set(FUNCTIONS)
    assert len(FUNCTIONS) >= 22


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_call_and_bytes_for_arguments_by_place_and_by_name(name, no_memory):
    no_memory()
    for args, kwargs in ways_to_call(name):
        with pytest.raises(MemoryError) as error:
            FUNCTIONS[name](*args, **kwargs)
        message = str(error.value)
        pattern = re.escape(name) + r" needs at least \d+\.\d MiB of memory for these arguments; "
        assert re.match(pattern, message), (kwargs, message)
        assert isinstance(error.value.__cause__, MemoryError)


def test_the_bytes_are_those_of_arguments_by_name():
    @names_memory(lambda *, size, unit, **_: float(size * unit))
    def allocate(size, unit=2**20, other=None):
        raise MemoryError

    for args, kwargs in [((7,), {}), ((), {"size": 7}), ((7, 2**21), {"other": 1})]:
        expected = "14.0" if args[1:] else "7.0"
        with pytest.raises(MemoryError, match=f"allocate needs at least {expected} MiB"):
            allocate(*args, **kwargs)


@pytest.mark.parametrize("failure", [AttributeError, MemoryError, OverflowError, TypeError])
def test_a_counter_that_fails_does_not_replace_the_memory_error(failure):
    def count(**_):
        raise failure("from the counter")

    @names_memory(count)
    def allocate(size):
        raise MemoryError("from the kernel")

    with pytest.raises(MemoryError, match=r"allocate needs more memory than there is") as error:
        allocate(size=1)
    assert str(error.value.__cause__) == "from the kernel"


def test_heads_may_be_a_list(no_memory):
    no_memory()
    with pytest.raises(MemoryError, match=r"^tree_score needs at least"):
        tree_score(SCORES, heads=HEADS.tolist())


def test_counts_beyond_float64(no_memory):
    no_memory()
    with pytest.raises(MemoryError, match=r"^decode_kbest needs"):
        FUNCTIONS["decode_kbest"](np.zeros((300, 300)), k=10**400)


def test_a_counter_that_wants_other_arguments_fails_at_import():
    with pytest.raises(TypeError, match="scores"):

        @names_memory(lambda *, scores, **_: 0.0)
        def allocate(size):
            raise MemoryError
