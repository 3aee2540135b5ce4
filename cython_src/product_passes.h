/* The product of rows and weights, for processors with fused multiply-add and vectors of 4 * WIDE
 * bytes. `layer_simd.h` includes it once for each kind.
 *
 * Weights lie in panels of 2 * WIDE columns, the last one filled up with zeros. Sums have one
 * product after the other, so that they depend on neither the processor nor the other rows.
 */
typedef float PASS(vector) __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));

/* Some neighbouring rows and a panel, of which `columns` are wanted. */
PASS_FUNCTION static INLINED void PASS(tile)(
    const int height, const float *rows, ptrdiff_t width, ptrdiff_t stride, const float *panel,
    ptrdiff_t columns, float *out, ptrdiff_t out_stride)
{
    PASS(vector) sums[MOST][2];
    ptrdiff_t k;
    int i;
#pragma GCC unroll 12
    for (i = 0; i < height; ++i)
        sums[i][0] = sums[i][1] = (PASS(vector)){0};
    for (k = 0; k < width; ++k) {
        const PASS(vector) *pair = (const PASS(vector) *)(panel + 2 * WIDE * k);
        const PASS(vector) left = pair[0], right = pair[1];
#pragma GCC unroll 12
        for (i = 0; i < height; ++i) {
            sums[i][0] += rows[i * stride + k] * left;
            sums[i][1] += rows[i * stride + k] * right;
        }
    }
#pragma GCC unroll 12
    for (i = 0; i < height; ++i) {
        if (columns >= 2 * WIDE) {
            ((PASS(vector) *)(out + i * out_stride))[0] = sums[i][0];
            ((PASS(vector) *)(out + i * out_stride))[1] = sums[i][1];
        } else
            memcpy(out + i * out_stride, sums[i], (size_t)columns * sizeof(float));
    }
}

/* All of n rows (n, width) and panels: (n, n_out). Rows lie a stride apart, and so do results.
 * Sums of MOST rows fit into the registers. */
PASS_FUNCTION static void PASS(multiply)(
    const float *rows, ptrdiff_t n, ptrdiff_t width, ptrdiff_t stride, const float *panels,
    float *out, ptrdiff_t n_out, ptrdiff_t out_stride)
{
    ptrdiff_t i, first, height;
    for (first = 0; first < n_out; first += 2 * WIDE) {
        /* Tiles of nearly the same height, since low ones are slow. */
        for (i = 0; i < n; i += height) {
            const ptrdiff_t tiles = (n - i + MOST - 1) / MOST;
            height = (n - i + tiles - 1) / tiles;
#define TILE(HEIGHT)                                                                             \
    case HEIGHT:                                                                                 \
        PASS(tile)(                                                                              \
            HEIGHT, rows + i * stride, width, stride, panels + first * width, n_out - first,     \
            out + i * out_stride + first, out_stride);                                           \
        break;
            switch (height) {
                TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if MOST > 6
                TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
#endif
            }
#undef TILE
        }
    }
}
