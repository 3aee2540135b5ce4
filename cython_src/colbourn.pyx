"""Sampling word after word from the inverse Laplacian, O(n^3) per tree.

Colbourn, Myrvold & Neufeld 1996, for dependency trees Zmigrod, Vieira & Cotterell 2021 (section 4).
The Laplacian M has a row per word: minus the weights of its heads, with their sum on the diagonal;
with a single root, column 1 holds the root weights instead (Koo et al. 2007). Its determinant is
the weight of all trees, its inverse B gives the probabilities of a word's heads, and fixing a
word's head leaves that arc alone in its row, which changes B by a matrix of rank one.

Everything here is a difference, and where two words strongly prefer each other all digits may be
lost. Probabilities then do not add up to 1.
"""
from libc.math cimport fabs
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from spacy_rootmind.kernel.decode cimport DECODE_LOST_DIGITS, DECODE_OK
from spacy_rootmind.kernel.interrupt cimport poll_row
from spacy_rootmind.kernel.random cimport RandomSource, draw_index

cdef extern from "ieee.h":
    pass

# How far from 1 the sum of the probabilities of a word's heads may be, and how far below 0 one.
cdef double TOLERANCE = 1e-7


cdef void swap_rows(double* first, double* second, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef double value
    for i in range(n):
        value = first[i]
        first[i] = second[i]
        second[i] = value


cdef void fill_laplacian(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root, double* matrix
) noexcept nogil:
    cdef Py_ssize_t i, head
    cdef const double* row
    cdef double total
    for i in range(n):
        row = weights + (i + 1) * stride
        total = 0 if single_root else row[0]
        for head in range(1, n + 1):
            total += 0 if head == i + 1 else row[head]
            matrix[i * n + head - 1] = -row[head]
        matrix[i * n + i] = total
        if single_root:
            matrix[i * n] = row[0]


cdef bint invert_laplacian(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root, double* inverse,
        Py_ssize_t* swapped) noexcept nogil:
    """Invert the Laplacian of a sentence; see the declaration.

    Gauss-Jordan elimination in place with partial pivoting, as long as a few draws take. LAPACK is
    faster, but Ctrl-C would have to wait until it is done.
    """
    cdef Py_ssize_t k, i, j, largest
    cdef double* pivot
    cdef double* row
    cdef double factor
    fill_laplacian(weights, stride, n, single_root, inverse)
    for k in range(n):
        largest = k
        for i in range(k + 1, n):
            if fabs(inverse[i * n + k]) > fabs(inverse[largest * n + k]):
                largest = i
        # NaN is no pivot either.
        if not fabs(inverse[largest * n + k]) > 0:
            return False
        swapped[k] = largest
        pivot = inverse + k * n
        if largest != k:
            swap_rows(pivot, inverse + largest * n, n)
        factor = pivot[k]
        pivot[k] = 1
        for j in range(n):
            pivot[j] /= factor
        for i in range(n):
            poll_row(i, n)
            row = inverse + i * n
            factor = row[k]
            if i != k and factor != 0:
                row[k] = 0
                for j in range(n):
                    row[j] -= factor * pivot[j]
    # Rows that were swapped are columns of the inverse.
    for i in range(n):
        poll_row(i, n)
        row = inverse + i * n
        for k in range(n - 1, -1, -1):
            factor = row[k]
            row[k] = row[swapped[k]]
            row[swapped[k]] = factor
    return True


cdef void fill_probabilities(
        const double* row, const double* inverse, Py_ssize_t n, Py_ssize_t word, bint single_root,
        double* probabilities) noexcept nogil:
    """The weights of a word's heads times their derivatives of the log determinant."""
    cdef Py_ssize_t column = word - 1, head
    cdef double own = 0 if single_root and word == 1 else inverse[column * n + column]
    if single_root:
        probabilities[0] = row[0] * inverse[column]
    else:
        probabilities[0] = row[0] * own
    for head in range(1, n + 1):
        probabilities[head] = row[head] * own
        if not (single_root and head == 1):
            probabilities[head] -= row[head] * inverse[(head - 1) * n + column]
    probabilities[word] = 0


cdef bint settle_probabilities(double* probabilities, Py_ssize_t n) noexcept nogil:
    """Take away what rounding left below 0; False if that, or the sum, is more than rounding."""
    cdef Py_ssize_t head
    cdef double total = 0
    for head in range(n + 1):
        if not probabilities[head] > -TOLERANCE:
            return False
        probabilities[head] = max(probabilities[head], 0.0)
        total += probabilities[head]
    return fabs(total - 1) < TOLERANCE


cdef void fix_arc(
        double* inverse, Py_ssize_t n, Py_ssize_t word, Py_ssize_t head, bint single_root,
        double* step, double* column) noexcept nogil:
    """Update the inverse for a row `word` that holds one arc alone, of weight 1. O(n^2)."""
    cdef Py_ssize_t own = word - 1
    cdef Py_ssize_t i, j
    cdef double pivot
    # The new row times the inverse.
    for j in range(n):
        step[j] = 0
        column[j] = inverse[j * n + own]
    if not (single_root and (word == 1 or head == 0)):
        for j in range(n):
            step[j] = inverse[own * n + j]
    if head == 0 and single_root:
        for j in range(n):
            step[j] = inverse[j]
    elif head > 0 and not (single_root and head == 1):
        for j in range(n):
            step[j] -= inverse[(head - 1) * n + j]
    pivot = step[own]
    step[own] -= 1
    for i in range(n):
        poll_row(i, n)
        for j in range(n):
            inverse[i * n + j] -= column[i] / pivot * step[j]


cdef int draw_by_inverse(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root,
        const double* inverse, const RandomSource* random, int32_t* heads, double* work
) noexcept nogil:
    """Draw a tree, the first word's head first.

    Returns DECODE_OK, or DECODE_LOST_DIGITS where probabilities do not add up.
    """
    cdef double* current = work
    cdef double* step = work + n * n
    cdef double* column = step + n
    cdef double* probabilities = column + n
    cdef Py_ssize_t word, head
    heads[0] = -1
    for word in range(n):
        poll_row(word, n)
        memcpy(current + word * n, inverse + word * n, n * sizeof(double))
    for word in range(1, n + 1):
        fill_probabilities(
            weights + word * stride, current, n, word, single_root, probabilities)
        if not settle_probabilities(probabilities, n):
            return DECODE_LOST_DIGITS
        head = draw_index(probabilities, n + 1, 1, random)
        heads[word] = <int32_t>head
        fix_arc(current, n, word, head, single_root, step, column)
    return DECODE_OK
