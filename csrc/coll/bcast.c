/* SPDX-License-Identifier: MIT */
/*
 * Broadcasts.
 *
 * Binomial tree: log n rounds, m log n bytes from the root.
 * Flat: the root sends to all at once. Where every receiver copies straight
 * out of the root's memory, all copies run side by side and nobody waits for a
 * rank in between.
 * Scatter and ring: the root scatters m/n bytes to each, who pass them round
 * (van de Geijn; Barnett et al., "Interprocessor collective communication
 * library", 1994). 2m bytes each, whatever n.
 * Chain: pieces go from rank to rank like water; n + m/piece rounds.
 */
#include "coll/build.h"

#define CHAIN_PIECE 65536

void tb_bcast_binomial(struct tb_sched *s, const struct tb_team *t,
                       struct tb_part what)
{
    int mask = 1;
    while (mask < t->size && !(t->rank & mask))
        mask *= 2;
    if (t->rank) {
        tb_sched_recv(s, t, t->rank - mask, what);
        tb_sched_round(s);
    }
    for (mask /= 2; mask > 0; mask /= 2)
        if (t->rank + mask < t->size)
            tb_sched_send(s, t, t->rank + mask, what);
    tb_sched_round(s);
}

void tb_build_bcast_binomial(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    tb_bcast_binomial(s, &t, tb_block(&c->recv, 0));
}

void tb_build_bcast_flat(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    struct tb_part what = tb_block(&c->recv, 0);
    if (t.rank)
        tb_sched_recv(s, &t, 0, what);
    else
        for (int i = 1; i < t.size; i++)
            tb_sched_send(s, &t, i, what);
    tb_sched_round(s);
}

struct tb_part tb_stream_begin(struct tb_sched *s, const struct tb_team *t,
                               struct tb_part what)
{
    int64_t bytes = tb_part_bytes(what);
    if (tb_layout_is_run(what.layout, what.count))
        return tb_bytes(tb_layout_at(what.layout, what.buf), bytes);
    struct tb_part stream = tb_bytes(tb_sched_bytes(s, bytes), bytes);
    if (t->rank == 0)
        tb_sched_copy(s, what, stream);
    return stream;
}

void tb_stream_end(struct tb_sched *s, const struct tb_team *t,
                   struct tb_part stream, struct tb_part what)
{
    if (!tb_layout_is_run(what.layout, what.count) && t->rank)
        tb_sched_copy(s, stream, what);
    tb_sched_round(s);
}

void tb_build_bcast_scatter_ring(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    struct tb_part what = tb_block(&c->recv, 0);
    struct tb_part stream = tb_stream_begin(s, &t, what);
    struct tb_blocks cut =
        tb_cut(stream.buf, stream.count, stream.layout, t.size);
    tb_scatter_cut(s, &t, &cut);
    tb_allgather_ring(s, &t, &cut);
    tb_stream_end(s, &t, stream, what);
}

void tb_build_bcast_chain(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    struct tb_part what = tb_block(&c->recv, 0);
    struct tb_part stream = tb_stream_begin(s, &t, what),
                   last = tb_bytes(NULL, 0);
    bool has_next = t.rank + 1 < t.size;
    for (int64_t at = 0; at < stream.count; at += CHAIN_PIECE) {
        struct tb_part piece = tb_bytes(tb_at(stream.buf, at),
                                        TB_MIN(CHAIN_PIECE, stream.count - at));
        if (t.rank)
            tb_sched_recv(s, &t, t.rank - 1, piece);
        if (has_next)
            tb_sched_send(s, &t, t.rank + 1, t.rank ? last : piece);
        tb_sched_round(s);
        last = piece;
    }
    if (t.rank && has_next)
        tb_sched_send(s, &t, t.rank + 1, last);
    tb_sched_round(s);
    tb_stream_end(s, &t, stream, what);
}

/* To the other side's first rank, and from there to its others. */
void tb_build_bcast_inter(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team other = tb_team_remote(c->comm);
    struct tb_part what = tb_block(&c->recv, 0);
    if (c->root == MPI_PROC_NULL)
        return;
    if (c->root == MPI_ROOT) {
        tb_sched_send(s, &other, 0, what);
        tb_sched_round(s);
        return;
    }
    struct tb_team t = tb_team_of(c->comm, 0);
    if (t.rank == 0)
        tb_sched_recv(s, &other, c->root, what);
    tb_sched_round(s);
    tb_bcast_binomial(s, &t, what);
}
