"""Phrases that pages, docstrings and comments do without: `python .ci/prose.py [FILE...]`.

Headings, quotations and the code of pages are left out. Each phrase has a better one, or advice.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Folders whose docstrings and comments are read by default.
CODE = (".ci", "benchmarks", "cython_src", "docs", "projects", "spacy_rootmind", "tests")
# At the start of a sentence, unless it is a question.
OPENINGS = "Of|Which|Those|What|Where|Nor"
PHRASES = {
    "but for": "except, without",
    "those of": "name them",
    "so many": "give the number",
    "as far as": "a plain condition",
    "as much(?= as|[,.;])": "the same amount, with its noun",
    "all that(?= (?:is|are|there|you))": "everything, or the noun",
    "what is (?:known|missing|there|left|learnt|read)": "name it",
    "(?:is|are) asked (?:about|for)": "is queried, computed",
    "hears? of": "a verb of the field",
    "thinks? (?:it|the [a-z]+) over": "a verb of the field",
    "let (?:the (?:parser|model|student)|it|them)": "make, allow",
}


def prose(text: str) -> str:
    """Return a page without code, quotations and headings, each paragraph and cell on one line."""
    text = re.sub(r"^```.*?^```$|^---$.*?^---$|^#[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`|\"[^\"]*\"", "X", text)
    text = re.sub(r"(?<=\S)\n *(?=[^\s|*-])", " ", text)
    return re.sub(r" *\| *|^ *(?:[-*]|\d+\.) +", "\n", text, flags=re.MULTILINE)


def find_phrases(text: str) -> list[str]:
    """Return what to change in a page, a line for each place."""
    text = prose(text)
    opening = re.compile(
        rf"(?:^|(?<=[.:!?] ))[\[*_(]*(?:{OPENINGS}) [^.?\n]*(?![^.?\n]*\?)", re.MULTILINE
    )
    found = [f"{match[0][:60]!r}: begin with the subject" for match in opening.finditer(text)]
    for phrase, better in PHRASES.items():
        places = re.finditer(rf"(?i)\b{phrase}(?!\w)", text)
        found += [f"{text[match.start() :][:60]!r}: {better}" for match in places]
    return found


def is_source(path: Path) -> bool:
    """Whether people write a file."""
    return "_build" not in path.parts and path.suffix in {".md", ".py", ".pyx", ".pxd", ".pyi"}


def comments(code: str) -> list[str]:
    """Return the docstrings and comments of Python or Cython code, a block of lines as one text."""
    docstrings = re.findall(r'^ *r?"""(.*?)"""', code, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"^(?: *# .*\n)+", code, flags=re.MULTILINE)
    trailing = re.findall(r"^.*\S  # (.*)$", code, flags=re.MULTILINE)
    return [
        *(re.sub(r"^ +", "", text, flags=re.MULTILINE) for text in docstrings),
        *(re.sub(r"^ *# ", "", text, flags=re.MULTILINE) for text in blocks),
        *trailing,
    ]


def files() -> Iterator[Path]:
    """Yield the pages for people, and the code."""
    yield ROOT / "README.md"
    yield ROOT / "CONTRIBUTING.md"
    yield from (ROOT / "docs").rglob("*.md")
    for folder in CODE:
        yield from (ROOT / folder).rglob("*.p[yx]*")


def main(names: list[str]) -> int:
    """Print what to change in files, by default in all; return 1 if there is something."""
    paths = [Path(name) for name in names] or sorted(p for p in files() if is_source(p))
    lines = []
    for path in paths:
        text = path.read_text("utf8")
        texts = [text] if path.suffix == ".md" else comments(text)
        lines += [f"{path}: {phrase}" for text in texts for phrase in find_phrases(text)]
    for line in lines:
        print(line)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
