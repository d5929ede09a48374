/* SPDX-License-Identifier: MIT */
/* What the engine can tell about itself. Nothing is counted for this alone
 * but the bytes; the rest is there anyhow. */
#include "engine/internal.h"

static void add_peer(struct tb_traffic *t, const struct tb_peer *p)
{
    t->messages_out += p->seq;
    t->messages_in += p->expect;
    t->bytes_out += p->bytes_out;
    t->bytes_in += p->bytes_in;
}

static uint64_t length_of(const struct tb_list *list)
{
    uint64_t n = 0;
    for (const struct tb_list *l = list->next; l != list; l = l->next)
        n++;
    return n;
}

static void add_context(struct tb_engine_stats *out, struct tb_context *c)
{
    out->posted += length_of(&c->any);
    for (unsigned i = 0; i <= c->mask; i++)
        out->posted += length_of(&c->bins[i].posted);
    for (struct tb_list *l = c->arrivals.next; l != &c->arrivals; l = l->next) {
        out->unexpected++;
        out->unexpected_bytes +=
            (uint64_t)TB_CONTAINER(l, struct tb_arrival, in_order)->bytes;
    }
}

void tb_engine_stats(const struct tb_engine *e, struct tb_engine_stats *out)
{
    int here = tb_net_node(e->net, e->self);

    *out = (struct tb_engine_stats){.requests = e->requests.live,
                                    .contexts = e->contexts,
                                    .idle = e->note->polls};
    for (int i = 0; i < e->endpoints; i++) {
        bool inside = tb_net_node(e->net, i) == here;
        if (e->peers[i])
            add_peer(inside ? &out->inside : &out->outside, e->peers[i]);
    }
    for (unsigned i = 0; i <= e->chains_mask; i++)
        for (struct tb_context *c = e->chains[i]; c; c = c->next)
            add_context(out, c);
}
