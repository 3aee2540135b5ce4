"""Sentences whose tree is malformed without the root constraint, as in figure 1 of the paper."""

from pathlib import Path

from matrices import Floats, Ints, Matrices
from report import Report
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_rootmind import decode

# The sentence of figure 1, in the test set of English-EWT.
PUBLISHED = "someplace that is like $ 30 an entree ."
# Words of another sentence to show.
SHORTEST, LONGEST = 5, 12
HEADER = ("word", "", "gold head", "any roots", "one root")


def report_examples(root: Path, report: Report, scored: dict[str, Matrices]) -> None:
    """Show the sentence of figure 1, and one that is malformed here, of an English treebank.

    Nothing is written if there are neither.
    """
    chosen = [name for name in scored if name.startswith("English")] or list(scored)[-1:]
    found = [example for name in chosen for example in find_examples(root, name, scored[name])]
    if not found:
        return
    report.text(
        "## Figure 1: malformed trees",
        "The sentence of the paper's figure 1 where a treebank has it; and of the sentences of "
        f"{SHORTEST} to {LONGEST} words whose tree has several roots without the constraint, the "
        "one that is parsed best with it. Heads by number; 0 is ROOT.",
    )
    for number, (title, words, trees) in enumerate(found):
        report.text(f"{title}:")
        rows = [
            [str(dep), word, *(str(tree[dep]) for tree in trees)]
            for dep, word in enumerate(words, start=1)
        ]
        report.table(f"example-{number}", HEADER, rows)


def find_examples(
    root: Path, treebank: str, matrices: Matrices
) -> list[tuple[str, list[str], list[Ints]]]:
    """Return titles, words and trees: gold, with any number of roots, and with one."""
    sentences = read_words(root / "corpus" / treebank / "test.spacy")
    published, malformed, fewest = [], [], LONGEST
    for words, scores, gold in zip(sentences, matrices.scores, matrices.heads, strict=True):
        if " ".join(words).lower() == PUBLISHED:
            published.append((f"{treebank}, the paper's", words, trees_of(scores, gold)))
        elif SHORTEST <= len(words) <= LONGEST:
            trees = trees_of(scores, gold)
            wrong = int((trees[2] != gold).sum())
            if (trees[1] == 0).sum() > 1 and wrong < fewest:
                malformed, fewest = [(f"{treebank}, malformed here", words, trees)], wrong
    return published + malformed


def trees_of(scores: Floats, gold: Ints) -> list[Ints]:
    """Return the gold tree, and the best with any number of roots and with one."""
    return [gold, decode(scores, single_root=False), decode(scores)]


def read_words(file: Path) -> list[list[str]]:
    """Read the words of a .spacy file with one sentence per Doc."""
    docs = DocBin().from_disk(file).get_docs(Vocab())
    return [[token.text for token in doc if not token.is_space] for doc in docs]
