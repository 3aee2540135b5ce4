/* What the processor can do, asked of it directly: `__builtin_cpu_supports` depends on what the
 * compiler's library has found out at start, and that of Zig finds nothing out.
 */
#ifndef ROOTMIND_PROCESSOR_H
#define ROOTMIND_PROCESSOR_H

/* Not on Windows: there GCC does not align what it spills of 32-byte registers. */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__) && !defined(_WIN32)
#define HAS_AVX2_PASSES 1
#include <cpuid.h>
#include <immintrin.h>
#include <stdlib.h>

#define CPU_FMA (1u << 12)
#define CPU_OSXSAVE (1u << 27)
#define CPU_AVX (1u << 28)
#define CPU_AVX2 (1u << 5)
#define CPU_AVX512F (1u << 16)
/* The registers, of 16 and of 32 bytes, that the system keeps for each process; all of 64 bytes. */
#define KEPT_REGISTERS 6u
#define KEPT_AVX512 0xe6u

/* Whether the processor has FMA and a feature `wanted`, and the system keeps its `registers`.
 * With the variable ROOTMIND_PORTABLE, tests see another processor: `nox -s kernels`. */
static inline int has_features(unsigned wanted, unsigned registers)
{
    const unsigned needed = CPU_FMA | CPU_OSXSAVE | CPU_AVX;
    unsigned a, b, c, d, kept, above;
    if (getenv("ROOTMIND_PORTABLE"))
        return 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & needed) != needed)
        return 0;
    __asm__("xgetbv" : "=a"(kept), "=d"(above) : "c"(0));
    if ((kept & registers) != registers)
        return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & wanted) != 0;
}

static inline int has_avx2_and_fma(void) { return has_features(CPU_AVX2, KEPT_REGISTERS); }
static inline int has_avx512(void) { return has_features(CPU_AVX512F, KEPT_AVX512); }
#endif

#endif
