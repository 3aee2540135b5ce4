/* Tables of the passes over rows: of scores (decode_simd.h) and of weights (sum_simd.h).
 *
 * Each pass exists for any processor and, where x86-64 compilers know target attributes, for AVX2.
 * `simd` holds one table of each kind for all modules, and chooses at import by what the processor
 * has.
 */
#ifndef ROOTMIND_PASSES_H
#define ROOTMIND_PASSES_H

#include <stddef.h>
#include <stdint.h>

/* Passes over some rows become passes over all rows where these are fixed: for short sentences. */
#if defined(_MSC_VER)
#define RESTRICT __restrict
#define INLINED __forceinline
#else
#define RESTRICT restrict
#define INLINED inline __attribute__((always_inline))
#endif

/* What scan_rows finds; see decode_simd.h. */
enum { SCAN_OK, SCAN_BAD_SCORE, SCAN_NO_HEAD };

typedef struct {
    int (*scan_sentence_f32)(
        const float *, ptrdiff_t, ptrdiff_t, double *, int32_t *, int32_t *);
    int (*scan_sentence_f64)(
        const double *, ptrdiff_t, ptrdiff_t, double *, int32_t *, int32_t *);
    int (*scan_rows_f32)(
        const float *, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, double *, int32_t *, int32_t *);
    int (*scan_rows_f64)(
        const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, double *, int32_t *,
        int32_t *);
    int32_t (*scan_row)(const double *, ptrdiff_t, double *);
    void (*lower_f32)(double *, const float *, double, ptrdiff_t);
    void (*lower_f64)(double *, const double *, double, ptrdiff_t);
    void (*merge_f32)(double *, double, const float *, double, ptrdiff_t, uint8_t *);
    void (*merge_f64)(double *, double, const double *, double, ptrdiff_t, uint8_t *);
    double (*max_sum)(const double *, const double *, ptrdiff_t);
} RowPasses;

typedef struct {
    double (*max_of_row)(const double *, ptrdiff_t, int *);
    void (*exp_row)(double *, const double *, double, ptrdiff_t);
    double (*sum_row)(const double *, ptrdiff_t);
    double (*dot)(const double *, const double *, ptrdiff_t);
    void (*divide_row)(double *, const double *, double, ptrdiff_t);
    double (*multiply_rows)(double *, const double *, const double *, ptrdiff_t);
    void (*apply_pivots)(double *, const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t);
    void (*pull_back)(
        const double *, ptrdiff_t, ptrdiff_t, const double *, const double *, double *, double *);
} WeightPasses;

#endif
