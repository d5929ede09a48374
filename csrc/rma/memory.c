/* SPDX-License-Identifier: MIT */
/*
 * The memory of windows. What the library makes lies in one piece of shared
 * memory a machine, if several ranks are there: first a mutex for each of
 * them, then their memory in rank order. Where that much cannot be had each
 * rank uses memory of its own, unless the window is to be shared.
 */
#include "rma/inside.h"

#include <string.h>

#include "coll/coll.h"

/* What ranks tell each other of themselves. */
struct card {
    int64_t size, unit;
    uint64_t align;
    int32_t err; /* what is wrong with this rank's arguments */
    int32_t apart;
};

/* What the first rank of a machine tells the others. */
struct offer {
    struct tb_share share;
    int32_t made;
    int32_t spare;
};

/* The ranks of this machine, and where their memory lies in the mapping. */
struct plan {
    const struct card *cards;
    int64_t *starts; /* of each rank of the window; -1: elsewhere */
    int first;       /* the first of them */
    int here;        /* how many */
    int64_t bytes;
};

static bool is_here(const struct tb_rma *r, int rank)
{
    struct tb_net *net = tb_engine_net(r->engine);
    const int *endpoints = r->comm->group->ranks;
    return tb_net_node(net, endpoints[rank]) ==
           tb_net_node(net, endpoints[r->rank]);
}

/* An alignment beyond a page is for those whose memory is their own. */
static int64_t align_of(const struct plan *p, int rank)
{
    uint64_t align = TB_MAX(p->cards[rank].align, TB_LINE);
    return (int64_t)TB_MIN(align, TB_PAGE);
}

static tb_err arrange(const struct tb_rma *r, struct plan *p)
{
    bool apart = r->memory.flavor == MPI_WIN_FLAVOR_ALLOCATE;
    int64_t at = r->n * (int64_t)sizeof(struct tb_rma_mutex);
    for (int i = 0; i < r->n; i++) {
        p->starts[i] = -1;
        if (!is_here(r, i))
            continue;
        if (!p->here++)
            p->first = i;
        if (apart || p->cards[i].apart || p->here == 1) {
            int64_t align = p->here == 1 ? TB_PAGE : align_of(p, i);
            at = (at + align - 1) / align * align;
        }
        p->starts[i] = at;
        if (__builtin_add_overflow(at, p->cards[i].size, &at) ||
            at > INT64_MAX - TB_PAGE)
            return tb_fail(TB_ERR_SIZE, "the sizes of a window's parts do not "
                                        "fit in 63 bits together");
    }
    p->bytes = (at + TB_PAGE - 1) / TB_PAGE * TB_PAGE;
    return TB_OK;
}

/* The first rank makes it, the others attach. *got: this one has it. */
static tb_err share(struct tb_rma *r, const struct plan *p, bool *got)
{
    struct offer mine = {0}, *offers;
    tb_err err = TB_OK;
    *got = false;
    offers = tb_alloc((size_t)r->n * sizeof *offers);
    if (!offers)
        return tb_fail(TB_ERR_NO_MEM, "no memory to make a window");
    if (p->first == r->rank)
        mine.made = !tb_share_make(&mine.share, (size_t)p->bytes);
    err = tb_coll_allgather_bytes(r->comm, &mine, offers, sizeof mine);
    if (!err && offers[p->first].made)
        *got = !tb_share_attach(&offers[p->first].share, (size_t)p->bytes,
                                &r->memory.mapping);
    tb_free(offers);
    /* All have attached, or tried to, when all have said so. */
    char said = *got;
    char *all = tb_alloc((size_t)r->n);
    if (!err && !all)
        err = tb_fail(TB_ERR_NO_MEM, "no memory to make a window");
    if (!err)
        err = tb_coll_allgather_bytes(r->comm, &said, all, 1);
    if (mine.made)
        tb_share_release(&mine.share);
    for (int i = 0; !err && i < r->n; i++)
        if (p->starts[i] >= 0 && !all[i])
            *got = false;
    tb_free(all);
    return err;
}

static void use_shared(struct tb_rma *r, const struct plan *p)
{
    char *mapping = r->memory.mapping;
    r->memory.shared = p->bytes;
    r->memory.base = mapping + p->starts[r->rank];
    for (int i = 0; i < r->n; i++) {
        if (p->starts[i] < 0)
            continue;
        r->targets[i].direct = true;
        r->targets[i].base = mapping + p->starts[i];
        r->targets[i].mutex = (struct tb_rma_mutex *)mapping + i;
    }
}

static tb_err use_own(struct tb_rma *r)
{
    struct tb_rma_memory *m = &r->memory;
    size_t align = TB_MAX(m->align, (size_t)TB_LINE);
    m->base = tb_alloc_aligned(align, (size_t)TB_MAX(m->size, 1));
    if (!m->base)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a window of %lld bytes",
                       (long long)m->size);
    memset(m->base, 0, (size_t)m->size);
    return TB_OK;
}

static tb_err make_memory(struct tb_rma *r, const struct card *cards)
{
    struct plan p = {.cards = cards};
    bool got = false;
    p.starts = tb_alloc((size_t)r->n * sizeof *p.starts);
    if (!p.starts)
        return tb_fail(TB_ERR_NO_MEM, "no memory to make a window");
    tb_err err = arrange(r, &p);
    if (!err && r->memory.flavor == MPI_WIN_FLAVOR_SHARED && p.here < r->n)
        err = tb_fail(TB_ERR_RMA_SHARED,
                      "%d of the %d ranks are on other machines: split the "
                      "communicator with MPI_COMM_TYPE_SHARED first",
                      r->n - p.here, r->n);
    /* Whether others are here is not the same everywhere; sharing talks. */
    if (!err && r->n > 1)
        err = share(r, &p, &got);
    if (!err && got)
        use_shared(r, &p);
    else if (!err && r->n > 1 && r->memory.flavor == MPI_WIN_FLAVOR_SHARED)
        err = tb_fail(TB_ERR_RMA_SHARED,
                      "%lld bytes of shared memory for the window cannot be "
                      "had on this machine",
                      (long long)p.bytes);
    else if (!err)
        err = use_own(r);
    if (!got && r->memory.mapping) {
        tb_share_unmap(r->memory.mapping, (size_t)p.bytes);
        r->memory.mapping = NULL;
    }
    tb_free(p.starts);
    return err;
}

static tb_err agree(struct tb_rma *r, struct card *cards)
{
    const struct tb_rma_memory *m = &r->memory;
    struct card mine = {
        .size = m->size, .unit = m->unit, .align = m->align, .apart = m->apart};
    TB_TRY(tb_coll_allgather_bytes(r->comm, &mine, cards, sizeof mine));
    for (int i = 0; i < r->n; i++) {
        r->targets[i].size = cards[i].size;
        r->targets[i].unit = cards[i].unit;
    }
    return TB_OK;
}

/* Whether it went well everywhere: a window exists for all or for nobody. */
static tb_err all_agree(struct tb_rma *r, struct card *cards, tb_err mine)
{
    struct card said = {.err = mine};
    TB_TRY(tb_coll_allgather_bytes(r->comm, &said, cards, sizeof said));
    for (int i = 0; !mine && i < r->n; i++)
        if (cards[i].err)
            return tb_fail(cards[i].err,
                           "rank %d could not make its part of "
                           "the window",
                           i);
    return mine;
}

tb_err tb_rma_map(struct tb_rma *r)
{
    int flavor = r->memory.flavor;
    bool makes =
        flavor == MPI_WIN_FLAVOR_ALLOCATE || flavor == MPI_WIN_FLAVOR_SHARED;
    struct card *cards = tb_alloc((size_t)r->n * sizeof *cards);
    if (!cards)
        return tb_fail(TB_ERR_NO_MEM, "no memory to make a window");
    tb_err err = agree(r, cards);
    if (!err && makes)
        err = make_memory(r, cards);
    err = all_agree(r, cards, err);
    tb_free(cards);
    struct tb_rma_target *self = &r->targets[r->rank];
    self->direct = true;
    self->base = r->memory.base;
    return err;
}

void tb_rma_unmap(struct tb_rma *r)
{
    struct tb_rma_memory *m = &r->memory;
    if (m->mapping)
        tb_share_unmap(m->mapping, (size_t)m->shared);
    else if (m->flavor == MPI_WIN_FLAVOR_ALLOCATE ||
             m->flavor == MPI_WIN_FLAVOR_SHARED)
        tb_free(m->base);
    tb_free(r->regions);
}

/* ------------------------------------------------------------------- ranges */

/* Whether those addresses are attached, perhaps by several calls. */
static bool is_attached(const struct tb_rma *r, uintptr_t from, uintptr_t to)
{
    for (int i = 0; i < r->n_regions; i++) {
        if (r->regions[i].from > from || r->regions[i].to <= from)
            continue;
        if (r->regions[i].to >= to)
            return true;
        from = r->regions[i].to;
        i = -1; /* who continues it may stand anywhere */
    }
    return from == to;
}

static bool has_bytes(const struct tb_rma *r, int64_t bytes)
{
    for (int i = 0; bytes > 0 && i < r->n_regions; i++)
        bytes -= (int64_t)(r->regions[i].to - r->regions[i].from);
    return bytes <= 0;
}

/* Run by run: what lies between them need not be attached. */
static tb_err locate_runs(const struct tb_rma *r, int64_t at,
                          const struct tb_layout *l, int64_t bytes)
{
    char *base = (char *)(uintptr_t)at;
    bool found = has_bytes(r, bytes);
    for (int64_t done = 0; found && done < bytes;) {
        void *run;
        int64_t n = tb_layout_run(l, base, done, bytes, &run);
        found = is_attached(r, (uintptr_t)run, (uintptr_t)run + (uintptr_t)n);
        done += n;
    }
    if (found)
        return TB_OK;
    return tb_fail(TB_ERR_RMA_RANGE,
                   "not all of %lld bytes at %p are in memory that the target "
                   "has attached to the window",
                   (long long)bytes, (void *)base);
}

tb_err tb_rma_locate(const struct tb_rma *r, int64_t at,
                     const struct tb_layout *l, int64_t count, char **out)
{
    int64_t low, high, from, to, bytes;
    bool wrong = !tb_rma_reach(l, count, &low, &high) ||
                 __builtin_mul_overflow(l->size, count, &bytes) ||
                 __builtin_add_overflow(at, low, &from) ||
                 __builtin_add_overflow(at, high, &to);
    if (!wrong && r->memory.flavor == MPI_WIN_FLAVOR_DYNAMIC) {
        *out = (char *)(uintptr_t)at;
        if (is_attached(r, (uintptr_t)from, (uintptr_t)to))
            return TB_OK;
        return locate_runs(r, at, l, bytes);
    }
    if (wrong || from < 0 || to > r->memory.size)
        return tb_fail(TB_ERR_RMA_RANGE,
                       "%lld elements at byte %lld are not within the window "
                       "of %lld bytes",
                       (long long)count, (long long)at,
                       (long long)r->memory.size);
    *out = (char *)r->memory.base + at;
    return TB_OK;
}

static tb_err need_dynamic(const struct tb_rma *r)
{
    if (r->memory.flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return TB_OK;
    return tb_fail(TB_ERR_RMA_FLAVOR, "the window is not one of "
                                      "MPI_Win_create_dynamic");
}

tb_err tb_win_attach(struct tb_win *win, void *base, MPI_Aint size)
{
    struct tb_rma *r = win->rma;
    uintptr_t from = (uintptr_t)base, to;
    TB_TRY(need_dynamic(r));
    if (size < 0 || (!base && size) ||
        __builtin_add_overflow(from, (uintptr_t)size, &to))
        return tb_fail(size < 0 ? TB_ERR_SIZE : TB_ERR_RMA_ATTACH,
                       "there is no memory of %lld bytes at %p",
                       (long long)size, base);
    for (int i = 0; i < r->n_regions; i++)
        if (from < r->regions[i].to && r->regions[i].from < to)
            return tb_fail(TB_ERR_RMA_ATTACH,
                           "the memory at %p overlaps some that is attached "
                           "already",
                           base);
    if (r->n_regions == r->room_regions) {
        int room = r->room_regions ? 2 * r->room_regions : 4;
        void *more = tb_realloc(r->regions, (size_t)room * sizeof *r->regions);
        if (!more)
            return tb_fail(TB_ERR_NO_MEM, "no memory to attach more");
        r->regions = more;
        r->room_regions = room;
    }
    r->regions[r->n_regions++] = (struct tb_rma_region){from, to};
    return TB_OK;
}

tb_err tb_win_detach(struct tb_win *win, const void *base)
{
    struct tb_rma *r = win->rma;
    TB_TRY(need_dynamic(r));
    for (int i = 0; i < r->n_regions; i++)
        if (r->regions[i].from == (uintptr_t)base) {
            r->regions[i] = r->regions[--r->n_regions];
            return TB_OK;
        }
    return tb_fail(TB_ERR_RMA_ATTACH, "nothing that begins at %p is attached",
                   base);
}
