/* SPDX-License-Identifier: MIT */
#include "coll/select.h"

#include <stdio.h>
#include <string.h>

#include "coll/shape.h"
#include "mpi/world.h"

#define ANY INT64_MAX
#define ALL INT32_MAX
#define K 1024
#define M (1024 * K)
#define INTRA TB_IF_INTRA
#define INTER TB_IF_INTER
#define COMM (TB_IF_INTRA | TB_IF_COMMUTES)
#define HALF (TB_IF_INTRA | TB_IF_COMMUTES | TB_IF_POW2)
#define POW2 (TB_IF_INTRA | TB_IF_POW2)
#define FREE TB_IF_FREE
#define MESH (TB_IF_MESH | TB_IF_COMMUTES)
#define SHARED (TB_IF_SHARED | TB_IF_COMMUTES)

/*
 * First match wins. Bytes are those of the message, of one block for gathers,
 * scatters and exchanges (the mean one for Allgatherv), and of all blocks
 * together for Reduce_scatter; 0 where ranks need not agree.
 */
#define ROW(kind, name, build, needs, min_ranks, max_ranks, min, max) \
    {                                                                 \
        TB_COLL_##kind, needs, min_ranks, max_ranks, min, max, name,  \
            tb_build_##build, TB_DIRECT_NONE                          \
    }
#define BY_SLOTS(kind, needs, min_ranks, max_ranks, max)                     \
    {                                                                        \
        TB_COLL_##kind, TB_IF_SLOTS | (needs), min_ranks, max_ranks, 0, max, \
            "slots", NULL, TB_DIRECT_SLOTS                                   \
    }
#define BY_PULL(kind, needs)                                                \
    {                                                                       \
        TB_COLL_##kind, TB_IF_PULL | (needs), 2, ALL, 0, ANY, "pull", NULL, \
            TB_DIRECT_PULL                                                  \
    }
static const struct tb_choice table[] = {
    BY_SLOTS(BARRIER, 0, 2, ALL, ANY),
    ROW(BARRIER, "nodes", barrier_nodes, TB_IF_NODES, 2, ALL, 0, ANY),
    ROW(BARRIER, "dissemination", barrier_dissemination, INTRA, 1, ALL, 0, ANY),
    ROW(BARRIER, "inter", barrier_inter, INTER, 1, ALL, 0, ANY),

    BY_SLOTS(BCAST, 0, 2, ALL, ANY),
    BY_PULL(BCAST, 0),
    ROW(BCAST, "mesh", bcast_mesh, TB_IF_MESH, 3, ALL, 32 * K, ANY),
    ROW(BCAST, "both_ways", bcast_both_ways, TB_IF_RING, 4, ALL, 64 * K, ANY),
    ROW(BCAST, "both_ways", bcast_both_ways, TB_IF_LINE, 3, ALL, 64 * K, ANY),
    ROW(BCAST, "nodes", bcast_nodes, TB_IF_NODES, 2, ALL, 0, ANY),
    ROW(BCAST, "binomial", bcast_binomial, INTRA, 1, ALL, 0, 16 * K),
    ROW(BCAST, "flat", bcast_flat, INTRA, 1, 8, 16 * K, ANY),
    ROW(BCAST, "scatter_ring", bcast_scatter_ring, INTRA, 9, ALL, 64 * K, M),
    ROW(BCAST, "chain", bcast_chain, INTRA, 9, ALL, M, ANY),
    ROW(BCAST, "binomial", bcast_binomial, INTRA, 1, ALL, 0, ANY),
    ROW(BCAST, "inter", bcast_inter, INTER, 1, ALL, 0, ANY),

    BY_SLOTS(GATHER, 0, 2, ALL, ANY),
    ROW(GATHER, "binomial", gather_binomial, INTRA, 8, ALL, 0, 2 * K),
    ROW(GATHER, "linear", gather_linear, 0, 1, ALL, 0, ANY),
    ROW(GATHERV, "linear", gather_linear, 0, 1, ALL, 0, ANY),
    BY_SLOTS(SCATTER, TB_IF_SHORT, 2, ALL, ANY),
    ROW(SCATTER, "binomial", scatter_binomial, INTRA, 8, ALL, 0, 2 * K),
    ROW(SCATTER, "linear", scatter_linear, 0, 1, ALL, 0, ANY),
    ROW(SCATTERV, "linear", scatter_linear, 0, 1, ALL, 0, ANY),

    BY_SLOTS(ALLGATHER, 0, 2, 2, 48 * K),
    BY_SLOTS(ALLGATHER, 0, 3, ALL, ANY),
    BY_PULL(ALLGATHER, 0),
    BY_SLOTS(ALLGATHER, 0, 2, ALL, ANY),
    ROW(ALLGATHER, "nodes", allgather_nodes, TB_IF_NODES, 2, ALL, 0, ANY),
    ROW(ALLGATHER, "spread", allgather_spread, INTRA, 1, 4, 0, ANY),
    ROW(ALLGATHER, "doubling", allgather_doubling, POW2, 5, ALL, 0, 16 * K),
    ROW(ALLGATHER, "bruck", allgather_bruck, INTRA, 5, ALL, 0, 4 * K),
    ROW(ALLGATHER, "ring", allgather_ring, INTRA, 5, ALL, 0, ANY),
    ROW(ALLGATHER, "spread", allgather_spread, 0, 1, ALL, 0, ANY),
    ROW(ALLGATHERV, "spread", allgather_spread, INTRA, 1, 4, 0, ANY),
    ROW(ALLGATHERV, "bruck", allgather_bruck, INTRA, 5, ALL, 0, 4 * K),
    ROW(ALLGATHERV, "ring", allgather_ring, INTRA, 5, ALL, 0, ANY),
    ROW(ALLGATHERV, "spread", allgather_spread, 0, 1, ALL, 0, ANY),

    BY_SLOTS(ALLTOALL, TB_IF_SHORT, 2, ALL, 48 * K),
    BY_PULL(ALLTOALL, 0),
    BY_SLOTS(ALLTOALL, 0, 2, ALL, ANY),
    ROW(ALLTOALL, "bruck", alltoall_bruck, INTRA, 8, ALL, 0, 256),
    ROW(ALLTOALL, "spread", alltoall_spread, 0, 1, ALL, 0, 256 * K),
    ROW(ALLTOALL, "pairwise", alltoall_pairwise, INTRA, 9, ALL, 0, ANY),
    ROW(ALLTOALL, "spread", alltoall_spread, 0, 1, ALL, 0, ANY),
    ROW(ALLTOALLV, "spread", alltoall_spread, 0, 1, ALL, 0, ANY),
    ROW(ALLTOALLV, "pairwise", alltoall_pairwise, INTRA, 1, ALL, 0, ANY),
    ROW(ALLTOALLW, "spread", alltoall_spread, 0, 1, ALL, 0, ANY),
    ROW(ALLTOALLW, "pairwise", alltoall_pairwise, INTRA, 1, ALL, 0, ANY),

    BY_SLOTS(REDUCE, FREE, 2, 2, 32 * K),
    BY_SLOTS(REDUCE, FREE, 3, ALL, 128 * K),
    BY_PULL(REDUCE, FREE),
    BY_SLOTS(REDUCE, FREE, 2, ALL, ANY),
    ROW(REDUCE, "mesh", reduce_mesh, MESH, 3, ALL, 64 * K, ANY),
    ROW(REDUCE, "nodes", reduce_nodes, SHARED, 3, ALL, 0, ANY),
    ROW(REDUCE, "halving", reduce_halving, COMM, 2, ALL, 64 * K, ANY),
    ROW(REDUCE, "binomial", reduce_binomial, COMM, 1, ALL, 0, ANY),
    ROW(REDUCE, "ordered", reduce_ordered, INTRA, 1, ALL, 0, ANY),
    ROW(REDUCE, "inter", reduce_inter, INTER, 1, ALL, 0, ANY),

    BY_SLOTS(ALLREDUCE, FREE, 2, ALL, 128 * K),
    BY_PULL(ALLREDUCE, FREE),
    BY_SLOTS(ALLREDUCE, FREE, 2, ALL, ANY),
    ROW(ALLREDUCE, "mesh_once", allreduce_mesh_once, MESH, 2, 64, 0, 16 * K),
    ROW(ALLREDUCE, "mesh", allreduce_mesh, MESH, 2, ALL, 0, ANY),
    ROW(ALLREDUCE, "both_ways", allreduce_both_ways,
        TB_IF_COMMUTES | TB_IF_RING, 4, ALL, 32 * K, ANY),
    ROW(ALLREDUCE, "one_way", allreduce_one_way, TB_IF_COMMUTES | TB_IF_LINE, 3,
        ALL, 32 * K, ANY),
    ROW(ALLREDUCE, "nodes", allreduce_nodes, SHARED, 3, ALL, 0, 64 * K),
    ROW(ALLREDUCE, "halving", allreduce_halving, HALF, 2, ALL, 4 * K, ANY),
    ROW(ALLREDUCE, "ring", allreduce_ring, COMM, 3, ALL, 16 * K, ANY),
    ROW(ALLREDUCE, "halving", allreduce_halving, COMM, 2, ALL, 16 * K, ANY),
    ROW(ALLREDUCE, "doubling", allreduce_doubling, COMM, 1, ALL, 0, ANY),
    ROW(ALLREDUCE, "tree", allreduce_tree, INTRA, 1, ALL, 0, ANY),
    ROW(ALLREDUCE, "inter", allreduce_inter, INTER, 1, ALL, 0, ANY),

    ROW(REDUCE_SCATTER_BLOCK, "mesh", reduce_scatter_mesh, MESH | TB_IF_ALONE,
        2, ALL, 16 * K, ANY),
    ROW(REDUCE_SCATTER_BLOCK, "pairwise", reduce_scatter_pairwise, COMM, 1, ALL,
        64 * K, ANY),
    ROW(REDUCE_SCATTER_BLOCK, "halving", reduce_scatter_halving, HALF, 1, ALL,
        0, ANY),
    ROW(REDUCE_SCATTER_BLOCK, "pairwise", reduce_scatter_pairwise, COMM, 1, 8,
        0, ANY),
    ROW(REDUCE_SCATTER_BLOCK, "tree", reduce_scatter_tree, INTRA, 1, ALL, 0,
        ANY),
    ROW(REDUCE_SCATTER_BLOCK, "inter", reduce_scatter_inter, INTER, 1, ALL, 0,
        ANY),
    ROW(REDUCE_SCATTER, "mesh", reduce_scatter_mesh, MESH | TB_IF_ALONE, 2, ALL,
        16 * K, ANY),
    ROW(REDUCE_SCATTER, "pairwise", reduce_scatter_pairwise, COMM, 1, ALL,
        64 * K, ANY),
    ROW(REDUCE_SCATTER, "halving", reduce_scatter_halving, HALF, 1, ALL, 0,
        ANY),
    ROW(REDUCE_SCATTER, "pairwise", reduce_scatter_pairwise, COMM, 1, 8, 0,
        ANY),
    ROW(REDUCE_SCATTER, "tree", reduce_scatter_tree, INTRA, 1, ALL, 0, ANY),
    ROW(REDUCE_SCATTER, "inter", reduce_scatter_inter, INTER, 1, ALL, 0, ANY),

    BY_SLOTS(SCAN, FREE, 2, ALL, ANY),
    ROW(SCAN, "doubling", scan_doubling, INTRA, 1, ALL, 0, ANY),
    BY_SLOTS(EXSCAN, FREE, 2, ALL, ANY),
    ROW(EXSCAN, "doubling", exscan_doubling, INTRA, 1, ALL, 0, ANY),

    ROW(NEIGHBOR_ALLGATHER, "direct", neighbor, INTRA, 1, ALL, 0, ANY),
    ROW(NEIGHBOR_ALLGATHERV, "direct", neighbor, INTRA, 1, ALL, 0, ANY),
    ROW(NEIGHBOR_ALLTOALL, "direct", neighbor, INTRA, 1, ALL, 0, ANY),
    ROW(NEIGHBOR_ALLTOALLV, "direct", neighbor, INTRA, 1, ALL, 0, ANY),
    ROW(NEIGHBOR_ALLTOALLW, "direct", neighbor, INTRA, 1, ALL, 0, ANY),
};

/* Where each collective's rows begin, and what TBMPI_COLL says about it. */
static struct {
    bool ready;
    tb_err err;
    const struct tb_choice *first[TB_COLL_LIMIT];
    char forced[TB_COLL_LIMIT][24];
} index_;

/* ------------------------------------------------------------- TBMPI_COLL */

static const char *word_of(int kind)
{
    static const char *const words[] = {
#define X(kind, name, word) word,
        TB_COLLS(X)
#undef X
    };
    return words[kind];
}

static int kind_of(const char *word, size_t n)
{
    for (int k = 0; k < TB_COLL_LIMIT; k++)
        if (strlen(word_of(k)) == n && !memcmp(word, word_of(k), n))
            return k;
    return -1;
}

static bool is_end(const struct tb_choice *c)
{
    return c == table + TB_COUNT_OF(table);
}

static bool has_choice(int kind, const char *name)
{
    const struct tb_choice *c = index_.first[kind];
    for (; !is_end(c) && c->kind == kind; c++)
        if (!strcmp(c->name, name))
            return true;
    return false;
}

/* The names of a collective's algorithms, each once. */
static void list_choices(int kind, char *out, size_t room)
{
    const struct tb_choice *first = index_.first[kind], *c = first;
    size_t n = 0;
    out[0] = 0;
    for (; !is_end(c) && c->kind == kind && n < room; c++) {
        const struct tb_choice *same = first;
        while (strcmp(same->name, c->name))
            same++;
        if (same == c)
            n += (size_t)snprintf(out + n, room - n, "%s%s", n ? ", " : "",
                                  c->name);
    }
}

static tb_err force(const char *item, size_t n)
{
    const char *equals = memchr(item, '=', n);
    size_t word = equals ? (size_t)(equals - item) : n;
    int kind = kind_of(item, word);
    if (kind < 0 || !equals)
        return tb_fail(TB_ERR_ARG,
                       "TBMPI_COLL: \"%.*s\" is not of the form "
                       "collective=algorithm, e.g. allreduce=ring",
                       (int)n, item);
    char *name = index_.forced[kind];
    size_t length = TB_MIN(n - word - 1, sizeof index_.forced[kind] - 1);
    memcpy(name, equals + 1, length);
    name[length] = 0;
    if (has_choice(kind, name))
        return TB_OK;
    char all[160];
    list_choices(kind, all, sizeof all);
    return tb_fail(TB_ERR_ARG,
                   "TBMPI_COLL: there is no algorithm \"%s\" for %s, but %s",
                   name, word_of(kind), all);
}

static tb_err prepare(void)
{
    const char *text = tb_world.config.coll;
    for (size_t i = TB_COUNT_OF(table); i-- > 0;)
        index_.first[table[i].kind] = &table[i];
    index_.ready = true;
    while (text && *text) {
        size_t n = strcspn(text, ",");
        if (n)
            TB_TRY(index_.err = force(text, n));
        text += n + (text[n] == ',');
    }
    return TB_OK;
}

/* ----------------------------------------------------------------- choice */

static int64_t sum_of_counts(const struct tb_blocks *b, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += tb_count_at(b->counts, i);
    return sum;
}

static int64_t bytes_of(const struct tb_call *c)
{
    const struct tb_blocks *b = &c->recv;
    int n = c->comm->size;
    switch (c->kind) {
    case TB_COLL_BCAST:
    case TB_COLL_ALLGATHER:
    case TB_COLL_ALLTOALL:
    case TB_COLL_REDUCE:
    case TB_COLL_ALLREDUCE:
        return b->layout ? b->count * b->layout->size : 0;
    case TB_COLL_REDUCE_SCATTER_BLOCK:
        return b->count * b->layout->size * n;
    case TB_COLL_GATHER:
        if (!tb_call_is_root(c))
            b = &c->send;
        return b->layout ? b->count * b->layout->size : 0;
    case TB_COLL_SCATTER:
        if (tb_call_is_root(c))
            b = &c->send;
        return b->layout ? b->count * b->layout->size : 0;
    case TB_COLL_ALLGATHERV:
        if (c->comm->remote)
            return 0;
        return sum_of_counts(b, n) * b->layout->size / n;
    case TB_COLL_REDUCE_SCATTER:
        return sum_of_counts(b, n) * b->layout->size;
    default:
        return 0;
    }
}

/* Of where the ranks are. */
static unsigned facts_of_nodes(const struct tb_call *c)
{
    static const unsigned of_cabling[] = {
        [TB_CABLING_NONE] = 0,
        [TB_CABLING_MESH] = TB_IF_NODES | TB_IF_MESH,
        [TB_CABLING_RING] = TB_IF_NODES | TB_IF_RING,
        [TB_CABLING_LINE] = TB_IF_NODES | TB_IF_LINE,
        [TB_CABLING_OTHER] = TB_IF_NODES,
    };
    const struct tb_shape *shape = c->comm->shape;
    unsigned facts = shape ? of_cabling[shape->cabling] : 0;
    if (facts)
        facts |= shape->most > 1 ? TB_IF_SHARED : TB_IF_ALONE;
    return facts;
}

static unsigned facts_of(const struct tb_call *c)
{
    int n = c->comm->size;
    unsigned facts = c->comm->remote ? TB_IF_INTER : TB_IF_INTRA;
    if (!(n & (n - 1)))
        facts |= TB_IF_POW2;
    if (!tb_world.config.reproducible)
        facts |= TB_IF_FREE;
    if (c->op && c->op->commutes && facts & TB_IF_FREE)
        facts |= TB_IF_COMMUTES;
    return facts | facts_of_nodes(c);
}

static unsigned facts_of_lane(const struct tb_call *c)
{
    const struct tb_lane *lane = tb_lane_of(c->comm);
    unsigned facts = 0;
    if (!lane)
        return 0;
    uint64_t turns = tb_direct_slots(c, lane);
    if (turns)
        facts |= TB_IF_SLOTS;
    if (turns == 1)
        facts |= TB_IF_SHORT;
    if (lane->can_pull && tb_direct_can_pull(c))
        facts |= TB_IF_PULL;
    return facts;
}

static bool fits(const struct tb_choice *row, unsigned facts, int ranks,
                 int64_t bytes)
{
    return (row->needs & facts) == row->needs && ranks >= row->min_ranks &&
           ranks <= row->max_ranks && bytes >= row->min_bytes &&
           bytes <= row->max_bytes;
}

const struct tb_choice *tb_choice_at(size_t i)
{
    return i < TB_COUNT_OF(table) ? &table[i] : NULL;
}

bool tb_choice_suits(const struct tb_choice *row, const struct tb_call *c)
{
    unsigned facts = facts_of(c);
    return row->kind == c->kind && (row->needs & facts) == row->needs;
}

/* A forced algorithm is taken whatever the sizes, but not where it would
 * compute something else. */
static const struct tb_choice *forced(const struct tb_call *c, unsigned facts)
{
    const char *name = index_.forced[c->kind];
    const struct tb_choice *row = index_.first[c->kind];
    for (; *name && !is_end(row) && row->kind == c->kind; row++)
        if (!strcmp(row->name, name) && (row->needs & facts) == row->needs)
            return row;
    return NULL;
}

tb_err tb_select(const struct tb_call *c, bool in_order,
                 const struct tb_choice **out)
{
    if (TB_UNLIKELY(!index_.ready))
        prepare();
    TB_TRY(index_.err);
    if (TB_UNLIKELY(!c->comm->shape))
        TB_TRY(tb_shape_find(c->comm));
    unsigned facts = facts_of(c) | (in_order ? facts_of_lane(c) : 0);
    int64_t bytes = bytes_of(c);
    const struct tb_choice *row = forced(c, facts);
    if (!row)
        for (row = index_.first[c->kind];
             !fits(row, facts, c->comm->size, bytes);)
            row++;
    *out = row;
    return TB_OK;
}
