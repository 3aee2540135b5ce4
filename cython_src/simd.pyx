"""The passes over rows that all modules use: one table for scores and one for weights."""

cdef extern from "decode_simd.h" nogil:
    RowPasses chosen_row_passes "row_passes"
    int choose_row_passes(int simd) noexcept

cdef extern from "sum_simd.h" nogil:
    WeightPasses chosen_weight_passes "weight_passes"
    int choose_weight_passes(int simd) noexcept


def use_simd(bint wanted):
    """Use the processor's SIMD instructions, or the portable C; returns whether SIMD is in use.

    For tests and benchmarks. Not while another thread is at work.
    """
    global row_passes, weight_passes
    # Both are called, whatever the first returns.
    cdef bint of_rows = choose_row_passes(wanted)
    cdef bint of_weights = choose_weight_passes(wanted)
    row_passes = chosen_row_passes
    weight_passes = chosen_weight_passes
    return of_rows and of_weights


use_simd(True)
