"""`spacy train`, interrupted: what it leaves loads or is refused, and the same command mends it."""

import random
import signal

import pytest
from faults.runs import SAVERS

# Bytes: less than the parser's weights, more than spaCy's other files.
LIMIT = 200_000
MANY = [("SIGKILL", 14), ("SIGTERM", 3), ("SIGINT", 5)]


def check_end(run, faults, expected):
    result = run(faults=faults)
    assert result.returncode != 0
    left = run.check_left()
    print(f"{faults}: exit code {result.returncode}, left {left}")
    run.check_repeated(expected)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        pytest.param("SIGKILL", 1, marks=pytest.mark.workflow),
        *(pytest.param(*own, marks=pytest.mark.slow) for own in MANY),
    ],
)
def test_training_ended_while_saving_is_repeated(name, n, make_training, expected_training):
    """At moments chosen at random."""
    n_moments = make_training().n_moments(SAVERS)
    rng = random.Random(name)
    for moment in sorted(rng.sample(range(1, n_moments + 1), n)):
        faults = {**SAVERS, "at": moment, "signal": getattr(signal, name)}
        check_end(make_training(), faults, expected_training)


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True])
def test_training_on_a_full_disk_is_repeated(torn, make_training, expected_training):
    rng = random.Random(torn)
    for _ in range(3):
        limit = rng.randint(80_000, LIMIT)
        check_end(make_training(), {"file_size": limit, "torn": torn}, expected_training)


def test_weights_cut_off_by_a_full_disk_are_refused(make_training):
    run = make_training()
    result = run(faults={"file_size": LIMIT})
    assert result.returncode == 1
    assert b"File too large" in result.stderr
    refused = run.check_left()["model-last"]
    assert refused.startswith("ValueError: ")
    assert str(run.output / "model-last" / "root_mst") in refused
