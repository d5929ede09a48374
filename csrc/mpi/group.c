/* SPDX-License-Identifier: MIT */
/*
 * Groups: ordered sets of processes, each named by its endpoint. Set algebra
 * goes through an index from endpoint to rank, so that it is linear in the
 * sizes of the groups.
 */
#include "mpi/api.h"
#include "mpi/check.h"
#include "mpi/life.h"
#include "mpi/world.h"

#include <limits.h>

struct tb_group tb_group_empty = {
    .obj = {.handle = 0x109,
            .refs = 1,
            .kind = TB_KIND_GROUP,
            .predefined = true},
    .rank = MPI_UNDEFINED,
};

/* ------------------------------------------------------------- objects */

static tb_err no_memory(int n)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for a group of %d", n);
}

int tb_group_find(const struct tb_group *g, int endpoint)
{
    for (int i = 0; i < g->size; i++)
        if (g->ranks[i] == endpoint)
            return i;
    return MPI_UNDEFINED;
}

tb_err tb_group_make(struct tb_group **out, int *endpoints, int n)
{
    struct tb_group *g = tb_calloc(1, sizeof *g);
    if (!g) {
        tb_free(endpoints);
        return no_memory(n);
    }
    g->obj.kind = TB_KIND_GROUP;
    g->obj.refs = 1;
    g->size = n;
    g->ranks = endpoints;
    g->rank = tb_group_find(g, tb_net_self(tb_engine_net(tb_world.engine)));
    *out = g;
    return TB_OK;
}

struct tb_group *tb_group_ref(struct tb_group *g)
{
    if (g && !g->obj.predefined)
        g->obj.refs++;
    return g;
}

void tb_group_unref(struct tb_group *g)
{
    if (!g || g->obj.predefined || --g->obj.refs > 0)
        return;
    tb_session_unref(g->session);
    tb_free(g->ranks);
    tb_free(g);
}

tb_err tb_group_publish(struct tb_group **out, int *endpoints, int n,
                        struct tb_session *session)
{
    struct tb_group *g;

    if (n == 0) {
        tb_free(endpoints);
        *out = &tb_group_empty;
        return TB_OK;
    }
    TB_TRY(tb_group_make(&g, endpoints, n));
    g->session = tb_session_ref(session);
    tb_err err = tb_handle_new(&g->obj, TB_KIND_GROUP);
    if (err)
        tb_group_unref(g);
    else
        *out = g;
    return err;
}

static tb_err make_array(int **out, int n)
{
    *out = tb_alloc((size_t)n * sizeof **out);
    return *out ? TB_OK : no_memory(n);
}

/* From endpoint to rank; -1 for those that are not in the group. */
struct index {
    int *rank;
    int size;
};

static tb_err index_make(struct index *x, const struct tb_group *g)
{
    x->size = 0;
    for (int i = 0; i < g->size; i++)
        x->size = TB_MAX(x->size, g->ranks[i] + 1);
    TB_TRY(make_array(&x->rank, x->size));
    for (int i = 0; i < x->size; i++)
        x->rank[i] = -1;
    for (int i = 0; i < g->size; i++)
        x->rank[g->ranks[i]] = i;
    return TB_OK;
}

static int index_of(const struct index *x, int endpoint)
{
    return endpoint < x->size ? x->rank[endpoint] : -1;
}

static tb_err check_list(int n, const char *name, const void *list)
{
    if (n < 0)
        return tb_fail(TB_ERR_ARG, "n is %d: it must not be negative", n);
    return n == 0 ? TB_OK : tb_check_ptr(name, list);
}

/* --------------------------------------------------------- the MPI calls */

tb_err tb_group_size(struct tb_group *group, int *size)
{
    *size = group->size;
    return TB_OK;
}

tb_err tb_group_rank(struct tb_group *group, int *rank)
{
    *rank = group->rank;
    return TB_OK;
}

tb_err tb_group_free(struct tb_group *group)
{
    tb_handle_drop(&group->obj);
    tb_group_unref(group);
    return TB_OK;
}

tb_err tb_group_translate_ranks(struct tb_group *group1, int n,
                                const int ranks1[], struct tb_group *group2,
                                int ranks2[])
{
    struct index x;

    TB_TRY(check_list(n, "ranks1", ranks1));
    TB_TRY(check_list(n, "ranks2", ranks2));
    for (int i = 0; i < n; i++)
        if (ranks1[i] != MPI_PROC_NULL &&
            (ranks1[i] < 0 || ranks1[i] >= group1->size))
            return tb_fail(TB_ERR_RANK,
                           "ranks1[%d] is %d: the group has %d "
                           "members",
                           i, ranks1[i], group1->size);
    TB_TRY(index_make(&x, group2));
    for (int i = 0; i < n; i++) {
        if (ranks1[i] == MPI_PROC_NULL) {
            ranks2[i] = MPI_PROC_NULL;
            continue;
        }
        int rank = index_of(&x, group1->ranks[ranks1[i]]);
        ranks2[i] = rank < 0 ? MPI_UNDEFINED : rank;
    }
    tb_free(x.rank);
    return TB_OK;
}

tb_err tb_group_compare(struct tb_group *group1, struct tb_group *group2,
                        int *result)
{
    int n = group1->size;
    struct index x;

    *result = MPI_UNEQUAL;
    if (n != group2->size)
        return TB_OK;
    if (n == 0 || group1->ranks == group2->ranks ||
        memcmp(group1->ranks, group2->ranks, (size_t)n * sizeof(int)) == 0) {
        *result = MPI_IDENT;
        return TB_OK;
    }
    TB_TRY(index_make(&x, group2));
    int common = 0;
    for (int i = 0; i < n; i++)
        common += index_of(&x, group1->ranks[i]) >= 0;
    if (common == n)
        *result = MPI_SIMILAR;
    tb_free(x.rank);
    return TB_OK;
}

/* Appends those of g that are in the index, or those that are not. */
static int append(int *list, int n, const struct tb_group *g,
                  const struct index *x, bool in)
{
    for (int i = 0; i < g->size; i++)
        if ((index_of(x, g->ranks[i]) >= 0) == in)
            list[n++] = g->ranks[i];
    return n;
}

/* The members of `from` that are in `of`, or are not, after all of `first`. */
static tb_err combine(struct tb_group *first, struct tb_group *from,
                      struct tb_group *of, bool in, struct tb_group **out)
{
    struct index x;
    int *list;
    int n = first->size;

    TB_TRY(make_array(&list, first->size + from->size));
    tb_err err = index_make(&x, of);
    if (err) {
        tb_free(list);
        return err;
    }
    if (n)
        memcpy(list, first->ranks, (size_t)n * sizeof *list);
    n = append(list, n, from, &x, in);
    tb_free(x.rank);
    return tb_group_publish(out, list, n,
                            first->session ? first->session : from->session);
}

tb_err tb_group_union(struct tb_group *group1, struct tb_group *group2,
                      struct tb_group **newgroup)
{
    return combine(group1, group2, group1, false, newgroup);
}

tb_err tb_group_intersection(struct tb_group *group1, struct tb_group *group2,
                             struct tb_group **newgroup)
{
    return combine(&tb_group_empty, group1, group2, true, newgroup);
}

tb_err tb_group_difference(struct tb_group *group1, struct tb_group *group2,
                           struct tb_group **newgroup)
{
    return combine(&tb_group_empty, group1, group2, false, newgroup);
}

/* Marks the ranks of a list in `taken`; an error for one that the group does
 * not have, or that comes twice. */
static tb_err mark(const struct tb_group *g, int n, const int ranks[],
                   bool *taken)
{
    for (int i = 0; i < n; i++) {
        int rank = ranks[i];
        if (rank < 0 || rank >= g->size)
            return tb_fail(TB_ERR_RANK,
                           "ranks[%d] is %d: the group has %d "
                           "members",
                           i, rank, g->size);
        if (taken[rank])
            return tb_fail(TB_ERR_RANK,
                           "ranks[%d] is %d, which is there "
                           "already",
                           i, rank);
        taken[rank] = true;
    }
    return TB_OK;
}

/* A group of the listed members, or of all others. */
static tb_err choose(struct tb_group *g, int n, const int ranks[], bool listed,
                     struct tb_group **out)
{
    bool *taken = tb_calloc((size_t)g->size, sizeof *taken);
    int *list = NULL;
    int used = 0;

    tb_err err = taken ? mark(g, n, ranks, taken) : no_memory(g->size);
    if (!err)
        err = make_array(&list, g->size);
    for (int i = 0; !err && i < (listed ? n : g->size); i++) {
        if (listed)
            list[used++] = g->ranks[ranks[i]];
        else if (!taken[i])
            list[used++] = g->ranks[i];
    }
    tb_free(taken);
    return err ? err : tb_group_publish(out, list, used, g->session);
}

tb_err tb_group_incl(struct tb_group *group, int n, const int ranks[],
                     struct tb_group **newgroup)
{
    TB_TRY(check_list(n, "ranks", ranks));
    return choose(group, n, ranks, true, newgroup);
}

tb_err tb_group_excl(struct tb_group *group, int n, const int ranks[],
                     struct tb_group **newgroup)
{
    TB_TRY(check_list(n, "ranks", ranks));
    return choose(group, n, ranks, false, newgroup);
}

/* Writes out a range's ranks after the first *n of `list`, which has room for
 * as many as the group has members. */
static tb_err expand(const struct tb_group *g, int i, const int range[3],
                     int *list, int *n)
{
    int first = range[0], last = range[1], stride = range[2];

    if (stride == 0)
        return tb_fail(TB_ERR_ARG, "ranges[%d] has a stride of 0", i);
    if (first < 0 || first >= g->size)
        return tb_fail(TB_ERR_RANK,
                       "ranges[%d] begins at rank %d: the group "
                       "has %d members",
                       i, first, g->size);
    if ((stride > 0 && last < first) || (stride < 0 && last > first))
        return tb_fail(TB_ERR_ARG,
                       "ranges[%d] goes from %d to %d with a "
                       "stride of %d",
                       i, first, last, stride);
    int64_t steps = ((int64_t)last - first) / stride;
    int64_t end = first + steps * stride;
    if (end < 0 || end >= g->size)
        return tb_fail(TB_ERR_RANK,
                       "ranges[%d] ends at rank %lld: the group "
                       "has %d members",
                       i, (long long)end, g->size);
    if (steps >= g->size - *n)
        return tb_fail(TB_ERR_RANK, "the ranges name a rank twice");
    for (int k = 0; k <= (int)steps; k++)
        list[(*n)++] = first + k * stride;
    return TB_OK;
}

static tb_err choose_ranges(struct tb_group *g, int n, int ranges[][3],
                            bool listed, struct tb_group **out)
{
    int *list;
    int used = 0;

    TB_TRY(check_list(n, "ranges", ranges));
    TB_TRY(make_array(&list, g->size));
    tb_err err = TB_OK;
    for (int i = 0; !err && i < n; i++)
        err = expand(g, i, ranges[i], list, &used);
    if (!err)
        err = choose(g, used, list, listed, out);
    tb_free(list);
    return err;
}

tb_err tb_group_range_incl(struct tb_group *group, int n, int ranges[][3],
                           struct tb_group **newgroup)
{
    return choose_ranges(group, n, ranges, true, newgroup);
}

tb_err tb_group_range_excl(struct tb_group *group, int n, int ranges[][3],
                           struct tb_group **newgroup)
{
    return choose_ranges(group, n, ranges, false, newgroup);
}

/* ------------------------------------------------------------ start and end */

tb_err tb_group_init(void)
{
    return TB_OK;
}

static void drop(void *object)
{
    tb_group_unref(object);
}

void tb_group_fini(void)
{
    tb_handle_sweep(TB_KIND_GROUP, drop);
}
