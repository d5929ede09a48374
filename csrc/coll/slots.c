/* SPDX-License-Identifier: MIT */
/*
 * Direct operations by slots (direct.h).
 *
 * A turn carries whole blocks, or one *piece* of each when they are long.
 * Pieces are posted as far ahead as the lane has room, and taken as they come.
 */
#include "coll/direct.h"

#include <string.h>

static bool is_reduction(const struct tb_call *c)
{
    return c->kind >= TB_COLL_REDUCE;
}

/* ------------------------------------------------------------------- pieces */

/* Blocks that a rank posts in one turn: one for each rank, or one for all. */
static int width(const struct tb_call *c)
{
    bool is_each = c->kind == TB_COLL_ALLTOALL || c->kind == TB_COLL_SCATTER;
    return is_each ? c->comm->size : 1;
}

/* Bytes of a block that go into one turn of many. Pieces of a reduction hold
 * whole elements. */
static int64_t piece_of(const struct tb_call *c, const struct tb_lane *lane)
{
    int64_t most = (int64_t)lane->piece / width(c);
    int64_t unit = is_reduction(c) ? c->type->layout->size : 1;
    return unit ? most / unit * unit : most;
}

/* Bytes of a block that go into each turn. */
static int64_t choose_piece(const struct tb_call *c, const struct tb_lane *lane,
                            int64_t bytes)
{
    bool is_vector = c->kind == TB_COLL_BCAST || is_reduction(c);
    int64_t most = (int64_t)(is_vector ? lane->piece : lane->room);
    return TB_LIKELY(bytes <= most / width(c)) ? bytes : piece_of(c, lane);
}

static uint64_t turns_of(int64_t bytes, int64_t piece)
{
    return bytes ? (uint64_t)((bytes + piece - 1) / piece) : 1;
}

uint64_t tb_direct_slots(const struct tb_call *c, const struct tb_lane *lane)
{
    int64_t bytes = tb_direct_bytes(c);
    if (bytes < 0 || piece_of(c, lane) == 0)
        return 0;
    return turns_of(bytes, choose_piece(c, lane, bytes));
}

void tb_slots_init(struct tb_direct *d)
{
    d->posted = d->taken = 0;
    d->piece = choose_piece(d->call, d->lane, d->bytes);
    d->turns =
        TB_LIKELY(d->piece == d->bytes) ? 1 : turns_of(d->bytes, d->piece);
}

/* Where the k-th piece begins in its block, and its bytes. */
static int64_t start_of(const struct tb_direct *d, uint64_t k)
{
    return (int64_t)k * d->piece;
}

static int64_t length_of(const struct tb_direct *d, uint64_t k)
{
    return TB_MIN(d->piece, d->bytes - start_of(d, k));
}

/* ------------------------------------------------------------------ posting */

static void pack(struct tb_part from, int64_t start, void *to, int64_t bytes)
{
    if (tb_layout_is_run(from.layout, from.count))
        tb_copy_away(to, tb_at(tb_layout_at(from.layout, from.buf), start),
                     (size_t)bytes);
    else
        tb_layout_pack(from.layout, from.buf, start, to, bytes);
}

/* What this rank gives to all. */
static struct tb_part given(const struct tb_call *c)
{
    if (c->kind == TB_COLL_BCAST)
        return tb_block(&c->recv, 0);
    if (c->kind == TB_COLL_ALLGATHER && c->in_place)
        return tb_block(&c->recv, c->comm->rank);
    return tb_block(&c->send, 0);
}

/* A piece of the block for each rank, side by side; this one's own is not
 * needed. */
static void pack_each(const struct tb_direct *d, char *to)
{
    const struct tb_call *c = d->call;
    int64_t start = start_of(d, d->posted), bytes = length_of(d, d->posted);
    bool is_back = c->in_place && c->kind == TB_COLL_ALLTOALL;
    for (int i = 0; i < c->comm->size; i++)
        if (i != c->comm->rank)
            pack(tb_block(is_back ? &c->recv : &c->send, i), start,
                 to + i * bytes, bytes);
}

static bool post_piece(struct tb_direct *d)
{
    uint64_t turn = d->turn + d->posted;
    int64_t bytes = length_of(d, d->posted);
    size_t all = (size_t)(bytes * width(d->call));
    void *block = tb_lane_block(d->lane, turn, all);
    if (!block)
        return false;
    if (width(d->call) > 1)
        pack_each(d, block);
    else if (bytes)
        pack(given(d->call), start_of(d, d->posted), block, bytes);
    tb_lane_post(d->lane, turn, d->what, all);
    d->posted++;
    return true;
}

/* ------------------------------------------------------------------- taking */

/* Copies what rank i has posted for this one. */
static void take(struct tb_direct *d, int i, const char *block)
{
    const struct tb_call *c = d->call;
    bool is_one = c->kind == TB_COLL_BCAST || c->kind == TB_COLL_SCATTER;
    int64_t bytes = length_of(d, d->taken);
    if (bytes == 0)
        return;
    struct tb_part to = tb_block(&c->recv, is_one ? 0 : i);
    if (width(c) > 1)
        block += c->comm->rank * bytes;
    tb_layout_unpack(to.layout, to.buf, start_of(d, d->taken), block, bytes);
}

/* Rank i's contribution to the piece, as data. This rank's own is at hand,
 * unless the result takes its place. */
static const void *contribution(struct tb_direct *d, int i)
{
    const struct tb_call *c = d->call;
    uint64_t what = 0;
    if (i == d->lane->rank && !c->in_place)
        return tb_at(c->send.base,
                     c->type->layout->first + start_of(d, d->taken));
    if (i == d->lane->rank && !tb_direct_posts(c))
        return d->scratch[0]->data;
    const void *data = tb_lane_look(d->lane, i, d->turn + d->taken,
                                    (size_t)length_of(d, d->taken), &what);
    if (TB_UNLIKELY(what != d->what))
        tb_direct_mismatch(d, i, what);
    return data;
}

/* Puts this rank's own piece aside, where the result takes its place and it
 * has not been posted: at the root of a Reduce. */
static bool save_own(struct tb_direct *d, const void *out)
{
    if (!d->call->in_place || tb_direct_posts(d->call))
        return true;
    if (!d->scratch[0])
        d->scratch[0] = tb_scratch_get((size_t)d->piece);
    if (!d->scratch[0]) {
        d->err = tb_fail(TB_ERR_NO_MEM, "no memory for a reduction");
        return false;
    }
    memcpy(d->scratch[0]->data, out, (size_t)length_of(d, d->taken));
    return true;
}

/* Combines the contributions of ranks 0 to `last` to one piece, from the last
 * one down: that keeps their order, and gives all ranks the same bits. */
static void reduce_to(struct tb_direct *d, int last)
{
    const struct tb_call *c = d->call;
    const struct tb_layout *l = c->type->layout;
    int64_t bytes = length_of(d, d->taken);
    char *out = tb_at(c->recv.base, l->first + start_of(d, d->taken));
    if (bytes == 0 || !save_own(d, out))
        return;
    const void *from = contribution(d, last);
    if (!d->err)
        memcpy(out, from, (size_t)bytes);
    for (int i = last - 1; i >= 0 && !d->err; i--) {
        const void *in = contribution(d, i);
        if (!d->err)
            tb_op_apply(c->op, tb_at(in, -l->first), tb_at(out, -l->first),
                        bytes / l->size, c->type);
    }
}

static void reduce(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    int rank = d->lane->rank;
    if (c->kind == TB_COLL_ALLREDUCE ||
        (c->kind == TB_COLL_REDUCE && rank == c->root))
        reduce_to(d, d->lane->n - 1);
    else if (c->kind == TB_COLL_SCAN)
        reduce_to(d, rank);
    else if (c->kind == TB_COLL_EXSCAN && rank > 0)
        reduce_to(d, rank - 1);
}

/* Looks for the posts of one turn and takes them as they come; those that are
 * combined wait for each other, since their order counts. */
static bool take_piece(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    uint64_t turn = d->turn + d->taken, what;
    size_t bytes = (size_t)(length_of(d, d->taken) * width(c));
    for (uint64_t left = d->pending; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        const void *block = tb_lane_look(d->lane, i, turn, bytes, &what);
        if (!block)
            continue;
        d->pending &= ~((uint64_t)1 << i);
        if (TB_UNLIKELY(what != d->what))
            tb_direct_mismatch(d, i, what);
        else if (!is_reduction(c))
            take(d, i, block);
    }
    if (d->pending)
        return false;
    if (is_reduction(c))
        reduce(d);
    tb_lane_finish(d->lane, turn);
    d->taken++;
    d->pending = tb_direct_sources(c);
    return true;
}

enum stage { BEGIN /* 0 */, POST, TAKE };

bool tb_slots_advance(struct tb_direct *d)
{
    bool posts = tb_direct_posts(d->call);
    if (d->stage == BEGIN) {
        d->pending = tb_direct_sources(d->call);
        d->stage = POST;
    }
    for (bool moved = true; moved && d->taken < d->turns;) {
        moved = posts && d->posted < d->turns && post_piece(d);
        if (d->stage == POST && (moved || !posts)) {
            /* not before the others can go on */
            if (!is_reduction(d->call))
                d->err = tb_direct_copy_own(d->call);
            d->stage = TAKE;
        }
        while (d->taken < (posts ? d->posted : d->turns) && take_piece(d))
            moved = true;
    }
    return d->taken == d->turns;
}
