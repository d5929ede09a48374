/* SPDX-License-Identifier: MIT */
/*
 * Matching. A receive and an envelope belong together when context, source and
 * tag agree; of several receives the one posted first wins, of several
 * envelopes the one that arrived first (MPI 5.0, section 3.5).
 *
 * Receives that name a source wait in the bin of that source, the others in
 * one list of their own; the posting order decides between the two. Arrivals
 * stand in the bin of their source and in one list of all, so that ANY_SOURCE
 * finds the first without looking into every bin.
 */
#include "engine/internal.h"

static inline struct tb_context **chain_of(const struct tb_engine *e,
                                           uint64_t name)
{
    return &e->chains[(unsigned)(name ^ (name >> 32)) & e->chains_mask];
}

static void enter(struct tb_engine *e, struct tb_context *c)
{
    struct tb_context **chain = chain_of(e, c->name);
    c->next = *chain;
    *chain = c;
}

/* Twice as many chains, as soon as there are more contexts than chains; when
 * there is no memory for that the chains only get longer. */
static void grow(struct tb_engine *e)
{
    struct tb_context **old = e->chains;
    unsigned n = e->chains_mask + 1;
    struct tb_context **chains = tb_calloc((size_t)n * 2, sizeof *chains);
    if (!chains)
        return;
    e->chains = chains;
    e->chains_mask = n * 2 - 1;
    for (unsigned i = 0; i < n; i++)
        for (struct tb_context *c = old[i], *next; c; c = next) {
            next = c->next;
            enter(e, c);
        }
    tb_free(old);
}

tb_err tb_contexts_init(struct tb_engine *e)
{
    e->chains = tb_calloc(TB_CHAINS_LEAST, sizeof(struct tb_context *));
    e->chains_mask = TB_CHAINS_LEAST - 1;
    return e->chains ? TB_OK : tb_fail(TB_ERR_NO_MEM, "no memory for contexts");
}

struct tb_context *tb_context_find(struct tb_engine *e, uint64_t name)
{
    struct tb_context *c = e->last;
    if (TB_LIKELY(c && c->name == name))
        return c;
    for (c = *chain_of(e, name); c; c = c->next)
        if (c->name == name)
            return e->last = c;
    return NULL;
}

static tb_err make_bins(struct tb_context *c, int n)
{
    unsigned bins = 1;
    while (bins < (unsigned)n && bins < TB_BINS_MAX)
        bins *= 2;
    c->bins = tb_alloc(bins * sizeof *c->bins);
    if (!c->bins)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a matching table");
    c->mask = bins - 1;
    for (unsigned i = 0; i < bins; i++) {
        tb_list_init(&c->bins[i].posted);
        tb_list_init(&c->bins[i].arrived);
    }
    return TB_OK;
}

static struct tb_bin *bin_of(struct tb_context *c, int source)
{
    return &c->bins[(unsigned)source & c->mask];
}

/* A context that nobody has opened here yet: early messages wait in it. */
struct tb_context *tb_context_hold(struct tb_engine *e, uint64_t name)
{
    struct tb_context *c = tb_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->engine = e;
    c->name = name;
    tb_list_init(&c->any);
    tb_list_init(&c->arrivals);
    if (make_bins(c, 1)) {
        tb_free(c);
        return NULL;
    }
    if (e->contexts++ > e->chains_mask)
        grow(e);
    enter(e, c);
    return c;
}

/* Moves what came early into bins of the right number. */
static tb_err rebin(struct tb_context *c, int n)
{
    struct tb_bin *old = c->bins;
    tb_err err = make_bins(c, n);
    if (err) {
        c->bins = old;
        return err;
    }
    tb_free(old);
    for (struct tb_list *l = c->arrivals.next; l != &c->arrivals; l = l->next) {
        struct tb_arrival *a = TB_CONTAINER(l, struct tb_arrival, in_order);
        tb_list_append(&bin_of(c, a->source)->arrived, &a->link);
    }
    return TB_OK;
}

tb_err tb_context_open(struct tb_engine *e, uint64_t name, const int *peers,
                       int n, struct tb_context **out)
{
    struct tb_context *c = tb_context_find(e, name);
    if (c && c->open)
        return tb_fail(TB_ERR_INTERN, "context %llx is open already",
                       (unsigned long long)name);
    if (!c)
        c = tb_context_hold(e, name);
    if (!c)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a context");
    TB_TRY(rebin(c, n));
    c->peers = peers;
    c->n = n;
    c->open = true;
    *out = c;
    return TB_OK;
}

/* It is in no chain and has no bins: nothing is ever found in it. */
tb_err tb_context_outward(struct tb_engine *e, uint64_t name, const int *peers,
                          struct tb_context **out)
{
    struct tb_context *c = tb_calloc(1, sizeof *c);
    if (!c)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a context");
    c->engine = e;
    c->name = name;
    c->peers = peers;
    *out = c;
    return TB_OK;
}

static void drop(struct tb_context *c)
{
    struct tb_engine *e = c->engine;
    struct tb_context **at = chain_of(e, c->name);
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    e->contexts--;
    if (e->last == c)
        e->last = NULL;
    while (!tb_list_empty(&c->arrivals)) {
        struct tb_arrival *a =
            TB_CONTAINER(c->arrivals.next, struct tb_arrival, in_order);
        tb_match_take(a);
        tb_arrival_free(e, a);
    }
    tb_free(c->bins);
    tb_free(c);
}

static bool has_posted(const struct tb_context *c)
{
    if (!tb_list_empty(&c->any))
        return true;
    for (unsigned i = 0; i <= c->mask; i++)
        if (!tb_list_empty(&c->bins[i].posted))
            return true;
    return false;
}

void tb_context_close(struct tb_context *c)
{
    if (!c)
        return;
    if (!c->bins) {
        tb_free(c);
        return;
    }
    c->closing = true;
    if (!has_posted(c))
        drop(c);
}

void tb_contexts_fini(struct tb_engine *e)
{
    for (unsigned i = 0; e->chains && i <= e->chains_mask; i++)
        while (e->chains[i])
            drop(e->chains[i]);
    tb_free(e->chains);
    e->chains = NULL;
}

static struct tb_req *first_match(struct tb_list *list, int source, int tag)
{
    for (struct tb_list *l = list->next; l != list; l = l->next) {
        struct tb_req *r = TB_CONTAINER(l, struct tb_req, link);
        if ((r->tag == tag || r->tag == TB_ANY_TAG) &&
            (r->source == source || r->source == TB_ANY_SOURCE))
            return r;
    }
    return NULL;
}

/* The posted receive that takes this envelope, taken out of the queue; NULL:
 * there is none. May end a context that is closing. */
struct tb_req *tb_match_arrive(struct tb_context *c, int source, int tag)
{
    struct tb_req *named = first_match(&bin_of(c, source)->posted, source, tag);
    struct tb_req *found = named;
    if (TB_UNLIKELY(!tb_list_empty(&c->any))) {
        struct tb_req *any = first_match(&c->any, source, tag);
        if (any && (!named || any->order < named->order))
            found = any;
    }
    if (found)
        tb_list_remove(&found->link);
    if (TB_UNLIKELY(c->closing) && !has_posted(c))
        drop(c);
    return found;
}

void tb_match_post(struct tb_context *c, struct tb_req *req)
{
    req->order = c->order++;
    req->state = TB_STATE_POSTED;
    tb_list_append(req->source == TB_ANY_SOURCE
                       ? &c->any
                       : &bin_of(c, req->source)->posted,
                   &req->link);
}

/* The first arrival that a receive of this source and tag would take. */
struct tb_arrival *tb_match_look(struct tb_context *c, int source, int tag)
{
    if (TB_LIKELY(tb_list_empty(&c->arrivals)))
        return NULL;
    if (source == TB_ANY_SOURCE) {
        for (struct tb_list *l = c->arrivals.next; l != &c->arrivals;
             l = l->next) {
            struct tb_arrival *a = TB_CONTAINER(l, struct tb_arrival, in_order);
            if (tag == TB_ANY_TAG || a->tag == tag)
                return a;
        }
        return NULL;
    }
    struct tb_list *list = &bin_of(c, source)->arrived;
    for (struct tb_list *l = list->next; l != list; l = l->next) {
        struct tb_arrival *a = TB_CONTAINER(l, struct tb_arrival, link);
        if (a->source == source && (tag == TB_ANY_TAG || a->tag == tag))
            return a;
    }
    return NULL;
}

void tb_match_keep(struct tb_context *c, struct tb_arrival *a)
{
    a->context = c;
    tb_list_append(&bin_of(c, a->source)->arrived, &a->link);
    tb_list_append(&c->arrivals, &a->in_order);
}

void tb_match_take(struct tb_arrival *a)
{
    tb_list_remove(&a->link);
    tb_list_remove(&a->in_order);
    a->context = NULL;
}

/* For a sender that wants an envelope back. */
struct tb_arrival *tb_match_by_seq(struct tb_engine *e, int peer, uint32_t seq)
{
    for (unsigned i = 0; i <= e->chains_mask; i++)
        for (struct tb_context *c = e->chains[i]; c; c = c->next)
            for (struct tb_list *l = c->arrivals.next; l != &c->arrivals;
                 l = l->next) {
                struct tb_arrival *a =
                    TB_CONTAINER(l, struct tb_arrival, in_order);
                if (a->peer == peer && a->seq == seq)
                    return a;
            }
    return NULL;
}
