/* Numbers that do not underflow. */
#ifndef ROOTMIND_EXTENDED_FLOAT_H
#define ROOTMIND_EXTENDED_FLOAT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* a - b = high + low, exactly. */
static inline double subtract_exactly(double a, double b, double *low)
{
    const double high = a - b, back = high - a;
    *low = (a - (high - back)) - (b + back);
    return high;
}

/* part 2^(512 exponent), where the magnitude of part is 0 or from 2^-256 to 2^256. For sentences
 * whose weights, or products of whose weights, are beyond float64. Derivatives may be negative. */
typedef struct {
    double part;
    int64_t exponent;
} ExtendedFloat;

#define WIDE_TOP 0x1p256
#define WIDE_BOTTOM 0x1p-256
#define WIDE_STEP_UP 0x1p512
#define WIDE_STEP_DOWN 0x1p-512
#define WIDE_BITS 512
/* Scores further than this below the best of their word count as forbidden. */
#define LOWEST_WIDE_EXPONENT (-1e15)

static inline ExtendedFloat wide_from(double part, int64_t exponent)
{
    const double size = fabs(part);
    ExtendedFloat number;
    number.part = part;
    number.exponent = part == 0.0 ? 0 : exponent;
    if (size >= WIDE_TOP) {
        number.part *= WIDE_STEP_DOWN;
        number.exponent += 1;
    } else if (size < WIDE_BOTTOM && part != 0.0) {
        number.part *= WIDE_STEP_UP;
        number.exponent -= 1;
    }
    return number;
}

static inline ExtendedFloat wide_add(ExtendedFloat a, ExtendedFloat b)
{
    int64_t above;
    if (a.part == 0.0)
        return b;
    if (b.part == 0.0)
        return a;
    above = a.exponent - b.exponent;
    if (above == 0)
        return wide_from(a.part + b.part, a.exponent);
    if (above == 1)
        return wide_from(a.part + b.part * WIDE_STEP_DOWN, a.exponent);
    if (above == -1)
        return wide_from(a.part * WIDE_STEP_DOWN + b.part, b.exponent);
    return above > 0 ? a : b;
}

static inline ExtendedFloat wide_multiply(ExtendedFloat a, ExtendedFloat b)
{
    return wide_from(a.part * b.part, a.exponent + b.exponent);
}

static inline ExtendedFloat wide_divide(ExtendedFloat a, ExtendedFloat b)
{
    return wide_from(a.part / b.part, a.exponent - b.exponent);
}

/* For numbers that are not negative. */
static inline int wide_less(ExtendedFloat a, ExtendedFloat b)
{
    if (a.part == 0.0 || b.part == 0.0)
        return a.part < b.part;
    if (a.exponent == b.exponent)
        return a.part < b.part;
    if (a.exponent - b.exponent == 1)
        return a.part < b.part * WIDE_STEP_DOWN;
    if (b.exponent - a.exponent == 1)
        return a.part * WIDE_STEP_DOWN < b.part;
    return a.exponent < b.exponent;
}

/* Numbers beyond float64 become 0 or infinity. */
static inline double wide_to_double(ExtendedFloat a)
{
    if (a.exponent < -4 || a.exponent > 4)
        return a.part == 0.0 || a.exponent < 0 ? 0.0 : copysign((double)INFINITY, a.part);
    return ldexp(a.part, (int)a.exponent * WIDE_BITS);
}

/* The binary exponent: a is at least 2^(result - 1) and less than 2^result. */
static inline double wide_log2_above(ExtendedFloat a)
{
    int exponent;
    frexp(a.part, &exponent);
    return (double)a.exponent * WIDE_BITS + exponent;
}

/* The log, as the sum of the result and `low`. */
static inline double wide_log(ExtendedFloat a, double *low)
{
    int bits;
    double part, whole, high;
    *low = 0.0;
    if (a.part == 0.0)
        return -(double)INFINITY;
    part = frexp(a.part, &bits);
    whole = (double)a.exponent * WIDE_BITS + bits;
    high = whole * 0x1.62e42fefa39efp-1;
    *low = fma(whole, 0x1.62e42fefa39efp-1, -high) + whole * 0x1.abc9e3b39803fp-56 + log(part);
    return high;
}

/* exp(high + low), for high from LOWEST_WIDE_EXPONENT to 0; 0 below. */
static inline ExtendedFloat wide_exp(double high, double low)
{
    const ExtendedFloat zero = {0.0, 0};
    double k, r, steps;
    if (!(high >= LOWEST_WIDE_EXPONENT))
        return zero;
    k = floor(high * 1.4426950408889634 + 0.5);
    r = fma(-k, 0x1.62e42fefa39efp-1, high);
    r = fma(-k, 0x1.abc9e3b39803fp-56, r) + low;
    steps = floor(k / WIDE_BITS + 0.5);
    return wide_from(ldexp(exp(r), (int)(k - steps * WIDE_BITS)), (int64_t)steps);
}

#endif
