"""Sums over all projective trees of a sentence, arc marginals and samples, O(n^3)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.eisner cimport Chart
from spacy_rootmind.kernel.partition cimport TreeSum
from spacy_rootmind.kernel.random cimport Stream
from weights cimport ExtendedFloat

# Sums over the spans of a sentence of up to max_words words. Matrices are (n + 1) x (n + 1), of
# weights with a wide exponent (extended_float.h), which may know how their logs change; numbers of
# spans are indexed by the head and by the end that it reaches to.
cdef struct SpanSums:
    Py_ssize_t n            # of the sentence at hand
    bint single_root
    void* block
    void* weights           # [dep, head]: exp(score - highest[dep])
    Chart chart
    void* outer_complete    # derivatives of the log of the total by spans, [head, end]
    void* outer_arcs
    void* total             # one number
    void* row               # scratch, without changes
    double* highest         # per word: its highest score
    int32_t* todo           # stack of spans to be expanded, two numbers each

# The next choice in drawing a projective tree.
cdef enum DraftStage:
    DRAFT_ROOT          # its root token
    DRAFT_DEPENDENT     # the outermost dependent of the head of a span
    DRAFT_BORDER        # the border between what this governs and what the head governs
    DRAFT_COMPLETE

# A tree that is drawn from the root down, by one choice after another. At most 2 n of them.
cdef struct Draft:
    int32_t* heads
    Py_ssize_t top          # of the stack of spans
    Py_ssize_t dep          # at a border: the dependent
    DraftStage stage
    Py_ssize_t n_choices    # 0 once it is complete

cdef int span_sums_init(SpanSums* ws, Py_ssize_t max_words, bint with_changes) noexcept nogil
cdef void span_sums_free(SpanSums* ws) noexcept nogil
cdef int sum_projective(
    const double* square, Py_ssize_t n, bint single_root, SpanSums* ws, TreeSum* sum
) noexcept nogil
cdef void projective_marginals(double* marginals, Py_ssize_t width, SpanSums* ws) noexcept nogil
cdef int projective_derivatives(
    const double* square, Py_ssize_t n, bint single_root, double* values, Py_ssize_t width,
    SpanSums* ws) noexcept nogil
cdef Py_ssize_t draw_wide(
    const ExtendedFloat* weights, Py_ssize_t n, ExtendedFloat total, Stream* random
) noexcept nogil
cdef void draw_projective(
    SpanSums* ws, Stream* random, int32_t* heads) noexcept nogil

cdef void draft_begin(SpanSums* ws, int32_t* heads, Draft* draft) noexcept nogil
cdef ExtendedFloat draft_weigh(
    const SpanSums* ws, const Draft* draft, ExtendedFloat* weights) noexcept nogil
cdef void draft_choose(SpanSums* ws, Draft* draft, Py_ssize_t choice) noexcept nogil
