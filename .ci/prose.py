"""Phrases that the pages for people do without: `python .ci/prose.py [PAGE...]`.

Code, headings and quotations are left out. Each phrase has the reason, or a better one.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
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


def main(names: list[str]) -> int:
    """Print what to change in pages, by default all for people; return 1 if there is something."""
    pages = [Path(name) for name in names] or [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts),
    ]
    lines = [f"{page}: {one}" for page in pages for one in find_phrases(page.read_text("utf8"))]
    for line in lines:
        print(line)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
