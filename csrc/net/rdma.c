/* SPDX-License-Identifier: MIT */
/* The rdma transport: opening, limits, and the calls of rdma.h. */
#include "net/rdma_port.h"

#include <stdio.h>
#include <stdlib.h>

#define LATENCY_NS 6000
#define LINGER_NS 1000000000 /* for acknowledgements, when closing */
#define BARE_IDLE_NS 50000   /* no nap before */
#define NAP_SHARE 8          /* a nap is at most such a part of the idleness */

/* ----------------------------------------------------------------- opening */

static int by_id(const void *a, const void *b)
{
    const struct tb_cable *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static struct tb_rdma_peer *find_peer(struct tb_port *port, int endpoint)
{
    for (int i = 0; i < port->n_peers; i++) {
        if (port->peers[i].peer == endpoint)
            return &port->peers[i];
    }
    return NULL;
}

static tb_err join_link(struct tb_port *port, struct tb_rdma_cable *c,
                        const struct tb_cable *from)
{
    struct tb_rdma_peer *h = find_peer(port, from->peer);
    struct tb_link *link;

    if (!h)
        return tb_fail(TB_ERR_ARG,
                       "cable %d leads to %s, and there is no management "
                       "connection to it",
                       from->id, from->peer_name);
    if (!h->link) {
        link = &port->links[port->n_links++];
        link->port = port;
        link->peer = from->peer;
        link->host = h;
        snprintf(link->name, sizeof(link->name), "%s", from->peer_name);
        h->link = link;
    }
    link = h->link;
    if (link->n == TB_CABLES_MOST)
        return tb_fail(TB_ERR_ARG, "more than %d cables to %s", TB_CABLES_MOST,
                       link->name);
    c->link = link;
    c->position = link->n;
    link->cables[link->n++] = c;
    return TB_OK;
}

static tb_err add_cable(struct tb_port *port, const struct tb_cable *from)
{
    struct tb_rdma_cable *c = &port->cables[port->n_cables++];

    c->port = port;
    c->id = from->id;
    c->wire.fd = -1;
    snprintf(c->device_name, sizeof(c->device_name), "%s", from->device);
    memcpy(c->gid, from->gid, sizeof(c->gid));
    memcpy(c->peer_gid, from->peer_gid, sizeof(c->peer_gid));
    return join_link(port, c, from);
}

/* In the order of their numbers, which both ends know: so they agree on which
 * cable of a link is which. */
static tb_err add_cables(struct tb_port *port, const struct tb_rdma_args *a)
{
    size_t n = (size_t)a->n_cables;
    struct tb_cable *sorted = tb_alloc(n * sizeof(*sorted));
    tb_err err = TB_OK;

    if (!sorted)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the cables");
    if (n)
        memcpy(sorted, a->cables, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_id);
    for (size_t i = 0; !err && i < n; i++)
        err = add_cable(port, &sorted[i]);
    for (int i = 0; !err && i < port->n_links; i++)
        err = tb_flow_init(&port->links[i].flow, port->links[i].n, tb_rdma_done,
                           &port->links[i]);
    /* Sockets last: on failure they stay the caller's. */
    for (size_t i = 0; !err && i < n; i++)
        err = tb_post_open(&port->cables[i].wire, sorted[i].wire);
    tb_free(sorted);
    return err;
}

static tb_err add_peers(struct tb_port *port, const struct tb_rdma_args *a)
{
    for (int i = 0; i < a->n_mgmt; i++) {
        struct tb_rdma_peer *h = &port->peers[port->n_peers++];
        h->port = port;
        h->peer = a->mgmt[i].peer;
        h->post.fd = -1;
        snprintf(h->name, sizeof(h->name), "%s", a->mgmt[i].name);
    }
    TB_TRY(add_cables(port, a));
    for (int i = 0; i < a->n_mgmt; i++)
        TB_TRY(tb_post_open(&port->peers[i].post, a->mgmt[i].fd));
    return a->relay > 0 ? tb_post_open(&port->relay, a->relay) : TB_OK;
}

/* Frees; the sockets that were taken over are the caller's again if `keep`. */
static void free_port(struct tb_port *port, bool keep)
{
    for (int i = 0; i < port->n_cables; i++) {
        if (keep)
            port->cables[i].wire.fd = -1;
        tb_post_close(&port->cables[i].wire);
    }
    for (int i = 0; i < port->n_peers; i++) {
        if (keep)
            port->peers[i].post.fd = -1;
        tb_post_close(&port->peers[i].post);
    }
    if (keep)
        port->relay.fd = -1;
    tb_post_close(&port->relay);
    for (int i = 0; i < port->n_links; i++)
        tb_flow_fini(&port->links[i].flow);
    tb_free(port->cables);
    tb_free(port->links);
    tb_free(port->peers);
    tb_free(port);
}

static tb_err rdma_open(struct tb_port **out, const struct tb_port_args *args)
{
    const struct tb_rdma_args *a = args->rdma;
    struct tb_port *port;
    tb_err err = TB_OK;

    if (!a)
        return TB_ERR_NOTSUP;
    port = tb_calloc(1, sizeof(*port));
    if (!port)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the rdma transport");
    port->up = args->up;
    port->more = a->more;
    port->config = args->config;
    port->verbs = a->verbs;
    port->pool = a->pool;
    port->self = args->self;
    port->relay.fd = -1;
    snprintf(port->name, sizeof(port->name), "%s", a->name);
    snprintf(port->build, sizeof(port->build), "%s", a->build);
    port->cables = tb_calloc((size_t)a->n_cables, sizeof(*port->cables));
    port->links = tb_calloc((size_t)a->n_cables, sizeof(*port->links));
    port->peers = tb_calloc((size_t)a->n_mgmt, sizeof(*port->peers));
    if (!port->cables || !port->links || !port->peers)
        err = tb_fail(TB_ERR_NO_MEM, "no memory for the rdma transport");
    if (!err)
        err = add_peers(port, a);
    if (err) {
        free_port(port, true);
        return err;
    }
    for (int c = 0; c < TB_CLASSES; c++)
        port->spare[c] = port->pool->n[c] / 8;
    port->now = port->idle_since = tb_now();
    tb_rdma_greet(port);
    *out = port;
    return TB_OK;
}

static tb_err rdma_connect(struct tb_port *port, int peer, struct tb_link **out)
{
    struct tb_rdma_peer *h = find_peer(port, peer);

    if (!h || !h->link)
        return TB_ERR_NOTSUP;
    *out = h->link;
    return TB_OK;
}

/* ----------------------------------------------------------------- closing */

bool tb_rdma_idle(const struct tb_port *port)
{
    for (int i = 0; i < port->n_links; i++) {
        const struct tb_link *link = &port->links[i];
        if (!link->lost && !link->host->left && !tb_flow_idle(&link->flow))
            return false;
    }
    return true;
}

void tb_rdma_farewell(struct tb_port *port)
{
    if (port->bidden)
        return;
    port->bidden = true;
    for (int i = 0; i < port->n_cables; i++)
        tb_rdma_kill(&port->cables[i], true, "closed");
    for (int i = 0; i < port->n_peers; i++)
        tb_post_send(&port->peers[i].post, TB_MGMT_BYE, NULL, 0);
}

/* What was sent last may have been lost: the neighbours should have it all
 * before this process goes. */
static void linger(struct tb_port *port)
{
    uint64_t until = tb_now() + LINGER_NS;

    while (!tb_rdma_idle(port) && tb_now() < until) {
        if (!tb_rdma_poll(port))
            tb_yield();
    }
}

static void rdma_close(struct tb_port *port)
{
    if (!port)
        return;
    port->closing = true;
    if (!port->bidden)
        linger(port);
    tb_rdma_farewell(port);
    free_port(port, false);
}

/* --------------------------------------------------------------- questions */

static tb_err rdma_pull(struct tb_link *link, uint64_t remote, void *local,
                        size_t bytes, size_t *done)
{
    (void)link, (void)remote, (void)local, (void)bytes;
    *done = 0;
    return TB_ERR_NOTSUP;
}

static void rdma_limits(const struct tb_link *link, struct tb_limits *out)
{
    (void)link;
    *out = (struct tb_limits){
        .packet_max = tb_class_room(TB_LARGE),
        .eager_max = tb_class_room(TB_MIDDLE) - 64,
        .pull_min = SIZE_MAX,
        .latency_ns = LATENCY_NS,
        .middle = tb_class_room(TB_MIDDLE),
        .small = tb_class_room(TB_SMALL),
    };
}

static void rdma_check(struct tb_port *port)
{
    port->watch_at = 0;
}

uint32_t tb_rdma_keep(struct tb_port *port)
{
    port->kept = true;
    return port->current;
}

void tb_rdma_give(struct tb_port *port, uint32_t slot)
{
    tb_regpool_give(port->pool, slot);
}

tb_err tb_rdma_tell(struct tb_port *port, int peer, const void *data,
                    size_t bytes)
{
    struct tb_rdma_peer *h = find_peer(port, peer);

    if (!h || bytes > TB_TELL_MOST)
        return tb_fail(TB_ERR_ARG, "nothing can be told to endpoint %d", peer);
    return tb_post_send(&h->post, TB_MGMT_TELL, data, bytes);
}

uint64_t tb_rdma_nap(struct tb_port *port)
{
    uint64_t now = tb_now(), idle;

    if (port->busy) {
        port->busy = false;
        port->idle_since = now;
    }
    idle = now - port->idle_since;
    if (idle < BARE_IDLE_NS)
        return 0;
    return TB_MIN(idle / NAP_SHARE, (uint64_t)port->config->rdma_nap);
}

void tb_rdma_count(const struct tb_port *port, struct tb_rdma_counts *out)
{
    *out = port->count;
    for (int i = 0; i < port->n_links; i++) {
        const struct tb_flow *f = &port->links[i].flow;
        out->resent += f->count.resent;
        out->lost += f->count.lost;
        out->damaged += f->count.damaged;
        out->duplicates += f->count.duplicates;
        out->stale += f->count.stale;
    }
}

const struct tb_transport tb_transport_rdma = {
    .name = "rdma",
    .open = rdma_open,
    .connect = rdma_connect,
    .reserve = tb_rdma_reserve,
    .commit = tb_rdma_commit,
    .poll = tb_rdma_poll,
    .pending = tb_rdma_pending,
    .pull = rdma_pull,
    .limits = rdma_limits,
    .check = rdma_check,
    .close = rdma_close,
};
