/* Passes over rows of weights, in C that compilers turn into vector instructions of any processor:
 * sums have four parts, which the inner loops add to.
 *
 * Included once for each set of instructions, with PASS(name), what a pass is called there, and
 * PASS_FUNCTION, the attribute of a function for these instructions.
 */

/* exp(score - shift), for differences of at most 0; 0 for those below LOWEST_EXPONENT.
 *
 * It is 2^k exp(r), |r| <= ln(2)/2, by the Taylor polynomial of degree 13, whose remainder is 4e-18
 * there. Without branches, so that loops over it are vectorised.
 */
PASS_FUNCTION static INLINED double PASS(exp_of_difference)(double score, double shift)
{
    const double lowest = shift + LOWEST_EXPONENT;
    double low, r, power, scale;
    const double high = subtract_exactly(score >= lowest ? score : lowest, shift, &low);
    /* In the sum, the last bits are k, the nearest whole number. */
    const double sum = high * 1.4426950408889634 + 0x1.8p52;
    const double k = sum - 0x1.8p52;
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    /* Where `lowest` was rounded, only one of these may tell that the difference is too low. */
    bits = ((score >= lowest) & (high >= LOWEST_EXPONENT)) ? bits : 0;
    memcpy(&scale, &bits, sizeof scale);
    /* ln(2) in two parts; k times the first is exact. */
    r = (high - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33 + low;
    power = 1.0 / 6227020800.0;
#define NEXT_TERM(FACTORIAL) power = power * r + 1.0 / FACTORIAL
    NEXT_TERM(479001600.0);
    NEXT_TERM(39916800.0);
    NEXT_TERM(3628800.0);
    NEXT_TERM(362880.0);
    NEXT_TERM(40320.0);
    NEXT_TERM(5040.0);
    NEXT_TERM(720.0);
    NEXT_TERM(120.0);
    NEXT_TERM(24.0);
    NEXT_TERM(6.0);
    NEXT_TERM(2.0);
    NEXT_TERM(1.0);
    NEXT_TERM(1.0);
#undef NEXT_TERM
    return power * scale;
}

/* exp_row: out[i] = exp(scores[i] - shift), for differences of at most 0. */
PASS_FUNCTION static void PASS(exp_row)(
    double *RESTRICT out, const double *RESTRICT scores, double shift, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i)
        out[i] = PASS(exp_of_difference)(scores[i], shift);
}

/* sum_row: the sum of row[0..n-1]. */
PASS_FUNCTION static double PASS(sum_row)(const double *row, ptrdiff_t n)
{
    double sums[LANES] = {0.0, 0.0, 0.0, 0.0}, sum;
    ptrdiff_t i, lane;
    for (i = 0; i + LANES <= n; i += LANES)
        for (lane = 0; lane < LANES; ++lane)
            sums[lane] += row[i + lane];
    sum = ADD_LANES(sums);
    for (; i < n; ++i)
        sum += row[i];
    return sum;
}

/* dot: the sum of a[i] b[i]; one of the two holds zeros from n to the next multiple of 4. */
PASS_FUNCTION static double PASS(dot)(const double *a, const double *b, ptrdiff_t n)
{
    double sums[LANES] = {0.0, 0.0, 0.0, 0.0};
    ptrdiff_t i, lane;
    for (i = 0; i < n; i += LANES)
        for (lane = 0; lane < LANES; ++lane)
            sums[lane] += a[i + lane] * b[i + lane];
    return ADD_LANES(sums);
}

/* divide_row: out[i] = row[i] / total. */
PASS_FUNCTION static void PASS(divide_row)(
    double *RESTRICT out, const double *RESTRICT row, double total, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i)
        out[i] = row[i] / total;
}

/* multiply_rows: out[i] = a[i] b[i], but at most 1. */
PASS_FUNCTION static void PASS(multiply_rows)(
    double *RESTRICT out, const double *RESTRICT a, const double *RESTRICT b, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const double product = a[i] * b[i];
        out[i] = product > 1.0 ? 1.0 : product;
    }
}

/* apply_pivots: for k = last, last - 1, ..., first add row[k] times the first k weights of the
 * pivot row k to those of `row`. Pivot rows hold zeros from their diagonal on. */
PASS_FUNCTION static void PASS(apply_pivots)(
    double *RESTRICT row, const double *RESTRICT pivots, ptrdiff_t stride, ptrdiff_t last,
    ptrdiff_t first)
{
    ptrdiff_t i, k;
    /* Four pivots at a time: each weight of the row is then loaded and stored once for all four. */
    for (k = last; k - 3 >= first; k -= 4) {
        const double *p0 = pivots + k * stride, *p1 = p0 - stride, *p2 = p1 - stride;
        const double *p3 = p2 - stride;
        const double f0 = row[k];
        const double f1 = row[k - 1] + f0 * p0[k - 1];
        const double f2 = row[k - 2] + f0 * p0[k - 2] + f1 * p1[k - 2];
        const double f3 = row[k - 3] + f0 * p0[k - 3] + f1 * p1[k - 3] + f2 * p2[k - 3];
        const ptrdiff_t end = WHOLE_LANES(k - 3);
        for (i = 0; i < end; ++i)
            row[i] = (row[i] + f0 * p0[i] + f2 * p2[i]) + (f1 * p1[i] + f3 * p3[i]);
        /* The last vector may have run into these. */
        row[k - 1] = f1;
        row[k - 2] = f2;
        row[k - 3] = f3;
    }
    for (; k >= first; --k) {
        const double *pivot = pivots + k * stride;
        const double factor = row[k];
        const ptrdiff_t end = WHOLE_LANES(k);
        for (i = 0; i < end; ++i)
            row[i] += factor * pivot[i];
    }
}
