/* SPDX-License-Identifier: MIT */
/*
 * The rank's end of a lane. A packet that is committed has been taken over by
 * the router, so a lost link hands nothing back: what has no way left is gone.
 */
#include "net/relay.h"
#include "net/net.h"

#include <stdio.h>
#include <time.h>

#define POLL_BUDGET 64
#define HEAD_ROOM 64        /* for the envelope of an eager message */
#define LATENCY_NS 8000     /* of one cable; Apple's and others' figures */
#define AWAIT_STEP_NS 50000 /* grows to … */
#define AWAIT_STEP_MOST_NS 5000000
#define WHY_BYTES 256

/* The way to one rank elsewhere. */
struct tb_link {
    struct tb_port *port;
    int peer;
    uint32_t used[TB_CLASSES]; /* slots on their way there */
    bool starved;              /* reserve said AGAIN */
    bool lost;
};

struct tb_port {
    const struct tb_sink *up;
    const struct tb_plan *plan;
    char *pool;
    struct tb_pool_head *head;
    struct tb_regpool_plan slots;
    struct tb_ring_end out, in; /* of the lane: up, down */
    uint32_t *stock[TB_CLASSES];
    uint32_t n[TB_CLASSES];      /* slots in each */
    uint16_t *user;              /* by slot: the rank that it was sent to */
    const _Atomic bool *crowded; /* as in struct tb_port_args */
    struct tb_link *links;       /* by rank */
    int starving;                /* links */
    bool dying;                  /* the router is lost; the next poll says so */
    bool dead;                   /* and has said so */
    char why[WHY_BYTES];
};

/* ----------------------------------------------------------------- the pool */

tb_err tb_relay_map(void **out, size_t *bytes, int fd, int ranks)
{
    struct tb_regpool_plan slots;
    const struct tb_pool_head *head;
    tb_err err;

    TB_TRY(tb_share_size(fd, bytes));
    TB_TRY(tb_regpool_plan(&slots, ranks, *bytes));
    TB_TRY(tb_share_map(fd, *bytes, out));
    head = *out;
    /* All zero until the router has begun. */
    if ((!head->magic || head->magic == TB_POOL_MAGIC) &&
        (!head->ranks || head->ranks == (uint32_t)ranks))
        return TB_OK;
    err = tb_fail(TB_ERR_PROTOCOL,
                  "descriptor %d (TBMPI_POOL_FD) is not the pool of this "
                  "version of tbmpi for %d ranks",
                  fd, ranks);
    tb_share_unmap(*out, *bytes);
    return err;
}

static tb_err failed(const struct tb_pool_head *head)
{
    char why[TB_POOL_REASON];

    memcpy(why, head->reason, sizeof(why));
    why[sizeof(why) - 1] = 0;
    return tb_fail(TB_ERR_LOST, "the router of this node (process %u): %s",
                   (unsigned)head->pid, why);
}

tb_err tb_relay_await(void *pool, uint64_t ns)
{
    const struct tb_pool_head *head = pool;
    struct timespec step = {0, AWAIT_STEP_NS};
    uint64_t until = tb_now() + ns;

    for (;;) {
        uint32_t state =
            atomic_load_explicit(&head->state, memory_order_acquire);
        if (state == TB_POOL_UP)
            return TB_OK;
        if (state == TB_POOL_FAILED)
            return failed(head);
        if (tb_process_gone(head->pid))
            return tb_fail(TB_ERR_LOST,
                           "the router of this node (process %u) has ended "
                           "before it was ready; its own message says why",
                           (unsigned)head->pid);
        if (tb_now() > until)
            return tb_fail(TB_ERR_LOST,
                           "the router of this node was not ready within %.0f "
                           "s: is every Mac of the job up and every cable "
                           "plugged? (TBMPI_ROUTER_START is the limit)",
                           (double)ns / 1e9);
        nanosleep(&step, NULL);
        step.tv_nsec = TB_MIN(step.tv_nsec * 2, AWAIT_STEP_MOST_NS);
    }
}

/* ------------------------------------------------------------------ opening */

static void relay_close(struct tb_port *port)
{
    if (!port)
        return;
    for (int c = 0; c < TB_CLASSES; c++)
        tb_free(port->stock[c]);
    tb_free(port->user);
    tb_free(port->links);
    tb_free(port);
}

static tb_err make_tables(struct tb_port *port)
{
    const struct tb_regpool_plan *s = &port->slots;
    size_t ranks = (size_t)port->plan->size;

    port->links = tb_calloc(ranks, sizeof(*port->links));
    port->user = tb_calloc(s->first[TB_CLASSES], sizeof(*port->user));
    for (int c = 0; c < TB_CLASSES; c++) {
        size_t n = s->first[c + 1] - s->first[c];
        port->stock[c] = tb_calloc(TB_MIN(n, TB_RELAY_LENT), sizeof(uint32_t));
        if (!port->stock[c])
            return TB_ERR_NO_MEM;
    }
    return port->links && port->user ? TB_OK : TB_ERR_NO_MEM;
}

static tb_err relay_open(struct tb_port **out, const struct tb_port_args *args)
{
    const struct tb_relay_args *a = args->relay;
    struct tb_relay_lane *lane;
    struct tb_port *port;
    tb_err err;

    if (!a)
        return TB_ERR_NOTSUP;
    port = tb_calloc(1, sizeof(*port));
    if (!port)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the relay transport");
    port->up = args->up;
    port->plan = a->plan;
    port->pool = a->pool;
    port->head = a->pool;
    port->crowded = args->crowded;
    err = tb_regpool_plan(&port->slots, args->local_ranks, a->bytes);
    if (!err && make_tables(port))
        err = tb_fail(TB_ERR_NO_MEM, "no memory for the relay transport");
    if (err) {
        relay_close(port);
        return err;
    }
    lane = tb_relay_at(a->pool, &port->slots, args->local_rank);
    port->out.words = lane->up;
    port->in.words = lane->down;
    *out = port;
    return TB_OK;
}

static tb_err relay_connect(struct tb_port *port, int peer,
                            struct tb_link **out)
{
    const struct tb_plan *plan = port->plan;

    if (peer < 0 || peer >= plan->size || plan->node_of[peer] == plan->self)
        return TB_ERR_NOTSUP;
    port->links[peer].port = port;
    port->links[peer].peer = peer;
    *out = &port->links[peer];
    return TB_OK;
}

static void relay_limits(const struct tb_link *link, struct tb_limits *out)
{
    (void)link;
    out->packet_max = tb_class_room(TB_LARGE);
    out->middle = tb_class_room(TB_MIDDLE);
    out->small = tb_class_room(TB_SMALL);
    out->eager_max = tb_class_room(TB_MIDDLE) - HEAD_ROOM;
    out->pull_min = SIZE_MAX;
    out->latency_ns = LATENCY_NS;
}

/* ---------------------------------------------------------------- sending */

static tb_err starve(struct tb_link *link)
{
    if (link->lost || link->port->dead)
        return TB_ERR_LOST;
    if (!link->starved) {
        link->starved = true;
        link->port->starving++;
    }
    return TB_ERR_AGAIN;
}

/*
 * A slot of the stock, if this peer holds fewer than are left. So one that
 * takes nothing, because it computes, never keeps others from being sent to:
 * k such peers leave one part in k + 1 of the stock (dynamic thresholds:
 * Choudhury, Hahne, IEEE/ACM Transactions on Networking 6, 1998).
 */
static tb_err relay_reserve(struct tb_link *link, enum tb_channel ch,
                            size_t max, struct tb_slot *out)
{
    struct tb_port *port = link->port;
    enum tb_class class = tb_class_of(max);
    uint32_t slot;

    if (TB_UNLIKELY(link->used[class] >= port->n[class]) || link->lost)
        return starve(link);
    slot = port->stock[class][--port->n[class]];
    out->data =
        tb_slot_data(port->pool + tb_regpool_offset(&port->slots, slot));
    out->room = tb_class_room(class);
    out->cookie = (uint64_t)slot << 1 | (uint64_t)ch;
    if (TB_UNLIKELY(link->starved)) {
        link->starved = false;
        port->starving--;
    }
    return TB_OK;
}

/* Where processors are shared the router may have to wait for this one; it
 * should not do so until all of a long message is packed. */
static void give_way(struct tb_port *port, enum tb_class class)
{
    if (class == TB_LARGE && tb_is_crowded(port->crowded))
        tb_yield();
}

static void relay_commit(struct tb_link *link, const struct tb_slot *slot,
                         size_t bytes)
{
    struct tb_port *port = link->port;
    uint32_t number = (uint32_t)(slot->cookie >> 1);
    enum tb_class class = tb_regpool_class(&port->slots, number);

    if (TB_UNLIKELY(!bytes)) {
        port->stock[class][port->n[class]++] = number;
        return;
    }
    tb_slot_seal((char *)slot->data - TB_SLOT_HEAD, bytes);
    port->user[number] = (uint16_t)link->peer;
    link->used[class]++;
    tb_ring_put(&port->out,
                tb_relay_pack(TB_RELAY_SEND, number, bytes, link->peer,
                              (enum tb_channel)(slot->cookie & 1)));
    tb_bell_ring(&port->head->bell);
    give_way(port, class);
}

/* -------------------------------------------------------------------- loss */

static void doom(struct tb_port *port, const char *why)
{
    if (port->dying || port->dead)
        return;
    port->dying = true;
    snprintf(port->why, sizeof(port->why), "%s", why);
}

/* `cause`: as in the contract's lost. */
static void lose(struct tb_port *port, int node, tb_err cause, const char *why)
{
    const struct tb_plan_node *n = &port->plan->node[node];

    for (int i = 0; i < n->n; i++) {
        struct tb_link *link = &port->links[n->ranks[i]];
        if (!link->port || link->lost)
            continue;
        link->lost = true;
        port->up->lost(port->up->ctx, link->peer, tb_fail(cause, "%s", why));
    }
}

static void bury(struct tb_port *port)
{
    port->dying = false;
    port->dead = true;
    for (int k = 0; k < port->plan->nodes; k++) {
        if (k != port->plan->self)
            lose(port, k, TB_ERR_LOST, port->why);
    }
}

static void relay_check(struct tb_port *port)
{
    uint32_t state =
        atomic_load_explicit(&port->head->state, memory_order_acquire);
    char why[WHY_BYTES];

    if (state == TB_POOL_FAILED) {
        failed(port->head);
        doom(port, tb_fail_note());
    } else if (tb_process_gone(port->head->pid)) {
        snprintf(
            why, sizeof(why), "the router of node %s (process %u) has ended",
            port->plan->node[port->plan->self].name, (unsigned)port->head->pid);
        doom(port, why);
    }
}

/* --------------------------------------------------------------- receiving */

static bool take_stock(struct tb_port *port, uint32_t slot)
{
    enum tb_class class = tb_regpool_class(&port->slots, slot);
    struct tb_link *link = &port->links[port->user[slot]];

    if (port->n[class] ==
        TB_MIN(port->slots.first[class + 1] - port->slots.first[class],
               TB_RELAY_LENT))
        return false;
    if (link->used[class])
        link->used[class]--;
    port->stock[class][port->n[class]++] = slot;
    return true;
}

static bool deliver(struct tb_port *port, const struct tb_relay_word *w)
{
    enum tb_class class = tb_regpool_class(&port->slots, w->slot);
    char *slot = port->pool + tb_regpool_offset(&port->slots, w->slot);

    if (!w->bytes || w->bytes > tb_class_room(class) ||
        w->endpoint >= port->plan->size)
        return false;
    port->up->packet(port->up->ctx, w->endpoint, w->channel, tb_slot_data(slot),
                     w->bytes);
    tb_ring_put(&port->out, tb_relay_pack(TB_RELAY_GIVE, w->slot, 0, 0, 0));
    return true;
}

static void lose_one(struct tb_port *port, int node, bool gone)
{
    char why[TB_BOARD_NODE_WHY_BYTES];

    memcpy(why, tb_board_node(port->pool, node)->why, sizeof(why));
    why[sizeof(why) - 1] = 0;
    lose(port, node, gone ? TB_ERR_LOST : TB_ERR_OTHER, why);
}

/* False: no router that is in order writes that. */
static bool take_word(struct tb_port *port, const struct tb_relay_word *w)
{
    if (w->kind == TB_RELAY_LOST) {
        if (w->slot >= (uint32_t)port->plan->nodes)
            return false;
        if (w->slot == (uint32_t)port->plan->self) {
            doom(port, "the router of this node takes no more from this rank: "
                       "the memory that they share is in disorder");
            return true;
        }
        lose_one(port, (int)w->slot, w->bytes != 0);
        return true;
    }
    if (!tb_regpool_has(&port->slots, w->slot))
        return false;
    if (w->kind == TB_RELAY_STOCK)
        return take_stock(port, w->slot);
    return w->kind == TB_RELAY_DELIVER && deliver(port, w);
}

static int relay_poll(struct tb_port *port)
{
    int n = 0, gave = 0;
    uint64_t raw;

    while (n < POLL_BUDGET && tb_ring_look(&port->in, &raw)) {
        struct tb_relay_word w = tb_relay_unpack(raw);
        if (TB_UNLIKELY(port->dead || !take_word(port, &w))) {
            doom(port, "the router of this node breaks the protocol");
            break;
        }
        tb_ring_step(&port->in);
        gave += w.kind == TB_RELAY_DELIVER;
        n++;
    }
    if (gave)
        tb_bell_ring(&port->head->bell);
    if (TB_UNLIKELY(port->dying))
        bury(port);
    return gave;
}

/* Takes in what is only stock, so that somebody who waits for a packet is not
 * woken by it. */
static bool relay_pending(struct tb_port *port)
{
    bool room = false;
    uint64_t raw;

    if (port->dying)
        return true;
    while (!port->dead && tb_ring_look(&port->in, &raw)) {
        struct tb_relay_word w = tb_relay_unpack(raw);
        if (w.kind != TB_RELAY_STOCK || !tb_regpool_has(&port->slots, w.slot) ||
            !take_stock(port, w.slot))
            return true;
        tb_ring_step(&port->in);
        room = true;
    }
    return room && port->starving;
}

static tb_err relay_pull(struct tb_link *link, uint64_t remote, void *local,
                         size_t bytes, size_t *done)
{
    (void)link, (void)remote, (void)local, (void)bytes;
    *done = 0;
    return TB_ERR_NOTSUP;
}

const struct tb_transport tb_transport_relay = {
    .name = "relay",
    .open = relay_open,
    .connect = relay_connect,
    .reserve = relay_reserve,
    .commit = relay_commit,
    .poll = relay_poll,
    .pending = relay_pending,
    .pull = relay_pull,
    .limits = relay_limits,
    .check = relay_check,
    .close = relay_close,
};
