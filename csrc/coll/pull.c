/* SPDX-License-Identifier: MIT */
/*
 * Direct operations by pull (direct.h).
 *
 * Moving data: ranks post where their data lies, and copy what they need.
 * A rank whose data others read stays until they have finished the turn.
 *
 * Reductions: rank i combines block i of all contributions, piece by piece so
 * that what is pulled is still in cache when it is combined; then, in a second
 * turn, ranks post where their results lie, and copy the other blocks. Two
 * ranks copy as much when whoever needs the result combines all of it, and need
 * no second turn. The contributions of all ranks are combined in their order.
 */
#include "coll/direct.h"

#include <errno.h>
#include <string.h>

#define PIECE 262144

enum stage { BEGIN /* 0 */, FIRST, SECOND, THIRD, LINGER };

/* What is posted. */
struct where {
    uint64_t address;
};

bool tb_direct_can_pull(const struct tb_call *c)
{
    switch (c->kind) {
    case TB_COLL_BCAST:
    case TB_COLL_ALLGATHER:
        return true;
    case TB_COLL_ALLTOALL:
        return !c->in_place;
    case TB_COLL_REDUCE:
    case TB_COLL_ALLREDUCE:
        return tb_direct_bytes(c) >= 0;
    default:
        return false;
    }
}

static bool is_reduction(const struct tb_call *c)
{
    return c->kind >= TB_COLL_REDUCE;
}

/* --------------------------------------------------------------- memory */

static void *scratch(struct tb_direct *d, int i, int64_t bytes)
{
    if (!d->scratch[i])
        d->scratch[i] = tb_scratch_get((size_t)bytes);
    if (d->scratch[i])
        return d->scratch[i]->data;
    d->err = tb_fail(TB_ERR_NO_MEM,
                     "no memory for the %lld bytes that a collective "
                     "operation needs in between",
                     (long long)bytes);
    return NULL;
}

/* The part as one run: in the program's memory, or packed. */
static const void *as_run(struct tb_direct *d, struct tb_part p)
{
    int64_t bytes = tb_part_bytes(p);
    if (tb_layout_is_run(p.layout, p.count))
        return bytes ? tb_layout_at(p.layout, p.buf) : NULL;
    void *packed = scratch(d, 0, bytes);
    if (packed)
        tb_layout_pack(p.layout, p.buf, 0, packed, bytes);
    return packed;
}

static bool post(struct tb_direct *d, uint64_t turn, const void *data)
{
    struct where *w = tb_lane_block(d->lane, turn, sizeof *w);
    if (!w)
        return false;
    w->address = (uintptr_t)data;
    tb_lane_post(d->lane, turn, d->what, sizeof *w);
    tb_lane_tell(d->lane); /* before this rank is busy for long */
    return true;
}

/* Where rank i's data lies; false: it has not posted yet. An address of 0:
 * there is none, or the ranks are in different calls. */
static bool look(struct tb_direct *d, int i, uint64_t turn, uint64_t *address)
{
    uint64_t what;
    const struct where *w = tb_lane_look(d->lane, i, turn, sizeof *w, &what);
    if (!w)
        return false;
    *address = w->address;
    if (TB_UNLIKELY(what != d->what)) {
        tb_direct_mismatch(d, i, what);
        *address = 0;
    }
    return true;
}

static void copy_from(struct tb_direct *d, int i, uint64_t address,
                      int64_t from, void *to, int64_t bytes)
{
    size_t done;
    if (!bytes || d->err)
        return;
    if (!address) {
        d->err = tb_fail(TB_ERR_OTHER, "rank %d could not give its data", i);
        return;
    }
    errno = 0;
    if (!tb_process_read(d->lane->peers[i].pid, address + (uint64_t)from, to,
                         (size_t)bytes, &done))
        return;
    if (errno == ESRCH)
        d->err = tb_fail(TB_ERR_PROC_ABORTED, "rank %d has ended", i);
    else
        d->err =
            tb_fail(TB_ERR_BUFFER,
                    "cannot read the %lld bytes that rank %d gives: is its "
                    "buffer as long as its count says? If the system forbids "
                    "it, set TBMPI_SINGLE_COPY=off",
                    (long long)bytes, i);
}

/* ------------------------------------------------------------ moving data */

/* What others copy from this rank. */
static struct tb_part offered(const struct tb_call *c)
{
    if (c->kind == TB_COLL_BCAST)
        return tb_block(&c->recv, 0);
    if (c->kind == TB_COLL_ALLTOALL)
        return tb_block_range(&c->send, 0, c->comm->size);
    return c->in_place ? tb_block(&c->recv, c->comm->rank)
                       : tb_block(&c->send, 0);
}

static void take(struct tb_direct *d, int i, uint64_t address)
{
    const struct tb_call *c = d->call;
    struct tb_part to = tb_block(&c->recv, c->kind == TB_COLL_BCAST ? 0 : i);
    int64_t bytes = tb_part_bytes(to);
    int64_t from = c->kind == TB_COLL_ALLTOALL ? c->comm->rank * bytes : 0;
    if (tb_layout_is_run(to.layout, to.count)) {
        copy_from(d, i, address, from, tb_layout_at(to.layout, to.buf), bytes);
        return;
    }
    void *packed = scratch(d, 1, bytes);
    copy_from(d, i, address, from, packed, packed ? bytes : 0);
    if (!d->err)
        tb_layout_unpack(to.layout, to.buf, 0, packed, bytes);
}

static bool begin_move(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    if (tb_direct_posts(c) && !post(d, d->turn, as_run(d, offered(c))))
        return false;
    if (!d->err)
        d->err = tb_direct_copy_own(c);
    d->pending = tb_direct_sources(c);
    return true;
}

/* Ranks after this one first: so that not all begin with the same. */
static uint64_t rotated(const struct tb_direct *d, int by)
{
    int n = d->lane->n;
    uint64_t all = n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
    if (!by)
        return d->pending;
    return (d->pending >> by | d->pending << (n - by)) & all;
}

static bool move_some(struct tb_direct *d, uint64_t turn,
                      void (*take_from)(struct tb_direct *, int, uint64_t))
{
    int me = d->lane->rank, n = d->lane->n;
    for (uint64_t left = rotated(d, me); left; left &= left - 1) {
        int i = (__builtin_ctzll(left) + me) % n;
        uint64_t address;
        if (!look(d, i, turn, &address))
            continue;
        take_from(d, i, address);
        d->pending &= ~((uint64_t)1 << i);
    }
    return !d->pending;
}

/* -------------------------------------------------------------- reductions */

/* Whether nobody combines for others. Not in place: there one rank's result
 * would overwrite what the other still reads; a root's is not read. */
static bool is_whole(const struct tb_call *c)
{
    return c->comm->size == 2 && (c->kind == TB_COLL_REDUCE || !c->in_place);
}

static bool is_whole_for_all(const struct tb_call *c)
{
    return is_whole(c) && c->kind == TB_COLL_ALLREDUCE;
}

static bool needs_result(const struct tb_call *c)
{
    return c->kind == TB_COLL_ALLREDUCE || c->comm->rank == c->root;
}

/* Block i of the elements at `base`. */
static struct tb_part block_of(const struct tb_direct *d, void *base, int i)
{
    const struct tb_call *c = d->call;
    struct tb_blocks b =
        tb_cut(base, c->recv.count, c->type->layout, d->lane->n);
    return tb_block(&b, i);
}

/* Where this rank's result goes: only the root of a Reduce has a buffer. */
static void *result(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    int64_t first = c->type->layout->first;
    if (needs_result(c))
        return c->recv.base;
    void *p = scratch(d, 1, d->bytes);
    return p ? tb_at(p, -first) : NULL;
}

/* With whose contribution a piece begins: the last rank's, for the order; but
 * if that is this rank and order is free, another's, which is copied anyway.
 * Not in Allreduce by two, where both must get the same bits. */
static int first_in(const struct tb_direct *d)
{
    int last = d->lane->n - 1;
    bool is_free = d->call->op->commutes && !is_whole_for_all(d->call);
    return last == d->lane->rank && is_free ? last - 1 : last;
}

/* One piece of a block: the contributions of all ranks, from the last one
 * down. `own` is this rank's, `at` the piece's offset in all of them. */
static void combine_piece(struct tb_direct *d, const uint64_t *address,
                          const void *own, struct tb_part out, int64_t at,
                          void *pulled)
{
    const struct tb_call *c = d->call;
    int64_t bytes = tb_part_bytes(out), first = c->type->layout->first;
    int begin = first_in(d);
    if (begin == d->lane->rank)
        memmove(tb_at(out.buf, first), tb_at(own, first), (size_t)bytes);
    else
        copy_from(d, begin, address[begin], at, tb_at(out.buf, first), bytes);
    for (int i = d->lane->n - 1; i >= 0 && !d->err; i--) {
        const void *in = own;
        if (i == begin)
            continue;
        if (i != d->lane->rank) {
            copy_from(d, i, address[i], at, pulled, bytes);
            in = tb_at(pulled, -first);
        }
        if (!d->err)
            tb_op_apply(c->op, in, out.buf, out.count, c->type);
    }
}

/* The block of this rank, when all have posted their contributions. */
static void combine(struct tb_direct *d, const uint64_t *address)
{
    const struct tb_call *c = d->call;
    int64_t size = c->type->layout->size, each = TB_MAX(PIECE / size, 1);
    void *base = result(d);
    char *room = scratch(d, 0, 2 * each * size);
    if (!base || !room)
        return;
    struct tb_part out =
        is_whole(c) ? (struct tb_part){base, c->recv.count, c->type->layout}
                    : block_of(d, base, d->lane->rank);
    int64_t start = (char *)out.buf - (char *)base;
    for (int64_t k = 0; k < out.count && !d->err; k += each) {
        struct tb_part piece = {tb_at(out.buf, k * size),
                                TB_MIN(each, out.count - k), out.layout};
        int64_t at = start + k * size;
        const void *own = tb_at(c->send.base, at);
        if (own == piece.buf && first_in(d) != d->lane->rank) {
            /* in place: the result is about to overwrite it */
            int64_t first = c->type->layout->first;
            memcpy(room + each * size, tb_at(own, first),
                   (size_t)tb_part_bytes(piece));
            own = tb_at(room + each * size, -first);
        }
        combine_piece(d, address, own, piece, at, room);
    }
}

static bool all_have_posted(struct tb_direct *d, uint64_t *address)
{
    for (int i = 0; i < d->lane->n; i++)
        if (i != d->lane->rank && !look(d, i, d->turn, &address[i]))
            return false;
    return true;
}

static void take_result(struct tb_direct *d, int i, uint64_t address)
{
    struct tb_part to = block_of(d, d->call->recv.base, i);
    int64_t first = to.layout->first;
    int64_t from = (char *)to.buf - (char *)d->call->recv.base;
    copy_from(d, i, address, from, tb_at(to.buf, first), tb_part_bytes(to));
}

/* The first turn. */
static bool reduce_some(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    uint64_t address[64];
    if (needs_result(c) || !is_whole(c)) {
        if (!all_have_posted(d, address))
            return false;
        combine(d, address);
    }
    tb_lane_finish(d->lane, d->turn);
    d->pending = 0;
    if (needs_result(c) && !is_whole(c))
        d->pending = (d->lane->n < 64 ? (uint64_t)1 << d->lane->n : 0) - 1;
    d->pending &= ~((uint64_t)1 << d->lane->rank);
    return true;
}

/* ----------------------------------------------------------------- advance */

static bool advance_move(struct tb_direct *d)
{
    if (d->stage == BEGIN && begin_move(d))
        d->stage = FIRST;
    if (d->stage == FIRST && move_some(d, d->turn, take)) {
        tb_lane_finish(d->lane, d->turn);
        d->stage = LINGER;
    }
    return d->stage == LINGER && (!tb_direct_posts(d->call) ||
                                  tb_lane_all_finished(d->lane, d->turn));
}

static const void *first_of(const struct tb_call *c, const void *base)
{
    return c->recv.count ? tb_at(base, c->type->layout->first) : NULL;
}

static bool advance_reduction(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    uint64_t second = d->turn + 1;
    if (d->stage == BEGIN && post(d, d->turn, first_of(c, c->send.base)))
        d->stage = FIRST;
    if (d->stage == FIRST && reduce_some(d))
        d->stage = is_whole(c) ? LINGER : SECOND;
    if (d->stage == SECOND) {
        void *out = result(d);
        if (!post(d, second, out ? first_of(c, out) : NULL))
            return false;
        d->stage = THIRD;
    }
    if (d->stage == THIRD && move_some(d, second, take_result)) {
        tb_lane_finish(d->lane, second);
        d->stage = LINGER;
    }
    return d->stage == LINGER &&
           tb_lane_all_finished(d->lane, d->turn + d->turns - 1);
}

void tb_pull_init(struct tb_direct *d)
{
    d->turns = is_reduction(d->call) && !is_whole(d->call) ? 2 : 1;
}

bool tb_pull_advance(struct tb_direct *d)
{
    return is_reduction(d->call) ? advance_reduction(d) : advance_move(d);
}
