"""The rules of Universal Dependencies on trees: a table, RULES, and what its rows refer to.

They are the errors of syntax that the official validator finds at level 3 (`udvalidate --level 3`,
udtools 0.2.9). A relation stands for its subtypes.
`spacy_rootmind.kernel.ud_rules` finds the words at which rules are broken, for many trees together;
this module makes the conflicts, for one word at a time.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.noun_chunks import RELATIONS
from spacy_rootmind.guidelines.words import (
    EXTERNAL,
    NEGATIVE,
    NUMBER_OF_TAG,
    POSSESSIVE,
    PROPN,
    PUNCT,
    TAGS,
    Words,
)
from spacy_rootmind.kernel import ud_rules as kernel
from spacy_rootmind.trees.constrained import Condition, Conflict
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL

# Sets of relations, by name; any other relation is a set of its own.
SETS = {
    # right-to-left-*: relations whose dependents follow their heads.
    "rightward": "conj fixed flat goeswith appos",
    # Further children of determiners with Poss=Yes.
    "of_possessives": "appos acl nmod",
    # obl-should-be-nmod: what nominals that are no predicates are, and what shows that one is.
    "nominal": "nsubj obj iobj obl vocative dislocated expl nmod",
    "clausal": "cop nsubj csubj",
    # Relations that no rule keeps from a word that is no punctuation, before and after its head.
    "free": "acl advcl amod ccomp compound dep discourse iobj list nmod orphan parataxis vocative "
    "xcomp",
}
# rel-upos-*: parts of speech that words with a relation have, and those that they do not have.
# ExtPos counts instead, where a word has it.
ONLY = {
    "det": "DET PRON",
    "nummod": "NUM NOUN SYM",
    "advmod": "ADV ADJ CCONJ DET PART SYM",
    "expl": "PRON DET PART",
    "aux": "AUX",
    "cop": "AUX PRON DET SYM",
    "punct": "PUNCT",
}
NEVER = {
    "case": "PROPN ADJ PRON DET NUM AUX",
    "mark": "NOUN PROPN ADJ PRON DET NUM AUX INTJ",
    "cc": "NOUN PROPN ADJ PRON DET NUM VERB AUX INTJ",
    "fixed": "PROPN",
}
# leaf-*: relations of the children that function words have, by the name of the rule. With
# Polarity=Neg, advmod is one of them for all but punctuation.
CHILDREN = {
    "leaf-mark-case": ("mark case", "advmod obl goeswith fixed reparandum conj cc punct"),
    "leaf-aux-cop": ("aux cop", "goeswith fixed reparandum conj cc punct"),
    "leaf-det": (
        "det",
        "det case advmod obl clf goeswith fixed flat compound reparandum discourse parataxis conj "
        "cc punct",
    ),
    "leaf-clf": ("clf", "advmod obl goeswith fixed reparandum conj cc punct"),
    "leaf-cc": ("cc", "goeswith fixed reparandum conj punct"),
    "leaf-fixed": ("fixed", "goeswith reparandum conj punct"),
    "leaf-goeswith": ("goeswith", ""),
    "leaf-punct": ("punct", "punct"),
}


class LabelTables:
    """The labels in each rule: arrays by label number, with a last entry for MISSING.

    `tables[name]` marks the labels of a relation, or of one of SETS; the root's is in none.

    The labels are given by name, the root's first. Raises ValueError if one is not of Universal
    Dependencies.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        names = [label.partition(":")[0] for label in labels]
        known = RELATIONS - {"root", "ROOT"}
        unknown = [label for label in labels[1:] if label.partition(":")[0] not in known]
        if unknown:
            raise ValueError(
                f"expected labels of Universal Dependencies for its guidelines, received "
                f"{', '.join(unknown):.100}: set guidelines to null for other schemes"
            )
        self.names = [*names, ""]
        self.sets = {name: self.among(SETS.get(name, name)) for name in {*names, *SETS}}
        self.sets["subject"] = np.array(
            [
                "subj" in name and label not in ("nsubj:outer", "csubj:outer")
                for label, name in zip([*labels, ""], self.names, strict=True)
            ]
        )
        self.none = np.zeros(len(self.names), dtype=np.bool_)
        # The labels that go with each part of speech, (n_tags, n_labels + 2).
        self.fits_tag = self._tag_table()
        # Labels that children may have, by the label of their head, (n_labels + 2, n_labels + 2).
        self.fits_parent = np.ones((len(self.names), len(self.names)), dtype=np.bool_)
        for parents, children in CHILDREN.values():
            self.fits_parent[np.ix_(self.among(parents), ~self.among(children))] = False
        self.fits_parent[:, MISSING] = True
        # The labels that words have, by twice whether they follow their heads, and whether all
        # words in between are apart, (4, n_labels + 1).
        self.fits_order = np.ones((4, len(self.names) - 1), dtype=np.bool_)
        self.fits_order[:2, self["rightward"][:-1]] = False
        self.fits_order[::2, self["goeswith"][:-1]] = False
        # Parts of speech that only punctuation has, (n_tags,).
        self.marks = np.logical_not(self.fits_tag[:, self["free"]].any(axis=1))
        nominal_tags = [NUMBER_OF_TAG[tag] for tag in ("NOUN", "PROPN", "PRON")]
        tag_sets = {"PUNCT": [PUNCT], "PROPN": [PROPN], "nominal": nominal_tags}
        tables = (
            self.fits_tag,
            self.fits_parent,
            [self[name] for name in kernel.LABEL_SETS],
            [np.isin(np.arange(len(TAGS)), tag_sets[name]) for name in kernel.TAG_SETS],
        )
        self.kernel = kernel.RuleTables(*(np.array(table).view(np.uint8) for table in tables))

    def __getitem__(self, name: str) -> NDArray[np.bool_]:
        return self.sets.get(name, self.none)

    def among(self, relations: str) -> NDArray[np.bool_]:
        """Mark the labels of some relations; the root's is none of them."""
        chosen = np.isin(self.names, relations.split())
        chosen[ROOT_LABEL] = False
        return chosen

    def _tag_table(self) -> NDArray[np.bool_]:
        fits = np.ones((len(TAGS), len(self.names)), dtype=np.bool_)
        for rules, wanted in ((ONLY, True), (NEVER, False)):
            for relation, chosen in rules.items():
                fit = np.isin(TAGS, chosen.split()) == wanted
                fits[np.ix_(~fit, self[relation])] = False
        others = ~self["punct"]
        others[[ROOT_LABEL, MISSING]] = False
        fits[PUNCT, others] = False
        fits[0] = True
        return fits


class Tree(NamedTuple):
    """A labelled tree that breaks rules, with arrays of shape (n + 1,)."""

    tables: LabelTables
    words: Words
    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    # The rules that are broken at each word, a bit for each.
    broken: NDArray[np.uint16]

    def conflicts(self) -> Iterator[Conflict]:
        """List the conflicts, in the order of the rules."""
        for rule in RULES:
            for word in np.flatnonzero(self.broken & rule.condition).tolist():
                yield from rule.conflicts(self, word, self.tables[rule.labels])

    def below(self, word: int) -> NDArray[np.bool_]:
        """Mark the words that descend from a word, and itself."""
        above, found = self.heads, np.arange(len(self.heads)) == word
        # Doubles the steps up; what is on a cycle ends as well.
        for _ in range(len(above).bit_length()):
            found |= found[above]
            above = above[above]
        return found

    def path(self, word: int) -> NDArray[np.bool_]:
        """Mark a word and all that it descends from, ROOT among them."""
        found = np.arange(len(self.heads)) == ROOT
        while not found[word]:
            found[word] = True
            word = int(self.heads[word])
        return found

    def children(self, word: int, labels: NDArray[np.bool_]) -> list[int]:
        """List the children of a word that have some labels."""
        return np.flatnonzero(labels[self.labels] & (self.heads == word)).tolist()

    def arc(self, word: int) -> Condition:
        """Make the condition that a word has the head and label that it has."""
        label = np.arange(len(self.tables.names)) == self.labels[word]
        return self.condition(word, int(self.heads[word]), label)

    def condition(
        self,
        word: int,
        heads: int | NDArray[np.bool_] | None,
        labels: NDArray[np.bool_] | None,
        holds: bool = True,
    ) -> Condition:
        """Make a condition; None stands for all heads or all labels, a number for one head."""
        index = np.arange(len(self.heads))
        if heads is None or isinstance(heads, int):
            heads = np.ones(len(index), dtype=np.bool_) if heads is None else index == heads
        if labels is None:
            labels = np.ones(len(self.tables.names), dtype=np.bool_)
        return Condition(word, heads, labels[:-1], holds)


# --- conflicts of each rule at a word ------------------------------------------------------------
# Conditions are as general as the rule: not that a word is `mark` under its head, but that it is
# `mark` under any head. Conditions on arcs that `UDRules.mask` forbids name single arcs.


def _tag_conflicts(tree: Tree, word: int, advmod: NDArray[np.bool_]) -> Iterator[Conflict]:
    if not advmod[tree.labels[word]] or tree.words[EXTERNAL, word] == PUNCT:
        yield [tree.arc(word)]
        return
    conflict = [tree.condition(word, None, advmod)]
    if word + 1 < len(tree.heads):
        conflict.append(tree.condition(word + 1, word, tree.tables["goeswith"], False))
    yield conflict


def _own_arc(tree: Tree, word: int, labels: NDArray[np.bool_]) -> Iterator[Conflict]:
    yield [tree.arc(word)]


def _arcs_of_children(tree: Tree, word: int, labels: NDArray[np.bool_]) -> Iterator[Conflict]:
    for child in tree.children(word, labels):
        yield [tree.arc(child)]


def _child_conflicts(tree: Tree, word: int, labels: NDArray[np.bool_]) -> Iterator[Conflict]:
    tables, head = tree.tables, int(tree.heads[word])
    wrong = ~tables.fits_parent
    if tree.words[NEGATIVE, word]:
        wrong = wrong & ~(tables["advmod"] & ~tables["punct"][:, None])
    if tree.words[POSSESSIVE, head]:
        wrong = wrong & ~(tables["det"][:, None] & tables["of_possessives"])
    own = wrong[tree.labels[head]]
    # All labels that rule out what the head's label does.
    parents = ~(own & ~wrong).any(axis=1)
    yield [tree.condition(head, None, parents), tree.condition(word, head, own)]


def _pairs_of_children(tree: Tree, word: int, labels: NDArray[np.bool_]) -> Iterator[Conflict]:
    for pair in itertools.pairwise(tree.children(word, labels)):
        yield [tree.condition(child, word, labels) for child in pair]


def _gap_conflicts(tree: Tree, word: int, labels: NDArray[np.bool_]) -> Iterator[Conflict]:
    parts = tree.children(word, labels)
    for part in parts:
        if part < word:
            yield [tree.arc(part)]
        elif part - 1 not in (word, *parts):
            before = tree.condition(part - 1, word, labels, False)
            yield [tree.condition(part, word, labels), before]


def _unspaced_conflicts(tree: Tree, word: int, labels: NDArray[np.bool_]) -> Iterator[Conflict]:
    parts = tree.children(word, labels)
    # Between the last part and its head a space is missing; or the parts come first.
    yield [tree.arc(parts[-1] if parts[-1] > word else parts[0])]


def _crossings(tree: Tree, mark: int) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Find the words between punctuation and its head, and those whose arcs cross its own.

    The crossing arcs have one end between the mark and its head, and one on the mark's other side,
    where ROOT counts too. All of these are wrong: either the head does not descend from the mark's
    head, or the mark makes them nonprojective.
    """
    heads, own, places = tree.heads, int(tree.heads[mark]), np.arange(len(tree.heads))
    between = (places > min(mark, own)) & (places < max(mark, own))
    beyond = (places < mark) if mark < own else (places > mark)
    crossing = (between & (beyond | (places == ROOT))[heads]) | (beyond & between[heads])
    crossing[ROOT] = False
    return between, np.flatnonzero(crossing)


def _punctuation_conflicts(tree: Tree, word: int, punct: NDArray[np.bool_]) -> Iterator[Conflict]:
    between, crossing = _crossings(tree, word)
    own, places = int(tree.heads[word]), np.arange(len(tree.heads))
    # Places in the order in which they lie on the side of the mark's head, from the mark on.
    order = (1 if own > word else -1) * (places - word)
    for dep in crossing.tolist():
        if between[dep]:
            mark_heads, heads = order > order[dep], (order < 0) | (places == ROOT)
        else:
            head = tree.heads[dep]
            mark_heads = (order > order[head]) | (order < order[dep])
            heads = (order > 0) & (order <= order[head]) & (places != ROOT)
        yield [
            tree.condition(word, mark_heads & (places != ROOT), punct),
            tree.condition(dep, heads, None),
        ]
    # Words in between that do not descend from the mark's head.
    for lost in np.flatnonzero(between & ~tree.below(own)).tolist():
        if tree.heads[own] == lost:
            yield [tree.condition(word, own, punct), tree.condition(own, between, None)]
            continue
        # The path does not lead to the mark's head, whatever its inner arcs are.
        within = tree.path(lost)
        passes = (places > max(word, lost)) if lost > word else (places < lost)
        path = np.flatnonzero(within)[1:]
        yield [
            tree.condition(word, passes & ~within, punct),
            *(tree.condition(one, within, None) for one in path.tolist()),
        ]


def _obl_conflicts(tree: Tree, word: int, obl: NDArray[np.bool_]) -> Iterator[Conflict]:
    tables, head = tree.tables, int(tree.heads[word])
    yield [
        tree.condition(word, head, obl),
        tree.condition(head, None, tables["nominal"]),
        *(
            tree.condition(other, head, tables["clausal"], False)
            for other in range(1, len(tree.heads))
            if other not in (word, head)
        ),
    ]


# The rules on a label and a part of speech.
TAG_RULES = kernel.TAG | kernel.FIXED_UNDER_NAME


class Rule(NamedTuple):
    """A rule: the bit of the words at which the kernel finds it broken, and its conflicts.

    These are about the labels of a relation, or of one of SETS; see
    `spacy_rootmind.trees.constrained`.
    """

    condition: int
    labels: str
    conflicts: Callable[[Tree, int, NDArray[np.bool_]], Iterator[Conflict]]


# In the order in which the search takes them up: those that leave many ways out come last.
RULES = (
    Rule(kernel.TAG, "advmod", _tag_conflicts),
    Rule(kernel.FIXED_UNDER_NAME, "fixed", _arcs_of_children),
    Rule(kernel.LEFTWARD, "rightward", _own_arc),
    Rule(kernel.CHILD, "", _child_conflicts),
    Rule(kernel.SUBJECTS, "subject", _pairs_of_children),
    Rule(kernel.OBJECTS, "obj", _pairs_of_children),
    Rule(kernel.GAP_IN_WORD, "goeswith", _gap_conflicts),
    Rule(kernel.UNSPACED_PART, "goeswith", _unspaced_conflicts),
    Rule(kernel.CROSSED_PUNCTUATION, "punct", _punctuation_conflicts),
    Rule(kernel.OBL_OF_NOMINAL, "obl", _obl_conflicts),
)
