/* SPDX-License-Identifier: MIT */
/* Making a communicator's shape from what net knows of nodes and cables. */
#include "coll/shape.h"

#include <string.h>

#include "mpi/world.h"

static const struct tb_shape one_node = {
    .cabling = TB_CABLING_NONE, .nodes = 1, .in_order = true};

/* What the shape is made of; arrays by the job's node numbers. */
struct survey {
    struct tb_net *net;
    const struct tb_comm *c;
    int *members; /* of each node */
    int *order;   /* the nodes that have members */
    int n;
};

static int node_of(const struct survey *v, int rank)
{
    return tb_net_node(v->net, v->c->group->ranks[rank]);
}

static void count_members(struct survey *v)
{
    for (int r = 0; r < v->c->size; r++) {
        int node = node_of(v, r);
        if (!v->members[node]++)
            v->order[v->n++] = node;
    }
}

static bool is_mesh(const struct survey *v)
{
    for (int i = 0; i < v->n; i++)
        for (int j = 0; j < i; j++)
            if (!tb_net_cables(v->net, v->order[i], v->order[j]))
                return false;
    return true;
}

/* Sorts the nodes by how far they are from that one; true when each is then
 * joined to the next. */
static bool is_line_from(struct survey *v, int end)
{
    for (int i = 1; i < v->n; i++)
        for (int j = i; j > 0 && tb_net_hops(v->net, end, v->order[j]) <
                                     tb_net_hops(v->net, end, v->order[j - 1]);
             j--) {
            int swap = v->order[j];
            v->order[j] = v->order[j - 1];
            v->order[j - 1] = swap;
        }
    for (int i = 1; i < v->n; i++)
        if (!tb_net_cables(v->net, v->order[i - 1], v->order[i]))
            return false;
    return true;
}

/* Tries the end with the lowest number first, so that all find the same. */
static bool is_line(struct survey *v)
{
    for (int node = 0; node < tb_net_nodes(v->net); node++)
        if (v->members[node] && is_line_from(v, node))
            return true;
    return false;
}

static enum tb_cabling look(struct survey *v)
{
    if (is_mesh(v))
        return TB_CABLING_MESH;
    if (v->n == tb_net_nodes(v->net) && tb_net_ring_order(v->net, v->order))
        return TB_CABLING_RING;
    return is_line(v) ? TB_CABLING_LINE : TB_CABLING_OTHER;
}

static void list_ranks(const struct survey *v, struct tb_shape *s, int *first,
                       int *ranks)
{
    int n = 0;
    s->in_order = true;
    for (int i = 0; i < v->n; i++) {
        first[i] = n;
        for (int r = 0; r < v->c->size; r++)
            if (node_of(v, r) == v->order[i])
                ranks[n++] = r;
        s->most = TB_MAX(s->most, n - first[i]);
        if (ranks[n - 1] - ranks[first[i]] != n - 1 - first[i])
            s->in_order = false;
        if (node_of(v, v->c->rank) == v->order[i])
            s->node = i;
    }
    first[v->n] = n;
}

/* One allocation: the struct and behind it its arrays. */
static struct tb_shape *make(struct survey *v)
{
    size_t ints = (size_t)v->n + 1 + (size_t)v->c->size;
    struct tb_shape *s = tb_calloc(1, sizeof *s + ints * sizeof(int));
    if (!s)
        return NULL;
    int *first = (int *)(s + 1), *ranks = first + v->n + 1;
    s->nodes = v->n;
    s->cabling = look(v);
    list_ranks(v, s, first, ranks);
    s->first = first;
    s->ranks = ranks;
    return s;
}

static tb_err survey(struct tb_comm *c, struct tb_net *net)
{
    size_t nodes = (size_t)tb_net_nodes(net);
    struct survey v = {.net = net, .c = c};
    v.members = tb_calloc(2 * nodes, sizeof(int));
    if (v.members) {
        v.order = v.members + nodes;
        count_members(&v);
        c->shape = v.n == 1 ? (struct tb_shape *)&one_node : make(&v);
    }
    tb_free(v.members);
    return c->shape ? TB_OK
                    : tb_fail(TB_ERR_NO_MEM,
                              "no memory for the places of %d "
                              "ranks",
                              c->size);
}

tb_err tb_shape_find(struct tb_comm *c)
{
    if (!c->remote && tb_world.engine)
        return survey(c, tb_engine_net(tb_world.engine));
    c->shape = (struct tb_shape *)&one_node;
    return TB_OK;
}

void tb_shape_free(struct tb_shape *shape)
{
    if (shape != &one_node)
        tb_free(shape);
}
