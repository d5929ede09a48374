/* SPDX-License-Identifier: MIT */
/* The registration pool: see pool.h. */
#include "net/pool.h"

#include "base/crc.h"
#include "net/verbs.h"

/* How the slots' bytes are divided between the classes, in eighths. Long
 * messages travel in large slots; small ones are many. */
static const size_t share[TB_CLASSES] = {1, 2, 5};

/* ------------------------------------------------------------------ a slot */

void tb_slot_seal(void *slot, size_t bytes)
{
    struct tb_seal *seal = slot;

    seal->bytes = (uint32_t)bytes;
    seal->crc = tb_crc32c(0, tb_slot_data(slot), bytes);
}

bool tb_slot_intact(const void *slot, size_t room)
{
    const struct tb_seal *seal = slot;

    return seal->bytes <= room &&
           seal->crc ==
               tb_crc32c(0, (const char *)slot + TB_SLOT_HEAD, seal->bytes);
}

/* -------------------------------------------------------------- the object */

tb_err tb_regpool_plan(struct tb_regpool_plan *out, int ranks, size_t bytes)
{
    struct tb_regpool_plan p = {.lanes = TB_POOL_HEAD};
    size_t room, at;

    p.slots = p.lanes + (size_t)ranks * TB_POOL_LANE;
    if (bytes < p.slots + TB_POOL_LEAST)
        return tb_fail(TB_ERR_ARG,
                       "a registration pool of %zu bytes is too small for %d "
                       "ranks: make TBMPI_POOL at least %zu",
                       bytes, ranks, p.slots + TB_POOL_LEAST);
    if (bytes > (size_t)TB_REGIONS_MOST * TB_REGION_MOST)
        return tb_fail(TB_ERR_ARG,
                       "a registration pool of %zu bytes is too large: make "
                       "TBMPI_POOL at most %zu",
                       bytes, (size_t)TB_REGIONS_MOST * TB_REGION_MOST);
    room = bytes - p.slots;
    at = p.slots;
    for (int c = 0; c < TB_CLASSES; c++) {
        size_t slot = (size_t)tb_class_frames(c) * TB_FRAME;
        size_t n = room / 8 * share[c] / slot;
        p.at[c] = at;
        p.first[c + 1] = p.first[c] + (uint32_t)n;
        at = tb_round_up(at + n * slot, TB_PAGE);
    }
    p.end = p.at[TB_LARGE] + (size_t)(p.first[TB_CLASSES] - p.first[TB_LARGE]) *
                                 tb_class_frames(TB_LARGE) * TB_FRAME;
    *out = p;
    return TB_OK;
}

/* --------------------------------------------------------- the owner's end */

/* Cuts at the lines; see TB_REGION_MOST. */
static void cut(struct tb_regpool *pool)
{
    uintptr_t base = (uintptr_t)pool->base;
    size_t at = pool->plan.slots;

    pool->cut[0] = at;
    while (at < pool->plan.end) {
        uintptr_t line = tb_round_up(base + at + 1, TB_REGION_MOST);
        at = TB_MIN((size_t)(line - base), pool->plan.end);
        pool->cut[++pool->pieces] = at;
    }
}

/* The piece that holds a slot, or -1: it lies across a cut. */
static int piece_of(const struct tb_regpool *pool, uint32_t slot)
{
    size_t at = tb_regpool_offset(&pool->plan, slot);
    enum tb_class class = tb_regpool_class(&pool->plan, slot);
    size_t end = at + (size_t)tb_class_frames(class) * TB_FRAME;
    int i = 0;

    while (pool->cut[i + 1] <= at)
        i++;
    return end <= pool->cut[i + 1] ? i : -1;
}

/* Low numbers come out first. */
static void fill(struct tb_regpool *pool)
{
    for (uint32_t slot = pool->plan.first[TB_CLASSES]; slot-- > 0;) {
        if (piece_of(pool, slot) >= 0)
            tb_regpool_give(pool, slot);
    }
}

tb_err tb_regpool_open(struct tb_regpool **out, int fd, size_t bytes, int ranks)
{
    struct tb_regpool *pool = tb_calloc(1, sizeof(*pool));
    tb_err err = TB_OK;

    if (!pool)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the registration pool");
    pool->bytes = bytes;
    err = tb_regpool_plan(&pool->plan, ranks, bytes);
    for (int c = 0; !err && c < TB_CLASSES; c++) {
        size_t n = pool->plan.first[c + 1] - pool->plan.first[c];
        pool->free[c] = tb_alloc(n * sizeof(*pool->free[c]));
        if (!pool->free[c])
            err = tb_fail(TB_ERR_NO_MEM, "no memory for the pool's slots");
    }
    if (!err) {
        void *base;
        err = tb_share_place(fd, bytes, TB_REGION_MOST, &base);
        if (!err)
            pool->base = base;
    }
    if (err) {
        tb_regpool_close(pool);
        return err;
    }
    cut(pool);
    fill(pool);
    *out = pool;
    return TB_OK;
}

void tb_regpool_close(struct tb_regpool *pool)
{
    if (!pool)
        return;
    tb_share_unmap(pool->base, pool->bytes);
    for (int c = 0; c < TB_CLASSES; c++)
        tb_free(pool->free[c]);
    tb_free(pool);
}

tb_err tb_regpool_register(const struct tb_regpool *pool,
                           struct tb_device *device, struct tb_regions *out)
{
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < pool->pieces; i++) {
        tb_err err =
            tb_device_register(device, pool->base + pool->cut[i],
                               pool->cut[i + 1] - pool->cut[i], &out->mr[i]);
        if (err) {
            tb_regpool_unregister(device, out);
            return err;
        }
        out->n++;
    }
    return TB_OK;
}

void tb_regpool_unregister(struct tb_device *device, struct tb_regions *regions)
{
    while (regions->n > 0)
        tb_device_deregister(device, regions->mr[--regions->n]);
}

uint32_t tb_regpool_key(const struct tb_regpool *pool,
                        const struct tb_regions *regions, uint32_t slot)
{
    return regions->mr[regions->n == 1 ? 0 : piece_of(pool, slot)]->lkey;
}
