"""Pool of threads that share the sentences of a batch and stay between calls."""

# Handles sentences start..stop-1 with one thread's state. Returns 0, or the status of the first
# sentence that failed, and its number in `failed`.
ctypedef int (*ChunkFunction)(
    void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil

cdef int run_chunks(
    ChunkFunction function, void** states, Py_ssize_t n_threads, const Py_ssize_t* lengths,
    Py_ssize_t n_sentences, Py_ssize_t* failed) noexcept nogil
cdef void start_helpers(Py_ssize_t n_threads)
