cdef bint choose_passes(bint simd) noexcept
