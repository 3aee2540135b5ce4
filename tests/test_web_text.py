"""The text that the teacher of the English pipeline parses."""

import sys
from zipfile import ZipFile

import numpy as np
import pytest
import spacy
from commandline import write_docs
from conftest import ROOT

sys.path.insert(0, str(ROOT / "projects" / "web" / "scripts"))
import make_text

ABC = "Farmers wait for rain.\n\nThe minister said: it will rain."
HELD_OUT = "One two three four five six seven eight nine ten is how the test set counts."
FILES = {
    "abc": {"rural.txt": ABC, "science.txt": f"A star was found. {HELD_OUT}", "README": "No."},
    "webtext": {
        "firefox.txt": "Crashes\nwhen I click",
        "wine.txt": "Corked. No Stars",
        "overheard.txt": "Guy #1: Are you sure?\nGuy #2: No.",
        "singles.txt": "LADY, 40s, likes walks.",
        "grail.txt": "SCENE 1: clop clop",
    },
    "state_union": {
        "1954-Eisenhower.txt": "Title\n\n1954\nToo old.",
        "1984-Reagan.txt": "Title\n\n1984\nMr. Speaker, we have come far.",
    },
    "product_reviews_1": {"Camera.txt": "[t]good\ncamera[+2]##i 'm sure i like it , really . "},
    "product_reviews_2": {"Phone.txt": "##it does n't ring !", "README.txt": "##no"},
    "masc_tagged": {
        "data/mail.txt": "X-From_NNP Ann_NNP\n\nI_PRP ca_MD n't_RB come_VB (_( today_NN )_) ._.",
        "data/letter.txt": "``_`` Gr\xfc\xdfe_NN ''_'' ,_, she_PRP wrote_VBD snake_case_NN",
        "categories.txt": "data/mail.txt email",
    },
}


@pytest.fixture
def corpora(tmp_path):
    """A folder of small corpora."""
    for name, files in FILES.items():
        with ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            for file, text in files.items():
                # One file is not UTF-8.
                encoding = "latin-1" if file == "data/letter.txt" else "utf8"
                archive.writestr(f"{name}/{file}", text.encode(encoding))
    return tmp_path


@pytest.fixture
def held_out(tmp_path):
    return [write_docs(tmp_path / "test.spacy", [spacy.blank("en")(HELD_OUT)])]


def documents(corpora, held_out, seed=0):
    return make_text.make_text(corpora, held_out, np.random.default_rng(seed))


def test_corpora_become_running_text(corpora, held_out):
    assert sorted(documents(corpora, held_out)) == sorted(
        [
            "Farmers wait for rain. The minister said: it will rain.",
            "Crashes when I click",
            "Corked. No Stars",
            "Are you sure? No.",
            "LADY, 40s, likes walks.",
            "Mr. Speaker, we have come far.",
            "I'm sure I like it, really.",
            "It doesn't ring!",
            "I can't come (today).",
            '"Grüße", she wrote snake_case',
        ]
    )


def test_documents_with_text_of_the_held_out_sets_are_left_out(corpora, held_out, tmp_path):
    other = write_docs(tmp_path / "other.spacy", [spacy.blank("en")("Nothing like it.")])
    [shared] = set(documents(corpora, [other])) - set(documents(corpora, held_out))
    assert HELD_OUT in shared


def test_order_depends_on_the_seed_alone(corpora, held_out):
    first = documents(corpora, held_out)
    assert documents(corpora, held_out) == first
    assert any(documents(corpora, held_out, seed) != first for seed in range(1, 4))


def test_documents_have_several_sentences():
    lines = [f"Sentence {number}. Another?" for number in range(100)] + ["", "No end"]
    found = list(make_text.group_lines(lines, np.random.default_rng(0)))
    assert " ".join(found) == " ".join(line for line in lines if line)
    sizes = [len(make_text.SENTENCE_END.findall(document)) for document in found[:-1]]
    assert set(sizes) == set(make_text.SENTENCES)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_command_names_a_corpus_that_cannot_be_read(damage, corpora, held_out, monkeypatch):
    path = corpora / "state_union.zip"
    path.unlink()
    if damage == "damaged":
        path.write_bytes(b"PK")
    arguments = [corpora, corpora / "text.txt", *held_out]
    monkeypatch.setattr(sys, "argv", ["make_text.py", *map(str, arguments)])
    with pytest.raises(SystemExit, match=r"cannot read .*state_union.zip .*project assets"):
        make_text.main()
    assert not (corpora / "text.txt").exists()


def test_command_writes_a_document_a_line(corpora, held_out, monkeypatch):
    arguments = [corpora, corpora / "text.txt", *held_out]
    monkeypatch.setattr(sys, "argv", ["make_text.py", *map(str, arguments)])
    make_text.main()
    written = (corpora / "text.txt").read_text(encoding="utf8").splitlines()
    assert written == documents(corpora, held_out)
