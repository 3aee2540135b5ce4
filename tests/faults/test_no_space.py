"""Outputs that cannot be written, since the disk is full or a folder may not be changed."""

import random
import signal

import pytest
from faults.inject import wait_for
from faults.runs import FORMATS, WRITERS, names_in

# Enough for messages, which go to files as well.
SMALLEST = 1000


def check_limit(run, limit, torn, expected):
    """Check repeating a run whose files may not grow beyond a limit; returns if it was reached."""
    result = run(faults={"file_size": limit, "torn": torn})
    if result.returncode == 0:
        return False
    if torn:
        assert result.returncode == -signal.SIGXFSZ
    else:
        assert result.returncode == 1
        assert b"Cannot write" in result.stderr
        assert not names_in(run.folder)
    run.check_repeated(expected)
    return True


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(f, marks=pytest.mark.workflow if f == "docs" else pytest.mark.slow)
        for f in FORMATS
    ],
)
def test_run_that_cannot_write_all_of_a_file_is_repeated(form, torn, make_run, expected):
    whole = expected(form)
    rng = random.Random(f"{form} {torn}")
    limits = [rng.randint(SMALLEST, max(map(len, whole.values()))) for _ in range(5)]
    n_reached = sum(check_limit(make_run(form), limit, torn, whole) for limit in limits)
    print(f"{form}: {n_reached} of {len(limits)} limits reached")
    assert n_reached


# --- folders that may not be changed -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_run_to_a_folder_that_may_not_be_changed_leaves_nothing(form, make_run, expected):
    run = make_run(form)
    run.folder.chmod(0o555)
    result = run(faults={"unprivileged": True})
    run.folder.chmod(0o755)
    assert result.returncode == 1
    assert b"Permission denied" in result.stderr
    assert not names_in(run.folder)
    run.check_repeated(expected(form))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_run_whose_folder_is_closed_meanwhile_is_repeated(form, make_run, expected):
    reached, go = (make_run(form).folder / name for name in ("reached", "go"))
    run = make_run(form)
    faults = {**WRITERS, "at": 4, "reached": str(reached), "go": str(go), "unprivileged": True}
    run.start(faults=faults)
    wait_for(reached)
    folders = [path for path in (run.folder, *run.folder.iterdir()) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    go.touch()
    result = run.server.wait()
    for folder in folders:
        folder.chmod(0o755)
    assert result.returncode == 1
    assert b"Permission denied" in result.stderr
    assert not run.output.exists()
    run.check_repeated(expected(form))


@pytest.mark.workflow
@pytest.mark.one_each("form")
@pytest.mark.parametrize(("name", "code"), [("SIGKILL", -9), ("SIGTERM", 143), ("SIGINT", 130)])
@pytest.mark.parametrize("form", FORMATS)
def test_run_ended_while_writing_leaves_no_output_or_all_of_it(
    form, name, code, make_run, expected
):
    n_moments = make_run(form).n_moments(WRITERS)
    rng = random.Random(f"{form} {name}")
    for moment in rng.sample(range(1, n_moments + 1), min(6, n_moments)):
        run = make_run(form)
        result = run(faults={**WRITERS, "at": moment, "signal": getattr(signal, name)})
        assert result.returncode == code, result.stderr
        run.check_repeated(expected(form))
