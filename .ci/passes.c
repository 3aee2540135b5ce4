/* Compares the passes over rows that a platform's table holds with plain loops, on random rows of
 * every length up to 70. Prints what differs; `.ci/cross.py` compiles it.
 *
 * Rows have room for a multiple of 4, as the kernels give them, and one more, which stays as it is.
 */
#include <stdio.h>
#include <string.h>

#include "decode_simd.h"
#include "sum_simd.h"

enum { LONGEST = 70, ROOM = 80, ROUNDS = 20 };

static int failures;

static void expect(int right, const char *pass, ptrdiff_t n)
{
    if (!right) {
        ++failures;
        printf("%s differs for n = %d\n", pass, (int)n);
    }
}

static int close_to(double value, double expected)
{
    return fabs(value - expected) <= 1e-13 * (1.0 + fabs(expected));
}

static int few_digits_differ(double value, double expected)
{
    return fabs(value - expected) <= 5e-16 * expected;
}

/* Between 0 and 1; the generator is splitmix64. */
static double draw(void)
{
    static uint64_t state = 1;
    uint64_t z = (state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Weights before n; zeros from there up to a multiple of 4, and a mark after that. */
static void draw_row(double *row, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < ROOM; ++i)
        row[i] = i < n ? draw() : 0.0;
}

/* Scores with ties, and some arcs that are forbidden. */
static void draw_scores(double *row, float *narrow, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        row[i] = draw() < 0.2 ? -(double)INFINITY : floor(8.0 * draw()) - 4.0;
        narrow[i] = (float)row[i];
    }
}

static void check_scan(ptrdiff_t n)
{
    static double scores[(LONGEST + 1) * ROOM];
    static float narrow[(LONGEST + 1) * ROOM];
    double alt[LONGEST + 1], alt_narrow[LONGEST + 1];
    int32_t alt_head[LONGEST + 1], head[LONGEST + 1], alt_head_narrow[LONGEST + 1], head_narrow[LONGEST + 1];
    int status, status_narrow, expected = SCAN_OK;
    ptrdiff_t dep, i;
    for (dep = 0; dep <= n; ++dep)
        draw_scores(scores + dep * ROOM, narrow + dep * ROOM, n + 1);
    status = row_passes.scan_f64(scores, ROOM, n, alt, alt_head, head);
    status_narrow = row_passes.scan_f32(narrow, ROOM, n, alt_narrow, alt_head_narrow, head_narrow);
    for (dep = 1; dep <= n; ++dep) {
        const double *row = scores + dep * ROOM;
        double best = -(double)INFINITY;
        int32_t best_head = 0;
        for (i = 1; i <= n; ++i)
            if (i != dep && row[i] > best) {
                best = row[i];
                best_head = (int32_t)i;
            }
        if (best_head == 0 && row[0] == -(double)INFINITY)
            expected = SCAN_NO_HEAD;
        expect(alt[dep] == best && alt_head[dep] == best_head, "scan_f64", n);
        expect(alt_narrow[dep] == best && alt_head_narrow[dep] == best_head, "scan_f32", n);
        best_head = row[0] >= best ? 0 : best_head;
        expect(head[dep] == best_head && head_narrow[dep] == best_head, "the best head", n);
    }
    expect(status == expected && status_narrow == expected, "the status of a scan", n);
    scores[ROOM + n] = n == 1 ? 0.0 : (double)NAN;
    if (n > 1)
        expect(
            row_passes.scan_f64(scores, ROOM, n, alt, alt_head, head) == SCAN_BAD_SCORE,
            "scan_f64 of a NaN", n);
}

static void check_scores(ptrdiff_t n)
{
    double row[ROOM], other[ROOM], out[ROOM], before[ROOM], best, expected = -(double)INFINITY;
    float narrow[ROOM], unused[ROOM];
    uint8_t bits[ROOM / 8 + 1];
    ptrdiff_t i;
    memset(bits, 0, sizeof bits);
    draw_scores(row, narrow, n + 1);
    draw_scores(other, unused, n + 1);
    row_passes.lower_f64(out, row, 0.5, n);
    for (i = 0; i <= n; ++i)
        expect(out[i] == row[i] - 0.5, "lower_f64", n);
    row_passes.lower_f32(out, narrow, 0.5, n);
    for (i = 0; i <= n; ++i)
        expect(out[i] == row[i] - 0.5, "lower_f32", n);
    memcpy(before, other, sizeof before);
    memcpy(out, other, sizeof out);
    row_passes.merge_f64(out, 0.25, row, 0.5, n, bits);
    for (i = 0; i <= n; ++i) {
        const int better = row[i] - 0.5 > before[i] - 0.25;
        expect(out[i] == (better ? row[i] - 0.5 : before[i] - 0.25), "merge_f64", n);
        expect(((bits[i >> 3] >> (i & 7)) & 1) == better, "the bits of merge_f64", n);
    }
    memcpy(out, other, sizeof out);
    row_passes.merge_f32(out, 0.25, narrow, 0.5, n, bits);
    for (i = 0; i <= n; ++i) {
        const int better = row[i] - 0.5 > before[i] - 0.25;
        expect(out[i] == (better ? row[i] - 0.5 : before[i] - 0.25), "merge_f32", n);
    }
    for (i = 0; i < n; ++i)
        expected = row[i] + other[i] > expected ? row[i] + other[i] : expected;
    expect(row_passes.max_sum(row, other, n) == expected, "max_sum", n);
    expected = -(double)INFINITY;
    for (i = 1; i <= n; ++i)
        expected = row[i] > expected ? row[i] : expected;
    i = row_passes.scan_row(row, n, &best);
    expect(best == expected && (i == 0 || row[i] == best), "scan_row", n);
}

static void check_weights(ptrdiff_t n)
{
    double a[ROOM], b[ROOM], out[ROOM], sum = 0.0, product = 0.0, largest = -(double)INFINITY;
    int bad = 0;
    ptrdiff_t i;
    draw_row(a, n);
    draw_row(b, n);
    for (i = 0; i < n; ++i) {
        sum += a[i];
        product += a[i] * b[i];
        largest = a[i] > largest ? a[i] : largest;
    }
    expect(close_to(weight_passes.sum_row(a, n), sum), "sum_row", n);
    expect(close_to(weight_passes.dot(a, b, n), product), "dot", n);
    expect(weight_passes.max_of_row(a, n, &bad) == largest && !bad, "max_of_row", n);
    expect(close_to(weight_passes.multiply_rows(out, a, b, n), product), "multiply_rows", n);
    weight_passes.divide_row(out, a, 3.0, n);
    for (i = 0; i < n; ++i)
        expect(out[i] == a[i] / 3.0, "divide_row", n);
    weight_passes.exp_row(out, a, 1.0, n);
    for (i = 0; i < n; ++i)
        expect(close_to(out[i], exp(a[i] - 1.0)), "exp_row", n);
    if (n > 0) {
        a[n - 1] = (double)INFINITY;
        weight_passes.max_of_row(a, n, &bad);
        expect(bad, "max_of_row of +inf", n);
    }
}

/* Differences from 0 to far below those whose weights are above 0, exact and rounded. */
static void check_exp(ptrdiff_t n)
{
    static const double shifts[] = {0.0, 1.0, -3e5, 1e17, 6e18, -1e300};
    double scores[ROOM], out[ROOM];
    size_t which;
    ptrdiff_t i;
    for (which = 0; which < sizeof shifts / sizeof *shifts; ++which) {
        const double shift = shifts[which];
        for (i = 0; i < n; ++i)
            scores[i] = draw() < 0.1 ? -(double)INFINITY : shift - ldexp(draw(), (int)(20 * draw()));
        weight_passes.exp_row(out, scores, shift, n);
        for (i = 0; i < n; ++i) {
            double low;
            const double high = subtract_exactly(scores[i], shift, &low);
            const double weight = high < LOWEST_EXPONENT ? 0.0 : exp(high) * (1.0 + low);
            expect(few_digits_differ(out[i], weight), "exp_row", n);
        }
    }
}

static void check_matrix(ptrdiff_t n)
{
    static double matrix[(LONGEST + 1) * ROOM];
    double row[ROOM], expected[ROOM], pivot[ROOM], factors[ROOM], sums[ROOM], products[ROOM];
    ptrdiff_t i, k;
    /* Rows of a matrix whose weights end before the diagonal. */
    for (k = 0; k <= n; ++k)
        draw_row(matrix + k * ROOM, k);
    draw_row(row, n + 1);
    memcpy(expected, row, sizeof row);
    weight_passes.apply_pivots(row, matrix, ROOM, n, 1);
    for (k = n; k >= 1; --k)
        for (i = 0; i < k; ++i)
            expected[i] += expected[k] * matrix[k * ROOM + i] / 1.0;
    for (i = 0; i <= n; ++i)
        expect(fabs(row[i] - expected[i]) <= 1e-12 * (1.0 + fabs(expected[i])), "apply_pivots", n);
    for (k = 0; k <= n; ++k)
        draw_row(matrix + k * ROOM, n);
    draw_row(pivot, n);
    draw_row(factors, n);
    weight_passes.pull_back(matrix, ROOM, n, pivot, factors, sums, products);
    for (i = 0; i < n; ++i) {
        double sum = 0.0, product = 0.0;
        for (k = 1; k < n; ++k)
            sum += factors[k] * matrix[k * ROOM + i];
        expect(close_to(sums[i], sum), "the sums of pull_back", n);
        for (k = 0; k < n; ++k)
            product += matrix[i * ROOM + k] * pivot[k];
        expect(i == 0 || close_to(products[i], product), "the products of pull_back", n);
    }
}

int main(void)
{
    int simd;
    for (simd = 0; simd <= 1; ++simd) {
        const int rows = choose_row_passes(simd), weights = choose_weight_passes(simd);
        int round;
        ptrdiff_t n;
        for (n = 0; n <= LONGEST; ++n)
            for (round = 0; round < ROUNDS; ++round) {
                if (n > 0) {
                    check_scan(n);
                    check_scores(n);
                }
                check_weights(n);
                check_exp(n);
                check_matrix(n);
            }
        printf("%s passes: %d differences\n", rows && weights ? "SIMD" : "portable", failures);
    }
    return failures != 0;
}
