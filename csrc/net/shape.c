/* SPDX-License-Identifier: MIT */
/* Questions about endpoints, nodes and cables. */
#include "net/inside.h"

int tb_net_self(const struct tb_net *net)
{
    return net->self;
}

int tb_net_endpoints(const struct tb_net *net)
{
    return net->endpoints;
}

struct tb_note *tb_net_note(struct tb_net *net)
{
    return net->note;
}

void *tb_net_commons(struct tb_net *net, size_t *bytes)
{
    if (!net->machine.segment || !net->plan.commons_bytes)
        return NULL;
    *bytes = net->plan.commons_bytes;
    return (char *)net->machine.segment + net->plan.commons;
}

const int *tb_net_local(const struct tb_net *net, int *n)
{
    *n = net->machine.places;
    return net->machine.local;
}

/* ------------------------------------------------------------------- nodes */

int tb_net_node(const struct tb_net *net, int endpoint)
{
    return net->machine.node[endpoint];
}

int tb_net_nodes(const struct tb_net *net)
{
    return net->machine.job ? net->machine.job->nodes : 1;
}

const int *tb_net_ranks(const struct tb_net *net, int node, int *n)
{
    const struct tb_plan *job = net->machine.job;

    if (!job)
        return tb_net_local(net, n);
    *n = job->node[node].n;
    return job->node[node].ranks;
}

/* ------------------------------------------------------------------ cables */

int tb_net_hops(const struct tb_net *net, int a, int b)
{
    if (!net->machine.job)
        return 0;
    if (net->machine.job->sockets) /* through a switch */
        return a != b;
    return tb_routes_hops(&net->machine.cables, a, b);
}

int tb_net_cables(const struct tb_net *net, int a, int b)
{
    if (!net->machine.job)
        return 0;
    if (net->machine.job->sockets)
        return a != b;
    return tb_routes_joined(&net->machine.cables, a, b);
}

bool tb_net_ring_order(const struct tb_net *net, int *order)
{
    return net->machine.job && tb_routes_ring(&net->machine.cables, order);
}
