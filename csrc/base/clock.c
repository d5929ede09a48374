/* SPDX-License-Identifier: MIT */
#include "base/base.h"

#include <time.h>

#define NS 1000000000u

uint64_t tb_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

uint64_t tb_clock_step(void)
{
    struct timespec t;

    if (clock_getres(CLOCK_MONOTONIC, &t))
        return 1000;
    return TB_MAX((uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec, 1);
}
