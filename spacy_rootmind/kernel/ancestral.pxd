"""Sampling by inserting words one after another."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.partition cimport TreeSum
from spacy_rootmind.kernel.random cimport Stream

# Elements of rows are float64, or ExtendedFloat where the sums are.
cdef struct Ancestral:
    Py_ssize_t max_words
    size_t item_size        # of the items that there is room for
    void* block
    void* columns           # row i: the shares of head i in the words after it, when eliminated
    void* root_weights      # per word: weight of its root arc
    void* root_totals       # per word: the same when the word was eliminated
    void* root_shares       # per word: that over the weight of its other heads
    Py_ssize_t root         # the root token that these are for, 0 for any; -1 for none yet
    void* word_block
    double* weights         # a row
    int32_t* first_waiting      # per word: those that get it as head when it is inserted, a list
    int32_t* next_waiting       # per word
    unsigned char* cut      # per word: whether its arc is about to be replaced
    int32_t* state          # per word

cdef int ancestral_init(Ancestral* ancestral, Py_ssize_t max_words) noexcept nogil
cdef void ancestral_free(Ancestral* ancestral) noexcept nogil
cdef void ancestral_begin(Ancestral* ancestral, const TreeSum* sum) noexcept nogil
cdef void ancestral_draw(
    Ancestral* ancestral, const TreeSum* sum, Py_ssize_t root, Stream* random,
    int32_t* heads) noexcept nogil
