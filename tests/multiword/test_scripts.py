"""Scripts give the words that they were made from, and the words of other tokens alike."""

import pytest
from strategies import rng_for

from spacy_rootmind.annotation.words import OUTSIDE, Expansion, Word
from spacy_rootmind.multiword.scripts import Script, collect_scripts, make_script


def expansion(*words, top=0):
    """Make an expansion from forms, or from pairs of form and lemma."""
    pairs = [(word, "") if isinstance(word, str) else word for word in words]
    return Expansion(top, tuple(Word(form, lemma, head=OUTSIDE) for form, lemma in pairs))


@pytest.mark.parametrize(
    ("token", "words", "other", "expected"),
    [
        ("du", ["de", "le"], "DU", ["DE", "LE"]),
        ("du", ["de", "le"], "Du", ["De", "le"]),
        ("à", ["a", "a"], "À", ["A", "a"]),
        ("decírselo", ["decir", "se", "lo"], "Contárselo", None),
        ("contárselo", ["contar", "se", "lo"], "Cantárselo", ["Cantar", "se", "lo"]),
        ("evdeki", ["evde", "ki"], "ODADAKİ", None),
        ("evdeki", ["evde", "ki"], "odadaki", ["odada", "ki"]),
        ("שהבית", ["ש", "ה", "בית"], "שהספר", ["ש", "ה", "ספר"]),
        ("naquele", ["em", "aquele"], "Naquela", ["Em", "aquela"]),
        ("d'", ["D"], "d'", ["D"]),
    ],
)
def test_scripts_serve_tokens_with_their_letters(token, words, other, expected):
    made = make_script(token, expansion(*words))
    assert made.fits(token)
    assert [word.form for word in made.expand(token).words] == words
    assert made.fits(other) == (expected is not None)
    if expected is not None:
        assert [word.form for word in made.expand(other).words] == expected


def test_any_words_can_be_made_again():
    """Letters of several scripts, in both cases, whose other case has another length too."""
    rng = rng_for("scripts")
    letters = list("abAB'-̈İßıאבஅ ")
    for _ in range(2000):
        token = "".join(rng.choice(letters, size=rng.integers(1, 7)))
        words = [
            (
                "".join(rng.choice(letters, size=rng.integers(1, 7))),
                str(rng.choice(["", "ab", "B"])),
            )
            for _ in range(rng.integers(2, 5))
        ]
        wanted = expansion(*words, top=int(rng.integers(len(words))))
        made = make_script(token, wanted)
        assert made.fits(token)
        assert made.expand(token) == wanted
        assert Script.from_label(made.label) == made
        exact = make_script(token, wanted, with_stem=False)
        assert exact.expand(token) == wanted
        assert not exact.fits(token + "x")


def test_lemmas_follow_the_forms_of_stems():
    wanted = expansion(("evde", "ev"), "ki", top=1)
    made = make_script("evdeki", wanted)
    assert [word.lemma for word in made.expand("odadeki").words] == ["odadeki"[:-4], ""]


def test_stems_need_several_tokens():
    """Apart from upper and lower case."""
    house, book = expansion("ב", "בית"), expansion("ב", "ספר")
    alone = collect_scripts([("בבית", house), ("בבית", house)])
    assert alone["בבית", house].stem == -1
    both = collect_scripts([("בבית", house), ("בספר", book)])
    assert both["בבית", house] == both["בספר", book]
    assert both["בבית", house].stem == 1
    cased = expansion("Evde", "ki")
    found = collect_scripts([("Evdeki", cased), ("evdeki", expansion("evde", "ki"))])
    assert {script.stem for script in found.values()} == {-1}
