/* SPDX-License-Identifier: MIT */
/* tb_copy_away copies like memcpy, whatever the alignment, and no byte more. */
#include <string.h>

#include "base/base.h"
#include "unit/check.h"

enum { MOST = 20000, EDGE = 64 };

static _Alignas(64) unsigned char from[MOST + 2 * EDGE], to[MOST + 2 * EDGE];

static void check_copy(size_t at_from, size_t at_to, size_t bytes)
{
    memset(to, 0xee, sizeof to);
    tb_copy_away(to + at_to, from + at_from, bytes);
    CHECK(!memcmp(to + at_to, from + at_from, bytes));
    for (size_t i = 0; i < at_to; i++)
        CHECK_EQ(to[i], 0xee);
    for (size_t i = at_to + bytes; i < sizeof to; i++)
        CHECK_EQ(to[i], 0xee);
}

int main(void)
{
    static const size_t sizes[] = {0,    1,    63,   64,   65,    4095,
                                   4096, 4097, 4159, 8191, 16384, MOST};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t s = 0; s < TB_COUNT_OF(sizes); s++)
        for (size_t a = 0; a < EDGE; a += 7)
            for (size_t b = 0; b < EDGE; b += 9)
                check_copy(a, b, sizes[s]);
    return 0;
}
