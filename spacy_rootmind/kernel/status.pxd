"""Results of the kernel's functions, in place of exceptions."""

cdef enum Status:
    UNSETTLED = 1       # there is no tree yet, or no float64 for its sum: another function goes on
    OK = 0
    NO_TREE = -1
    BAD_SCORE = -2
    NO_MEMORY = -3
    LOST_DIGITS = -4    # magnitudes too large to be added up
    NO_STEPS = -5       # a random walk took more steps than it had
    INTERRUPTED = -6
