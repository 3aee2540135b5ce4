"""`python -m spacy_rootmind debug` finds what a parser cannot learn from corpora."""

from collections import Counter

import pytest
import spacy
from commandline import write_docs
from conftest import CONFIGS
from parsers import SMALL_MODEL, join
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.cli.debug import check_corpora, check_examples
from spacy_rootmind.parsing.settings import RunError

CONFIG = CONFIGS / "cpu.cfg"


def make_doc(tree):
    """A Doc from words HEAD:LABEL, in which heads are counted from 1 and 0 is the root."""
    arcs = [arc.partition(":") for arc in tree.split()]
    heads = [i if head == "0" else int(head) - 1 for i, (head, _, _) in enumerate(arcs)]
    words, labels = [f"w{i}" for i in range(len(arcs))], [label for _, _, label in arcs]
    return Doc(spacy.blank("xx").vocab, words=words, heads=heads, deps=labels)


def check_docs(docs):
    return check_examples("train", [Example(doc.copy(), doc) for doc in docs])


@pytest.fixture
def paths(tmp_path, quickstart_docs):
    """Overrides that name a small corpus."""
    parts = {"train": quickstart_docs[:50], "dev": quickstart_docs[50:70]}
    return {
        f"paths.{name}": str(write_docs(tmp_path / f"{name}.spacy", join(docs, 5)))
        for name, docs in parts.items()
    }


# --- corpora -----------------------------------------------------------------------------------


def test_sound_corpora_have_no_problems(quickstart_docs):
    docs = quickstart_docs[:100]
    findings = check_docs(docs)
    assert findings.problems == {}
    assert findings.labels == Counter(token.dep_ for doc in docs for token in doc)
    joined = check_docs([Doc.from_docs(docs)])
    assert (joined.problems, joined.labels) == ({}, findings.labels)


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        (["0:ROOT"], {}),
        (["2:a 0:ROOT", "0:ROOT 1:a"], {}),
        # Two trees that cross: spaCy starts a sentence at each root.
        (["0:ROOT 1:x 0:ROOT 1:y 3:z"], {"head_outside": ["train, example 1, token 4"]}),
        (["0:ROOT 3:b 2:a"], {"cycle": [f"train, example 1, token {i}" for i in (2, 3)]}),
        (["0:ROOT 1:ROOT 1:x"], {"root_label_inside": ["train, example 1, token 2"]}),
        (
            ["0:ROOT", "0:ROOT", "0:top 1:a"],
            {"root_with_other_label": ["train, example 3, token 1: top"]},
        ),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, dict) else "",
)
def test_problems_of_trees(trees, expected):
    assert check_docs(list(map(make_doc, trees))).problems == expected


def test_whitespace_is_no_word_and_heads_may_be_missing():
    vocab = spacy.blank("xx").vocab
    docs = [
        Doc(vocab, ["a", "\n", "b"], heads=[0, 0, 1], deps=["ROOT", "dep", "x"]),
        Doc(vocab, ["\n", "\n"], heads=[0, 0], deps=["ROOT", "dep"]),
        Doc(vocab),
        Doc(vocab, ["a", "b"], heads=[None, 0], deps=["", "x"]),
    ]
    found = check_docs(docs)
    assert found.problems == {}
    assert found.labels == Counter(["ROOT", "x", "x"])


def test_the_root_label_is_that_of_training(tmp_path, capsys):
    docs = [make_doc(f"0:{label} 1:x") for label in ("pred", "root", "pred", "pred", "root")]
    nlp = spacy.blank("xx")
    parser = nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
    parser.initialize(lambda: [Example(doc.copy(), doc) for doc in docs], nlp=nlp)
    findings = check_docs(docs)
    assert findings.root_label == parser.root_label == "root"
    assert len(findings.problems["root_with_other_label"]) == 3
    # Dev is read with that of training.
    train, dev = (
        str(write_docs(tmp_path / f"{name}.spacy", [make_doc(f"0:{label} 1:x")] * 3))
        for name, label in (("train", "ROOT"), ("dev", "pred"))
    )
    assert check_corpora(CONFIG, {"paths.train": train, "paths.dev": dev}) == 0
    assert "dev, example 1, token 1: pred" in capsys.readouterr().out


# --- the command -------------------------------------------------------------------------------


def test_command(run, paths, tmp_path, capfd):
    settings = [word for name, value in paths.items() for word in ("--set", f"{name}={value}")]
    result = run("debug", CONFIG, *settings)
    assert result.returncode == 0, result.stderr
    assert b"train\n10 Docs, 32 labels\nNo problems found\ndev\n4 Docs, " in result.stdout
    text = CONFIG.read_text(encoding="utf8").replace('pipeline = ["root_mst"]', "pipeline = []")
    (tmp_path / "other.cfg").write_text(text, encoding="utf8")
    result = run("debug", tmp_path / "other.cfg", *settings)
    assert result.returncode == 1
    assert b"no component root_mst" in result.stderr


def test_errors_have_an_exit_code_and_labels_are_compared(paths, tmp_path, capsys):
    assert check_corpora(CONFIG, paths) == 0
    doc = make_doc("2:det 1:unheard 0:ROOT")
    paths["paths.dev"] = str(write_docs(tmp_path / "cycle.spacy", [doc]))
    assert check_corpora(CONFIG, paths) == 1
    _, dev = capsys.readouterr().out.split("\ndev\n")[-2:]
    assert "Error: Words on cycles of heads: 2\n  dev, example 1, token 1\n" in dev
    assert "Warning: Labels that do not occur in the training data: 1\n  unheard: 1\n" in dev


def test_corpora_that_cannot_be_read(paths, tmp_path):
    (tmp_path / "broken.spacy").write_bytes(b"x")
    paths["paths.dev"] = str(tmp_path / "broken.spacy")
    for reason in ("Error loading DocBin data", "path can't be None"):
        with pytest.raises(RunError, match=r"corpora corpora\.train and corpora") as caught:
            check_corpora(CONFIG, paths)
        assert reason in caught.value.text
        paths.pop("paths.dev", None)
