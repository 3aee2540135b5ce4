"""Fitting the tokenizer: which rules are found, what they do to other text, what they cost."""

import functools
import pickle
import re
from itertools import pairwise

import numpy as np
import pytest
import spacy
from environments import make_bare
from hypothesis import given, settings
from hypothesis import strategies as st
from parsers import read_conllu
from spacy.symbols import NORM, ORTH
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, DocBin

from spacy_rootmind.annotation.joining_tokenizer import JoiningTokenizer, Joins, join, with_joins
from spacy_rootmind.training.tokenizer import fit_tokenizer
from spacy_rootmind.training.tokenizer_rules import (
    CASE,
    PREFIX,
    SUFFIX,
    WHOLE,
    Rule,
    add_rules,
)


def reading(marked):
    """A text and its tokens, from a text with a bar between tokens that no space separates.

    An underscore is a space inside a token.
    """
    text, spans = "", []
    for chunk in marked.split(" "):
        for part in chunk.split("|"):
            token = part.replace("_", " ")
            spans.append((len(text), len(text) + len(token)))
            text += token
        text += " "
    return text, spans


def words(tokenizer, text):
    return [token.text for token in tokenizer(text) if not token.is_space]


# Fitting makes other tokenizers.
blank = functools.cache(spacy.blank)


def fit(marked, lang="xx"):
    return fit_tokenizer(blank(lang).tokenizer, [reading(text) for text in marked])


def f_score(tokenizer, readings):
    """F1 of tokens, counted once more."""
    right = total = 0
    for text, spans in readings:
        found = {(t.idx, t.idx + len(t)) for t in tokenizer(text) if not t.is_space}
        right += len(found & set(spans))
        total += len(found) + len(spans)
    return 2 * right / total


# --- the rules that are found ------------------------------------------------------------------

# Text of a treebank for each kind of rule, and other text with the tokens that are expected then.
LEARNT = {
    "repeated": ("so|!!! yes|!! !!!! ok", "no|!!!!!!!"),
    WHOLE: ("on 01-Feb-02 and 3-Mar-99 or 12-Apr-01 to", "on 30-Dec-2001|, too"),
    PREFIX: ("b'|fearr agus b'|fhéidir le b'|olc", "b'|iontach an"),
    SUFFIX: ("at 7:30|PM or 8:15|PM and 9:45|PM then", "at 11:05|PM|."),
    CASE: ("I wan|na go wan|na", "(|wan|na|)"),
}


ENGLISH = "Don't (see https://example.com/a-b), U.K. e.g. 5km."


@pytest.mark.parametrize("kind", LEARNT)
def test_rule_is_found_and_used(kind):
    taught, unseen = LEARNT[kind]
    nlp = blank("en" if kind == WHOLE else "xx")
    text, spans = reading(unseen)
    expected = [text[a:b] for a, b in spans]
    assert words(nlp.tokenizer, text) != expected
    before = nlp.tokenizer.to_bytes(exclude=["vocab"])
    fitted = fit_tokenizer(nlp.tokenizer, [reading(taught)])
    assert nlp.tokenizer.to_bytes(exclude=["vocab"]) == before
    kinds = {PREFIX, SUFFIX} if kind == "repeated" else {kind}
    assert kinds <= {rule.kind for rule in fitted.rules}
    assert words(fitted.tokenizer, text) == expected
    assert fitted.f_after == 1.0 > fitted.f_before


@pytest.mark.parametrize(
    ("lang", "taught", "text", "expected"),
    [
        # Vowel signs, which are no word characters for `re`, are part of a pattern's letters.
        ("ta", ["இ-மெயில் டி-வி கே-பி ஆ-டி"], "எம்-எஸ்ஸி", ["எம்-எஸ்ஸி"]),
        # The rules of the language stay.
        ("en", ["so|!!! yes|!! !!!!"], ENGLISH, words(blank("en").tokenizer, ENGLISH)),
        # Runs inside longer tokens are no reason to split others.
        ("en", ["=== ===== >=={ }==<", ">=={ }==<"], "========", ["========"]),
    ],
)
def test_other_text_is_tokenized_by_rules(lang, taught, text, expected):
    assert words(fit(taught, lang).tokenizer, text) == expected


def test_marks_are_split_at_places_without_example():
    """A dash that is always a token, here between words, is one before and after a word as well."""
    taught = "gel|-|git ve ev|-|okul ya da dün|-|bugün"
    fitted = fit([taught], "tr")
    assert words(fitted.tokenizer, "-Ben geldim-") == ["-", "Ben", "geldim", "-"]
    # One that is often a part of words is not.
    fitted = fit([taught + " ana-baba e-posta"], "tr")
    assert words(fitted.tokenizer, "-Ben geldim-") == ["-Ben", "geldim-"]
    # Neither is one that the treebank keeps at the end of words.
    fitted = fit([taught * 20 + " gel-"], "tr")
    assert words(fitted.tokenizer, "-Ben geldim-") == ["-", "Ben", "geldim-"]


@pytest.mark.parametrize(
    "taught",
    [
        pytest.param("my e-mail is here", id="once"),
        pytest.param("e-mail e|-|mail e-mail e|-|mail", id="as-often-as-not"),
        pytest.param("1|PM 2|PM 3|PM 4|PM 5|PM 6|PM 7|PM 8PM 9PM 10PM 11PM", id="too-often-not"),
        pytest.param("my e|-|mail is here|! don|'t" + " e|-|mail" * 3, id="no-disagreement"),
    ],
)
def test_noise_teaches_nothing(taught):
    assert fit([taught.replace("don|'t", "do|n't")]).rules == []


def test_a_pattern_needs_several_strings():
    """One string, however frequent, is a special case, and no pattern for others."""
    fitted = fit([" ".join(["Suid-Afrika"] * 50)], "af")
    assert fitted.rules == [Rule(CASE, "Suid-Afrika", ("Suid-Afrika",))]
    assert words(fitted.tokenizer, "Noord-Afrika") == ["Noord", "-", "Afrika"]


def test_order_of_texts_makes_no_difference():
    texts = [reading(taught) for taught, _ in LEARNT.values()]
    first, second = (fit_tokenizer(blank("xx").tokenizer, own) for own in (texts, texts[::-1]))
    assert first.rules == second.rules != []


# --- tokens with spaces ------------------------------------------------------------------------

NUMBERS = ["il y a 125_000 mois et 2_500 jours", "les 12_000_000 de 1_000 francs"]
# Two syllables of these are one word, in any order; others are not.
SYLLABLES = ["gia", "đình", "công", "ty", "nhà", "nước"]
PAIRS = [f"{a}_{b}" for a, b in pairwise(SYLLABLES)] + ["công_gia", "nhà_công"]
WORDS = [f"Ông {a} có {b} ở đây" for a in PAIRS for b in PAIRS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("soit 7 100 et 30 000,50.", ["soit", "7 100", "et", "30 000,50", "."]),
        ("1 234 567 €", ["1 234 567", "€"]),
        ("99\u202f000 ou 99\u00a0000", ["99\u202f000", "ou", "99\u00a0000"]),
        ("en 2004 125 000 fois", ["en", "2004", "125 000", "fois"]),
        ("1 0000 ; 1  000 ; 06 123 456", ["1", "0000", ";", "1", "000", ";", "06", "123 456"]),
        # Only tokens that begin and end with the number are joined.
        ("1 000m3", ["1", "000m3"]),
    ],
)
def test_numbers_are_joined(text, expected):
    fitted = fit(NUMBERS, "fr")
    assert fitted.f_after == 1.0 > fitted.f_before
    assert words(fitted.tokenizer, text) == expected


def test_numbers_stay_apart_where_the_treebank_does_not_join_them():
    apart = [text.replace("_", " ") for text in NUMBERS]
    assert type(fit([*NUMBERS, *apart], "fr").tokenizer) is not JoiningTokenizer


def test_words_are_learnt():
    fitted = fit(WORDS)
    assert fitted.f_after == 1.0
    assert "rules and joins across spaces added" in str(fitted)
    text = "Ông nước gia ở đây có nhà nước"
    assert words(fitted.tokenizer, text) == ["Ông", "nước gia", "ở", "đây", "có", "nhà nước"]
    assert fit(WORDS[::-1]).tokenizer.joins == fitted.tokenizer.joins


def test_any_text_stays():
    """Every token is a run of tokens of spaCy's tokenizer, with the same spaces."""
    both = with_joins(fit(WORDS).tokenizer, Joins(True, *fit(WORDS).tokenizer.joins[1:]))
    usual = spacy.blank("xx").tokenizer
    rng = np.random.default_rng(0)
    parts = [*SYLLABLES, "125", "000", "7", "\n", " ", "", "Ông", ".", ",", "\u202f", "\u3000"]
    n_joined = 0
    for _ in range(500):
        text = " ".join(rng.choice(parts, size=rng.integers(9)))
        doc, before = both(text), usual(text)
        assert doc.text == before.text == text
        starts, usual_starts = ([token.idx for token in each] for each in (doc, before))
        assert set(starts) <= set(usual_starts)
        n_joined += len(usual_starts) - len(starts)
        spaces = {token.idx + len(token): token.whitespace_ for token in before}
        assert all(spaces[token.idx + len(token)] == token.whitespace_ for token in doc)
    assert n_joined > 100


def test_norms_of_special_cases_stay():
    tokenizer = with_joins(spacy.blank("xx").tokenizer, Joins(numbers=True))
    tokenizer.add_special_case("dont", [{ORTH: "do"}, {ORTH: "nt", NORM: "not"}])
    assert [token.norm_ for token in tokenizer("1 000 dont")] == ["1 000", "do", "not"]


def test_long_texts_take_linear_time():
    """spaCy's retokenizer would take minutes."""
    doc = spacy.blank("xx")("1 000 " * 50_000)
    assert len(join(doc, range(0, len(doc), 2))) == 50_000


def test_pipelines_keep_their_tokenizer(tmp_path):
    nlp = before_init("xx", tmp_path / "a.spacy")
    docs = write_docs(tmp_path / "a.spacy", nlp.vocab, [*WORDS, *NUMBERS])
    nlp.initialize()
    texts = [doc.text for doc in docs]
    expected = [[token.text for token in doc] for doc in docs]
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved")
    loaded.config["initialize"]["before_init"] = nlp.config["initialize"]["before_init"]
    in_memory = spacy.blank("xx", config={"nlp": {"tokenizer": nlp.config["nlp"]["tokenizer"]}})
    in_memory.from_bytes(nlp.to_bytes())
    for each in (nlp, loaded, in_memory, pickle.loads(pickle.dumps(nlp))):
        assert [words(each, text) for text in texts] == expected
    found = [[token.text for token in doc] for doc in loaded.pipe(texts, n_process=2)]
    assert found == expected
    # Trained again, on text without such tokens.
    DocBin(docs=[nlp.make_doc("no spaces")]).to_disk(tmp_path / "a.spacy")
    loaded.initialize()
    loaded.to_disk(tmp_path / "again")
    assert type(spacy.load(tmp_path / "again").tokenizer) is Tokenizer


# --- properties --------------------------------------------------------------------------------

CHUNK = st.text(alphabet="ab'Z19-.!$/()ி", min_size=1, max_size=6)
SENTENCE = st.lists(st.tuples(CHUNK, st.sets(st.integers(1, 5))), min_size=1, max_size=5)


@settings(max_examples=20, deadline=None)
@given(st.lists(SENTENCE, min_size=1, max_size=6))
def test_training_text_is_never_tokenized_worse(sentences):
    marked = [
        " ".join(
            "|".join(
                chunk[a:b]
                for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 9], strict=True)
                if chunk[a:b]
            )
            for chunk, cuts in sentence
        )
        for sentence in sentences
    ]
    readings = [reading(text) for text in marked] * 3
    tokenizer = blank("xx").tokenizer
    fitted = fit_tokenizer(tokenizer, readings)
    assert fitted.f_before == pytest.approx(f_score(tokenizer, readings))
    assert fitted.f_after == pytest.approx(f_score(fitted.tokenizer, readings))
    assert fitted.f_after >= fitted.f_before


@pytest.fixture(scope="module")
def all_rules():
    """A vocabulary, and rules of all kinds."""
    more = "so-so la-la co-co 1-1 2-2 3-3 a.b. c.d. e.f. x-1 y-2 z-3"
    taught = [more, *(taught for taught, _ in LEARNT.values())]
    rules = [rule for text in taught for rule in fit([text], "xx").rules]
    assert {rule.kind for rule in rules} == {WHOLE, PREFIX, SUFFIX, CASE}
    return blank("xx").vocab, rules


@pytest.mark.parametrize("char", ["!", "-", "a", "1", "'", "1-", "a.", "!a", "1a", "b'", "a-1"])
def test_patterns_take_linear_time(char, all_rules):
    """Quadratic time on these strings would be many minutes."""
    added = add_rules(Tokenizer(all_rules[0]), all_rules[1])
    text = char * 100_000
    for end in ("", "?", "\u00e9?"):
        added.find_prefix(text + end)
        added.find_suffix(text + end)
        added.token_match(text + end)


def gold_tokens(path, vocab):
    """The sentences of a treebank that has no multiword tokens."""
    docs = read_conllu(path, vocab, step=4)
    return [(doc.text, [(t.idx, t.idx + len(t)) for t in doc]) for doc in docs]


@pytest.mark.parametrize(
    ("name", "left"), [("UD_Afrikaans-AfriBooms", 0.2), ("UD_Vietnamese-VTB", 0.55)]
)
def test_treebank(ud_folder, name, left):
    """At most this share of a test set's wrong tokens is left after fitting."""
    folder = ud_folder / name
    [train], [test] = (sorted(folder.glob(f"*{s}.conllu")) for s in ("train", "test"))
    nlp = spacy.blank("xx" if train.name.startswith("vi") else train.name[:2])
    readings = gold_tokens(test, nlp.vocab)
    fitted = fit_tokenizer(nlp.tokenizer, gold_tokens(train, nlp.vocab))
    before, after = (f_score(each, readings) for each in (nlp.tokenizer, fitted.tokenizer))
    assert 1 - after < left * (1 - before)


# --- in a pipeline -----------------------------------------------------------------------------


def write_docs(path, vocab, marked):
    docs = []
    for text, spans in map(reading, marked):
        spaces = [text[end : end + 1] == " " for _, end in spans]
        docs.append(Doc(vocab, words=[text[a:b] for a, b in spans], spaces=spaces))
    DocBin(docs=docs).to_disk(path)
    return docs


def before_init(lang, path):
    callback = {"@callbacks": "spacy_rootmind.fit_tokenizer.v1", "path": str(path)}
    return spacy.blank(lang, config={"initialize": {"before_init": callback}})


@pytest.fixture(scope="module")
def fitted_nlp(tmp_path_factory):
    """A pipeline whose tokenizer was fitted by its config, to a folder of Docs."""
    folder = tmp_path_factory.mktemp("corpus")
    nlp = before_init("en", folder)
    with pytest.raises(ValueError, match=r"expected a \.spacy file.*before_init"):
        nlp.initialize()
    write_docs(folder / "train.spacy", nlp.vocab, [taught for taught, _ in LEARNT.values()])
    nlp.initialize()
    assert words(nlp.tokenizer, "no!!!!!!!") == ["no", "!!!!!!!"]
    return nlp


@pytest.mark.workflow
def test_pipeline_loads_without_this_package(fitted_nlp, tmp_path):
    fitted_nlp.to_disk(tmp_path / "pipeline")
    code = (
        "import importlib.util, spacy; assert importlib.util.find_spec('spacy_rootmind') is None; "
        "print(*spacy.load('pipeline')('no!!!!!!!'))"
    )
    environment = make_bare(tmp_path / "venv")
    assert environment.run("python", "-c", code, cwd=tmp_path).strip() == "no !!!!!!!"


def test_other_tokenizers_stay(tmp_path, caplog):
    class Own(Tokenizer):
        pass

    nlp = before_init("en", tmp_path / "train.spacy")
    write_docs(tmp_path / "train.spacy", nlp.vocab, ["so|!!!"])
    nlp.tokenizer = own = Own(nlp.vocab)
    nlp.initialize()
    assert nlp.tokenizer is own
    assert "is not fitted" in caplog.text


# --- refused input -----------------------------------------------------------------------------


def test_patterns_are_kept_whole(tmp_path):
    """Strings of which the treebank has no example, or others, are tokens by patterns."""
    text = "th- no-, (#rain) #1 hash# #so"
    write_docs(tmp_path / "train.spacy", blank("en").vocab, ["no|- th- we|- say|- so"] * 3)
    for patterns in [], [r"[^\W\d_]{1,2}-", r"#[^\W\d_]\w*"]:
        callback = {
            "@callbacks": "spacy_rootmind.fit_tokenizer.v1",
            "path": str(tmp_path),
            "keep_whole": patterns,
        }
        nlp = spacy.blank("en", config={"initialize": {"before_init": callback}})
        nlp.initialize()
        found = words(nlp.tokenizer, text)
        assert {"th-", "no-", "#so"}.issubset(found) == bool(patterns)
        assert {"#", "1", "hash"} <= set(found)
        assert ("#rain" in found) == bool(patterns)
        assert words(nlp.tokenizer, "#rain.") == ["#", "rain", "."]
    callback["keep_whole"] = ["#(?i)a"]
    nlp = spacy.blank("en", config={"initialize": {"before_init": callback}})
    with pytest.raises(ValueError, match=r"expected regular expressions as `keep_whole`.*'#\(\?i"):
        nlp.initialize()


def test_no_tokens_are_refused():
    with pytest.raises(ValueError, match="expected texts with gold tokens"):
        fit_tokenizer(blank("en").tokenizer, [("", [])])


def test_flags_inside_a_pattern_stay():
    tokenizer = Tokenizer(blank("xx").vocab, token_match=re.compile("(?i)a-b$").match)
    text, spans = reading("so|!!! yes|!! !!!!")
    fitted = fit_tokenizer(tokenizer, [(text, spans)])
    assert fitted.tokenizer.token_match("A-B")
    assert words(fitted.tokenizer, "no!!!!!!!") == ["no", "!!!!!!!"]
