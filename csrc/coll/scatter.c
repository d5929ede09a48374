/* SPDX-License-Identifier: MIT */
/*
 * Scatters.
 *
 * Binomial tree: the root hands whole subtrees of blocks down; log n rounds.
 * Linear: the root sends each its block; no byte is moved twice.
 */
#include "coll/build.h"

void tb_scatter_cut(struct tb_sched *s, const struct tb_team *t,
                    const struct tb_blocks *b)
{
    int mask = 1;
    while (mask < t->size && !(t->rank & mask))
        mask *= 2;
    if (t->rank) {
        int mine = TB_MIN(mask, t->size - t->rank);
        tb_sched_recv(s, t, t->rank - mask, tb_block_range(b, t->rank, mine));
        tb_sched_round(s);
    }
    for (mask /= 2; mask > 0; mask /= 2) {
        int child = t->rank + mask;
        if (child < t->size)
            tb_sched_send(
                s, t, child,
                tb_block_range(b, child, TB_MIN(mask, t->size - child)));
    }
    tb_sched_round(s);
}

/* Packed blocks of the team's ranks, as bytes. */
static struct tb_blocks packed(struct tb_sched *s, int64_t each, int n)
{
    return (struct tb_blocks){.base = tb_sched_bytes(s, each * n),
                              .layout = &tb_layout_byte,
                              .count = each};
}

/* Blocks in the team's order, which starts at the root's. */
static void pack_from_root(struct tb_sched *s, const struct tb_call *c,
                           const struct tb_blocks *b)
{
    int n = c->comm->size, before = n - c->root;
    tb_sched_copy(s, tb_block_range(&c->send, c->root, before),
                  tb_block_range(b, 0, before));
    tb_sched_copy(s, tb_block_range(&c->send, 0, c->root),
                  tb_block_range(b, before, c->root));
}

void tb_build_scatter_binomial(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    struct tb_part mine =
        c->in_place ? tb_block(&c->send, c->root) : tb_block(&c->recv, 0);
    if (t.rank % 2) { /* no subtree */
        tb_sched_recv(s, &t, t.rank - 1, mine);
        tb_sched_round(s);
        return;
    }
    struct tb_blocks b = packed(s, tb_part_bytes(mine), t.size);
    if (t.rank == 0)
        pack_from_root(s, c, &b);
    tb_scatter_cut(s, &t, &b);
    if (!c->in_place)
        tb_sched_copy(s, tb_block(&b, t.rank), mine);
    tb_sched_round(s);
}

void tb_build_scatter_linear(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t =
        c->comm->remote ? tb_team_remote(c->comm) : tb_team_of(c->comm, 0);
    if (tb_call_is_root(c)) {
        for (int i = 0; i < t.size; i++)
            if (i != t.rank)
                tb_sched_send(s, &t, i, tb_block(&c->send, i));
        if (t.rank >= 0 && !c->in_place)
            tb_sched_copy(s, tb_block(&c->send, t.rank), tb_block(&c->recv, 0));
    } else if (tb_call_is_leaf(c)) {
        tb_sched_recv(s, &t, c->root, tb_block(&c->recv, 0));
    }
    tb_sched_round(s);
}
