/* SPDX-License-Identifier: MIT */
/*
 * The whole test framework: a test is a program that exits 0, a failed CHECK
 * says where and what and exits 1, SKIP gives its reason and exits 77. Each
 * program ends itself by SIGALRM after a minute.
 */
#ifndef TB_CHECK_TEST_H
#define TB_CHECK_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(cond)                                                    \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* Both values land in the message. */
#define CHECK_EQ(a, b)                                                   \
    do {                                                                 \
        long long a_ = (long long)(a), b_ = (long long)(b);              \
        if (a_ != b_) {                                                  \
            fprintf(stderr, "%s:%d: %s is %lld, %s is %lld\n", __FILE__, \
                    __LINE__, #a, a_, #b, b_);                           \
            exit(1);                                                     \
        }                                                                \
    } while (0)

#define SKIP(why)                     \
    do {                              \
        printf("skipped: %s\n", why); \
        exit(77);                     \
    } while (0)

/* Ends the program after that many seconds, or TBMPI_TEST_SLOWER times as many:
 * an emulated processor is slow. */
static inline void limit_time(unsigned seconds)
{
    const char *slower = getenv("TBMPI_TEST_SLOWER");
    int factor = slower ? atoi(slower) : 1;

    alarm(factor > 1 ? seconds * (unsigned)factor : seconds);
}

__attribute__((constructor)) static void set_time_limit(void)
{
    limit_time(60);
}

#endif
