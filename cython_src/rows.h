/* The passes over rows of scores that the decoder spends its time in.
 *
 * Each exists in portable C and, for x86-64 compilers that know target attributes, for AVX2; which
 * one runs is settled once, at import, by what the processor has. Both pick the same heads and give
 * equal numbers, since they only compare and subtract.
 *
 * A row holds n + 1 scores, one a head; index 0, ROOT, is never looked at here.
 */
#ifndef ROOTMIND_ROWS_H
#define ROOTMIND_ROWS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define ROWS_AVX2 1
#include <immintrin.h>
#define AVX2_FUNCTION __attribute__((target("avx2")))
#endif

#if defined(_MSC_VER)
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

/* --- portable ------------------------------------------------------------------------------- */

/* scan: best of row[1..n] but for row[skip]; lowest index among equals, index 0 and -inf if there
 * is none. Returns whether a NaN or +inf was met; then the result means nothing. */
#define DEFINE_SCAN(NAME, T, LARGEST)                                                            \
    static int NAME(const T *row, ptrdiff_t n, ptrdiff_t skip, T *best, int32_t *best_head)      \
    {                                                                                            \
        T largest = -(T)INFINITY;                                                                \
        ptrdiff_t head, where = 0;                                                               \
        int bad = 0;                                                                             \
        for (head = 1; head <= n; ++head) {                                                      \
            const T value = head == skip ? -(T)INFINITY : row[head];                             \
            bad |= !(value <= LARGEST);                                                          \
            where = value > largest ? head : where;                                              \
            largest = value > largest ? value : largest;                                         \
        }                                                                                        \
        *best = largest;                                                                         \
        *best_head = (int32_t)where;                                                             \
        return bad;                                                                              \
    }

/* lower: out[1..n] = row[1..n] - cost. */
#define DEFINE_LOWER(NAME, T)                                                                    \
    static void NAME(double *RESTRICT out, const T *RESTRICT row, double cost, ptrdiff_t n)      \
    {                                                                                            \
        ptrdiff_t head;                                                                          \
        for (head = 1; head <= n; ++head)                                                        \
            out[head] = row[head] - cost;                                                        \
    }

/* merge: out[1..n] = the larger of itself and row[1..n] - cost. */
#define DEFINE_MERGE(NAME, T)                                                                    \
    static void NAME(double *RESTRICT out, const T *RESTRICT row, double cost, ptrdiff_t n)      \
    {                                                                                            \
        ptrdiff_t head;                                                                          \
        for (head = 1; head <= n; ++head) {                                                      \
            const double value = row[head] - cost;                                               \
            out[head] = value > out[head] ? value : out[head];                                   \
        }                                                                                        \
    }

/* max_sum: the largest first[i] + second[i]; -inf for none. */
static double max_sum_portable(const double *first, const double *second, ptrdiff_t n)
{
    double largest = -(double)INFINITY;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const double sum = first[i] + second[i];
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

DEFINE_SCAN(scan_f32_portable, float, FLT_MAX)
DEFINE_SCAN(scan_f64_portable, double, DBL_MAX)
DEFINE_LOWER(lower_f32_portable, float)
DEFINE_LOWER(lower_f64_portable, double)
DEFINE_MERGE(merge_f32_portable, float)
DEFINE_MERGE(merge_f64_portable, double)

/* --- AVX2 ----------------------------------------------------------------------------------- */

#ifdef ROWS_AVX2

/* The loops of lower and merge vectorise as they stand. */
AVX2_FUNCTION DEFINE_LOWER(lower_f32_avx2, float)
AVX2_FUNCTION DEFINE_LOWER(lower_f64_avx2, double)
AVX2_FUNCTION DEFINE_MERGE(merge_f32_avx2, float)
AVX2_FUNCTION DEFINE_MERGE(merge_f64_avx2, double)

/* Rows of sentences are short, so what a scan costs is mostly its ends. Masked loads have none:
 * lanes before 1, after n and at `skip` are not read and count as -inf. */
AVX2_FUNCTION static int scan_f32_avx2(
    const float *row, ptrdiff_t n, ptrdiff_t skip, float *best, int32_t *best_head)
{
    const __m256 forbidden = _mm256_set1_ps(-INFINITY), finite = _mm256_set1_ps(FLT_MAX);
    const __m256i stop = _mm256_set1_epi32((int)n + 1), hole = _mm256_set1_epi32((int)skip);
    __m256i head = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), where = _mm256_setzero_si256();
    __m256i wanted = _mm256_cmpgt_epi32(head, where);
    __m256 largest = forbidden, bad = _mm256_setzero_ps(), top;
    __m128i low;
    ptrdiff_t at;
    for (at = 0; at <= n; at += 8) {
        __m256 value, better;
        wanted = _mm256_and_si256(wanted, _mm256_cmpgt_epi32(stop, head));
        wanted = _mm256_andnot_si256(_mm256_cmpeq_epi32(head, hole), wanted);
        value = _mm256_blendv_ps(
            forbidden, _mm256_maskload_ps(row + at, wanted), _mm256_castsi256_ps(wanted));
        bad = _mm256_or_ps(bad, _mm256_cmp_ps(value, finite, _CMP_NLE_UQ));
        better = _mm256_cmp_ps(value, largest, _CMP_GT_OQ);
        largest = _mm256_max_ps(value, largest);
        where = _mm256_blendv_epi8(where, head, _mm256_castps_si256(better));
        head = _mm256_add_epi32(head, _mm256_set1_epi32(8));
        wanted = _mm256_set1_epi32(-1);
    }
    top = _mm256_max_ps(largest, _mm256_permute2f128_ps(largest, largest, 1));
    top = _mm256_max_ps(top, _mm256_permute_ps(top, 0x4e));
    top = _mm256_max_ps(top, _mm256_permute_ps(top, 0xb1));
    /* Lanes that do not hold the largest get index 2^32 - 1. */
    where = _mm256_or_si256(
        where, _mm256_castps_si256(_mm256_cmp_ps(largest, top, _CMP_NEQ_UQ)));
    low = _mm_min_epu32(_mm256_castsi256_si128(where), _mm256_extracti128_si256(where, 1));
    low = _mm_min_epu32(low, _mm_shuffle_epi32(low, 0x4e));
    low = _mm_min_epu32(low, _mm_shuffle_epi32(low, 0xb1));
    *best = _mm256_cvtss_f32(top);
    *best_head = _mm_cvtsi128_si32(low);
    return _mm256_movemask_ps(bad) != 0;
}

AVX2_FUNCTION static int scan_f64_avx2(
    const double *row, ptrdiff_t n, ptrdiff_t skip, double *best, int32_t *best_head)
{
    const __m256d forbidden = _mm256_set1_pd(-INFINITY), finite = _mm256_set1_pd(DBL_MAX);
    const __m256i stop = _mm256_set1_epi64x(n + 1), hole = _mm256_set1_epi64x(skip);
    __m256i head = _mm256_setr_epi64x(0, 1, 2, 3), where = _mm256_setzero_si256();
    __m256i wanted = _mm256_cmpgt_epi64(head, where);
    __m256d largest = forbidden, bad = _mm256_setzero_pd(), top;
    __m128i low;
    ptrdiff_t at;
    for (at = 0; at <= n; at += 4) {
        __m256d value, better;
        wanted = _mm256_and_si256(wanted, _mm256_cmpgt_epi64(stop, head));
        wanted = _mm256_andnot_si256(_mm256_cmpeq_epi64(head, hole), wanted);
        value = _mm256_blendv_pd(
            forbidden, _mm256_maskload_pd(row + at, wanted), _mm256_castsi256_pd(wanted));
        bad = _mm256_or_pd(bad, _mm256_cmp_pd(value, finite, _CMP_NLE_UQ));
        better = _mm256_cmp_pd(value, largest, _CMP_GT_OQ);
        largest = _mm256_max_pd(value, largest);
        where = _mm256_blendv_epi8(where, head, _mm256_castpd_si256(better));
        head = _mm256_add_epi64(head, _mm256_set1_epi64x(4));
        wanted = _mm256_set1_epi64x(-1);
    }
    top = _mm256_max_pd(largest, _mm256_permute2f128_pd(largest, largest, 1));
    top = _mm256_max_pd(top, _mm256_permute_pd(top, 0x5));
    /* Heads fit in 32 bits; the upper half of a lane that holds the largest is 0. */
    where = _mm256_or_si256(
        where, _mm256_castpd_si256(_mm256_cmp_pd(largest, top, _CMP_NEQ_UQ)));
    low = _mm_min_epu32(_mm256_castsi256_si128(where), _mm256_extracti128_si256(where, 1));
    low = _mm_min_epu32(low, _mm_shuffle_epi32(low, 0x4e));
    *best = _mm256_cvtsd_f64(top);
    *best_head = _mm_cvtsi128_si32(low);
    return _mm256_movemask_pd(bad) != 0;
}

AVX2_FUNCTION static double max_sum_avx2(
    const double *first, const double *second, ptrdiff_t n)
{
    const __m256d none = _mm256_set1_pd(-INFINITY);
    __m256d largest = none;
    ptrdiff_t i;
    for (i = 0; i + 4 <= n; i += 4)
        largest = _mm256_max_pd(
            _mm256_add_pd(_mm256_loadu_pd(first + i), _mm256_loadu_pd(second + i)), largest);
    if (i < n) {
        const __m256i wanted = _mm256_cmpgt_epi64(
            _mm256_set1_epi64x(n - i), _mm256_setr_epi64x(0, 1, 2, 3));
        const __m256d sum = _mm256_add_pd(
            _mm256_maskload_pd(first + i, wanted), _mm256_maskload_pd(second + i, wanted));
        largest = _mm256_max_pd(
            _mm256_blendv_pd(none, sum, _mm256_castsi256_pd(wanted)), largest);
    }
    largest = _mm256_max_pd(largest, _mm256_permute2f128_pd(largest, largest, 1));
    largest = _mm256_max_pd(largest, _mm256_permute_pd(largest, 0x5));
    return _mm256_cvtsd_f64(largest);
}

#endif

/* --- dispatch ------------------------------------------------------------------------------- */

typedef struct {
    int (*scan_f32)(const float *, ptrdiff_t, ptrdiff_t, float *, int32_t *);
    int (*scan_f64)(const double *, ptrdiff_t, ptrdiff_t, double *, int32_t *);
    void (*lower_f32)(double *, const float *, double, ptrdiff_t);
    void (*lower_f64)(double *, const double *, double, ptrdiff_t);
    void (*merge_f32)(double *, const float *, double, ptrdiff_t);
    void (*merge_f64)(double *, const double *, double, ptrdiff_t);
    double (*max_sum)(const double *, const double *, ptrdiff_t);
} RowPasses;

static RowPasses row_passes = {
    scan_f32_portable,  scan_f64_portable,  lower_f32_portable,
    lower_f64_portable, merge_f32_portable, merge_f64_portable, max_sum_portable,
};

/* Choose the fastest passes, or the portable ones; returns whether SIMD is in use now. */
static int choose_row_passes(int simd)
{
    const RowPasses portable = {
        scan_f32_portable,  scan_f64_portable,  lower_f32_portable,
        lower_f64_portable, merge_f32_portable, merge_f64_portable, max_sum_portable,
    };
    row_passes = portable;
#ifdef ROWS_AVX2
    if (simd && __builtin_cpu_supports("avx2")) {
        const RowPasses avx2 = {
            scan_f32_avx2,  scan_f64_avx2,  lower_f32_avx2,
            lower_f64_avx2, merge_f32_avx2, merge_f64_avx2, max_sum_avx2,
        };
        row_passes = avx2;
        return 1;
    }
#endif
    (void)simd;
    return 0;
}

#endif
