"""Passes over rows of scores and of weights, by SIMD instructions where the processor has them."""
from libc.stdint cimport int32_t, uint8_t

cdef extern from "passes.h" nogil:
    enum:
        SCAN_OK
        SCAN_BAD_SCORE
        SCAN_NO_HEAD
    ctypedef struct RowPasses:
        int (*scan_f32)(
            const float*, Py_ssize_t, Py_ssize_t, double*, int32_t*, int32_t*) noexcept nogil
        int (*scan_f64)(
            const double*, Py_ssize_t, Py_ssize_t, double*, int32_t*, int32_t*) noexcept nogil
        int32_t (*scan_row)(const double*, Py_ssize_t, double*) noexcept nogil
        void (*lower_f32)(double*, const float*, double, Py_ssize_t) noexcept nogil
        void (*lower_f64)(double*, const double*, double, Py_ssize_t) noexcept nogil
        void (*merge_f32)(
            double*, double, const float*, double, Py_ssize_t, uint8_t*) noexcept nogil
        void (*merge_f64)(
            double*, double, const double*, double, Py_ssize_t, uint8_t*) noexcept nogil
        double (*max_sum)(const double*, const double*, Py_ssize_t) noexcept nogil
    ctypedef struct WeightPasses:
        double (*max_of_row)(const double*, Py_ssize_t, int*) noexcept nogil
        void (*exp_row)(double*, const double*, double, Py_ssize_t) noexcept nogil
        double (*sum_row)(const double*, Py_ssize_t) noexcept nogil
        double (*dot)(const double*, const double*, Py_ssize_t) noexcept nogil
        void (*divide_row)(double*, const double*, double, Py_ssize_t) noexcept nogil
        void (*multiply_rows)(double*, const double*, const double*, Py_ssize_t) noexcept nogil
        void (*apply_pivots)(
            double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
        void (*pull_back)(
            const double*, Py_ssize_t, Py_ssize_t, const double*, const double*, double*, double*
        ) noexcept nogil

# The tables that all modules use.
cdef RowPasses row_passes
cdef WeightPasses weight_passes
