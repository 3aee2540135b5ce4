/* Passes over rows of weights: the inner loops of probabilities and samples.
 *
 * Weights are exponentials of scores: never negative. All passes only add, multiply and divide
 * them, so every result is accurate to a few units in the last place, relative to itself.
 *
 * Each pass on float64 exists for any processor, and for AVX2 with FMA. Most are the same C,
 * compiled for both (sum_passes.h). Two are written with the instructions of AVX2, since GCC 12
 * makes 1.4 (pull_back) and 1.8 times (max_of_row) slower ones of any C tried, on rows as long as
 * sentences.
 * C compiled for AVX-512 was not faster.
 *
 * Rows have room up to a multiple of 4 past the last weight that is read, and hold finite numbers
 * there: vector passes read on to the next multiple of 4 past what they are asked for, and what
 * they find there is multiplied by zero.
 */
#ifndef ROOTMIND_SUM_SIMD_H
#define ROOTMIND_SUM_SIMD_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "passes.h"
#include "extended_float.h"

/* What is below is beyond the reach of float64: exp(-708) is its smallest normal number. */
#define LOWEST_EXPONENT (-708.0)
/* Parts of a sum. */
#define LANES 4
#define ADD_LANES(lanes) ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]))
#define WHOLE_LANES(n) (((n) + LANES - 1) & ~(ptrdiff_t)(LANES - 1))

/* --- portable ------------------------------------------------------------------------------- */

#define PASS(name) name##_portable
#define PASS_FUNCTION
#include "sum_passes.h"
#undef PASS
#undef PASS_FUNCTION

/* max_of_row: the largest of row[0..n-1]; sets `bad` if it meets a NaN or +inf. */
static double max_of_row_portable(const double *row, ptrdiff_t n, int *bad)
{
    const double none = -(double)INFINITY;
    double lanes[LANES] = {none, none, none, none}, largest = none;
    int64_t wrong[LANES] = {0, 0, 0, 0};
    ptrdiff_t i, lane;
    for (i = 0; i + LANES <= n; i += LANES)
        for (lane = 0; lane < LANES; ++lane) {
            const double value = row[i + lane];
            wrong[lane] |= !(value <= DBL_MAX);
            lanes[lane] = value > lanes[lane] ? value : lanes[lane];
        }
    for (lane = 0; lane < LANES; ++lane) {
        *bad |= (int)wrong[lane];
        largest = lanes[lane] > largest ? lanes[lane] : largest;
    }
    for (; i < n; ++i) {
        *bad |= !(row[i] <= DBL_MAX);
        largest = row[i] > largest ? row[i] : largest;
    }
    return largest;
}

/* pull_back: for rows j = 1..k-1 of a matrix, products[j] = the dot product of row j with `pivot`,
 * and sums = the sum of factors[j] times row j. `sums` has room up to a multiple of 4; `pivot`
 * holds zeros from k on. */
static void pull_back_portable(
    const double *RESTRICT matrix, ptrdiff_t stride, ptrdiff_t k, const double *RESTRICT pivot,
    const double *RESTRICT factors, double *RESTRICT sums, double *RESTRICT products)
{
    const ptrdiff_t end = WHOLE_LANES(k);
    ptrdiff_t i, j;
    for (i = 0; i < end; ++i)
        sums[i] = 0.0;
    /* Four rows at a time: sums are then loaded and stored once for all four. */
    for (j = 1; j + 3 < k; j += 4) {
        const double *r0 = matrix + j * stride, *r1 = r0 + stride, *r2 = r1 + stride;
        const double *r3 = r2 + stride;
        const double f0 = factors[j], f1 = factors[j + 1];
        const double f2 = factors[j + 2], f3 = factors[j + 3];
        for (i = 0; i < end; ++i)
            sums[i] = (sums[i] + f0 * r0[i] + f2 * r2[i]) + (f1 * r1[i] + f3 * r3[i]);
    }
    for (; j < k; ++j) {
        const double *row = matrix + j * stride;
        const double factor = factors[j];
        for (i = 0; i < end; ++i)
            sums[i] += factor * row[i];
    }
    /* Not in the loops above: compilers do not vectorise both at once. */
    for (j = 1; j < k; ++j)
        products[j] = dot_portable(matrix + j * stride, pivot, k);
}

/* --- AVX2 with FMA -------------------------------------------------------------------------- */

#ifdef HAS_AVX2_PASSES

#define FMA_FUNCTION __attribute__((target("avx2,fma")))

#define PASS(name) name##_avx2
#define PASS_FUNCTION FMA_FUNCTION
#include "sum_passes.h"
#undef PASS
#undef PASS_FUNCTION

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
DEFINE_TABLE(WeightPasses, weight_passes, WEIGHT_PASSES)

#endif
