/* SPDX-License-Identifier: MIT */
/*
 * Sampling.  Every sample starts with a barrier; its time is the slowest
 * rank's mean per operation over a loop of back-to-back turns.  The number
 * of turns is found by growing the loop until it fills its share of the
 * budget, which also warms caches, connections and the library's pools.
 * The samples of a size are taken in a few visits, with the other sizes of
 * the family in between, so that one burst of other load on the machine
 * cannot cover all of them.
 * All decisions follow from times that an allreduce has made equal on every
 * rank, so no rank can leave a loop that another one stays in.
 */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_SAMPLES = 5, MAX_TURNS = 1 << 20, VISITS = 4 };

double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t pattern_word(size_t i, uint64_t seed)
{
    return seed + (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t pattern_seed(int from, int to, unsigned key)
{
    uint64_t seed = ((uint64_t)key << 32) ^ ((uint64_t)from << 16) ^
                    (uint64_t)to ^ UINT64_C(0x5bd1e9955bd1e995);

    return seed * UINT64_C(0xff51afd7ed558ccd);
}

void bench_pattern(char *buf, size_t len, int from, int to, unsigned key)
{
    uint64_t seed = pattern_seed(from, to, key);

    for (size_t at = 0, i = 0; at < len; at += sizeof(uint64_t), i++) {
        uint64_t word = pattern_word(i, seed);
        size_t left = len - at;

        memcpy(buf + at, &word, left < sizeof(word) ? left : sizeof(word));
    }
}

long bench_mismatch(const char *buf, size_t len, int from, int to, unsigned key)
{
    uint64_t seed = pattern_seed(from, to, key);
    long wrong = 0;

    for (size_t at = 0, i = 0; at < len; at += sizeof(uint64_t), i++) {
        uint64_t word = pattern_word(i, seed);
        size_t left = len - at;

        wrong += memcmp(buf + at, &word,
                        left < sizeof(word) ? left : sizeof(word)) != 0;
    }
    return wrong;
}

/* Equal on all ranks: the slowest rank's times, in seconds. */
struct reading {
    double loop;   /* the timed part */
    double sample; /* with filling and checking */
    double family; /* since the family began */
};

/* One size on its way to a figure. */
struct series {
    size_t bytes;
    int turns, n;
    double usec[BENCH_MAX_SAMPLES];
    double timed, wall; /* seconds, of the samples and of everything */
    long wrong;
};

static struct reading sample(struct bench *b, const struct family *f,
                             struct series *s, int turns, double family_start)
{
    struct reading mine, all;
    double begin = bench_now(), start, stop;

    b->key++;
    b->turns = turns;
    f->fill(b, s->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    f->loop(b, s->bytes);
    stop = bench_now();
    mine.loop = stop - start;
    /* A rank that checks already would take a shared processor from one that
     * is still in the loop. */
    MPI_Barrier(MPI_COMM_WORLD);
    s->wrong += f->check(b, s->bytes);
    stop = bench_now();
    mine.sample = stop - begin;
    mine.family = stop - family_start;
    MPI_Allreduce(&mine, &all, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    s->wall += all.sample;
    return all;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Linear interpolation between order statistics (Hyndman & Fan, type 7). */
static double quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int low = (int)at;
    int high = low + 1 < n ? low + 1 : low;

    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

static int least_samples(const struct limits *lim)
{
    return lim->samples < MIN_SAMPLES ? lim->samples : MIN_SAMPLES;
}

/*
 * Finds how many turns fill one sample's share of the budget, from where the
 * last visit left it: other load may have made the loop look long enough.
 * Samples of loops that turn out to be too short are dropped.
 */
static struct reading calibrate(struct bench *b, const struct family *f,
                                struct series *s, const struct limits *lim,
                                double family_start)
{
    double share = lim->budget / lim->samples;
    double until = s->wall + lim->size_limit / VISITS / 2;
    int is_cold = s->turns == 0, before = s->turns;
    struct reading r;

    s->turns = is_cold ? 1 : s->turns;
    for (;; is_cold = 0) {
        double grow;

        r = sample(b, f, s, s->turns, family_start);
        grow = r.loop > 0 ? share / r.loop : 8;
        if (s->wall > until || s->turns == MAX_TURNS ||
            (!is_cold && grow < 1.5))
            break;
        /* The first turns are cold: no step may trust them too far. */
        grow = grow > 8 ? 8 : grow < 1 ? 1 : grow;
        s->turns = (int)(s->turns * grow);
        s->turns = s->turns > MAX_TURNS ? MAX_TURNS : s->turns;
    }
    if (s->turns >= 2 * before)
        s->timed = s->n = 0;
    return r;
}

/* True while the series is short of `part` (up to 1) of its samples. */
static int is_short(const struct series *s, const struct limits *lim,
                    double part)
{
    if (s->n == 0 && part >= 1)
        return 1;
    if (s->n >= lim->samples * part || s->wall >= lim->size_limit * part)
        return 0;
    return s->n < least_samples(lim) * part || s->timed < lim->budget * part;
}

/* Takes this visit's part of the samples; returns 1 at the family's limit. */
static int visit(struct bench *b, const struct family *f, struct series *s,
                 const struct limits *lim, int number, double family_start)
{
    double part = (number + 1.0) / VISITS;
    struct reading r = calibrate(b, f, s, lim, family_start);

    while (r.family < lim->family_limit && is_short(s, lim, part)) {
        r = sample(b, f, s, s->turns, family_start);
        s->usec[s->n++] = r.loop * 1e6 / s->turns / f->ops;
        s->timed += r.loop;
    }
    return r.family >= lim->family_limit;
}

static void print_figure(const struct bench *b, const struct family *f,
                         const struct series *s, const struct limits *lim)
{
    double sorted[BENCH_MAX_SAMPLES];
    int streams = f->is_pairs ? b->pairs * (1 + f->both_ways) : 1;

    memcpy(sorted, s->usec, (size_t)s->n * sizeof(*sorted));
    qsort(sorted, (size_t)s->n, sizeof(*sorted), compare);
    printf("{\"family\":\"%s\",\"bytes\":%zu,\"usec\":{\"q1\":%.5f,"
           "\"median\":%.5f,\"min\":%.5f},\"samples\":%d,\"turns\":%d,"
           "\"ops\":%d,\"streams\":%d,\"capped\":%s,\"wrong\":%ld,"
           "\"raw\":[",
           f->name, s->bytes, quantile(sorted, s->n, 0.25),
           quantile(sorted, s->n, 0.5), sorted[0], s->n, s->turns, f->ops,
           streams, s->n < least_samples(lim) ? "true" : "false", s->wrong);
    for (int i = 0; i < s->n; i++)
        printf(i ? ",%.5f" : "%.5f", s->usec[i]);
    printf("]}\n");
}

static void report(struct bench *b, const struct family *f, struct series *s,
                   const struct limits *lim)
{
    long wrong = s->wrong;

    MPI_Reduce(&wrong, &s->wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (b->rank != 0)
        return;
    if (s->n)
        print_figure(b, f, s, lim);
    else
        bench_print_skipped(f, s->bytes, "its time limit is used up");
    fflush(stdout);
}

void bench_measure(struct bench *b, const struct family *f, const size_t *sizes,
                   int count, const struct limits *lim)
{
    static struct series series[BENCH_MAX_SIZES];
    double start = bench_now();
    int is_late = 0;

    memset(series, 0, sizeof(series));
    for (int v = 0; v < VISITS; v++) {
        for (int i = 0; i < count && !is_late; i++) {
            series[i].bytes = sizes[i];
            is_late = visit(b, f, &series[i], lim, v, start);
        }
    }
    for (int i = 0; i < count; i++) {
        series[i].bytes = sizes[i];
        report(b, f, &series[i], lim);
    }
}
