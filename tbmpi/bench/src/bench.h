/* SPDX-License-Identifier: MIT */
/*
 * The benchmark programme behind `tbmpi bench`: one source for every MPI
 * library under test, so it uses plain MPI-3 with int counts only.
 *
 * Words.  A family is one kind of figure (latency, allreduce, ...).  An
 * operation is what a figure is the time of: half a round trip, one message
 * of a window, one collective call.  A turn is the smallest piece that a
 * family repeats; a sample is a run of turns between two readings of the
 * clock; a figure is taken over the samples of one message size.
 */
#ifndef TBMPI_BENCH_H
#define TBMPI_BENCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_WINDOW = 64,           /* messages in flight per pair */
    BENCH_SLOTS_BYTES = 8 << 20, /* receive memory of one window */
    BENCH_ALIGN = 64 << 10,      /* a multiple of every page size */
    BENCH_MAX_SIZES = 64,
    BENCH_MAX_SAMPLES = 64
};

struct bench {
    int rank, size;
    int pairs;         /* point-to-point families run all pairs at once */
    int partner;       /* own partner, or -1: sits out (odd rank count) */
    int is_lower;      /* the lower half starts, the upper half answers */
    unsigned key;      /* of this sample: seeds the data, picks the root */
    int turns;         /* of this sample */
    char *send, *recv; /* whole pages, large enough for every size asked */
    size_t send_len, recv_len;
};

struct limits {
    int samples;         /* wanted per size */
    double budget;       /* seconds of timed work per size */
    double size_limit;   /* seconds of wall clock per size, checks too */
    double family_limit; /* seconds of wall clock per family */
};

/*
 * All functions are called by every rank in the same order.  `fill` writes
 * the data to send and clears what will be received; `loop` is the timed
 * part; `check` returns how many words that this rank received are wrong.
 */
struct family {
    const char *name;
    size_t min, max; /* bytes; both 0: the family has no size */
    int starts_at_0; /* sizes are 0, min, 2 min, ... max */
    size_t unit;     /* a size must be a multiple of this */
    int ops;         /* operations in one turn */
    int both_ways;   /* messages travel in both directions at once */
    int is_pairs;    /* point to point: one stream per pair */
    size_t (*send_need)(const struct bench *b, size_t bytes);
    size_t (*recv_need)(const struct bench *b, size_t bytes);
    void (*fill)(struct bench *b, size_t bytes);
    void (*loop)(struct bench *b, size_t bytes);
    long (*check)(struct bench *b, size_t bytes);
};

extern const struct family bench_pair_families[];
extern const int bench_pair_family_count;
extern const struct family bench_coll_families[];
extern const int bench_coll_family_count;

/* Seconds on a clock that never steps back. */
double bench_now(void);

/* The data that rank `from` sends to rank `to` in the sample of `key`. */
void bench_pattern(char *buf, size_t len, int from, int to, unsigned key);
/* The number of 8-byte words of buf that differ from that data. */
long bench_mismatch(const char *buf, size_t len, int from, int to,
                    unsigned key);

/*
 * Measures all sizes of one family and prints each on rank 0 as a JSON line:
 * a figure, or that there is none because a limit came first.
 */
void bench_measure(struct bench *b, const struct family *f, const size_t *sizes,
                   int count, const struct limits *lim);

/* Prints a line that says why there is no figure; rank 0 only. */
void bench_print_skipped(const struct family *f, size_t bytes, const char *why);

#endif
