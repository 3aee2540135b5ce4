"""`python -m spacy debug root-mst` checks the corpora of a config."""

import json
import re
from pathlib import Path

import commandline
import pytest
import spacy
from conftest import ROOT
from parsers import SMALL_MODEL
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_rootmind.cli.check import Findings, check
from spacy_rootmind.cli.debug import add_lost_heads, debug, lost_heads
from spacy_rootmind.cli.errors import CommandError

CONFIG = ROOT / "configs" / "cpu.cfg"
# Two words of CoNLL-U, with a place for the root's label.
SENTENCE = "1\ta\t_\t_\t_\t_\t0\t{}\t_\t_\n2\tb\t_\t_\t_\t_\t1\tx\t_\t_\n\n"


def save(path, docs):
    DocBin(docs=docs).to_disk(path)
    return str(path)


@pytest.fixture
def paths(tmp_path, quickstart_docs):
    """Overrides that name a small corpus."""
    train = [Doc.from_docs(quickstart_docs[i : i + 5]) for i in range(0, 50, 5)]
    dev = [Doc.from_docs(quickstart_docs[i : i + 5]) for i in range(50, 70, 5)]
    return {
        "paths.train": save(tmp_path / "train.spacy", train),
        "paths.dev": save(tmp_path / "dev.spacy", dev),
    }


def as_arguments(overrides):
    return [word for name, value in overrides.items() for word in (f"--{name}", value)]


def run_spacy(*arguments):
    return commandline.run_spacy(*arguments, cwd=Path.cwd())


def test_spacy_has_the_command(paths):
    result = run_spacy("debug", "root-mst", CONFIG, *as_arguments(paths))
    assert result.returncode == 0, result.stderr
    assert re.search(r"Docs +10 *\n", result.stdout)
    assert "root-mst" in run_spacy("debug", "--help").stdout


def test_report_as_json(paths, capsys):
    assert debug(CONFIG, paths, limit=0, as_json=True) == 0
    report = json.loads(capsys.readouterr().out)
    train, dev = report["treebanks"]
    assert (train["name"], dev["name"]) == ("train", "dev")
    assert (train["n_docs"], train["n_sentences"], train["n_docs_of_several"]) == (10, 50, 10)
    assert (dev["n_docs"], dev["n_sentences"]) == (4, 20)
    assert debug(CONFIG, paths, limit=3, as_json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert [treebank["n_docs"] for treebank in report["treebanks"]] == [3, 3]


def test_errors_in_the_data_have_an_exit_code_and_labels_are_compared(paths, tmp_path, capsys):
    vocab = spacy.blank("xx").vocab
    doc = Doc(vocab, words=["a", "b", "c"], heads=[1, 0, 2], deps=["det", "unheard", "ROOT"])
    paths["paths.dev"] = save(tmp_path / "cycle.spacy", [doc])
    assert debug(CONFIG, paths, limit=0, as_json=True) == 1
    dev = json.loads(capsys.readouterr().out)["treebanks"][1]
    found = {problem["kind"]: problem["places"] for problem in dev["problems"]}
    assert "cycle" in found
    assert found["new_label"] == ["unheard: 1"]


def test_check_debug_and_training_choose_the_same_root_label(tmp_path, capsys):
    roots = ["pred", "root", "pred", "pred", "root"]
    nlp = spacy.blank("xx")
    docs = [Doc(nlp.vocab, words=["a", "b"], heads=[0, 0], deps=[root, "x"]) for root in roots]
    stored = save(tmp_path / "train.spacy", docs)
    conllu = tmp_path / "train.conllu"
    conllu.write_text("".join(SENTENCE.format(root) for root in roots), encoding="utf8")

    parser = nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
    parser.initialize(lambda: [Example(doc.copy(), doc) for doc in docs], nlp=nlp)
    assert parser.root_label == "root"

    overrides = {"paths.train": stored, "paths.dev": stored}
    for command in (
        lambda: check([conllu, Path(stored)], max_sentence_length=None, as_json=True),
        lambda: debug(CONFIG, overrides, limit=0, as_json=True),
    ):
        assert command() == 0
        for treebank in json.loads(capsys.readouterr().out)["treebanks"]:
            assert treebank["root_label"] == "root"
            problem = treebank["problems"][0]
            assert (problem["kind"], problem["count"]) == ("root_with_other_label", 3)
            assert all(place.endswith(": pred") for place in problem["places"])
            assert treebank["n_without_head"] == 3


def test_dev_is_read_with_the_root_label_of_train(tmp_path, capsys):
    nlp = spacy.blank("xx")
    docs = {
        root: Doc(nlp.vocab, words=["a", "b"], heads=[0, 0], deps=[root, "x"])
        for root in ("root", "pred")
    }
    overrides = {
        "paths.train": save(tmp_path / "train.spacy", [docs["root"], docs["pred"]]),
        "paths.dev": save(tmp_path / "dev.spacy", [docs["pred"]]),
    }
    assert debug(CONFIG, overrides, limit=0, as_json=True) == 0
    train, dev = json.loads(capsys.readouterr().out)["treebanks"]
    assert train["root_label"] == dev["root_label"] == "root"
    assert [problem["kind"] for problem in dev["problems"]] == ["root_with_other_label"]


def test_sentences_that_the_parser_would_split_are_reported(paths, capsys):
    overrides = {**paths, "components.root_mst.max_sentence_length": 10}
    assert debug(CONFIG, overrides, limit=0, as_json=True) == 0
    train = json.loads(capsys.readouterr().out)["treebanks"][0]
    [problem] = [p for p in train["problems"] if p["kind"] == "long_sentence"]
    assert 0 < problem["count"] < 50
    assert problem["places"][0].startswith("train, example ")


def test_corpus_that_cannot_be_read(paths, tmp_path):
    (tmp_path / "broken.spacy").write_bytes(b"x")
    with pytest.raises(CommandError, match="Cannot read the corpus for dev"):
        debug(CONFIG, {**paths, "paths.dev": str(tmp_path / "broken.spacy")}, limit=0, as_json=True)


def test_config_that_does_not_say_where_the_corpora_are(paths):
    with pytest.raises(
        CommandError, match=r"make the corpora corpora\.train and corpora"
    ) as caught:
        debug(CONFIG, {"paths.train": paths["paths.train"]}, limit=0, as_json=True)
    assert "path can't be None" in caught.value.text


def test_config_without_the_parser(tmp_path, paths):
    text = CONFIG.read_text(encoding="utf8")
    config = tmp_path / "other.cfg"
    config.write_text(re.sub(r"(?m)^pipeline = .*$", "pipeline = []", text), encoding="utf8")
    with pytest.raises(CommandError, match="no component root_mst"):
        debug(config, {**paths}, limit=0, as_json=True)
    result = run_spacy("debug", "root-mst", config, *as_arguments(paths))
    assert result.returncode == 1
    assert "no component root_mst" in result.stderr
    assert "Traceback" not in result.stderr


def test_heads_are_lost_where_tokens_differ(quickstart_docs):
    nlp = spacy.blank("xx")
    gold = Doc(nlp.vocab, words=["I", "can", "not", "go"], spaces=[1, 0, 1, 0],
               heads=[3, 3, 3, 3], deps=["nsubj", "aux", "advmod", "ROOT"])  # fmt: skip
    assert lost_heads(Example(gold.copy(), gold), "ROOT") == 0
    other = Doc(nlp.vocab, words=["I", "cannot", "go"], spaces=[1, 1, 0])
    # "cannot" learns one of two arcs.
    assert lost_heads(Example(other, gold), "ROOT") == 1
    pieces = Doc(nlp.vocab, words=["I", "c", "an", "not", "g", "o"], spaces=[1, 0, 0, 1, 0, 0])
    assert lost_heads(Example(pieces, gold), "ROOT") == 0
    spaced = Doc(nlp.vocab, words=["I", "can", "not", "go", "\n"], spaces=[1, 0, 1, 0, 0])
    assert lost_heads(Example(spaced, gold), "ROOT") == 0


@pytest.mark.parametrize(("sentences", "warned"), [("auto", True), ("given", False)])
def test_boundaries_cannot_be_learnt_from_single_sentences(
    sentences, warned, tmp_path, quickstart_docs, capsys
):
    path = save(tmp_path / "train.spacy", quickstart_docs[:50])
    overrides = {"paths.train": path, "paths.dev": path}
    overrides["components.root_mst.sentences"] = sentences
    debug(CONFIG, overrides, limit=0, as_json=True)
    train, dev = json.loads(capsys.readouterr().out)["treebanks"]
    assert ("single_sentences" in {problem["kind"] for problem in train["problems"]}) is warned
    assert "single_sentences" not in {problem["kind"] for problem in dev["problems"]}


@pytest.mark.parametrize(("n_others", "count"), [(2, 3), (60, None)])
def test_many_lost_heads_are_warned_of(n_others, count, quickstart_docs):
    """Three of four heads, or hardly any."""
    vocab = spacy.blank("xx").vocab
    gold = Doc(vocab, words=list("abcd"), spaces=[0] * 4, heads=[0] * 4, deps=["ROOT", *"xyz"])
    examples = [Example(Doc(vocab, words=["abcd"]), gold)]
    examples += [Example(doc.copy(), doc) for doc in quickstart_docs[:n_others]]
    findings = Findings("train", "ROOT", n_words=sum(len(eg.reference) for eg in examples))
    add_lost_heads(findings, examples)
    if count is None:
        assert findings.problems == {}
    else:
        assert findings.problems["lost_heads"].count == count
        assert findings.problems["lost_heads"].places == ["train, example 1: 3"]
