/* The passes of `layer_passes.h`, for any processor and for AVX2 with FMA, in a table each. */
#ifndef ROOTMIND_LAYER_SIMD_H
#define ROOTMIND_LAYER_SIMD_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "processor.h"

#if defined(_MSC_VER)
#define RESTRICT __restrict
#elif !defined(RESTRICT)
#define RESTRICT restrict
#endif

/* Parts of a sum: the floats of a vector of 32 bytes. */
#define LANES 8

typedef struct {
    void (*qrnn_cell)(float *, const float *, const float *, float *, float *, ptrdiff_t);
    void (*qrnn_gradient)(
        const float *, const float *, const float *, const float *, float *, float *, ptrdiff_t);
    void (*softmax)(float *, ptrdiff_t, ptrdiff_t);
    void (*layer_norm)(const float *, const float *, const float *, float *, ptrdiff_t);
    void (*maxout2)(const float *, const float *, float *, ptrdiff_t);
    void (*maxout3)(const float *, const float *, float *, ptrdiff_t);
} LayerPasses;

#define LAYER_PASSES \
    {PASS(qrnn_cell), PASS(qrnn_gradient), PASS(softmax), \
     PASS(layer_norm), PASS(maxout2), PASS(maxout3)}

#define PASS(name) name##_portable
#define PASS_FUNCTION
#include "layer_passes.h"
static const LayerPasses portable_layer_passes = LAYER_PASSES;
#undef PASS
#undef PASS_FUNCTION

#ifdef HAS_AVX2_PASSES
#define PASS(name) name##_avx2
#define PASS_FUNCTION __attribute__((target("avx2,fma")))
#include "layer_passes.h"
static const LayerPasses avx2_layer_passes = LAYER_PASSES;
#undef PASS
#undef PASS_FUNCTION
#endif

static LayerPasses layer_passes;

/* Returns whether SIMD is in use. */
static int choose_layer_passes(int simd)
{
    layer_passes = portable_layer_passes;
#ifdef HAS_AVX2_PASSES
    if (simd && has_avx2_and_fma()) {
        layer_passes = avx2_layer_passes;
        return 1;
    }
#endif
    (void)simd;
    return 0;
}
#endif
