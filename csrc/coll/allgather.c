/* SPDX-License-Identifier: MIT */
/*
 * Allgathers, with equal and with different blocks.
 *
 * Bruck: log n rounds for any n; blocks are packed, and turned into place at
 * the end. (Bruck et al., "Efficient algorithms for all-to-all communications
 * in multiport message-passing systems", 1997.)
 * Recursive doubling: log n rounds for n a power of two, in place.
 * Ring: n - 1 rounds; each block goes round by neighbours.
 * Spread: every rank sends its block to every other, a few at once.
 */
#include "coll/build.h"

#define IN_FLIGHT 16

static void copy_own(struct tb_sched *s, const struct tb_call *c)
{
    if (!c->in_place)
        tb_sched_copy(s, tb_block(&c->send, 0),
                      tb_block(&c->recv, c->comm->rank));
}

void tb_allgather_ring(struct tb_sched *s, const struct tb_team *t,
                       const struct tb_blocks *b)
{
    int n = t->size, at = t->rank;
    for (int i = 1; i < n; i++) {
        int next = (at - 1 + n) % n;
        tb_sched_recv(s, t, (t->rank - 1 + n) % n, tb_block(b, next));
        tb_sched_send(s, t, (t->rank + 1) % n, tb_block(b, at));
        tb_sched_round(s);
        at = next;
    }
}

void tb_build_allgather_ring(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    copy_own(s, c);
    tb_allgather_ring(s, &t, &c->recv);
    tb_sched_round(s);
}

void tb_build_allgather_doubling(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    copy_own(s, c);
    for (int mask = 1; mask < t.size; mask *= 2) {
        int peer = t.rank ^ mask;
        tb_sched_recv(s, &t, peer,
                      tb_block_range(&c->recv, peer & ~(mask - 1), mask));
        tb_sched_send(s, &t, peer,
                      tb_block_range(&c->recv, t.rank & ~(mask - 1), mask));
        tb_sched_round(s);
    }
    tb_sched_round(s);
}

/* Bytes of the first `n` blocks, counted from this rank's own. */
static int64_t leading(const struct tb_call *c, int n)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += tb_part_bytes(
            tb_block(&c->recv, (c->comm->rank + i) % c->comm->size));
    return bytes;
}

static struct tb_part slice(const void *base, int64_t from, int64_t to)
{
    return tb_bytes(tb_at(base, from), to - from);
}

void tb_build_allgather_bruck(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    int n = t.size;
    void *packed = tb_sched_bytes(s, leading(c, n));
    struct tb_part own =
        c->in_place ? tb_block(&c->recv, t.rank) : tb_block(&c->send, 0);
    tb_sched_copy(s, own, slice(packed, 0, leading(c, 1)));
    copy_own(s, c);
    for (int64_t far = 1; far < n; far *= 2) {
        int k = (int)TB_MIN(far, n - far);
        int have = (int)far;
        int from = (int)((t.rank + far) % n);
        int to = (int)((t.rank - far + n) % n);
        tb_sched_recv(s, &t, from,
                      slice(packed, leading(c, have), leading(c, have + k)));
        tb_sched_send(s, &t, to, slice(packed, 0, leading(c, k)));
        tb_sched_round(s);
    }
    int64_t at = leading(c, 1);
    for (int i = 1; i < n; i++) {
        struct tb_part p = tb_block(&c->recv, (t.rank + i) % n);
        tb_sched_copy(s, slice(packed, at, at + tb_part_bytes(p)), p);
        at += tb_part_bytes(p);
    }
    tb_sched_round(s);
}

/* Also between two groups, where every rank of the one sends to every rank of
 * the other, all at once: with groups of unequal size a limit could deadlock,
 * since the two ends of a message would count it differently. */
void tb_build_allgather_spread(struct tb_sched *s, const struct tb_call *c)
{
    bool inter = c->comm->remote;
    struct tb_team t = inter ? tb_team_remote(c->comm) : tb_team_of(c->comm, 0);
    struct tb_part own =
        c->in_place ? tb_block(&c->recv, t.rank) : tb_block(&c->send, 0);
    int n = t.size, me = c->comm->rank % n;
    if (!inter)
        copy_own(s, c);
    for (int i = inter ? 0 : 1; i < n; i++) {
        int from = (me - i + n) % n;
        tb_sched_recv(s, &t, from, tb_block(&c->recv, from));
        tb_sched_send(s, &t, (me + i) % n, own);
        if (!inter && i % IN_FLIGHT == 0)
            tb_sched_round(s);
    }
    tb_sched_round(s);
}
