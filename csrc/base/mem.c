/* SPDX-License-Identifier: MIT */
/* The library's own memory: one place to allocate, and pools. */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Allocations left until one fails; negative: none will. For tests only, and
 * per process because what it stands in for, malloc, is. */
static _Atomic long countdown = -1;

void tb_mem_fail_after(long n)
{
    atomic_store(&countdown, n);
}

static bool must_fail(void)
{
    if (TB_LIKELY(atomic_load_explicit(&countdown, memory_order_relaxed) < 0))
        return false;
    return atomic_fetch_sub(&countdown, 1) == 0;
}

void *tb_alloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes ? bytes : 1);
}

void *tb_calloc(size_t n, size_t bytes)
{
    return must_fail() ? NULL : calloc(n ? n : 1, bytes ? bytes : 1);
}

void *tb_realloc(void *old, size_t bytes)
{
    return must_fail() ? NULL : realloc(old, bytes ? bytes : 1);
}

void *tb_alloc_aligned(size_t align, size_t bytes)
{
    void *p = NULL;

    if (must_fail())
        return NULL;
    return posix_memalign(&p, align, bytes ? bytes : 1) ? NULL : p;
}

void tb_free(void *p)
{
    free(p);
}

char *tb_strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = tb_alloc(bytes);

    return copy ? memcpy(copy, s, bytes) : NULL;
}

/* ------------------------------------------------------------------- pools */

#define POOL_ALIGN 16
#define CHUNK_BYTES 16384

struct chunk {
    _Alignas(POOL_ALIGN) struct chunk *next;
};

void tb_pool_init(struct tb_pool *pool, size_t object_bytes)
{
    memset(pool, 0, sizeof(*pool));
    pool->size = tb_round_up(TB_MAX(object_bytes, sizeof(void *)), POOL_ALIGN);
}

void tb_pool_fini(struct tb_pool *pool)
{
    struct chunk *c = pool->chunks;

    while (c) {
        struct chunk *next = c->next;
        tb_free(c);
        c = next;
    }
    pool->free = pool->chunks = NULL;
    pool->live = 0;
}

void *tb_pool_grow(struct tb_pool *pool)
{
    size_t n = CHUNK_BYTES / pool->size;
    struct chunk *c;
    char *object;

    n = TB_MAX(n, 8);
    c = tb_alloc(sizeof(*c) + n * pool->size);
    if (!c)
        return NULL;
    c->next = pool->chunks;
    pool->chunks = c;
    object = (char *)(c + 1);
    for (size_t i = 1; i < n; i++) {
        void **link = (void **)(object + i * pool->size);
        *link = pool->free;
        pool->free = link;
    }
    pool->live++;
    return object;
}
