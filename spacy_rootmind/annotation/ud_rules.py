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
from spacy_rootmind.kernel.decode import are_projective
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
        Whether a word's part of speech rules relations out.

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
        self.fits_tag = self._tag_table(fixed_tags)
        # Parts of speech that only punctuation has.
        self.marks = np.logical_not(self.fits_tag[:, self.free].any(axis=1))
        # Fixed expressions under proper nouns, a rule on parts of speech as well.
        self.not_of_names = self["fixed"] & ~self.fits_tag[PROPN]
        self.fits_parent = self._parent_table()

    def __getitem__(self, relation: str) -> NDArray[np.bool_]:
        """Look up which labels are of a relation."""
        return self.of.get(relation, self.none)

    def among(self, relations: str) -> NDArray[np.bool_]:
        """Mark the labels of some relations; the root's is none of them."""
        chosen = np.isin(self.names, relations.split())
        chosen[ROOT_LABEL] = False
        return chosen

    def _tag_table(self, fixed_tags: bool) -> NDArray[np.bool_]:
        """Tell which labels go with each part of speech, (n_tags, n_labels + 2)."""
        fits = np.ones((len(TAGS), len(self.names)), dtype=np.bool_)
        if not fixed_tags:
            return fits
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


class Trees:
    """Labelled trees that are checked together.

    They follow each other in arrays with a place for each word, and before these one for ROOT.

    Parameters
    ----------
    tables : LabelTables
    words : Words
        Of all trees.
    heads, labels : sequence of int array of shape (n + 1,)
        The trees.

    Attributes
    ----------
    starts : int array of shape (k,)
        The place of each tree's ROOT.
    heads : int array of shape (n_places,)
        The place of each word's head; ROOT's own.
    labels : int array of shape (n_places,)
        MISSING for ROOT.
    """

    def __init__(
        self,
        tables: LabelTables,
        words: Words,
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> None:
        self.tables, self.words = tables, words
        self.sizes = np.array([len(each) for each in heads], dtype=np.intp)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.local = np.concatenate(heads)
        self.local[self.starts] = ROOT
        self.heads = self.local + np.repeat(self.starts, self.sizes)
        self.labels = np.concatenate(labels)
        self.index = np.arange(len(self.heads))

    @cached_property
    def parents(self) -> NDArray[np.int32]:
        """The label of each word's head."""
        return self.labels[self.heads]

    def have(self, labels: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Find the words that have some labels."""
        return labels[self.labels]

    def count_children(self, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Count the chosen children of each word."""
        return np.bincount(self.heads[chosen], minlength=len(self.heads))

    def slice(self, number: int) -> slice:
        """Locate a tree."""
        return slice(self.starts[number], self.starts[number] + self.sizes[number])

    def numbers(self, chosen: NDArray[np.bool_]) -> list[int]:
        """List the trees that have chosen words."""
        places = np.flatnonzero(chosen)
        found = np.searchsorted(self.starts, places, side="right") - 1
        return sorted(set(found.tolist()))

    def tree(self, number: int) -> "Tree":
        """Take out one tree."""
        own = self.slice(number)
        return Tree(self.tables, self.words.take(own), self.local[own], self.labels[own])

    def nonprojective(self) -> list[int]:
        """List the trees with crossing arcs."""
        inside = np.arange(self.sizes.max(initial=0)) < self.sizes[:, None]
        heads = np.full(inside.shape, MISSING, dtype=np.int32)
        heads[inside] = self.local
        heads[:, :1] = MISSING
        uncrossed = np.empty(len(heads), dtype=np.uint8)
        are_projective(heads, self.sizes - 1, uncrossed)
        found: list[int] = np.flatnonzero(uncrossed == 0).tolist()
        return found


class Tree:
    """One labelled tree, with arrays of shape (n + 1,); its conditions are made here."""

    def __init__(
        self,
        tables: LabelTables,
        words: Words,
        heads: NDArray[np.int32],
        labels: NDArray[np.int32],
    ) -> None:
        self.tables, self.words, self.heads, self.labels = tables, words, heads, labels

    @cached_property
    def descend(self) -> NDArray[np.bool_]:
        """Which words descend from which: [word, ancestor], each from itself too."""
        above, found = self.heads, np.eye(len(self.heads), dtype=np.bool_)
        while above.any():
            found |= found[above]
            above = above[above]
        return found | found[above]

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
# Of each rule, one function finds the words at which the validator reports it, and another one
# lists conflicts at such a word. Conditions say as much as the rule does: not that a word is `mark`
# under its head, but that it is `mark` under any head. What the masks of `UDRules` rule out anyway
# is said of single arcs.


def _wrong_tags(trees: Trees) -> NDArray[np.bool_]:
    wrong = ~trees.tables.fits_tag[trees.words.external, trees.labels]
    apart = wrong & trees.have(trees.tables["advmod"]) & (trees.words.external != PUNCT)
    if apart.any():
        # Any part of speech goes with an adverbial that is written apart.
        wrong &= ~apart | (trees.count_children(trees.have(trees.tables["goeswith"])) == 0)
    return wrong


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


def _fixed_under_names(trees: Trees) -> NDArray[np.bool_]:
    under_names = trees.have(trees.tables.not_of_names)
    if not under_names.any():
        return under_names
    return (trees.words.external == PROPN) & (trees.count_children(under_names) > 0)


def _fixed_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    for child in tree.children(word, tree.tables["fixed"]):
        yield [tree.arc(child)]


def _leftward(trees: Trees) -> NDArray[np.bool_]:
    return trees.have(trees.tables.rightward) & (trees.heads > trees.index)


def _leftward_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    yield [tree.arc(word)]


def _wrong_children(trees: Trees) -> NDArray[np.bool_]:
    tables, words = trees.tables, trees.words
    wrong = ~tables.fits_parent[trees.parents, trees.labels]
    places = np.flatnonzero(wrong)
    if len(places):
        parents, labels = trees.parents[places], trees.labels[places]
        negations = tables["advmod"][labels] & words.negative[places] & ~tables["punct"][parents]
        possessive = tables["det"][parents] & words.possessive[trees.heads[places]]
        wrong[places] = ~negations & ~(possessive & tables.of_possessives[labels])
        # Punctuation may depend on what it would otherwise cut off from its head.
        for place in places[wrong[places] & tables["punct"][labels]].tolist():
            number = int(np.searchsorted(trees.starts, place, side="right")) - 1
            parent = int(trees.local[place])
            wrong[place] = not len(_Crossings(trees.tree(number), parent).gap)
    return wrong


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


def _gaps_in_words(trees: Trees) -> NDArray[np.bool_]:
    parts = trees.have(trees.tables["goeswith"])
    if not parts.any():
        return parts
    # Before a part is its head, or another part of the same word.
    follows = trees.heads == trees.index - 1
    follows[1:] |= parts[:-1] & (trees.heads[1:] == trees.heads[:-1])
    return trees.count_children(parts & ~(follows & (trees.heads < trees.index))) > 0


def _gap_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    labels = tree.tables["goeswith"]
    parts = tree.children(word, labels)
    for part in parts:
        if part < word:
            yield [tree.arc(part)]
        elif part - 1 not in (word, *parts):
            before = tree.condition(part - 1, word, labels, False)
            yield [tree.condition(part, word, labels), before]


def _unspaced_parts(trees: Trees) -> NDArray[np.bool_]:
    parts = trees.have(trees.tables["goeswith"])
    if not parts.any():
        return parts
    last = trees.index.copy()
    np.maximum.at(last, trees.heads[parts], trees.index[parts])
    joined = ~trees.words.space_after & (trees.index < last[trees.heads])
    found = trees.count_children(parts & joined) > 0
    return found | ((last > trees.index) & ~trees.words.space_after)


def _unspaced_conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
    parts = tree.children(word, tree.tables["goeswith"])
    # Between the last part and its head a space is missing; or the parts come first.
    yield [tree.arc(parts[-1] if parts[-1] > word else parts[0])]


def _crossed_punctuation(trees: Trees) -> NDArray[np.bool_]:
    marks = trees.have(trees.tables["punct"])
    found = np.zeros_like(marks)
    for number in trees.nonprojective() if marks.any() else ():
        tree = trees.tree(number)
        for mark in _crossed(tree, tree.tables["punct"][tree.labels]):
            crossings = _Crossings(tree, mark)
            found[trees.starts[number] + mark] = bool(len(crossings.arcs) or len(crossings.gap))
    return found


def _crossed(tree: Tree, chosen: NDArray[np.bool_]) -> list[int]:
    """List the chosen words whose arcs cross others, those of ROOT among them."""
    words = np.flatnonzero(chosen)
    ends = np.stack([words, tree.heads[words]])
    low, high = ends.min(axis=0)[:, None], ends.max(axis=0)[:, None]
    deps, heads = np.arange(1, len(tree.heads)), tree.heads[1:]
    inside = (low < deps) & (deps < high)
    crosses = (inside & ((heads < low) | (heads > high))) | (
        ((deps < low) | (deps > high)) & (low < heads) & (heads < high)
    )
    found: list[int] = words[crosses.any(axis=1)].tolist()
    return found


class _Crossings:
    """What is wrong with the attachment of punctuation.

    Attributes
    ----------
    arcs : int array
        Words whose arcs have one end between the mark and its head, and one on the mark's other
        side, where ROOT counts too. All of these are wrong: either the head does not descend from
        the mark's head, or the mark makes them nonprojective.
    gap : int array
        Words between the mark and its head that do not descend from that.
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
        self.gap = np.flatnonzero(self.between & ~tree.descend[:, self.head])

    def names(self) -> Iterator[str]:
        """Name the rules that are broken."""
        above = self.tree.descend[self.mark].copy()
        above[ROOT] = True
        if not above[self.tree.heads[self.arcs]].all():
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
        within = tree.descend[lost].copy()
        within[ROOT] = True
        passes = (places > max(word, lost)) if lost > word else (places < lost)
        path = np.flatnonzero(within)[1:]
        yield [
            tree.condition(word, passes & ~within, punctuation),
            *(tree.condition(one, within, None) for one in path.tolist()),
        ]


def _obl_of_nominals(trees: Trees) -> NDArray[np.bool_]:
    tables = trees.tables
    found = trees.have(tables["obl"]) & tables.nominal[trees.parents]
    if found.any():
        found &= np.isin(trees.words.tags[trees.heads], NOMINAL_TAGS)
        found &= trees.count_children(trees.have(tables.clausal))[trees.heads] == 0
    return found


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
    """A rule: its names at a word, where it is broken, and the conflicts there."""

    names: Callable[[Tree, int], Iterable[str]]
    find: Callable[[Trees], NDArray[np.bool_]]
    conflicts: Callable[[Tree, int], Iterator[Conflict]]


def _named(name: str) -> Callable[[Tree, int], list[str]]:
    return lambda tree, word: [name]


def _one_child(name: str, among: Callable[[LabelTables], NDArray[np.bool_]]) -> Rule:
    """Make the rule that a word has one child at most with some labels."""

    def find(trees: Trees) -> NDArray[np.bool_]:
        return trees.count_children(trees.have(among(trees.tables))) > 1

    def conflicts(tree: Tree, word: int) -> Iterator[Conflict]:
        labels = among(tree.tables)
        for pair in itertools.pairwise(tree.children(word, labels)):
            yield [tree.condition(child, word, labels) for child in pair]

    return Rule(_named(name), find, conflicts)


ONE_SUBJECT = _one_child("too-many-subjects", lambda tables: tables.subject)
ONE_OBJECT = _one_child("too-many-objects", lambda tables: tables["obj"])
# In the order in which the search takes them up: those that leave many ways out come last.
RULES = (
    Rule(_names_of_tag_rules, _wrong_tags, _tag_conflicts),
    Rule(_named("rel-upos-fixed"), _fixed_under_names, _fixed_conflicts),
    Rule(
        lambda tree, word: [f"right-to-left-{tree.relation(word)}"], _leftward, _leftward_conflicts
    ),
    Rule(_names_of_leaf_rules, _wrong_children, _child_conflicts),
    ONE_SUBJECT,
    ONE_OBJECT,
    Rule(_named("goeswith-gap"), _gaps_in_words, _gap_conflicts),
    Rule(_named("goeswith-nospace"), _unspaced_parts, _unspaced_conflicts),
    Rule(
        lambda tree, word: _Crossings(tree, word).names(),
        _crossed_punctuation,
        _punctuation_conflicts,
    ),
    Rule(_named("obl-should-be-nmod"), _obl_of_nominals, _obl_conflicts),
)
