"""The scripts of projects/ud, to be imported, its commands, and treebanks made up for them."""

import sys

from commandline import spacy_command
from conftest import QUICKSTART, ROOT

from spacy_rootmind.formats import conllu
from spacy_rootmind.formats.lines import Line

PROJECT = ROOT / "projects" / "ud"
sys.path.insert(0, str(PROJECT / "scripts"))


def read_sentence(lines):
    """Read a sentence of a treebank, given its lines."""
    from treebank import make_sentence

    found = (Line(i, line.encode()) for i, line in enumerate(lines, start=1))
    [sentence] = conllu.read_sentences("a.conllu", found)
    return make_sentence("a.conllu", sentence)


# Clitics that English writes without a space, and spaCy's tokenizer takes apart.
CLITICS = ("n't", "'s")
SIZES = {"train": 60, "dev": 20, "test": 25}
# Sentences of a paragraph.
PARAGRAPH = 4


def row(number, form, misc="_"):
    """A line of CoNLL-U that is no word."""
    return "\t".join([str(number), form, *"_" * 7, misc])


def add_multiword_tokens(block):
    """Give a sentence of the quickstart tags, multiword tokens, and an empty node.

    "did" and "n't" become the token "didn't"; a preposition and an article one that they do not
    spell, like "du" in French. Returns the sentence and how many tokens of each kind it got.
    """
    comments, words = [], []
    for line in block.splitlines():
        (comments if line.startswith("#") else words).append(line)
    words = [line.split("\t") for line in words]
    lines, text, spelt, fused, skip = [], "", 0, 0, 0
    for word in words:
        word[4] = word[3].lower()
    for i, word in enumerate(words):
        after = words[i + 1] if i + 1 < len(words) else None
        if after is not None and after[1] in CLITICS:
            lines.append(row(f"{i + 1}-{i + 2}", word[1] + after[1], after[9]))
            text, spelt, skip = text + word[1] + after[1] + space(after), spelt + 1, 2
        elif after is not None and (word[3], after[3]) == ("ADP", "DET"):
            form = fuse(word[1], after[1])
            lines.append(row(f"{i + 1}-{i + 2}", form, after[9]))
            text, fused, skip = text + form + space(after), fused + 1, 2
        if skip:
            # MISC of a word inside a token does not count.
            word[9], skip = "_", skip - 1
        else:
            text += word[1] + space(word)
        lines.append("\t".join(word))
        if i == 0:
            lines.append(row("1.1", "empty"))
    comments = [line for line in comments if not line.startswith("# text")]
    return "\n".join([*comments, f"# text = {text.strip()}", *lines]), spelt, fused


def fuse(first, second):
    return f"{first[0]}z{second[-1]}"


def space(word):
    return "" if word[9] == "SpaceAfter=No" else " "


def write_treebank(folder, sizes=SIZES, code="en_made"):
    """Write a treebank with multiword tokens and empty nodes; returns the numbers of its tokens."""
    folder.mkdir(parents=True)
    counts = {}
    for split, size in sizes.items():
        path = QUICKSTART / "assets" / f"en_quick-ud-{split}.conllu"
        blocks = path.read_text(encoding="utf8").strip().split("\n\n")
        made = [add_multiword_tokens(block) for block in blocks[:size]]
        text = "".join(
            f"{'' if i % PARAGRAPH else '# newpar'}\n{block}\n\n".lstrip()
            for i, (block, _, _) in enumerate(made)
        )
        (folder / f"{code}-ud-{split}.conllu").write_text(text, encoding="utf8")
        counts[split] = {
            "sentences": size,
            "spelt": sum(spelt for _, spelt, _ in made),
            "fused": sum(fused for _, _, fused in made),
        }
    (folder / "README.md").write_text("Made up.\n\nLicense: CC0 1.0\n", encoding="utf8")
    return counts


def run_project(folder, command, treebank, source="", **settings):
    """Run a command of the project, whose package is a folder; returns what it printed."""
    variables = project_variables(treebank, source, **settings)
    return spacy_command("project", "run", command, folder, *variables, cwd=folder)


def project_variables(treebank, source="", **settings):
    """List the variables of a run as options; the package is a folder."""
    settings = {
        "treebank": treebank,
        "source": source,
        "package": "made",
        "version": "1.2.3",
        "build": "none",
        **settings,
    }
    return [f"--vars.{name}={value}" for name, value in settings.items()]
