/* SPDX-License-Identifier: MIT */
/*
 * The engine's life, its peers, and the way of a packet to its handler.
 */
#include "engine/internal.h"

#include <stdio.h>

struct tb_peer *tb_peer_make(struct tb_engine *e, int endpoint)
{
    struct tb_peer *p = tb_calloc(1, sizeof *p);
    if (!p) {
        tb_fail_say("no memory for the state of a peer");
        return NULL;
    }
    const struct tb_limits *limits;
    p->route = tb_net_route(e->net, endpoint);
    limits = &p->route->limits;
    p->endpoint = endpoint;
    tb_list_init(&p->outbox);
    tb_list_init(&p->sends);
    tb_list_init(&p->early);
    p->pull_min = limits->pull_min;
    p->eager_max =
        e->config->eager ? (size_t)e->config->eager : limits->eager_max;
    p->eager_max =
        TB_MIN(p->eager_max, limits->packet_max - sizeof(struct tb_sync));
    return e->peers[endpoint] = p;
}

static void free_peer(struct tb_engine *e, struct tb_peer *p)
{
    if (!p)
        return;
    while (!tb_list_empty(&p->early)) {
        struct tb_arrival *a =
            TB_CONTAINER(p->early.next, struct tb_arrival, link);
        tb_list_remove(&a->link);
        if (a->data != a->room)
            tb_free(a->data);
        tb_pool_put(&e->arrivals, a);
    }
    tb_free(p);
}

/* The shortest packet of each kind; one that is shorter is not read. */
static const uint8_t least[] = {
    [TB_PACKET_EAGER] = sizeof(struct tb_envelope),
    [TB_PACKET_RTS] = sizeof(struct tb_rts),
    [TB_PACKET_CTS] = sizeof(struct tb_cts),
    [TB_PACKET_DATA] = sizeof(struct tb_data),
    [TB_PACKET_FIN] = sizeof(struct tb_fin),
    [TB_PACKET_CREDIT] = sizeof(struct tb_base),
    [TB_PACKET_CANCEL] = sizeof(struct tb_cancel),
    [TB_PACKET_RECALL] = sizeof(struct tb_cancel),
};

static bool is_sound(const struct tb_engine *e, const struct tb_base *b,
                     size_t bytes)
{
    return bytes >= sizeof *b && b->kind < TB_COUNT_OF(least) &&
           least[b->kind] && bytes >= least[b->kind] &&
           b->hop.origin < e->endpoints && b->hop.dest == e->self;
}

static void on_packet(void *ctx, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct tb_engine *e = ctx;
    const struct tb_base *b = data;
    (void)ch;
    if (TB_UNLIKELY(!is_sound(e, b, bytes))) {
        tb_log(TB_LOG_ERROR, "dropped a malformed packet of %zu bytes", bytes);
        return;
    }
    struct tb_peer *p = tb_peer_of(e, b->hop.origin);
    if (TB_UNLIKELY(!p))
        return;
    if ((int32_t)(b->credit - p->credited) > 0)
        p->credited = b->credit;
    switch (b->kind) {
    case TB_PACKET_EAGER:
    case TB_PACKET_RTS:
        tb_handle_envelope(e, data, bytes);
        break;
    case TB_PACKET_CTS:
        tb_handle_cts(e, data);
        break;
    case TB_PACKET_DATA:
        tb_handle_data(e, data, bytes);
        break;
    case TB_PACKET_FIN:
        tb_handle_fin(e, data);
        break;
    case TB_PACKET_CANCEL:
        tb_handle_cancel(e, data);
        break;
    case TB_PACKET_RECALL:
        tb_handle_recall(e, data);
        break;
    default:
        break; /* CREDIT: the base has said it all */
    }
}

/* Nothing more can come from there or go there: what needs it fails, and so
 * does every wait, since a job that has lost a rank cannot go on. */
static void on_lost(void *ctx, int endpoint, tb_err why)
{
    struct tb_engine *e = ctx;
    char text[sizeof e->fatal_why];
    bool gone = why == TB_ERR_LOST;
    snprintf(text, sizeof text, "rank %d %s: %s", endpoint,
             gone ? "has ended" : "cannot be reached", tb_fail_note());
    why = gone ? TB_ERR_PROC_ABORTED : TB_ERR_OTHER;
    struct tb_peer *p = tb_peer_of(e, endpoint);
    if (p) {
        p->lost = why;
        while (!tb_list_empty(&p->sends)) {
            struct tb_req *r = TB_CONTAINER(p->sends.next, struct tb_req, link);
            tb_req_failed(r, why);
        }
    }
    if (e->fatal)
        return; /* the first loss is the one to tell of */
    e->fatal = why;
    memcpy(e->fatal_why, text, sizeof text);
}

static tb_err init(struct tb_engine *e, const struct tb_config *config)
{
    e->config = config;
    e->window = (uint32_t)(config->eager_window / TB_UNIT);
    e->slots_free = UINT32_MAX;
    tb_list_init(&e->streams);
    tb_list_init(&e->pulls);
    tb_list_init(&e->tasks);
    tb_list_init(&e->watches);
    tb_list_init(&e->waiters);
    tb_pool_init(&e->requests, sizeof(struct tb_req));
    tb_pool_init(&e->arrivals, sizeof(struct tb_arrival));
    tb_pool_init(&e->parcels, sizeof(struct tb_parcel));
    if (pthread_mutex_init(&e->lock, NULL))
        return tb_fail(TB_ERR_SYSTEM, "cannot make a lock");
    return tb_contexts_init(e);
}

tb_err tb_engine_open(struct tb_engine **out, const struct tb_config *config,
                      struct tb_boot *boot)
{
    struct tb_engine *e = tb_calloc(1, sizeof *e);
    if (!e)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the engine");
    struct tb_net_args args = {
        .config = config,
        .up = {.ctx = e, .packet = on_packet, .lost = on_lost},
        .boot = boot,
    };
    tb_err err = init(e, config);
    if (err) {
        tb_free(e);
        return err;
    }
    err = tb_net_open(&e->net, &args);
    if (!err) {
        e->self = tb_net_self(e->net);
        e->endpoints = tb_net_endpoints(e->net);
        e->note = tb_net_note(e->net);
        e->peers = tb_calloc((size_t)e->endpoints, sizeof(struct tb_peer *));
        if (!e->peers)
            err =
                tb_fail(TB_ERR_NO_MEM, "no memory for %d peers", e->endpoints);
    }
    if (err) {
        tb_engine_close(e);
        return err;
    }
    *out = e;
    return TB_OK;
}

void tb_engine_close(struct tb_engine *e)
{
    tb_contexts_fini(e);
    for (int i = 0; e->peers && i < e->endpoints; i++)
        free_peer(e, e->peers[i]);
    if (e->net)
        tb_net_close(e->net);
    tb_pool_fini(&e->requests);
    tb_pool_fini(&e->arrivals);
    tb_pool_fini(&e->parcels);
    tb_free(e->slots);
    tb_free(e->peers);
    if (e->threaded)
        pthread_mutex_unlock(&e->lock); /* held by the caller, the last one */
    pthread_mutex_destroy(&e->lock);
    tb_free(e);
}

struct tb_net *tb_engine_net(struct tb_engine *e)
{
    return e->net;
}
