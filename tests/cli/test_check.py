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
from spacy_rootmind.cli.check import Findings, check, check_treebank, compare, read_treebank
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


def check_conllu(tmp_path, text, **settings):
    path = tmp_path / "train.conllu"
    path.write_text(text, encoding="utf8")
    return check_treebank(str(path), read_treebank(path), **settings)


def problems(findings):
    return {kind: problem.count for kind, problem in findings.problems.items()}


def save(path, docs, **settings):
    DocBin(store_user_data=True, docs=docs, **settings).to_disk(path)
    return path


def check_docs(tmp_path, docs, **settings):
    path = save(tmp_path / "train.spacy", docs, **settings)
    return check_treebank(str(path), read_treebank(path))


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("xx")


def make_doc(nlp, words, heads, deps, **settings):
    return Doc(nlp.vocab, words=words.split(), heads=heads, deps=deps.split(), **settings)


# --- CoNLL-U -----------------------------------------------------------------------------------


def test_sound_treebank_has_no_problems(dev_conllu):
    findings = check_treebank("dev", read_treebank(dev_conllu))
    assert findings.problems == {}
    text = dev_conllu.read_text(encoding="utf8")
    rows = [line.split("\t") for line in text.splitlines() if line[:1].isdigit()]
    assert findings.n_sentences == findings.n_trees == text.strip().count("\n\n") + 1
    assert findings.n_words == len(rows)
    assert findings.labels == Counter(row[7] for row in rows)
    assert 0 < findings.n_non_projective < findings.n_sentences


def test_sound_treebanks_of_ud_have_no_errors(ud_folder):
    path = ud_folder / "UD_Irish-IDT" / "ga_idt-ud-test.conllu"
    findings = check_treebank("test", read_treebank(path))
    assert not findings.has_errors
    assert findings.n_trees == findings.n_sentences > 400


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        (["0:root"], {}),
        (["2:a 0:root", "0:root 1:a"], {}),
        (["0:root 0:root 1:a"], {"several_roots": 1}),
        (["0:root 3:a 2:a"], {"cycle": 1}),
        (["0:root 2:a"], {"cycle": 1}),
        (["2:a 1:a"], {"cycle": 1, "no_root": 1}),
        (["0:root 3:a"], {"head_outside": 1}),
        (["0:root 99999999999999999999:a"], {"head_outside": 1}),
        (["0:root -1:a x:a 1.5:a"], {"head_outside": 3}),
        (["0:root 1:root"], {"root_label_inside": 1}),
        (["0:root 1:root 1:root"], {"root_label_inside": 2}),
        (["0:root", "0:root", "0:top 1:a"], {"root_with_other_label": 1}),
        (["0:top", "0:top", "0:root 1:a"], {"root_with_other_label": 2}),
        (["_:a 0:root 1:a"], {}),
        (["_ _ _"], {"no_heads": 1}),
        ([], {"nothing": 1}),
    ],
)
def test_problems_of_trees(trees, expected, tmp_path):
    findings = check_conllu(tmp_path, conllu(*trees))
    assert problems(findings) == expected
    if findings.n_sentences:
        assert findings.n_sentences == len(trees)


def test_places_are_lines_of_words(tmp_path):
    text = "# sent_id = 1\n" + conllu("2:a 0:root", "0:root 1:a 5:b") + conllu("0:root 0:root")
    findings = check_conllu(tmp_path, text)
    path = tmp_path / "train.conllu"
    assert findings.problems["head_outside"].places == [f"{path}:7"]
    assert findings.problems["several_roots"].places == [f"{path}:10"]


def test_partial_annotation_is_counted_and_no_error(tmp_path):
    findings = check_conllu(tmp_path, conllu("0:root _:a 1", "2:a 0:root", "_ _"))
    assert not findings.has_errors
    assert findings.n_without_head == 3
    assert findings.n_trees == 1


def test_unreadable_sentences_are_errors_at_their_line(tmp_path):
    text = conllu("0:root") + "1\tx\n\n" + conllu("0:root")
    findings = check_conllu(tmp_path, text)
    assert problems(findings) == {"unreadable": 1}
    assert findings.problems["unreadable"].places[0].startswith(f"{tmp_path}/train.conllu:3: ")
    assert findings.n_sentences == 2


def test_multiword_tokens_are_reported(tmp_path):
    rest = "\t".join("_" * 8)
    arcs = "\t".join([*"_" * 4, "0", "root", "_", "_"])
    findings = check_conllu(tmp_path, f"1-1\tx\t{rest}\n1\tx\t{arcs}\n1.1\ty\t{rest}\n")
    assert findings.n_words == 1
    assert problems(findings) == {"multiword_tokens": 1}
    assert not findings.has_errors


def test_long_sentences_are_reported_with_a_maximum(tmp_path):
    text = conllu("0:root", "0:root 1:a 1:a", "0:root 1:a 1:a 1:a")
    assert problems(check_conllu(tmp_path, text)) == {}
    findings = check_conllu(tmp_path, text, max_sentence_length=2)
    assert problems(findings) == {"long_sentence": 2}
    assert findings.longest == (4, f"{tmp_path}/train.conllu:7")


def test_labels_of_training_data_and_others():
    train, dev = Findings("train", "root"), Findings("dev", "root")
    train.labels.update({"a": 2, "b": 1, "root": 3})
    dev.labels.update({"a": 1, "c": 4, "ROOT": 2})
    compare([train, dev])
    assert problems(train) == {"rare_label": 1}
    assert train.problems["rare_label"].places == ["b"]
    assert dev.problems["new_label"].places == ["ROOT: 2", "c: 4"]


def test_only_some_places_are_named(tmp_path):
    findings = check_conllu(tmp_path, conllu(*["0:root 0:root"] * 20))
    assert findings.problems["several_roots"].count == 20
    assert len(findings.problems["several_roots"].places) == 5


# --- Docs --------------------------------------------------------------------------------------


def test_sound_docs_have_no_problems(tmp_path, quickstart_docs):
    findings = check_docs(tmp_path, quickstart_docs[:100])
    assert not findings.has_errors
    assert problems(findings) == {}
    assert findings.n_docs == findings.n_trees == 100
    assert findings.n_words == sum(map(len, quickstart_docs[:100]))
    assert findings.root_label == "ROOT"
    joined = check_docs(tmp_path, [Doc.from_docs(quickstart_docs[:100])])
    assert joined.n_docs == joined.n_docs_of_several == 1
    assert joined.n_trees == 100
    assert joined.labels == findings.labels


def test_docs_whose_tree_edges_spacy_computes_wrongly(tmp_path, quickstart_docs):
    # `Doc.sents` may be wrong once read from disk; what was stored is right.
    findings = check_docs(tmp_path, [d for d in quickstart_docs if not _is_projective(d)])
    assert not findings.has_errors
    assert findings.n_non_projective == findings.n_trees > 30


def _is_projective(doc):
    heads = [0 if token.head == token else token.head.i + 1 for token in doc]
    return is_projective(np.array([-1, *heads]))


def test_cycle_in_a_doc(tmp_path, nlp):
    doc = make_doc(nlp, "a b c", [1, 0, 2], "x y ROOT")
    findings = check_docs(tmp_path, [doc])
    assert "cycle" in problems(findings)
    assert "Doc 1, token 1" in findings.problems["cycle"].places[0]


def test_heads_outside_of_a_doc_are_errors(tmp_path, nlp):
    stored = DocBin(docs=[make_doc(nlp, "a b c d", [0, 0, 2, 2], "ROOT x ROOT y")])
    stored.tokens[0][1, list(stored.attrs).index(HEAD)] = np.uint64(2**31)
    stored.to_disk(tmp_path / "far.spacy")
    findings = check_treebank("x", read_treebank(tmp_path / "far.spacy"))
    assert problems(findings) == {"unreadable": 1, "nothing": 1}
    assert "head out of range" in findings.problems["unreadable"].places[0]


def test_partial_annotation_of_docs(tmp_path, nlp):
    docs = [
        make_doc(nlp, "a b c", [0, 0, 0], "ROOT x x"),
        Doc(nlp.vocab, words=["a", "b"], heads=[None, 0], deps=["", "x"]),
        make_doc(nlp, "a b", [0, 0], "x x"),
    ]
    findings = check_docs(tmp_path, docs)
    assert not findings.has_errors
    assert problems(findings) == {"root_with_other_label": 1}
    assert findings.problems["root_with_other_label"].places[0].endswith("Doc 3, token 1: x")
    assert findings.n_without_head == 2
    assert findings.n_trees == 1


def test_whitespace_in_docs(tmp_path, nlp):
    docs = [
        Doc(nlp.vocab, words=["a", " ", "b"], heads=[0, 0, 1], deps=["ROOT", "dep", "x"]),
        Doc(nlp.vocab, words=["\n", " "], heads=[0, 0], deps=["ROOT", "dep"]),
        Doc(nlp.vocab, words=[" ", "b"], heads=[0, 0], deps=["ROOT", "x"]),
        Doc(nlp.vocab),
    ]
    findings = check_docs(tmp_path, docs)
    assert problems(findings) == {"head_is_space": 2}
    assert (findings.n_docs, findings.n_sentences, findings.n_words) == (4, 2, 3)
    assert findings.problems["head_is_space"].places[0].endswith("Doc 1, token 3")


def test_docs_stored_without_sentence_starts(tmp_path, quickstart_docs):
    docs = [Doc.from_docs(quickstart_docs[:5])]
    findings = check_docs(tmp_path, docs, attrs=["HEAD", "DEP"])
    assert not findings.has_errors
    assert findings.n_sentences == findings.n_trees == 5
    findings = check_docs(tmp_path, docs, attrs=["TAG"])
    assert problems(findings) == {"no_heads": 1}


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
    findings = check_treebank(str(path), read_treebank(path))
    assert findings.problems or findings.n_docs == 5


@pytest.mark.parametrize("content", [b"", b"x", zlib.compress(b""), zlib.compress(b"\xc1")])
def test_files_that_are_not_docs_are_errors(content, tmp_path):
    path = tmp_path / "train.spacy"
    path.write_bytes(content)
    findings = check_treebank(str(path), read_treebank(path))
    assert problems(findings) == {"unreadable": 1, "nothing": 1}
    path.write_bytes(zlib.compress(srsly.msgpack_dumps({"attrs": [65]})))
    findings = check_treebank(str(path), read_treebank(path))
    assert problems(findings) == {"unreadable": 1, "nothing": 1}


# --- parts -------------------------------------------------------------------------------------


def test_cycles_are_found_if_and_only_if_there_are_any():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(500):
        n = int(rng.integers(1, 8))
        heads = rng.integers(0, n + 1, size=n)
        cycles = on_cycles(np.concatenate(([-1], heads)))
        sound = is_tree(np.concatenate(([-1], heads)), single_root=False)
        assert bool(cycles) is not bool(sound)
        if cycles:
            found += 1
            assert sorted(heads[word - 1] for word in cycles) == cycles
    assert 50 < found < 450


def test_cycle_of_a_long_sentence_is_found_at_once():
    heads = np.arange(-1, 200_000)
    assert on_cycles(heads) == []
    heads[1] = 200_000
    assert on_cycles(heads) == list(range(1, 200_001))


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


def test_report_as_json(tmp_path, dev_conllu, run):
    (tmp_path / "other.conllu").write_text(conllu("0:root 1:new"), encoding="utf8")
    (tmp_path / "train.conllu").write_bytes(dev_conllu.read_bytes())
    result = run("check", tmp_path / "other.conllu", tmp_path / "train.conllu", "--json")
    assert result.returncode == 0, result.stderr
    other, train = json.loads(result.stdout)["treebanks"]
    assert other["problems"][0]["kind"] == "new_label"
    assert other["problems"][0]["places"] == ["new: 1"]
    assert train["longest"][0] > 10
    assert train["n_trees"] == train["n_sentences"] == 150


def test_folders_are_searched(tmp_path, nlp, capsys):
    (tmp_path / "sub").mkdir()
    save(tmp_path / "sub" / "dev.spacy", [make_doc(nlp, "a b", [0, 0], "ROOT x")])
    (tmp_path / "sub" / "train.conllu").write_text(conllu("0:root"), encoding="utf8")
    (tmp_path / "sub" / "notes.txt").write_text("x")
    assert check([tmp_path], max_sentence_length=None, as_json=True) == 0
    names = [x["name"] for x in json.loads(capsys.readouterr().out)["treebanks"]]
    assert [name.rpartition("/")[2] for name in names] == ["train.conllu", "dev.spacy"]


@pytest.mark.parametrize(("n_sentences", "warned"), [(1, True), (2, False)])
def test_docs_that_teach_no_boundaries_are_warned_of(n_sentences, warned, tmp_path, nlp, capsys):
    one = make_doc(nlp, "a b", [0, 0], "ROOT x")
    path = save(tmp_path / "train.spacy", [Doc.from_docs([one] * n_sentences)] * 3)
    assert check([path], max_sentence_length=None, as_json=True) == 0
    [found] = json.loads(capsys.readouterr().out)["treebanks"]
    assert [problem["kind"] for problem in found["problems"]] == ["single_sentences"] * warned


def test_paths_that_cannot_be_checked(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("x")
    for name, reason in (("missing.spacy", "not found"), ("a.txt", "not a treebank"),
                         ("empty", "not a treebank")):  # fmt: skip
        with pytest.raises(CommandError, match=reason):
            check([tmp_path / name], max_sentence_length=None, as_json=False)
