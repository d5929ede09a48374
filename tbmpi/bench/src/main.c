/* SPDX-License-Identifier: MIT */
/*
 * Options, memory and the walk over families and sizes.  Standard output of
 * rank 0 is JSON, one object a line: first the library and the settings,
 * then a figure or a `skipped` line per size, at last {"end":true}.
 * Exit codes: 0 all done, 2 bad option or no memory.
 */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *families; /* comma separated, NULL: all */
    size_t sizes[BENCH_MAX_SIZES];
    int size_count; /* 0: each family's own sizes */
    struct limits lim;
};

static const struct family *family_at(int i)
{
    if (i < bench_pair_family_count)
        return &bench_pair_families[i];
    i -= bench_pair_family_count;
    return i < bench_coll_family_count ? &bench_coll_families[i] : NULL;
}

/* True when the comma-separated list holds the name. */
static int is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, name, len) && (at[len] == ',' || !at[len]))
            return 1;
    }
    return 0;
}

static int is_wanted(const struct options *o, const struct family *f)
{
    return !o->families || is_listed(o->families, f->name);
}

static int next_size(const struct options *o, const struct family *f, int i,
                     size_t *bytes)
{
    if (f->max == 0) {
        *bytes = 0;
        return i == 0;
    }
    if (o->size_count) {
        *bytes = i < o->size_count ? o->sizes[i] : 0;
        return i < o->size_count;
    }
    if (f->starts_at_0 && i-- == 0) {
        *bytes = 0;
        return 1;
    }
    *bytes = f->min << i;
    return *bytes <= f->max;
}

static const char *cannot_run(const struct family *f, size_t bytes)
{
    if (f->max == 0)
        return NULL;
    if (bytes > f->max)
        return "above the largest size of this family";
    if (bytes < f->min && !(bytes == 0 && f->starts_at_0))
        return "below the smallest size of this family";
    return bytes % f->unit ? "not a whole number of elements" : NULL;
}

void bench_print_skipped(const struct family *f, size_t bytes, const char *why)
{
    printf("{\"skipped\":\"%s\",\"bytes\":%zu,\"why\":\"%s\"}\n", f->name,
           bytes, why);
}

static void run_family(struct bench *b, const struct options *o,
                       const struct family *f)
{
    size_t sizes[BENCH_MAX_SIZES], bytes;
    int count = 0;

    for (int i = 0; next_size(o, f, i, &bytes); i++) {
        const char *why = cannot_run(f, bytes);

        if (!why)
            sizes[count++] = bytes;
        else if (b->rank == 0)
            bench_print_skipped(f, bytes, why);
    }
    bench_measure(b, f, sizes, count, &o->lim);
}

static void print_escaped(const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
}

static void print_head(const struct bench *b, const struct options *o)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len, major, minor;

    MPI_Get_library_version(text, &len);
    MPI_Get_version(&major, &minor);
    if (b->rank != 0)
        return;
    printf("{\"library\":\"");
    print_escaped(text);
    printf("\",\"mpi\":[%d,%d],\"ranks\":%d,\"window\":%d,\"slot_bytes\":%d,"
           "\"samples\":%d,\"budget\":%g,\"size_limit\":%g,"
           "\"family_limit\":%g}\n",
           major, minor, b->size, BENCH_WINDOW, BENCH_SLOTS_BYTES,
           o->lim.samples, o->lim.budget, o->lim.size_limit,
           o->lim.family_limit);
}

static int bad(const struct bench *b, const char *what, const char *value)
{
    if (b->rank == 0)
        fprintf(stderr, "tbmpi bench: %s: %s\n", what, value);
    return 2;
}

static int parse_sizes(const struct bench *b, struct options *o, char *list)
{
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        char *end;
        unsigned long long v = strtoull(word, &end, 10);

        if (*end || *word == '-' || v > 1ULL << 30)
            return bad(b, "a size is 0 to 1073741824 bytes, not", word);
        if (o->size_count == BENCH_MAX_SIZES)
            return bad(b, "more than 64 sizes, from", word);
        o->sizes[o->size_count++] = (size_t)v;
    }
    return 0;
}

static int parse_seconds(const struct bench *b, const char *word, double *out)
{
    char *end;

    *out = strtod(word, &end);
    if (*end || !(*out > 0) || *out > 3600)
        return bad(b, "a time is more than 0 and at most 3600 s, not", word);
    return 0;
}

static int check_families(const struct bench *b, const char *list)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        const struct family *f;
        char name[32];
        int i = 0;

        at += *at == ',';
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
        while ((f = family_at(i)) && strcmp(f->name, name))
            i++;
        if (!f)
            return bad(b, "no such family", name);
        if (f->is_pairs && b->size < 2)
            return bad(b, "needs at least 2 ranks", name);
    }
    return 0;
}

static int parse(const struct bench *b, struct options *o, int argc,
                 char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int err = 0;

        if (!value)
            return bad(b, "option without a value", argv[i]);
        if (!strcmp(argv[i], "--families"))
            err = check_families(b, o->families = value);
        else if (!strcmp(argv[i], "--sizes"))
            err = parse_sizes(b, o, value);
        else if (!strcmp(argv[i], "--samples")) {
            o->lim.samples = atoi(value);
            if (o->lim.samples < 1 || o->lim.samples > BENCH_MAX_SAMPLES)
                err = bad(b, "samples are 1 to 64, not", value);
        } else if (!strcmp(argv[i], "--budget"))
            err = parse_seconds(b, value, &o->lim.budget);
        else if (!strcmp(argv[i], "--size-limit"))
            err = parse_seconds(b, value, &o->lim.size_limit);
        else if (!strcmp(argv[i], "--family-limit"))
            err = parse_seconds(b, value, &o->lim.family_limit);
        else
            err = bad(b, "unknown option", argv[i]);
        if (err)
            return err;
    }
    return 0;
}

/* Whole pages, touched here so that no sample pays for a first touch. */
static int allocate(struct bench *b, const struct options *o)
{
    const struct family *f;
    size_t bytes;
    void *send, *recv;

    b->send_len = b->recv_len = BENCH_ALIGN;
    for (int k = 0; (f = family_at(k)); k++) {
        for (int i = 0; is_wanted(o, f) && next_size(o, f, i, &bytes); i++) {
            size_t s = f->send_need(b, bytes), r = f->recv_need(b, bytes);

            if (cannot_run(f, bytes))
                continue;
            b->send_len = s > b->send_len ? s : b->send_len;
            b->recv_len = r > b->recv_len ? r : b->recv_len;
        }
    }
    if (posix_memalign(&send, BENCH_ALIGN, b->send_len))
        return 2;
    if (posix_memalign(&recv, BENCH_ALIGN, b->recv_len)) {
        free(send);
        return 2;
    }
    b->send = memset(send, 1, b->send_len);
    b->recv = memset(recv, 1, b->recv_len);
    return 0;
}

static void run_all(struct bench *b, const struct options *o)
{
    const struct family *f;

    print_head(b, o);
    for (int k = 0; (f = family_at(k)); k++)
        if (is_wanted(o, f))
            run_family(b, o, f);
    if (b->rank == 0)
        printf("{\"end\":true}\n");
    free(b->send);
    free(b->recv);
}

int main(int argc, char **argv)
{
    struct options o = {.lim = {20, 0.02, 0.4, 8}};
    struct bench b = {.partner = -1};
    int err;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.pairs = b.size / 2;
    b.is_lower = b.rank < b.pairs;
    if (b.rank < 2 * b.pairs)
        b.partner = b.is_lower ? b.rank + b.pairs : b.rank - b.pairs;
    err = parse(&b, &o, argc, argv);
    if (!err && allocate(&b, &o)) {
        fprintf(stderr,
                "tbmpi bench: no memory for %zu bytes; ask for "
                "smaller sizes\n",
                b.send_len + b.recv_len);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (!err)
        run_all(&b, &o);
    MPI_Finalize();
    return err;
}
