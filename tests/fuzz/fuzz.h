/* SPDX-License-Identifier: MIT */
/*
 * What all fuzz drivers share: the loop, the changes made to an input, and the
 * word about the round that went wrong. A driver makes a correct input of some
 * kind (example) and hands a changed one to what must not believe it (try). All
 * of a round follows from the seed and the round's number, so
 *
 *     fuzz_plan --seed 7 --round 1234
 *
 * does that one again. --seconds bounds a run; built with sanitizers these look
 * at every access. A round that takes long is a hang.
 */
#ifndef TB_FUZZ_H
#define TB_FUZZ_H

#include "base/base.h"

#include <signal.h>
#include <string.h>

#include "unit/check.h"

#define FUZZ_ROOM 65536 /* of an input */
#define FUZZ_ROUND_SECONDS 20
#define FUZZ_SECONDS 2

struct fuzz {
    uint64_t state; /* of the random numbers */
    size_t bytes;
    unsigned char data[FUZZ_ROOM + 1]; /* a zero behind it, for text */
};

/* A driver has these two. `example` makes an input; `try` gets it, changed or
 * not, may draw numbers of its own, and leaves nothing behind. */
static void fuzz_example(struct fuzz *f);
static void fuzz_try(struct fuzz *f);

static uint64_t fuzz_seed, fuzz_round;

/* A repeatable sequence of numbers (Vigna's splitmix64). */
static inline uint64_t fuzz_draw(struct fuzz *f)
{
    uint64_t z = f->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A number below `n`. */
static inline size_t fuzz_below(struct fuzz *f, size_t n)
{
    return n ? (size_t)(fuzz_draw(f) % n) : 0;
}

static inline void fuzz_add(struct fuzz *f, const void *data, size_t bytes)
{
    bytes = TB_MIN(bytes, FUZZ_ROOM - f->bytes);
    memcpy(f->data + f->bytes, data, bytes);
    f->bytes += bytes;
}

static inline void fuzz_add_text(struct fuzz *f, const char *text)
{
    fuzz_add(f, text, strlen(text));
}

/* Numbers that have been wrong before, in `width` bytes. */
static inline uint64_t fuzz_number(struct fuzz *f, size_t width)
{
    uint64_t most = width == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * width) - 1;
    const uint64_t edge[] = {0, 1, most, most >> 1, (most >> 1) + 1, most - 1};
    size_t at = fuzz_below(f, 2 * TB_COUNT_OF(edge));

    return at < TB_COUNT_OF(edge) ? edge[at] : fuzz_draw(f) & most;
}

/* One change: of a bit, byte or word, a piece cut out, doubled or moved. */
static inline void fuzz_change(struct fuzz *f)
{
    size_t at = fuzz_below(f, f->bytes), left = f->bytes - at;
    size_t n = 1 + fuzz_below(f, TB_MIN(left, (size_t)24));
    size_t width = (size_t)1 << fuzz_below(f, 4);
    uint64_t value = fuzz_number(f, width);

    if (!f->bytes)
        return;
    switch (fuzz_below(f, 5)) {
    case 0:
        f->data[at] ^= (unsigned char)(1u << fuzz_below(f, 8));
        break;
    case 1:
        memcpy(f->data + at, &value, TB_MIN(width, left));
        break;
    case 2: /* out */
        n = TB_MIN(n, left);
        memmove(f->data + at, f->data + at + n, left - n);
        f->bytes -= n;
        break;
    case 3: /* twice */
        n = TB_MIN(TB_MIN(n, left), FUZZ_ROOM - f->bytes);
        memmove(f->data + at + n, f->data + at, left);
        f->bytes += n;
        break;
    default: /* elsewhere */
        n = TB_MIN(n, left);
        memmove(f->data + fuzz_below(f, f->bytes - n + 1), f->data + at, n);
    }
}

static inline void fuzz_once(void)
{
    static struct fuzz f;

    f.state = fuzz_seed * 0x100000001b3u + fuzz_round;
    f.bytes = 0;
    alarm(FUZZ_ROUND_SECONDS);
    fuzz_example(&f);
    for (size_t n = fuzz_below(&f, 6); n > 0; n--)
        fuzz_change(&f);
    f.data[f.bytes] = 0;
    fuzz_try(&f);
}

/* For drivers of what keeps memory on purpose. */
#define FUZZ_LEAKS                                                             \
    const char *__asan_default_options(void);                                  \
    __attribute__((visibility("default"))) const char *__asan_default_options( \
        void)                                                                  \
    {                                                                          \
        return "detect_leaks=0";                                               \
    }

/* The sanitizers' way to a last word; absent without them. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*tell)(void));

static inline void fuzz_tell(void)
{
    fprintf(stderr, "fuzz: this was --seed %llu --round %llu\n",
            (unsigned long long)fuzz_seed, (unsigned long long)fuzz_round);
}

static inline void fuzz_die(int signal_number)
{
    fuzz_tell();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

int main(int argc, char **argv)
{
    uint64_t seconds = FUZZ_SECONDS, only = 0, end;

    fuzz_seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--seconds"))
            seconds = value;
        else if (!strcmp(argv[i], "--seed"))
            fuzz_seed = value;
        else if (!strcmp(argv[i], "--round"))
            only = value;
    }
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(fuzz_tell);
    signal(SIGALRM, fuzz_die);
    signal(SIGABRT, fuzz_die);
    if (!__sanitizer_set_death_callback)
        signal(SIGSEGV, fuzz_die);
    signal(SIGPIPE, SIG_IGN);
    end = tb_now() + seconds * 1000000000u;
    fuzz_round = only ? only : 1;
    do {
        fuzz_once();
    } while (!only && ++fuzz_round && tb_now() < end);
    printf("%llu rounds\n", only ? 1ull : (unsigned long long)fuzz_round - 1);
    return 0;
}

#endif
