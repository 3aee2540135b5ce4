"""Weights in float64, or with an exponent of any size (extended_float.h), by the same names."""
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

from spacy_rootmind.kernel.simd cimport weight_passes


cdef extern from "extended_float.h" nogil:
    ctypedef struct ExtendedFloat:
        double part
        int64_t exponent
    double subtract_exactly(double a, double b, double* low) noexcept
    ExtendedFloat wide_from(double part, int64_t exponent) noexcept
    ExtendedFloat wide_multiply(ExtendedFloat a, ExtendedFloat b) noexcept
    ExtendedFloat wide_divide(ExtendedFloat a, ExtendedFloat b) noexcept
    ExtendedFloat wide_add(ExtendedFloat a, ExtendedFloat b) noexcept
    bint wide_less(ExtendedFloat a, ExtendedFloat b) noexcept
    double wide_to_double(ExtendedFloat a) noexcept
    double wide_log(ExtendedFloat a, double* low) noexcept
    double wide_log2_above(ExtendedFloat a) noexcept
    ExtendedFloat wide_exp(double high, double low) noexcept

ctypedef fused weight_t:
    double
    ExtendedFloat


cdef inline double add_exactly(double a, double b, double* low) noexcept nogil:
    """Return a + b rounded, and add to `low` what rounding took away."""
    cdef double rest
    cdef double total = subtract_exactly(a, -b, &rest)
    low[0] += rest
    return total


# --- single weights ----------------------------------------------------------------------------

# `of_type` only says which type is wanted.
cdef inline weight_t weight_from(double value, const weight_t* of_type) noexcept nogil:
    if weight_t is double:
        return value
    else:
        return wide_from(value, 0)


cdef inline double to_double(weight_t weight) noexcept nogil:
    if weight_t is double:
        return weight
    else:
        return wide_to_double(weight)


cdef inline ExtendedFloat to_wide(weight_t weight) noexcept nogil:
    if weight_t is double:
        return wide_from(weight, 0)
    else:
        return weight


cdef inline bint is_zero(weight_t weight) noexcept nogil:
    if weight_t is double:
        return weight == 0
    else:
        return weight.part == 0


cdef inline bint less(weight_t a, weight_t b) noexcept nogil:
    if weight_t is double:
        return a < b
    else:
        return wide_less(a, b)


cdef inline weight_t larger(weight_t a, weight_t b) noexcept nogil:
    return b if less(a, b) else a


cdef inline weight_t add(weight_t a, weight_t b) noexcept nogil:
    if weight_t is double:
        return a + b
    else:
        return wide_add(a, b)


cdef inline weight_t subtract(weight_t a, weight_t b) noexcept nogil:
    """a - b, for derivatives: differences of weights lose digits."""
    if weight_t is double:
        return a - b
    else:
        return wide_add(a, wide_from(-b.part, b.exponent))


cdef inline weight_t multiply(weight_t a, weight_t b) noexcept nogil:
    if weight_t is double:
        return a * b
    else:
        return wide_multiply(a, b)


cdef inline weight_t divide(weight_t a, weight_t b) noexcept nogil:
    if weight_t is double:
        return a / b
    else:
        return wide_divide(a, b)


cdef inline weight_t add_signed(weight_t weight, double other) noexcept nogil:
    """weight + other, but not below 0."""
    cdef ExtendedFloat negative
    cdef double ratio
    if weight_t is double:
        return max(weight + other, 0.0)
    else:
        if other >= 0:
            return wide_add(weight, wide_from(other, 0))
        negative = wide_from(-other, 0)
        if weight.part == 0.0:
            return weight
        ratio = wide_to_double(wide_divide(negative, weight))
        return wide_multiply(weight, wide_from(max(1 - ratio, 0.0), 0))


# --- rows --------------------------------------------------------------------------------------
#
# The passes of sum_passes.h and sum_simd.h, which say what they do.

cdef inline void exp_row(
        weight_t* out, const double* scores, double shift, Py_ssize_t n, int* dropped
) noexcept nogil:
    """Also sets `dropped` if a score that is not -inf is too low for a wide weight."""
    cdef Py_ssize_t i
    cdef double high, low
    if weight_t is double:
        weight_passes.exp_row(out, scores, shift, n)
    else:
        for i in range(n):
            high = subtract_exactly(scores[i], shift, &low)
            out[i] = wide_exp(high, low)
            dropped[0] |= out[i].part == 0 and scores[i] > -INFINITY


cdef inline weight_t sum_row(const weight_t* row, Py_ssize_t n) noexcept nogil:
    cdef weight_t total
    cdef Py_ssize_t i
    if weight_t is double:
        return weight_passes.sum_row(row, n)
    else:
        total = wide_from(0, 0)
        for i in range(n):
            total = wide_add(total, row[i])
        return total


cdef inline weight_t dot(const weight_t* a, const weight_t* b, Py_ssize_t n) noexcept nogil:
    cdef weight_t total
    cdef Py_ssize_t i
    if weight_t is double:
        return weight_passes.dot(a, b, n)
    else:
        total = wide_from(0, 0)
        for i in range(n):
            total = wide_add(total, wide_multiply(a[i], b[i]))
        return total


cdef inline double divide_by_largest(
        double* out, const weight_t* row, const int32_t* marks, int32_t wanted, Py_ssize_t n
) noexcept nogil:
    """out[i] = row[i] over the largest of those marked as wanted, or 0; returns their sum.

    All of them if `marks` is NULL; at least one of them is not 0.
    """
    cdef weight_t largest = weight_from(0, row)
    cdef double total = 0
    cdef Py_ssize_t i
    for i in range(n):
        if (marks is NULL or marks[i] == wanted) and less(largest, row[i]):
            largest = row[i]
    for i in range(n):
        out[i] = 0
        if marks is NULL or marks[i] == wanted:
            out[i] = to_double(divide(row[i], largest))
            total += out[i]
    return total


cdef inline void divide_row(
        weight_t* out, const weight_t* row, weight_t total, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    if weight_t is double:
        weight_passes.divide_row(out, row, total, n)
    else:
        for i in range(n):
            out[i] = wide_divide(row[i], total)


cdef inline void multiply_rows(
        double* out, const weight_t* a, const weight_t* b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    if weight_t is double:
        weight_passes.multiply_rows(out, a, b, n)
    else:
        for i in range(n):
            out[i] = min(wide_to_double(wide_multiply(a[i], b[i])), 1.0)


cdef inline void add_scaled(
        ExtendedFloat* out, const ExtendedFloat* row, ExtendedFloat factor, Py_ssize_t n
) noexcept nogil:
    cdef Py_ssize_t i
    if factor.part != 0:
        for i in range(n):
            out[i] = wide_add(out[i], wide_multiply(factor, row[i]))


cdef inline void apply_pivots(
        weight_t* row, const weight_t* pivots, Py_ssize_t stride, Py_ssize_t last,
        Py_ssize_t first) noexcept nogil:
    cdef Py_ssize_t k
    if weight_t is double:
        weight_passes.apply_pivots(row, pivots, stride, last, first)
    else:
        for k in range(last, first - 1, -1):
            add_scaled(row, pivots + k * stride, row[k], k)


cdef inline void pull_back(
        const weight_t* matrix, Py_ssize_t stride, Py_ssize_t k, const weight_t* pivot,
        const weight_t* factors, weight_t* sums, weight_t* products) noexcept nogil:
    cdef Py_ssize_t i, j
    if weight_t is double:
        weight_passes.pull_back(matrix, stride, k, pivot, factors, sums, products)
    else:
        for i in range(k):
            sums[i] = wide_from(0, 0)
        for j in range(1, k):
            products[j] = dot(matrix + j * stride, pivot, k)
            add_scaled(sums, matrix + j * stride, factors[j], k)
