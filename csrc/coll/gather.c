/* SPDX-License-Identifier: MIT */
/*
 * Gathers.
 *
 * Binomial tree: each rank collects its subtree's blocks and passes them on in
 * one message; log n rounds.
 * Linear: each sends its block to the root; no byte is moved twice.
 */
#include "coll/build.h"

/* Receives the subtree's blocks behind this rank's own in `b`, whose block 0
 * is this rank's; returns how many there are. */
static int collect(struct tb_sched *s, const struct tb_team *t,
                   const struct tb_blocks *b)
{
    int mask = 1;
    for (; mask < t->size && !(t->rank & mask); mask *= 2) {
        int child = t->rank + mask;
        if (child < t->size)
            tb_sched_recv(
                s, t, child,
                tb_block_range(b, mask, TB_MIN(mask, t->size - child)));
    }
    return TB_MIN(mask, t->size - t->rank);
}

static void unpack_at_root(struct tb_sched *s, const struct tb_call *c,
                           const struct tb_blocks *b)
{
    int n = c->comm->size, before = n - c->root;
    tb_sched_copy(s, tb_block_range(b, 1, before - 1),
                  tb_block_range(&c->recv, c->root + 1, before - 1));
    tb_sched_copy(s, tb_block_range(b, before, c->root),
                  tb_block_range(&c->recv, 0, c->root));
}

void tb_build_gather_binomial(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    struct tb_part mine =
        c->in_place ? tb_block(&c->recv, c->root) : tb_block(&c->send, 0);
    int lowest = t.rank & -t.rank; /* the parent is that far away */
    if (t.rank % 2) {
        tb_sched_send(s, &t, t.rank - 1, mine);
        tb_sched_round(s);
        return;
    }
    int room = t.rank ? lowest : t.size;
    int64_t each = tb_part_bytes(mine);
    struct tb_blocks b = {.base = tb_sched_bytes(s, each * room),
                          .layout = &tb_layout_byte,
                          .count = each};
    int n = collect(s, &t, &b);
    if (t.rank == 0) {
        if (!c->in_place)
            tb_sched_copy(s, mine, tb_block(&c->recv, c->root));
        tb_sched_round(s);
        unpack_at_root(s, c, &b);
    } else {
        tb_sched_copy(s, mine, tb_block(&b, 0));
        tb_sched_round(s);
        tb_sched_send(s, &t, t.rank - lowest, tb_block_range(&b, 0, n));
    }
    tb_sched_round(s);
}

void tb_build_gather_linear(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t =
        c->comm->remote ? tb_team_remote(c->comm) : tb_team_of(c->comm, 0);
    if (tb_call_is_root(c)) {
        for (int i = 0; i < t.size; i++)
            if (i != t.rank)
                tb_sched_recv(s, &t, i, tb_block(&c->recv, i));
        if (t.rank >= 0 && !c->in_place)
            tb_sched_copy(s, tb_block(&c->send, 0), tb_block(&c->recv, t.rank));
    } else if (tb_call_is_leaf(c)) {
        tb_sched_send(s, &t, c->root, tb_block(&c->send, 0));
    }
    tb_sched_round(s);
}
