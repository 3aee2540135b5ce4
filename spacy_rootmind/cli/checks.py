"""Problems and statistics of a treebank, counted sentence by sentence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.reading import choose_root_label
from spacy_rootmind.annotation.ud_guidelines import UDRules, make_words
from spacy_rootmind.annotation.ud_rules import NUMBER_OF_TAG, LabelTables, Words
from spacy_rootmind.cli.treebanks import NOT_A_NUMBER, OUTSIDE, GoldDoc, GoldSentence
from spacy_rootmind.formats.records import Failure
from spacy_rootmind.trees.checks import is_projective
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL

# How many places are listed for each kind of problem.
N_PLACES = 5

ERROR, WARNING = "error", "warning"
# Severity and description of each kind of problem.
KINDS = {
    "unreadable": (ERROR, "records that cannot be read"),
    "nothing": (ERROR, "treebanks without words"),
    "no_heads": (ERROR, "treebanks without heads"),
    "head_not_a_number": (ERROR, "heads that are not numbers"),
    "head_outside": (ERROR, "heads outside their sentence"),
    "cycle": (ERROR, "sentences with heads in a cycle"),
    "several_roots": (ERROR, "sentences with several roots"),
    "no_root": (ERROR, "sentences without a root"),
    "root_label_inside": (ERROR, "arcs between words with the root's label"),
    "root_with_other_label": (ERROR, "roots without the root's label"),
    "own_head": (
        WARNING,
        "tokens that are their own head but do not have the root's label; training treats their "
        "heads as missing",
    ),
    "head_is_space": (
        WARNING,
        "words whose head is a whitespace token; training treats their heads as missing",
    ),
    "empty_doc": (WARNING, "Docs without tokens"),
    "no_words": (WARNING, "sentences that are only whitespace"),
    "long_sentence": (WARNING, "sentences longer than the maximum, which will be split"),
    "guidelines": (
        WARNING,
        "sentences whose tree breaks UD's guidelines, which no parser with `guidelines` returns; "
        "udvalidate (pip install udtools) explains the rules",
    ),
    "rare_label": (WARNING, "labels that occur only once"),
    "new_label": (WARNING, "labels that do not occur in the training data"),
    "multiword_tokens": (
        WARNING,
        "multiword tokens, which the tokenizer does not split; training lacks the heads of their "
        "words unless it uses gold tokens (gold_preproc) or the words are merged "
        "(`spacy convert --merge-subtokens`)",
    ),
}


@dataclass
class Problem:
    """A kind of problem: how often it occurs, and the first few places."""

    kind: str
    count: int = 0
    places: list[str] = field(default_factory=list)

    @property
    def severity(self) -> str:
        """Whether it is an error or a warning."""
        return KINDS[self.kind][0]

    @property
    def meaning(self) -> str:
        """Description of the problem."""
        return KINDS[self.kind][1]


class Findings:
    """Statistics and problems of one treebank.

    Words are tokens other than whitespace, and only words are counted.

    Parameters
    ----------
    name : str
        Name of the treebank in the report.
    max_sentence_length : int, optional
        Longest sentence in words; longer ones are reported.
    """

    def __init__(self, name: str, max_sentence_length: int | None = None) -> None:
        self.name = name
        self.max_sentence_length = max_sentence_length
        self.problems: dict[str, Problem] = {}
        self.n_docs = self.n_docs_of_several = 0
        self.n_words = self.n_spaces = self.n_multiword = self.n_empty_nodes = 0
        self.n_without_head = self.n_without_label = self.n_partial = 0
        self.n_trees = self.n_non_projective = 0
        self.lengths: Counter[int] = Counter()
        self.longest = ""
        self.labels: Counter[str] = Counter()
        self.root_labels: Counter[str] = Counter()
        self._first_place: dict[tuple[str, bool], list[str]] = {}
        self._trees: list[GoldSentence] = []

    def add(self, kind: str, place: str, count: int = 1) -> None:
        """Count a problem, and keep its place."""
        problem = self.problems.setdefault(kind, Problem(kind))
        problem.count += count
        if len(problem.places) < N_PLACES:
            problem.places.append(place)

    @property
    def errors(self) -> list[Problem]:
        """Problems that have to be fixed before training."""
        return [p for p in self.problems.values() if p.severity == ERROR]

    @property
    def n_sentences(self) -> int:
        """Number of sentences, without those that are only whitespace."""
        return sum(self.lengths.values())

    @property
    def root_label(self) -> str:
        """The root's label, as training chooses it."""
        return choose_root_label(self.root_labels)

    def add_doc(self, doc: GoldDoc) -> None:
        """Check a Doc."""
        self.n_docs += 1
        self.n_docs_of_several += len(doc.sentences) > 1
        self.n_multiword += doc.n_multiword
        self.n_empty_nodes += doc.n_empty_nodes
        if doc.n_multiword:
            self.add("multiword_tokens", doc.where, doc.n_multiword)
        if not doc.sentences:
            self.add("empty_doc", doc.where)
        for place, label in doc.own_labels:
            self.add("own_head", f"{place}: {label}")
        for sentence in doc.sentences:
            self.add_sentence(sentence)

    def add_sentence(self, sentence: GoldSentence) -> None:
        """Check a sentence."""
        words = ~sentence.spaces
        n_words = int(words.sum())
        self.n_words += n_words
        self.n_spaces += len(words) - n_words
        if not n_words:
            self.add("no_words", sentence.where)
            return
        if n_words > max(self.lengths, default=0):
            self.longest = sentence.where
        self.lengths[n_words] += 1
        if self.max_sentence_length is not None and n_words > self.max_sentence_length:
            self.add("long_sentence", f"{sentence.where}: {n_words} words")
        self._count_labels(sentence, words)
        self._check_heads(sentence, words)

    def _count_labels(self, sentence: GoldSentence, words: NDArray[np.bool_]) -> None:
        for i in words.nonzero()[0].tolist():
            label, is_root = sentence.labels[i], sentence.heads[i] == 0
            if not label:
                self.n_without_label += 1
                continue
            (self.root_labels if is_root else self.labels)[label] += 1
            # The root's label is chosen at the end, when all labels are counted.
            places = self._first_place.setdefault((label, bool(is_root)), [])
            if len(places) < N_PLACES:
                places.append(sentence.place(i))

    def _check_heads(self, sentence: GoldSentence, words: NDArray[np.bool_]) -> None:
        heads = sentence.heads
        for kind, code in (("head_not_a_number", NOT_A_NUMBER), ("head_outside", OUTSIDE)):
            for i in (words & (heads == code)).nonzero()[0].tolist():
                self.add(kind, sentence.place(i))
        inner = words & (heads > 0)
        for i in inner.nonzero()[0][sentence.spaces[heads[inner] - 1]].tolist():
            self.add("head_is_space", sentence.place(i))
        n_missing = int((words & (heads == MISSING)).sum())
        self.n_without_head += n_missing
        self.n_partial += n_missing > 0
        roots = (words & (heads == 0)).nonzero()[0].tolist()
        cycle = find_cycle(heads)
        if cycle:
            self.add("cycle", ", ".join([sentence.place(cycle[0]), *_numbers(cycle[1:])]))
        if len(roots) > 1:
            self.add("several_roots", ", ".join([sentence.place(roots[0]), *_numbers(roots[1:])]))
        if not roots and (heads[words] > 0).all():
            self.add("no_root", sentence.where)
        if len(roots) == 1 and not cycle and (heads >= 0).all():
            self.n_trees += 1
            if words.all() and all(sentence.labels):
                self._trees.append(sentence)
            self.n_non_projective += not is_projective(np.concatenate(([MISSING], heads)))

    def finish(self) -> "Findings":
        """Check what depends on the whole treebank."""
        if not self.n_words:
            self.add("nothing", self.name)
        elif self.n_without_head == self.n_words:
            self.add("no_heads", self.name)
        root_label = self.root_label
        if self.root_labels:
            for label, places in self.root_labels.items():
                if label != root_label:
                    self._add_all("root_with_other_label", (label, True), places)
            self._add_all("root_label_inside", (root_label, False), self.labels[root_label])
        if self._trees:
            for place, rules in broken_guidelines(self._trees):
                self.add("guidelines", f"{place}: {', '.join(rules)}")
            self._trees.clear()
        return self

    def check_training(self) -> None:
        """Check what only matters in training data."""
        for label in sorted(self.all_labels):
            if self.all_labels[label] == 1:
                self.add("rare_label", label)

    def _add_all(self, kind: str, key: tuple[str, bool], count: int) -> None:
        for i, place in enumerate(self._first_place.get(key, ())):
            self.add(kind, f"{place}: {key[0]}", count if i == 0 else 0)

    @property
    def all_labels(self) -> Counter[str]:
        """Labels of roots and of other words."""
        return self.labels + self.root_labels

    def compare(self, training: "Findings") -> None:
        """Find labels that do not occur in the training data."""
        for label, count in sorted(self.all_labels.items()):
            if label not in training.all_labels:
                self.add("new_label", f"{label}: {count}")

    def summary(self) -> dict[str, Any]:
        """Return all findings in the form of the JSON report."""
        return {
            "name": self.name,
            "docs": self.n_docs,
            "docs_of_several_sentences": self.n_docs_of_several,
            "sentences": self.n_sentences,
            "words": self.n_words,
            "whitespace_tokens": self.n_spaces,
            "multiword_tokens": self.n_multiword,
            "empty_nodes": self.n_empty_nodes,
            "words_without_head": self.n_without_head,
            "words_without_label": self.n_without_label,
            "partly_annotated_sentences": self.n_partial,
            "trees": self.n_trees,
            "non_projective_trees": self.n_non_projective,
            "sentence_length": length_statistics(self.lengths),
            "longest_sentence": self.longest,
            "root_label": self.root_label,
            "root_labels": dict(self.root_labels.most_common()),
            "labels": dict(self.labels.most_common()),
            "problems": [
                {
                    "kind": problem.kind,
                    "severity": problem.severity,
                    "count": problem.count,
                    "meaning": problem.meaning,
                    "places": problem.places,
                }
                for problem in self.problems.values()
            ],
        }


def check_treebank(
    name: str, docs: Iterable[GoldDoc | Failure], max_sentence_length: int | None = None
) -> Findings:
    """Check a whole treebank; see `Findings` for the parameters."""
    findings = Findings(name, max_sentence_length)
    for doc in docs:
        if isinstance(doc, Failure):
            findings.add("unreadable", str(doc))
        else:
            findings.add_doc(doc)
    return findings.finish()


def broken_guidelines(trees: Sequence[GoldSentence]) -> Iterator[tuple[str, list[str]]]:
    """List the places of trees that break UD's guidelines, and the rules; none for other labels."""
    inner = {
        label
        for tree in trees
        for head, label in zip(tree.heads.tolist(), tree.labels, strict=True)
        if head
    }
    # With these two, every sentence has a valid tree, which does not matter here.
    names = ["root", *sorted({*inner, "punct", "dep"})]
    try:
        tables = LabelTables(names)
    except ValueError:
        return
    numbers = {name: number for number, name in enumerate(names)}
    heads, labels = [], []
    for tree in trees:
        heads.append(np.array([MISSING, *tree.heads], dtype=np.int32))
        own = [numbers.get(label, MISSING) for label in tree.labels]
        labels.append(np.array([MISSING, *own], dtype=np.int32))
        labels[-1][heads[-1] == ROOT] = ROOT_LABEL
    rules = UDRules(tables, _words_of(trees), [len(tree.heads) for tree in trees])
    for tree, errors in zip(
        trees, rules.find_errors(range(len(trees)), heads, labels), strict=True
    ):
        if errors:
            yield tree.place(errors[0][0] - 1), sorted({name for _, name in errors})


def _words_of(trees: Sequence[GoldSentence]) -> Words:
    columns = [own for tree in trees for own in tree.tags]
    return make_words(
        np.array([NUMBER_OF_TAG.get(tag, 0) for tag, _, _ in columns], dtype=np.int8),
        [feats for _, feats, _ in columns],
        np.array([space for _, _, space in columns], dtype=np.bool_),
        [len(tree.heads) for tree in trees],
    )


def find_cycle(heads: NDArray[np.int64]) -> list[int]:
    """Find a cycle of heads; [] if there is none.

    Parameters
    ----------
    heads : int array of shape (n,)
        1 to n for a token, anything below for no token. A token's own number is a cycle.

    Returns
    -------
    list of int
        The tokens of the first cycle found, counted from 0, in ascending order.
    """
    head_of = [0, *heads.tolist()]
    # 0 for a token not visited yet, else the first token of the walk that visited it.
    visited = [0] * len(head_of)
    for first in range(1, len(head_of)):
        token = first
        while token > 0 and not visited[token]:
            visited[token] = first
            token = head_of[token]
        if token > 0 and visited[token] == first:
            cycle = [token]
            while head_of[cycle[-1]] != token:
                cycle.append(head_of[cycle[-1]])
            return sorted(number - 1 for number in cycle)
    return []


def length_statistics(lengths: Counter[int]) -> dict[str, float]:
    """Compute the shortest, median, mean, 90th percentile and longest length."""
    if not lengths:
        return {}
    values = np.array(sorted(lengths))
    counts = np.array([lengths[value] for value in values.tolist()])
    ends = counts.cumsum()

    def quantile(share: float) -> int:
        return int(values[np.searchsorted(ends, share * ends[-1])])

    return {
        "shortest": int(values[0]),
        "median": quantile(0.5),
        "mean": round(float((values * counts).sum() / ends[-1]), 2),
        "90th percentile": quantile(0.9),
        "longest": int(values[-1]),
    }


def _numbers(tokens: list[int]) -> list[str]:
    """List token numbers, counted from 1; only the first few of many."""
    named = [str(token + 1) for token in tokens[:N_PLACES]]
    return [*named, "..."] if len(tokens) > N_PLACES else named
