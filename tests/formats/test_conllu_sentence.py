"""Sentences of CoNLL-U are validated, read and written."""

import pytest

from spacy_rootmind.formats.conllu_sentence import (
    ConlluError,
    as_column,
    collapsed,
    escape_spaces,
    format_sentence,
    read_sentence,
    set_misc,
    surface_text,
    words_and_spaces,
)
from spacy_rootmind.formats.lines import Line


def row(name, form="x", misc="_"):
    return "\t".join([name, form, *"_" * 7, misc])


def build(*lines, first=1):
    return read_sentence(first, (Line(i, x.encode()) for i, x in enumerate(lines, start=first)))


FRENCH = (
    "# sent_id = fr-1",
    "# text = Du pain, donne-moi.",
    row("1-2", "Du"),
    row("1", "De"),
    row("2", "le"),
    row("3", "pain", "SpaceAfter=No|Gloss=bread"),
    row("4", ","),
    row("4.1", "tu"),
    row("5-6", "donne-moi", "SpaceAfter=No"),
    row("5", "donne"),
    row("6", "moi"),
    row("7", "."),
)


def test_sentence_is_put_together_as_it_was():
    sentence = build(*FRENCH)
    assert format_sentence(sentence.comments, sentence.rows) == "\n".join(FRENCH) + "\n\n"


def test_words_and_spaces_follow_multiword_tokens():
    words, spaces = words_and_spaces(build(*FRENCH))
    assert words == ["De", "le", "pain", ",", "donne", "moi", "."]
    assert spaces == [False, True, False, True, False, False, True]


def test_surface_text_has_multiword_tokens_and_no_empty_nodes():
    sentence = build(*FRENCH)
    assert surface_text(sentence.rows) == sentence.comment("text") == "Du pain, donne-moi."


def test_line_of_a_word_counts_all_lines():
    sentence = build(*FRENCH, first=101)
    assert sentence.line == 101
    assert [sentence.line_of(i) for i in range(7)] == [104, 105, 106, 107, 110, 111, 112]


def test_comment_finds_its_key_only():
    sentence = build("# text_en = No", "#text=Yes = maybe ", "# newdoc", row("1"))
    assert sentence.comment("text") == "Yes = maybe"
    assert sentence.comment("newdoc") is None


@pytest.mark.parametrize(
    ("lines", "wrong", "reason"),
    [
        ([row("1"), row("3")], 2, "expected ID 2, found 3"),
        ([row("1"), row("1")], 2, "expected ID 2, found 1"),
        ([row("0")], 1, "expected an ID"),
        ([row("x")], 1, "expected an ID"),
        ([row("-1")], 1, "expected an ID"),
        ([row("\uff11")], 1, "expected an ID"),
        ([row("9" * 5000)], 1, "expected an ID"),
        ([row("1", "")], 1, "empty column FORM"),
        ([row("1") + "\t_"], 1, "10 columns separated by tabs, found 11"),
        (["1 x _ _ _ _ _ _ _ _"], 1, "10 columns separated by tabs, found 1"),
        ([row("1"), "# text = x"], 2, "comment inside a sentence"),
        ([row("2-3"), row("1")], 1, "multiword token to start at 1"),
        ([row("1-0"), row("1")], 1, "expected an ID"),
        ([row("1"), row("2-1"), row("2")], 2, "multiword token"),
        ([row("1-2"), row("1-3"), row("1")], 2, "not to overlap"),
        ([row("1-2"), row("1"), row("2-3"), row("2"), row("3")], 3, "not to overlap"),
        ([row("1-2"), row("1")], 1, "found one that ends at 2"),
        (["# newdoc"], 1, "with words, found none"),
        ([row("0.1")], 1, "with words, found none"),
    ],
)
def test_invalid_lines_raise(lines, wrong, reason):
    with pytest.raises(ConlluError, match=reason) as caught:
        build(*lines)
    assert caught.value.line == wrong


def test_multiword_tokens_and_empty_nodes_go_anywhere_they_may():
    lines = map(row, ["0.1", "0.2", "1-1", "1", "1.1", "2-3", "2", "2.1", "3", "3.1"])
    assert [word[0] for word in build(*lines).words] == ["1", "2", "3"]


def test_set_misc_changes_only_the_given_attributes():
    assert set_misc("_", {"A": "1"}) == "A=1"
    assert set_misc("A=1", {"A": None}) == "_"
    assert set_misc("B|A=1|SpaceAfter=No|AA=3", {"A": "2"}) == "B|SpaceAfter=No|AA=3|A=2"


def test_columns_and_escapes_hold_no_separators():
    assert as_column(" a\t b\n\u2028c ") == "a b c"
    assert as_column("10\u00a0000") == "10\u00a0000"
    assert as_column("10\u00a0\u00a0000") == "10 000"
    assert as_column("e\u0301") == "\u00e9"
    assert collapsed("10\u00a0\u00a0000") == "10 000"
    assert collapsed("10\u00a0000") == "10\u00a0000"
    assert collapsed("e\u0301") == "e\u0301"
    assert as_column("\n ") == "_"
    assert as_column("\u00a0x") == "x"
    assert escape_spaces(" \t\r\n|\\\u00a0\u2028x") == r"\s\t\r\n\p\\\u00A0\u2028x"
