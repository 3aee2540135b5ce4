"""`python -m spacy debug root-mst` checks the corpora of a config."""

import json
import re
from pathlib import Path

import commandline
import pytest
import spacy
from conftest import CONFIGS
from parsers import SMALL_MODEL
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_rootmind.cli.check import Findings, add_lost_heads, check, debug, lost_heads
from spacy_rootmind.cli.errors import CommandError

CONFIG = CONFIGS / "cpu.cfg"
# Two words of CoNLL-U, with a place for the root's label.
SENTENCE = "1\ta\t_\t_\t_\t_\t0\t{}\t_\t_\n2\tb\t_\t_\t_\t_\t1\tx\t_\t_\n\n"


def save(path, docs):
    DocBin(docs=docs).to_disk(path)
    return str(path)


def rooted(*labels):
    """Docs of two words, given the labels of their roots."""
    vocab = spacy.blank("xx").vocab
    return [Doc(vocab, words=["a", "b"], heads=[0, 0], deps=[label, "x"]) for label in labels]


@pytest.fixture
def paths(tmp_path, quickstart_docs):
    """Overrides that name a small corpus."""
    train = [Doc.from_docs(quickstart_docs[i : i + 5]) for i in range(0, 50, 5)]
    dev = [Doc.from_docs(quickstart_docs[i : i + 5]) for i in range(50, 70, 5)]
    return {
        "paths.train": save(tmp_path / "train.spacy", train),
        "paths.dev": save(tmp_path / "dev.spacy", dev),
    }


@pytest.fixture
def report(capsys):
    """The findings in the training and the development corpus, and the exit code."""

    def run(overrides, limit=0):
        code = debug(CONFIG, overrides, limit=limit, as_json=True)
        train, dev = json.loads(capsys.readouterr().out)["treebanks"]
        assert (train["name"], dev["name"]) == ("train", "dev")
        return train, dev, code

    return run


def kinds(treebank):
    return {problem["kind"]: problem["places"] for problem in treebank["problems"]}


def run_spacy(config, overrides):
    arguments = [word for name, value in overrides.items() for word in (f"--{name}", value)]
    return commandline.run_spacy("debug", "root-mst", config, *arguments, cwd=Path.cwd())


def test_spacy_has_the_command(paths, tmp_path):
    result = run_spacy(CONFIG, paths)
    assert result.returncode == 0, result.stderr
    assert re.search(r"Docs +10 *\n", result.stdout)
    text = re.sub(r"(?m)^pipeline = .*$", "pipeline = []", CONFIG.read_text(encoding="utf8"))
    (tmp_path / "other.cfg").write_text(text, encoding="utf8")
    result = run_spacy(tmp_path / "other.cfg", paths)
    assert result.returncode == 1
    assert "no component root_mst" in result.stderr
    assert "Traceback" not in result.stderr


def test_all_examples_or_some_are_read(paths, report):
    train, dev, code = report(paths)
    assert (train["n_docs"], train["n_sentences"], dev["n_docs"], dev["n_sentences"]) == (
        *(10, 50, 4, 20),
    )
    assert code == 0
    train, dev, _ = report(paths, limit=3)
    assert (train["n_docs"], dev["n_docs"]) == (3, 3)


def test_errors_in_the_data_have_an_exit_code_and_labels_are_compared(paths, tmp_path, report):
    vocab = spacy.blank("xx").vocab
    doc = Doc(vocab, words=["a", "b", "c"], heads=[1, 0, 2], deps=["det", "unheard", "ROOT"])
    _, dev, code = report({**paths, "paths.dev": save(tmp_path / "cycle.spacy", [doc])})
    assert code == 1
    assert "cycle" in kinds(dev)
    assert kinds(dev)["new_label"] == ["unheard: 1"]


def test_check_debug_and_training_choose_the_same_root_label(tmp_path, report, capsys):
    roots = ["pred", "root", "pred", "pred", "root"]
    docs = rooted(*roots)
    stored = save(tmp_path / "train.spacy", docs)
    conllu = tmp_path / "train.conllu"
    conllu.write_text("".join(SENTENCE.format(root) for root in roots), encoding="utf8")
    nlp = spacy.blank("xx")
    parser = nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
    parser.initialize(lambda: [Example(doc.copy(), doc) for doc in docs], nlp=nlp)
    assert parser.root_label == "root"
    assert check([conllu, Path(stored)], max_sentence_length=None, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)["treebanks"]
    # The development corpus is read with the training corpus's.
    dev = save(tmp_path / "dev.spacy", rooted(*["pred"] * 3))
    for treebank in (*found, *report({"paths.train": stored, "paths.dev": dev})[:2]):
        assert treebank["root_label"] == "root"
        problem = treebank["problems"][0]
        assert (problem["kind"], problem["count"]) == ("root_with_other_label", 3)
        assert all(place.endswith(": pred") for place in problem["places"])
        assert treebank["n_without_head"] == 3


@pytest.mark.parametrize(("sentences", "warned"), [("auto", True), ("given", False)])
def test_settings_of_the_parser_decide_what_is_reported(
    sentences, warned, tmp_path, quickstart_docs, report
):
    """Boundaries cannot be learnt from Docs of one sentence, and long sentences are split."""
    path = save(tmp_path / "train.spacy", quickstart_docs[:50])
    settings = {"sentences": sentences, "max_sentence_length": 10}
    overrides = {f"components.root_mst.{name}": value for name, value in settings.items()}
    train, dev, _ = report({"paths.train": path, "paths.dev": path, **overrides})
    assert ("single_sentences" in kinds(train)) is warned
    assert "single_sentences" not in kinds(dev)
    assert kinds(train)["long_sentence"][0].startswith("train, example ")


def test_corpora_that_cannot_be_read(paths, tmp_path):
    (tmp_path / "broken.spacy").write_bytes(b"x")
    paths["paths.dev"] = str(tmp_path / "broken.spacy")
    for reason in ("Error loading DocBin data", "path can't be None"):
        with pytest.raises(CommandError, match=r"corpora corpora\.train and corpora") as caught:
            debug(CONFIG, paths, limit=0, as_json=True)
        assert reason in caught.value.text
        paths.pop("paths.dev", None)


@pytest.mark.parametrize(
    ("words", "spaces", "n_lost"),
    [
        (["I", "can", "not", "go"], [1, 0, 1, 0], 0),
        # "cannot" learns one of two arcs.
        (["I", "cannot", "go"], [1, 1, 0], 1),
        (["I", "c", "an", "not", "g", "o"], [1, 0, 0, 1, 0, 0], 0),
        (["I", "can", "not", "go", "\n"], [1, 0, 1, 0, 0], 0),
    ],
)
def test_heads_are_lost_where_tokens_differ(words, spaces, n_lost):
    vocab, deps = spacy.blank("xx").vocab, ["nsubj", "aux", "advmod", "ROOT"]
    gold = Doc(vocab, ["I", "can", "not", "go"], [1, 0, 1, 0], heads=[3] * 4, deps=deps)
    assert lost_heads(Example(Doc(vocab, words, spaces), gold), "ROOT") == n_lost


@pytest.mark.parametrize(("n_others", "is_many"), [(2, True), (60, False)])
def test_many_lost_heads_are_warned_of(n_others, is_many, quickstart_docs):
    """Three of four heads, or hardly any."""
    vocab = spacy.blank("xx").vocab
    gold = Doc(vocab, words=list("abcd"), spaces=[0] * 4, heads=[0] * 4, deps=["ROOT", *"xyz"])
    examples = [Example(Doc(vocab, words=["abcd"]), gold)]
    examples += [Example(doc.copy(), doc) for doc in quickstart_docs[:n_others]]
    findings = Findings("train", "ROOT", n_words=sum(len(eg.reference) for eg in examples))
    add_lost_heads(findings, examples)
    assert findings.problems == ({"lost_heads": ["train, example 1: 3"]} if is_many else {})
