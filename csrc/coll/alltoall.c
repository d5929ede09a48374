/* SPDX-License-Identifier: MIT */
/*
 * All-to-all exchanges: equal blocks, different blocks, different types.
 *
 * Bruck: log n rounds of half of all blocks; for many ranks and tiny blocks.
 * (Bruck et al., 1997; see allgather.c.)
 * Spread: in step i to the rank i further on and from the one i before, a
 * limited number of steps at once, so that no rank is everybody's target.
 * Pairwise: the same, one step at a time.
 */
#include "coll/build.h"

#define IN_FLIGHT 16

/* What goes to whom. In place, blocks are packed away before anything arrives
 * where they lie; `at` has n + 1 offsets into `packed` then. */
struct outgoing {
    const struct tb_call *c;
    void *packed;
    int64_t *at;
};

static struct outgoing prepare(struct tb_sched *s, const struct tb_call *c)
{
    struct outgoing out = {.c = c};
    int n = tb_call_peers(c);
    if (!c->in_place)
        return out;
    out.at = tb_sched_bytes(s, (n + 1) * (int64_t)sizeof *out.at);
    if (!out.at)
        return out;
    out.at[0] = 0;
    for (int i = 0; i < n; i++)
        out.at[i + 1] = out.at[i] + tb_part_bytes(tb_block(&c->recv, i));
    out.packed = tb_sched_bytes(s, out.at[n]);
    for (int i = 0; i < n; i++)
        if (i != c->comm->rank)
            tb_sched_copy(s, tb_block(&c->recv, i),
                          tb_bytes(tb_at(out.packed, out.at[i]),
                                   out.at[i + 1] - out.at[i]));
    return out;
}

static struct tb_part outgoing(const struct outgoing *out, int i)
{
    if (!out->c->in_place)
        return tb_block(&out->c->send, i);
    if (!out->at) /* no memory: the schedule will not run */
        return tb_bytes(NULL, 0);
    return tb_bytes(tb_at(out->packed, out->at[i]),
                    out->at[i + 1] - out->at[i]);
}

static void copy_own(struct tb_sched *s, const struct tb_call *c)
{
    if (!c->in_place && !c->comm->remote)
        tb_sched_copy(s, tb_block(&c->send, c->comm->rank),
                      tb_block(&c->recv, c->comm->rank));
}

/* Between two groups all go at once: see tb_build_allgather_spread. */
static void exchange(struct tb_sched *s, const struct tb_call *c, int at_once)
{
    bool inter = c->comm->remote;
    struct tb_team t = inter ? tb_team_remote(c->comm) : tb_team_of(c->comm, 0);
    struct outgoing out = prepare(s, c);
    int n = t.size, me = c->comm->rank % n;
    for (int i = inter ? 0 : 1; i < n; i++) {
        int from = (me - i + n) % n, to = (me + i) % n;
        tb_sched_recv(s, &t, from, tb_block(&c->recv, from));
        tb_sched_send(s, &t, to, outgoing(&out, to));
        if (i == 1)
            copy_own(s, c);
        if (!inter && i % at_once == 0)
            tb_sched_round(s);
    }
    if (n == 1)
        copy_own(s, c);
    tb_sched_round(s);
}

void tb_build_alltoall_spread(struct tb_sched *s, const struct tb_call *c)
{
    exchange(s, c, IN_FLIGHT);
}

void tb_build_alltoall_pairwise(struct tb_sched *s, const struct tb_call *c)
{
    exchange(s, c, 1);
}

/* Those of n blocks of `each` bytes whose number has bit `far` set; *k of
 * them. NULL: no memory. */
static struct tb_layout *every_other(struct tb_sched *s, int n, int far,
                                     int64_t each, int *k)
{
    int64_t *places = tb_sched_bytes(s, n * (int64_t)sizeof *places);
    struct tb_layout *layout;
    *k = 0;
    if (!places)
        return NULL;
    for (int i = 0; i < n; i++)
        if (i & far)
            places[(*k)++] = i;
    tb_err err = tb_layout_indexed_block(&layout, *k, each, places, each,
                                         &tb_layout_byte);
    if (err) {
        tb_sched_fail(s, err);
        return NULL;
    }
    tb_sched_adopt(s, layout);
    return layout;
}

void tb_build_alltoall_bruck(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    const struct tb_blocks *from = c->in_place ? &c->recv : &c->send;
    int n = t.size;
    int64_t each = tb_part_bytes(tb_block(&c->recv, 0));
    struct tb_blocks mine = {.base = tb_sched_bytes(s, each * n),
                             .layout = &tb_layout_byte,
                             .count = each};
    void *arrived = tb_sched_bytes(s, each * (n / 2 + 1));
    for (int i = 0; i < n; i++)
        tb_sched_copy(s, tb_block(from, (t.rank + i) % n), tb_block(&mine, i));
    for (int far = 1; far < n; far *= 2) {
        int k;
        struct tb_layout *some = every_other(s, n, far, each, &k);
        if (!some)
            return;
        struct tb_part out = {mine.base, 1, some};
        struct tb_part in = tb_bytes(arrived, k * each);
        tb_sched_recv(s, &t, (t.rank - far + n) % n, in);
        tb_sched_send(s, &t, (t.rank + far) % n, out);
        tb_sched_round(s);
        tb_sched_copy(s, in, out);
    }
    for (int i = 0; i < n; i++)
        tb_sched_copy(s, tb_block(&mine, i),
                      tb_block(&c->recv, (t.rank - i + n) % n));
    tb_sched_round(s);
}
