"""The labelled trees of one sentence under conditions on its words, for a search.

The best label is known for some arcs only. Any other arc has the highest weight that a label could
give it, so that the weight of the best tree is an upper bound. Arguments are checked in
spacy_rootmind.trees.constrained and trusted here.
"""
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

import numpy as np

from spacy_rootmind.kernel.decode cimport TreeWorkspace, decode_tree, workspace_free, workspace_init
from spacy_rootmind.kernel.eisner cimport (
    ChartWorkspace,
    chart_workspace_free,
    chart_workspace_init,
    decode_projective,
)
from spacy_rootmind.kernel.interrupt cimport run_part
from spacy_rootmind.kernel.room cimport make_room
from spacy_rootmind.kernel.status cimport Status

cdef enum:
    MISSING = -1
    ROOT_LABEL = 0


# The arguments of a decoder.
cdef struct DecodeTask:
    const double* square
    Py_ssize_t n
    bint single_root
    int32_t* heads
    TreeWorkspace* tree
    ChartWorkspace* chart           # NULL for trees that need not be projective


cdef int decode_part(void* argument) noexcept nogil:
    cdef DecodeTask* task = <DecodeTask*>argument
    if task.chart is not NULL:
        return decode_projective(
            task.square, task.n, task.single_root, True, task.heads, task.chart)
    return decode_tree(
        task.square, task.n + 1, task.n, task.single_root, True, task.heads, task.tree)


cdef inline bint any_of(const uint8_t* labels, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t label
    for label in range(count):
        if labels[label]:
            return True
    return False


cdef class SearchSpace:
    """The labelled arcs of a sentence, only some of them scored, and the best trees of subsets.

    Parameters
    ----------
    arcs : float64 array of shape (m, m)
        Log-weights of arcs without labels.
    weights : float64 array of shape (m, m)
        Log-weights with the best label, or upper bounds of these; changed in place.
    labels : int32 array of shape (m, m)
        The best label of each arc; MISSING where it is not known. Changed in place.
    mask : uint8 array of shape (m, m, n_labels + 1)
        The labelled arcs that any tree may have; 0 for the root's label on others than ROOT's arcs,
        and for other labels on these.
    """
    cdef Py_ssize_t m
    cdef Py_ssize_t n_labels        # with that of the root
    cdef const double[:, ::1] arcs
    cdef double[:, ::1] weights
    cdef int32_t[:, ::1] labels
    cdef const uint8_t[:, :, ::1] mask
    cdef Py_ssize_t[:, ::1] places  # of each arc, its row in the table
    cdef double* table              # log probabilities of labels
    cdef Py_ssize_t n_places
    cdef Py_ssize_t room
    cdef double[:, ::1] square      # of the tree at hand
    cdef int32_t[:, ::1] best       # its labels
    cdef TreeWorkspace tree
    cdef ChartWorkspace chart
    cdef bint has_tree
    cdef bint has_chart

    def __cinit__(
            self, const double[:, ::1] arcs not None, double[:, ::1] weights not None,
            int32_t[:, ::1] labels not None, const uint8_t[:, :, ::1] mask not None):
        cdef Py_ssize_t dep, head
        cdef Py_ssize_t m = arcs.shape[0]
        self.m, self.n_labels = m, mask.shape[2]
        self.arcs, self.weights, self.labels, self.mask = arcs, weights, labels, mask
        self.places = np.full((m, m), MISSING, dtype=np.intp)
        self.square = np.empty((m, m))
        self.best = np.empty((m, m), dtype=np.int32)
        self.check(workspace_init(&self.tree, m - 1))
        self.has_tree = True
        for dep in range(m):
            for head in range(m):
                if head == 0:
                    labels[dep, head] = ROOT_LABEL
                elif labels[dep, head] != MISSING and not mask[dep, head, labels[dep, head]]:
                    labels[dep, head] = MISSING
                if dep == 0 or dep == head or not any_of(&mask[dep, head, 0], self.n_labels):
                    weights[dep, head] = -INFINITY

    def __dealloc__(self):
        free(self.table)
        if self.has_tree:
            workspace_free(&self.tree)
        if self.has_chart:
            chart_workspace_free(&self.chart)

    cdef int check(self, int status) except -1:
        """Raise MemoryError for Status.NO_MEMORY."""
        if status == Status.NO_MEMORY:
            raise MemoryError(f"no memory to search a sentence of {self.m - 1} words; split it")
        return 0

    cdef double find_best(self, Py_ssize_t word, object allowed) except? -1:
        """Write a word's arcs with their best labels that are left; returns the highest weight.

        `allowed` holds the heads and labels that are left to it; None stands for the mask's.
        """
        cdef Py_ssize_t head, label
        cdef const uint8_t[:, ::1] left
        cdef Py_ssize_t n_labels = self.n_labels
        cdef double* weights = &self.square[word, 0]
        cdef int32_t* labels = &self.best[word, 0]
        cdef const double* log_probs
        cdef const uint8_t* own
        cdef double log_prob, highest = -INFINITY
        if allowed is None:
            memcpy(weights, &self.weights[word, 0], self.m * sizeof(double))
            memcpy(labels, &self.labels[word, 0], self.m * sizeof(int32_t))
            for head in range(self.m):
                highest = max(highest, weights[head])
            return highest
        left = allowed
        for head in range(self.m):
            own = &left[head, 0]
            labels[head] = self.labels[word, head]
            weights[head] = self.weights[word, head]
            if labels[head] == MISSING or not own[labels[head]]:
                labels[head] = MISSING
                if self.places[word, head] == MISSING:
                    if not any_of(own, n_labels):
                        weights[head] = -INFINITY
                else:
                    log_probs = self.table + self.places[word, head] * n_labels
                    log_prob = -INFINITY
                    for label in range(1, n_labels):
                        if own[label] and log_probs[label] > log_prob:
                            log_prob = log_probs[label]
                            labels[head] = <int32_t>label
                    weights[head] = self.arcs[word, head] + log_prob
                    if log_prob == -INFINITY:
                        labels[head] = ROOT_LABEL
            highest = max(highest, weights[head])
        return highest

    def add_labels(
            self, const Py_ssize_t[:] deps not None, const Py_ssize_t[:] heads not None,
            const double[:, ::1] log_probs not None):
        """Store the log probabilities of labels, (n_arcs, n_labels), of arcs without any."""
        cdef Py_ssize_t i, label, dep, head, place
        cdef Py_ssize_t n_labels = self.n_labels
        cdef double log_prob
        self.check(make_room(
            <void**>&self.table, &self.room, (self.n_places + deps.shape[0]) * n_labels,
            sizeof(double)))
        for i in range(deps.shape[0]):
            dep, head, place = deps[i], heads[i], self.n_places
            self.n_places += 1
            self.places[dep, head] = place
            self.table[place * n_labels] = log_prob = -INFINITY
            memcpy(
                self.table + place * n_labels + 1, &log_probs[i, 0],
                (n_labels - 1) * sizeof(double))
            self.labels[dep, head] = ROOT_LABEL
            for label in range(1, n_labels):
                if self.mask[dep, head, label] and log_probs[i, label - 1] > log_prob:
                    log_prob = log_probs[i, label - 1]
                    self.labels[dep, head] = <int32_t>label
            self.weights[dep, head] = self.arcs[dep, head] + log_prob

    def highest(self, Py_ssize_t word, object left):
        """Find the highest weight of an arc that is left to a word."""
        return self.find_best(word, left)

    def split(
            self, Py_ssize_t word, object left, const uint8_t[:] heads not None,
            const uint8_t[:] labels not None, bint holds):
        """Split the labelled arcs that are left to a word by whether they meet a condition.

        Returns the labelled arcs that meet it, those that do not, and the highest weight of these.
        """
        cdef const uint8_t[:, ::1] whole = self.mask[word] if left is None else left
        cdef uint8_t[:, ::1] meets, others
        cdef Py_ssize_t head, label
        cdef bint is_met
        if heads.shape[0] != self.m or labels.shape[0] != self.n_labels:
            raise ValueError(
                f"expected a condition on {self.m} heads and {self.n_labels} labels, received one "
                f"on {heads.shape[0]} and {labels.shape[0]}"
            )
        two = np.empty((2, self.m, self.n_labels), dtype=np.uint8)
        meets, others = two
        for head in range(self.m):
            for label in range(self.n_labels):
                is_met = (heads[head] and labels[label]) == holds
                meets[head, label] = whole[head, label] & is_met
                others[head, label] = whole[head, label] & (not is_met)
        return two[0], two[1], self.find_best(word, two[1])

    def rivals(self, Py_ssize_t word, object left, Py_ssize_t count):
        """List up to `count` heads of a word, best first, whose labels are not known.

        They are better than all heads with known labels; equal ones are in order.
        """
        cdef Py_ssize_t head, best
        cdef double known = -INFINITY
        cdef double* weights = &self.square[word, 0]
        self.find_best(word, left)
        for head in range(self.m):
            if self.best[word, head] != MISSING:
                known = max(known, weights[head])
                weights[head] = -INFINITY
        found = []
        while len(found) < count:
            best = 0
            for head in range(1, self.m):
                if weights[head] > weights[best]:
                    best = head
            if not weights[best] > known:
                break
            weights[best] = -INFINITY
            found.append(best)
        return found

    def decode(self, dict left not None, bint single_root, bint projective):
        """Find the best labelled tree, of the arcs left to some words and of all arcs of others.

        Returns
        -------
        status : int
            A Status; unless it is OK, all else is None.
        heads, labels : int32 array of shape (m,)
            Labels are MISSING where they are not known, and at index 0.
        weight : float
        most : float
            The sum of the highest weights of all words' arcs.
        unknown : list of int
            Words whose label is not known.
        """
        cdef Py_ssize_t word
        cdef Py_ssize_t m = self.m
        cdef double weight = 0, most = 0
        cdef DecodeTask task
        cdef int32_t[::1] heads, labels
        cdef int status
        if projective and not self.has_chart:
            self.check(chart_workspace_init(&self.chart, m - 1, False))
            self.has_chart = True
        for word in range(1, m):
            most += self.find_best(word, left.get(word))
        found_heads, found_labels = np.empty((2, m), dtype=np.int32)
        heads, labels = found_heads, found_labels
        task.square = &self.square[0, 0]
        task.n = m - 1
        task.single_root = single_root
        task.heads = &heads[0]
        task.tree = &self.tree
        task.chart = &self.chart if projective else NULL
        status = run_part(decode_part, &task)
        if status != Status.OK:
            self.check(status)
            return status, None, None, None, None, None
        labels[0] = MISSING
        unknown = []
        for word in range(1, m):
            weight += self.square[word, heads[word]]
            labels[word] = self.best[word, heads[word]]
            if labels[word] == MISSING:
                unknown.append(word)
        return status, found_heads, found_labels, weight, most, unknown
