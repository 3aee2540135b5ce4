"""The parts of every decoder of batches.

A new decoder is a subclass of Decoder, in the file of its algorithm, and a row in the table of
spacy_rootmind.trees.decoding.
"""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.batch cimport Batch, Worker

# Writes the best tree of a sentence to heads[0..n]; returns a DecodeStatus. The one works on a copy
# of the scores, `state.square`, which it may change.
ctypedef int (*CopyDecoder)(DecoderState* state, Py_ssize_t n, int32_t* heads) noexcept nogil
# The other reads the scores of a plain batch in place; DECODE_UNSETTLED to be given a copy.
ctypedef int (*InPlaceDecoder)(
    DecoderState* state, const Batch* batch, Py_ssize_t sentence, int32_t* heads) noexcept nogil

cdef struct DecoderState:
    CopyDecoder decode_copy
    InPlaceDecoder decode_in_place  # NULL if the algorithm always needs a copy
    bint always_in_place            # it never needs one if the batch is plain
    void* workspace                 # the algorithm's own
    bint single_root
    bint arcmax                     # ArcMax before all else
    bint arcmax_inside              # ArcMax in every run of an algorithm inside another
    double* square                  # contiguous, float64, -inf where not allowed
    int32_t* heads                  # the output, a row per sentence
    Py_ssize_t width                # of a row of heads

cdef class Decoder(Worker):
    cdef DecoderState c
    cdef Py_ssize_t max_words
