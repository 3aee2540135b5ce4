"""The text that the teacher of the English pipeline parses."""

import sys
from zipfile import ZipFile

import pytest
import spacy
from commandline import write_docs
from conftest import ROOT
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

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
    "nps_chat": {
        "10-19-posts.xml": '<Post class="Statement" user="U1">hi all<t word="hi"/></Post>'
        '<Post class="System" user="U2">JOIN</Post><Post class="Emotion" user="U3">:)</Post>'
    },
}
POST = """From: ann@example.org
Subject: Rain

In article <1@example.org>, Bob writes:
>> It never rained in this wide and dry country, as
>> far as I know.

AB> I think that this is so: it did not rain.

   Not true.
Ann
-----------
|| 12 || 34 ||
"""
MAIL = "Message-ID: <2>\n\nNot true.\r\n\r\n ---- Forwarded by Bob ----\nTo: Ann\nThanks!"
PAGE = """# Rain in `Rust`

```rust
let rain = 1;
```
> *It* rains, as [the book](ch01.html) says
> in [its][1] _second_ chapter.

* dry
* wet

[1]: ch02.html
"""
PEP = """PEP: 1
Title: Rain

Rain
====

.. note:: wet

See :pep:`the rules <8>` and ``rain``, which
falls as in::

    rain()
"""
TALK = """**Ann Lee:** So, does it *rain*?
Well, let me see...

\\[03:53\\] It d- does.

**Bob:** \\[laughter\\]
"""
FOLDERS = {
    "transcripts/weather-1.md": TALK,
    "newsgroups/sci.weather/1": POST,
    "enron/ann/sent/1.": MAIL,
    "rust_book/rain.md": PAGE,
    "rust_book/rain.svg": "No.",
    "peps/pep-0001.rst": PEP,
}


@pytest.fixture
def corpora(tmp_path):
    """A folder of small corpora."""
    (tmp_path / "nltk_data").mkdir()
    for name, files in FILES.items():
        with ZipFile(tmp_path / "nltk_data" / f"{name}.zip", "w") as archive:
            for file, text in files.items():
                # One file is not UTF-8.
                encoding = "latin-1" if file == "data/letter.txt" else "utf8"
                archive.writestr(f"{name}/{file}", text.encode(encoding))
    for name, text in FOLDERS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf8", newline="")
    return tmp_path


@pytest.fixture
def held_out(tmp_path):
    return [write_docs(tmp_path / "test.spacy", [spacy.blank("en")(HELD_OUT)])]


@pytest.fixture
def train(tmp_path):
    """A training set that has `40s` as two tokens."""
    words = ["40", "s", "and", "40", "s", "."]
    spaces = [False, True, True, False, False, False]
    return write_docs(tmp_path / "train.spacy", [Doc(Vocab(), words, spaces)])


def test_corpora_become_docs_of_a_paragraph_each(corpora, train, held_out, monkeypatch):
    arguments = [corpora, corpora / "text.spacy", train, *held_out]
    monkeypatch.setattr(sys, "argv", ["make_text.py", *map(str, arguments)])
    make_text.main()
    written = list(DocBin().from_disk(corpora / "text.spacy").get_docs(Vocab()))
    assert sorted(doc.text for doc in written) == sorted(
        [
            "Farmers wait for rain.",
            "The minister said: it will rain.",
            "Crashes",
            "when I click",
            "Corked. No Stars",
            "Are you sure?",
            "No.",
            "LADY, 40s, likes walks.",
            "Mr. Speaker, we have come far.",
            "I'm sure I like it, really.",
            "It doesn't ring!",
            "I can't come (today).",
            '"Grüße", she wrote snake_case',
            "hi all",
            "It never rained in this wide and dry country, as far as I know.",
            "I think that this is so: it did not rain.",
            "Not true.",
            "Ann",
            "Not true.",
            "Thanks!",
            "Rain in Rust",
            "It rains, as the book says in its second chapter.",
            "dry",
            "wet",
            "Rain",
            "See the rules and rain, which falls as in:",
            "So, does it rain? Well, let me see...",
            "It d- does.",
        ]
    )
    [talk] = [doc for doc in written if "d- does" in doc.text]
    assert [token.text for token in talk] == ["It", "d-", "does", "."]
    [advertisement] = [doc for doc in written if "LADY" in doc.text]
    assert [token.text for token in advertisement][:4] == ["LADY", ",", "40", "s"]
