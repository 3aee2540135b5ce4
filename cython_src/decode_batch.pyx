"""The Python boundary of the decoders, for batches of sentences.

Arguments are checked in spacy_rootmind.trees.decoding and trusted here.
"""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, gather, run_batch
from spacy_rootmind.kernel.decode cimport DECODE_OK, DECODE_UNSETTLED


cdef int decode_sentence(
        void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Decode one sentence to its row of heads, padded with -1; returns a DecodeStatus."""
    cdef DecoderState* decoder = <DecoderState*>state
    cdef Py_ssize_t n = batch.lengths[sentence]
    cdef int32_t* heads = decoder.heads + sentence * decoder.width
    cdef Py_ssize_t padding
    cdef int status = DECODE_UNSETTLED
    if batch.is_plain and decoder.decode_in_place is not NULL:
        status = decoder.decode_in_place(decoder, batch, sentence, heads)
    if status == DECODE_UNSETTLED:
        gather(batch, sentence, decoder.square)
        status = decoder.decode_copy(decoder, n, heads)
    for padding in range(n + 1, decoder.width):
        heads[padding] = -1
    return status


cdef class Decoder(Worker):
    """An algorithm with its memory, for one thread and sentences of up to `max_words` words.

    Subclasses take these arguments first, then their own.
    """

    def __cinit__(
            self, Py_ssize_t max_words, bint single_root, bint arcmax, bint arcmax_inside, *args):
        self.handle = decode_sentence
        self.state = &self.c
        self.max_words = max_words
        self.c.single_root = single_root
        self.c.arcmax = arcmax
        self.c.arcmax_inside = arcmax_inside


def decode_batch(
        object scores, object allowed, object lengths, int32_t[:, ::1] heads not None,
        list decoders not None):
    """Decode all sentences to heads, padded with -1; one thread per decoder.

    `scores`, `allowed` and `lengths` are as for ScoreBuffer. Returns (status, sentence) of the
    first sentence that fails, or (OK, any).
    """
    cdef ScoreBuffer buffer = ScoreBuffer(scores, allowed, lengths)
    cdef Decoder decoder
    if buffer.c.n_sentences == 0:
        return DECODE_OK, 0
    for decoder in decoders:
        decoder.c.heads = &heads[0, 0]
        decoder.c.width = heads.shape[1]
        if not (buffer.c.is_plain and decoder.c.always_in_place):
            decoder.c.square = decoder.make_square(decoder.max_words)
    return run_batch(buffer, decoders)
