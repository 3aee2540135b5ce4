"""Two runs of `parse` to one output: one completes it, and the other says why it does not."""

import random

import pytest
from faults.inject import wait_for
from faults.runs import FORMATS, WRITERS, contents, names_in


def check_pair(run, other_launcher, moment, options, expected):
    """Start a run, hold it at a moment, do all of another one, and let the first go on."""
    reached, go = (run.folder.parent / name for name in ("reached", "go"))
    run.start(faults={**WRITERS, "at": moment, "reached": str(reached), "go": str(go)})
    wait_for(reached)
    run.start(*options, server=other_launcher)
    second = other_launcher.wait()
    go.touch()
    first = run.server.wait()
    codes = [first.returncode, second.returncode]
    printed = (first.stderr + second.stderr).decode()
    assert "Traceback" not in printed, printed
    assert contents(run.output) == expected, printed
    if codes != [0, 0]:
        assert sorted(codes) == [0, 1], printed
        refused = first if first.returncode else second
        assert any(
            reason in refused.stderr
            for reason in (b"Another run", b"already exists", b"did not finish")
        ), printed
    else:
        # The first had completed the output, and was asked to overwrite it.
        assert "--force" in options
    assert names_in(run.folder) == [run.output.name]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--resume",), ("--force",)], ids=str)
@pytest.mark.parametrize("form", ["conllu", "docs", "file of docs"])
def test_one_of_two_writers_completes(form, options, make_run, other_launcher, expected):
    n_moments = make_run(form).n_moments(WRITERS)
    whole = expected(form)
    # Near the start and the end, where names change, and some of the others.
    moments = [*range(1, 9), *range(9, n_moments - 12, 10), *range(n_moments - 12, n_moments + 1)]
    print(f"{form}: {len(moments)} pairs, the second with {options}")
    failed = {}
    for moment in moments:
        try:
            check_pair(make_run(form), other_launcher, moment, options, whole)
        except AssertionError as error:
            failed[moment] = str(error)
    assert not failed


@pytest.mark.workflow
@pytest.mark.parametrize("options", [(), ("--resume",), ("--force",)], ids=str)
def test_one_pair_of_writers_completes(options, make_run, other_launcher, expected):
    rng = random.Random(str(options))
    form = rng.choice(list(FORMATS))
    moment = rng.randint(1, make_run(form).n_moments(WRITERS))
    check_pair(make_run(form), other_launcher, moment, options, expected(form))
