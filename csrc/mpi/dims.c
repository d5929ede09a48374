/* SPDX-License-Identifier: MIT */
/*
 * MPI_Dims_create: factors of a number that are as close to each other as can
 * be.
 *
 * "Close" is taken at its word, as Traeff and Luebbe ("Specification guideline
 * violations by MPI_Dims_create", EuroMPI 2015) proposed: the difference
 * between the largest and the smallest factor is as small as possible. Among
 * factorisations of equal difference the one with the largest smallest factor
 * wins, then with the largest second smallest, and so on.
 *
 * The search is exact. It tries smallest factors m downward from the k-th
 * root; the best difference so far bounds the largest factor, so that it soon
 * ends. It works on the list of divisors, of which a 31-bit number has at most
 * 1600.
 */
#include "mpi/api.h"

/* Beyond so many factors the others are 1. */
#define FACTORS_MAX 31
#define DIVISORS_MAX 1600

struct search {
    int k;                      /* factors wanted, at least 2 */
    int divisors[DIVISORS_MAX]; /* ascending */
    int n_divisors;
    int64_t limit; /* the largest factor must not be above */
    bool found;
    int now[FACTORS_MAX]; /* ascending */
    int best[FACTORS_MAX];
};

static void list_divisors(struct search *s, int n)
{
    int low = 0, high = DIVISORS_MAX;

    for (int d = 1; (int64_t)d * d <= n; d++) {
        if (n % d)
            continue;
        s->divisors[low++] = d;
        if (d != n / d)
            s->divisors[--high] = n / d;
    }
    memmove(&s->divisors[low], &s->divisors[high],
            (size_t)(DIVISORS_MAX - high) * sizeof s->divisors[0]);
    s->n_divisors = low + DIVISORS_MAX - high;
}

/* Whether base^k is at least n. */
static bool reaches(int64_t base, int k, int64_t n)
{
    int64_t power = 1;

    for (int i = 0; i < k && power < n; i++)
        power *= base; /* below 2^31 times 2^31 */
    return power >= n;
}

/* Whether base^k is at most n. */
static bool is_within(int64_t base, int k, int64_t n)
{
    return base == 1 || !reaches(base, k, n + 1);
}

/* Chooses factor number `depth` of the product `rest` among the divisors from
 * index `from` on. Large ones first, and a better solution must have a smaller
 * largest factor: so of equals the first one found stays. */
static void choose(struct search *s, int depth, int rest, int from)
{
    int left = s->k - depth;

    if (left == 1) {
        if (rest > s->limit)
            return;
        s->now[depth] = rest;
        memcpy(s->best, s->now, sizeof s->best);
        s->found = true;
        s->limit = rest - 1;
        return;
    }
    int last = from;
    while (last + 1 < s->n_divisors &&
           is_within(s->divisors[last + 1], left, rest))
        last++;
    for (int i = last; i >= from; i--) {
        int d = s->divisors[i];
        if (rest % d || !is_within(d, left, rest))
            continue;
        if (!reaches(s->limit, left - 1, rest / d))
            break;
        s->now[depth] = d;
        choose(s, depth + 1, rest / d, i);
    }
}

static void search(struct search *s, int n)
{
    int64_t difference = n;

    for (int i = s->n_divisors - 1; i >= 0; i--) {
        int m = s->divisors[i];
        if (!is_within(m, s->k, n))
            continue;
        s->limit = m + difference - 1;
        if (!reaches(s->limit, s->k, n))
            break;
        s->now[0] = m;
        s->found = false;
        choose(s, 1, n / m, i);
        if (s->found)
            difference = s->limit + 1 - m;
    }
}

/* k factors of n, descending. */
static void factorise(struct search *s, int n, int k, int *out)
{
    if (k == 1) {
        out[0] = n;
        return;
    }
    s->k = TB_MIN(k, FACTORS_MAX);
    list_divisors(s, n);
    search(s, n);
    for (int i = 0; i < k; i++)
        out[i] = i < s->k ? s->best[s->k - 1 - i] : 1;
}

/* What the given dimensions leave to be filled in: `rest`, for `n_free`. */
static tb_err check(int nnodes, int ndims, const int *dims, int *rest,
                    int *n_free)
{
    *rest = nnodes;
    *n_free = 0;
    if (nnodes < 1)
        return tb_fail(TB_ERR_DIMS, "nnodes is %d: it must be positive",
                       nnodes);
    if (ndims < 0 || (ndims > 0 && !dims))
        return tb_fail(TB_ERR_DIMS, "ndims is %d%s", ndims,
                       ndims < 0 ? ": it must not be negative"
                                 : ", and dims is NULL");
    for (int i = 0; i < ndims; i++) {
        if (dims[i] < 0)
            return tb_fail(TB_ERR_DIMS,
                           "dims[%d] is %d: it must not be "
                           "negative",
                           i, dims[i]);
        if (dims[i] == 0)
            ++*n_free;
        else if (*rest % dims[i])
            return tb_fail(TB_ERR_DIMS,
                           "%d nodes cannot be divided by the "
                           "dimensions that are given",
                           nnodes);
        else
            *rest /= dims[i];
    }
    if (*n_free == 0 && *rest != 1)
        return tb_fail(TB_ERR_DIMS,
                       "the dimensions are all given and their "
                       "product is not %d",
                       nnodes);
    return TB_OK;
}

tb_err tb_dims_create(int nnodes, int ndims, int dims[])
{
    int rest, n_free;

    TB_TRY(check(nnodes, ndims, dims, &rest, &n_free));
    if (n_free == 0)
        return TB_OK;
    int *factors = tb_alloc((size_t)n_free * sizeof *factors);
    struct search *s = tb_calloc(1, sizeof *s);
    if (factors && s) {
        factorise(s, rest, n_free, factors);
        for (int i = 0, next = 0; i < ndims; i++)
            if (dims[i] == 0)
                dims[i] = factors[next++];
    }
    bool done = factors && s;
    tb_free(factors);
    tb_free(s);
    return done ? TB_OK
                : tb_fail(TB_ERR_NO_MEM, "no memory for %d dimensions", n_free);
}
