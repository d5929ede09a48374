/* SPDX-License-Identifier: MIT */
/*
 * The ranks of this node: what they send and give back, what is lent to them,
 * and what becomes of it when they die. Nothing in a lane is believed: a word
 * counts only if its slot is lent to that rank for that purpose.
 */
#include "router/router.h"

#include <stdio.h>

#define POLL_BUDGET 64
#define STOPS_NS 1000000000    /* between two looks who is stopped */
#define STOPPED_NS 10000000000 /* so long, and it is worth a word */
/* Of the free slots two in five are lent, the rest is for transit. */
#define STOCK_OF(n) ((n) / 5 * 2)
#define STOCK_SMALL_MOST 1024 /* for all ranks together */
/* Small slots for the port's own reports: TB_REPORTS_MOST a cable. */
#define PORT_OWN(cables) (8 * (uint32_t)(cables))

/* ----------------------------------------------------------------- opening */

static tb_err map_segment(struct tb_router *r)
{
    if (!r->places)
        return TB_OK;
    if (r->config->shm_fd < 0)
        return tb_fail(TB_ERR_SYSTEM,
                       "TBMPI_SHM_FD is not set: tbmpirun starts this program "
                       "with the segment of its node");
    TB_TRY(tb_segment_find(&r->segment, &r->segment_bytes,
                           (int)r->config->shm_fd, r->places));
    tb_segment_join_cpus(r->segment);
    return tb_segment_plan(&r->board, r->places, r->segment_bytes,
                           (size_t)r->config->ring);
}

tb_err tb_lanes_open(struct tb_router *r)
{
    const struct tb_plan_node *here = &r->plan->node[r->plan->self];

    TB_TRY(map_segment(r));
    for (int i = 0; i < r->places; i++) {
        struct tb_rank_lane *lane = &r->lanes[i];
        struct tb_relay_lane *words =
            tb_relay_at(r->owner.pool->base, &r->owner.pool->plan, i);
        lane->rank = here->ranks[i];
        lane->in.words = words->up;
        lane->out.words = words->down;
        lane->bell = &tb_segment_rank(r->segment, &r->board, i)->bell;
        lane->note = tb_segment_note(r->segment, &r->board, i);
        tb_queue_init(&lane->behind);
    }
    return TB_OK;
}

void tb_lanes_close(struct tb_router *r)
{
    tb_share_unmap(r->segment, r->segment_bytes);
}

void tb_lanes_wake(struct tb_router *r)
{
    for (int i = 0; r->lanes && i < r->places; i++) {
        if (r->lanes[i].bell)
            tb_bell_ring(r->lanes[i].bell);
    }
}

/* ----------------------------------------------------------------- lending */

/* The ring has room: what is lent is bounded, see relay.h. */
static void put(struct tb_rank_lane *lane, uint64_t word)
{
    tb_ring_put(&lane->out, word);
    tb_bell_ring(lane->bell);
}

static void lend_stock(struct tb_router *r, int place, uint32_t slot)
{
    struct tb_load *load = &r->loads[slot];
    struct tb_rank_lane *lane = &r->lanes[place];

    load->whose = TB_WHOSE_RANK;
    load->reading = false;
    load->place = (int16_t)place;
    lane->lent++;
    put(lane, tb_relay_pack(TB_RELAY_STOCK, slot, 0, 0, 0));
}

void tb_lanes_stock(struct tb_router *r)
{
    struct tb_regpool *pool = r->owner.pool;

    for (int c = 0; c < TB_CLASSES; c++) {
        uint32_t each = STOCK_OF(pool->n[c]), own = 0;
        if (c == TB_SMALL) {
            each = TB_MIN(each, STOCK_SMALL_MOST);
            own = PORT_OWN(r->owner.args.n_cables);
        }
        if (r->places)
            each = TB_MIN(each / (uint32_t)r->places, TB_RELAY_LENT / 4);
        for (int i = 0; i < r->places; i++) {
            for (uint32_t k = 0; k < each; k++)
                lend_stock(r, i, tb_regpool_take(pool, (enum tb_class)c));
        }
        r->spare[c] = pool->n[c] > own ? pool->n[c] - own : 0;
    }
}

/* The reader has it, or nobody ever will: the slot is free, and so is a part
 * of the window of the node that it came from. */
static void finish(struct tb_router *r, int place, uint32_t slot)
{
    struct tb_load *load = &r->loads[slot];
    enum tb_class class = tb_regpool_class(&r->owner.pool->plan, slot);
    int src = r->plan->node_of[load->origin];

    load->whose = TB_WHOSE_POOL;
    tb_rdma_give(r->port, slot);
    if (tb_window_given(&r->windows, src, place, class))
        r->far[src].tell_window = r->work = true;
}

static void lend_packet(struct tb_router *r, int place, uint32_t slot)
{
    struct tb_load *load = &r->loads[slot];
    struct tb_rank_lane *lane = &r->lanes[place];

    load->whose = TB_WHOSE_RANK;
    load->reading = true;
    load->place = (int16_t)place;
    lane->lent++;
    put(lane, tb_relay_pack(TB_RELAY_DELIVER, slot, load->bytes, load->origin,
                            (enum tb_channel)load->channel));
}

void tb_lane_deliver(struct tb_router *r, int place, uint32_t slot)
{
    struct tb_rank_lane *lane = &r->lanes[place];

    if (TB_UNLIKELY(lane->gone)) {
        finish(r, place, slot);
    } else if (TB_UNLIKELY(lane->lent >= TB_RELAY_LENT)) {
        r->loads[slot].whose = TB_WHOSE_ROUTER;
        tb_queue_put(r, &lane->behind, slot);
    } else {
        lend_packet(r, place, slot);
    }
}

void tb_lane_return(struct tb_router *r, uint32_t slot)
{
    struct tb_load *load = &r->loads[slot];

    if (load->place != TB_PLACE_NONE && !r->lanes[load->place].gone) {
        lend_stock(r, load->place, slot);
        return;
    }
    load->whose = TB_WHOSE_POOL;
    tb_rdma_give(r->port, slot);
}

void tb_lanes_lose(struct tb_router *r, int node)
{
    for (int i = 0; i < r->places; i++) {
        if (!r->lanes[i].gone)
            put(&r->lanes[i], tb_relay_pack(TB_RELAY_LOST, (uint32_t)node,
                                            r->far[node].gone, 0, 0));
    }
}

/* ------------------------------------------------------------------- words */

static bool take_send(struct tb_router *r, int place,
                      const struct tb_relay_word *w)
{
    struct tb_load *load = &r->loads[w->slot];
    enum tb_class class = tb_regpool_class(&r->owner.pool->plan, w->slot);

    if (load->reading || w->bytes < sizeof(struct tb_hop) ||
        w->bytes > tb_class_room(class) || w->endpoint >= r->plan->size ||
        r->plan->node_of[w->endpoint] == r->plan->self)
        return false;
    load->bytes = w->bytes;
    load->dest = (uint16_t)w->endpoint;
    load->origin = (uint16_t)r->lanes[place].rank;
    load->channel = (uint8_t)w->channel;
    load->whose = TB_WHOSE_ROUTER;
    r->lanes[place].lent--;
    tb_forward_new(r, w->slot);
    return true;
}

/* False: no rank that is in order writes that. */
static bool take_word(struct tb_router *r, int place,
                      const struct tb_relay_word *w)
{
    const struct tb_load *load;

    if (!tb_regpool_has(&r->owner.pool->plan, w->slot))
        return false;
    load = &r->loads[w->slot];
    if (load->whose != TB_WHOSE_RANK || load->place != place)
        return false;
    if (w->kind == TB_RELAY_SEND)
        return take_send(r, place, w);
    if (w->kind != TB_RELAY_GIVE || !load->reading)
        return false;
    r->lanes[place].lent--;
    finish(r, place, w->slot);
    return true;
}

/* Takes everything back that is with the rank: it will not touch it again. */
static void take_back(struct tb_router *r, int place)
{
    struct tb_rank_lane *lane = &r->lanes[place];
    uint32_t slots = r->owner.pool->plan.first[TB_CLASSES];

    lane->gone = true;
    while (!tb_queue_empty(&lane->behind))
        finish(r, place, tb_queue_take(r, &lane->behind));
    for (uint32_t s = 0; s < slots; s++) {
        struct tb_load *load = &r->loads[s];
        if (load->whose != TB_WHOSE_RANK || load->place != place)
            continue;
        if (load->reading) {
            finish(r, place, s);
        } else {
            load->whose = TB_WHOSE_POOL;
            tb_rdma_give(r->port, s);
        }
    }
    lane->lent = 0;
}

static int poll_lane(struct tb_router *r, int place)
{
    struct tb_rank_lane *lane = &r->lanes[place];
    uint64_t raw;
    int n = 0;

    while (n < POLL_BUDGET && tb_ring_look(&lane->in, &raw)) {
        struct tb_relay_word w = tb_relay_unpack(raw);
        if (TB_UNLIKELY(!take_word(r, place, &w))) {
            tb_log(TB_LOG_ERROR,
                   "rank %d writes nonsense into the memory that it shares "
                   "with its router; nothing more is taken from it",
                   lane->rank);
            put(lane,
                tb_relay_pack(TB_RELAY_LOST, (uint32_t)r->plan->self, 0, 0, 0));
            take_back(r, place);
            return n;
        }
        tb_ring_step(&lane->in);
        n++;
    }
    while (TB_UNLIKELY(!tb_queue_empty(&lane->behind)) &&
           lane->lent < TB_RELAY_LENT)
        lend_packet(r, place, tb_queue_take(r, &lane->behind));
    return n;
}

int tb_lanes_poll(struct tb_router *r)
{
    int n = 0;

    for (int i = 0; i < r->places; i++) {
        if (TB_LIKELY(!r->lanes[i].gone))
            n += poll_lane(r, i);
    }
    return n;
}

bool tb_lanes_pending(const struct tb_router *r)
{
    uint64_t word;

    for (int i = 0; i < r->places; i++) {
        if (!r->lanes[i].gone && tb_ring_look(&r->lanes[i].in, &word))
            return true;
    }
    return false;
}

/* Somebody may have stopped it and forgotten; nobody else can tell that from
 * a long computation. */
static void check_stopped(struct tb_rank_lane *lane, uint64_t now)
{
    if (!tb_process_stopped(lane->note->pid)) {
        if (lane->told_stopped)
            tb_log(TB_LOG_WARN, "rank %d goes on", lane->rank);
        lane->stopped_at = 0;
        lane->told_stopped = false;
    } else if (!lane->stopped_at) {
        lane->stopped_at = now;
    } else if (!lane->told_stopped && now - lane->stopped_at >= STOPPED_NS) {
        lane->told_stopped = true;
        tb_log(TB_LOG_WARN,
               "rank %d (process %u) has been stopped for %.0f s: the job "
               "waits until somebody sends it SIGCONT",
               lane->rank, (unsigned)lane->note->pid,
               (double)(now - lane->stopped_at) / 1e9);
    }
}

void tb_lanes_check(struct tb_router *r, uint64_t now)
{
    bool stops = now >= r->stops_at;
    uint64_t word;

    if (stops)
        r->stops_at = now + STOPS_NS;
    for (int i = 0; i < r->places; i++) {
        struct tb_rank_lane *lane = &r->lanes[i];
        if (lane->gone)
            continue;
        if (!tb_process_gone(lane->note->pid)) {
            if (stops)
                check_stopped(lane, now);
        } else if (!tb_ring_look(&lane->in, &word)) {
            take_back(r, i); /* what it had sent before it died is sent */
        }
    }
}
