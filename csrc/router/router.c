/* SPDX-License-Identifier: MIT */
/* A router's life: opening, getting ready with the others, leaving. */
#include "router/router.h"

#include <stdio.h>
#include <unistd.h>

#define CHECK_NS 100000000 /* between two looks after the ranks */

/* ----------------------------------------------------------------- opening */

static tb_err make_tables(struct tb_router *r)
{
    size_t size = (size_t)r->plan->size;
    uint32_t slots = r->owner.pool->plan.first[TB_CLASSES];

    r->lanes = tb_calloc((size_t)r->places + 1, sizeof(*r->lanes));
    r->loads = tb_calloc(slots, sizeof(*r->loads));
    r->held = tb_calloc(size, sizeof(*r->held));
    if (!r->lanes || !r->loads || !r->held)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the router's tables");
    for (size_t i = 0; i < size; i++) {
        tb_queue_init(&r->held[i][TB_CONTROL]);
        tb_queue_init(&r->held[i][TB_BULK]);
    }
    tb_queue_init(&r->strays);
    for (int k = 0; k < TB_NODES_MOST; k++) {
        tb_queue_init(&r->far[k].leaving[TB_CONTROL]);
        tb_queue_init(&r->far[k].leaving[TB_BULK]);
    }
    return tb_windows_init(&r->windows, r->plan);
}

static tb_err check_slots(const struct tb_router *r)
{
    uint32_t slots = r->owner.pool->plan.first[TB_CLASSES];

    if (slots <= 1u << TB_RELAY_SLOT_BITS)
        return TB_OK;
    return tb_fail(TB_ERR_NO_SPACE,
                   "a pool of %zu MiB has more slots than a lane can name; set "
                   "TBMPI_POOL to less",
                   r->owner.pool->bytes >> 20);
}

static void publish_slots(struct tb_router *r)
{
    const struct tb_regpool *pool = r->owner.pool;

    for (int c = 0; c < TB_CLASSES; c++)
        atomic_store_explicit(&r->head->free[c], pool->n[c],
                              memory_order_relaxed);
}

/* Ranks may look at the pool from now on. */
static void write_head(struct tb_router *r)
{
    const struct tb_regpool_plan *slots = &r->owner.pool->plan;

    for (int c = 0; c < TB_CLASSES; c++)
        atomic_store_explicit(&r->head->slots[c],
                              slots->first[c + 1] - slots->first[c],
                              memory_order_relaxed);
    publish_slots(r);
    r->head->ranks = (uint32_t)r->places;
    r->head->pid = (uint32_t)getpid();
    r->head->magic = TB_POOL_MAGIC;
}

static tb_err open_port(struct tb_router *r)
{
    struct tb_port_args args = {
        .config = r->config,
        .up = &r->sink,
        .self = r->plan->size + r->plan->self,
        .endpoints = r->plan->size + r->plan->nodes,
        .bell = &r->head->bell,
        .rdma = &r->owner.args,
    };

    r->owner.args.more = (struct tb_rdma_sink){
        .ctx = r,
        .sent = tb_forward_sent,
        .told = tb_ways_told,
        .cable = tb_ways_cable,
        .gone = tb_ways_gone,
    };
    r->sink = (struct tb_sink){r, tb_forward_packet, tb_forward_returned,
                               tb_ways_lost};
    TB_TRY(tb_transport_rdma.open(&r->port, &args));
    for (int k = 0; k < r->plan->nodes; k++) {
        if (k != r->plan->self &&
            tb_routes_joined(&r->routes, k, r->plan->self))
            TB_TRY(tb_transport_rdma.connect(r->port, r->plan->size + k,
                                             &r->far[k].link));
    }
    return TB_OK;
}

static tb_err open_router(struct tb_router *r)
{
    r->places = r->plan->node[r->plan->self].n;
    r->last_cut = r->last_gone = -1;
    for (int c = 0; c < TB_CLASSES; c++)
        r->poorest[c] = UINT32_MAX;
    tb_routes_init(&r->routes, r->plan);
    if (r->config->pool_fd < 0)
        return tb_fail(TB_ERR_SYSTEM,
                       "TBMPI_POOL_FD is not set: tbmpirun starts this program "
                       "with the memory that it shares with its ranks");
    TB_TRY(tb_owner_open(&r->owner, r->config, r->plan, (int)r->config->pool_fd,
                         0, r->places));
    r->head = (struct tb_pool_head *)(void *)r->owner.pool->base;
    write_head(r);
    tb_verbs_guard(r->owner.verbs);
    TB_TRY(check_slots(r));
    TB_TRY(make_tables(r));
    TB_TRY(tb_lanes_open(r));
    tb_ways_publish(r);
    return open_port(r);
}

tb_err tb_router_open(struct tb_router **out, const struct tb_config *config,
                      struct tb_plan *plan)
{
    struct tb_router *r = tb_calloc(1, sizeof(*r));
    tb_err err;

    if (!r) {
        tb_plan_free(plan);
        return tb_fail(TB_ERR_NO_MEM, "no memory for the router");
    }
    r->config = config;
    r->plan = plan;
    err = open_router(r);
    if (err) {
        tb_router_fail(r, tb_fail_note());
        tb_router_close(r);
        return err;
    }
    *out = r;
    return TB_OK;
}

void tb_router_close(struct tb_router *r)
{
    if (r->port)
        tb_transport_rdma.close(r->port);
    tb_lanes_close(r);
    tb_owner_close(&r->owner);
    tb_windows_fini(&r->windows);
    tb_plan_free(r->plan);
    tb_free(r->lanes);
    tb_free(r->loads);
    tb_free(r->held);
    tb_free(r);
}

void tb_router_break(struct tb_router *r, tb_err err, const char *why)
{
    if (r->broken)
        return;
    r->broken = err;
    snprintf(r->why, sizeof(r->why), "%s", why);
}

/* Release: who sees the state sees the reason. */
void tb_router_fail(struct tb_router *r, const char *why)
{
    if (!r->head)
        return;
    snprintf(r->head->reason, sizeof(r->head->reason), "%s", why);
    atomic_store_explicit(&r->head->state, TB_POOL_FAILED,
                          memory_order_release);
    tb_lanes_wake(r);
}

/* ---------------------------------------------------------- getting ready */

static bool all_ready(const struct tb_router *r)
{
    for (int k = 0; k < r->plan->nodes; k++) {
        if (k != r->plan->self && !r->far[k].ready)
            return false;
    }
    return true;
}

/* First the cables of this node, whose receives take slots; then the ranks'
 * stock; what is left is told to the others, and the poorest decides. */
static void get_ready(struct tb_router *r)
{
    if (!r->said_hello && tb_ways_settled(r)) {
        tb_lanes_stock(r);
        for (int c = 0; c < TB_CLASSES; c++)
            r->poorest[c] = TB_MIN(r->poorest[c], r->spare[c]);
        for (int k = 0; k < r->plan->nodes; k++)
            r->far[k].tell_hello = k != r->plan->self;
        r->said_hello = r->work = true;
    }
    if (!r->said_hello || !all_ready(r) || r->broken)
        return;
    if (tb_windows_share(r->windows.size, r->poorest, r->plan->nodes,
                         (uint32_t)r->config->windows)) {
        tb_router_break(r, TB_ERR_NO_SPACE, tb_fail_note());
        return;
    }
    r->up = true;
    tb_log(TB_LOG_INFO, "windows %u, %u and %u slots of 1, 8 and 32 frames",
           (unsigned)r->windows.size[0], (unsigned)r->windows.size[1],
           (unsigned)r->windows.size[2]);
    atomic_store_explicit(&r->head->state, TB_POOL_UP, memory_order_release);
    tb_lanes_wake(r);
}

static int missing_cable(const struct tb_router *r)
{
    for (int i = 0; i < r->owner.args.n_cables; i++) {
        if (r->cable[r->owner.cables[i].id] == TB_CABLE_STARTING)
            return r->owner.cables[i].id;
    }
    return -1;
}

void tb_router_late(struct tb_router *r)
{
    const struct tb_plan *p = r->plan;
    int cable = missing_cable(r), k = 0;
    char why[256];

    if (cable >= 0) {
        const struct tb_plan_cable *c = &p->cable[cable];
        int there = c->node[0] == p->self;
        snprintf(why, sizeof(why),
                 "cable %d (%.30s here to %.30s of %.60s) has not come up; is "
                 "the other Mac's router running?",
                 cable, c->device[!there], c->device[there],
                 p->node[c->node[there]].name);
    } else {
        while (k < p->nodes - 1 && (k == p->self || r->far[k].ready))
            k++;
        snprintf(why, sizeof(why), "the router of %.60s is not ready",
                 p->node[k].name);
    }
    tb_router_break(r, TB_ERR_LOST, why);
}

/* -------------------------------------------------------------- every turn */

int tb_router_turn(struct tb_router *r)
{
    int n = tb_transport_rdma.poll(r->port);

    if (TB_LIKELY(!r->leaving))
        n += tb_lanes_poll(r);
    if (r->work) {
        r->work = false;
        if (r->up)
            tb_forward_windows(r);
        n += tb_forward_flush(r);
        tb_ways_tell(r);
    }
    if (TB_UNLIKELY(!r->up))
        get_ready(r);
    return n;
}

void tb_router_check(struct tb_router *r, uint64_t now)
{
    if (now < r->check_at)
        return;
    r->check_at = now + CHECK_NS;
    publish_slots(r);
    tb_lanes_check(r, now);
    tb_transport_rdma.check(r->port);
}

void tb_router_leave(struct tb_router *r)
{
    /* All that stands in the lanes now; ranks that go on are not waited for. */
    for (int i = 0; i < TB_RELAY_WORDS && tb_lanes_poll(r); i++)
        continue;
    r->leaving = true;
}

bool tb_router_left(const struct tb_router *r)
{
    for (int k = 0; k < r->plan->nodes; k++) {
        if (!tb_queue_empty(&r->far[k].leaving[TB_CONTROL]) ||
            !tb_queue_empty(&r->far[k].leaving[TB_BULK]))
            return false;
    }
    return tb_rdma_idle(r->port);
}
