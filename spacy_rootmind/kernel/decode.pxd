"""The single-root decoder, without Python objects or allocation per sentence.

Arrays follow the conventions of spacy_rootmind.trees: scores[dep, head], index 0 is ROOT, row 0
and the diagonal are never read, -inf forbids an arc.
"""
from libc.stdint cimport int32_t, uint8_t

from spacy_rootmind.kernel.batch cimport Batch, Worker, score_t

# Nodes are numbered 0 = ROOT, 1..n = words, n+1..2n-1 = contracted cycles in order of creation.
cdef struct TreeWorkspace:
    bint keep_rows          # of cycles inside other cycles, to be read later
    Py_ssize_t n_nodes      # after decode_tree without ArcMax: one past the last node
    Py_ssize_t row_width    # of the sentence at hand
    Py_ssize_t bits_width
    Py_ssize_t n_slots      # rows in use or free
    Py_ssize_t n_free
    Py_ssize_t n_merges
    void* block
    double* rows            # per slot: best arc into a cycle, per head; NaN from inside
    double* root_score      # per node: its arc from ROOT, -inf once dropped
    double* alt_score       # per node: its best arc from a word
    double* best_score      # per node: its chosen arc, fixed when the node is contracted
    double* gain            # per place among the root children: what losing its root arc gains
    uint8_t* merge_bits     # per merge a row, per head a bit: whether the arc enters the new member
    int32_t* alt_head       # per node: the word that alt_score comes from
    int32_t* best_head      # per node: the word or ROOT that best_score comes from
    int32_t* entering       # per node: head of the arc that enters it in the tree
    int32_t* first_member   # per cycle: its members, a list through next_member
    int32_t* next_member
    int32_t* entered_member  # per cycle: the member that the arc into the cycle enters
    int32_t* first_merge    # per cycle: that of its second member; the others follow
    int32_t* slot           # per cycle: the number of its row
    int32_t* n_words        # per node: words inside it
    int32_t* first_word     # per node: the words inside it, a list through next_word
    int32_t* last_word
    int32_t* stamp          # per node: mark of the path that visited it
    int32_t* next_word      # per word
    int32_t* label          # per word: shared by all words of an outermost node; 0 for ROOT
    int32_t* labelled       # per label: that node
    int32_t* free_slots     # stack
    int32_t* path           # stack of nodes, or the root children

# The cycles whose rows there is room for.
cdef enum RowsKept:
    NO_ROWS                 # for `arcmax_tree` alone
    OUTERMOST_ROWS          # 4.1 n^2 bytes, most of them used by sentences of many cycles only
    ALL_ROWS                # 8.1 n^2 bytes; they may be read after decoding

cdef int workspace_init(TreeWorkspace* ws, Py_ssize_t max_words, RowsKept rows) noexcept nogil
cdef void workspace_free(TreeWorkspace* ws) noexcept nogil

cdef int arcmax_tree(
    const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, bint single_root,
    int32_t* heads, TreeWorkspace* ws) noexcept nogil

cdef int decode_tree(
    const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, bint single_root, bint arcmax,
    int32_t* heads, TreeWorkspace* ws) noexcept nogil

cdef bint sums_overflow(const double* square, Py_ssize_t n) noexcept nogil
cdef bint tree_is_projective(
    const int32_t* heads, Py_ssize_t n, int32_t* scratch) noexcept nogil

# A decoder of batches is a subclass of Decoder, in the file of its algorithm, and a row in the
# table of spacy_rootmind.trees.decoding.
#
# Writes the best tree of a sentence to heads[0..n]; returns a Status.
ctypedef int (*DecodeFunction)(
    DecoderState* state, const Batch* batch, Py_ssize_t sentence, int32_t* heads) noexcept nogil

cdef struct DecoderState:
    DecodeFunction decode
    void* workspace                 # the algorithm's own
    bint single_root
    bint arcmax                     # ArcMax before all else
    double* square                  # for a copy of the scores by `gather`; NULL if none is needed

cdef class Decoder(Worker):
    cdef DecoderState c
