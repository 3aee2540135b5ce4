"""The compiled Adam against Thinc's: weights, moments, averages, and everything else it keeps."""

import pickle

import numpy as np
import pytest
import spacy
from parsers import SMALL_MODEL, gold_examples, join
from spacy.util import fix_random_seed
from thinc.api import Adam, constant_then, decaying

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.training.optimizer import make_adam

KEY = (3, "W")
STEPS = 200
# More than a block of the compiled loop, and a rest; empty along another axis than the first.
SHAPES = [(1,), (7,), (3, 5, 2), (4, 517), (0,), (3, 0)]


def gradients(rng, shape):
    """Yield gradients of many sizes, and now and then zeros."""
    for step in range(STEPS):
        size = 10.0 ** rng.integers(-6, 3) * (step % 5 > 0)
        yield (size * rng.normal(size=shape)).astype(np.float32)


def take_steps(make, shape=(9,), given=None, **settings):
    """Return weights and optimizer after steps with random gradients, or given ones."""
    rng = np.random.default_rng(1)
    optimizer = make(**settings)
    weights = rng.normal(size=shape).astype(np.float32)
    for gradient in given or gradients(rng, shape):
        weights, cleared = optimizer(KEY, weights, gradient.copy())
        assert not cleared.any()
        optimizer.step_schedules()
    return weights, optimizer


def assert_same(found, expected):
    """Compare weights and optimizers, up to rounding; NaN only where NaN is expected."""
    (weights, optimizer), (other_weights, other) = found, expected
    np.testing.assert_allclose(weights, other_weights, rtol=2e-6, atol=2e-6)
    for name in ("mom1", "mom2", "averages"):
        arrays, others = (getattr(each, name) or {} for each in (optimizer, other))
        assert arrays.keys() == others.keys()
        for key in arrays:
            assert arrays[key].shape == others[key].shape
            assert arrays[key].dtype == others[key].dtype
            # Relative to the largest: sums differ in their last digits.
            scale = np.nan_to_num(np.abs(others[key])).max(initial=1e-30)
            np.testing.assert_allclose(arrays[key] / scale, others[key] / scale, atol=5e-6)
    assert optimizer.nr_update == other.nr_update
    assert optimizer.learn_rate == other.learn_rate


@pytest.mark.parametrize("simd", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_thincs(shape, simd):
    kernel.use_simd(simd)
    try:
        found = take_steps(make_adam, shape, L2=0.01)
    finally:
        kernel.use_simd(True)
    assert_same(found, take_steps(Adam, shape, L2=0.01))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_averages": False},
        {"grad_clip": 0.0, "L2": 0.1},
        {"grad_clip": 1e-3, "beta1": 0.5, "beta2": 0.9, "eps": 1e-4},
        {"L2": 0.1, "L2_is_weight_decay": False},
        {"learn_rate": 0.1, "L2": 1.0},
        # Not Adam at all.
        {"beta1": 0.0, "beta2": 0.0},
    ],
    ids=str,
)
def test_settings_mean_what_they_mean_to_thinc(settings):
    assert_same(take_steps(make_adam, **settings), take_steps(Adam, **settings))


def test_defaults_and_schedules_are_thincs():
    def schedules():
        return {
            "learn_rate": decaying(0.01, 1e-2),
            "L2": constant_then(0.1, 50, decaying(0.05, 1e-3)),
            "grad_clip": [1.0, 0.5],
        }

    assert_same(take_steps(make_adam, **schedules()), take_steps(Adam, **schedules()))
    made, other = make_adam(), Adam()
    for name in ("learn_rate", "b1", "b2", "eps", "L2", "grad_clip", "L2_is_weight_decay"):
        assert getattr(made, name) == getattr(other, name)


def test_a_run_is_resumed_in_either_direction():
    """State goes on in another process, and in Thinc's own optimizer, and back."""
    given = list(gradients(np.random.default_rng(4), (9,)))
    _, expected = take_steps(Adam, (9,), given, L2=0.1)
    for first, second in ((make_adam, make_adam), (make_adam, Adam), (Adam, make_adam)):
        weights, before = take_steps(first, (9,), given[:120], L2=0.1)
        after = second(L2=0.1)
        saved = pickle.loads(pickle.dumps(before))
        for name in ("mom1", "mom2", "averages", "nr_update"):
            setattr(after, name, getattr(saved, name))
        for gradient in given[120:]:
            after(KEY, weights, gradient.copy())
        assert_same((weights, after), (take_steps(Adam, (9,), given, L2=0.1)[0], expected))


def test_a_pipeline_trains_with_it(quickstart_docs):
    """Named in a config, for `initialize` and `resume_training`; its averages can be evaluated."""
    settings = {"@optimizers": "spacy_rootmind.Adam.v1", "learn_rate": 0.01}
    losses = []
    for chosen in (settings, {**settings, "@optimizers": "Adam.v1"}):
        fix_random_seed(0)
        nlp = spacy.blank("xx", config={"training": {"optimizer": chosen}})
        nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
        examples = gold_examples(join(quickstart_docs[:9], 3), nlp)
        optimizer = nlp.initialize(lambda examples=examples: examples)
        losses.append([nlp.update(examples, sgd=optimizer)["root_mst"] for _ in range(10)])
        assert nlp.resume_training() is optimizer
        with nlp.use_params(optimizer.averages):
            assert nlp(examples[0].text).has_annotation("DEP")
    # After that, differences in the last digits grow.
    np.testing.assert_allclose(losses[0][:4], losses[1][:4], rtol=1e-3)
    assert losses[0][-1] < 0.7 * losses[0][0]
