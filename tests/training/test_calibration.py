"""Temperatures: what is fitted, what is kept, and the corpus reader in a training run."""

import json
from functools import partial

import numpy as np
import pytest
import spacy
import srsly
from commandline import TOK2VEC, run_spacy, write_docs
from conftest import QUICKSTART
from parsers import (
    LISTENING,
    SMALL_MODEL,
    arc_scores,
    assign,
    gold_examples,
    join,
    make_nlp,
    make_shared,
    train,
)
from reference import clean, enumerate_trees
from spacy.training import Example
from strategies import rng_for

from spacy_rootmind import sample_trees
from spacy_rootmind.pipeline import calibration_corpus
from spacy_rootmind.pipeline.calibration_corpus import annotate_before, make_calibration_corpus
from spacy_rootmind.training.calibration import (
    fit_temperature,
    head_loss,
    label_loss,
)
from spacy_rootmind.trees.conventions import MISSING


def drawn_batches(rng, temperature, n_batches=6, b=40, n=7, scale=3.0, rate=0.0):
    """Random scores, and gold heads drawn from the trees of scores divided by the temperature."""
    batches = []
    for _ in range(n_batches):
        lengths = rng.integers(1, n + 1, size=b)
        scores = (scale * rng.standard_normal((b, n + 1, n + 1))).astype("f")
        heads = np.full((b, n + 1), MISSING)
        for i, length in enumerate(lengths.tolist()):
            own = scores[i, : length + 1, : length + 1].astype("d") / temperature
            trees, _ = sample_trees(own, 1, seed=rng)
            heads[i, 1 : length + 1] = trees[0, 1:]
        heads[rng.random(heads.shape) < rate] = MISSING
        batches.append((scores, lengths, heads))
    return batches


def loss_by_enumeration(batches, temperature, projective=False):
    total = 0.0
    for scores, lengths, heads in batches:
        for own, n, gold in zip(scores, lengths.tolist(), heads, strict=True):
            trees = enumerate_trees(n, True, projective)
            inside = clean(own[: n + 1, : n + 1]) / temperature
            sums = inside[np.arange(1, n + 1), trees[:, 1:]].sum(axis=1)
            weights = np.exp(sums - sums.max())
            weights /= weights.sum()
            for dep in range(1, n + 1):
                if gold[dep] != MISSING:
                    total -= np.log(weights[trees[:, dep] == gold[dep]].sum())
    return total


# --- fitting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_fit_finds_the_temperature_that_gold_was_drawn_at(temperature, rate):
    rng = rng_for("fit", temperature)
    batches = drawn_batches(rng, temperature, scale=2 * temperature, rate=rate)
    # Several hundred words tell a temperature to a few percent.
    fitted = fit_temperature(partial(head_loss, batches))
    assert fitted == pytest.approx(temperature, rel=0.15)
    # It is found to one percent, where the loss is flat to its square.
    least = (1 - 1e-4) * head_loss(batches, fitted)
    assert all(head_loss(batches, factor * fitted) >= least for factor in (0.5, 0.97, 1.03, 2.0))


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_head_loss_is_that_of_enumeration(temperature, projective):
    batches = drawn_batches(rng_for("head loss"), 1.0, n_batches=2, b=10, n=5, rate=0.3)
    expected = loss_by_enumeration(batches, temperature, projective)
    assert head_loss(batches, temperature, projective) == pytest.approx(expected, rel=1e-9)


def test_fit_without_anything_known_is_one():
    assert fit_temperature(partial(head_loss, [])) == 1.0
    [(scores, lengths, heads)] = drawn_batches(rng_for("nothing"), 2.0, n_batches=1)
    unknown = (scores, lengths, np.full_like(heads, MISSING))
    empty = (np.zeros((1, 1, 1), "f"), np.zeros(1, int), np.full((1, 1), MISSING))
    # One word has one head, which is certain.
    certain = (np.zeros((1, 2, 2), "f"), np.ones(1, int), np.array([[MISSING, 0]]))
    for batch in (unknown, empty, certain):
        assert fit_temperature(partial(head_loss, [batch])) == 1.0
    assert fit_temperature(partial(label_loss, [])) == 1.0
    assert fit_temperature(partial(label_loss, [(np.zeros((0, 3), "f"), np.zeros(0, "i8"))])) == 1.0


def test_fit_is_among_temperatures_that_are_equally_good():
    """As where a parser is right and so sure that its loss is exactly 0 at low temperatures."""
    fitted = fit_temperature(lambda temperature: max(0.0, temperature - 0.4))
    assert 0.1 <= fitted <= 0.4


# --- in the component --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dev(quickstart_docs):
    return join(quickstart_docs[100:160], 3)


@pytest.fixture(scope="module")
def weights(quickstart_docs):
    """The weights of a parser that has learnt twenty Docs by heart."""
    nlp = make_nlp()
    train(nlp, gold_examples(join(quickstart_docs[:60], 3), nlp), steps=40, size=5)
    return nlp.get_pipe("root_mst").to_bytes(exclude=["vocab"])


@pytest.fixture
def make(weights):
    def make(**config):
        nlp = make_nlp(**config)
        nlp.get_pipe("root_mst").from_bytes(weights, exclude=["vocab"])
        return nlp

    return make


def test_fitted_temperature_makes_gold_heads_most_probable(make, dev):
    nlp = make()
    parser = nlp.get_pipe("root_mst")
    assert parser.temperature == 1.0
    examples = gold_examples(dev, nlp)
    fitted = parser.fit_temperature(examples)
    assert parser.temperature == parser.cfg["temperature"] == fitted
    assert fitted != 1.0
    # Against the network's own scores, by way of what it says of gold sentences.
    batches = []
    for gold in dev:
        for sentence, scores in zip(gold.sents, arc_scores(nlp, gold), strict=True):
            heads = [0 if t.head == t else t.head.i - sentence.start + 1 for t in sentence]
            batches.append((scores[None], np.array([len(heads)]), np.array([[MISSING, *heads]])))
    least = head_loss(batches, fitted)
    for factor in (0.6, 0.9, 1.1, 1.6):
        assert head_loss(batches, fitted * factor) > least
    assert head_loss(batches, 1.0) > least


def test_fitted_label_temperature_makes_gold_labels_most_probable(make, dev):
    """Against what arcs say, where all other arcs and labels are as improbable as can be."""
    dev = dev[:6]
    nlp = make()
    parser = nlp.get_pipe("root_mst")
    parser.fit_temperature(gold_examples(dev, nlp))
    fitted = parser.cfg["label_temperature"]
    assert fitted != 1.0
    assign(parser, arc_threshold=1e-30)

    def loss(temperature):
        parser.cfg["label_temperature"] = temperature
        total = 0.0
        for gold in dev:
            [copy] = (eg.predicted for eg in gold_examples([gold], nlp))
            for token, own in zip(copy, gold, strict=True):
                token.is_sent_start = own.is_sent_start
            parser(copy)
            for token in gold:
                arcs = [arc for arc in copy[token.i]._.arcs if arc.head.i == token.head.i]
                if token.head != token:
                    [right] = [arc.prob for arc in arcs if arc.dep == token.dep_] or [1e-30]
                    total -= np.log(right / sum(arc.prob for arc in arcs))
        return total

    least = loss(fitted)
    for temperature in (fitted * 0.7, fitted * 1.4, 1.0):
        assert loss(temperature) > least


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_fit_finds_the_temperature_that_labels_were_drawn_at(temperature):
    rng = rng_for("labels", temperature)
    batches = []
    for n in (300, 1, 500):
        scores = (2 * temperature * rng.standard_normal((n, 7))).astype("f")
        probs = np.exp(scores.astype("d") / temperature)
        probs /= probs.sum(axis=1, keepdims=True)
        labels = np.array([rng.choice(7, p=own) for own in probs])
        batches.append((scores, labels))
        expected = -np.log(probs[np.arange(n), labels]).sum()
        assert label_loss(batches[-1:], temperature) == pytest.approx(expected, rel=1e-9)
    fitted = fit_temperature(partial(label_loss, batches))
    assert fitted == pytest.approx(temperature, rel=0.15)
    least = label_loss(batches, fitted)
    assert label_loss(batches, fitted * 1.05) > least < label_loss(batches, fitted * 0.95)


def test_config_wins_over_what_is_fitted(make, dev):
    nlp = make(temperature=3.0, confidence=True)
    parser = nlp.get_pipe("root_mst")
    fitted = parser.fit_temperature(gold_examples(dev, nlp))
    assert fitted == parser.cfg["temperature"] != 3.0
    assert parser.temperature == 3.0
    text = "She said that it rained."
    at_three = nlp(text)[0].sent._.parse_log_prob
    assign(parser, temperature=None)
    assert parser.temperature == fitted
    assert nlp(text)[0].sent._.parse_log_prob != at_three
    other = make(confidence=True)
    other.get_pipe("root_mst").cfg["temperature"] = 3.0
    assert other(text)[0].sent._.parse_log_prob == at_three


def test_temperatures_are_fitted_to_projective_trees_if_only_these_are_found(make, dev):
    nlp = make()
    parser = nlp.get_pipe("root_mst")
    before = parser.fit_temperature(gold_examples(dev, nlp))
    assign(parser, projective=True)
    assert parser.fit_temperature(gold_examples(dev, nlp)) != before


@pytest.mark.parametrize("decode", ["tree", "labelled_tree"])
def test_trees_depend_on_temperatures_only_if_labels_decide(make, dev, decode):
    nlp = make(decode=decode)
    parser = nlp.get_pipe("root_mst")
    scores = []
    for temperatures in ((1.0, 1.0), (20.0, 0.1)):
        parser.cfg["temperature"], parser.cfg["label_temperature"] = temperatures
        scores.append(nlp.evaluate(gold_examples(dev, nlp))["dep_uas"])
    assert (scores[0] != scores[1]) == (decode == "labelled_tree")
    # Initialization forgets them.
    parser.initialize(lambda: gold_examples(dev, nlp), labels=parser.label_data)
    assert (parser.temperature, parser.cfg["label_temperature"]) == (1.0, 1.0)


def test_fit_takes_any_iterable_and_odd_examples(make, dev):
    nlp = make()
    parser = nlp.get_pipe("root_mst")
    plain = parser.fit_temperature(gold_examples(dev, nlp))
    blank = [Example(nlp.make_doc(text), nlp.make_doc(text)) for text in ("", " ", "No trees.")]
    odd = [*blank, *gold_examples(dev, nlp), *blank]
    assert parser.fit_temperature(iter(odd)) == pytest.approx(plain, rel=1e-6)
    assert parser.fit_temperature(blank) == 1.0
    assert parser.fit_temperature([]) == 1.0


# --- the corpus reader ---------------------------------------------------------------------------


def fit(nlp, docs, **settings):
    """Read a corpus of these Docs with the reader, as spaCy does before it evaluates."""
    return list(make_calibration_corpus(lambda nlp: gold_examples(docs, nlp), **settings)(nlp))


class Recorder:
    """A component of the user's own that has no `pipe`, and marks the Docs that it sees."""

    def __call__(self, doc):
        doc.user_data["seen"] = doc.user_data.get("seen", 0) + 1
        return doc


@spacy.Language.factory("test_rootmind_recorder")
def make_recorder(nlp, name):
    return Recorder()


def test_components_before_the_parser_are_run_and_no_others(make):
    nlp = make()
    nlp.add_pipe("sentencizer", before="root_mst")
    nlp.add_pipe("test_rootmind_recorder", before="root_mst")
    nlp.add_pipe("test_rootmind_recorder", name="after")
    text = "She slept. It rained."
    examples = [Example(nlp.make_doc(text), nlp.make_doc(text)) for _ in range(70)]
    found = list(annotate_before(nlp, "root_mst", examples))
    assert len(found) == 70
    for old, new in zip(examples, found, strict=True):
        assert new.reference is old.reference
        assert new.predicted.user_data["seen"] == 1
        assert "seen" not in old.predicted.user_data
        assert [s.start for s in new.predicted.sents] == [0, 3]
        assert not new.predicted.has_annotation("DEP")
    with nlp.select_pipes(disable=["sentencizer"]):
        [found] = annotate_before(nlp, "root_mst", [Example(nlp.make_doc(text), nlp(text))])
        assert not found.predicted.has_annotation("SENT_START")
    with nlp.select_pipes(disable=["root_mst"]):
        [found] = annotate_before(nlp, "root_mst", [Example(nlp.make_doc(text), nlp(text))])
        assert found.predicted.user_data["seen"] == 1


def test_reader_fits_with_what_a_shared_tok2vec_says(quickstart_docs, dev):
    """Without the shared vectors, scores and temperature would be those for zeros."""
    nlp = make_shared({"root_mst": LISTENING})
    train(nlp, gold_examples(join(quickstart_docs[:60], 3), nlp), steps=8, size=5)
    parser = nlp.get_pipe("root_mst")
    fit(nlp, dev)
    fitted = parser.temperature
    ready = gold_examples(dev, nlp)
    list(nlp.get_pipe("tok2vec").pipe([eg.predicted for eg in ready]))
    assert parser.fit_temperature(ready) == pytest.approx(fitted, rel=1e-6)
    nlp.replace_listeners("tok2vec", "root_mst", ["model.tok2vec"])
    parser = nlp.get_pipe("root_mst")
    assert parser.fit_temperature(gold_examples(dev, nlp)) == pytest.approx(fitted, rel=1e-6)


def test_reader_leaves_its_examples_as_they_were_read(make, dev):
    nlp = make()
    nlp.add_pipe("sentencizer", before="root_mst")
    examples, weights = gold_examples(dev, nlp), nlp.get_pipe("root_mst").model.to_bytes()
    found = make_calibration_corpus(lambda nlp: examples)(nlp)
    assert found == examples
    assert nlp.get_pipe("root_mst").model.to_bytes() == weights
    assert nlp.get_pipe("root_mst").temperature != 1.0
    for example in found:
        if len(example.predicted) > 1:
            assert not example.predicted.has_annotation("SENT_START")
        assert not example.predicted.user_data


@pytest.mark.parametrize("is_frozen", [True, False])
def test_reader_of_a_frozen_or_untrained_parser_only_reads(is_frozen, make, dev):
    nlp = make() if is_frozen else make_nlp()
    # This component would fail.
    nlp.add_pipe("tagger", first=True)
    nlp.config["training"]["frozen_components"] = ["root_mst"] * is_frozen
    assert len(fit(nlp, dev)) == len(dev)
    parser = nlp.get_pipe("root_mst")
    assert (parser.temperature, parser.cfg["label_temperature"]) == (1.0, 1.0)


def test_reader_fits_to_some_of_a_large_corpus_evenly(make, dev, monkeypatch):
    nlp = make()
    examples = gold_examples(dev * 3, nlp)
    total = sum(len(eg.predicted) for eg in examples)
    seen = []
    monkeypatch.setattr(nlp.get_pipe("root_mst"), "fit_temperature", seen.extend)
    for share, step in ((1, 1), (2, 2), (5, 5)):
        monkeypatch.setattr(calibration_corpus, "FIT_WORDS", -(-total // share))
        seen.clear()
        assert len(fit(nlp, dev * 3)) == len(examples)
        assert [eg.reference.text for eg in seen] == [eg.reference.text for eg in examples[::step]]


def test_reader_for_a_pipe_of_another_kind_or_name_says_so(make):
    nlp = make()
    nlp.add_pipe("sentencizer", name="other")
    for pipe in ("other", "parser"):
        match = rf"expected a root_mst called '{pipe}'.*corpora\.dev"
        with pytest.raises(ValueError, match=match):
            fit(nlp, [], pipe=pipe)
    nlp.rename_pipe("root_mst", "mst")
    assert fit(nlp, [], pipe="mst") == []
    assert nlp.get_pipe("mst").temperature == 1.0


# --- a real training run -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, quickstart_docs, dev):
    """A folder of corpora of several sentences a Doc; writes configs to it and runs commands."""
    folder = tmp_path_factory.mktemp("workspace")
    write_docs(folder / "train.spacy", join(quickstart_docs[:60], 3))
    write_docs(folder / "dev.spacy", dev)

    def run(*command, shared=False):
        text = (QUICKSTART / "configs" / "config.cfg").read_text(encoding="utf8")
        config = spacy.util.load_config_from_str(text, interpolate=False)
        config["corpora"]["calibrated_dev"]["pipe"] = "root_mst"
        parser = config["components"]["root_mst"]
        parser["decode"] = "labelled_tree"
        parser["model"] = LISTENING if shared else SMALL_MODEL
        if shared:
            config["components"]["sentencizer"] = {"factory": "sentencizer"}
            config["components"]["tok2vec"] = TOK2VEC
            config["nlp"]["pipeline"] = ["sentencizer", "tok2vec", "root_mst"]
        config["paths"].update(train="train.spacy", dev="dev.spacy")
        config["training"].update(max_steps=30, eval_frequency=10)
        logger = {"@loggers": "spacy.ConsoleLogger.v3", "output_file": "log.jsonl"}
        config["training"]["logger"] = {**logger, "progress_bar": None, "console_output": False}
        config.to_disk(folder / "config.cfg")
        # spaCy writes over none.
        (folder / "log.jsonl").unlink(missing_ok=True)
        return run_spacy(*command, cwd=folder)

    run.folder = folder
    return run


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.workflow
def test_training_fits_the_temperature_of_what_it_saves(workspace, dev, shared):
    """Checkpoints are chosen by the scores that they have.

    The parse depends on the temperatures, which change from one evaluation to the next.
    """
    done = workspace("train", "config.cfg", "--output", "out", shared=shared)
    assert done.returncode == 0, done.stdout + done.stderr
    log = list(srsly.read_jsonl(workspace.folder / "log.jsonl"))
    assert len(log) == 4
    for name, entry in (
        ("model-best", max(log, key=lambda entry: entry["score"])),
        ("model-last", log[-1]),
    ):
        nlp = spacy.load(workspace.folder / "out" / name)
        parser = nlp.get_pipe("root_mst")
        saved = json.loads((nlp.path / "root_mst" / "cfg").read_text())["temperature"]
        assert saved == parser.temperature
        assert saved != 1.0
        scores = nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in dev])
        for score in ("dep_uas", "dep_las"):
            chosen_by = entry["scores"][score] / 100
            assert scores[score] == pytest.approx(chosen_by, abs=1e-6), (name, score)
            assert nlp.meta["performance"][score] == pytest.approx(chosen_by, abs=1e-6)
        # As it is saved, it is the one that fits these weights.
        fit(nlp, dev)
        assert parser.temperature == pytest.approx(saved, rel=0.02)
