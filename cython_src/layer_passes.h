/* Passes of the network's layers and its optimizer over rows of floats, in C that compilers
 * vectorise: no iteration depends on another, and sums are of LANES parts.
 *
 * `layer_simd.h` includes it once for each kind of processor.
 */

/* exp(x), for x from -87 to 88 and the nearer of the two beyond, to 1e-7 relative to itself.
 *
 * x = n log 2 + r, and exp(r) is a polynomial: Cody & Waite (1980), chapter 6; its coefficients are
 * those of Cephes' expf. */
PASS_FUNCTION static inline float PASS(exp)(float x)
{
    const float inverse_log2 = 1.44269504f, high = 0.693359375f, low = -2.12194440e-4f;
    /* Adding it rounds to an integer. */
    const float rounder = 12582912.0f;
    float n, r, power;
    uint32_t bits;
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    n = (x * inverse_log2 + rounder) - rounder;
    r = x - n * high - n * low;
    power = 1.9875691500e-4f;
    power = power * r + 1.3981999507e-3f;
    power = power * r + 8.3334519073e-3f;
    power = power * r + 4.1665795894e-2f;
    power = power * r + 1.6666665459e-1f;
    power = power * r + 5.0000001201e-1f;
    power = power * r * r + r + 1.0f;
    memcpy(&bits, &power, sizeof bits);
    bits += (uint32_t)(int32_t)n << 23;
    memcpy(&power, &bits, sizeof power);
    return power;
}

PASS_FUNCTION static inline float PASS(logistic)(float x) { return 1.0f / (1.0f + PASS(exp)(-x)); }

/* To 2e-7, absolutely. */
PASS_FUNCTION static inline float PASS(tanh)(float x)
{
    return 1.0f - 2.0f / (1.0f + PASS(exp)(2.0f * x));
}

PASS_FUNCTION static inline float PASS(add_lanes)(const float *lanes)
{
    float total = 0.0f;
    int k;
    for (k = 0; k < LANES; ++k)
        total += lanes[k];
    return total;
}

PASS_FUNCTION static float PASS(sum)(const float *row, ptrdiff_t n)
{
    float lanes[LANES] = {0}, rest = 0.0f;
    ptrdiff_t i, k;
    for (i = 0; i + LANES <= n; i += LANES)
        for (k = 0; k < LANES; ++k)
            lanes[k] += row[i + k];
    for (; i < n; ++i)
        rest += row[i];
    return rest + PASS(add_lanes)(lanes);
}

PASS_FUNCTION static float PASS(dot)(const float *row, const float *other, ptrdiff_t n)
{
    float lanes[LANES] = {0}, rest = 0.0f;
    ptrdiff_t i, k;
    for (i = 0; i + LANES <= n; i += LANES)
        for (k = 0; k < LANES; ++k)
            lanes[k] += row[i + k] * other[i + k];
    for (; i < n; ++i)
        rest += row[i] * other[i];
    return rest + PASS(add_lanes)(lanes);
}

/* --- quasi-recurrent layer ------------------------------------------------------------------ */

/* A step for one row of gates, side by side: candidate, forget, output. They come without their
 * bias and activation and leave with both. `before` is the cell one step before, NULL at first. */
PASS_FUNCTION static void PASS(qrnn_cell)(
    float *RESTRICT gates, const float *RESTRICT bias, const float *RESTRICT before,
    float *RESTRICT cell, float *RESTRICT state, ptrdiff_t h)
{
    const float *candidate = gates, *forget = gates + h, *out = gates + 2 * h;
    ptrdiff_t j;
    for (j = 0; j < h; ++j)
        gates[j] = PASS(tanh)(gates[j] + bias[j]);
    for (j = h; j < 3 * h; ++j)
        gates[j] = PASS(logistic)(gates[j] + bias[j]);
    for (j = 0; j < h; ++j)
        cell[j] = (1.0f - forget[j]) * candidate[j];
    if (before)
        for (j = 0; j < h; ++j)
            cell[j] += forget[j] * before[j];
    for (j = 0; j < h; ++j)
        state[j] = out[j] * cell[j];
}

/* Its backward step. `d_cell` comes as the gradient of the cell from the step after, and leaves as
 * that for the step before. */
PASS_FUNCTION static void PASS(qrnn_gradient)(
    const float *RESTRICT gates, const float *RESTRICT before, const float *RESTRICT cell,
    const float *RESTRICT d_state, float *RESTRICT d_cell, float *RESTRICT d_gates, ptrdiff_t h)
{
    const float *candidate = gates, *forget = gates + h, *out = gates + 2 * h;
    float *RESTRICT d_candidate = d_gates, *RESTRICT d_forget = d_gates + h;
    float *RESTRICT d_out = d_gates + 2 * h;
    ptrdiff_t j;
    for (j = 0; j < h; ++j) {
        d_out[j] = d_state[j] * cell[j] * out[j] * (1.0f - out[j]);
        d_cell[j] += d_state[j] * out[j];
        d_candidate[j] =
            d_cell[j] * (1.0f - forget[j]) * (1.0f - candidate[j] * candidate[j]);
        d_forget[j] = -d_cell[j] * candidate[j] * forget[j] * (1.0f - forget[j]);
    }
    if (before)
        for (j = 0; j < h; ++j)
            d_forget[j] += d_cell[j] * before[j] * forget[j] * (1.0f - forget[j]);
    for (j = 0; j < h; ++j)
        d_cell[j] *= forget[j];
}

/* --- other layers --------------------------------------------------------------------------- */

/* The softmax of a row of n scores, without the one at `self`. */
PASS_FUNCTION static void PASS(softmax)(float *RESTRICT row, ptrdiff_t n, ptrdiff_t self)
{
    float largest = -FLT_MAX, total;
    ptrdiff_t i;
    row[self] = -FLT_MAX;
    for (i = 0; i < n; ++i)
        largest = row[i] > largest ? row[i] : largest;
    for (i = 0; i < n; ++i)
        row[i] = PASS(exp)(row[i] - largest);
    row[self] = 0.0f;
    total = PASS(sum)(row, n);
    for (i = 0; i < n; ++i)
        row[i] /= total;
}

/* A row minus its mean, over its standard deviation; returns one over the latter. */
PASS_FUNCTION static float PASS(standardize)(
    const float *RESTRICT row, float *RESTRICT out, ptrdiff_t n)
{
    const float mean = PASS(sum)(row, n) / (float)n;
    float scale;
    ptrdiff_t i;
    for (i = 0; i < n; ++i)
        out[i] = row[i] - mean;
    scale = 1.0f / sqrtf(PASS(dot)(out, out, n) / (float)n + 1e-8f);
    for (i = 0; i < n; ++i)
        out[i] *= scale;
    return scale;
}

/* That, times G plus b. */
PASS_FUNCTION static void PASS(layer_norm)(
    const float *RESTRICT row, const float *RESTRICT G, const float *RESTRICT b,
    float *RESTRICT out, ptrdiff_t n)
{
    ptrdiff_t i;
    PASS(standardize)(row, out, n);
    for (i = 0; i < n; ++i)
        out[i] = out[i] * G[i] + b[i];
}

/* Its gradients: of the row in `d_row`, of G and b added to theirs. `normed` has room for a row. */
PASS_FUNCTION static void PASS(layer_norm_gradient)(
    const float *RESTRICT row, const float *RESTRICT G, const float *RESTRICT d_out,
    float *RESTRICT normed, float *RESTRICT d_row, float *RESTRICT d_G, float *RESTRICT d_b,
    ptrdiff_t n)
{
    const float scale = PASS(standardize)(row, normed, n);
    float mean, slope;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        d_G[i] += d_out[i] * normed[i];
        d_b[i] += d_out[i];
        d_row[i] = d_out[i] * G[i];
    }
    mean = PASS(sum)(d_row, n) / (float)n;
    slope = PASS(dot)(d_row, normed, n) / (float)n;
    for (i = 0; i < n; ++i)
        d_row[i] = scale * (d_row[i] - mean - normed[i] * slope);
}

/* The largest of each two, or three, neighbours in the sum of a row and a bias, and which it is. */
PASS_FUNCTION static void PASS(maxout2)(
    const float *RESTRICT row, const float *RESTRICT bias, float *RESTRICT out,
    int32_t *RESTRICT which, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const float a = row[2 * i] + bias[2 * i], b = row[2 * i + 1] + bias[2 * i + 1];
        out[i] = b > a ? b : a;
        which[i] = b > a;
    }
}

PASS_FUNCTION static void PASS(maxout3)(
    const float *RESTRICT row, const float *RESTRICT bias, float *RESTRICT out,
    int32_t *RESTRICT which, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const float a = row[3 * i] + bias[3 * i], b = row[3 * i + 1] + bias[3 * i + 1];
        const float c = row[3 * i + 2] + bias[3 * i + 2], d = b > a ? b : a;
        out[i] = c > d ? c : d;
        which[i] = c > d ? 2 : b > a;
    }
}

/* --- optimizer ------------------------------------------------------------------------------ */

/* A step of Adam for n weights, and of decoupled weight decay. Gradients leave as zeros.
 *
 * Moments of weights without gradients fall until they are subnormal, which makes each operation
 * several times as slow. They become zeros here, which changes no weight. */
PASS_FUNCTION static void PASS(adam)(
    float *RESTRICT weights, float *RESTRICT gradient, float *RESTRICT mom1, float *RESTRICT mom2,
    const AdamStep *step, ptrdiff_t n)
{
    const AdamStep s = *step;
    const float new1 = 1.0f - s.beta1, new2 = 1.0f - s.beta2;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const float g = gradient[i] * s.scale;
        const float first = mom1[i] * s.beta1 + g * new1;
        const float second = mom2[i] * s.beta2 + g * g * new2;
        float weight;
        mom1[i] = fabsf(first) < FLT_MIN ? 0.0f : first;
        mom2[i] = second < FLT_MIN ? 0.0f : second;
        weight = weights[i] - s.rate * (mom1[i] / (sqrtf(mom2[i]) + s.eps));
        weights[i] = weight - s.decay * weight;
        gradient[i] = 0.0f;
    }
}

/* Moving averages of n weights move a share of the way. */
PASS_FUNCTION static void PASS(move_averages)(
    float *RESTRICT averages, const float *RESTRICT weights, float share, ptrdiff_t n)
{
    ptrdiff_t i;
    for (i = 0; i < n; ++i)
        averages[i] -= share * (averages[i] - weights[i]);
}
