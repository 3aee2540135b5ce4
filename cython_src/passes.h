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

#include "processor.h"

#if defined(_MSC_VER)
#define RESTRICT __restrict
#define INLINED __forceinline
#else
#define RESTRICT restrict
#define INLINED inline __attribute__((always_inline))
#endif

/* A table of what PASSES(portable) and PASSES(avx2) list, and a function that fills it with the
 * former or, if the processor has AVX2, with the latter; it returns whether it did that. */
#ifdef HAS_AVX2_PASSES
#define BEST_OF(PASSES) PASSES(avx2)
#else
#define BEST_OF(PASSES) PASSES(portable)
#define has_avx2_and_fma() 0
#endif
#define DEFINE_TABLE(TYPE, NAME, PASSES)                                                         \
    static TYPE NAME;                                                                            \
    static int choose_##NAME(int simd)                                                           \
    {                                                                                            \
        static const TYPE tables[] = {PASSES(portable), BEST_OF(PASSES)};                        \
        const int best = simd && has_avx2_and_fma();                                             \
        NAME = tables[best];                                                                     \
        return best;                                                                             \
    }

/* What a scan finds; see decode_simd.h. */
enum { SCAN_OK, SCAN_BAD_SCORE, SCAN_NO_HEAD };

typedef struct {
    int (*scan_f32)(const float *, ptrdiff_t, ptrdiff_t, double *, int32_t *, int32_t *);
    int (*scan_f64)(const double *, ptrdiff_t, ptrdiff_t, double *, int32_t *, int32_t *);
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
    void (*multiply_rows)(double *, const double *, const double *, ptrdiff_t);
    void (*apply_pivots)(double *, const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t);
    void (*pull_back)(
        const double *, ptrdiff_t, ptrdiff_t, const double *, const double *, double *, double *);
} WeightPasses;

#endif
