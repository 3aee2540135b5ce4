"""Estimated widths of texts, and texts that are cut."""

import pytest

from spacy_rootmind.rendering.text import isolate, shorten, text_width


def test_widths_are_near_those_of_arial():
    # Measured in Liberation Sans, whose letters are as wide as Arial's; at 100 pixels.
    for text, measured in {
        "telescope": 428,
        "Which book did Anna say?": 1179,
        "WILLIAM": 411,
        "nmod:poss": 489,
        "(log -0.69)": 456,
        "Привет": 333,
        "Größe": 283,
    }.items():
        assert measured <= text_width(text, 100) <= 1.15 * measured


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("e\u0301te\u0301", "été"),
        ("z" + "\u0301" * 1000, "z"),
        ("👨‍👩‍👧‍👦", "👨"),
        ("👍🏽", "👍"),
        ("a\u200b\u202eb", "ab"),
    ],
)
def test_signs_of_several_characters_have_the_width_of_one(text, same):
    assert text_width(text, 16) == pytest.approx(text_width(same, 16), rel=0.3)


def test_letters_of_other_scripts():
    assert text_width("語", 10) == pytest.approx(text_width("ガ", 10))
    assert text_width("語", 10) >= 10 > text_width("ש", 10) >= 4
    assert text_width("😀", 10) > 10


def test_texts_are_cut_between_signs():
    assert shorten("abc", 10, 30) == "abc"
    cut = shorten("x" * 100, 10, 100)
    assert cut == "x" * (len(cut) - 1) + "…"
    assert text_width(cut, 10) <= 100 < text_width(cut + "xx", 10)
    family = "👨‍👩‍👧‍👦"
    cut = shorten(family * 20, 10, 100)
    assert cut == family * ((len(cut) - 1) // len(family)) + "…"
    # Accents without an end neither take time nor hide the lines above them.
    assert len(shorten("z" + "\u0301" * 100_000, 10, 100)) < 20


def test_words_with_another_direction_are_isolated():
    assert isolate("abc") == "abc"
    assert isolate("קראה") == "\u2068קראה\u2069"
    assert isolate("abc", is_rtl=True) == "\u2068abc\u2069"
    assert isolate("\u202eab\u2069c") == "abc"
