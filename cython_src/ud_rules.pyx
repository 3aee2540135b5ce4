"""Finds the words at which labelled trees break the rules of Universal Dependencies.

A broken rule is marked at the word at which the official validator reports it, a bit for each
rule. Arguments are made in spacy_rootmind.guidelines and trusted here.
"""
from libc.stdint cimport int8_t, int32_t, uint8_t, uint16_t
from libc.string cimport memset

import numpy as np

from spacy_rootmind.kernel.decode cimport tree_is_projective

# Sets of labels and of parts of speech that rules speak of, in the order of the tables' rows.
LABEL_SETS = (
    *("advmod", "clausal", "det", "fixed", "goeswith", "nominal", "obj", "obl"),
    *("of_possessives", "punct", "rightward", "subject"),
)
TAG_SETS = ("PUNCT", "PROPN", "nominal")

cdef enum:
    ADVMOD, CLAUSAL, DET, FIXED, GOESWITH, NOMINAL, OBJ, OBL
    OF_POSSESSIVES, PUNCT, RIGHTWARD, SUBJECT

cdef enum:
    TAG_PUNCT, TAG_PROPN, TAG_NOMINAL

# The rules: a bit for each.
cpdef enum:
    TAG = 1 << 0
    FIXED_UNDER_NAME = 1 << 1
    LEFTWARD = 1 << 2
    CHILD = 1 << 3
    SUBJECTS = 1 << 4
    OBJECTS = 1 << 5
    GAP_IN_WORD = 1 << 6
    UNSPACED_PART = 1 << 7
    CROSSED_PUNCTUATION = 1 << 8
    OBL_OF_NOMINAL = 1 << 9


# A tree with its words; index 0 is ROOT.
cdef struct Tree:
    Py_ssize_t n
    const int32_t* heads
    const int32_t* labels           # by number; the last one stands for none
    const int8_t* tags              # rows of Words
    const int8_t* external
    const int8_t* negative
    const int8_t* possessive
    const int8_t* space_after
    uint16_t* broken


# The tables of rules.
cdef struct Tables:
    Py_ssize_t n_labels             # with the root's, and none
    Py_ssize_t n_tags
    const uint8_t* fits_tag         # (n_tags, n_labels)
    const uint8_t* fits_parent      # (n_labels, n_labels): by the label of the head
    const uint8_t* label_sets       # a row for each
    const uint8_t* tag_sets


# Numbers of each word: an array for each kind.
cdef struct Counts:
    int32_t* parts                  # children that are goeswith
    int32_t* last_part              # the last of these if it follows, else the word itself
    int32_t* fixed                  # children that are fixed
    int32_t* subjects
    int32_t* objects
    int32_t* clausal
    int32_t* side                   # of a word at a time: who is below it
    int32_t* rest                   # four, for the check of projectivity

cdef enum:
    ARRAYS = 11

cdef enum:
    UNKNOWN, BELOW, ELSEWHERE


cdef inline bint is_in(const Tables* tables, int label_set, int32_t label) noexcept nogil:
    return tables.label_sets[label_set * tables.n_labels + label]


cdef inline bint is_tag(const Tables* tables, int tag_set, int8_t tag) noexcept nogil:
    return tables.tag_sets[tag_set * tables.n_tags + tag]


cdef void count_children(const Tables* tables, const Tree* tree, Counts* counts) noexcept nogil:
    """Count the children of words that rules speak of."""
    cdef Py_ssize_t width = tree.n + 1
    cdef int32_t word, head, label
    memset(counts.parts, 0, 6 * width * sizeof(int32_t))
    for word in range(<int32_t>width):
        counts.last_part[word] = word
    for word in range(1, <int32_t>width):
        head, label = tree.heads[word], tree.labels[word]
        counts.fixed[head] += is_in(tables, FIXED, label)
        counts.subjects[head] += is_in(tables, SUBJECT, label)
        counts.objects[head] += is_in(tables, OBJ, label)
        counts.clausal[head] += is_in(tables, CLAUSAL, label)
        if is_in(tables, GOESWITH, label):
            counts.parts[head] += 1
            counts.last_part[head] = max(counts.last_part[head], word)


cdef bint has_gap(const Tree* tree, int32_t mark, int32_t* side) noexcept nogil:
    """Tell whether a word between another one and its head does not descend from that head. O(n).

    `side` remembers of each word on which side it is; words in a cycle are below no other.
    """
    cdef int32_t head = tree.heads[mark]
    cdef int32_t low = min(mark, head), high = max(mark, head)
    cdef int32_t between, word, found
    if head == 0:
        return False
    memset(side, 0, (tree.n + 1) * sizeof(int32_t))
    side[0], side[head] = ELSEWHERE, BELOW
    for between in range(low + 1, high):
        word = between
        while side[word] == UNKNOWN:
            side[word] = ELSEWHERE
            word = tree.heads[word]
        found = side[word]
        word = between
        while side[word] != found:
            side[word] = found
            word = tree.heads[word]
        if found == ELSEWHERE:
            return True
    return False


cdef bint is_crossed(const Tree* tree, int32_t mark) noexcept nogil:
    """Tell whether an arc has one end between a word and its head, and one on its other side.

    ROOT is on the other side.
    """
    cdef int32_t own = tree.heads[mark]
    cdef int32_t low = min(mark, own), high = max(mark, own)
    cdef int32_t word, head
    cdef bint is_before = mark < own
    for word in range(1, <int32_t>tree.n + 1):
        head = tree.heads[word]
        if low < word < high:
            if head == 0 or (head < mark if is_before else head > mark):
                return True
        elif low < head < high and (word < mark if is_before else word > mark):
            return True
    return False


cdef int find_of_tag(
        const Tables* tables, const Tree* tree, const Counts* counts, int32_t word
) noexcept nogil:
    """Check a word's label against its part of speech."""
    cdef int32_t label = tree.labels[word]
    cdef int8_t tag = tree.external[word]
    cdef int broken = 0
    # Any part of speech goes with an adverbial that is written apart.
    if not tables.fits_tag[tag * tables.n_labels + label] and not (
            counts.parts[word] and is_in(tables, ADVMOD, label)
            and not is_tag(tables, TAG_PUNCT, tag)):
        broken |= TAG
    if counts.fixed[word] and is_tag(tables, TAG_PROPN, tag):
        broken |= FIXED_UNDER_NAME
    return broken


cdef int find_of_arc(
        const Tables* tables, const Tree* tree, const Counts* counts, int32_t word
) noexcept nogil:
    """Check a word's label against its head and the label of that."""
    cdef int32_t head = tree.heads[word], label = tree.labels[word]
    cdef int32_t parent = tree.labels[head]
    cdef int broken = 0
    if head > word and is_in(tables, RIGHTWARD, label):
        broken |= LEFTWARD
    if not tables.fits_parent[parent * tables.n_labels + label]:
        if is_in(tables, PUNCT, label):
            # It may depend on what it would otherwise cut off from its head.
            if not has_gap(tree, head, counts.side):
                broken |= CHILD
        elif not (
                (tree.negative[word] and is_in(tables, ADVMOD, label)
                 and not is_in(tables, PUNCT, parent))
                or (tree.possessive[head] and is_in(tables, DET, parent)
                    and is_in(tables, OF_POSSESSIVES, label))):
            broken |= CHILD
    if (is_in(tables, OBL, label) and is_in(tables, NOMINAL, parent)
            and is_tag(tables, TAG_NOMINAL, tree.tags[head]) and not counts.clausal[head]):
        broken |= OBL_OF_NOMINAL
    return broken


cdef void find_of_parts(
        const Tables* tables, const Tree* tree, const Counts* counts) noexcept nogil:
    """Check words that are written apart, at their heads."""
    cdef int32_t word, head
    for word in range(1, <int32_t>tree.n + 1):
        head = tree.heads[word]
        if not is_in(tables, GOESWITH, tree.labels[word]):
            continue
        # Before a part is its head, or another part of the same word.
        if head > word or not (
                head == word - 1
                or (is_in(tables, GOESWITH, tree.labels[word - 1])
                    and tree.heads[word - 1] == head)):
            tree.broken[head] |= GAP_IN_WORD
        if not tree.space_after[word] and word < counts.last_part[head]:
            tree.broken[head] |= UNSPACED_PART
        if not tree.space_after[head] and counts.last_part[head] > head:
            tree.broken[head] |= UNSPACED_PART


cdef void find_of_punctuation(
        const Tables* tables, const Tree* tree, const Counts* counts) noexcept nogil:
    """Check whether punctuation is crossed. O(n) for each in a tree that is not projective."""
    cdef int32_t word
    cdef bint is_known = False
    for word in range(1, <int32_t>tree.n + 1):
        if is_in(tables, PUNCT, tree.labels[word]):
            if not is_known and tree_is_projective(tree.heads, tree.n, counts.rest):
                return
            is_known = True
            if is_crossed(tree, word) or has_gap(tree, word, counts.side):
                tree.broken[word] |= CROSSED_PUNCTUATION


cdef void check_tree(const Tables* tables, const Tree* tree, int32_t* memory) noexcept nogil:
    """Mark what is broken; `memory` has room for ARRAYS (n + 1) numbers."""
    cdef Py_ssize_t width = tree.n + 1
    cdef Counts counts
    cdef int32_t word
    counts.parts, counts.fixed = memory, memory + width
    counts.subjects, counts.objects = memory + 2 * width, memory + 3 * width
    counts.clausal, counts.last_part = memory + 4 * width, memory + 5 * width
    counts.side, counts.rest = memory + 6 * width, memory + 7 * width
    count_children(tables, tree, &counts)
    for word in range(<int32_t>width):
        if word:
            tree.broken[word] = (
                find_of_tag(tables, tree, &counts, word) | find_of_arc(tables, tree, &counts, word))
        if counts.subjects[word] > 1:
            tree.broken[word] |= SUBJECTS
        if counts.objects[word] > 1:
            tree.broken[word] |= OBJECTS
    find_of_parts(tables, tree, &counts)
    find_of_punctuation(tables, tree, &counts)


cdef class RuleTables:
    """The labels and parts of speech in each rule.

    `fits_tag`, (n_tags, n_labels + 2), says which labels go with each part of speech, with a last
    column for words without a label; `fits_parent` which labels children have, by the label of
    their head. Rows of `label_sets` and `tag_sets` say what is in each of LABEL_SETS and TAG_SETS.
    """
    cdef Tables c
    cdef tuple arrays               # whose memory the tables are

    def __cinit__(
            self, const uint8_t[:, ::1] fits_tag not None,
            const uint8_t[:, ::1] fits_parent not None, const uint8_t[:, ::1] label_sets not None,
            const uint8_t[:, ::1] tag_sets not None):
        self.arrays = fits_tag, fits_parent, label_sets, tag_sets
        self.c.n_tags, self.c.n_labels = fits_tag.shape[0], fits_tag.shape[1]
        self.c.fits_tag, self.c.fits_parent = &fits_tag[0, 0], &fits_parent[0, 0]
        self.c.label_sets, self.c.tag_sets = &label_sets[0, 0], &tag_sets[0, 0]

    def find_broken(
            self, const int8_t[:, ::1] words not None, const Py_ssize_t[::1] places not None,
            const Py_ssize_t[::1] sizes not None, int32_t[::1] heads not None,
            int32_t[::1] labels not None):
        """Find the rules that each word of some trees breaks, (sizes.sum(),).

        `words`, (5, n_places), are as made by spacy_rootmind.guidelines.words; `places` says where
        each tree's ROOT is in these, and `sizes` has its words and one. `heads` and `labels` are
        the trees, one after the other; MISSING becomes 0 among the heads, and the last number among
        the labels.
        """
        cdef Py_ssize_t i, place, start = 0
        cdef Tree tree
        cdef uint16_t[::1] broken
        cdef int32_t[::1] memory
        found = np.zeros(heads.shape[0], dtype=np.uint16)
        if not heads.shape[0]:
            return found
        broken = found
        for i in range(heads.shape[0]):
            heads[i] = max(heads[i], 0)
            labels[i] = labels[i] if labels[i] >= 0 else <int32_t>self.c.n_labels - 1
        memory = np.empty(ARRAYS * max(sizes), dtype=np.int32)
        with nogil:
            for i in range(sizes.shape[0]):
                place = places[i]
                tree.n = sizes[i] - 1
                tree.heads, tree.labels = &heads[start], &labels[start]
                tree.tags, tree.external = &words[0, place], &words[1, place]
                tree.negative, tree.possessive = &words[2, place], &words[3, place]
                tree.space_after, tree.broken = &words[4, place], &broken[start]
                check_tree(&self.c, &tree, &memory[0])
                start += sizes[i]
        return found
