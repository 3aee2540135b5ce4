"""`parse`, ended by signals: an output is complete or can be resumed."""

import random
import signal
import time

import pytest
from faults.runs import FORMATS, WRITERS

RETURN_CODES = {"SIGKILL": -9, "SIGTERM": 143, "SIGINT": 130}


def end_at(run, name, moment):
    """Run the command, which ends at a moment."""
    number = getattr(signal, name)
    result = run(faults={**WRITERS, "at": moment, "signal": number})
    assert result.returncode == RETURN_CODES[name], result.stderr
    assert name == "SIGKILL" or b"Interrupted after" in result.stderr


def check_moments(form, name, moments, make_run, expected):
    """Check resuming after a signal at each of these moments; reports all that fail."""
    failed = {}
    for moment in moments:
        run = make_run(form)
        try:
            end_at(run, name, moment)
            run.check_resumed(expected(form))
        except AssertionError as error:
            failed[moment] = str(error)
    assert not failed


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("name", "step"), [("SIGKILL", 8), ("SIGTERM", 24), ("SIGINT", 24)])
def test_run_ended_while_writing_is_resumed(form, name, step, make_run, expected):
    n_moments = make_run(form).n_moments(WRITERS)
    # Most things happen at the end.
    last = max(1, n_moments - 2 * step)
    moments = [*range(1, last, step), *range(last, n_moments + 1, step // 8)]
    print(f"{form}: {len(moments)} of {n_moments} moments, {name}")
    check_moments(form, name, moments, make_run, expected)


@pytest.mark.workflow
@pytest.mark.parametrize(
    ("form", "name"),
    [("conllu", "SIGTERM"), ("jsonl", "SIGINT"), ("docs", "SIGKILL"), ("file of docs", "SIGKILL")],
)
def test_run_ended_once_while_writing_is_resumed(form, name, make_run, expected):
    moment = random.Random(form).randint(1, make_run(form).n_moments(WRITERS))
    check_moments(form, name, [moment], make_run, expected)


def check_random_ends(run, rng, n_ends, seconds, expected):
    """End a run and those that resume it, at any time, with or without its workers; then resume.

    Returns how many were ended before they were complete.
    """
    n_ended = 0
    for i in range(n_ends):
        name = rng.choice(list(RETURN_CODES))
        end = {
            "number": getattr(signal, name),
            "delay": rng.uniform(0, seconds),
            "group": rng.random() < 0.5,
        }
        # A signal may come before the command has taken over the handling of signals.
        run.start(*(["--resume"] * (i > 0)), signal=end)
        result = run.server.wait()
        n_ended += result.returncode != 0
        if run.output.exists():
            break
    run.check_resumed(expected)
    return n_ended


@pytest.mark.slow
@pytest.mark.parametrize("n_process", [1, 2])
@pytest.mark.parametrize("form", FORMATS)
def test_run_ended_at_any_time_is_resumed(form, n_process, make_run, expected):
    options = ("-n", str(n_process), "-b", "4")
    whole = expected(form, *options)
    start = time.monotonic()
    make_run(form, *options)()
    seconds = time.monotonic() - start
    rng = random.Random(f"{form} {n_process}")
    n_ended = sum(
        check_random_ends(make_run(form, *options), rng, 3, seconds, whole) for _ in range(4)
    )
    print(f"{form}, {n_process} processes: {n_ended} ended at any time")
    assert n_ended


@pytest.mark.workflow
def test_two_processes_ended_once_are_resumed(make_run, expected):
    options = ("-n", "2", "-b", "4")
    run = make_run("jsonl", *options)
    check_random_ends(run, random.Random(0), 1, 1.0, expected("jsonl", *options))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_killed_worker_changes_nothing(form, make_run, expected):
    options = ("-n", "2", "-b", "4")
    for i in range(4):
        run = make_run(form, *options)
        result = run(faults={"worker_delay": 0.01 + 0.1 * i})
        assert result.returncode == 0, result.stderr
        run.check_resumed(expected(form, *options))


@pytest.mark.workflow
@pytest.mark.parametrize("resume", [True, False])
def test_run_that_overwrites_keeps_the_old_output_until_it_is_complete(resume, make_run, expected):
    run = make_run("docs", "--force")
    whole = expected("docs")
    run.output.mkdir()
    (run.output / "part-00001.spacy").write_bytes(b"old")
    result = run(faults={**WRITERS, "at": 30, "signal": signal.SIGTERM})
    assert result.returncode == 143
    assert b"--resume" in result.stderr
    assert [path.read_bytes() for path in run.output.iterdir()] == [b"old"]
    result = run(*(["--resume"] * resume))
    assert result.returncode == 0
    assert (b"Continuing after" in result.stderr) == resume
    assert {path.name: path.read_bytes() for path in run.output.iterdir()} == whole
