"""The writers write what was parsed, in forms that other tools can read."""

import json
import math
import re
from dataclasses import replace

import pytest
import spacy
from commandline import lines_in, misc, sentences_in
from parsers import arcs_of, assign, kbest
from spacy.tokens import Doc
from spacy.training.converters import conllu_to_docs

from spacy_rootmind.annotation.details import BROKEN
from spacy_rootmind.annotation.extensions import Arc, SentenceDetails, register_extensions
from spacy_rootmind.annotation.records import read_record, store_records
from spacy_rootmind.formats.conllu import decimals, read_conllu, write_conllu
from spacy_rootmind.formats.conllu_sentence import (
    DEPREL,
    DEPS,
    EMPTY_NODE_ID,
    FORM,
    HEAD,
    ID,
    MISC,
    RANGE_ID,
    WORD_ID,
)
from spacy_rootmind.formats.drawn_tree import draw_tree, percent, write_tree
from spacy_rootmind.formats.jsonl import write_jsonl
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.formats.registry import read_records
from spacy_rootmind.parsing.stream import parse_records


@pytest.fixture(scope="module")
def nlp(pipeline):
    """A parser with probabilities, arcs and alternatives, after a sentencizer."""
    nlp = spacy.load(pipeline)
    nlp.add_pipe("sentencizer", first=True)
    parser = nlp.get_pipe("root_mst")
    # With labelled trees, the first alternative can be another tree than the parse.
    settings = {"decode": "tree", "confidence": True, "arc_threshold": 0.02}
    assign(parser, **settings, **kbest(3))
    register_extensions()
    return nlp


@pytest.fixture(scope="module")
def plain(pipeline):
    """A parser that only writes trees."""
    return spacy.load(pipeline)


def parse_text(nlp, text, **fields):
    return nlp(text), InputRecord("in", 1, text=text, fields=fields)


def assert_valid(sentence):
    """Assert that a sentence is a tree, and that its text is that of its words."""
    heads = [int(row[HEAD]) for row in sentence.words]
    assert heads.count(0) == 1
    for word in range(1, len(heads) + 1):
        path = {word}
        while word := heads[word - 1]:
            assert word not in path
            path.add(word)
    assert [row[DEPREL] == "root" for row in sentence.words] == [head == 0 for head in heads]
    text = sentence.comment("text")
    for row in sentence.words:
        assert text.startswith(row[FORM])
        text = text[len(row[FORM]) :]
        if "SpaceAfter=No" not in row[MISC].split("|"):
            assert text[:1] in ("", " ")
            text = text[1:]
    assert text == ""


# --- CoNLL-U -----------------------------------------------------------------------------------


def test_conllu_of_a_text(nlp):
    doc, record = parse_text(nlp, "The cat (mine) slept. She saw  him.")
    first, second = sentences_in(write_conllu(doc, record))
    assert_valid(first)
    assert_valid(second)
    assert first.comments[:3] == [
        "# newpar",
        "# sent_id = in:1-1",
        "# text = The cat (mine) slept.",
    ]
    assert second.comments[:2] == ["# sent_id = in:1-2", "# text = She saw him."]
    assert [row[FORM] for row in first.words] == ["The", "cat", "(", "mine", ")", "slept", "."]
    assert [row[ID] for row in second.words] == ["1", "2", "3", "4"]
    words = [token for token in doc if not token.is_space]
    for token, row in zip(words, [*first.words, *second.words], strict=True):
        assert row[DEPREL] == token.dep_.replace("ROOT", "root")
        head = "" if token.head == token else token.head.text
        own = first if token in next(doc.sents) else second
        assert ["", *(word[FORM] for word in own.words)][int(row[HEAD])] == head


@pytest.mark.parametrize(
    ("name", "mark", "prefix"),
    [
        # As UD wants names of sentences: without whitespace and slashes.
        ("a/b:0", "# newdoc id = a/b:0", "a%2Fb:0"),
        ("a_b:0", "# newdoc id = a_b:0", "a_b:0"),
        ("a b", "# newdoc id = a b", "a%20b"),
        ("a%20b", "# newdoc id = a%20b", "a%2520b"),
        (12, "# newdoc id = 12", "12"),
        *[(name, "# newpar", "in:1") for name in ("\u2028", "", " ", None, True)],
    ],
)
def test_names_of_documents_and_sentences(name, mark, prefix, nlp):
    [sentence] = sentences_in(write_conllu(*parse_text(nlp, "It rained.", id=name)))
    assert sentence.comments[0] == mark
    assert sentence.comment("sent_id") == f"{prefix}-1"


def test_conllu_of_tokens_with_spaces_inside(nlp):
    record = InputRecord(
        "in", 1, words=["New \n York", "\t", "sleeps"], spaces=[True, False, False]
    )
    doc = record.make_doc(nlp)
    for _, pipe in nlp.pipeline:
        doc = pipe(doc)
    [sentence] = sentences_in(write_conllu(doc, record))
    assert_valid(sentence)
    assert [row[FORM] for row in sentence.words] == ["New York", "sleeps"]
    assert misc(sentence.words[0])["SpacesInToken"] == r"New\s\n\sYork"
    assert misc(sentence.words[0])["SpacesAfter"] == r"\s\t"


def test_conllu_has_probabilities_and_alternatives(nlp):
    doc, record = parse_text(nlp, "The cat  saw a dog that slept. She said that it rained.")
    found = sentences_in(write_conllu(doc, record))
    for span, sentence in zip(doc.sents, found, strict=True):
        words = [token for token in span if not token.is_space]
        for token, row in zip(words, sentence.words, strict=True):
            assert float(misc(row)["HeadProb"]) == pytest.approx(token._.head_prob, abs=1e-6)
            assert float(misc(row)["ArcProb"]) == pytest.approx(token._.arc_prob, abs=1e-6)
            number = {word: str(i) for i, word in enumerate(words, start=1)}
            expected = ",".join(
                f"{0 if arc.head == token else number[arc.head]}:{arc.dep.replace('ROOT', 'root')}:"
                f"{arc.prob:.6f}"
                for arc in token._.arcs
            )
            assert misc(row)["Arcs"] == expected
        assert sentence.comment("parse_log_prob") == decimals(span._.parse_log_prob)
        assert sentence.comment("parse_entropy") == decimals(span._.parse_entropy)
        assert sentence.comment("parse_4") is None
        for i, parse in enumerate(span._.parses, start=1):
            log_prob, *arcs = sentence.comment(f"parse_{i}").split(" ")
            assert log_prob == decimals(parse.log_prob)
            tree = parse.to_doc()
            numbers = {}
            for token in tree:
                if not token.is_space:
                    numbers[token.i] = len(numbers) + 1
            expected = [
                f"{0 if tree[j].head.i == j else numbers[tree[j].head.i]}:"
                f"{tree[j].dep_.replace('ROOT', 'root')}"
                for j in numbers
            ]
            assert arcs == expected
        best = [f"{row[HEAD]}:{row[DEPREL]}" for row in sentence.words]
        assert sentence.comment("parse_1").split(" ")[1:] == best


def test_labels_set_by_hand_have_no_probability(nlp):
    """Their head keeps its own."""
    doc, record = parse_text(nlp, "The cat slept.")
    doc[0].dep_ = "changed"
    [sentence] = sentences_in(write_conllu(doc, record))
    known = [{"HeadProb", "ArcProb"} & set(misc(row)) for row in sentence.words]
    assert known == [{"HeadProb"}, *[{"HeadProb", "ArcProb"}] * 3]
    tokens = json.loads(write_jsonl(doc, record))["tokens"]
    assert ["arc_prob" in token for token in tokens] == [False, True, True, True]
    drawn = write_tree(doc, record).decode()
    known = ["%" in line.partition("  or ")[0] for line in drawn.splitlines()[2:6]]
    assert known == [False, True, True, True]


def test_guideline_status_is_written(nlp):
    doc, record = parse_text(nlp, "She slept.")
    details = replace(read_record(doc[:]), guideline_status=BROKEN)
    store_records(doc, [(0, len(doc), details)])
    data = write_conllu(doc, record)
    assert sentences_in(data)[0].comment("guideline_status") == "broken"
    assert json.loads(write_jsonl(doc, record))["sents"][0]["guideline_status"] == "broken"
    # That of an earlier tree is left out.
    [again] = read_conllu("in", lines_in(data))
    assert b"guideline" not in write_conllu(nlp(again.make_doc(nlp)), again)


def test_labels_do_not_end_an_arc_in_conllu(nlp, monkeypatch):
    doc, record = parse_text(nlp, "She slept")
    labels = ("a|b", "50%, or so", "obl:arg")
    details = SentenceDetails(doc[:], list(doc))
    details.arcs = [Arc(doc[0], doc[1], label, 0.25) for label in labels]
    monkeypatch.setattr(SentenceDetails, "read", lambda *args: details)
    [sentence] = sentences_in(write_conllu(doc, record))
    first, second = sentence.words
    assert misc(first)["Arcs"] == ("2:a%7Cb:0.250000,2:50%25%2C or so:0.250000,2:obl:arg:0.250000")
    assert "Arcs" not in misc(second)


@pytest.mark.parametrize(
    ("form", "value", "shown"),
    [
        *[(decimals, -1e-9, "0.000000"), (decimals, 0.5, "0.500000")],
        *[(decimals, -1.23456789, "-1.234568"), (percent, 0.0, "0.0 %"), (percent, 1.0, "100.0 %")],
        *[(percent, 1e-9, "< 0.1 %"), (percent, 0.0006, "0.1 %"), (percent, 0.905, "90.5 %")],
    ],
)
def test_numbers_are_shown(form, value, shown):
    assert form(value) == shown


@pytest.mark.parametrize("name", ["quickstart", "English-EWT", "Turkish-IMST", "Wolof-WTB"])
def test_treebanks_in_and_out_change_trees_alone(name, plain, request):
    """SpaCy's own reader finds the same trees."""
    if name == "quickstart":
        path = request.getfixturevalue("dev_conllu")
    else:
        folder = request.getfixturevalue("ud_folder") / f"UD_{name}"
        [path] = folder.glob("*-ud-test.conllu")
    given = sentences_in(path.read_bytes())[:100]
    records = list(read_records([str(path)]))[:100]
    docs = list(plain.pipe(record.make_doc(plain) for record in records))
    data = b"".join(write_conllu(d, r) for d, r in zip(docs, records, strict=True))
    read = list(conllu_to_docs(data.decode(), n_sents=1, no_print=True))
    assert [[t.text for t in doc] for doc in read] == [[t.text for t in doc] for doc in docs]
    assert [arcs_of(doc) for doc in read] == [arcs_of(doc) for doc in docs]
    n_multiword = 0
    for before, after in zip(given, sentences_in(data), strict=True):
        assert [int(row[HEAD]) for row in after.words].count(0) == 1
        assert set(before.comments) <= set(after.comments)
        # The enhanced graph, with its empty nodes, is not that of the new tree.
        rows = [row for row in before.rows if not EMPTY_NODE_ID.fullmatch(row[ID])]
        for old, new in zip(rows, after.rows, strict=True):
            if WORD_ID.fullmatch(old[ID]):
                assert [*old[:HEAD], *old[DEPS + 1 :]] == [*new[:HEAD], *new[DEPS + 1 :]]
                assert new[DEPS] == "_"
            else:
                n_multiword += RANGE_ID.fullmatch(old[ID]) is not None
                assert old == new
    if name == "quickstart":
        assert any(a.rows != b.rows for a, b in zip(given, sentences_in(data), strict=True))
        assert [s.comments for s in sentences_in(data)] == [s.comments for s in given]
    else:
        assert n_multiword


def test_conllu_in_and_out_replaces_earlier_probabilities(nlp, plain, dev_conllu):
    record = next(read_records([str(dev_conllu)]))
    once = write_conllu(nlp(record.make_doc(nlp)), record)
    [again] = read_conllu("once", lines_in(once))
    assert write_conllu(nlp(again.make_doc(nlp)), again) == once
    without = write_conllu(plain(record.make_doc(plain)), record)
    assert b"HeadProb" in once
    assert b"Arcs=" in once
    assert b"# parse_" in once
    assert write_conllu(plain(again.make_doc(plain)), again) == without


# --- JSONL -------------------------------------------------------------------------------------


def test_jsonl_is_a_doc_and_more(nlp):
    doc, record = parse_text(nlp, "The cat  saw a dog. She said that it rained.", id="x", sents=1)
    data = json.loads(write_jsonl(doc, record))
    assert next(iter(data)) == "id"
    read = Doc(nlp.vocab).from_json(data)
    assert [(t.text, t.head.i, t.dep_) for t in read] == [(t.text, t.head.i, t.dep_) for t in doc]
    assert read.text == data["text"] == doc.text
    for token, found in zip(doc, data["tokens"], strict=True):
        assert found["head_prob"] == pytest.approx(token._.head_prob, abs=1e-6)
        assert found["arc_prob"] == pytest.approx(token._.arc_prob, abs=1e-6)
        assert found["arcs"] == [
            {"head": arc.head.i, "dep": arc.dep, "prob": pytest.approx(arc.prob, abs=1e-6)}
            for arc in token._.arcs
        ]
    for sentence, found in zip(doc.sents, data["sents"], strict=True):
        assert found["log_prob"] == pytest.approx(sentence._.parse_log_prob, abs=1e-6)
        assert found["entropy"] == pytest.approx(sentence._.parse_entropy, abs=1e-6)
        assert found["parses"][0]["heads"] == [token.head.i for token in sentence]
        for parse, other in zip(sentence._.parses, found["parses"], strict=True):
            assert other["deps"] == parse.deps
            assert other["heads"] == (parse.heads + sentence.start).tolist()
            assert other["log_prob"] == pytest.approx(parse.log_prob, abs=1e-6)


def test_jsonl_keeps_the_fields_of_its_record(plain):
    """Without settings, the rest is a Doc alone."""
    odd = {"half": "\ud83d", "big": 2**100, "none": None}
    doc, record = parse_text(plain, "Zo\u00eb slept.", **odd)
    assert json.loads(write_jsonl(doc, record)) == {**odd, **doc.to_json()}
    doc, record = parse_text(plain, "Zo\u00eb slept.")
    assert "Zo\u00eb".encode() in write_jsonl(doc, record)
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_jsonl(*parse_text(plain, "It rained.", score=[number]))


# --- what does not fit -------------------------------------------------------------------------


def test_docs_with_changed_tokens_or_sentences_raise(nlp):
    record = InputRecord("in", 1, words=["Yes", ".", "No", "."], starts=[True, False, False, False])
    doc = nlp(record.make_doc(nlp))
    assert write_jsonl(doc, record)
    cut = nlp(Doc(nlp.vocab, words=record.words))
    assert len(list(cut.sents)) == 2
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    for writer in (write_conllu, write_jsonl):
        with pytest.raises(ValueError, match="changed the tokens that"):
            writer(doc, record)
        with pytest.raises(ValueError, match="changed the sentences that"):
            writer(cut, record)


def test_trees_that_conllu_cannot_have_raise(plain):
    doc, record = parse_text(plain, "She  slept")
    doc[2].head = doc[1]
    doc[1].head = doc[1]
    with pytest.raises(ValueError, match="expected a word of the same sentence"):
        write_conllu(doc, record)


# --- drawn trees -------------------------------------------------------------------------------


def test_drawn_tree_has_words_labels_and_probabilities(nlp):
    doc, record = parse_text(nlp, "The cat  saw a dog that slept. She said that it rained.")
    blocks = write_tree(doc, record).decode().split("Probability of the tree: ")
    for sentence, block, following in zip(doc.sents, blocks, blocks[1:], strict=False):
        words = [token for token in sentence if not token.is_space]
        number = {token: i for i, token in enumerate(words)}
        heads = [-1 if token.head == token else number[token.head] for token in words]
        drawing = draw_tree(heads)
        rows = block.splitlines()[-len(words) - 1 : -1]
        for row, line, token in zip(rows, drawing, words, strict=True):
            form, label, prob, sign, *others = row.removeprefix(line).split()
            assert (form, label) == (token.text, token.dep_.replace("ROOT", "root"))
            assert f"{prob} {sign}" == percent(token._.arc_prob)
            expected = [
                f"{'' if arc.head == token else f'{arc.head} '}"
                f"{arc.dep.replace('ROOT', 'root')} {percent(arc.prob)}"
                for arc in token._.arcs
                if (arc.head, arc.dep) != (token.head, token.dep_)
            ]
            assert " ".join(others) == ("or " + ", ".join(expected) if expected else "")
        assert following.startswith(percent(math.exp(sentence._.parse_log_prob)))


def test_alternatives_are_drawn_once(nlp):
    doc, record = parse_text(nlp, "The cat saw a dog that slept.")
    [sentence] = doc.sents
    first, *others = sentence._.parses
    assert first.heads.tolist() == [token.head.i for token in doc]
    drawn = write_tree(doc, record).decode()
    shown = re.findall(r"^Alternative: (.*)$", drawn, flags=re.MULTILINE)
    assert shown == [percent(math.exp(parse.log_prob)) for parse in others]
    for parse in others:
        heads = [-1 if head == i else head for i, head in enumerate(parse.heads.tolist())]
        for line, token in zip(draw_tree(heads), doc, strict=True):
            assert f"\n{line} {token.text} " in drawn


def test_drawn_tree_has_the_given_parts_of_speech_and_no_control_characters(plain):
    rows = [["1", "\x1b[2Jcat", "_", "NOUN"], ["2", "sleeps", "_", "VERB"]]
    data = b"\n".join("\t".join([*row, *["_"] * 6]).encode() for row in rows)
    [record] = read_conllu("in", lines_in(data))
    [(record, doc)] = parse_records(plain, iter([record]))
    drawn = write_tree(doc, record).decode()
    assert "\x1b" not in drawn
    assert re.search(r" \\x1b\[2Jcat  NOUN  \w", drawn)
    assert "%" not in drawn
