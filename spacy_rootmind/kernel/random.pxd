"""Random numbers from streams that take no time to begin, and draws in proportion to weights."""
from libc.stdint cimport uint64_t

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


cdef inline double next_double(Stream* random) noexcept nogil:
    cdef uint64_t found = rotate(random.a + random.d, 23) + random.a
    cdef uint64_t moved = random.b << 17
    random.c ^= random.a
    random.d ^= random.b
    random.b ^= random.c
    random.a ^= random.d
    random.c ^= moved
    random.d = rotate(random.d, 45)
    return <double>(found >> 11) * 2.0**-53


cdef inline Py_ssize_t draw_index(
        const double* weights, Py_ssize_t n, double total, Stream* random
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
