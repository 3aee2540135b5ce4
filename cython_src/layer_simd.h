/* The passes of `layer_passes.h`, for any processor, for AVX2 with FMA and for AVX-512, in a table
 * each; and products. */
#ifndef ROOTMIND_LAYER_SIMD_H
#define ROOTMIND_LAYER_SIMD_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "passes.h"

/* Parts of a sum: the floats of a vector of 32 bytes. */
#define LANES 8

/* Factors of a step of Adam: of the gradient, when it is clipped, of the moments before, ... */
typedef struct {
    float scale, beta1, beta2, eps, rate, decay;
} AdamStep;

typedef struct {
    void (*qrnn_cell)(float *, const float *, const float *, float *, float *, ptrdiff_t);
    void (*qrnn_gradient)(
        const float *, const float *, const float *, const float *, float *, float *, ptrdiff_t);
    void (*softmax)(float *, ptrdiff_t, ptrdiff_t);
    void (*layer_norm)(const float *, const float *, const float *, float *, ptrdiff_t);
    void (*layer_norm_gradient)(
        const float *, const float *, const float *, float *, float *, float *, float *,
        ptrdiff_t);
    void (*maxout2)(const float *, const float *, float *, int32_t *, ptrdiff_t);
    void (*maxout3)(const float *, const float *, float *, int32_t *, ptrdiff_t);
    void (*adam)(float *, float *, float *, float *, const AdamStep *, ptrdiff_t);
    void (*move_averages)(float *, const float *, float, ptrdiff_t);
} LayerPasses;

#define PASS(name) name##_portable
#define PASS_FUNCTION
#include "layer_passes.h"
#undef PASS
#undef PASS_FUNCTION

#ifdef HAS_AVX2_PASSES
#define PASS(name) name##_avx2
#define PASS_FUNCTION __attribute__((target("avx2,fma")))
#include "layer_passes.h"
#define WIDE 8
#define MOST 6
#include "product_passes.h"
#undef WIDE
#undef MOST
#undef PASS
#undef PASS_FUNCTION

#define PASS(name) name##_avx512
#define PASS_FUNCTION __attribute__((target("avx512f,fma")))
#include "layer_passes.h"
#define WIDE 16
#define MOST 12
#include "product_passes.h"
#undef PASS
#undef PASS_FUNCTION
#endif

#define LAYER_PASSES(ISA)                                                                        \
    {                                                                                            \
        qrnn_cell_##ISA, qrnn_gradient_##ISA, softmax_##ISA, layer_norm_##ISA,                   \
            layer_norm_gradient_##ISA, maxout2_##ISA, maxout3_##ISA, adam_##ISA,                 \
            move_averages_##ISA                                                                  \
    }
DEFINE_TABLE(LayerPasses, layer_passes, LAYER_PASSES)

/* A product, and the columns of its panels; none where NumPy's is to be used. */
typedef struct {
    void (*multiply)(
        const float *, ptrdiff_t, ptrdiff_t, ptrdiff_t, const float *, float *, ptrdiff_t,
        ptrdiff_t);
    ptrdiff_t columns;
} Product;

static Product product;

/* Choose passes and product: with AVX-512 if `wide`, else with AVX2; neither without `simd`. */
static int choose_layers(int simd, int wide)
{
    const int best = choose_layer_passes(simd);
    const Product none = {NULL, 0};
    product = none;
#ifdef HAS_AVX2_PASSES
    if (best && wide && has_avx512()) {
        layer_passes = (LayerPasses)LAYER_PASSES(avx512);
        product.multiply = multiply_avx512, product.columns = 32;
    } else if (best)
        product.multiply = multiply_avx2, product.columns = 16;
#else
    (void)wide;
#endif
    return best;
}

#endif
