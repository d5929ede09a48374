/* SPDX-License-Identifier: MIT */
/*
 * The lock on this process's part of a window. Who comes first gets it first:
 * a shared one is not given past somebody who waits for an exclusive one.
 */
#include "rma/inside.h"

static bool is_free(const struct tb_rma *r, bool exclusive)
{
    return !r->exclusive && (!exclusive || !r->shared);
}

static void grant(struct tb_rma *r, int origin)
{
    struct tb_rma_origin *o = &r->origins[origin];
    o->has = o->wants_exclusive ? TB_RMA_EXCLUSIVELY : TB_RMA_SHARED;
    r->exclusive = o->wants_exclusive;
    r->shared += !o->wants_exclusive;
    if (origin == r->rank) {
        r->targets[origin].granted = true;
    } else if (o->tell) {
        tb_err err = tb_rma_answer(r, origin, TB_RMA_GRANTED, TB_OK);
        if (err)
            tb_engine_fail(r->engine, err);
    }
}

bool tb_rma_lock_ask(struct tb_rma *r, int origin, bool exclusive, bool tell)
{
    struct tb_rma_origin *o = &r->origins[origin];
    o->wants_exclusive = exclusive;
    o->tell = tell;
    if (tb_list_empty(&r->queue) && is_free(r, exclusive)) {
        grant(r, origin);
        return true;
    }
    o->busy = true;
    tb_list_append(&r->queue, &o->link);
    return false;
}

void tb_rma_lock_give_back(struct tb_rma *r, int origin)
{
    struct tb_rma_origin *o = &r->origins[origin];
    if (o->has == TB_RMA_EXCLUSIVELY)
        r->exclusive = false;
    else if (o->has == TB_RMA_SHARED)
        r->shared--;
    o->has = TB_RMA_UNLOCKED;
    while (!tb_list_empty(&r->queue)) {
        o = TB_CONTAINER(r->queue.next, struct tb_rma_origin, link);
        if (!is_free(r, o->wants_exclusive))
            return;
        tb_list_remove(&o->link);
        o->busy = false;
        grant(r, (int)(o - r->origins));
        tb_rma_wake(r);
    }
}
