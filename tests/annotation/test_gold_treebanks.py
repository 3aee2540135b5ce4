"""Gold trees of treebanks on tokens that differ from theirs, as spaCy's own scorer counts them."""

import re

import numpy as np
import pytest
import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.converters import conllu_to_docs

from spacy_rootmind.annotation.alignment import aligned_heads
from spacy_rootmind.trees.conventions import MISSING

# Words of several syllables with spaces in them; elided articles and particles; inflectional groups
# within words; clitics.
TREEBANKS = {
    "UD_Vietnamese-VTB": "vi_vtb",
    "UD_Irish-IDT": "ga_idt",
    "UD_Turkish-IMST": "tr_imst",
    "UD_Wolof-WTB": "wo_wtb",
}
SENTENCES_PER_DOC = 2
N_DOCS = 8
NLP = spacy.blank("xx")


def split_as_spacy(text):
    return [token.text for token in NLP(text)]


def split_at_spaces(text):
    """Words between spaces, punctuation included: elisions and clitics are merged."""
    return text.split()


def split_endings(text):
    """Punctuation apart, and the last two letters of longer words too."""
    pieces = re.findall(r"\w+|[^\w\s]|\s", text)
    cut = [[word[:-2], word[-2:]] if len(word) > 4 else [word] for word in pieces]
    return [piece for word in cut for piece in word if piece != " "]


def split_every_three(text):
    """Pieces of three characters: tokens are split and merged at once."""
    return [piece for word in text.split(" ") for piece in re.findall("..?.?", word)]


TOKENIZERS = {
    "spacy": split_as_spacy,
    "merging": split_at_spaces,
    "splitting": split_endings,
    "both": split_every_three,
}


@pytest.fixture(scope="module", params=TREEBANKS)
def references(request, ud_folder):
    path = ud_folder / request.param / f"{TREEBANKS[request.param]}-ud-test.conllu"
    if not path.exists():
        pytest.skip(f"no {path.name} in ROOTMIND_UD")
    blocks = path.read_text(encoding="utf8").split("\n\n")[: SENTENCES_PER_DOC * N_DOCS]
    return list(
        conllu_to_docs("\n\n".join(blocks) + "\n\n", n_sents=SENTENCES_PER_DOC, no_print=True)
    )


def make_examples(references, tokenize):
    examples = []
    for reference in references:
        words = tokenize(reference.text)
        assert "".join(words).replace(" ", "") == reference.text.replace(" ", "")
        examples.append(Example(Doc(reference.vocab, words=words), reference))
    return examples


def annotate(example, heads, deps):
    """Copy the predicted Doc with these heads and labels."""
    doc = example.predicted
    words = [token.text for token in doc]
    return Example(Doc(doc.vocab, words=words, heads=heads, deps=deps), example.reference)


def learnt(example):
    """Annotate the predicted Doc with what training would learn; the rest attaches to itself."""
    heads, deps = aligned_heads(example, "ROOT")
    strings = example.predicted.vocab.strings
    heads = np.where(heads == MISSING, np.arange(len(heads)), heads).tolist()
    return annotate(example, heads, [strings[dep] if dep else "dep" for dep in deps.tolist()])


def learnt_by_spacy(example):
    heads, deps = example.get_aligned_parse(projectivize=False)
    heads = [i if head is None else head for i, head in enumerate(heads)]
    return annotate(example, heads, [dep or "dep" for dep in deps])


def recalls(examples):
    """Share of the gold arcs of each label that spaCy's scorer finds."""
    scores = Scorer.score_deps(
        *(examples, "dep"),
        getter=lambda token, attr: token.dep_,
        ignore_labels=("punct",),
    )
    return {label: score["r"] for label, score in scores["dep_las_per_type"].items()}


@pytest.mark.parametrize("tokenizer", ["spacy", "splitting"])
def test_every_arc_is_learnt_where_tokens_are_only_split(tokenizer, references):
    examples = [
        example
        for example in make_examples(references, TOKENIZERS[tokenizer])
        if (np.asarray(example.alignment.x2y.lengths) <= 1).all()
    ]
    found = recalls([learnt(example) for example in examples])
    # Training has no label for the pieces of a root except one.
    found.pop("dep", None)
    assert found == dict.fromkeys(found, 1.0)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_no_label_is_learnt_less_than_by_spacys_parser(tokenizer, references):
    examples = make_examples(references, TOKENIZERS[tokenizer])
    ours = recalls([learnt(example) for example in examples])
    spacys = recalls([learnt_by_spacy(example) for example in examples])
    worse = {label for label, recall in spacys.items() if ours[label] < recall}
    assert not worse - {"dep"}
