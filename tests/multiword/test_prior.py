"""Probabilities of scripts by a token's occurrences and by its letters."""

import numpy as np
import pytest

from spacy_rootmind.annotation.words import OUTSIDE, Expansion, Word
from spacy_rootmind.multiword.prior import LEAST_SHARE, NONE, Prior
from spacy_rootmind.multiword.scripts import collect_scripts


def words(*forms):
    return Expansion(0, tuple(Word(form, head=OUTSIDE) for form in forms))


def prior_of(corpus):
    """Make the prior of pairs of token and expansion, and the number of each script."""
    scripts = collect_scripts((token, own) for token, own in corpus if own is not None)
    known = sorted(set(scripts.values()))
    numbers = {None: NONE} | {pair: known.index(script) + 1 for pair, script in scripts.items()}
    tokens = [(token, numbers[None if own is None else (token, own)]) for token, own in corpus]
    return Prior.from_corpus(known, tokens), numbers


def test_tokens_that_no_script_fits_have_no_choice():
    prior, _ = prior_of([("du", words("de", "le")), ("chat", None)])
    assert prior.choices("chat") is None
    assert set(prior.tokens) == {"du"}


@pytest.mark.parametrize(("n_split", "n_whole"), [(1, 0), (5, 0), (5, 5), (1, 99), (0, 0)])
def test_probabilities_follow_the_counts(n_split, n_whole):
    des = words("de", "les")
    corpus = [("des", des)] * n_split + [("des", None)] * n_whole + [("du", words("de", "le"))]
    prior, numbers = prior_of(corpus)
    if not n_split:
        assert prior.choices("des") is None
        return
    found = prior.choices("Des")
    assert found.numbers.tolist() == [NONE, numbers["des", des]]
    probs = np.exp(found.log_probs)
    assert probs.sum() == pytest.approx(1, abs=1e-6)
    expected = (n_split + 1) / (n_split + n_whole + 2)
    assert probs[1] == pytest.approx(expected, abs=1e-6)


def test_an_occurrence_does_not_tell_its_own_number():
    du = words("de", "le")
    prior, numbers = prior_of([("du", du)] * 3)
    number = numbers["du", du]
    fewer, _ = prior_of([("du", du)] * 2)
    left = prior.choices("du", number)
    assert left.log_probs.tolist() == fewer.choices("du").log_probs.tolist()


def test_letters_decide_for_new_tokens():
    """The share of different tokens in "-ki" that have the script."""
    corpus = [(f"{stem}deki", words(f"{stem}de", "ki")) for stem in ("ev", "oda", "okul")]
    corpus += [(f"{stem}eki", None) for stem in ("x", "y", "z", "iç", "ek")]
    prior, _ = prior_of(corpus)
    found = prior.choices("bahçedeki")
    assert len(found.numbers) == 2
    assert np.exp(found.log_probs[1]) == pytest.approx(3 / 8, abs=1e-6)


def test_scripts_that_hardly_any_token_has_are_left_out():
    known = [(f"{stem}ki", words(stem, "ki")) for stem in ("ev", "oda")]
    others = [(f"w{i}ki", None) for i in range(int(2.5 / LEAST_SHARE) + 2)]
    prior, _ = prior_of(known + others)
    assert prior.choices("bahçeki") is None
    assert prior.choices("w5ki") is None
    # Unless the token itself had it.
    assert len(prior.choices("evki").numbers) == 2


def test_a_stem_that_is_a_word_elsewhere_makes_its_script_likely():
    """Half of the tokens in "-di" have the script: those whose stem is a word of other tokens."""
    stems = [f"a{letter}" for letter in "bcdefgh"]
    corpus = [(f"{stem}di", words(stem, "di")) for stem in stems]
    corpus += [(f"o{letter}di", None) for letter in "bcdefgh"]
    corpus += [(stem, None) for stem in [*stems, "genç"]]
    prior, _ = prior_of(corpus)
    probs = {token: np.exp(prior.choices(token).log_probs[1]) for token in ("Gençdi", "ezdi")}
    assert probs["Gençdi"] > 0.85
    assert probs["ezdi"] < 0.15
    # A word that only the token itself has does not tell that it has this word.
    alone, _ = prior_of([*corpus, ("ildi", words("il", "di"))])
    number = alone.choices("ildi").numbers[1]
    assert np.exp(alone.choices("ildi", number).log_probs[1]) < 0.2
