"""Interface to random numbers of any source."""

# For numpy.random's bit generators as well as scripted draws.
cdef struct RandomSource:
    double (*next_double)(void* state) noexcept nogil   # from 0 to below 1
    void* state


cdef inline double next_double(const RandomSource* random) noexcept nogil:
    return random.next_double(random.state)


cdef inline Py_ssize_t draw_index(
        const double* weights, Py_ssize_t n, double total, const RandomSource* random
) noexcept nogil:
    """Draw one of 0..n-1 in proportion to its weight; `total` is their positive sum, rounded."""
    cdef double left = next_double(random) * total
    cdef double passed = 0
    cdef Py_ssize_t i, last = 0
    for i in range(n):
        if weights[i] > 0:
            passed += weights[i]
            last = i
            if left < passed:
                return i
    return last
