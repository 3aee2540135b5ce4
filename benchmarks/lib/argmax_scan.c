/* What reading the scores costs, on the padded batch that the decoder gets: the best head of each
 * word by a plain loop, and, harder to match, the best score alone in a form that compilers
 * vectorise. Rows of `width` numbers, `width` rows a sentence; lengths in words. */
#include <stddef.h>
#include <stdint.h>

#define LANES 16

#define ARGMAX_SCAN(NAME, TYPE)                                                              \
    void NAME(const TYPE *scores, const ptrdiff_t *lengths, ptrdiff_t count, ptrdiff_t width, \
              int32_t *heads) {                                                              \
        for (ptrdiff_t i = 0; i < count; i++) {                                              \
            const ptrdiff_t n = lengths[i];                                                  \
            for (ptrdiff_t dep = 1; dep <= n; dep++) {                                       \
                const TYPE *row = scores + (i * width + dep) * width;                        \
                TYPE best = row[0];                                                          \
                int32_t index = 0;                                                           \
                for (ptrdiff_t head = 1; head <= n; head++) {                                \
                    if (row[head] > best) {                                                  \
                        best = row[head];                                                    \
                        index = (int32_t)head;                                               \
                    }                                                                        \
                }                                                                            \
                heads[i * width + dep] = index;                                              \
            }                                                                                \
        }                                                                                    \
    }

#define ROW_MAX(NAME, TYPE)                                                                  \
    void NAME(const TYPE *scores, const ptrdiff_t *lengths, ptrdiff_t count, ptrdiff_t width, \
              TYPE *maxima) {                                                                \
        for (ptrdiff_t i = 0; i < count; i++) {                                              \
            const ptrdiff_t n = lengths[i];                                                  \
            for (ptrdiff_t dep = 1; dep <= n; dep++) {                                       \
                const TYPE *row = scores + (i * width + dep) * width;                        \
                TYPE lane[LANES];                                                            \
                TYPE best = row[0];                                                          \
                ptrdiff_t head = 0;                                                          \
                for (int j = 0; j < LANES; j++) lane[j] = best;                              \
                for (; head + LANES <= n + 1; head += LANES)                                 \
                    for (int j = 0; j < LANES; j++)                                          \
                        lane[j] = row[head + j] > lane[j] ? row[head + j] : lane[j];         \
                for (int j = 0; j < LANES; j++) best = lane[j] > best ? lane[j] : best;      \
                for (; head <= n; head++) best = row[head] > best ? row[head] : best;        \
                maxima[i * width + dep] = best;                                              \
            }                                                                                \
        }                                                                                    \
    }

ARGMAX_SCAN(argmax_scan_float32, float)
ARGMAX_SCAN(argmax_scan_float64, double)
ROW_MAX(row_max_float32, float)
ROW_MAX(row_max_float64, double)
