"""Estimated widths of texts, and texts as they are drawn."""

import pytest

from spacy_rootmind.rendering.text import clean, text_width


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        # Measured in Liberation Sans, whose letters are as wide as Arial's; at 100 pixels.
        ("telescope", 428),
        ("Which book did Anna say?", 1179),
        ("WILLIAM", 411),
        ("nmod:poss", 489),
        ("(log -0.69)", 456),
        ("Привет", 333),
        ("Größe", 283),
        ("語言", 200),
        ("e\u0301te\u0301", 139),
    ],
)
def test_widths_are_near_those_of_arial(text, measured):
    assert 0.97 * measured <= text_width(text, 100) <= 1.2 * measured


def test_long_texts_are_cut():
    assert clean("x" * 32) == "x" * 32
    # Accents without an end are cut as well.
    for text in ("x" * 33, "z" + "\u0301" * 1_000_000):
        assert clean(text) == text[:31] + "…"
