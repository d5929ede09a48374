/* SPDX-License-Identifier: MIT */
/*
 * Which ways there are. Every router learns from its own port which of its
 * cables die and whose process has ended, and tells the others the first;
 * the second everybody sees for himself. Cables do not come back during a job.
 */
#include "router/router.h"

#include <stdio.h>

enum { HELLO = 1, NEWS };

/* From router to router over the management network. Little-endian. */
struct hello {
    uint32_t kind;
    uint32_t spare[TB_CLASSES]; /* slots for transit */
};

struct news {
    uint32_t kind;
    uint8_t dead[TB_PLAN_CABLES_MOST / 8]; /* cables, a bit each */
};

bool tb_ways_settled(const struct tb_router *r)
{
    for (int i = 0; i < r->owner.args.n_cables; i++) {
        if (r->cable[r->owner.cables[i].id] == TB_CABLE_STARTING)
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ telling */

/* False: not now, try again. */
static bool tell(struct tb_router *r, int node, const void *data, size_t bytes)
{
    int owner = tb_plan_owner(r->plan, node);

    return tb_rdma_tell(r->port, owner, data, bytes) != TB_ERR_AGAIN;
}

static bool tell_hello(struct tb_router *r, int node)
{
    struct hello m = {.kind = HELLO};

    memcpy(m.spare, r->spare, sizeof(m.spare));
    return tell(r, node, &m, sizeof(m));
}

/* That a process has ended, and its cables with it, everybody sees. */
static bool tell_news(struct tb_router *r, int node)
{
    struct news m = {.kind = NEWS};

    for (int i = 0; i < r->routes.cables; i++) {
        const uint8_t *end = r->routes.end[i];
        bool news = !r->far[end[0]].gone && !r->far[end[1]].gone;
        m.dead[i / 8] |= (uint8_t)((news && r->routes.dead[i]) << i % 8);
    }
    return tell(r, node, &m, sizeof(m));
}

void tb_ways_tell(struct tb_router *r)
{
    for (int k = 0; k < r->plan->nodes; k++) {
        struct tb_far *far = &r->far[k];
        if (far->tell_hello)
            far->tell_hello = !tell_hello(r, k);
        if (far->tell_news)
            far->tell_news = !tell_news(r, k);
        r->work |= far->tell_hello || far->tell_news;
    }
}

/* ------------------------------------------------------------------- losing */

void tb_ways_publish(struct tb_router *r)
{
    int self = r->plan->self;

    for (int k = 0; k < r->plan->nodes; k++) {
        struct tb_board_node *b = tb_board_node(r->owner.pool->base, k);
        int hops = tb_routes_hops(&r->routes, self, k);
        int next = k == self ? self : tb_routes_next(&r->routes, self, self, k);
        atomic_store_explicit(&b->next, next, memory_order_relaxed);
        atomic_store_explicit(&b->hops, (uint32_t)hops, memory_order_relaxed);
    }
}

static void explain_cable(struct tb_router *r, struct tb_board_node *b,
                          int node)
{
    const struct tb_plan_cable *c = &r->plan->cable[r->last_cut];

    snprintf(b->why, sizeof(b->why),
             "cable %d (%.20s of %.30s to %.20s of %.30s) is dead and no other "
             "way leads to %.30s",
             r->last_cut, c->device[0], r->plan->node[c->node[0]].name,
             c->device[1], r->plan->node[c->node[1]].name,
             r->plan->node[node].name);
}

/* Why node `node` cannot be reached, if nobody has said it better. */
static void explain(struct tb_router *r, int node)
{
    struct tb_board_node *b = tb_board_node(r->owner.pool->base, node);

    if (b->why[0])
        return;
    if (r->last_gone >= 0)
        snprintf(b->why, sizeof(b->why),
                 "the router of %.60s has ended and no other way leads to "
                 "%.60s",
                 r->plan->node[r->last_gone].name, r->plan->node[node].name);
    else if (r->last_cut >= 0)
        explain_cable(r, b, node);
}

/* Release: the words of the lanes come after the texts. */
static void look_for_losses(struct tb_router *r)
{
    for (int k = 0; k < r->plan->nodes; k++) {
        if (k == r->plan->self || r->far[k].lost ||
            tb_routes_hops(&r->routes, r->plan->self, k) != TB_HOPS_NONE)
            continue;
        r->far[k].lost = true;
        explain(r, k);
        if (!r->up)
            tb_router_break(r, TB_ERR_LOST,
                            tb_board_node(r->owner.pool->base, k)->why);
        tb_lanes_lose(r, k);
    }
}

static void changed(struct tb_router *r)
{
    tb_ways_publish(r);
    look_for_losses(r);
    tb_forward_again(r);
    for (int k = 0; k < r->plan->nodes; k++)
        r->far[k].tell_news = k != r->plan->self && !r->far[k].gone;
    r->work = true;
}

/* ------------------------------------------------------------------ hearing */

void tb_ways_cable(void *ctx, int id, enum tb_cable_state state,
                   const char *why)
{
    struct tb_router *r = ctx;
    const uint8_t *end = r->routes.end[id];
    int peer = end[0] == r->plan->self ? end[1] : end[0];

    r->cable[id] = state;
    if (state != TB_CABLE_DEAD || r->far[peer].gone)
        return;
    if (r->plan->self < peer) /* the other end says the same */
        tb_log(TB_LOG_WARN, "%s", why);
    if (!tb_routes_cut(&r->routes, id))
        return;
    r->last_cut = id;
    r->last_gone = -1;
    changed(r);
}

static void cut_all(struct tb_router *r, int node)
{
    bool any = false;

    for (int i = 0; i < r->plan->cables; i++) {
        const struct tb_plan_cable *c = &r->plan->cable[i];
        if (c->node[0] == node || c->node[1] == node)
            any |= tb_routes_cut(&r->routes, i);
    }
    if (any)
        changed(r);
}

/* A process that has ended passes nothing on. */
void tb_ways_gone(void *ctx, int peer, const char *why)
{
    struct tb_router *r = ctx;
    int node = tb_plan_node_of(r->plan, peer);
    struct tb_board_node *b = tb_board_node(r->owner.pool->base, node);

    r->far[node].gone = true;
    r->last_gone = node;
    snprintf(b->why, sizeof(b->why), "%s", why);
    cut_all(r, node);
}

void tb_ways_lost(void *ctx, int peer, tb_err why)
{
    struct tb_router *r = ctx;
    int node = tb_plan_node_of(r->plan, peer);

    (void)why;
    r->far[node].link = NULL;
    for (int i = 0; i < r->plan->cables; i++) {
        const struct tb_plan_cable *c = &r->plan->cable[i];
        if ((c->node[0] == node && c->node[1] == r->plan->self) ||
            (c->node[1] == node && c->node[0] == r->plan->self))
            tb_routes_cut(&r->routes, i);
    }
    changed(r);
}

static void hear_hello(struct tb_router *r, int node, const struct hello *m)
{
    r->far[node].ready = true;
    for (int c = 0; c < TB_CLASSES; c++)
        r->poorest[c] = TB_MIN(r->poorest[c], m->spare[c]);
}

static void hear_news(struct tb_router *r, const struct news *m)
{
    bool any = false;

    for (int i = 0; i < r->routes.cables; i++) {
        if (!(m->dead[i / 8] >> i % 8 & 1) || !tb_routes_cut(&r->routes, i))
            continue;
        r->last_cut = i;
        r->last_gone = -1;
        any = true;
    }
    if (any)
        changed(r);
}

void tb_ways_told(void *ctx, int peer, const void *data, size_t bytes)
{
    struct tb_router *r = ctx;
    int node = tb_plan_node_of(r->plan, peer);
    uint32_t kind = 0;

    if (bytes >= sizeof(kind))
        memcpy(&kind, data, sizeof(kind));
    if (kind == HELLO && bytes == sizeof(struct hello))
        hear_hello(r, node, data);
    else if (kind == NEWS && bytes == sizeof(struct news))
        hear_news(r, data);
    else
        tb_log(TB_LOG_ERROR, "the router of %s says what makes no sense",
               r->plan->node[node].name);
}
