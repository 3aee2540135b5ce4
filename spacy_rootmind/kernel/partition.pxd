"""Sums over all trees of a sentence, arc marginals, entropy.

Arrays follow the conventions of spacy_rootmind.trees; sentences come as contiguous squares of
float64, (n + 1) x (n + 1), with -inf on the diagonal and where an arc is forbidden. A workspace is
made by `tree_sum_init` of `elimination`.
"""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.elimination cimport TreeSum

# Sums over all trees, O(n^3). Returns a DecodeStatus; the functions below need DECODE_OK.
cdef int sum_trees(
    const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil
# The same in wide numbers, where float64 turned out not to suffice.
cdef int sum_trees_wide(const double* square, TreeSum* ws) noexcept nogil
cdef double log_partition(const TreeSum* ws) noexcept nogil
# The log probability of a tree, which must be one of those summed over; -inf if it is too low for
# float64.
cdef double log_probability(
    const double* square, const int32_t* heads, const TreeSum* ws) noexcept nogil
# marginals[dep * width + head] for words 1..n and heads 0..n, O(n^3). Returns a DecodeStatus.
cdef int arc_marginals(
    const double* square, double* marginals, Py_ssize_t width, TreeSum* ws) noexcept nogil
cdef double tree_entropy(
    const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws
) noexcept nogil
# The cross entropy of a distribution with these marginals to that of the sum, as the sum of the
# result and `low`; inf if it is beyond float64. Arcs that `square` forbids are left out. O(n^2).
cdef double cross_entropy(
    const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws,
    double* low) noexcept nogil
# log(Z of `part` / Z of `whole`) for two sums over trees of the same scores, of which the former
# are some of the latter; -inf if it is too low for float64. O(n).
cdef double log_ratio(const TreeSum* part, const TreeSum* whole) noexcept nogil
# shares[1..n]: weight of the trees in which a word is the root token, over any common factor.
# With a single root only, O(n^2). Returns a DecodeStatus.
cdef int root_shares(const double* square, double* shares, TreeSum* ws) noexcept nogil
