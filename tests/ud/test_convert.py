"""Conversion of treebanks: tokens, trees and text of the Docs."""

from dataclasses import replace

import convert
import pytest
import spacy
import srsly
from convert import choose_language, convert_split, hold_out, read_treebank
from spacy.language import Language
from spacy.tokens import DocBin
from treebank import TreebankError
from ud_treebanks import read_sentence, row, write_treebank

from spacy_rootmind.annotation.words import read_expansion

# With multiword tokens, with few of them, and without.
SMALL = ["UD_Tamil-TTB", "UD_Kurmanji-MG", "UD_Livvi-KKPP"]


def conllu(words, multiword):
    """A sentence from form/head/label, or form/head/label/MISC, and a multiword token's line."""
    lines = []
    for i, word in enumerate(words.split(), start=1):
        form, head, label, *misc = word.split("/")
        lines.append("\t".join([str(i), form, *"_" * 4, head, label, "_", *(misc or "_")]))
    lines.insert(int(multiword.partition("-")[0]) - 1, multiword)
    return lines


DU = conllu(
    "Il/2/nsubj parle/0/root/CorrectSpaceAfter=No de/5/case le/5/det chat/2/obl/SpaceAfter=No "
    "./2/punct",
    row("3-4", "du"),
)
DONT = conllu("I/4/nsubj do/4/aux n't/4/advmod sleep/0/root", row("2-3", "don't"))


def docs_of(lines, words, nlp=None):
    sentences = [read_sentence(lines)]
    return convert_split(sentences, words, nlp or spacy.blank("xx"))[0]


def test_docs_end_with_paragraphs_on_request():
    sentence = read_sentence(DONT)
    sentences = [replace(sentence, starts_paragraph=i in (3, 4, 6)) for i in range(25)]
    for by_paragraph, expected in [(False, [10, 10, 5]), (True, [3, 1, 2, 10, 9])]:
        docs, _ = convert_split(sentences, "syntactic", spacy.blank("xx"), by_paragraph)
        assert [len(list(doc.sents)) for doc in docs] == expected


def test_paragraphs_end_where_their_first_sentence_is_held_out():
    sentence = read_sentence(DONT)
    sentences = [replace(sentence, starts_paragraph=i % 3 == 0) for i in range(25)]
    train, dev, every = hold_out(sentences)
    assert every == 5
    assert all(own.starts_paragraph for own in dev)
    kept = [i for i in range(25) if i % 5 != 4]
    expected = [j == 0 or kept[j - 1] // 3 != i // 3 for j, i in enumerate(kept)]
    assert [own.starts_paragraph for own in train] == expected


def parts(doc):
    return [(t.text, t.head.i, t.dep_, bool(t.whitespace_)) for t in doc]


def test_syntactic_words_are_the_treebanks():
    [doc] = docs_of(DU, "syntactic")
    assert parts(doc) == [
        ("Il", 1, "nsubj", True),
        ("parle", 1, "ROOT", True),
        ("de", 4, "case", True),
        ("le", 4, "det", True),
        ("chat", 1, "obl", False),
        (".", 1, "punct", True),
    ]


def test_orthographic_tokens_are_those_of_the_text():
    [doc] = docs_of(DU, "orthographic")
    assert doc.text == "Il parle du chat. "
    assert [(t.text, t.head.text) for t in doc] == [
        ("Il", "parle"),
        ("parle", "parle"),
        ("du", "chat"),
        ("chat", "parle"),
        (".", "parle"),
    ]


@pytest.mark.parametrize("words", convert.WORDS)
def test_tokens_that_spacys_tokenizer_splits_are_not_merged(words):
    [doc] = docs_of(DONT, words, spacy.blank("en"))
    assert doc.text == "I don't sleep "
    assert [t.text for t in doc] == ["I", "do", "n't", "sleep"]
    assert [t.text for t in spacy.blank("en")("I don't sleep")] == ["I", "do", "n't", "sleep"]


def test_a_merged_token_has_the_head_of_its_topmost_word():
    """Its words have different heads here, and dependents of any word become the token's.

    So has all of its annotation.
    """
    words = "a/3/dep b/1/amod c/0/root d/2/low e/3/high f/4/leaf"
    lines = conllu(words, row("4-5", "du"))
    for line, annotation in ((3, "d\tADP\tP\tA=B"), (5, "_\tDET\t_\tPoss=Yes|Case=Gen")):
        lines[line] = lines[line].replace("\t_\t_\t_\t_\t", f"\t{annotation}\t", 1)
    [doc] = docs_of(lines, "orthographic")
    du = doc[3]
    assert (du.lemma_, du.pos_, du.tag_, str(du.morph)) == ("", "DET", "", "Case=Gen|Poss=Yes")
    assert [(t.text, t.head.text, t.dep_) for t in doc] == [
        ("a", "c", "dep"),
        ("b", "a", "amod"),
        ("c", "c", "ROOT"),
        ("du", "c", "high"),
        ("f", "du", "leaf"),
    ]


def test_made_up_treebank_is_converted_completely(made, tmp_path):
    folder, counts = made
    for words in convert.WORDS:
        convert.convert(folder, tmp_path / words, words, "auto")
        about = srsly.read_json(tmp_path / words / "treebank.json")
        assert (about["treebank"], about["code"], about["lang"]) == ("UD_Made-Up", "en_made", "en")
        assert about["license"] == "CC0 1.0"
        assert about["annotated"]["UPOS"] == about["annotated"]["XPOS"] == 1.0
        assert 0.3 < about["annotated"]["FEATS"] < 0.9
        for split, count in counts.items():
            found = about["counts"][split]
            multiword = count["spelt"] + count["fused"]
            assert found["sentences"] == found["empty_nodes"] == count["sentences"]
            assert found["multiword"] == multiword
            assert found["other_text"] == 0
            # spaCy splits "didn't", so that only the others are merged.
            assert found["merged"] == (count["fused"] if words == "orthographic" else 0)
            assert found["written_apart"] == (count["fused"] if words == "syntactic" else 0)
            docs = list(
                DocBin().from_disk(tmp_path / words / f"{split}.spacy").get_docs(Language().vocab)
            )
            stored = [read_expansion(token) for doc in docs for token in doc]
            assert sum(own is not None for own in stored) == found["merged"]
            n_tokens = found["words"] - found["merged"]
            assert sum(map(len, docs)) == n_tokens
            assert [len(list(doc.sents)) for doc in docs[:-1]] == [10] * (len(docs) - 1)
            assert sum(len(list(doc.sents)) for doc in docs) == count["sentences"]
        text = (tmp_path / words / "test.txt").read_text(encoding="utf8")
        stated = [
            line.partition("= ")[2]
            for line in (folder / "en_made-ud-test.conllu").read_text("utf8").splitlines()
            if line.startswith("# text")
        ]
        assert text.split() == " ".join(stated).split()


@pytest.mark.parametrize("name", SMALL)
def test_real_treebanks_keep_words_trees_and_text(name, ud_folder):
    _, splits, _ = read_treebank(ud_folder / name)
    sentences = splits["test"]
    nlp = spacy.blank("xx")
    docs, counts = convert_split(sentences, "syntactic", nlp, 10)
    found = [sent for doc in docs for sent in doc.sents]
    for sentence, span in zip(sentences, found, strict=True):
        assert [t.text for t in span] == [word[1] for word in sentence.words]
        heads = [0 if t.head == t else t.head.i - span.start + 1 for t in span]
        assert heads == sentence.heads
        annotation = [[t.lemma_, t.pos_, t.tag_, str(t.morph)] for t in span]
        columns = [["" if c == "_" else c for c in word[2:6]] for word in sentence.words]
        for token, word in zip(annotation, columns, strict=True):
            # spaCy sorts features in its own order.
            assert [*token[:3], {*token[3].split("|")}] == [*word[:3], {*word[3].split("|")}]
        assert [t.dep_ for t in span] == [w[7].replace("root", "ROOT") for w in sentence.words]
    docs, counts = convert_split(sentences, "orthographic", nlp, 10)
    assert "".join(doc.text for doc in docs) == "".join(s.text for s in sentences)
    assert counts.other_text == 0


# --- dev sets and languages --------------------------------------------------------------------


def test_missing_splits_are_held_out_or_raise(tmp_path):
    write_treebank(tmp_path / "no-dev", {"train": 15, "test": 5})
    _, splits, [remark] = read_treebank(tmp_path / "no-dev")
    assert {split: len(sentences) for split, sentences in splits.items()} == (
        {"train": 12, "dev": 3, "test": 5}
    )
    assert "no dev set" in remark
    assert "3 of 15" in remark
    train = {s.stated_text for s in splits["train"]}
    assert not train & {s.stated_text for s in splits["dev"]}
    # From a hundred sentences on, a tenth is enough.
    for count, held_out in ((99, 19), (100, 10)):
        train, dev, _ = hold_out([read_sentence(DONT)] * count)
        assert (len(train), len(dev)) == (count - held_out, held_out)
    write_treebank(tmp_path / "tiny", {"train": 3, "test": 5})
    with pytest.raises(TreebankError, match="too few"):
        read_treebank(tmp_path / "tiny")
    for missing, others in (("train", {"test": 5, "dev": 5}), ("test", {"train": 5, "dev": 5})):
        write_treebank(tmp_path / f"no-{missing}", others)
        with pytest.raises(TreebankError, match=f"no {missing} set"):
            read_treebank(tmp_path / f"no-{missing}")


@pytest.mark.parametrize(
    ("wanted", "code", "lang"),
    [
        ("auto", "en_ewt", "en"),
        ("auto", "no_bokmaal", "nb"),
        ("auto", "hsb_ufal", "hsb"),
        ("auto", "kk_ktb", "xx"),
        ("xx", "en_ewt", "xx"),
        ("tr", "kk_ktb", "tr"),
    ],
)
def test_language_is_the_treebanks_where_spacy_knows_it(wanted, code, lang):
    nlp, reason = choose_language(wanted, code)
    assert nlp.lang == lang
    assert ("no tokenizer rules" in reason) == (lang == "xx" != wanted)
