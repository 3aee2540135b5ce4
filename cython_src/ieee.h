/* Refuses compilers that may change arithmetic; every module of the kernel includes it.
 *
 * Infinite scores forbid arcs, NaN is what checks look for, and differences are exact as the sum of
 * two numbers, whose second one an optimiser that treats floating point as algebra takes for zero.
 */
#ifndef ROOTMIND_IEEE_H
#define ROOTMIND_IEEE_H

#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || defined(__ASSOCIATIVE_MATH__) \
    || defined(__RECIPROCAL_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "spacy-rootmind needs IEEE 754 arithmetic: no -ffast-math, -Ofast, /fp:fast in CFLAGS"
#endif

#endif
