"""Interface to random numbers of any source, and one that takes no time to begin."""
from libc.stdint cimport uint64_t

# A stream as below, or what other packages draw from.
cdef struct RandomSource:
    double (*next_double)(void* state) noexcept nogil   # from 0 to below 1
    void* state

# xoshiro256++ of Blackman & Vigna (2021), begun as they advise, by SplitMix64.
cdef struct Stream:
    uint64_t a
    uint64_t b
    uint64_t c
    uint64_t d


cdef inline uint64_t split_mix(uint64_t number) noexcept nogil:
    number = (number ^ (number >> 30)) * <uint64_t>0xbf58476d1ce4e5b9ULL
    number = (number ^ (number >> 27)) * <uint64_t>0x94d049bb133111ebULL
    return number ^ (number >> 31)


cdef inline void stream_begin(Stream* stream, const uint64_t* seed) noexcept nogil:
    """Begin the stream of a seed of two words; seeds that are alike give streams that are not."""
    cdef uint64_t step = <uint64_t>0x9e3779b97f4a7c15ULL
    stream.a = split_mix(seed[0] + step)
    stream.b = split_mix(seed[0] + 2 * step)
    stream.c = split_mix(seed[1] + step)
    stream.d = split_mix(seed[1] + 2 * step)


cdef inline uint64_t rotate(uint64_t number, int places) noexcept nogil:
    return (number << places) | (number >> (64 - places))


cdef inline double stream_double(Stream* stream) noexcept nogil:
    cdef uint64_t found = rotate(stream.a + stream.d, 23) + stream.a
    cdef uint64_t moved = stream.b << 17
    stream.c ^= stream.a
    stream.d ^= stream.b
    stream.b ^= stream.c
    stream.a ^= stream.d
    stream.c ^= moved
    stream.d = rotate(stream.d, 45)
    return <double>(found >> 11) * 2.0**-53


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
