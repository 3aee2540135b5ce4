"""Options of the test run, and fixtures that several tests share.

Nothing here imports spaCy before a fixture needs it: tests of arrays run without it.
"""

import gc
import os
import re
import signal
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

# Tests run in parallel, one process per core. To be set before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from faster_spacy import keep_few_exceptions, look_through_once
from no_network import forbid_network

forbid_network()
look_through_once()
keep_few_exceptions()
# Until all tests are collected, there is no garbage worth looking for.
gc.disable()
# A shell starts commands in the background without Ctrl-C, and what they start inherits this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "projects" / "quickstart"
PIPELINE = ROOT / "pipelines" / "en_rootmind_web_sm"
# The package under test may be installed elsewhere.
CONFIGS = Path(find_spec("spacy_rootmind").origin).parent / "configs"


def blocks(page, language):
    """The fenced blocks of a page in a language, such as `python`."""
    text = (ROOT / page).read_text(encoding="utf8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def pytest_addoption(parser):
    """Let a run take a part of each grid of cases (for sanitizers, any values do), or a GPU."""
    parser.addoption("--every", type=int, default=1, help="run every N-th case of each test")
    parser.addoption("--gpu", action="store_true", help="test_device.py: on a GPU, with CuPy")


def pytest_configure(config):
    """Put a GPU in the place of the stand-in for one."""
    if config.getoption("gpu"):
        import device

        try:
            device.use_gpu()
        except ImportError as error:
            raise pytest.UsageError(f"--gpu needs CuPy and a GPU: {error}") from error


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark cases as slow, then leave out those that `--every` does not ask for."""
    mark_slow(items)
    counts = Counter()
    chosen, others = [], []
    for item in items:
        is_default = not any(item.iter_markers("slow"))
        place = counts[item.function, is_default]
        counts[item.function, is_default] += 1
        (others if place % config.getoption("every") else chosen).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


def pytest_collection_finish():
    """Leave the thousands of collected cases out of later searches for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


def mark_slow(items):
    """Mark as slow all but one case for each combination of what `one_each` names.

    These are parameters, or keys of a parameter `options`. The case differs from one
    combination to the next, as in a Latin square, so that other parameters vary as well, and with
    each value of the named ones.
    """
    groups = {}
    for item in items:
        for mark in item.iter_markers("one_each"):
            params = {**item.callspec.params, **item.callspec.params.get("options", {})}
            kind = repr([params[name] for name in mark.args])
            groups.setdefault(item.function, {}).setdefault(kind, []).append(item)
    for kinds in groups.values():
        for i, cases in enumerate(kinds.values()):
            chosen = cases[(i + i // len(cases)) % len(cases)]
            for case in cases:
                if case is not chosen:
                    case.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def web_pipeline():
    """The folder of the English pipeline in the repository, which need not be installed."""
    if not PIPELINE.parent.is_dir():
        pytest.skip("the source distribution has no pipelines")
    [folder] = PIPELINE.glob(f"{PIPELINE.name}/{PIPELINE.name}-*")
    return folder


@pytest.fixture(scope="session")
def quickstart_docs():
    """The bundled treebank's training sentences."""
    import spacy
    from parsers import read_conllu

    nlp = spacy.blank("xx")
    return read_conllu(QUICKSTART / "assets" / "en_quick-ud-train.conllu", nlp.vocab)


@pytest.fixture(scope="session")
def ud_folder():
    """A folder of real Universal Dependencies treebanks."""
    folder = os.environ.get("ROOTMIND_UD")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set ROOTMIND_UD to a folder of Universal Dependencies treebanks")
    return Path(folder)


@pytest.fixture(scope="session")
def trained(quickstart_docs):
    """A small parser that has learnt a hundred sentences; use it, do not change it."""
    from parsers import gold_examples, make_nlp, train

    nlp = make_nlp()
    return train(nlp, gold_examples(quickstart_docs[:100], nlp), steps=100)


@pytest.fixture(scope="session")
def unsure(quickstart_docs):
    """A parser that has learnt little, after a sentencizer; use it, do not change it."""
    from parsers import gold_examples, make_nlp, train

    nlp = make_nlp()
    nlp.add_pipe("sentencizer", first=True)
    return train(nlp, gold_examples(quickstart_docs[:20], nlp), steps=15)


@pytest.fixture(scope="session")
def segmenter(quickstart_docs):
    """A parser that has learnt Docs of five sentences; use it, do not change it."""
    from parsers import gold_examples, join, make_nlp, train

    nlp = make_nlp()
    return train(nlp, gold_examples(join(quickstart_docs[:200], 5), nlp), steps=80, size=4)


@pytest.fixture(scope="session")
def trained_english(trained):
    """The same parser in an English pipeline; use it, do not change it."""
    from parsers import with_weights_of

    return with_weights_of(trained, lang="en")


@pytest.fixture(scope="session")
def pipeline(trained, tmp_path_factory):
    """A folder with a small parser."""
    folder = tmp_path_factory.mktemp("pipeline") / "model"
    trained.to_disk(folder)
    return folder


@pytest.fixture(scope="session")
def dev_conllu():
    """A small treebank in CoNLL-U."""
    return QUICKSTART / "assets" / "en_quick-ud-dev.conllu"
