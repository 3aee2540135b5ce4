"""Make text for the teacher to parse, as Docs, from the project's assets.

A Doc is a line of a corpus, or a paragraph of a mail, a page or a talk, as the treebank's are, so
that a student learns sentence boundaries from both. Paragraphs that share text with the treebank's
dev or test set are left out.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import spacy
from spacy.tokens import DocBin
from wasabi import msg

from spacy_rootmind.pipeline.callbacks import make_fit_tokenizer

# Sequences of this many words are compared with the treebank; some, such as greetings, are common.
COMPARED = 7
MOST_SHARED = 2
# The lists of bugs and of wines in webtext are cut, and its film scripts are left out.
WEBTEXT = {"firefox": 4000, "wine": 1200, "overheard": None, "singles": None}
SPEAKER = re.compile(r"^[^:]{1,40}: ")
FIRST_ADDRESS = "1980"
# All words of a corpus.
MANY = 10**9
# Headers of mails, in MASC.
MAIL_HEADER = re.compile(r"Mime-|X-From|X-Folder|charset")
# Lines of mails and newsgroups that are not text, and marks of quotation before those that are.
NO_TEXT = re.compile(
    r"\s*(From|To|B?cc|Sent|Subject|Date|X-\w+|Message-ID|Mime-Version|Content-[\w-]+|Newsgroups|"
    r"Lines|Organization|Distribution|Keywords|Summary|Reply-To|Version)\s*:|"
    r".*(Forwarded by|Original Message|\b(writes?|wrote):\s*$)",
    re.IGNORECASE,
)
QUOTATION = re.compile(r"^\s*(?:(?:[\w.-]{0,6}>|[|:])\s?)+")
# Shorter lines, in characters, end a paragraph.
SHORT = {"mail": 50, "page": 40}
# Paragraphs that are not prose: long strings, rows of marks, and too few letters.
NO_PROSE = re.compile(r"\S{61}|([^\w\s.])\1{3}")
LETTERS = 0.6
# Code, directives and underlines of pages, and what begins a paragraph: headings and bullets.
CODE = re.compile(
    r"<!--.*?-->|```.*?```|^ {4}.*?$|^[ \t]*\.\.(?: .*?)?$|^[=~^*#\"'-]{3,}[ \t]*?$|"
    r"^\[[^]\n]*\]:.*?$",
    re.DOTALL | re.MULTILINE,
)
# Marks of quotation in pages.
QUOTE = re.compile(r"^(?:> ?)+", re.MULTILINE)
BULLET = re.compile(r"^[ \t]*(?:#+|[-*]|\d+\.|#\.)\s+", re.MULTILINE)
# Links and roles of Markdown and reStructuredText, whose texts stay, and other marks.
LINK = re.compile(
    r"!?\[([^]\n]+)\](?:\([^)]*\)|\[[^]]*\]|_)?|(?::[\w-]+:)?`([^`<]+?)\s*<[^>]*>`__?"
)
MARK = re.compile(r":[\w-]+:(?=`)|<(?!https?:)[^<>\n]*>|\*\*?|`+_*|(?<!\w)_|_(?!\w)|:(?=:\s*$)")
# Speakers, times, noises and escapes of talk.
NO_TALK = re.compile(r"^\s*\*\*[^*\n]{1,40}(?::\*\*|\*\*:)|\\\[[^]\n]*\]|\\(?=[^\w\s])")
POST = re.compile(r'<Post class="(?!System|Other)[^>]*>([^<.!][^<]*)<')

Text = list[str]
"""The lines of a text, which are its paragraphs."""


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


def read_chat(members: dict[str, str]) -> Iterator[Text]:
    """Read posts of chats, without commands and messages of the system."""
    for name, text in sorted(members.items()):
        if name.endswith("posts.xml"):
            yield [post for post in POST.findall(text) if is_prose(post)]


def read_mails(members: dict[str, str]) -> Iterator[Text]:
    """Read mails and posts to newsgroups: each paragraph once, in whichever it is first."""
    seen: set[str] = set()
    for _, text in sorted(members.items()):
        body = text.replace("\r", "").partition("\n\n")[2]
        lines = (
            "" if NO_TEXT.match(line) else QUOTATION.sub("", line, count=1).strip(" \t*_=-~#|")
            for line in body.split("\n")
        )
        found = [line for line in find_paragraphs(lines, SHORT["mail"]) if line not in seen]
        seen.update(found)
        yield found


def read_pages(members: dict[str, str]) -> Iterator[Text]:
    """Read pages of documentation in Markdown or reStructuredText, without code."""
    for name, text in sorted(members.items()):
        if name.endswith((".md", ".rst")):
            if name.endswith(".rst"):
                # Author, status and the like come first.
                text = text.partition("\n\n")[2]
            prose = BULLET.sub("\n\n", CODE.sub("\n\n", QUOTE.sub("", text)))
            prose = MARK.sub("", LINK.sub(r"\1\2", prose))
            yield find_paragraphs(prose.split("\n"), SHORT["page"])


def read_talk(members: dict[str, str]) -> Iterator[Text]:
    """Read transcripts of talk in Markdown, without names of speakers, times and noises."""
    for name, text in sorted(members.items()):
        if name.endswith(".md"):
            turns = (NO_TALK.sub("", turn) for turn in text.split("\n\n"))
            lines = (" ".join(MARK.sub("", LINK.sub(r"\1\2", turn)).split()) for turn in turns)
            yield [line for line in lines if is_prose(line)]


# Corpora by their place in the assets, with a reader, and a limit to the number of words.
CORPORA: dict[str, tuple[Callable[[dict[str, str]], Iterator[Text]], int]] = {
    "nltk_data/abc.zip": (read_abc, MANY),
    "nltk_data/webtext.zip": (read_webtext, MANY),
    "nltk_data/state_union.zip": (read_addresses, MANY),
    "nltk_data/product_reviews_1.zip": (read_reviews, MANY),
    "nltk_data/product_reviews_2.zip": (read_reviews, MANY),
    "nltk_data/masc_tagged.zip": (read_masc, MANY),
    "nltk_data/nps_chat.zip": (read_chat, MANY),
    "newsgroups": (read_mails, 900_000),
    "enron": (read_mails, 700_000),
    "rust_book": (read_pages, MANY),
    "peps": (read_pages, 250_000),
    "transcripts": (read_talk, 400_000),
}


def read_members(path: Path) -> dict[str, str]:
    """Read the files of a corpus, which is an archive or a folder, by name."""
    if path.is_dir():
        return {str(file): decode(file.read_bytes()) for file in path.rglob("*") if file.is_file()}
    with ZipFile(path) as archive:
        files = [name for name in archive.namelist() if name.endswith((".txt", ".xml"))]
        return {Path(name).name: decode(archive.read(name)) for name in files}


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


def find_paragraphs(lines: Iterable[str], short: int) -> Text:
    """Join wrapped lines, and keep the paragraphs that are prose.

    A paragraph ends at an empty line, and after a line with fewer than `short` characters unless
    the next one begins in lower case.
    """
    joined: Text = []
    length = 0
    for words in map(str.split, lines):
        line = " ".join(words)
        if line and length and (length >= short or line[0].islower()):
            joined[-1] += f" {line}"
        elif line:
            joined.append(line)
        length = len(line)
    return [line for line in joined if is_prose(line)]


def is_prose(line: str) -> bool:
    """Tell whether a line has mostly letters, no long strings and no rows of marks."""
    marks = line.replace(" ", "")
    n_letters = sum(map(str.isalpha, marks))
    return n_letters >= max(1, LETTERS * len(marks)) and not NO_PROSE.search(line)


def sequences_of(text: str) -> set[tuple[str, ...]]:
    """List the sequences of words that texts are compared by."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + COMPARED]) for i in range(len(words) - COMPARED + 1)}


def make_text(folder: Path, held_out: list[Path], rng: np.random.Generator) -> Text:
    """List the paragraphs of all corpora, in random order."""
    vocab = spacy.blank("en").vocab
    docs = chain.from_iterable(DocBin().from_disk(path).get_docs(vocab) for path in held_out)
    known: set[tuple[str, ...]] = set().union(*(sequences_of(doc.text) for doc in docs))
    paragraphs: Text = []
    for name, (read, most) in CORPORA.items():
        texts = list(read(read_members(folder / name)))
        own: Text = []
        n_words = n_left_out = 0
        for number in rng.permutation(len(texts)):
            for line in filter(None, (" ".join(line.split()) for line in texts[number])):
                if len(sequences_of(line) & known) > MOST_SHARED:
                    n_left_out += 1
                elif n_words < most:
                    own.append(line)
                    n_words += line.count(" ") + 1
        msg.info(f"{name}: {len(own)} paragraphs, {n_words} words; {n_left_out} left out")
        paragraphs += own
    rng.shuffle(paragraphs)
    return paragraphs


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("assets", type=Path, help="folder of corpora")
    parser.add_argument("output", type=Path, help=".spacy file")
    parser.add_argument("train", type=Path, help=".spacy file that the tokenizer is fitted to")
    parser.add_argument("held_out", type=Path, nargs="+", help=".spacy files of dev and test sets")
    options = parser.parse_args()
    paragraphs = make_text(options.assets, options.held_out, np.random.default_rng(0))
    nlp = spacy.blank("en")
    student = spacy.util.load_config(Path(__file__).parents[1] / "student.cfg")
    make_fit_tokenizer(options.train, student["initialize"]["before_init"]["keep_whole"])(nlp)
    DocBin(docs=map(nlp.make_doc, paragraphs)).to_disk(options.output)


if __name__ == "__main__":
    main()
