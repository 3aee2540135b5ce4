"""Labelled trees where few arcs have labels: the best ones, and those under conditions on words.

The best label is known for some arcs only. Any other arc has the highest weight that a label could
give it, so that the weight of the best tree is an upper bound. Arguments are checked in
spacy_rootmind.trees and trusted here.
"""
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

import numpy as np

from spacy_rootmind.kernel.batch cimport check_memory
from spacy_rootmind.kernel.decode cimport (
    OUTERMOST_ROWS,
    TreeWorkspace,
    decode_tree,
    workspace_free,
    workspace_init,
)
from spacy_rootmind.kernel.eisner cimport (
    ChartWorkspace,
    chart_workspace_free,
    chart_workspace_init,
    decode_projective,
)
from spacy_rootmind.kernel.interrupt cimport run_part
from spacy_rootmind.kernel.simd cimport row_passes
from spacy_rootmind.kernel.status cimport Status

cdef enum:
    MISSING = -1
    ROOT_LABEL = 0


# The arguments of a decoder.
cdef struct DecodeTask:
    const double* square
    Py_ssize_t n
    int32_t* heads
    TreeWorkspace* tree
    ChartWorkspace* chart           # NULL for trees that need not be projective


cdef int decode_part(void* argument) noexcept nogil:
    cdef DecodeTask* task = <DecodeTask*>argument
    if task.chart is not NULL:
        return decode_projective(
            task.square, task.n, True, True, task.heads, task.chart)
    return decode_tree(
        task.square, task.n + 1, task.n, True, True, task.heads, task.tree)


# --- the best labelled trees -------------------------------------------------------------------

cdef class LabelledSearch:
    """The search for the best labelled trees of sentences, which labels few of their arcs.

    The sentences lie one after the other, each with a row for ROOT and then one for each word. An
    arc is given by the rows of its dependent and of its head.

    Parameters
    ----------
    scores : list of float32 or float64 arrays of shape (m, m)
        The arc scores of each sentence.
    temperature : float
        Their divisor.
    projective : bool

    Attributes
    ----------
    roots : intp array of shape (n_sentences + 1,)
        The row of each sentence's ROOT, and the number of rows.
    heads : int32 array of shape (n_rows,)
        The place of each word's head in its sentence; MISSING for ROOT.
    labels : int32 array of shape (n_rows,)
        The labels of the arcs to these heads, once the search has ended.
    """
    cdef readonly object roots, heads, labels
    cdef object all_weights, all_labels     # of all arcs of all sentences
    cdef Py_ssize_t n_sentences
    cdef Py_ssize_t[::1] first, places      # the first row of each sentence, and arc of each row
    cdef double[::1] weights
    cdef int32_t[::1] arc_labels, tree
    cdef uint8_t[::1] is_open               # sentences with arcs that have got labels
    cdef DecodeTask task
    cdef TreeWorkspace workspace
    cdef ChartWorkspace chart
    cdef double[::1] rivals                 # a row of weights

    def __cinit__(self, list scores not None, double temperature, bint projective):
        cdef Py_ssize_t longest = 1, row = 0, place = 0, i, m
        self.n_sentences = len(scores)
        self.roots = self.first = np.zeros(self.n_sentences + 1, dtype=np.intp)
        for i in range(self.n_sentences):
            m = len(scores[i])
            self.first[i + 1], longest = self.first[i] + m, max(longest, m)
        self.places = np.empty(self.first[self.n_sentences], dtype=np.intp)
        for i in range(self.n_sentences):
            m = self.first[i + 1] - self.first[i]
            for row in range(self.first[i], self.first[i + 1]):
                self.places[row], place = place, place + m
        squares = [np.zeros(0)] + [own.ravel() for own in scores]
        self.all_weights = self.weights = np.concatenate(squares) / temperature
        self.all_labels = self.arc_labels = np.empty(place, dtype=np.int32)
        self.heads = self.tree = np.empty(len(self.places), dtype=np.int32)
        self.is_open, self.rivals = np.empty(self.n_sentences, dtype=np.uint8), np.empty(longest)
        self.arc_labels[:], self.tree[:], self.is_open[:] = MISSING, MISSING, True
        check_memory(longest - 1, workspace_init(&self.workspace, longest - 1, OUTERMOST_ROWS))
        if projective:
            check_memory(longest - 1, chart_workspace_init(&self.chart, longest - 1, False))
        self.task.tree = &self.workspace
        self.task.chart = &self.chart if projective else NULL

    def __dealloc__(self):
        workspace_free(&self.workspace)
        chart_workspace_free(&self.chart)

    def arcs_of(self, Py_ssize_t sentence):
        """View the weights of a sentence's arcs and their best labels, both (m, m).

        Weights include the log probability of a known label; others are MISSING.
        """
        cdef Py_ssize_t m = self.first[sentence + 1] - self.first[sentence]
        cdef Py_ssize_t place = self.places[self.first[sentence]]
        own = slice(place, place + m * m)
        return self.all_weights[own].reshape(m, m), self.all_labels[own].reshape(m, m)

    def run(self, find_labels, bint decode_again):
        """Find the trees and their labels; returns the first sentence without a tree, or -1.

        Unless they are decoded again, trees are the best without labels.
        """
        cdef Py_ssize_t i, n_rivals = 0
        cdef int32_t[::1] found = np.empty(len(self.tree), dtype=np.int32)
        while True:
            for i in range(self.n_sentences):
                if self.is_open[i] and self.decode(i) != Status.OK:
                    return i
            deps, heads = self.unlabelled_arcs(n_rivals)
            if not len(deps):
                break
            labels, log_probs = find_labels(deps, heads)
            self.add_labels(deps, heads, labels, log_probs)
            if not decode_again:
                break
            n_rivals = min(2 * n_rivals + 1, self.rivals.shape[0])
        # ROOT has no label and the root has ROOT_LABEL: the same numbers as their heads.
        for i in range(len(self.tree)):
            found[i] = self.tree[i]
            if self.tree[i] > 0:
                found[i] = self.arc_labels[self.places[i] + self.tree[i]]
        self.labels = found.base
        return -1

    cdef int decode(self, Py_ssize_t sentence) except? -1:
        cdef int stop = 0
        cdef Py_ssize_t first = self.first[sentence]
        self.task.n = self.first[sentence + 1] - first - 1
        self.task.square = &self.weights[self.places[first]]
        self.task.heads = &self.tree[first]
        return run_part(decode_part, &self.task, &stop)

    cdef tuple unlabelled_arcs(self, Py_ssize_t n_rivals):
        """List the arcs of trees without a label, and the best other heads of their words."""
        cdef Py_ssize_t i, dep, first, m, known, count = 0
        cdef const int32_t* labels
        cdef Py_ssize_t[:, ::1] arcs
        most = min(len(self.heads) * (n_rivals + 1), len(self.all_labels))
        found = np.empty((2, most), dtype=np.intp)
        arcs = found
        for i in range(self.n_sentences):
            if not self.is_open[i]:
                continue
            self.is_open[i] = False
            first, m, known = self.first[i], self.first[i + 1] - self.first[i], count
            for dep in range(1, m):
                labels = &self.arc_labels[self.places[first + dep]]
                if self.tree[first + dep] > 0 and labels[self.tree[first + dep]] == MISSING:
                    arcs[0, count], arcs[1, count] = first + dep, first + self.tree[first + dep]
                    count += 1
            for known in range(known, count if n_rivals else known):
                count = self.add_rivals(i, arcs[0, known] - first, n_rivals, arcs, count)
        return found[0, :count].copy(), found[1, :count].copy()

    cdef Py_ssize_t add_rivals(
            self, Py_ssize_t sentence, Py_ssize_t dep, Py_ssize_t n_rivals,
            Py_ssize_t[:, ::1] arcs, Py_ssize_t count) noexcept:
        """Add the arcs to the best heads of a word besides its own, of those without a label."""
        cdef Py_ssize_t first = self.first[sentence], m = self.first[sentence + 1] - first
        cdef Py_ssize_t place = self.places[first + dep], _i
        cdef int32_t head, own = self.tree[first + dep]
        cdef double weight
        for head in range(1, <int32_t>m):
            self.rivals[head] = self.weights[place + head]
            if head == own or head == dep or self.arc_labels[place + head] != MISSING:
                self.rivals[head] = -INFINITY
        for _i in range(n_rivals):
            head = row_passes.scan_row(&self.rivals[0], m - 1, &weight)
            if head == 0:
                break
            self.rivals[head] = -INFINITY
            arcs[0, count], arcs[1, count] = first + dep, first + head
            count += 1
        return count

    cdef int add_labels(
            self, const Py_ssize_t[:] deps, const Py_ssize_t[:] heads, const Py_ssize_t[:] labels,
            const double[:] log_probs) except -1:
        """Note the best labels of arcs, which are sorted by sentence, and open the sentences."""
        cdef Py_ssize_t arc, place, i = 0
        for arc in range(deps.shape[0]):
            while deps[arc] >= self.first[i + 1]:
                i += 1
            place = self.places[deps[arc]] + heads[arc] - self.first[i]
            self.arc_labels[place] = <int32_t>labels[arc]
            self.weights[place] += log_probs[arc]
            self.is_open[i] = True
        return 0


# --- trees under conditions --------------------------------------------------------------------


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
    cdef Py_ssize_t n_labels        # including the root's
    cdef const double[:, ::1] arcs
    cdef double[:, ::1] weights
    cdef int32_t[:, ::1] labels
    cdef const uint8_t[:, :, ::1] mask
    cdef Py_ssize_t[:, ::1] places  # of each arc, its row in the table
    cdef double[:, ::1] table       # log probabilities of labels; more rows than are in use
    cdef Py_ssize_t n_places
    cdef double[:, ::1] square      # of the tree at hand
    cdef int32_t[:, ::1] best       # its labels
    cdef TreeWorkspace tree
    cdef ChartWorkspace chart

    def __cinit__(
            self, const double[:, ::1] arcs not None, double[:, ::1] weights not None,
            int32_t[:, ::1] labels not None, const uint8_t[:, :, ::1] mask not None):
        cdef Py_ssize_t dep, head
        cdef Py_ssize_t m = arcs.shape[0]
        self.m, self.n_labels = m, mask.shape[2]
        self.arcs, self.weights, self.labels, self.mask = arcs, weights, labels, mask
        self.places = np.full((m, m), MISSING, dtype=np.intp)
        self.table, self.square = np.empty((0, self.n_labels)), np.empty((m, m))
        self.best = np.empty((m, m), dtype=np.int32)
        check_memory(m - 1, workspace_init(&self.tree, m - 1, OUTERMOST_ROWS))
        for dep in range(m):
            for head in range(m):
                if head == 0:
                    labels[dep, head] = ROOT_LABEL
                elif labels[dep, head] != MISSING and not mask[dep, head, labels[dep, head]]:
                    labels[dep, head] = MISSING
                if dep == 0 or dep == head or not any_of(&mask[dep, head, 0], self.n_labels):
                    weights[dep, head] = -INFINITY

    def __dealloc__(self):
        workspace_free(&self.tree)
        chart_workspace_free(&self.chart)

    cpdef double find_best(self, Py_ssize_t word, object allowed) except? -1:
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
                    log_probs = &self.table[self.places[word, head], 0]
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
        if self.n_places + deps.shape[0] > self.table.shape[0]:
            larger = np.empty((2 * self.n_places + deps.shape[0], n_labels))
            larger[:self.n_places] = self.table[:self.n_places]
            self.table = larger
        for i in range(deps.shape[0]):
            dep, head, place = deps[i], heads[i], self.n_places
            self.n_places += 1
            self.places[dep, head] = place
            self.table[place, ROOT_LABEL] = log_prob = -INFINITY
            self.labels[dep, head] = ROOT_LABEL
            for label in range(1, n_labels):
                self.table[place, label] = log_probs[i, label - 1]
                if self.mask[dep, head, label] and log_probs[i, label - 1] > log_prob:
                    log_prob = log_probs[i, label - 1]
                    self.labels[dep, head] = <int32_t>label
            self.weights[dep, head] = self.arcs[dep, head] + log_prob

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
        cdef double highest, known = -INFINITY
        cdef double* weights = &self.square[word, 0]
        self.find_best(word, left)
        for head in range(self.m):
            if self.best[word, head] != MISSING:
                known = max(known, weights[head])
                weights[head] = -INFINITY
        found = []
        while len(found) < count:
            best = row_passes.scan_row(weights, self.m - 1, &highest)
            if not highest > known:
                break
            weights[best] = -INFINITY
            found.append(best)
        return found

    def decode(self, dict left not None, bint projective):
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
        cdef int status, stop = 0
        if projective and self.chart.block is NULL:
            check_memory(m - 1, chart_workspace_init(&self.chart, m - 1, False))
        for word in range(1, m):
            most += self.find_best(word, left.get(word))
        found_heads, found_labels = np.empty((2, m), dtype=np.int32)
        heads, labels = found_heads, found_labels
        task.square = &self.square[0, 0]
        task.n = m - 1
        task.heads = &heads[0]
        task.tree = &self.tree
        task.chart = &self.chart if projective else NULL
        status = run_part(decode_part, &task, &stop)
        if status != Status.OK:
            return status, None, None, None, None, None
        labels[0] = MISSING
        unknown = []
        for word in range(1, m):
            weight += self.square[word, heads[word]]
            labels[word] = self.best[word, heads[word]]
            if labels[word] == MISSING:
                unknown.append(word)
        return status, found_heads, found_labels, weight, most, unknown
