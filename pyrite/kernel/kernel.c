/* Soft margins of rows of scores, losses that are functions of them, and the gradient: one pass over the rows each.
 *
 * It is called on data pointers and includes neither torch's nor Python's headers, so that one library serves every
 * version of both. What has the size of the scores is computed in float for scores of 32 bits or less and in double
 * otherwise; sums and all that is one number per row are double. A row is computed by one thread, so the result does
 * not depend on the number of threads.
 *
 * The file includes itself: once per set of instructions (SET, TARGET), and in each once per type (REAL).
 */
#if !defined(SET)

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { FLOAT, DOUBLE, BFLOAT16, HALF };
/* Scores are converted, padded to full vectors and computed in blocks that stay in the first cache. Threads take
 * groups of rows. A thread is started per PER_THREAD scores: to compute fewer takes no longer than to start it. */
enum { BLOCK = 1024, LANES = 16, GROUP = 64, MOST_THREADS = 64, PER_THREAD = 1 << 18 };

/* factor * f(scale * margin + shift), or a function of the margin and the total. The order is that in
 * __init__.py. */
enum { CE, FOCAL, PROPORTIONAL, GCE, TRUNCATED_GCE, SCE, TCE, AUL, AGCE, AEL, IMAE, NCE, TOTAL };
typedef struct {
    double kind, a, b, factor, scale, shift;
} Term;

typedef struct Pass {
    int kind;
    const char *rows;
    int64_t stride, count, classes, ignored;
    const int64_t *labels;
    double *delta, *top, *mass, *total; /* one number per row, as the rest of the arrays */
    const Term *terms;
    int64_t term_count;
    const double *class_weight, *sample_weight;
    double *values, *d_delta, *d_total, *sums; /* sums: of the values and of the weights, for each group of rows */
    const double *each;
    double factor;
    char *out;
    void (*run)(const struct Pass *, int64_t, int64_t);
    int64_t group;
    atomic_llong next;
} Pass;

static int64_t size_of(int kind) { return kind == DOUBLE ? 8 : kind == FLOAT ? 4 : 2; }

static void *work(void *argument) {
    Pass *pass = argument;
    for (int64_t from; (from = atomic_fetch_add(&pass->next, pass->group)) < pass->count;)
        pass->run(pass, from, from + pass->group < pass->count ? from + pass->group : pass->count);
    return NULL;
}

/* Threads live for one pass: nothing is left that a fork could break, and calls from several threads share nothing.
 * They take groups of rows as they become free, so that one that waits for a core delays no other. */
static void run_all(Pass *pass, int threads) {
    pthread_t others[MOST_THREADS];
    int64_t useful = pass->count * pass->classes / PER_THREAD;
    int started = 0, most = threads < MOST_THREADS ? threads : MOST_THREADS;
    atomic_init(&pass->next, 0);
    while (started + 1 < most && started + 1 < useful && !pthread_create(&others[started], NULL, work, pass))
        started++;
    work(pass);
    while (started) pthread_join(others[--started], NULL);
}

/* Gauss' rule with 16 points on [0, 1]: distances from 1/2 on both sides, and weights. */
static const double GAUSS[8][2] = {
    {0.4947004674958250, 0.01357622970587705}, {0.4722875115366163, 0.03112676196932395},
    {0.4328156011939159, 0.04757925584124639}, {0.3777022041777015, 0.06231448562776694},
    {0.3089381222013219, 0.07479799440828837}, {0.2290083888286137, 0.08457825969750127},
    {0.1408017753896295, 0.09130170752246179}, {0.0475062549188187, 0.09472530522753425},
};

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(f) JOIN(f, SET)
#define SIMD _Pragma("omp simd")

#define SET plain
#define TARGET
#define WIDTH 16
#include "kernel.c"
#undef SET
#undef TARGET
#undef WIDTH
#if defined(__x86_64__)
#define SET avx2
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 32
#include "kernel.c"
#undef SET
#undef TARGET
#undef WIDTH
#define SET avx512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define WIDTH 64
#include "kernel.c"
#define CHOOSE(f) (level() == 2 ? JOIN(f, avx512) : level() == 1 ? JOIN(f, avx2) : JOIN(f, plain))
#else
#define CHOOSE(f) JOIN(f, plain)
#endif

static int limit = 2;

static int level(void) {
#if defined(__x86_64__)
    if (limit > 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (limit > 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

/* For tests: use plain instructions (0), at most AVX2 (1) or at most AVX-512 (2). Returns which will be used. */
int pyrite_limit(int new_limit) {
    limit = new_limit;
    return level();
}

/* Whether the processor announces AMX but describes no tiles, as some virtual machines do: tile instructions fail. */
int pyrite_amx_without_tiles(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1)) return 0;
    return !__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) || a == 0;
#else
    return 0;
#endif
}

/* Margins and, if with_total, the cross entropy summed over all labels; or, with terms, their sum as a loss.
 *
 * state has one array per number of a row: delta, top and mass, then the total or, with terms, the derivatives of the
 * loss by margin and by total. values are the losses of all rows (or NULL); sums their sum and that of the weights.
 * Unless out is NULL, the gradient of the sum, or with mean of the weighted mean, is put there in a second pass.
 * Returns the first row whose label is neither a class nor ignored, in which case nothing is computed; -1 if there is
 * none, and -2 if memory is exhausted. */
int64_t pyrite_forward(int kind, const void *rows, int64_t stride, int64_t count, int64_t classes,
                       const int64_t *labels, int64_t ignored, int with_total, double *state, const double *terms,
                       int64_t term_count, const double *class_weight, const double *sample_weight, double *values,
                       double *sums, void *out, int mean, int threads) {
    for (int64_t i = 0; i < count; i++)
        if ((uint64_t)labels[i] >= (uint64_t)classes && labels[i] != ignored) return i;
    int64_t group = BLOCK * LANES / classes;
    group = group < 1 ? 1 : group > GROUP ? GROUP : group;
    int64_t groups = (count + group - 1) / group;
    double few[2 * GROUP], *room = groups <= GROUP ? few : malloc(groups * 2 * sizeof(double));
    if (!room) return -2;
    double *more = with_total ? state + (terms ? 4 : 3) * count : NULL;
    Pass pass = {.kind = kind, .rows = rows, .stride = stride, .count = count, .classes = classes, .ignored = ignored,
                 .labels = labels, .delta = state, .top = state + count, .mass = state + 2 * count,
                 .total = terms ? NULL : more, .terms = (const Term *)terms, .term_count = term_count,
                 .class_weight = class_weight, .sample_weight = sample_weight, .values = values,
                 .d_delta = terms ? state + 3 * count : NULL, .d_total = terms ? more : NULL, .sums = room,
                 .run = CHOOSE(forward), .group = group};
    run_all(&pass, threads);
    if (terms) {
        sums[0] = sums[1] = 0;
        for (int64_t g = 0; g < groups; g++) {
            sums[0] += room[2 * g];
            sums[1] += room[2 * g + 1];
        }
    }
    if (room != few) free(room);
    if (out) {
        pass.run = CHOOSE(backward);
        pass.out = out;
        pass.factor = mean ? 1 / sums[1] : 1;
        run_all(&pass, threads);
    }
    return -1;
}

/* The gradient by the scores, of contiguous rows, for derivatives d_delta and d_total (or NULL) by margin and total,
 * each times factor and, unless it is NULL, times the number for its row. */
void pyrite_backward(int kind, const void *rows, int64_t stride, int64_t count, int64_t classes,
                     const int64_t *labels, int64_t ignored, const double *state, const double *d_delta, const double *d_total,
                     const double *each, double factor, void *out, int threads) {
    int64_t group = BLOCK * LANES / classes;
    Pass pass = {.kind = kind, .rows = rows, .stride = stride, .count = count, .classes = classes, .ignored = ignored,
                 .labels = labels, .delta = (double *)state, .top = (double *)state + count, .mass = (double *)state + 2 * count,
                 .d_delta = (double *)d_delta, .d_total = (double *)d_total, .each = each, .factor = factor,
                 .out = out, .run = CHOOSE(backward), .group = group < 1 ? 1 : group > GROUP ? GROUP : group};
    run_all(&pass, threads);
}

#elif !defined(REAL)

/* e^x with x split into n log 2 + r, |r| <= log(2)/2, and Taylor's series of e^r. Below the normal numbers it is 0. */
TARGET static inline double NAME(exp)(double x) {
    double shifted = x * 1.4426950408889634 + 6755399441055744.0, n = shifted - 6755399441055744.0;
    double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double y = 1 + r * (1 + r * (1. / 2 + r * (1. / 6 + r * (1. / 24 + r * (1. / 120 + r * (1. / 720 + r * (1. / 5040 +
        r * (1. / 40320 + r * (1. / 362880 + r * (1. / 3628800 + r * (1. / 39916800 + r * (1. / 479001600 +
        r * (1. / 6227020800)))))))))))));
    uint64_t bits;
    memcpy(&bits, &shifted, 8);
    bits = (bits << 52) + 0x3ff0000000000000;
    double power;
    memcpy(&power, &bits, 8);
    double result = y * power;
    result = x < -708 ? 0 : result;
    return x > 709 ? INFINITY : result;
}

/* log x of a normal number, 0 or infinity: x = 2^e m, log m = 2 atanh((m - 1)/(m + 1)), m from sqrt(1/2) to sqrt 2. */
TARGET static inline double NAME(log)(double x) {
    int64_t bits, one = 0x3fe6a09e667f3bcd, shifted = 0x4338000000000000;
    memcpy(&bits, &x, 8);
    int64_t exponent = ((uint64_t)(bits - one + 0x4000000000000000) >> 52) - 0x400;
    int64_t scaled = bits - (int64_t)((uint64_t)exponent << 52);
    double m, e;
    memcpy(&m, &scaled, 8);
    shifted += exponent;
    memcpy(&e, &shifted, 8);
    e -= 6755399441055744.0;
    double s = (m - 1) / (m + 1), q = s * s;
    double y = q * (1. / 3 + q * (1. / 5 + q * (1. / 7 + q * (1. / 9 + q * (1. / 11 + q * (1. / 13 + q * (1. / 15 +
        q * (1. / 17 + q * (1. / 19 + q * (1. / 21))))))))));
    double result = e * 0x1.62e42fee00000p-1 + (2 * s + (2 * s * y + e * 0x1.a39ef35793c76p-33));
    result = x > 0 ? result : x - x - INFINITY; /* NaN stays NaN */
    return x < INFINITY ? result : x;
}

/* Kahan's forms: the rounding of 1 + x, or of e^x, is the same in both factors. */
TARGET static inline double NAME(log1p)(double x) {
    double sum = 1 + x, rounded = sum - 1;
    double result = NAME(log)(sum) * (x / rounded);
    return rounded == 0 ? x : result;
}

TARGET static inline double NAME(expm1)(double x) {
    double power = NAME(exp)(x), less = power - 1;
    double result = less * (x / NAME(log)(power));
    result = less == -1 ? -1 : result;
    return less == 0 ? x : result;
}

/* One term of a loss for n rows: its values and its derivatives are added to those of the others. */
TARGET static void NAME(term)(const Term *term, int n, const double *delta, const double *total,
                              double *value, double *d_delta, double *d_total) {
    double l[GROUP], r[GROUP], p[GROUP], u[GROUP], v[GROUP], w[GROUP]; /* log p, log(1 - p), p, 1 - p, phi, -phi' */
    double a = term->a, b = term->b, least = -NAME(log1p)(NAME(exp)(-b)); /* log p at the margin b */
    int kind = (int)term->kind;
    SIMD for (int i = 0; i < n; i++) {
        double z = term->scale * delta[i] + term->shift, size = fabs(z);
        double rest = NAME(log1p)(NAME(exp)(-size));
        l[i] = (z < 0 ? z : 0) - rest;
        r[i] = (z > 0 ? -z : 0) - rest;
        p[i] = NAME(exp)(l[i]);
        u[i] = NAME(exp)(r[i]);
        v[i] = z;
    }
    if (kind == CE || kind == NCE) SIMD for (int i = 0; i < n; i++) {
        v[i] = -l[i];
        w[i] = u[i];
    }
    else if (kind == FOCAL) SIMD for (int i = 0; i < n; i++) {
        double power = NAME(exp)(a * r[i]), some = l[i] > -1e30 ? l[i] : -1e30; /* p log p is 0 where log p is -inf */
        v[i] = -power * l[i];
        w[i] = power * (u[i] - a * p[i] * some);
    }
    else if (kind == PROPORTIONAL) SIMD for (int i = 0; i < n; i++) {
        v[i] = a * u[i];
        w[i] = a * NAME(exp)(l[i] + r[i]);
    }
    else if (kind == GCE || kind == TRUNCATED_GCE) SIMD for (int i = 0; i < n; i++) {
        double weight = NAME(exp)(a * l[i] + r[i]);
        int below = kind == TRUNCATED_GCE && v[i] <= b;
        w[i] = below ? 0 : weight;
        v[i] = -NAME(expm1)(a * (below ? least : l[i])) / a;
    }
    else if (kind == SCE) SIMD for (int i = 0; i < n; i++) {
        v[i] = a * u[i] - (1 - a) * l[i];
        w[i] = (1 - a + a * p[i]) * u[i];
    }
    else if (kind == TCE) for (int i = 0; i < n; i++) {
        v[i] = u[i] / a;
        for (int k = (int)a - 1; k > 0; k--) v[i] = u[i] * (1. / k + v[i]);
        w[i] = -u[i] * NAME(expm1)(a * r[i]);
    }
    else if (kind == AUL) SIMD for (int i = 0; i < n; i++) {
        double log_sum = NAME(log)(a - 1 + u[i]);
        v[i] = -NAME(exp)(b * log_sum) * NAME(expm1)(-b * NAME(log1p)(u[i] / (a - 1))) / b;
        w[i] = NAME(exp)(l[i] + r[i] + (b - 1) * log_sum);
    }
    else if (kind == AGCE) SIMD for (int i = 0; i < n; i++) {
        v[i] = -NAME(exp)(b * NAME(log)(a + 1)) * NAME(expm1)(b * NAME(log1p)(-u[i] / (a + 1))) / b;
        w[i] = NAME(exp)(l[i] + r[i] + (b - 1) * NAME(log)(a + p[i]));
    }
    else if (kind == AEL) SIMD for (int i = 0; i < n; i++) {
        v[i] = -NAME(exp)(-p[i] / a) * NAME(expm1)(-u[i] / a);
        w[i] = NAME(exp)(l[i] + r[i] - p[i] / a) / a;
    }
    else if (kind == IMAE) for (int i = 0; i < n; i++) {
        double z = v[i], least = p[i] < u[i] ? p[i] : u[i], sum = 0;
        least = least > 1e-30 ? least : 1e-30;
        SIMD for (int k = 0; k < 16; k++) {
            double point = least * (k < 8 ? 0.5 - GAUSS[k & 7][0] : 0.5 + GAUSS[k & 7][0]);
            double x = a * point * (1 - point);
            sum += GAUSS[k & 7][1] * NAME(expm1)(x) / x;
        }
        double bump = a == 0 ? 0 : a * least * sum;
        v[i] = 0.5 * ((z < 0 ? b - bump : bump) - z);
        w[i] = 0.5 * NAME(exp)(a * NAME(exp)(l[i] + r[i]));
    }
    double factor = term->factor, scale = term->scale;
    if (kind == TOTAL) SIMD for (int i = 0; i < n; i++) {
        value[i] += factor * total[i];
        d_total[i] += factor;
    }
    else if (kind == NCE) SIMD for (int i = 0; i < n; i++) {
        value[i] += factor * (v[i] / total[i]);
        d_delta[i] -= factor * (w[i] / total[i]);
        d_total[i] -= factor * (v[i] / total[i] / total[i]);
    }
    else SIMD for (int i = 0; i < n; i++) {
        value[i] += factor * v[i];
        d_delta[i] -= factor * scale * w[i];
    }
}

#define REAL double
#define INTEGER int64_t
#define TYPED(f) NAME(JOIN(f, double))
#include "kernel.c"
#undef REAL
#undef INTEGER
#undef TYPED
#define REAL float
#define INTEGER int32_t
#define REAL_IS_FLOAT
#define TYPED(f) NAME(JOIN(f, float))
#include "kernel.c"
#undef REAL
#undef INTEGER
#undef REAL_IS_FLOAT
#undef TYPED

static inline int NAME(skipped)(const Pass *pass, int64_t label) {
    return label == pass->ignored || (uint64_t)label >= (uint64_t)pass->classes;
}

TARGET static void NAME(forward)(const Pass *pass, int64_t from, int64_t to) {
    double total[GROUP], value[GROUP], d_delta[GROUP], d_total[GROUP], weight[GROUP];
    int n = (int)(to - from), with_total = pass->total || pass->d_total;
    for (int i = 0; i < n; i++) {
        int64_t row = from + i, label = pass->labels[row];
        value[i] = d_delta[i] = d_total[i] = weight[i] = pass->delta[row] = pass->top[row] = 0;
        total[i] = pass->mass[row] = 1;
        if (NAME(skipped)(pass, label)) continue;
        if (pass->kind == DOUBLE) NAME(statistics_double)(pass, row, label, with_total ? &total[i] : NULL);
        else NAME(statistics_float)(pass, row, label, with_total ? &total[i] : NULL);
        weight[i] = (pass->class_weight ? pass->class_weight[label] : 1) *
                    (pass->sample_weight ? pass->sample_weight[row] : 1);
    }
    /* mass is at least 1, or 0 where all others are -inf; delta holds the label's score relative to top. total is the
     * sum over i of -log p_i from positive terms, so that nothing cancels: -log p_y = -log sigmoid(delta), and for the
     * others the logarithm of all mass relative to top, less s_i - top, whose sum is in total so far. */
    double *delta = pass->delta + from, *mass = pass->mass + from, others = (double)pass->classes - 1;
    SIMD for (int i = 0; i < n; i++) {
        double log_mass = NAME(log)(mass[i]), own = delta[i], difference = own - log_mass;
        double high = own > log_mass ? own : log_mass, rest = NAME(log1p)(NAME(exp)(-fabs(difference)));
        total[i] = others * (high + rest) - total[i] + ((difference < 0 ? -difference : 0) + rest);
        delta[i] = difference;
    }
    if (pass->total) memcpy(pass->total + from, total, n * sizeof(double));
    if (!pass->terms) return;
    for (int64_t k = 0; k < pass->term_count; k++)
        NAME(term)(&pass->terms[k], n, delta, total, value, d_delta, d_total);
    double *sums = pass->sums + 2 * (from / pass->group);
    sums[0] = sums[1] = 0;
    for (int i = 0; i < n; i++) {
        int64_t row = from + i;
        value[i] *= weight[i];
        sums[0] += value[i];
        sums[1] += weight[i];
        if (pass->values) pass->values[row] = value[i];
        pass->d_delta[row] = weight[i] * d_delta[i];
        if (pass->d_total) pass->d_total[row] = weight[i] * d_total[i];
    }
}

/* The gradient of delta is 1 at the label and -q_j elsewhere, with q the softmax over the others; that of total is
 * C p_j - 1, with p_j = sigmoid(-delta) q_j. So a row's has one number at the label, a factor of q, and a constant. */
TARGET static void NAME(backward)(const Pass *pass, int64_t from, int64_t to) {
    for (int64_t row = from; row < to; row++) {
        int64_t label = pass->labels[row], size = pass->classes * size_of(pass->kind);
        if (NAME(skipped)(pass, label)) {
            memset(pass->out + row * size, 0, size);
            continue;
        }
        double factor = pass->factor * (pass->each ? pass->each[row] : 1), at_label = factor * pass->d_delta[row];
        double others = -at_label, constant = 0, mass = pass->mass[row];
        if (pass->d_total) {
            double delta = pass->delta[row], total = factor * pass->d_total[row], small = NAME(exp)(-fabs(delta));
            double large = 1 / (1 + small);
            small *= large;
            at_label += total * (pass->classes * (delta > 0 ? large : small) - 1);
            others += total * (pass->classes * (delta > 0 ? small : large));
            constant = -total;
        }
        others /= mass < 0.5 ? 0.5 : mass;
        if (pass->kind == DOUBLE) NAME(gradient_double)(pass, row, label, at_label, others, constant);
        else NAME(gradient_float)(pass, row, label, at_label, others, constant);
    }
}

#else

/* Vectors of one register, in the syntax that GCC and Clang share. */
typedef REAL TYPED(Vector) __attribute__((vector_size(WIDTH)));
typedef INTEGER TYPED(Bits) __attribute__((vector_size(WIDTH)));
enum { TYPED(LANES) = WIDTH / sizeof(REAL) };
static const REAL TYPED(LOWEST) = sizeof(REAL) == 4 ? -FLT_MAX : -DBL_MAX;

TARGET static inline TYPED(Vector) TYPED(larger)(TYPED(Vector) x, TYPED(Vector) y) {
    TYPED(Bits) second = y > x; /* not where y is NaN */
    return (TYPED(Vector))(((TYPED(Bits))y & second) | ((TYPED(Bits))x & ~second));
}

TARGET static inline REAL TYPED(largest)(TYPED(Vector) x) {
    REAL lane[TYPED(LANES)], largest = x[0];
    memcpy(lane, &x, WIDTH);
    _Pragma("omp simd reduction(max : largest)") for (int i = 0; i < TYPED(LANES); i++)
        largest = lane[i] > largest ? lane[i] : largest;
    return largest;
}

#if !defined(REAL_IS_FLOAT)
TARGET static inline TYPED(Vector) TYPED(exp)(TYPED(Vector) x) {
    for (int i = 0; i < TYPED(LANES); i++) x[i] = NAME(exp)(x[i]);
    return x;
}

#else
/* As the double one. The result for x > 0 is of no use, and of x < -87 it is 0. */
TARGET static inline TYPED(Vector) TYPED(exp)(TYPED(Vector) x) {
    TYPED(Vector) shifted = x * 1.44269504f + 12582912.f, n = shifted - 12582912.f;
    TYPED(Vector) r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    TYPED(Vector) y = 1 + r * (1 + r * (1.f / 2 + r * (1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r * (1.f / 720 +
        r * (1.f / 5040)))))));
    typedef uint32_t Words __attribute__((vector_size(WIDTH)));
    TYPED(Vector) power = (TYPED(Vector))(((Words)shifted << 23) + 0x3f800000);
    return (TYPED(Vector))((TYPED(Bits))(y * power) & ~(x < -87));
}

TARGET static inline uint16_t TYPED(to_bfloat16)(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits += 0x7fff + (bits >> 16 & 1); /* to the nearest, ties to even */
    return x == x ? bits >> 16 : 0x7fc0;
}

TARGET static inline uint16_t TYPED(to_half)(float x) {
    uint32_t bits, sign, low;
    memcpy(&bits, &x, 4);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    float tiny;
    memcpy(&tiny, &bits, 4);
    tiny += 0.5f; /* what is too small for a normal number is rounded by this sum */
    memcpy(&low, &tiny, 4);
    uint32_t normal = (bits + 0xc8000fff + (bits >> 13 & 1)) >> 13, small = low - 0x3f000000;
    uint32_t large = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t finite = bits < 0x38800000 ? small : normal;
    return sign | (bits >= 0x47800000 ? large : finite);
}

TARGET static inline float TYPED(from_half)(uint16_t half) {
    uint32_t low = half & 0x7fff, bits = low << 13 | (low >= 0x7c00 ? 0x7f800000 : 0), sign = (half & 0x8000u) << 16;
    float x;
    memcpy(&x, &bits, 4);
    x *= low >= 0x7c00 ? 1 : 0x1p112f;
    memcpy(&bits, &x, 4);
    bits |= sign;
    memcpy(&x, &bits, 4);
    return x;
}
#endif

/* n scores of a row as REAL numbers, where they are or converted. What follows up to full vectors can be read. */
TARGET static inline const REAL *TYPED(load)(const Pass *pass, int64_t row, int64_t from, int n, REAL *room) {
    const char *source = pass->rows + (row * pass->stride + from) * size_of(pass->kind);
#if defined(REAL_IS_FLOAT)
    const uint16_t *half = (const uint16_t *)source;
    if (pass->kind == BFLOAT16) {
        SIMD for (int i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)half[i] << 16;
            memcpy(&room[i], &bits, 4);
        }
    } else if (pass->kind == HALF) {
        SIMD for (int i = 0; i < n; i++) room[i] = TYPED(from_half)(half[i]);
    } else
#endif
    {
        int64_t left = (pass->count - 1 - row) * pass->stride + pass->classes - from;
        if (left >= TYPED(LANES)) return (const REAL *)source;
        for (int i = 0; i < n; i++) room[i] = ((const REAL *)source)[i];
    }
    return room;
}

TARGET static inline void TYPED(store)(int kind, char *target, int n, const REAL *room) {
    (void)kind;
#if defined(REAL_IS_FLOAT)
    uint16_t *half = (uint16_t *)target;
    if (kind == BFLOAT16) {
        SIMD for (int i = 0; i < n; i++) half[i] = TYPED(to_bfloat16)(room[i]);
        return;
    }
    if (kind == HALF) {
        SIMD for (int i = 0; i < n; i++) half[i] = TYPED(to_half)(room[i]);
        return;
    }
#endif
    for (int size = TYPED(LANES) / 2; size; size /= 2)
        if (n >= size) { /* two pieces that overlap */
            memcpy(target, room, size * sizeof(REAL));
            memcpy(target + (n - size) * sizeof(REAL), room + n - size, size * sizeof(REAL));
            return;
        }
}

/* Where the i-th vector of n numbers starts: the last one ends with them and overlaps with the one before. */
static inline int TYPED(start)(int i, int n) {
    int last = n - TYPED(LANES), start = i * TYPED(LANES);
    return start < last ? start : last;
}

TARGET static inline TYPED(Vector) TYPED(without)(const REAL *scores, TYPED(Bits) none) {
    TYPED(Vector) x;
    memcpy(&x, scores, WIDTH);
    return (TYPED(Vector))(((TYPED(Bits))x & ~none) | ((TYPED(Bits))((TYPED(Vector)){0} - INFINITY) & none));
}

TARGET static inline double TYPED(sum)(const REAL *scores, int n) {
    double sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (int i = 0; i < n; i++) sum += scores[i];
    return sum;
}

/* Of a row without its label: the largest score, the mass relative to it and, in total, the sum of the distances to it;
 * in delta the label's score relative to it. What has been summed is rescaled where a block has a larger score. */
TARGET static void TYPED(statistics)(const Pass *pass, int64_t row, int64_t label, double *total) {
    TYPED(Vector) block[BLOCK / TYPED(LANES)];
    REAL top = TYPED(LOWEST);
    double own = 0, mass = 0, scores_sum = 0;
    for (int64_t from = 0; from < pass->classes; from += BLOCK) {
        int n = pass->classes - from < BLOCK ? (int)(pass->classes - from) : BLOCK;
        int vectors = (n + TYPED(LANES) - 1) / TYPED(LANES), at = label >= from && label < from + n ? label - from : -1;
        const REAL *scores = TYPED(load)(pass, row, from, n, (REAL *)block);
        if (at >= 0) own = scores[at];
        if (total) {
            int split = at < 0 ? n : at;
            scores_sum += TYPED(sum)(scores, split);
            if (at >= 0) scores_sum += TYPED(sum)(scores + at + 1, n - at - 1);
        }
        TYPED(Vector) high[4];
        for (int k = 0; k < 4; k++) high[k] = (TYPED(Vector)){0} + top;
        TYPED(Bits) place;
        for (int k = 0; k < TYPED(LANES); k++) place[k] = k;
        int i = 0;
        for (; (i + 4) * TYPED(LANES) <= n; i += 4)
            for (int k = 0; k < 4; k++, place += TYPED(LANES)) {
                block[i + k] = TYPED(without)(scores + (i + k) * TYPED(LANES), place == at);
                high[k] = TYPED(larger)(high[k], block[i + k]);
            }
        for (; (i + 1) * TYPED(LANES) <= n; i++, place += TYPED(LANES)) {
            block[i] = TYPED(without)(scores + i * TYPED(LANES), place == at);
            high[0] = TYPED(larger)(high[0], block[i]);
        }
        if (i < vectors) { /* the last vector ends with the scores, and begins among those already counted */
            int overlap = scores == (REAL *)block || i == 0 ? 0 : vectors * TYPED(LANES) - n;
            place -= overlap;
            TYPED(Bits) none = (place == at) | (place < i * TYPED(LANES)) | (place >= n);
            block[i] = TYPED(without)(scores + i * TYPED(LANES) - overlap, none);
            high[3] = TYPED(larger)(high[3], block[i]);
        }
        REAL highest = TYPED(largest)(TYPED(larger)(TYPED(larger)(high[0], high[1]), TYPED(larger)(high[2], high[3])));
        if (highest > top) {
            mass = from ? mass * exp((double)top - highest) : 0;
            top = highest;
        }
        for (i = 0; i < vectors; i++) block[i] = TYPED(exp)(block[i] - top);
        mass += TYPED(sum)((REAL *)block, vectors * TYPED(LANES));
    }
    pass->top[row] = top;
    pass->mass[row] = mass;
    pass->delta[row] = own - top;
    if (total) *total = scores_sum - (double)(pass->classes - 1) * top;
}

TARGET static void TYPED(gradient)(const Pass *pass, int64_t row, int64_t label, double at_label, double others,
                                   double constant) {
    REAL room[BLOCK] __attribute__((aligned(64))), top = pass->top[row], factor = others, more = constant;
    for (int64_t from = 0; from < pass->classes; from += BLOCK) {
        int n = pass->classes - from < BLOCK ? (int)(pass->classes - from) : BLOCK;
        char *target = pass->out + (row * pass->classes + from) * size_of(pass->kind);
        const REAL *scores = TYPED(load)(pass, row, from, n, room);
        REAL *here = scores == room || n < TYPED(LANES) ? room : (REAL *)target;
        int vectors = (n + TYPED(LANES) - 1) / TYPED(LANES), end = here == room ? vectors * TYPED(LANES) : n;
        for (int i = 0; i < vectors; i++) {
            TYPED(Vector) x;
            int start = TYPED(start)(i, end);
            memcpy(&x, scores + start, WIDTH);
            x = TYPED(exp)(x - top) * factor + more;
            memcpy(here + start, &x, WIDTH);
        }
        if (label >= from && label < from + n) here[label - from] = at_label;
        if (here == room) TYPED(store)(pass->kind, target, n, room);
    }
}

#endif
