"""Inner loops of the network's layers and its optimizer, over arrays of single precision.

Functions are named after the layers of `spacy_rootmind.network` that they serve, which call them
where arrays are NumPy's. Products with weights are `Dense` in prediction, and NumPy's in training.
Arguments are checked there and trusted here, as are those from
`spacy_rootmind.training.optimizer`.
"""
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from "layer_simd.h" nogil:
    ctypedef struct AdamStep:
        float scale, beta1, beta2, eps, rate, decay

    ctypedef struct LayerPasses:
        void (*qrnn_cell)(
            float*, const float*, const float*, float*, float*, Py_ssize_t
        ) noexcept nogil
        void (*qrnn_gradient)(
            const float*, const float*, const float*, const float*, float*, float*, Py_ssize_t
        ) noexcept nogil
        void (*softmax)(float*, Py_ssize_t, Py_ssize_t) noexcept nogil
        void (*layer_norm)(
            const float*, const float*, const float*, float*, Py_ssize_t
        ) noexcept nogil
        void (*layer_norm_gradient)(
            const float*, const float*, const float*, float*, float*, float*, float*, Py_ssize_t
        ) noexcept nogil
        void (*maxout2)(const float*, const float*, float*, int*, Py_ssize_t) noexcept nogil
        void (*maxout3)(const float*, const float*, float*, int*, Py_ssize_t) noexcept nogil
        void (*adam)(
            float*, float*, float*, float*, const AdamStep*, Py_ssize_t
        ) noexcept nogil
        void (*move_averages)(float*, const float*, float, Py_ssize_t) noexcept nogil

    ctypedef struct Product:
        void (*multiply)(
            const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*, float*, Py_ssize_t,
            Py_ssize_t
        ) noexcept nogil
        Py_ssize_t columns

    LayerPasses layer_passes
    Product product
    bint choose_layers(bint simd, bint wide) noexcept

cdef enum:
    # Weights that an optimizer updates at a time, which stay in the processor's nearest cache.
    BLOCK = 1024
    # Rows of products that stay in the caches until they are used.
    ROWS = 96
    # The widest panel of weights on any processor.
    MAX_COLUMNS = 32


def use_simd(bint wanted, bint wide=True):
    """Use the processor's SIMD instructions, AVX-512 only if `wide`, or none: `simd.use_simd`."""
    return choose_layers(wanted, wide)


use_simd(True)


# --- products ----------------------------------------------------------------------------------


cdef inline bytearray make_scratch(Py_ssize_t size):
    """Allocate memory for floats, which have any value, until nobody holds it."""
    return PyByteArray_FromStringAndSize(NULL, size * sizeof(float))


cdef inline float* floats_of(bytearray scratch) noexcept:
    return <float*>PyByteArray_AS_STRING(scratch)


cdef class Dense:
    """A dense layer in prediction: products of rows and weights, and what follows them.

    A bias is added; with one of shape (w, p), p = 2 or 3, only the largest of each p neighbours
    stays. A residual is added, and the rows are normalized by `G` and `b` of `layer_norm`. All but
    the products can be left out.

    Weights, (n_in, n_out), are kept in the order in which the processor reads them. Products are
    NumPy's where it has no AVX2.
    """
    cdef Product product
    cdef object plain
    cdef float[:, :, ::1] panels
    cdef const float[:, ::1] bias
    cdef const float[::1] G, b
    cdef int[::1] which     # that nobody reads
    cdef Py_ssize_t n_in, n_out, width

    def __cinit__(self, plain not None, bias=None, norm=(None, None)):
        cdef Py_ssize_t n_panels
        self.product = product
        self.n_in, self.n_out = plain.shape
        self.width = self.n_out if bias is None else len(bias)
        self.bias = None if bias is None else bias.reshape(len(bias), -1)
        self.G, self.b = norm
        self.which = np.empty(self.width, dtype=np.int32)
        if product.multiply is NULL:
            self.plain = np.array(plain, dtype=np.float32, order="C")
            return
        n_panels = (self.n_out + product.columns - 1) // product.columns
        filled = np.zeros((self.n_in, n_panels * product.columns), dtype=np.float32)
        filled[:, :self.n_out] = plain
        panels = filled.reshape(self.n_in, n_panels, product.columns).swapaxes(0, 1)
        self.panels = np.ascontiguousarray(panels)

    cdef int multiply(self, const float* rows, Py_ssize_t n, float* out) except -1 nogil:
        """Multiply n rows, (n, n_in), by the weights, to `out`, (n, n_out)."""
        if self.product.multiply is not NULL:
            self.product.multiply(
                rows, n, self.n_in, self.n_in, &self.panels[0, 0, 0], out, self.n_out, self.n_out
            )
            return 0
        with gil:
            X, found = <const float[:n, :self.n_in]>rows, <float[:n, :self.n_out]>out
            np.matmul(X, self.plain, out=np.asarray(found))
        return 0

    cdef const float[:, ::1] as_rows(self, rows):
        cdef const float[:, ::1] found
        try:
            found = rows
        except ValueError:
            found = np.ascontiguousarray(rows, np.float32)
        if found.shape[1] != self.n_in:
            raise ValueError(f"expected rows of width {self.n_in}, received {found.shape[1]}")
        return found

    cdef Py_ssize_t scratch_size(self, Py_ssize_t n) noexcept:
        """Count the floats that `run` needs besides its result: products that do not fit there."""
        return min(n, ROWS) * self.n_out if self.n_out > self.width or self.G is not None else 0

    cdef int run(
        self, const float* X, Py_ssize_t n, const float* residual, float* out, float* scratch
    ) except -1 nogil:
        """Compute n rows of `out` from n rows of X, and from a residual unless it is NULL."""
        cdef Py_ssize_t w = self.width, first = 0, stop, i
        cdef bint is_apart = self.n_out > w or self.G is not None
        cdef float* products = scratch
        cdef const float* added = NULL
        while first < n:
            stop = min(first + ROWS, n)
            if not is_apart:
                products = out + first * w
            self.multiply(X + first * self.n_in, stop - first, products)
            for i in range(first, stop):
                if residual is not NULL:
                    added = residual + i * w
                self.finish(products + (i - first) * self.n_out, added, out + i * w)
            first = stop
        return 0

    def __call__(self, rows not None, const float[:, ::1] residual=None):
        """Compute rows (n, w) from rows (n, n_in), and from a residual (n, w) if there is one."""
        cdef const float[:, ::1] X = self.as_rows(rows)
        cdef Py_ssize_t n = X.shape[0]
        cdef const float* added = NULL
        found = np.empty((n, self.width), dtype=np.float32)
        cdef float[:, ::1] out = found
        cdef bytearray scratch = make_scratch(self.scratch_size(n))
        cdef float* products = floats_of(scratch)
        if n and self.width:
            if residual is not None:
                added = &residual[0, 0]
            with nogil:
                self.run(&X[0, 0], n, added, &out[0, 0], products)
        return found

    cdef void finish(self, float* row, const float* residual, float* out) noexcept nogil:
        """Make a row of `out` from a row of products, which changes and may be the same one."""
        cdef Py_ssize_t k, w = self.width
        if self.n_out > w:
            find_largest(row, 1, self.bias, out, &self.which[0], 0)
            memcpy(row, out, w * sizeof(float))
        elif self.bias is not None:
            for k in range(w):
                row[k] += self.bias[k, 0]
        if residual is not NULL:
            for k in range(w):
                row[k] += residual[k]
        if self.G is not None:
            layer_passes.layer_norm(row, &self.G[0], &self.b[0], out, w)
        elif row is not out:
            memcpy(out, row, w * sizeof(float))

cdef void find_largest(
    const float* rows, Py_ssize_t n, const float[:, ::1] bias, float* out, int* which,
    Py_ssize_t stride
) noexcept nogil:
    """Find the largest neighbours of n rows, and which these are, at each `stride` of `which`."""
    cdef Py_ssize_t i, w = bias.shape[0], width = w * bias.shape[1]
    for i in range(n):
        if bias.shape[1] == 2:
            layer_passes.maxout2(
                rows + i * width, &bias[0, 0], out + i * w, which + i * stride, w)
        else:
            layer_passes.maxout3(
                rows + i * width, &bias[0, 0], out + i * w, which + i * stride, w)


# --- qrnn --------------------------------------------------------------------------------------


cdef void run_direction(
    float* gates, const float* bias, Py_ssize_t n, bint backwards, float* cells, float* states,
    Py_ssize_t h
) noexcept nogil:
    """Run a layer over the n rows of a sentence; states are half of rows of 2 h."""
    cdef Py_ssize_t k, row
    cdef const float* before = NULL
    for k in range(n):
        row = n - 1 - k if backwards else k
        layer_passes.qrnn_cell(
            gates + row * 3 * h, bias, before, cells + row * h, states + row * 2 * h, h
        )
        before = cells + row * h


def qrnn(
    float[:, :, ::1] gates, const float[:, :, ::1] bias, const Py_ssize_t[::1] roots,
    const Py_ssize_t[::1] lengths
):
    """Run a quasi-recurrent layer in both directions over sentences; activates `gates` in place.

    `gates`, (2, n_rows, 3 h), are products of the weights of each direction: candidate, forget and
    output, side by side; `bias` is (2, 1, 3 h). `roots` has the first row of each sentence, ROOT's,
    and `lengths` its words. Returns the cells, (2, n_rows, h), and the states, (n_rows, 2 h):
    forward and backward, side by side.
    """
    cdef Py_ssize_t n_rows = gates.shape[1], h = gates.shape[2] // 3, i, row
    cdef int side
    cdef float[:, :, ::1] cells = np.empty((2, n_rows, h), dtype=np.float32)
    cdef float[:, ::1] states = np.empty((n_rows, 2 * h), dtype=np.float32)
    with nogil:
        for side in range(2):
            for i in range(roots.shape[0]):
                row = roots[i]
                run_direction(
                    &gates[side, row, 0], &bias[side, 0, 0], lengths[i] + 1, side,
                    &cells[side, row, 0], &states[row, side * h], h
                )
    return cells.base, states.base


cdef class QRNN:
    """A quasi-recurrent layer in prediction, and the layer that its states go through.

    `W` and `bias` are as for `qrnn`. Gates of a few sentences at a time are computed, and stay in
    the processor's caches.
    """
    cdef list sides
    cdef const float[:, :, ::1] bias
    cdef Dense project

    def __cinit__(self, W not None, const float[:, :, ::1] bias not None, Dense project not None):
        self.sides, self.bias, self.project = [Dense(own) for own in W], bias, project

    def __call__(self, rows_and_layout not None):
        """Compute rows from the pair of rows, which are also the residual, and their layout."""
        rows, layout = rows_and_layout
        cdef Dense weights = self.sides[0]
        cdef const float[:, ::1] X = weights.as_rows(rows)
        cdef const Py_ssize_t[::1] roots = layout.roots, lengths = layout.lengths
        cdef Py_ssize_t h = self.bias.shape[2] // 3, n_rows = X.shape[0], most = 0
        cdef Py_ssize_t first, stop, i, row, n
        cdef int side
        found = np.empty((n_rows, self.project.width), dtype=np.float32)
        cdef float[:, ::1] out = found
        for i in range(lengths.shape[0]):
            most = max(most, ROWS + lengths[i])
        cdef Py_ssize_t size = 4 * most * h + 2 * n_rows * h + self.project.scratch_size(n_rows)
        cdef bytearray scratch = make_scratch(size)
        cdef float* gates = floats_of(scratch)
        cdef float* cells = gates + 3 * most * h
        cdef float* states = cells + most * h
        for side in range(2):
            weights, stop = self.sides[side], 0
            while stop < roots.shape[0]:
                first, n = stop, 0
                while stop < roots.shape[0] and n < ROWS:
                    n += lengths[stop] + 1
                    stop += 1
                with nogil:
                    weights.multiply(&X[roots[first], 0], n, gates)
                    for i in range(first, stop):
                        row = roots[i] - roots[first]
                        run_direction(
                            gates + row * 3 * h, &self.bias[side, 0, 0], lengths[i] + 1, side,
                            cells + row * h, states + (2 * roots[i] + side) * h, h
                        )
        if n_rows:
            with nogil:
                self.project.run(states, n_rows, &X[0, 0], &out[0, 0], states + 2 * n_rows * h)
        return found


def qrnn_gradient(
    float[:, :, ::1] gates, const Py_ssize_t[::1] roots, const Py_ssize_t[::1] lengths,
    float[:, :, ::1] cells, const float[:, ::1] d_states
):
    """Find the gradient of the products, (2, n_rows, 3 h), from the gradient of the states."""
    cdef Py_ssize_t h = cells.shape[2], i, k, row, n
    cdef int side
    cdef const float* before
    cdef float[::1] d_cell = np.empty(h, dtype=np.float32)
    cdef float[:, :, ::1] d_gates = np.empty((2, cells.shape[1], 3 * h), dtype=np.float32)
    with nogil:
        for side in range(2):
            for i in range(roots.shape[0]):
                d_cell[:] = 0
                n = lengths[i]
                for k in range(n, -1, -1):
                    row = roots[i] + (n - k if side else k)
                    before = NULL
                    if k:
                        before = &cells[side, row + 1 if side else row - 1, 0]
                    layer_passes.qrnn_gradient(
                        &gates[side, row, 0], before, &cells[side, row, 0],
                        &d_states[row, side * h], &d_cell[0], &d_gates[side, row, 0], h
                    )
    return d_gates.base


# --- arcs and their refinement -----------------------------------------------------------------


cdef void matmul(
    const float* rows, Py_ssize_t n, Py_ssize_t n_in, Py_ssize_t stride,
    const float* others, Py_ssize_t n_out, Py_ssize_t down, Py_ssize_t right,
    float* panels, float* out, Py_ssize_t out_stride
) noexcept nogil:
    """Multiply n rows of width n_in by a matrix (n_in, n_out) that is not a layer's weights.

    The next entry of the matrix in a column is `down` floats away, and in a row `right`. `panels`
    has space for it, with MAX_COLUMNS more columns.
    """
    cdef Product own = product
    cdef Py_ssize_t first = 0, stop, i, j, k
    cdef float* panel = panels
    if own.multiply is NULL:
        for i in range(n):
            for j in range(n_out):
                out[i * out_stride + j] = 0
                for k in range(n_in):
                    out[i * out_stride + j] += rows[i * stride + k] * others[k * down + j * right]
        return
    while first < n_out:
        stop = min(first + own.columns, n_out)
        if stop < first + own.columns:
            memset(panel, 0, n_in * own.columns * sizeof(float))
        for j in range(first, stop):
            for k in range(n_in):
                panel[k * own.columns + j - first] = others[k * down + j * right]
        first, panel = stop, panel + n_in * own.columns
    own.multiply(rows, n, n_in, stride, panels, out, n_out, out_stride)


def score_arcs(
    const float[:, ::1] DW, const float[:, ::1] H, const float[:, ::1] by_dep,
    const float[:, ::1] by_head, buckets not None
):
    """Score each arc (dep, head) by DW . H and its distance; one array (b, m, m) per bucket.

    `DW` and `H` are (n_rows, h); `by_dep` and `by_head`, (n_rows, n_buckets), have the scores of
    the distances of dependents and heads. Places outside sentences are zeros.
    """
    cdef const Py_ssize_t[:, ::1] rows
    cdef const Py_ssize_t[::1] lengths
    cdef const int[:, ::1] distances
    cdef float[:, :, ::1] scores
    cdef Py_ssize_t h = H.shape[1], i, dep, head, n, m, first
    cdef bytearray scratch
    cdef float* panels
    cdef int near
    found = []
    for bucket in buckets:
        rows, lengths, distances = bucket.rows, bucket.lengths, bucket.distances
        m = rows.shape[1]
        scratch = make_scratch((m + MAX_COLUMNS) * h)
        panels = floats_of(scratch)
        scores = np.zeros((rows.shape[0], m, m), dtype=np.float32)
        with nogil:
            for i in range(rows.shape[0]):
                n, first = lengths[i] + 1, rows[i, 0]
                matmul(&DW[first, 0], n, h, h, &H[first, 0], n, 1, h, panels, &scores[i, 0, 0], m)
                for dep in range(n):
                    for head in range(n):
                        near = distances[dep, head]
                        scores[i, dep, head] += by_dep[first + dep, near]
                        scores[i, dep, head] += by_head[first + head, near]
        found.append(scores.base)
    return found


def add_context(const float[:, ::1] rows, scores not None, buckets not None):
    """Join each row with its likely head and dependents, under the softmax over heads.

    `scores` has arc scores (b, m, m) of each bucket. Returns rows of three times the width, and the
    softmax of each bucket: zeros in row 0, on the diagonal and outside sentences.
    """
    cdef Py_ssize_t w = rows.shape[1], i, row, other, m, n, first
    cdef float[:, ::1] context = np.empty((rows.shape[0], 3 * w), dtype=np.float32)
    cdef const Py_ssize_t[:, ::1] places
    cdef const Py_ssize_t[::1] lengths
    cdef float[:, :, ::1] probs
    cdef bytearray scratch
    cdef float* by_head
    found = []
    for bucket, own in zip(buckets, scores):
        places, lengths, probs = bucket.rows, bucket.lengths, own.copy()
        m = probs.shape[1]
        scratch = make_scratch(m * (m + w + MAX_COLUMNS))
        by_head = floats_of(scratch)
        with nogil:
            for i in range(probs.shape[0]):
                n, first = lengths[i] + 1, places[i, 0]
                memset(&probs[i, 0, 0], 0, m * sizeof(float))
                for row in range(1, n):
                    layer_passes.softmax(&probs[i, row, 0], n, row)
                    memset(&probs[i, row, 0] + n, 0, (m - n) * sizeof(float))
                memset(&probs[i, 0, 0] + n * m, 0, (m - n) * m * sizeof(float))
                for row in range(n):
                    memcpy(&context[first + row, 0], &rows[first + row, 0], w * sizeof(float))
                    for other in range(n):
                        by_head[row * n + other] = probs[i, other, row]
                matmul(
                    &probs[i, 0, 0], n, n, m, &rows[first, 0], w, w, 1, by_head + m * m,
                    &context[first, w], 3 * w
                )
                matmul(
                    by_head, n, n, n, &rows[first, 0], w, w, 1, by_head + m * m,
                    &context[first, 2 * w], 3 * w
                )
        found.append(probs.base)
    return context.base, found


# --- windows of words --------------------------------------------------------------------------


def windows(const float[:, ::1] rows, const Py_ssize_t[::1] places not None):
    """Join the rows before, at and after each place, in ascending order: (n_places, 3 w).

    Neighbours that are no places themselves are zeros.
    """
    cdef Py_ssize_t w = rows.shape[1], n = places.shape[0], i, step, place
    found = np.empty((n, 3 * w), dtype=np.float32)
    cdef float[:, ::1] out = found
    if not w:
        return found
    with nogil:
        for i in range(n):
            for step in range(-1, 2):
                place = places[i] + step
                if 0 <= i + step < n and places[i + step] == place:
                    memcpy(&out[i, (step + 1) * w], &rows[place, 0], w * sizeof(float))
                else:
                    memset(&out[i, (step + 1) * w], 0, w * sizeof(float))
    return found


# --- labels of arcs ----------------------------------------------------------------------------


def find_distances(
    const Py_ssize_t[:] deps, const Py_ssize_t[:] heads,
    const Py_ssize_t[::1] sentence_of_row, const Py_ssize_t[::1] roots, const int[::1] buckets
):
    """Find the bucket of the distance of each arc, given by the rows of its ends.

    `buckets` has one for each distance from -FAR to FAR, and then one for arcs from ROOT.
    """
    cdef Py_ssize_t i, root, far = (buckets.shape[0] - 2) // 2
    found = np.empty(deps.shape[0], dtype=np.int32)
    cdef int[::1] out = found
    for i in range(deps.shape[0]):
        root = roots[sentence_of_row[deps[i]]]
        if heads[i] == root:
            out[i] = buckets[2 * far + 1]
        else:
            out[i] = buckets[max(-far, min(heads[i] - deps[i], far)) + far]
    return found


def arc_maxout(
    const float[:, ::1] by_dep, const float[:, ::1] by_head, const float[:, ::1] by_distance,
    const Py_ssize_t[:] deps, const Py_ssize_t[:] heads, const int[::1] buckets
):
    """Find the larger of two neighbours in the sum of the terms of each arc's ends and distance.

    Terms are (n_rows, 2 w), or (n_buckets, 2 w); also returns which of the two: (n_arcs, w).
    """
    cdef Py_ssize_t i, k, w = by_dep.shape[1] // 2
    cdef float[::1] total = np.empty(2 * w, dtype=np.float32)
    cdef float[:, ::1] found = np.empty((deps.shape[0], w), dtype=np.float32)
    cdef int[:, ::1] which = np.empty((deps.shape[0], w), dtype=np.int32)
    if w:
        with nogil:
            for i in range(deps.shape[0]):
                for k in range(2 * w):
                    total[k] = by_dep[deps[i], k] + by_head[heads[i], k]
                layer_passes.maxout2(
                    &total[0], &by_distance[buckets[i], 0], &found[i, 0], &which[i, 0], w
                )
    return found.base, which.base


# --- layers of Thinc ---------------------------------------------------------------------------


def layer_norm(const float[:, ::1] rows, const float[::1] G, const float[::1] b):
    """Normalize rows (n_rows, w) to mean b and standard deviation G."""
    cdef Py_ssize_t i, w = rows.shape[1]
    normed = np.empty((rows.shape[0], w), dtype=np.float32)
    cdef float[:, ::1] out = normed
    if not w:
        return normed
    with nogil:
        for i in range(rows.shape[0]):
            layer_passes.layer_norm(&rows[i, 0], &G[0], &b[0], &out[i, 0], w)
    return normed


def layer_norm_gradient(
    const float[:, ::1] rows, const float[::1] G, const float[:, ::1] d_out
):
    """Find the gradients of rows, G and b from the gradient of the normalized rows."""
    cdef Py_ssize_t i, w = rows.shape[1]
    cdef float[:, ::1] d_rows = np.empty((rows.shape[0], w), dtype=np.float32)
    cdef float[::1] d_G = np.zeros(w, dtype=np.float32), d_b = np.zeros(w, dtype=np.float32)
    cdef float[::1] normed = np.empty(w, dtype=np.float32)
    if w:
        with nogil:
            for i in range(rows.shape[0]):
                layer_passes.layer_norm_gradient(
                    &rows[i, 0], &G[0], &d_out[i, 0], &normed[0], &d_rows[i, 0], &d_G[0], &d_b[0],
                    w
                )
    return d_rows.base, d_G.base, d_b.base


def maxout(const float[:, ::1] rows, const float[:, ::1] bias):
    """Find the largest of each p = 2 or 3 neighbours in rows (n_rows, w * p) plus a bias (w, p).

    Also returns which of the neighbours that is, the first of equals: (n_rows, w).
    """
    cdef Py_ssize_t n = rows.shape[0], w = bias.shape[0]
    cdef float[:, ::1] out = np.empty((n, w), dtype=np.float32)
    cdef int[:, ::1] which = np.empty((n, w), dtype=np.int32)
    if n and w:
        with nogil:
            find_largest(&rows[0, 0], n, bias, &out[0, 0], &which[0, 0], w)
    return out.base, which.base


# --- optimizer ---------------------------------------------------------------------------------


def adam(
    float[::1] weights, float[::1] gradient, float[::1] mom1, float[::1] mom2,
    float[::1] averages, *, float scale, float beta1, float beta2, float eps, float rate,
    float decay, float share
):
    """Update weights, both moments and, if there are any, averages, in place; clear the gradient.

    `scale` is a factor on the gradient, `rate` and `decay` are the shares of a step and of the
    weights to subtract, and averages move by `share` of their distance to the weights.
    """
    cdef Py_ssize_t block, first, n, size = weights.shape[0]
    cdef AdamStep step = AdamStep(scale, beta1, beta2, eps, rate, decay)
    cdef bint has_averages = averages is not None
    with nogil:
        for block in range((size + BLOCK - 1) // BLOCK):
            first = block * BLOCK
            n = min(BLOCK, size - first)
            layer_passes.adam(
                &weights[first], &gradient[first], &mom1[first], &mom2[first], &step, n
            )
            if has_averages:
                layer_passes.move_averages(&averages[first], &weights[first], share, n)
