"""Decoders of other parsers, replaced by ours; against the real packages where they are there."""

import importlib
import sys
import types
from dataclasses import dataclass

import numpy as np
import pytest
import reference
from strategies import rng_for

from spacy_rootmind import NoTreeError, bridges
from spacy_rootmind.bridges import Decoder, decode_batch, decode_sentence

# Their tensors and models warn of what torch will drop.
pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass(frozen=True)
class Package:
    """A package whose decoder is replaced, and where its parser looks it up."""

    home: str
    parser: str
    name: str
    takes_batches: bool


PACKAGES = {
    "stanza": Package(
        "stanza.models.common.chuliu_edmonds",
        "stanza.models.depparse.model",
        "chuliu_edmonds_one_root",
        False,
    ),
    "hopsparser": Package("hopsparser.mst", "hopsparser.parser", "chuliu_edmonds", False),
    "supar": Package("supar.structs.fn", "supar.structs.tree", "mst", True),
    "diaparser": Package("diaparser.utils.alg", "diaparser.models.dependency", "mst", True),
}

INF = np.inf
# Matrices on which each decoder fails, and how: an error, or another tree than the best.
WRONG = {
    # With scores above zero, its constant does not keep several roots away.
    "stanza positive": ("stanza", [[0, 0, 0], [3, 0, 0], [3, 3, 0]], AssertionError),
    # The constant swallows the digits of all scores.
    "stanza masks": (
        "stanza",
        [[0, 0, 0, 0], [-4, 0, -2, -1e32], [-4, -3, 0, -1e32], [-3, -4, -1, 0]],
        "worse",
    ),
    "hopsparser": (
        "hopsparser",
        [[0, 0, 0, 0], [1, 0, 2, -INF], [0, 0, 0, -INF], [3, -INF, 0, 0]],
        ValueError,
    ),
    # No tree with one root is better than its lowest number, so it keeps one with two.
    "supar masks": ("supar", [[0, 0, 0], [1, 0, 1], [-1e32, -1e32, 0]], "two roots"),
    # Sums in float32 that lose all digits except the mask's.
    "supar sums": ("supar", [[0, 0, 0], [0, 0, -1e9], [2, -1e9, 0]], "worse"),
    "diaparser": ("diaparser", [[0, 0, 0], [0, 0, -1e9], [3, -1e9, 0]], "worse"),
}


def import_package(name):
    for module in (PACKAGES[name].home, PACKAGES[name].parser):
        pytest.importorskip(module, reason=f"needs {name}")


@pytest.fixture
def parser(request):
    """The name of a package, whose decoder is its own again afterwards."""
    import_package(request.param)
    yield request.param
    bridges.uninstall(request.param)


def run(name, scores, dtype=np.float32):
    """Run the decoder that the parser of a package uses, on the scores of one sentence."""
    package = PACKAGES[name]
    decoder = getattr(importlib.import_module(package.parser), package.name)
    scores = np.array(scores, dtype=dtype)
    if not package.takes_batches:
        return decoder(scores).tolist()
    torch = importlib.import_module("torch")
    mask = torch.ones(1, len(scores), dtype=torch.bool)
    mask[:, 0] = False
    return decoder(torch.from_numpy(scores)[None], mask)[0].tolist()


EVERY = pytest.mark.parametrize("parser", list(PACKAGES), indirect=True)


@EVERY
def test_trees_are_the_same_where_theirs_are_right(parser):
    rng = rng_for("bridges")
    batch = [np.log(rng.dirichlet(np.ones(n + 1), n + 1)) for n in rng.integers(1, 12, 60)]
    theirs = [run(parser, scores, np.float64) for scores in batch]
    bridges.install(parser)
    assert [run(parser, scores, np.float64) for scores in batch] == theirs
    assert max(heads.count(0) for heads in theirs) == 2


@pytest.mark.parametrize("case", list(WRONG))
def test_ours_is_right_where_theirs_is_wrong(case):
    name, scores, failure = WRONG[case]
    import_package(name)
    given = np.array(scores, dtype=np.float32)
    best = reference.best_enumerated(given, True)
    assert best is not None
    if isinstance(failure, str):
        theirs = np.array(run(name, scores))
        theirs[0] = -1
        roots = int((theirs == 0).sum())
        assert roots == (2 if failure == "two roots" else 1)
        if failure == "worse":
            assert reference.is_tree(theirs, True)
            assert reference.score_gap(given, best, theirs) > 0
    else:
        with pytest.raises(failure):
            run(name, scores)
    bridges.install(name)
    try:
        ours = np.array([-1, *run(name, scores)[1:]])
    finally:
        bridges.uninstall(name)
    assert reference.is_tree(ours, True)
    assert reference.score_gap(given, best, ours) == 0


@EVERY
def test_uninstall_restores_the_package(parser):
    package = PACKAGES[parser]
    module = importlib.import_module(package.parser)
    before = getattr(module, package.name)
    bridges.install(parser)
    bridges.install(parser)
    assert getattr(module, package.name).__module__.startswith("spacy_rootmind")
    bridges.uninstall(parser)
    bridges.uninstall(parser)
    assert getattr(module, package.name) is before


# --- their parsers -----------------------------------------------------------------------------


def test_stanza_parser_decodes_with_it(monkeypatch):
    """The parser's own method, on scores where their decoder gives up."""
    import_package("stanza")
    from stanza.models.depparse.model import GraphParser

    class Vocab:
        def unmap(self, ids):
            return [f"label{i}" for i in ids]

    scores = np.array([WRONG["stanza positive"][1]], dtype=np.float32)
    labels = np.zeros((1, 3, 3), dtype=int).tolist()
    with pytest.raises(AssertionError):
        GraphParser.decode_graph_predictions(Vocab(), 1, (scores, labels), [3])
    bridges.install("stanza")
    try:
        [words] = GraphParser.decode_graph_predictions(Vocab(), 1, (scores, labels), [3])
    finally:
        bridges.uninstall("stanza")
    assert words == [[0, "label0"], [1, "label0"]]


def _supar_model(torch):
    from supar.models.dep import BiaffineDependencyModel

    return BiaffineDependencyModel(n_words=10, n_rels=3, n_chars=5, n_lstm_hidden=8)


def _diaparser_model(torch):
    from diaparser.models.dependency import BiaffineDependencyModel

    return BiaffineDependencyModel(n_words=10, n_feats=5, n_rels=3, n_lstm_hidden=8)


@pytest.mark.parametrize(
    ("name", "make"), [("supar", _supar_model), ("diaparser", _diaparser_model)]
)
def test_models_decode_with_it(name, make):
    """Models with random weights; a batch in which no best heads are a tree."""
    import_package(name)
    torch = importlib.import_module("torch")
    model = make(torch)
    generator = torch.Generator().manual_seed(0)
    s_arc = torch.randn(8, 10, 10, generator=generator)
    s_rel = torch.randn(8, 10, 10, 3, generator=generator)
    mask = torch.arange(10) <= torch.arange(2, 10)[:, None]
    mask[:, 0] = False
    theirs = model.decode(s_arc.clone(), s_rel, mask, tree=True)
    bridges.install(name)
    try:
        ours = model.decode(s_arc.clone(), s_rel, mask, tree=True)
    finally:
        bridges.uninstall(name)
    assert torch.equal(ours[0][mask], theirs[0][mask])
    assert torch.equal(ours[1][mask], theirs[1][mask])


# --- without the packages ----------------------------------------------------------------------


@pytest.fixture
def fake(monkeypatch):
    """A package with a decoder, and a module that has imported it by another name."""

    def decoder(scores):
        return "theirs"

    home, parser = types.ModuleType("fakeparser.mst"), types.ModuleType("fakeparser.model")
    home.decoder = parser.algorithm = decoder
    for module in (types.ModuleType("fakeparser"), home, parser):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("decoder", "other"):
        own = Decoder("fakeparser.mst", name, decode_sentence)
        monkeypatch.setitem(bridges.DECODERS, name, own)
    return home, parser


def test_function_is_replaced_wherever_it_was_imported(fake):
    home, parser = fake
    bridges.uninstall("decoder")
    bridges.install("decoder")
    bridges.install("decoder")
    assert home.decoder is parser.algorithm is decode_sentence
    bridges.uninstall("decoder")
    assert home.decoder is parser.algorithm
    assert parser.algorithm(None) == "theirs"


def test_missing_function_is_an_error(fake):
    with pytest.raises(AttributeError, match=r"'fakeparser.mst' has no attribute 'other'"):
        bridges.install("other")


def test_unknown_parser_is_an_error():
    for call in (bridges.install, bridges.uninstall):
        with pytest.raises(ValueError, match="unknown parser 'spacy', expected one of stanza, su"):
            call("spacy")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, int])
def test_sentence_is_decoded_and_left_as_it_is(dtype):
    scores = np.array([[7, 7, 7], [3, 7, 1], [3, 2, 7]], dtype=dtype)
    given = scores.copy()
    heads = decode_sentence(scores)
    assert heads.tolist() == [0, 0, 1]
    assert heads.dtype == np.intp
    assert np.array_equal(scores, given)


def test_batch_is_decoded_and_left_as_it_is():
    torch = pytest.importorskip("torch", reason="needs torch, of the extra [torch]")
    one = torch.tensor([[0, 0, 0, 9], [3, 0, 1, 9], [3, 2, 0, 9], [9, 9, 9, 9]])
    scores = torch.stack([one, one]).half().requires_grad_()
    given = scores.detach().clone()
    mask = torch.tensor([[False, True, True, False], [False, True, False, False]])
    assert decode_batch(scores, mask).tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    assert decode_batch(scores, mask, multiroot=True).tolist() == [[0, 0, 0, 0], [0, 0, 0, 0]]
    assert torch.equal(scores.detach(), given)


def test_sentence_without_a_tree_is_an_error():
    with pytest.raises(NoTreeError, match="exactly one root"):
        decode_sentence(np.array([[0, 0, 0], [1, 0, -INF], [1, -INF, 0]]))
