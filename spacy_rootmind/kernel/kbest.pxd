"""The k best trees of one sentence, O(k n^2)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.decode cimport TreeWorkspace

# A set of trees: all in the parent set that have the arc, or all that do not. Set 0 holds all
# trees.
cdef struct TreeSet:
    Py_ssize_t parent
    int32_t dep
    int32_t head
    bint required
    bint one_root_arc       # some set up to here requires a root arc, which rules out all others

# A number as the sum of two, the second below the last place of the first.
cdef struct Exact:
    double high
    double low

# The best tree of a set that is still to come, known by its score and by an arc that it lacks.
cdef struct Pending:
    Exact gain              # its score beyond that of the first tree
    Py_ssize_t order        # ties go to the older
    Py_ssize_t tree_set
    Py_ssize_t known        # the tree of the set that has been found before; -1 if none
    int32_t dep             # an arc of the known tree that the best other one lacks
    int32_t head

cdef struct KBestSearch:
    Py_ssize_t n
    Py_ssize_t k            # trees wanted
    bint single_root
    const double* scores    # (n+1) x (n+1), as given
    double* square          # the same, with the arcs of one set
    TreeWorkspace tree
    int32_t* heads          # found x (n+1): trees, best first
    Py_ssize_t found
    Py_ssize_t heads_room
    TreeSet* sets
    Py_ssize_t n_sets
    Py_ssize_t sets_room
    Pending* queue          # binary heap
    Py_ssize_t n_pending
    Py_ssize_t queue_room
    Py_ssize_t order
    void* block
    int32_t* candidate      # heads of the tree at hand
    int32_t* first_child    # per word of it: lists of dependents
    int32_t* next_sibling
    int32_t* begin          # per word of it: its place in preorder
    int32_t* end            # per word of it: one past the place of its last descendant
    int32_t* todo

cdef int k_best_init(
    KBestSearch* search, const double* scores, Py_ssize_t n, Py_ssize_t k, bint single_root
) noexcept nogil
cdef int k_best_trees(KBestSearch* search) noexcept nogil
cdef void k_best_free(KBestSearch* search) noexcept nogil
