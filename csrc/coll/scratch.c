/* SPDX-License-Identifier: MIT */
#include "coll/scratch.h"

#define KEPT_BLOCKS 4
#define KEPT_BYTES (32 << 20)
#define GRAIN 4096

static struct {
    struct tb_scratch *block[KEPT_BLOCKS];
    size_t bytes;
} kept;

static size_t room(int i)
{
    return kept.block[i] ? kept.block[i]->room : 0;
}

/* A kept block is taken when at least a quarter of it is needed: a small
 * request must not lock a large block away. */
static struct tb_scratch *take(size_t bytes)
{
    for (int i = 0; i < KEPT_BLOCKS; i++) {
        struct tb_scratch *s = kept.block[i];
        if (s && s->room >= bytes && s->room / 4 <= bytes) {
            kept.block[i] = NULL;
            kept.bytes -= s->room;
            return s;
        }
    }
    return NULL;
}

struct tb_scratch *tb_scratch_get(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = tb_round_up(bytes, GRAIN);
    struct tb_scratch *s = take(bytes);
    if (s)
        return s;
    s = tb_alloc_aligned(_Alignof(struct tb_scratch), sizeof *s + bytes);
    if (s)
        s->room = bytes;
    return s;
}

/* The larger block is the one that is dearer to get again. */
void tb_scratch_put(struct tb_scratch *s)
{
    int at = 0;
    for (int i = 1; i < KEPT_BLOCKS; i++)
        if (room(i) < room(at))
            at = i;
    if (s->room <= room(at) || kept.bytes - room(at) + s->room > KEPT_BYTES) {
        tb_free(s);
        return;
    }
    kept.bytes += s->room - room(at);
    tb_free(kept.block[at]);
    kept.block[at] = s;
}

void tb_scratch_drop(void)
{
    for (int i = 0; i < KEPT_BLOCKS; i++) {
        tb_free(kept.block[i]);
        kept.block[i] = NULL;
    }
    kept.bytes = 0;
}
