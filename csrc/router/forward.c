/* SPDX-License-Identifier: MIT */
/*
 * Packets on their way. One that a rank has made waits for window, then for
 * the neighbour that it goes to next; one that passes through, and messages of
 * the router's own, for the neighbour only.
 */
#include "router/router.h"

/* A message from router to router: window given back. The packet's hop says
 * from whom to whom. Little-endian, as all machines here are. */
struct window_note {
    struct tb_hop hop;
    uint32_t places;
    uint32_t given[][TB_CLASSES]; /* ever, by local place of the origin */
};

/* ------------------------------------------------------------------ leaving */

static int next_node(const struct tb_router *r, const struct tb_load *load)
{
    const struct tb_plan *p = r->plan;

    return tb_routes_next(&r->routes, p->self, tb_plan_node_of(p, load->origin),
                          tb_plan_node_of(p, load->dest));
}

/* Hands a packet to the link. False: no room there now. */
static bool send_on(struct tb_router *r, int node, uint32_t slot)
{
    struct tb_load *load = &r->loads[slot];

    if (!r->far[node].link ||
        tb_rdma_send(r->far[node].link, (enum tb_channel)load->channel, slot,
                     load->bytes))
        return false;
    load->whose = TB_WHOSE_LINK;
    return true;
}

/* Off it goes, or into the queue of the neighbour on its way. */
static void leave(struct tb_router *r, uint32_t slot)
{
    struct tb_load *load = &r->loads[slot];
    int node = next_node(r, load);
    struct tb_queue *q;

    if (node < 0) {
        tb_lane_return(r, slot); /* nobody can be told: its node is lost */
        return;
    }
    q = &r->far[node].leaving[load->channel];
    load->whose = TB_WHOSE_ROUTER;
    if (tb_queue_empty(q) && send_on(r, node, slot))
        return;
    tb_queue_put(r, q, slot);
    r->work = true;
}

static struct tb_board_node *board(struct tb_router *r, int node)
{
    return tb_board_node(r->owner.pool->base, node);
}

static void count(_Atomic uint64_t *counter)
{
    uint64_t n = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, n + 1, memory_order_relaxed);
}

/* ------------------------------------------------------------------- window */

static bool has_window(struct tb_router *r, uint32_t slot)
{
    return tb_window_take(&r->windows, r->loads[slot].dest,
                          tb_regpool_class(&r->owner.pool->plan, slot));
}

void tb_forward_new(struct tb_router *r, uint32_t slot)
{
    struct tb_load *load = &r->loads[slot];
    struct tb_queue *q = &r->held[load->dest][load->channel];
    int node = r->plan->node_of[load->dest];

    if (TB_UNLIKELY(r->far[node].lost)) {
        tb_lane_return(r, slot);
        return;
    }
    count(&board(r, node)->sent);
    if (TB_LIKELY(tb_queue_empty(q) && has_window(r, slot)))
        leave(r, slot);
    else
        tb_queue_put(r, q, slot);
}

/* Window to `node` has come back: who waited for it goes on, in turns. */
static void release(struct tb_router *r, int node)
{
    const struct tb_plan_node *n = &r->plan->node[node];
    bool moved = true;

    while (moved) {
        moved = false;
        for (int i = 0; i < 2 * n->n; i++) {
            struct tb_queue *q = &r->held[n->ranks[i / 2]][i % 2];
            if (tb_queue_empty(q) || !has_window(r, q->first))
                continue;
            leave(r, tb_queue_take(r, q));
            moved = true;
        }
    }
}

static void take_note(struct tb_router *r, const struct window_note *note,
                      size_t bytes)
{
    int node = tb_plan_node_of(r->plan, note->hop.origin);
    const struct tb_plan_node *n = &r->plan->node[node];
    bool good = bytes == sizeof(*note) + (size_t)n->n * sizeof(note->given[0]);

    for (int i = 0; good && i < n->n; i++) {
        for (int c = 0; good && c < TB_CLASSES; c++)
            good = tb_window_back(&r->windows, n->ranks[i], (enum tb_class)c,
                                  note->given[i][c]);
    }
    if (!good)
        tb_log(TB_LOG_ERROR, "the router of %s gives back what it never got",
               n->name);
    release(r, node);
}

/* False: no slot for it now. */
static bool send_note(struct tb_router *r, int node)
{
    struct tb_regpool *pool = r->owner.pool;
    uint32_t slot = tb_regpool_take(pool, TB_SMALL);
    const uint32_t(*given)[TB_CLASSES];
    struct window_note *note;
    struct tb_load *load;
    void *at;

    if (slot == TB_SLOT_NONE)
        return false;
    at = tb_regpool_at(pool, slot);
    note = tb_slot_data(at);
    note->hop.dest = (uint16_t)(r->plan->size + node);
    note->hop.origin = (uint16_t)(r->plan->size + r->plan->self);
    note->places = (uint32_t)tb_window_tell(&r->windows, node, &given);
    memcpy(note->given, given, note->places * sizeof(*given));
    load = &r->loads[slot];
    load->bytes =
        (uint32_t)(sizeof(*note) + note->places * sizeof(note->given[0]));
    load->dest = note->hop.dest;
    load->origin = note->hop.origin;
    load->channel = TB_CONTROL;
    load->place = TB_PLACE_NONE;
    tb_slot_seal(at, load->bytes);
    leave(r, slot);
    return true;
}

void tb_forward_windows(struct tb_router *r)
{
    for (int k = 0; k < r->plan->nodes; k++) {
        struct tb_far *far = &r->far[k];
        if (far->tell_window && !far->lost && !send_note(r, k)) {
            r->work = true;
            return;
        }
        far->tell_window = false;
    }
}

/* ------------------------------------------------------------------- upcalls
 */

static void pass_on(struct tb_router *r, const struct tb_hop *hop,
                    enum tb_channel ch, size_t bytes)
{
    uint32_t slot = tb_rdma_keep(r->port);
    struct tb_load *load = &r->loads[slot];

    load->bytes = (uint32_t)bytes;
    load->dest = hop->dest;
    load->origin = hop->origin;
    load->channel = (uint8_t)ch;
    load->place = TB_PLACE_NONE;
    count(&board(r, tb_plan_node_of(r->plan, hop->dest))->passed);
    leave(r, slot);
}

static void hand_over(struct tb_router *r, const struct tb_hop *hop,
                      enum tb_channel ch, size_t bytes)
{
    const struct tb_plan_node *here = &r->plan->node[r->plan->self];
    uint32_t slot = tb_rdma_keep(r->port);
    struct tb_load *load = &r->loads[slot];
    int place = 0;

    while (here->ranks[place] != hop->dest)
        place++;
    load->bytes = (uint32_t)bytes;
    load->dest = hop->dest;
    load->origin = hop->origin;
    load->channel = (uint8_t)ch;
    count(&board(r, r->plan->node_of[hop->origin])->got);
    tb_lane_deliver(r, place, slot);
}

/* What another router lets through is not believed either. */
static bool is_sound(const struct tb_plan *p, const struct tb_hop *hop,
                     size_t bytes)
{
    if (bytes < sizeof(*hop) || hop->dest >= p->size + p->nodes ||
        hop->origin >= p->size + p->nodes)
        return false;
    /* Routers talk to routers, ranks to ranks; nobody to his own node. A packet
     * made here may pass by again: until all have heard of a dead cable, one
     * that knows less sends it back. */
    return (hop->dest >= p->size) == (hop->origin >= p->size) &&
           tb_plan_node_of(p, hop->origin) != tb_plan_node_of(p, hop->dest);
}

void tb_forward_packet(void *ctx, int from, enum tb_channel ch,
                       const void *data, size_t bytes)
{
    struct tb_router *r = ctx;
    const struct tb_hop *hop = data;

    if (TB_UNLIKELY(!is_sound(r->plan, hop, bytes))) {
        tb_log(TB_LOG_ERROR, "dropped a malformed packet of %zu bytes from %s",
               bytes, r->plan->node[tb_plan_node_of(r->plan, from)].name);
        return;
    }
    if (tb_plan_node_of(r->plan, hop->dest) != r->plan->self)
        pass_on(r, hop, ch, bytes);
    else if (TB_LIKELY(hop->dest < r->plan->size))
        hand_over(r, hop, ch, bytes);
    else if (bytes >= sizeof(struct window_note))
        take_note(r, data, bytes);
}

/* The link that is about to be lost still counts: what it hands back waits
 * until the ways are known, in order. */
void tb_forward_returned(void *ctx, int to, enum tb_channel ch,
                         const void *data, size_t bytes)
{
    struct tb_router *r = ctx;
    uint32_t slot = tb_rdma_keep(r->port);

    (void)to, (void)ch, (void)data, (void)bytes;
    r->loads[slot].whose = TB_WHOSE_ROUTER;
    tb_queue_put(r, &r->strays, slot);
}

void tb_forward_sent(void *ctx, uint32_t slot)
{
    tb_lane_return(ctx, slot);
}

/* ------------------------------------------------------------------- queues */

static int flush(struct tb_router *r, int node, struct tb_queue *q)
{
    int n = 0;

    while (!tb_queue_empty(q) && send_on(r, node, q->first)) {
        q->first = r->loads[q->first].next;
        n++;
    }
    r->work |= !tb_queue_empty(q);
    return n;
}

int tb_forward_flush(struct tb_router *r)
{
    int n = 0;

    for (int k = 0; k < r->plan->nodes; k++) {
        for (int ch = 0; ch < 2; ch++) {
            if (!tb_queue_empty(&r->far[k].leaving[ch]))
                n += flush(r, k, &r->far[k].leaving[ch]);
        }
    }
    return n;
}

static void append(struct tb_router *r, struct tb_queue *to,
                   struct tb_queue *from)
{
    while (!tb_queue_empty(from))
        tb_queue_put(r, to, tb_queue_take(r, from));
}

/* What a link has handed back is older than what waited for it. */
void tb_forward_again(struct tb_router *r)
{
    struct tb_queue all;

    tb_queue_init(&all);
    append(r, &all, &r->strays);
    for (int k = 0; k < r->plan->nodes; k++) {
        append(r, &all, &r->far[k].leaving[TB_CONTROL]);
        append(r, &all, &r->far[k].leaving[TB_BULK]);
    }
    while (!tb_queue_empty(&all))
        leave(r, tb_queue_take(r, &all));
    /* What waits for a window that will never come back. */
    for (int i = 0; i < r->plan->size; i++) {
        if (!r->far[r->plan->node_of[i]].lost)
            continue;
        append(r, &all, &r->held[i][TB_CONTROL]);
        append(r, &all, &r->held[i][TB_BULK]);
    }
    while (!tb_queue_empty(&all))
        tb_lane_return(r, tb_queue_take(r, &all));
}
