"""The rules of Universal Dependencies on trees: where trees break them, and by which conditions.

They are the errors of syntax that the official validator finds at level 3 (`udvalidate --level 3`,
udtools 0.2.9), by its names for them. A relation stands for its subtypes. Many trees are checked
together; conflicts are made for one word at a time.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.ud_noun_chunks import RELATIONS
from spacy_rootmind.kernel import ud_rules as kernel
from spacy_rootmind.trees.constrained import Condition, Conflict
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL

# A number for each part of speech; 0 for words without one, of which rules ask none.
TAGS = (
    *("", "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON"),
    *("PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
NUMBER_OF_TAG = {tag: number for number, tag in enumerate(TAGS)}
PROPN, PUNCT = NUMBER_OF_TAG["PROPN"], NUMBER_OF_TAG["PUNCT"]

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
# right-to-left-*: relations whose dependents follow their heads.
RIGHTWARD = "conj fixed flat goeswith appos"
# leaf-*: relations of the children that function words have, by the name of the rule. With
# Polarity=Neg, advmod is one of them for all but punctuation; with Poss=Yes, determiners have more.
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
OF_POSSESSIVES = "appos acl nmod"
# obl-should-be-nmod: what nominals that are no predicates are, and what shows that one is.
NOMINALS = "nsubj obj iobj obl vocative dislocated expl nmod"
CLAUSAL = "cop nsubj csubj"
NOMINAL_TAGS = [NUMBER_OF_TAG[tag] for tag in ("NOUN", "PROPN", "PRON")]
# Relations that no rule keeps from a word that is no punctuation, before and after its head.
FREE = "acl advcl amod ccomp compound dep discourse iobj list nmod orphan parataxis vocative xcomp"


class Words(NamedTuple):
    """What rules read of the words of sentences: arrays with a place for ROOT and each word of all.

    Attributes
    ----------
    tags : int array of shape (n_places,)
        Numbers of parts of speech: places in TAGS.
    external : int array of shape (n_places,)
        The same, or that of ExtPos where a word has it.
    negative, possessive : bool array of shape (n_places,)
        Whether a word is a particle or adverb with Polarity=Neg; whether it has Poss=Yes.
    space_after : bool array of shape (n_places,)
        Whether whitespace follows.
    """

    tags: NDArray[np.int8]
    external: NDArray[np.int8]
    negative: NDArray[np.bool_]
    possessive: NDArray[np.bool_]
    space_after: NDArray[np.bool_]

    def take(self, places: NDArray[np.intp] | slice) -> "Words":
        """Take some places."""
        columns: Any = (column[places] for column in self)
        return Words(*columns)


class LabelTables:
    """Which labels rules speak of: arrays by label number, with a last entry for MISSING.

    Parameters
    ----------
    labels : sequence of str
        Names of all labels by number, the root's first.
    fixed_tags : bool
        Whether parts of speech of all words rule relations out, so that punctuation needs one.

    Raises
    ------
    ValueError
        If a label is not of Universal Dependencies, or if the labels are too few for every sentence
        to have a valid tree.
    """

    def __init__(self, labels: Sequence[str], fixed_tags: bool = True) -> None:
        names = [label.partition(":")[0] for label in labels]
        unknown = [
            label
            for label, name in zip(labels[1:], names[1:], strict=True)
            if name not in RELATIONS or name.lower() == "root"
        ]
        if unknown:
            raise ValueError(
                f"expected labels of Universal Dependencies for its guidelines, received "
                f"{', '.join(unknown):.100}: set guidelines to null for other schemes"
            )
        # With free tags, punctuation may have any label, and some treebanks have no punctuation.
        if (fixed_tags and "punct" not in names) or not set(FREE.split()) & set(names):
            needed = "'punct' and " if fixed_tags else ""
            raise ValueError(
                f"expected {needed}one of {', '.join(FREE.split())} among the "
                f"labels, so that every sentence has a valid tree, received "
                f"{', '.join(names[1:]):.200}"
            )
        self.names = [*names, ""]
        self.of = {relation: self.among(relation) for relation in sorted({*names[1:]})}
        self.none = np.zeros(len(self.names), dtype=np.bool_)
        subjects = [
            "subj" in name and label not in ("nsubj:outer", "csubj:outer")
            for label, name in zip(labels, names, strict=True)
        ]
        self.subject = np.array([*subjects, False])
        self.subject[ROOT_LABEL] = False
        self.rightward = self.among(RIGHTWARD)
        self.nominal, self.clausal = self.among(NOMINALS), self.among(CLAUSAL)
        self.of_possessives = self.among(OF_POSSESSIVES)
        self.free = self.among(FREE)
        self.fits_tag = self._tag_table()
        # By twice whether the word follows its head, and whether all words in between are apart.
        self.fits_order = np.ones((4, len(self.names) - 1), dtype=np.bool_)
        self.fits_order[:2, self.rightward[:-1]] = False
        self.fits_order[::2, self["goeswith"][:-1]] = False
        # Parts of speech that only punctuation has.
        self.marks = np.logical_not(self.fits_tag[:, self.free].any(axis=1))
        # Fixed expressions under proper nouns, a rule on parts of speech as well.
        self.not_of_names = self["fixed"] & ~self.fits_tag[PROPN]
        self.fits_parent = self._parent_table()
        self.kernel = self._kernel_tables()

    def __getitem__(self, relation: str) -> NDArray[np.bool_]:
        """Look up which labels are of a relation."""
        return self.of.get(relation, self.none)

    def among(self, relations: str) -> NDArray[np.bool_]:
        """Mark the labels of some relations; the root's is none of them."""
        chosen = np.isin(self.names, relations.split())
        chosen[ROOT_LABEL] = False
        return chosen

    def _tag_table(self) -> NDArray[np.bool_]:
        """Tell which labels go with each part of speech, (n_tags, n_labels + 2)."""
        fits = np.ones((len(TAGS), len(self.names)), dtype=np.bool_)
        tags = np.array(TAGS)
        for rules, wanted in ((ONLY, True), (NEVER, False)):
            for relation, chosen in rules.items():
                fit = np.isin(tags, chosen.split()) == wanted
                fits[np.ix_(~fit, self[relation])] = False
        others = ~self["punct"]
        others[[ROOT_LABEL, MISSING]] = False
        fits[PUNCT, others] = False
        fits[0] = True
        return fits

    def _parent_table(self) -> NDArray[np.bool_]:
        """Tell which labels children have, by the label of their head."""
        fits = np.ones((len(self.names), len(self.names)), dtype=np.bool_)
        for parents, children in CHILDREN.values():
            fits[np.ix_(self.among(parents), ~self.among(children))] = False
        fits[:, MISSING] = True
        return fits

    def _kernel_tables(self) -> kernel.RuleTables:
        sets = {
            **{name: self[name] for name in kernel.LABEL_SETS},
            **{"clausal": self.clausal, "nominal": self.nominal, "subject": self.subject},
            **{"not_of_names": self.not_of_names, "of_possessives": self.of_possessives},
            "rightward": self.rightward,
        }
        tags = {"PUNCT": [PUNCT], "PROPN": [PROPN], "nominal": NOMINAL_TAGS}
        tag_sets = [np.isin(np.arange(len(TAGS)), tags[name]) for name in kernel.TAG_SETS]
        tables = (self.fits_tag, self.fits_parent, [sets[name] for name in kernel.LABEL_SETS])
        return kernel.RuleTables(*(np.array(table).view(np.uint8) for table in (*tables, tag_sets)))


class Trees:
    """Labelled trees that are checked together.

    They follow each other in arrays with a place for each word, and before these one for ROOT.

    Parameters
    ----------
    tables : LabelTables
    words : Words
    places : sequence of int
        Where the words of each tree begin in these, with ROOT.
    heads, labels : sequence of int array of shape (n + 1,)
        The trees.

    Attributes
    ----------
    broken : uint16 array of shape (n_places,)
        The rules that are broken at each word, a bit for each.
    """

    def __init__(
        self,
        tables: LabelTables,
        words: Words,
        places: Sequence[int],
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> None:
        self.tables, self.words, self.places = tables, words, places
        sizes = np.array([len(each) for each in heads], dtype=np.intp)
        self.stops = np.cumsum(sizes)
        self.heads = np.concatenate([*heads, np.zeros(0, np.int32)], dtype=np.int32)
        self.labels = np.concatenate([*labels, np.zeros(0, np.int32)], dtype=np.int32)
        spaces = words.space_after.view(np.uint8)
        features = words.negative.view(np.uint8), words.possessive.view(np.uint8), spaces
        starts = np.array(places, dtype=np.intp)
        self.broken = tables.kernel.find_broken(
            words.tags, words.external, *features, starts, sizes, self.heads, self.labels
        )

    def invalid(self) -> list[int]:
        """List the trees that break rules."""
        wrong = np.flatnonzero(self.broken)
        return sorted(set(np.searchsorted(self.stops, wrong, side="right").tolist()))

    def tree(self, number: int) -> "Tree":
        """Take out one tree."""
        stop = int(self.stops[number])
        start = int(self.stops[number - 1]) if number else 0
        place = self.places[number]
        words = self.words.take(slice(place, place + stop - start))
        own = slice(start, stop)
        return Tree(self.tables, words, self.heads[own], self.labels[own], self.broken[own])


class Tree:
    """One labelled tree that is checked, with arrays of shape (n + 1,); makes its conditions."""

    def __init__(
        self,
        tables: LabelTables,
        words: Words,
        heads: NDArray[np.int32],
        labels: NDArray[np.int32],
        broken: NDArray[np.uint16],
    ) -> None:
        self.tables, self.words, self.heads, self.labels = tables, words, heads, labels
        self.broken = broken

    def broken_rules(self) -> Iterator[tuple["Rule", int]]:
        """List the rules that are broken, in their order, each with the words where."""
        words: list[int] = np.flatnonzero(self.broken).tolist()
        bits: list[int] = self.broken[words].tolist()
        for rule in RULES:
            for word, own in zip(words, bits, strict=True):
                if own & rule.bit:
                    yield rule, word

    def below(self, word: int) -> NDArray[np.bool_]:
        """Mark the words that descend from a word, and itself."""
        above, found = self.heads, np.arange(len(self.heads)) == word
        while above.any():
            found |= found[above]
            above = above[above]
        return found | found[above]

    def path(self, word: int) -> NDArray[np.bool_]:
        """Mark a word and all that it descends from, ROOT among them."""
        found = np.arange(len(self.heads)) == ROOT
        while not found[word]:
            found[word] = True
            word = int(self.heads[word])
        return found

    def relation(self, word: int) -> str:
        """Name the relation of a word to its head."""
        return self.tables.names[self.labels[word]]

    def children(self, word: int, labels: NDArray[np.bool_]) -> list[int]:
        """List the children of a word that have some labels."""
        found: list[int] = np.flatnonzero(labels[self.labels] & (self.heads == word)).tolist()
        return found

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


# --- rules -------------------------------------------------------------------------------------
# Where they are broken, the kernel finds; of each rule, a function lists conflicts at such a word.
# Conditions say as much as the rule does: not that a word is `mark`
# under its head, but that it is `mark` under any head. What the masks of `UDRules` rule out anyway
# is said of single arcs.


def _tag_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    if tree.relation(word) != "advmod" or tree.words.external[word] == PUNCT:
        yield [tree.arc(word)]
        return
    conflict = [tree.condition(word, None, tree.tables["advmod"])]
    if word + 1 < len(tree.heads):
        conflict.append(tree.condition(word + 1, word, tree.tables["goeswith"], False))
    yield conflict


def is_tag_rule(name: str) -> bool:
    """Tell whether a rule is about a label and a part of speech."""
    return name.startswith(("rel-upos-", "upos-rel-"))


def _names_of_tag_rules(tree: Tree, word: int) -> Iterator[str]:
    relation = tree.relation(word)
    is_apart = relation == "advmod" and tree.children(word, tree.tables["goeswith"])
    if tree.words.external[word] == PUNCT:
        yield "upos-rel-punct"
    if not is_apart and (relation in ONLY or tree.words.external[word] != PUNCT):
        yield f"rel-upos-{relation}"


def _fixed_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    for child in tree.children(word, tree.tables["fixed"]):
        yield [tree.arc(child)]


def _leftward_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    yield [tree.arc(word)]


def _child_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    tables, head = tree.tables, int(tree.heads[word])
    wrong = ~tables.fits_parent
    if tree.words.negative[word]:
        wrong = wrong & ~(tables["advmod"] & ~tables["punct"][:, None])
    if tree.words.possessive[head]:
        wrong = wrong & ~(tables["det"][:, None] & tables.of_possessives)
    own = wrong[tree.labels[head]]
    # All labels that rule out what the head's label does.
    parents = ~(own & ~wrong).any(axis=1)
    yield [tree.condition(head, None, parents), tree.condition(word, head, own)]


def _names_of_leaf_rules(tree: Tree, word: int) -> list[str]:
    parent = tree.relation(int(tree.heads[word]))
    return [name for name, (parents, _) in CHILDREN.items() if parent in parents.split()]


def _gap_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    labels = tree.tables["goeswith"]
    parts = tree.children(word, labels)
    for part in parts:
        if part < word:
            yield [tree.arc(part)]
        elif part - 1 not in (word, *parts):
            before = tree.condition(part - 1, word, labels, False)
            yield [tree.condition(part, word, labels), before]


def _unspaced_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    parts = tree.children(word, tree.tables["goeswith"])
    # Between the last part and its head a space is missing; or the parts come first.
    yield [tree.arc(parts[-1] if parts[-1] > word else parts[0])]


class _Crossings:
    """What is wrong with the attachment of punctuation.

    Attributes
    ----------
    arcs : int array
        Words whose arcs have one end between the mark and its head, and one on the mark's other
        side, where ROOT counts too. All of these are wrong: either the head does not descend from
        the mark's head, or the mark makes them nonprojective.
    """

    def __init__(self, tree: Tree, mark: int) -> None:
        heads, self.mark, self.head = tree.heads, mark, int(tree.heads[mark])
        self.tree, places = tree, np.arange(len(heads))
        self.between = (places > min(mark, self.head)) & (places < max(mark, self.head))
        beyond = (places < mark) if mark < self.head else (places > mark)
        crossing = (self.between & (beyond | (places == ROOT))[heads]) | (
            beyond & self.between[heads]
        )
        crossing[ROOT] = False
        self.arcs = np.flatnonzero(crossing)

    @cached_property
    def gap(self) -> NDArray[np.intp]:
        """The words between the mark and its head that do not descend from that."""
        return np.flatnonzero(self.between & ~self.tree.below(self.head))

    def names(self) -> Iterator[str]:
        """Name the rules that are broken."""
        if not self.tree.path(self.mark)[self.tree.heads[self.arcs]].all():
            yield "punct-causes-nonproj"
        if len(self.gap):
            yield "punct-is-nonproj"


def _punctuation_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    found, punctuation = _Crossings(tree, word), tree.tables["punct"]
    places, side = np.arange(len(tree.heads)), 1 if found.head > word else -1

    # Places in the order in which they lie on the side of the mark's head, from the mark on.
    order = side * (places - word)
    for dep in found.arcs.tolist():
        if found.between[dep]:
            mark_heads, heads = order > order[dep], (order < 0) | (places == ROOT)
        else:
            head = tree.heads[dep]
            mark_heads = (order > order[head]) | (order < order[dep])
            heads = (order > 0) & (order <= order[head]) & (places != ROOT)
        yield [
            tree.condition(word, mark_heads & (places != ROOT), punctuation),
            tree.condition(dep, heads, None),
        ]
    for lost in found.gap.tolist():
        if tree.heads[found.head] == lost:
            yield [
                tree.condition(word, found.head, punctuation),
                tree.condition(found.head, found.between, None),
            ]
            continue
        # Whatever its arcs are inside this path, it does not lead to the mark's head.
        within = tree.path(lost)
        passes = (places > max(word, lost)) if lost > word else (places < lost)
        path = np.flatnonzero(within)[1:]
        yield [
            tree.condition(word, passes & ~within, punctuation),
            *(tree.condition(one, within, None) for one in path.tolist()),
        ]


def _obl_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    tables, head = tree.tables, int(tree.heads[word])
    yield [
        tree.condition(word, head, tables["obl"]),
        tree.condition(head, None, tables.nominal),
        *(
            tree.condition(other, head, tables.clausal, False)
            for other in range(1, len(tree.heads))
            if other not in (word, head)
        ),
    ]


class Rule(NamedTuple):
    """A rule: its bit where it is broken, its names at a word, and the conflicts there."""

    bit: int
    names: Callable[[Tree, int], Iterable[str]]
    conflicts: Callable[[Tree, int], Iterator[Conflict]]


def _named(name: str) -> Callable[[Tree, int], list[str]]:
    return lambda tree, word: [name]


def _one_child(bit: int, name: str, among: Callable[[LabelTables], NDArray[np.bool_]]) -> Rule:
    """Make the rule that a word has one child at most with some labels."""

    def conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
        labels = among(tree.tables)
        for pair in itertools.pairwise(tree.children(word, labels)):
            yield [tree.condition(child, word, labels) for child in pair]

    return Rule(bit, _named(name), conflicts)


ONE_SUBJECT = _one_child(kernel.SUBJECTS, "too-many-subjects", lambda tables: tables.subject)
ONE_OBJECT = _one_child(kernel.OBJECTS, "too-many-objects", lambda tables: tables["obj"])
# In the order in which the search takes them up: those that leave many ways out come last.
RULES = (
    Rule(kernel.TAG, _names_of_tag_rules, _tag_conflicts),
    Rule(kernel.FIXED_UNDER_NAME, _named("rel-upos-fixed"), _fixed_conflicts),
    Rule(
        kernel.LEFTWARD,
        lambda tree, word: [f"right-to-left-{tree.relation(word)}"],
        _leftward_conflicts,
    ),
    Rule(kernel.CHILD, _names_of_leaf_rules, _child_conflicts),
    ONE_SUBJECT,
    ONE_OBJECT,
    Rule(kernel.GAP_IN_WORD, _named("goeswith-gap"), _gap_conflicts),
    Rule(kernel.UNSPACED_PART, _named("goeswith-nospace"), _unspaced_conflicts),
    Rule(
        kernel.CROSSED_PUNCTUATION,
        lambda tree, word: _Crossings(tree, word).names(),
        _punctuation_conflicts,
    ),
    Rule(kernel.OBL_OF_NOMINAL, _named("obl-should-be-nmod"), _obl_conflicts),
)
