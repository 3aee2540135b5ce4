/* Passes over rows of scores: the inner loops of the decoders, in portable C and for AVX2.
 *
 * All but `lower` are written with the instructions of AVX2: GCC 12 makes 1.3 (max_sum) to 3 times
 * (merge) slower ones of any C tried, on rows as long as sentences. Both pick the same heads and
 * give equal numbers, since they only compare, add and subtract.
 *
 * A row holds n + 1 scores, one per head; index 0, ROOT, is never read here.
 */
#ifndef ROOTMIND_DECODE_SIMD_H
#define ROOTMIND_DECODE_SIMD_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "passes.h"

#ifdef HAS_AVX2_PASSES
#define AVX2_FUNCTION __attribute__((target("avx2")))
#endif

/* --- portable ------------------------------------------------------------------------------- */

/* best_of_row: the best of row[1..n] but for row[skip], and its index: the lowest among equals, 0 if
 * all are -inf. Sets `bad` if it meets a NaN or +inf; then the result means nothing. */
#define DEFINE_BEST_OF_ROW(NAME, T, LARGEST)                                                     \
    static inline int32_t NAME(                                                                  \
        const T *row, ptrdiff_t n, ptrdiff_t skip, T *best, int *bad)                            \
    {                                                                                            \
        T largest = -(T)INFINITY;                                                                \
        ptrdiff_t head, where = 0;                                                               \
        for (head = 1; head <= n; ++head) {                                                      \
            const T value = head == skip ? -(T)INFINITY : row[head];                             \
            *bad |= !(value <= LARGEST);                                                         \
            where = value > largest ? head : where;                                              \
            largest = value > largest ? value : largest;                                         \
        }                                                                                        \
        *best = largest;                                                                         \
        return (int32_t)where;                                                                   \
    }

/* scan: for each word its best arc from a word, and the best head of all; ROOT wins ties. Returns
 * SCAN_BAD_SCORE if it meets a NaN or +inf, else SCAN_NO_HEAD if a word has no arc above -inf, else
 * SCAN_OK. BAD is what BEST_OF_ROW keeps of bad scores, IS_BAD what asks it. */
#define DEFINE_SCAN(NAME, BEST_OF_ROW, T, LARGEST, BAD, NOT_BAD, IS_BAD)                         \
    static int NAME(                                                                             \
        const T *RESTRICT scores, ptrdiff_t stride, ptrdiff_t n, double *RESTRICT alt_score,     \
        int32_t *RESTRICT alt_head, int32_t *RESTRICT best_head)                                 \
    {                                                                                            \
        BAD bad = NOT_BAD;                                                                       \
        int bad_root = 0, no_head = 0;                                                           \
        ptrdiff_t dep;                                                                           \
        for (dep = 1; dep <= n; ++dep) {                                                         \
            const T *row = scores + dep * stride;                                                \
            const T root = row[0];                                                               \
            T alt;                                                                               \
            const int32_t head = BEST_OF_ROW(row, n, dep, &alt, &bad);                           \
            bad_root |= !(root <= LARGEST);                                                      \
            no_head |= head == 0 && root == -(T)INFINITY;                                        \
            alt_score[dep] = alt;                                                                \
            alt_head[dep] = head;                                                                \
            best_head[dep] = root >= alt ? 0 : head;                                             \
        }                                                                                        \
        return bad_root || IS_BAD(bad) ? SCAN_BAD_SCORE : no_head ? SCAN_NO_HEAD : SCAN_OK;      \
    }

/* lower: out[0..n] = row[0..n] - cost. */
#define DEFINE_LOWER(NAME, T)                                                                    \
    static void NAME(double *RESTRICT out, const T *RESTRICT row, double cost, ptrdiff_t n)      \
    {                                                                                            \
        ptrdiff_t head;                                                                          \
        for (head = 0; head <= n; ++head)                                                        \
            out[head] = row[head] - cost;                                                        \
    }

/* merge: out[0..n] = the larger of out[0..n] - lowering and row[0..n] - cost, and bit `head` of
 * `from_row` tells whether that is the latter. A NaN in `out` stays; a NaN in `row` never wins. */
#define DEFINE_MERGE(NAME, T)                                                                    \
    static void NAME(                                                                            \
        double *RESTRICT out, double lowering, const T *RESTRICT row, double cost, ptrdiff_t n,  \
        uint8_t *RESTRICT from_row)                                                              \
    {                                                                                            \
        ptrdiff_t at, lane;                                                                      \
        for (at = 0; at + 8 <= n + 1; at += 8) {                                                 \
            int64_t bits[8];                                                                     \
            for (lane = 0; lane < 8; ++lane) {                                                   \
                const double before = out[at + lane] - lowering, value = row[at + lane] - cost;  \
                bits[lane] = value > before ? (int64_t)1 << lane : 0;                            \
                out[at + lane] = value > before ? value : before;                                \
            }                                                                                    \
            from_row[at >> 3] = (uint8_t)(                                                       \
                ((bits[0] | bits[4]) | (bits[1] | bits[5]))                                      \
                | ((bits[2] | bits[6]) | (bits[3] | bits[7])));                                  \
        }                                                                                        \
        if (at <= n)                                                                             \
            from_row[at >> 3] = 0;                                                               \
        for (lane = 0; at + lane <= n; ++lane) {                                                 \
            const double before = out[at + lane] - lowering, value = row[at + lane] - cost;      \
            const int better = value > before;                                                   \
            from_row[at >> 3] = (uint8_t)(from_row[at >> 3] | better << lane);                   \
            out[at + lane] = better ? value : before;                                            \
        }                                                                                        \
    }

/* max_sum: the largest first[i] + second[i]; -inf for none. */
static double max_sum_portable(const double *first, const double *second, ptrdiff_t n)
{
    const double none = -(double)INFINITY;
    double lanes[4] = {none, none, none, none}, largest = none;
    ptrdiff_t i, lane;
    for (i = 0; i + 4 <= n; i += 4)
        for (lane = 0; lane < 4; ++lane) {
            const double sum = first[i + lane] + second[i + lane];
            lanes[lane] = sum > lanes[lane] ? sum : lanes[lane];
        }
    for (lane = 0; lane < 4; ++lane)
        largest = lanes[lane] > largest ? lanes[lane] : largest;
    for (; i < n; ++i) {
        const double sum = first[i] + second[i];
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

DEFINE_BEST_OF_ROW(best_of_row_f32_portable, float, FLT_MAX)
DEFINE_BEST_OF_ROW(best_of_row_f64_portable, double, DBL_MAX)
#define IS_SET(flag) (flag)
DEFINE_SCAN(
    scan_f32_portable, best_of_row_f32_portable, float, FLT_MAX, int, 0, IS_SET)
DEFINE_SCAN(
    scan_f64_portable, best_of_row_f64_portable, double, DBL_MAX, int, 0, IS_SET)

/* scan_row: the best of row[1..n], where NaN does not count and +inf does not occur. */
static int32_t scan_row_portable(const double *row, ptrdiff_t n, double *best)
{
    int bad = 0;
    return best_of_row_f64_portable(row, n, 0, best, &bad);
}

DEFINE_LOWER(lower_f32_portable, float)
DEFINE_LOWER(lower_f64_portable, double)
DEFINE_MERGE(merge_f32_portable, float)
DEFINE_MERGE(merge_f64_portable, double)

/* --- AVX2 ----------------------------------------------------------------------------------- */

#ifdef HAS_AVX2_PASSES

/* The loop of lower vectorises as it stands. */
AVX2_FUNCTION DEFINE_LOWER(lower_f32_avx2, float)
AVX2_FUNCTION DEFINE_LOWER(lower_f64_avx2, double)

/* Four scores from `at` on as float64; those after n are not read. */
AVX2_FUNCTION static inline __m256d load4_f32(const float *row, ptrdiff_t at, ptrdiff_t n)
{
    const __m128i wanted = _mm_cmpgt_epi32(_mm_set1_epi32((int)(n + 1 - at)), _mm_setr_epi32(0, 1, 2, 3));
    return _mm256_cvtps_pd(_mm_maskload_ps(row + at, wanted));
}

AVX2_FUNCTION static inline __m256d load4_f64(const double *row, ptrdiff_t at, ptrdiff_t n)
{
    const __m256i wanted = _mm256_cmpgt_epi64(
        _mm256_set1_epi64x(n + 1 - at), _mm256_setr_epi64x(0, 1, 2, 3));
    return _mm256_maskload_pd(row + at, wanted);
}

/* Returns the four bits of `from_row`. Rows of `out` have room up to the next multiple of 8. */
AVX2_FUNCTION static inline int merge4(double *out, __m256d lowering, __m256d row, __m256d cost)
{
    const __m256d before = _mm256_sub_pd(_mm256_loadu_pd(out), lowering);
    const __m256d value = _mm256_sub_pd(row, cost);
    _mm256_storeu_pd(out, _mm256_max_pd(value, before));
    return _mm256_movemask_pd(_mm256_cmp_pd(value, before, _CMP_GT_OQ));
}

#define DEFINE_MERGE_AVX2(NAME, T, LOAD_ALL, LOAD_SOME)                                          \
    AVX2_FUNCTION static void NAME(                                                              \
        double *out, double lowering, const T *row, double cost, ptrdiff_t n, uint8_t *from_row) \
    {                                                                                            \
        const __m256d lower = _mm256_set1_pd(lowering), less = _mm256_set1_pd(cost);             \
        ptrdiff_t at;                                                                            \
        for (at = 0; at + 8 <= n + 1; at += 8) {                                                 \
            const int low = merge4(out + at, lower, LOAD_ALL(row + at), less);                   \
            const int high = merge4(out + at + 4, lower, LOAD_ALL(row + at + 4), less);          \
            from_row[at >> 3] = (uint8_t)(low | high << 4);                                      \
        }                                                                                        \
        if (at <= n) {                                                                           \
            const int low = merge4(out + at, lower, LOAD_SOME(row, at, n), less);                \
            const int high = merge4(out + at + 4, lower, LOAD_SOME(row, at + 4, n), less);       \
            from_row[at >> 3] = (uint8_t)(low | high << 4);                                      \
        }                                                                                        \
    }

#define LOAD4_F32(row) _mm256_cvtps_pd(_mm_loadu_ps(row))
DEFINE_MERGE_AVX2(merge_f32_avx2, float, LOAD4_F32, load4_f32)
DEFINE_MERGE_AVX2(merge_f64_avx2, double, _mm256_loadu_pd, load4_f64)

/* Rows of sentences are short, so what a row costs is mostly its ends. Masked loads have none:
 * lanes before 1, after n and at `skip` are not read and count as -inf. */
AVX2_FUNCTION static inline int32_t best_of_row_f32_avx2(
    const float *row, ptrdiff_t n, ptrdiff_t skip, float *best, __m256 *bad)
{
    const __m256 forbidden = _mm256_set1_ps(-INFINITY), finite = _mm256_set1_ps(FLT_MAX);
    const __m256i stop = _mm256_set1_epi32((int)n + 1), hole = _mm256_set1_epi32((int)skip);
    __m256i head = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), where = _mm256_setzero_si256();
    __m256i wanted = _mm256_cmpgt_epi32(head, where);
    __m256 largest = forbidden, top;
    __m128i low;
    ptrdiff_t at;
    for (at = 0; at <= n; at += 8) {
        __m256 value, better;
        wanted = _mm256_and_si256(wanted, _mm256_cmpgt_epi32(stop, head));
        wanted = _mm256_andnot_si256(_mm256_cmpeq_epi32(head, hole), wanted);
        value = _mm256_blendv_ps(
            forbidden, _mm256_maskload_ps(row + at, wanted), _mm256_castsi256_ps(wanted));
        *bad = _mm256_or_ps(*bad, _mm256_cmp_ps(value, finite, _CMP_NLE_UQ));
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
    return _mm_cvtsi128_si32(low);
}

AVX2_FUNCTION static inline int32_t best_of_row_f64_avx2(
    const double *row, ptrdiff_t n, ptrdiff_t skip, double *best, __m256d *bad)
{
    const __m256d forbidden = _mm256_set1_pd(-INFINITY), finite = _mm256_set1_pd(DBL_MAX);
    const __m256i stop = _mm256_set1_epi64x(n + 1), hole = _mm256_set1_epi64x(skip);
    __m256i head = _mm256_setr_epi64x(0, 1, 2, 3), where = _mm256_setzero_si256();
    __m256i wanted = _mm256_cmpgt_epi64(head, where);
    __m256d largest = forbidden, top;
    __m128i low;
    ptrdiff_t at;
    for (at = 0; at <= n; at += 4) {
        __m256d value, better;
        wanted = _mm256_and_si256(wanted, _mm256_cmpgt_epi64(stop, head));
        wanted = _mm256_andnot_si256(_mm256_cmpeq_epi64(head, hole), wanted);
        value = _mm256_blendv_pd(
            forbidden, _mm256_maskload_pd(row + at, wanted), _mm256_castsi256_pd(wanted));
        *bad = _mm256_or_pd(*bad, _mm256_cmp_pd(value, finite, _CMP_NLE_UQ));
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
    return _mm_cvtsi128_si32(low);
}

AVX2_FUNCTION DEFINE_SCAN(
    scan_f32_avx2, best_of_row_f32_avx2, float, FLT_MAX, __m256, _mm256_setzero_ps(),
    _mm256_movemask_ps)
AVX2_FUNCTION DEFINE_SCAN(
    scan_f64_avx2, best_of_row_f64_avx2, double, DBL_MAX, __m256d, _mm256_setzero_pd(),
    _mm256_movemask_pd)

AVX2_FUNCTION static int32_t scan_row_avx2(const double *row, ptrdiff_t n, double *best)
{
    __m256d bad = _mm256_setzero_pd();
    return best_of_row_f64_avx2(row, n, 0, best, &bad);
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

#define ROW_PASSES(ISA)                                                                          \
    {                                                                                            \
        scan_f32_##ISA, scan_f64_##ISA, scan_row_##ISA, lower_f32_##ISA, lower_f64_##ISA,        \
            merge_f32_##ISA, merge_f64_##ISA, max_sum_##ISA                                      \
    }
DEFINE_TABLE(RowPasses, row_passes, ROW_PASSES)

#endif
