"""Trees drawn by putting words in, one after another."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.elimination cimport TreeSum
from spacy_rootmind.kernel.random cimport RandomSource

# Elements of rows are float64, or Wide where the sums are.
cdef struct Insertion:
    Py_ssize_t max_words
    size_t item_size        # that there is room for
    void* block
    void* columns           # row i: what the words after i, when eliminated, had of head i
    void* root_weights      # per word: of its root arc
    void* root_totals       # per word: the same when it was eliminated
    void* root_shares       # per word: that over the weight of its other heads
    Py_ssize_t root         # the word that these make the root token, 0 for any; -1 for none yet
    void* word_block
    double* weights         # a row
    int32_t* first_due      # per word: those that will hang from it when it comes in, as a list
    int32_t* next_due       # per word
    unsigned char* cut      # per word: whether its arc is about to go
    unsigned char* state    # per word

cdef int insertion_init(Insertion* insertion, Py_ssize_t max_words) noexcept nogil
cdef void insertion_free(Insertion* insertion) noexcept nogil
# Prepares draws from a sentence that was summed over. O(n^2). Returns a DecodeStatus.
cdef int insertion_begin(Insertion* insertion, const TreeSum* sum) noexcept nogil
# Draws heads[0..n], with a single root under the condition that `root` is the root token, unless it
# is 0. Returns a DecodeStatus.
cdef int insertion_draw(
    Insertion* insertion, const TreeSum* sum, Py_ssize_t root, const RandomSource* random,
    int32_t* heads) noexcept nogil
