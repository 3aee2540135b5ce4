/* Passes over rows of weights: the inner loops of probabilities and samples.
 *
 * Weights are exponentials of scores: never negative. All passes only add, multiply and divide
 * them, so every result is accurate to a few units in the last place, relative to itself.
 *
 * Each pass on float64 exists in portable C and for AVX2 with FMA. Rows have room up to a multiple of 4 past the last weight that is read, and hold finite numbers
 * there: vector passes read on to the next multiple of 4 past what they are asked for, and what
 * they find there is multiplied by zero.
 */
#ifndef ROOTMIND_SUM_SIMD_H
#define ROOTMIND_SUM_SIMD_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "passes.h"
#include "processor.h"
#include "extended_float.h"

#ifdef HAS_AVX2_PASSES
#define FMA_FUNCTION __attribute__((target("avx2,fma")))
#endif

#if defined(_MSC_VER)
#define RESTRICT __restrict
#elif !defined(RESTRICT)
#define RESTRICT restrict
#endif

/* What is below is beyond the reach of float64: exp(-708) is its smallest normal number. */
#define LOWEST_EXPONENT (-708.0)

/* --- portable ------------------------------------------------------------------------------- */

/* max_of_row: the largest of row[0..n-1]; sets `bad` if it meets a NaN or +inf. */
static double max_of_row_portable(const double *row, ptrdiff_t n, int *bad)
{
    double largest = -(double)INFINITY;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        *bad |= !(row[i] <= DBL_MAX);
        largest = row[i] > largest ? row[i] : largest;
    }
    return largest;
}

/* exp_row: out[i] = exp(scores[i] - shift), for differences of at most 0. */
static void exp_row_portable(
    double *RESTRICT out, const double *RESTRICT scores, double shift, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        double low;
        const double high = subtract_exactly(scores[i], shift, &low);
        /* exp(high + low), where low is below the last place of high. */
        const double weight = high < LOWEST_EXPONENT ? 0.0 : exp(high);
        out[i] = weight == 0.0 ? 0.0 : weight + weight * low;
    }
}

/* sum_row: the sum of row[0..n-1]. */
static double sum_row_portable(const double *row, ptrdiff_t n)
{
    double sum = 0.0;
    ptrdiff_t i;
    for (i = 0; i < n; ++i)
        sum += row[i];
    return sum;
}

/* dot: the sum of a[i] b[i]; one of the two holds zeros from n to the next multiple of 4. */
static double dot_portable(const double *a, const double *b, ptrdiff_t n)
{
    double sum = 0.0;
    ptrdiff_t i;
    for (i = 0; i < n; ++i)
        sum += a[i] * b[i];
    return sum;
}

/* apply_pivots: for k = last, last - 1, ..., first add row[k] times the first k weights of the
 * pivot row k to those of `row`. Pivot rows hold zeros from their diagonal on. */
static void apply_pivots_portable(
    double *RESTRICT row, const double *RESTRICT pivots, ptrdiff_t stride, ptrdiff_t last,
    ptrdiff_t first)
{
    ptrdiff_t i, k;
    for (k = last; k >= first; --k) {
        const double factor = row[k];
        const double *pivot = pivots + k * stride;
        for (i = 0; i < k; ++i)
            row[i] += factor * pivot[i];
    }
}

/* divide_row: out[i] = row[i] / total. */
static void divide_row_portable(
    double *RESTRICT out, const double *RESTRICT row, double total, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i)
        out[i] = row[i] / total;
}

/* multiply_rows: out[i] = a[i] b[i], but at most 1; returns their sum. */
static double multiply_rows_portable(
    double *RESTRICT out, const double *RESTRICT a, const double *RESTRICT b, ptrdiff_t n)
{
    double sum = 0.0;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const double product = a[i] * b[i];
        out[i] = product > 1.0 ? 1.0 : product;
        sum += product;
    }
    return sum;
}

/* pull_back: for rows j = 1..k-1 of a matrix, products[j] = the dot product of row j with `pivot`,
 * and sums = the sum of factors[j] times row j. `sums` has room up to a multiple of 4; `pivot`
 * holds zeros from k on. */
static void pull_back_portable(
    const double *RESTRICT matrix, ptrdiff_t stride, ptrdiff_t k, const double *RESTRICT pivot,
    const double *RESTRICT factors, double *RESTRICT sums, double *RESTRICT products)
{
    ptrdiff_t i, j;
    for (i = 0; i < k; ++i)
        sums[i] = 0.0;
    for (j = 1; j < k; ++j) {
        const double *row = matrix + j * stride;
        double product = 0.0;
        for (i = 0; i < k; ++i) {
            product += row[i] * pivot[i];
            sums[i] += factors[j] * row[i];
        }
        products[j] = product;
    }
}

/* --- AVX2 with FMA -------------------------------------------------------------------------- */

#ifdef HAS_AVX2_PASSES

FMA_FUNCTION static inline double horizontal_sum(__m256d v)
{
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

/* The first n - at of four lanes. */
FMA_FUNCTION static inline __m256i first_lanes(ptrdiff_t at, ptrdiff_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n - at), _mm256_setr_epi64x(0, 1, 2, 3));
}

FMA_FUNCTION static double max_of_row_avx2(const double *row, ptrdiff_t n, int *bad)
{
    const __m256d forbidden = _mm256_set1_pd(-INFINITY), finite = _mm256_set1_pd(DBL_MAX);
    __m256d largest = forbidden, wrong = _mm256_setzero_pd();
    ptrdiff_t i;
    for (i = 0; i < n; i += 4) {
        const __m256i wanted = first_lanes(i, n);
        const __m256d value = _mm256_blendv_pd(
            forbidden, _mm256_maskload_pd(row + i, wanted), _mm256_castsi256_pd(wanted));
        wrong = _mm256_or_pd(wrong, _mm256_cmp_pd(value, finite, _CMP_NLE_UQ));
        largest = _mm256_max_pd(value, largest);
    }
    *bad |= _mm256_movemask_pd(wrong);
    largest = _mm256_max_pd(largest, _mm256_permute2f128_pd(largest, largest, 1));
    largest = _mm256_max_pd(largest, _mm256_permute_pd(largest, 0x5));
    return _mm256_cvtsd_f64(largest);
}

/* exp(high + low) for LOWEST_EXPONENT <= high <= 0: 2^k exp(r), |r| <= ln(2)/2, by the Taylor
 * polynomial of degree 13, whose remainder is 4e-18 there. */
FMA_FUNCTION static inline __m256d exp4(__m256d high, __m256d low)
{
    const __m256d k = _mm256_round_pd(
        _mm256_mul_pd(high, _mm256_set1_pd(1.4426950408889634)),
        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256d r = _mm256_fnmadd_pd(k, _mm256_set1_pd(0x1.62e42fefa39efp-1), high), p;
    r = _mm256_fnmadd_pd(k, _mm256_set1_pd(0x1.abc9e3b39803fp-56), r);
    r = _mm256_add_pd(r, low);
    p = _mm256_set1_pd(1.0 / 6227020800.0);
#define NEXT_TERM(FACTORIAL) p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / FACTORIAL))
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
    /* The bits of 2^k. */
    return _mm256_mul_pd(p, _mm256_castsi256_pd(_mm256_slli_epi64(
        _mm256_add_epi64(
            _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(k)), _mm256_set1_epi64x(1023)), 52)));
}

FMA_FUNCTION static void exp_row_avx2(
    double *out, const double *scores, double shift, ptrdiff_t n)
{
    const __m256d shifts = _mm256_set1_pd(shift), lowest = _mm256_set1_pd(LOWEST_EXPONENT);
    ptrdiff_t i;
    for (i = 0; i < n; i += 4) {
        const __m256i wanted = first_lanes(i, n);
        const __m256d score = _mm256_maskload_pd(scores + i, wanted);
        __m256d high = _mm256_sub_pd(score, shifts);
        const __m256d back = _mm256_sub_pd(high, score);
        __m256d low = _mm256_sub_pd(
            _mm256_sub_pd(score, _mm256_sub_pd(high, back)), _mm256_add_pd(shifts, back));
        __m256d keep = _mm256_and_pd(
            _mm256_cmp_pd(high, lowest, _CMP_GE_OQ), _mm256_castsi256_pd(wanted));
        high = _mm256_and_pd(high, keep);
        low = _mm256_and_pd(low, keep);
        _mm256_storeu_pd(out + i, _mm256_and_pd(exp4(high, low), keep));
    }
}

FMA_FUNCTION static double sum_row_avx2(const double *row, ptrdiff_t n)
{
    __m256d sum = _mm256_setzero_pd();
    ptrdiff_t i;
    for (i = 0; i < n; i += 4)
        sum = _mm256_add_pd(sum, _mm256_maskload_pd(row + i, first_lanes(i, n)));
    return horizontal_sum(sum);
}

FMA_FUNCTION static double dot_avx2(const double *a, const double *b, ptrdiff_t n)
{
    __m256d sum = _mm256_setzero_pd(), more = _mm256_setzero_pd();
    ptrdiff_t i;
    for (i = 0; i + 4 < n; i += 8) {
        sum = _mm256_fmadd_pd(_mm256_loadu_pd(a + i), _mm256_loadu_pd(b + i), sum);
        more = _mm256_fmadd_pd(_mm256_loadu_pd(a + i + 4), _mm256_loadu_pd(b + i + 4), more);
    }
    if (i < n)
        sum = _mm256_fmadd_pd(_mm256_loadu_pd(a + i), _mm256_loadu_pd(b + i), sum);
    return horizontal_sum(_mm256_add_pd(sum, more));
}

FMA_FUNCTION static void divide_row_avx2(
    double *out, const double *row, double total, ptrdiff_t n)
{
    const __m256d totals = _mm256_set1_pd(total);
    ptrdiff_t i;
    for (i = 0; i + 4 <= n; i += 4)
        _mm256_storeu_pd(out + i, _mm256_div_pd(_mm256_loadu_pd(row + i), totals));
    for (; i < n; ++i)
        out[i] = row[i] / total;
}

FMA_FUNCTION static double multiply_rows_avx2(
    double *out, const double *a, const double *b, ptrdiff_t n)
{
    const __m256d one = _mm256_set1_pd(1.0);
    __m256d sums = _mm256_setzero_pd();
    double sum = 0.0;
    ptrdiff_t i;
    for (i = 0; i + 4 <= n; i += 4) {
        const __m256d product = _mm256_mul_pd(_mm256_loadu_pd(a + i), _mm256_loadu_pd(b + i));
        sums = _mm256_add_pd(sums, product);
        /* In this order a NaN stays one. */
        _mm256_storeu_pd(out + i, _mm256_min_pd(one, product));
    }
    for (; i < n; ++i) {
        const double product = a[i] * b[i];
        sum += product;
        out[i] = product > 1.0 ? 1.0 : product;
    }
    return sum + horizontal_sum(sums);
}

/* Four pivots at a time: each weight of the row is then loaded and stored once for all four. */
FMA_FUNCTION static void apply_pivots_avx2(
    double *row, const double *pivots, ptrdiff_t stride, ptrdiff_t last, ptrdiff_t first)
{
    ptrdiff_t i, k;
    for (k = last; k - 3 >= first; k -= 4) {
        const double *p0 = pivots + k * stride, *p1 = p0 - stride, *p2 = p1 - stride;
        const double *p3 = p2 - stride;
        const double f0 = row[k];
        const double f1 = row[k - 1] + f0 * p0[k - 1];
        const double f2 = row[k - 2] + f0 * p0[k - 2] + f1 * p1[k - 2];
        const double f3 = row[k - 3] + f0 * p0[k - 3] + f1 * p1[k - 3] + f2 * p2[k - 3];
        const __m256d v0 = _mm256_set1_pd(f0), v1 = _mm256_set1_pd(f1);
        const __m256d v2 = _mm256_set1_pd(f2), v3 = _mm256_set1_pd(f3);
        for (i = 0; i < k - 3; i += 4) {
            __m256d sum = _mm256_loadu_pd(row + i);
            __m256d more = _mm256_mul_pd(v1, _mm256_loadu_pd(p1 + i));
            sum = _mm256_fmadd_pd(v0, _mm256_loadu_pd(p0 + i), sum);
            more = _mm256_fmadd_pd(v3, _mm256_loadu_pd(p3 + i), more);
            sum = _mm256_fmadd_pd(v2, _mm256_loadu_pd(p2 + i), sum);
            _mm256_storeu_pd(row + i, _mm256_add_pd(sum, more));
        }
        /* The last vector may have run into these. */
        row[k - 1] = f1;
        row[k - 2] = f2;
        row[k - 3] = f3;
    }
    for (; k >= first; --k) {
        const double *pivot = pivots + k * stride;
        const __m256d factor = _mm256_set1_pd(row[k]);
        for (i = 0; i < k; i += 4)
            _mm256_storeu_pd(row + i, _mm256_fmadd_pd(
                factor, _mm256_loadu_pd(pivot + i), _mm256_loadu_pd(row + i)));
    }
}

FMA_FUNCTION static void pull_back_avx2(
    const double *matrix, ptrdiff_t stride, ptrdiff_t k, const double *pivot,
    const double *factors, double *sums, double *products)
{
    ptrdiff_t i, j;
    for (i = 0; i < k; i += 4)
        _mm256_storeu_pd(sums + i, _mm256_setzero_pd());
    /* Four rows at a time: pivot and sums are then loaded once for all four. */
    for (j = 1; j + 3 < k; j += 4) {
        const double *r0 = matrix + j * stride, *r1 = r0 + stride, *r2 = r1 + stride;
        const double *r3 = r2 + stride;
        const __m256d f0 = _mm256_set1_pd(factors[j]), f1 = _mm256_set1_pd(factors[j + 1]);
        const __m256d f2 = _mm256_set1_pd(factors[j + 2]), f3 = _mm256_set1_pd(factors[j + 3]);
        __m256d d0 = _mm256_setzero_pd(), d1 = d0, d2 = d0, d3 = d0, low, high;
        for (i = 0; i < k; i += 4) {
            const __m256d weights = _mm256_loadu_pd(pivot + i);
            const __m256d a0 = _mm256_loadu_pd(r0 + i), a1 = _mm256_loadu_pd(r1 + i);
            const __m256d a2 = _mm256_loadu_pd(r2 + i), a3 = _mm256_loadu_pd(r3 + i);
            __m256d sum = _mm256_fmadd_pd(f0, a0, _mm256_loadu_pd(sums + i));
            __m256d more = _mm256_mul_pd(f1, a1);
            d0 = _mm256_fmadd_pd(a0, weights, d0);
            d1 = _mm256_fmadd_pd(a1, weights, d1);
            sum = _mm256_fmadd_pd(f2, a2, sum);
            more = _mm256_fmadd_pd(f3, a3, more);
            d2 = _mm256_fmadd_pd(a2, weights, d2);
            d3 = _mm256_fmadd_pd(a3, weights, d3);
            _mm256_storeu_pd(sums + i, _mm256_add_pd(sum, more));
        }
        low = _mm256_hadd_pd(d0, d1);
        high = _mm256_hadd_pd(d2, d3);
        _mm256_storeu_pd(products + j, _mm256_add_pd(
            _mm256_permute2f128_pd(low, high, 0x20), _mm256_permute2f128_pd(low, high, 0x31)));
    }
    for (; j < k; ++j) {
        const double *row = matrix + j * stride;
        const __m256d factor = _mm256_set1_pd(factors[j]);
        __m256d product = _mm256_setzero_pd();
        for (i = 0; i < k; i += 4) {
            const __m256d weights = _mm256_loadu_pd(row + i);
            product = _mm256_fmadd_pd(weights, _mm256_loadu_pd(pivot + i), product);
            _mm256_storeu_pd(sums + i, _mm256_fmadd_pd(
                factor, weights, _mm256_loadu_pd(sums + i)));
        }
        products[j] = horizontal_sum(product);
    }
}

#endif

/* --- dispatch ------------------------------------------------------------------------------- */

#define WEIGHT_PASSES(ISA)                                                                       \
    {                                                                                            \
        max_of_row_##ISA, exp_row_##ISA, sum_row_##ISA, dot_##ISA, divide_row_##ISA,             \
            multiply_rows_##ISA, apply_pivots_##ISA, pull_back_##ISA                             \
    }

static WeightPasses weight_passes = WEIGHT_PASSES(portable);

/* Choose the fastest passes, or the portable ones; returns whether SIMD is in use now. */
static int choose_weight_passes(int simd)
{
    const WeightPasses portable = WEIGHT_PASSES(portable);
    weight_passes = portable;
#ifdef HAS_AVX2_PASSES
    if (simd && has_avx2_and_fma()) {
        const WeightPasses avx2 = WEIGHT_PASSES(avx2);
        weight_passes = avx2;
        return 1;
    }
#endif
    (void)simd;
    return 0;
}

#endif
