/* SPDX-License-Identifier: MIT */
/*
 * Copies for another processor to read: with stores that bypass the caches.
 * An ordinary store must first take its line away from whoever read it last,
 * which between two cores' caches costs more than the copy; and then the
 * reader must fetch it out of this core's cache.
 */
#include "base/base.h"

#include <string.h>

#if defined(__SSE2__)

#include <emmintrin.h>

#define LEAST 4096 /* shorter ones arrive sooner the ordinary way */
#define LINE 64

static void stream_line(char *to, const char *from)
{
    __m128i a = _mm_loadu_si128((const __m128i *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(from + 48));

    _mm_stream_si128((__m128i *)to, a);
    _mm_stream_si128((__m128i *)(to + 16), b);
    _mm_stream_si128((__m128i *)(to + 32), c);
    _mm_stream_si128((__m128i *)(to + 48), d);
}

void tb_copy_away(void *to, const void *from, size_t bytes)
{
    size_t head = -(uintptr_t)to % LINE, at;

    if (bytes < LEAST) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    for (at = head; at + LINE <= bytes; at += LINE)
        stream_line((char *)to + at, (const char *)from + at);
    memcpy((char *)to + at, (const char *)from + at, bytes - at);
    _mm_sfence(); /* release stores do not order these by themselves */
}

#else

void tb_copy_away(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

#endif
