/* SPDX-License-Identifier: MIT */
#include "coll/direct.h"

#include "mpi/world.h"

/* Looks before the general way of waiting, where every rank has a processor,
 * and before the others are told: they are awake then, most of the time. */
#define SPINS 200
#define SPINS_UNTOLD 16

#define WHAT_SHIFT 56 /* bytes below, kind above */

/* ------------------------------------------------- who posts what for whom */

static bool roots_alone_post(const struct tb_call *c)
{
    return c->kind == TB_COLL_BCAST || c->kind == TB_COLL_SCATTER;
}

static bool roots_alone_look(const struct tb_call *c)
{
    return c->kind == TB_COLL_GATHER || c->kind == TB_COLL_REDUCE;
}

bool tb_direct_posts(const struct tb_call *c)
{
    bool is_root = c->root == c->comm->rank;
    return !(roots_alone_post(c) ? !is_root : roots_alone_look(c) && is_root);
}

uint64_t tb_direct_sources(const struct tb_call *c)
{
    uint64_t me = (uint64_t)1 << c->comm->rank;
    uint64_t all = (me << 1) - 1;
    if (c->kind != TB_COLL_SCAN && c->kind != TB_COLL_EXSCAN)
        all = c->comm->size < 64 ? ((uint64_t)1 << c->comm->size) - 1 : ~0ull;
    if (roots_alone_post(c))
        all = (uint64_t)1 << c->root;
    else if (roots_alone_look(c) && c->root != c->comm->rank)
        all = 0;
    return all & ~me;
}

static bool has_plain_elements(const struct tb_layout *l)
{
    return l->dense && l->size == l->extent;
}

static int64_t bytes_of(const struct tb_blocks *b)
{
    return b->layout ? b->count * b->layout->size : 0;
}

int64_t tb_direct_bytes(const struct tb_call *c)
{
    bool is_root = c->root == c->comm->rank;
    switch (c->kind) {
    case TB_COLL_BARRIER:
        return 0;
    case TB_COLL_BCAST:
    case TB_COLL_ALLGATHER:
    case TB_COLL_ALLTOALL:
        return bytes_of(&c->recv);
    case TB_COLL_GATHER:
        return bytes_of(is_root ? &c->recv : &c->send);
    case TB_COLL_SCATTER:
        return bytes_of(is_root ? &c->send : &c->recv);
    case TB_COLL_REDUCE:
    case TB_COLL_ALLREDUCE:
    case TB_COLL_SCAN:
    case TB_COLL_EXSCAN:
        return has_plain_elements(c->type->layout) ? bytes_of(&c->recv) : -1;
    default:
        return -1;
    }
}

void tb_direct_mismatch(struct tb_direct *d, int i, uint64_t what)
{
    uint64_t bytes = what & (((uint64_t)1 << WHAT_SHIFT) - 1);
    int kind = (int)(what >> WHAT_SHIFT) - 1;
    if (d->err)
        return;
    if (kind == (int)d->call->kind)
        d->err = tb_fail(
            what > d->what ? TB_ERR_TRUNCATE : TB_ERR_NOT_SAME,
            "rank %d gave %llu bytes where %llu are expected: counts and "
            "datatypes must agree between ranks",
            i, (unsigned long long)bytes, (unsigned long long)d->bytes);
    else
        d->err = tb_fail(TB_ERR_NOT_SAME,
                         "rank %d is in %s meanwhile: all ranks must call the "
                         "same collective operations in the same order",
                         i, tb_coll_name((enum tb_coll_kind)kind));
}

tb_err tb_direct_copy_own(const struct tb_call *c)
{
    int rank = c->comm->rank;
    bool is_root = rank == c->root;
    if (c->in_place)
        return TB_OK;
    if (c->kind == TB_COLL_ALLGATHER || (c->kind == TB_COLL_GATHER && is_root))
        return tb_part_copy(tb_block(&c->send, 0), tb_block(&c->recv, rank));
    if (c->kind == TB_COLL_ALLTOALL)
        return tb_part_copy(tb_block(&c->send, rank), tb_block(&c->recv, rank));
    if (c->kind == TB_COLL_SCATTER && is_root)
        return tb_part_copy(tb_block(&c->send, rank), tb_block(&c->recv, 0));
    return TB_OK;
}

/* ------------------------------------------------------------------ running */

void tb_direct_init(struct tb_direct *d, const struct tb_call *call,
                    enum tb_direct_how how)
{
    struct tb_lane *lane = tb_lane_of(call->comm);
    d->call = call;
    d->lane = lane;
    d->turn = lane->next;
    d->bytes = tb_direct_bytes(call);
    d->what = (uint64_t)(call->kind + 1) << WHAT_SHIFT | (uint64_t)d->bytes;
    d->how = (uint8_t)how;
    d->stage = 0;
    d->done = false;
    d->err = TB_OK;
    d->scratch[0] = d->scratch[1] = NULL;
    d->on_done = NULL;
    if (how == TB_DIRECT_PULL)
        tb_pull_init(d);
    else
        tb_slots_init(d);
    lane->next += d->turns;
}

static bool advance(struct tb_direct *d)
{
    if (d->stage == 0 && d->lane->finished != d->turn - 1)
        return false; /* an earlier one of this rank is still under way */
    d->done =
        d->how == TB_DIRECT_SLOTS ? tb_slots_advance(d) : tb_pull_advance(d);
    for (int i = 0; d->done && i < 2; i++)
        if (d->scratch[i])
            tb_scratch_put(d->scratch[i]);
    return d->done;
}

bool tb_direct_advance(struct tb_direct *d)
{
    struct tb_lane *lane = d->lane;
    bool is_done = advance(d);
    tb_lane_tell(lane);
    return is_done;
}

static bool on_watch(struct tb_watch *w)
{
    struct tb_direct *d = TB_CONTAINER(w, struct tb_direct, watch);
    if (!tb_direct_advance(d))
        return false;
    if (d->on_done)
        d->on_done(d);
    return true;
}

void tb_direct_watch(struct tb_direct *d)
{
    d->watch.poll = on_watch;
    tb_engine_watch(tb_world.engine, &d->watch);
}

static bool is_done(void *arg)
{
    return ((const struct tb_direct *)arg)->done;
}

/* Whether it ended while looking. */
static bool spin(struct tb_direct *d)
{
    if (tb_world.threaded || tb_net_crowded(tb_engine_net(tb_world.engine)))
        return false;
    for (int i = 0; i < SPINS; i++) {
        tb_relax();
        if (i < SPINS_UNTOLD ? advance(d) : tb_direct_advance(d))
            return true;
    }
    return false;
}

tb_err tb_direct_run(struct tb_direct *d)
{
    if (advance(d) || spin(d)) {
        tb_lane_tell(d->lane);
        return d->err;
    }
    tb_lane_tell(d->lane);
    tb_direct_watch(d);
    tb_err err = tb_engine_wait_until(tb_world.engine, is_done, d);
    if (!d->done)
        tb_list_remove(&d->watch.link);
    return err ? err : d->err;
}
