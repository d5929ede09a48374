/* SPDX-License-Identifier: MIT */
/* Endpoints and the ways to them. */
#include "net/inside.h"
#include "net/relay.h"

#include <unistd.h>

const struct tb_transport *const tb_transports[TB_TRANSPORTS] = {
    &tb_transport_self, &tb_transport_shm, &tb_transport_relay,
    &tb_transport_rdma, &tb_transport_tcp,
};

#define POLLS_PER_CHECK (1u << 18)

/* ----------------------------------------------------------------- upcalls */

static void on_packet(void *ctx, int from, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct tb_net *net = ctx;

    (void)from;
    net->up.packet(net->up.ctx, ch, data, bytes);
}

/* A rank has one way to an endpoint; who has several is the router. */
static void on_returned(void *ctx, int to, enum tb_channel ch, const void *data,
                        size_t bytes)
{
    (void)ctx, (void)to, (void)ch, (void)data, (void)bytes;
}

static void on_lost(void *ctx, int peer, tb_err why)
{
    struct tb_net *net = ctx;

    for (int i = 0; i < net->endpoints; i++) {
        if (net->ways[i].neighbour == peer)
            net->up.lost(net->up.ctx, i, why);
    }
}

/* ----------------------------------------------------------------- opening */

/* Where nodes have no routers each has one rank, which owns the verbs. */
static tb_err own_verbs(struct tb_net *net)
{
    const struct tb_plan *job = net->machine.job;

    if (!job || !job->owner_rank || job->nodes == 1)
        return TB_OK;
    return tb_owner_open(&net->owner, net->config, job, -1,
                         (size_t)net->config->pool, 0);
}

static tb_err open_ports(struct tb_net *net)
{
    struct tb_machine *m = &net->machine;
    struct tb_relay_args relay = {m->pool, m->pool_bytes, m->job};
    struct tb_port_args args = {
        .config = net->config,
        .up = &net->sink,
        .self = net->self,
        .endpoints = net->endpoints,
        .segment = m->segment,
        .segment_bytes = m->bytes,
        .local_rank = m->place,
        .local_ranks = m->places,
        .local = m->local,
        .bell = net->bell,
        .crowded = &net->crowded,
        .rdma = net->owner.verbs ? &net->owner.args : NULL,
        .relay = m->pool ? &relay : NULL,
        .tcp = net->sockets.args.socket ? &net->sockets.args : NULL,
    };

    for (size_t i = 0; i < TB_TRANSPORTS; i++) {
        tb_err err = tb_transports[i]->open(&net->ports[i], &args);
        if (err && err != TB_ERR_NOTSUP)
            return err;
        if (tb_transports[i] == &tb_transport_rdma)
            net->rdma = net->ports[i];
        if (tb_transports[i] == &tb_transport_tcp)
            net->tcp = net->ports[i];
    }
    return TB_OK;
}

static tb_err no_way(const struct tb_net *net, int endpoint)
{
    const struct tb_plan *job = net->machine.job;

    if (!net->rdma)
        return tb_fail(TB_ERR_NOTSUP, "no way from rank %d to rank %d",
                       net->self, endpoint);
    return tb_fail(TB_ERR_NOTSUP,
                   "no cable joins %s and %s: without routers any two nodes "
                   "need one; leave --router never out",
                   job->node[job->self].name,
                   job->node[job->node_of[endpoint]].name);
}

static tb_err find_way(struct tb_net *net, int endpoint)
{
    struct tb_route *way = &net->ways[endpoint];

    for (size_t i = 0; i < TB_TRANSPORTS; i++) {
        tb_err err = TB_ERR_NOTSUP;
        if (net->ports[i])
            err =
                tb_transports[i]->connect(net->ports[i], endpoint, &way->link);
        if (err == TB_ERR_NOTSUP)
            continue;
        if (!err) {
            way->by = tb_transports[i];
            way->neighbour = endpoint;
            way->by->limits(way->link, &way->limits);
        }
        return err;
    }
    return no_way(net, endpoint);
}

static tb_err open_net(struct tb_net *net)
{
    struct tb_machine *m = &net->machine;

    TB_TRY(tb_machine_join(m, net->config, net->boot));
    net->bell = &net->own_bell;
    net->note = &net->own_note;
    if (m->segment) {
        TB_TRY(tb_segment_plan(&net->plan, m->places, m->bytes,
                               (size_t)net->config->ring));
        net->bell = &tb_segment_rank(m->segment, &net->plan, m->place)->bell;
        net->note = tb_segment_note(m->segment, &net->plan, m->place);
    }
    tb_idle_init(net);
    net->note->peer = TB_PEER_NONE;
    net->note->pid = (uint32_t)getpid();
    net->note->state = TB_STATE_RUNNING;
    TB_TRY(own_verbs(net));
    TB_TRY(tb_sockets_open(&net->sockets, m, &net->plan, net->bell));
    TB_TRY(open_ports(net));
    for (int i = 0; i < net->endpoints; i++)
        TB_TRY(find_way(net, i));
    if (!m->pool)
        return TB_OK;
    return tb_relay_await(m->pool, (uint64_t)net->config->router_start);
}

tb_err tb_net_open(struct tb_net **out, const struct tb_net_args *args)
{
    struct tb_net *net = tb_alloc_aligned(TB_LINE, sizeof(*net));
    tb_err err;

    if (!net)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the network");
    memset(net, 0, sizeof(*net));
    net->config = args->config;
    net->up = args->up;
    net->boot = args->boot;
    net->self = tb_boot_rank(args->boot);
    net->endpoints = tb_boot_size(args->boot);
    net->sink = (struct tb_sink){net, on_packet, on_returned, on_lost};
    net->ways = tb_calloc((size_t)net->endpoints, sizeof(*net->ways));
    if (net->ways)
        err = open_net(net);
    else
        err = tb_fail(TB_ERR_NO_MEM, "no memory for the network");
    if (err) {
        tb_net_close(net);
        return err;
    }
    *out = net;
    return TB_OK;
}

void tb_net_close(struct tb_net *net)
{
    if (!net)
        return;
    if (net->note && net->note->state == TB_STATE_RUNNING)
        net->note->state = TB_STATE_FINALIZED;
    for (size_t i = TB_TRANSPORTS; i-- > 0;) {
        if (net->ports[i])
            tb_transports[i]->close(net->ports[i]);
    }
    tb_owner_close(&net->owner);
    tb_sockets_close(&net->sockets);
    tb_machine_leave(&net->machine);
    tb_free(net->ways);
    tb_free(net);
}

/* ----------------------------------------------------------------- packets */

const struct tb_route *tb_net_route(const struct tb_net *net, int endpoint)
{
    return &net->ways[endpoint];
}

/* Do the others live? Who calls Test in a loop never idles, so every so many
 * polls this is asked as well. */
static void look_after_others(struct tb_net *net)
{
    atomic_store_explicit(&net->check_due, false, memory_order_relaxed);
    for (size_t i = 0; i < TB_TRANSPORTS; i++) {
        if (net->ports[i])
            tb_transports[i]->check(net->ports[i]);
    }
    if (atomic_load_explicit(&net->orphaned, memory_order_relaxed) ||
        tb_boot_alive(net->boot))
        return;
    atomic_store_explicit(&net->orphaned, true, memory_order_relaxed);
    for (int i = 0; i < net->endpoints; i++) {
        if (i != net->self)
            net->up.lost(net->up.ctx, i, tb_net_orphaned());
    }
}

int tb_net_poll(struct tb_net *net)
{
    int n = 0;

    if (TB_UNLIKELY(
            atomic_load_explicit(&net->check_due, memory_order_relaxed) ||
            ++net->polls % POLLS_PER_CHECK == 0))
        look_after_others(net);
    for (size_t i = 0; i < TB_TRANSPORTS; i++) {
        if (net->ports[i])
            n += tb_transports[i]->poll(net->ports[i]);
    }
    if (TB_UNLIKELY(net->rdma != NULL) && !n)
        atomic_store_explicit(&net->nap, tb_rdma_nap(net->rdma),
                              memory_order_relaxed);
    return n;
}
