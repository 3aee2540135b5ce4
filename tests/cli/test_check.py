"""`python -m spacy_rootmind check` reports all problems, and nothing else."""

import json
import random
import zlib
from collections import Counter

import numpy as np
import pytest
import spacy
import srsly
from spacy.attrs import HEAD
from spacy.tokens import Doc, DocBin

from spacy_rootmind.annotation.gold import on_cycles
from spacy_rootmind.cli.check import check, check_treebank, read_treebank
from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.trees.checks import is_projective, is_tree


def conllu(*trees):
    """Sentences from lists of "HEAD:LABEL"; a label may be left out."""
    sentences = []
    for tree in trees:
        rows = []
        for i, arc in enumerate(tree.split(), start=1):
            head, _, label = arc.partition(":")
            rows.append("\t".join([str(i), f"w{i}", *"_" * 4, head, label or "_", "_", "_"]))
        sentences.append("\n".join(rows) + "\n\n")
    return "".join(sentences)


def check_file(path, **settings):
    return check_treebank(str(path), read_treebank(path), **settings)


def check_conllu(tmp_path, text, **settings):
    path = tmp_path / "train.conllu"
    path.write_text(text, encoding="utf8")
    return check_file(path, **settings)


def problems(findings):
    return {kind: len(places) for kind, places in findings.problems.items()}


def save(path, docs, **settings):
    DocBin(store_user_data=True, docs=docs, **settings).to_disk(path)
    return path


def check_docs(tmp_path, docs, **settings):
    return check_file(save(tmp_path / "train.spacy", docs, **settings))


def reported(paths, capsys, code=0):
    """Run the command; returns its findings by the names of files."""
    assert check(paths, max_sentence_length=None, as_json=True) == code
    found = json.loads(capsys.readouterr().out)["treebanks"]
    return {treebank["name"].rpartition("/")[2]: treebank for treebank in found}


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("xx").vocab


# --- CoNLL-U -----------------------------------------------------------------------------------


def test_sound_treebank_has_no_problems(dev_conllu):
    findings = check_file(dev_conllu)
    assert findings.problems == {}
    text = dev_conllu.read_text(encoding="utf8")
    rows = [line.split("\t") for line in text.splitlines() if line[:1].isdigit()]
    assert findings.n_sentences == findings.n_trees == text.strip().count("\n\n") + 1
    assert findings.n_words == len(rows)
    assert findings.labels == Counter(row[7] for row in rows)
    assert 0 < findings.n_non_projective < findings.n_sentences


@pytest.mark.parametrize(
    ("text", "expected", "n_trees"),
    [
        (conllu("0:root"), {}, 1),
        (conllu("2:a 0:root", "0:root 1:a"), {}, 2),
        (conllu("0:root 0:root 1:a"), {"several_roots": 1}, 0),
        (conllu("0:root 3:a 2:a"), {"cycle": 1}, 0),
        (conllu("0:root 2:a"), {"cycle": 1}, 0),
        (conllu("2:a 1:a"), {"cycle": 1}, 0),
        (conllu("0:root 3:a"), {"head_outside": 1}, 0),
        (conllu("0:root 99999999999999999999:a"), {"head_outside": 1}, 0),
        (conllu("0:root -1:a x:a 1.5:a"), {"head_outside": 3}, 0),
        (conllu("0:root 1:root 1:root"), {"root_label_inside": 2}, 1),
        (conllu("0:root", "0:root", "0:top 1:a"), {"root_with_other_label": 1}, 2),
        (conllu("0:top", "0:top", "0:root 1:a"), {"root_with_other_label": 2}, 1),
        # Partial annotation is no error.
        (conllu("_:a 0:root 1:a", "0:root 1 1", "_ _"), {}, 1),
        (conllu("_ _ _"), {"no_heads": 1}, 0),
        (conllu("0:root") + "1\tx\n\n" + conllu("0:root"), {"unreadable": 1}, 2),
        (
            conllu("0:root", "0:root 1:a 1:a 1:a", *["0:root 1:a 1:a"] * 9),
            {"long_sentence": 10},
            11,
        ),
        (conllu(), {"no_heads": 1}, 0),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, dict) else "",
)
def test_problems_of_trees(text, expected, n_trees, tmp_path):
    most = 2 if "long_sentence" in expected else None
    findings = check_conllu(tmp_path, text, max_sentence_length=most)
    assert problems(findings) == expected
    assert findings.n_trees == n_trees
    assert not most or f"{tmp_path}/train.conllu:3: 4 words" in findings.problems["long_sentence"]


def test_places_are_lines_of_words(tmp_path):
    text = "# sent_id = 1\n" + conllu("2:a 0:root", "0:root _:a 5:b") + conllu("0:root 0:root")
    findings = check_conllu(tmp_path, text + "1\tx\n")
    path = tmp_path / "train.conllu"
    assert findings.n_without_head == 1
    assert findings.problems["head_outside"] == [f"{path}:7"]
    assert findings.problems["several_roots"] == [f"{path}:10"]
    assert findings.problems["unreadable"][0].startswith(f"{path}:12: ")


# --- Docs --------------------------------------------------------------------------------------


def test_sound_docs_have_no_problems(tmp_path, quickstart_docs):
    findings = check_docs(tmp_path, quickstart_docs[:100])
    assert findings.problems == {}
    assert findings.n_docs == findings.n_trees == 100
    assert findings.n_words == sum(map(len, quickstart_docs[:100]))
    assert findings.root_label == "ROOT"
    joined = [Doc.from_docs(quickstart_docs[:100])]
    for attrs in ({}, {"attrs": ["HEAD", "DEP"]}):
        again = check_docs(tmp_path, joined, **attrs)
        assert (again.n_docs, again.n_trees, again.labels) == (1, 100, findings.labels)
    assert problems(check_docs(tmp_path, joined, attrs=["TAG"])) == {"no_heads": 1}


def test_docs_whose_tree_edges_spacy_computes_wrongly(tmp_path, quickstart_docs):
    # `Doc.sents` may be wrong once read from disk; what was stored is right.
    findings = check_docs(tmp_path, [d for d in quickstart_docs if not _is_projective(d)])
    assert not findings.has_errors
    assert findings.n_non_projective == findings.n_trees > 30


def _is_projective(doc):
    heads = [0 if token.head == token else token.head.i + 1 for token in doc]
    return is_projective(np.array([-1, *heads]))


@pytest.mark.parametrize(
    ("docs", "counts", "places"),
    [
        ([("a b c", [1, 0, 2], "x y ROOT")], (1, 2, 3, 1), {"cycle": "Doc 1, token 1"}),
        (
            [("a b c", [0, 0, 0], "ROOT x x"), ("a b", [None, 0], " x"), ("a b", [0, 0], "x x")],
            (3, 3, 7, 1),
            {"root_with_other_label": "Doc 3, token 1: x"},
        ),
        (
            # Whitespace is no word.
            [("a ␣ b", [0, 0, 1], "ROOT dep x"), ("␣ ␣", [0, 0], "ROOT dep"), ("", [], "")],
            (1, 1, 2, 0),
            {},
        ),
    ],
)
def test_problems_of_docs(docs, counts, places, tmp_path, vocab):
    made = [
        Doc(
            vocab,
            words=words.replace("␣", "\n").split(" ") if words else [],
            heads=heads,
            deps=deps.split(" ") if words else [],
        )
        for words, heads, deps in docs
    ]
    found = check_docs(tmp_path, made)
    assert (found.n_docs, found.n_sentences, found.n_words, found.n_trees) == counts
    for kind, place in places.items():
        assert found.problems[kind][0].endswith(place)


def test_heads_outside_of_a_doc_are_errors(tmp_path, vocab):
    doc = Doc(vocab, words=[*"abcd"], heads=[0, 0, 2, 2], deps=["ROOT", "x", "ROOT", "y"])
    stored = DocBin(docs=[doc])
    stored.tokens[0][1, list(stored.attrs).index(HEAD)] = np.uint64(2**31)
    stored.to_disk(tmp_path / "far.spacy")
    findings = check_file(tmp_path / "far.spacy")
    assert problems(findings) == {"unreadable": 1, "no_heads": 1}
    assert "head out of range" in findings.problems["unreadable"][0]


@pytest.mark.parametrize("seed", range(20))
def test_damaged_docs_are_reported_and_nothing_crashes(seed, tmp_path, quickstart_docs):
    rng = random.Random(seed)
    path = save(tmp_path / "train.spacy", quickstart_docs[:5])
    data = bytearray(path.read_bytes())
    # Every other time below the compression, where more comes through.
    if seed % 2:
        data = bytearray(zlib.decompress(data))
    for _ in range(rng.choice([1, 3, 30])):
        place = rng.randrange(len(data))
        data[place] = rng.randrange(256)
    if seed % 5 == 0:
        del data[rng.randrange(len(data)) :]
    path.write_bytes(zlib.compress(data) if seed % 2 else data)
    findings = check_file(path)
    assert findings.problems or findings.n_docs == 5


NO_DOCS = zlib.compress(srsly.msgpack_dumps({"attrs": [65]}))


@pytest.mark.parametrize(
    "content", [b"", b"x", zlib.compress(b""), zlib.compress(b"\xc1"), NO_DOCS]
)
def test_files_that_are_not_docs_are_errors(content, tmp_path):
    path = tmp_path / "train.spacy"
    path.write_bytes(content)
    assert problems(check_file(path)) == {"unreadable": 1, "no_heads": 1}


# --- parts -------------------------------------------------------------------------------------


def test_cycles_are_found_if_and_only_if_there_are_any():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(500):
        n = int(rng.integers(1, 8))
        heads = np.concatenate(([-1], rng.integers(0, n + 1, size=n)))
        cycles = on_cycles(heads)
        assert bool(cycles) is not bool(is_tree(heads, single_root=False))
        assert sorted(heads[cycles]) == cycles
        found += bool(cycles)
    assert 50 < found < 450
    long = np.arange(-1, 200_000)
    assert on_cycles(long) == []
    long[1] = 200_000
    assert on_cycles(long) == list(range(1, 200_001))


# --- the command -------------------------------------------------------------------------------


def test_report_as_text(tmp_path, capsys):
    path = tmp_path / "train.conllu"
    path.write_text(conllu("0:root 0:root 1:a", "0:root 1:b"), encoding="utf8")
    assert check([path], max_sentence_length=None, as_json=False) == 1
    out = capsys.readouterr().out
    assert "Error: Sentences with several roots: 1" in out
    assert f"  {path}:2\n" in out
    assert "Warning: Labels that occur only once: 2" in out
    assert "Labels: root 3, a 1, b 1" in out


def test_folders_are_searched_and_labels_compared_with_the_training_data(tmp_path, dev_conllu, run):
    (tmp_path / "sub").mkdir()
    text = conllu("0:root 1:new", "0:root 1:punct", "0:root 1:new")
    (tmp_path / "other.conllu").write_text(text, encoding="utf8")
    once = dev_conllu.read_text(encoding="utf8") + conllu("0:root 1:once")
    (tmp_path / "sub" / "train.conllu").write_text(once, encoding="utf8")
    (tmp_path / "sub" / "notes.txt").write_text("x")
    result = run("check", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    other, train = json.loads(result.stdout)["treebanks"]
    assert [other["name"], train["name"]] == [
        str(tmp_path / name) for name in ("other.conllu", "sub/train.conllu")
    ]
    [new], [rare] = other["problems"], train["problems"]
    assert (new["kind"], new["severity"], new["places"]) == ("new_label", "warning", ["new: 2"])
    assert rare["kind"] == "rare_label"
    assert "once" in rare["places"]
    assert train["n_trees"] == train["n_sentences"] == 151


@pytest.mark.parametrize(("n_sentences", "warned"), [(1, True), (2, False)])
def test_docs_that_teach_no_boundaries_are_warned_of(n_sentences, warned, tmp_path, vocab, capsys):
    one = Doc(vocab, words=["a", "b"], heads=[0, 0], deps=["ROOT", "x"])
    path = save(tmp_path / "train.spacy", [Doc.from_docs([one] * n_sentences)] * 3)
    found = reported([path], capsys)["train.spacy"]["problems"]
    assert [problem["kind"] for problem in found] == ["single_sentences"] * warned


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.spacy", "not found"), ("a.txt", "not a treebank"), ("empty", "not a treebank")],
)
def test_paths_that_cannot_be_checked(name, reason, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(CommandError, match=reason):
        check([tmp_path / name], max_sentence_length=None, as_json=False)
