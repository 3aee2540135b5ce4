"""Make text for the teacher to parse, as Docs, from corpora of nltk/nltk_data.

Documents have about as many sentences as in the treebank's corpus, so that a student learns
sentence boundaries from both. Like the treebank's, they are running text without line breaks. The
Doc marks that a sentence starts at the first word of each line of a corpus; the teacher finds the
other sentences. Documents that share text with the treebank's dev or test set are left out.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from wasabi import msg

from spacy_rootmind.pipeline.callbacks import make_fit_tokenizer

# Sentences of a document, at least; drawn for each.
SENTENCES = (6, 8, 10, 12)
SENTENCE_END = re.compile(r"[.!?](?=[\s\"]|$)")
# Sequences of this many words are compared with the treebank; some, such as greetings, are common.
COMPARED = 7
MOST_SHARED = 2
# The lists of bugs and of wines in webtext are cut, and its film scripts are left out.
WEBTEXT = {"firefox": 4000, "wine": 1200, "overheard": None, "singles": None}
SPEAKER = re.compile(r"^[^:]{1,40}: ")
FIRST_ADDRESS = "1980"
# Headers of mails, in MASC.
MAIL_HEADER = re.compile(r"Mime-|X-From|X-Folder|charset")

Text = list[str]
"""The lines of a text, or of a document made from some of them, in order."""


# --- corpora -----------------------------------------------------------------------------------


def read_abc(members: dict[str, str]) -> Iterator[Text]:
    """Read broadcasters' news, a paragraph a line."""
    for name in ("rural.txt", "science.txt"):
        yield members[name].splitlines()


def read_webtext(members: dict[str, str]) -> Iterator[Text]:
    """Read a forum, reviews of wines, overheard talk and advertisements."""
    for name, length in WEBTEXT.items():
        yield [SPEAKER.sub("", line) for line in members[f"{name}.txt"].splitlines()[:length]]


def read_addresses(members: dict[str, str]) -> Iterator[Text]:
    """Read State of the Union addresses, without their headings."""
    for name, text in sorted(members.items()):
        if name[:1].isdigit() and name >= FIRST_ADDRESS:
            yield text.splitlines()[3:]


def read_reviews(members: dict[str, str]) -> Iterator[Text]:
    """Read reviews of products: lines of tokens in lower case, after their annotation and "##"."""
    for name, text in sorted(members.items()):
        if name != "README.txt":
            lines = (line.partition("##")[2] for line in text.splitlines())
            yield [capitalize(join_tokens(line.split())) for line in lines if line.strip()]


def read_masc(members: dict[str, str]) -> Iterator[Text]:
    """Read mails, blogs, letters, news and talk of MASC: lines of tokens with tags."""
    for name, text in sorted(members.items()):
        if name != "categories.txt":
            lines = (
                join_tokens(word.rpartition("_")[0] for word in line.split())
                for line in text.splitlines()
            )
            yield join_broken([line for line in lines if not MAIL_HEADER.search(line)])


CORPORA: dict[str, Callable[[dict[str, str]], Iterator[Text]]] = {
    "abc": read_abc,
    "webtext": read_webtext,
    "state_union": read_addresses,
    "product_reviews_1": read_reviews,
    "product_reviews_2": read_reviews,
    "masc_tagged": read_masc,
}


def read_members(path: Path) -> dict[str, str]:
    """Read the text files of a corpus by name."""
    with ZipFile(path) as archive:
        return {
            Path(name).name: decode(archive.read(name))
            for name in archive.namelist()
            if name.endswith(".txt")
        }


def decode(content: bytes) -> str:
    """Read a file as UTF-8, or as Latin-1 if it is not."""
    try:
        return content.decode("utf8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


# --- running text ------------------------------------------------------------------------------


def join_tokens(tokens: Iterable[str]) -> str:
    """Join tokens as the Penn Treebank has them, with spaces where English has them."""
    text = " ".join(tokens)
    text = re.sub(r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1", text)
    text = re.sub(r"`` ?| ?''", '"', text)
    text = re.sub(r" ([.,;:!?%)\]])", r"\1", text)
    return re.sub(r"([(\[$#]) ", r"\1", text).strip()


def capitalize(line: str) -> str:
    """Give a line in lower case the capitals that all such lines have."""
    return re.sub(r"\bi\b", "I", line[:1].upper() + line[1:])


def join_broken(lines: Text) -> Text:
    """Join lines that do not begin like a sentence to the line before, within a paragraph."""
    joined: Text = []
    for line in lines:
        is_start = line[:1].isupper() or line[:1].isdigit()
        if joined and joined[-1] and line and not is_start:
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    return joined


def group_lines(lines: Text, rng: np.random.Generator) -> Iterator[Text]:
    """Group lines to documents of some sentences."""
    document: list[str] = []
    found, wanted = 0, rng.choice(SENTENCES)
    for line in lines:
        words = line.split()
        if not words:
            continue
        document.append(" ".join(words))
        found += max(1, len(SENTENCE_END.findall(line)))
        if found >= wanted:
            yield document
            document, found, wanted = [], 0, rng.choice(SENTENCES)
    if document:
        yield document


def make_doc(nlp: Language, lines: Text) -> Doc:
    """Join lines to a Doc in which the first token of each starts a sentence."""
    starts = set(accumulate((len(line) + 1 for line in lines), initial=0))
    doc = nlp.make_doc(" ".join(lines))
    for token in doc:
        if token.idx in starts:
            token.is_sent_start = True
    return doc


def sequences_of(text: str) -> set[tuple[str, ...]]:
    """List the sequences of words that texts are compared by."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + COMPARED]) for i in range(len(words) - COMPARED + 1)}


def make_text(folder: Path, held_out: list[Path], rng: np.random.Generator) -> list[Text]:
    """List the documents of all corpora, in random order."""
    vocab = spacy.blank("en").vocab
    docs = chain.from_iterable(DocBin().from_disk(path).get_docs(vocab) for path in held_out)
    known: set[tuple[str, ...]] = set().union(*(sequences_of(doc.text) for doc in docs))
    documents = []
    for name, read in CORPORA.items():
        texts = read(read_members(folder / f"{name}.zip"))
        own = [document for lines in texts for document in group_lines(lines, rng)]
        kept = [d for d in own if len(sequences_of(" ".join(d)) & known) <= MOST_SHARED]
        n_words = sum(len(line.split()) for document in kept for line in document)
        msg.info(f"{name}: {len(kept)} documents, {n_words} words; {len(own) - len(kept)} left out")
        documents += kept
    rng.shuffle(documents)
    return documents


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path, help="folder packages/corpora of nltk/nltk_data")
    parser.add_argument("output", type=Path, help=".spacy file")
    parser.add_argument("train", type=Path, help=".spacy file that the tokenizer is fitted to")
    parser.add_argument("held_out", type=Path, nargs="+", help=".spacy files of dev and test sets")
    options = parser.parse_args()
    documents = make_text(options.corpora, options.held_out, np.random.default_rng(0))
    nlp = spacy.blank("en")
    make_fit_tokenizer(options.train)(nlp)
    docs = [make_doc(nlp, document) for document in documents]
    DocBin(attrs=["SENT_START"], docs=docs).to_disk(options.output)


if __name__ == "__main__":
    main()
