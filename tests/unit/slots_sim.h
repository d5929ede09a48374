/* SPDX-License-Identifier: MIT */
/*
 * Two ends of a link over simulated queue pairs, for the tests of slots.h. A
 * wire is one direction of one queue pair: FIFO, with a delay that differs from
 * wire to wire, and with losses. A SEND that arrives before its RECV is held
 * (as Apple's hardware does) or dropped (as Soft-RoCE does); either way it is
 * counted, since it should never happen.
 */
#ifndef TB_SLOTS_SIM_H
#define TB_SLOTS_SIM_H

#include "base/crc.h"
#include "net/slots.h"

#include "unit/check.h"

#define SIM_WIRE 128 /* transmissions under way */
#ifndef SIM_SLOTS
#define SIM_SLOTS 1024 /* of an end */
#endif
#define SIM_PACKETS (1 << 14)

enum sim_fate { SIM_ARRIVES, SIM_LOST, SIM_DAMAGED };

struct sim_frame {
    struct tb_header content[4];
    uint32_t slot; /* of the sender */
    uint64_t at;   /* when it arrives */
    enum sim_fate fate;
};

struct sim_wire {
    struct sim_frame frame[SIM_WIRE];
    uint32_t first, last; /* under way: first <= i < last */
    uint32_t gone;        /* completed at the sender up to here */
    uint32_t receives;    /* slots posted at the receiver, first of them: */
    uint32_t slot[TB_LANE_WINDOW];
    uint32_t slot_first;
};

struct sim;

struct sim_end {
    struct sim *sim;
    struct tb_flow flow;
    int side;
    struct sim_wire wire[TB_LANES_MOST]; /* towards this end */
    struct tb_header *slots;             /* a header and 8 bytes payload each */
    uint32_t *free;
    uint32_t n_free;
    uint32_t next[2], got[2]; /* numbers by channel: made, delivered */
    unsigned char *seen;      /* of BULK */
    uint32_t reclaimed[2];
    bool may_hold;
};

struct sim {
    struct sim_end end[2];
    int cables;
    int depth[TB_CLASSES];
    bool keeps; /* an early SEND, else drops it */
    uint64_t now;
    uint32_t state;        /* of the random numbers */
    uint32_t loss, damage; /* in 65536 */
    uint64_t delay[TB_LANES_MOST], jitter;
    long early, probes, reports;
    enum sim_fate (*fate)(struct sim *s); /* instead of chance */
    uint32_t dead; /* lanes whose wires swallow everything, a bit each */
};

/* A packet's payload, behind the header. */
struct sim_packet {
    uint32_t channel, number;
};

static inline uint32_t sim_draw(struct sim *s)
{
    s->state ^= s->state << 13;
    s->state ^= s->state >> 17;
    s->state ^= s->state << 5;
    return s->state;
}

/* Slots are 256 bytes here: room for a transmission of reports. */
static inline struct tb_header *sim_at(struct sim_end *e, uint32_t slot)
{
    return e->slots + (size_t)slot * 4;
}

static inline uint32_t sim_take(struct sim_end *e)
{
    CHECK(e->n_free > 0);
    return e->free[--e->n_free];
}

static inline void sim_give(struct sim_end *e, uint32_t slot)
{
    e->free[e->n_free++] = slot;
}

static inline void sim_done(void *ctx, const struct tb_parcel *p)
{
    sim_give(ctx, p->slot);
}

static inline void sim_post_receive(struct sim_end *e, int lane, uint32_t slot)
{
    struct sim_wire *w = &e->wire[lane];

    w->slot[(w->slot_first + w->receives++) % TB_LANE_WINDOW] = slot;
}

static inline void sim_open_lane(struct sim *s, int lane, uint32_t epoch)
{
    int depth = s->depth[lane % TB_CLASSES];

    for (int k = 0; k < 2; k++) {
        struct sim_end *e = &s->end[k];
        struct sim_wire *w = &e->wire[lane];
        while (w->receives < (uint32_t)depth)
            sim_post_receive(e, lane, sim_take(e));
        tb_flow_open(&e->flow, lane, epoch, depth, depth);
    }
    for (int k = 0; k < 2; k++)
        tb_flow_admit(&s->end[k].flow, lane, depth);
}

static inline void sim_init(struct sim *s, int cables, bool keeps)
{
    static const int depth[TB_CLASSES] = {64, 16, 16};

    memset(s, 0, sizeof(*s));
    s->cables = cables;
    s->keeps = keeps;
    s->state = 1;
    s->now = 1;
    memcpy(s->depth, depth, sizeof(depth));
    for (int k = 0; k < 2; k++) {
        struct sim_end *e = &s->end[k];
        e->sim = s;
        e->side = k;
        e->may_hold = true;
        e->slots = calloc(SIM_SLOTS, 4 * sizeof(*e->slots));
        e->free = calloc(SIM_SLOTS, sizeof(*e->free));
        e->seen = calloc(SIM_PACKETS, 1);
        for (uint32_t i = 0; i < SIM_SLOTS; i++)
            e->free[e->n_free++] = i;
        CHECK_EQ(tb_flow_init(&e->flow, cables, sim_done, e), TB_OK);
    }
    for (int i = 0; i < TB_LANES_MOST; i++)
        s->delay[i] = 5;
}

static inline void sim_open(struct sim *s)
{
    for (int i = 0; i < s->cables * TB_CLASSES; i++)
        sim_open_lane(s, i, 1);
}

static inline void sim_fini(struct sim *s)
{
    for (int k = 0; k < 2; k++) {
        tb_flow_fini(&s->end[k].flow);
        free(s->end[k].slots);
        free(s->end[k].free);
        free(s->end[k].seen);
    }
}

static inline void sim_put_on_wire(struct sim_end *e, int lane, uint32_t slot)
{
    struct sim *s = e->sim;
    struct sim_wire *w = &s->end[!e->side].wire[lane];
    struct sim_frame *f = &w->frame[w->last % SIM_WIRE];
    uint32_t dice = sim_draw(s) & 0xffff;
    uint64_t at = s->now + s->delay[lane];

    CHECK(w->last - w->first < SIM_WIRE);
    if (s->jitter)
        at += sim_draw(s) % s->jitter;
    if (w->last != w->first)
        at = TB_MAX(at, w->frame[(w->last - 1) % SIM_WIRE].at);
    memcpy(f->content, sim_at(e, slot), sizeof(f->content));
    f->slot = slot;
    f->at = at;
    f->fate = dice < s->loss               ? SIM_LOST
              : dice < s->loss + s->damage ? SIM_DAMAGED
                                           : SIM_ARRIVES;
    if (s->fate)
        f->fate = s->fate(s);
    w->last++;
}

static inline void sim_post(struct sim_end *e, int lane, uint32_t parcel)
{
    uint32_t slot = e->flow.parcels[parcel].slot;

    tb_flow_post(&e->flow, lane, parcel, sim_at(e, slot));
    sim_put_on_wire(e, lane, slot);
}

/* What waits goes out, oldest first, as far as credit goes. */
static inline void sim_flush(struct sim_end *e)
{
    for (int c = 0; c < TB_CLASSES; c++) {
        while (tb_flow_waits(&e->flow, c)) {
            int lane = tb_flow_choose(&e->flow, c);
            if (lane < 0)
                break;
            sim_post(e, lane, tb_flow_next(&e->flow, c));
        }
    }
}

/* Sends the next packet of a channel, if there is room. */
static inline bool sim_send(struct sim_end *e, enum tb_channel ch,
                            enum tb_class class)
{
    struct sim_packet packet = {ch, e->next[ch]};
    struct tb_header *h;
    uint32_t slot;
    int lane;

    if (tb_flow_waits(&e->flow, class) || !tb_flow_accepts(&e->flow, ch))
        return false;
    lane = tb_flow_choose(&e->flow, class);
    if (lane < 0)
        return false;
    slot = sim_take(e);
    h = sim_at(e, slot);
    memcpy(tb_slot_data(h), &packet, sizeof(packet));
    tb_slot_seal(h, sizeof(packet));
    e->next[ch]++;
    sim_post(e, lane, tb_flow_add(&e->flow, ch, class, slot, false));
    return true;
}

static inline void sim_deliver(struct sim_end *e, const struct tb_header *h)
{
    struct sim_packet packet;

    CHECK(tb_slot_intact(h, sizeof(packet)));
    memcpy(&packet, tb_slot_data((void *)(uintptr_t)h), sizeof(packet));
    CHECK(packet.channel <= TB_BULK);
    if (packet.channel == TB_CONTROL) {
        CHECK_EQ(packet.number, e->got[TB_CONTROL]);
    } else {
        CHECK(packet.number < SIM_PACKETS);
        CHECK(!e->seen[packet.number]);
        e->seen[packet.number] = 1;
    }
    e->got[packet.channel]++;
}

static inline void sim_repost(struct sim_end *e, int lane, uint32_t slot)
{
    sim_post_receive(e, lane, slot);
    tb_flow_posted(&e->flow, lane);
}

/* The frame at the head of a wire meets the receive at the head of its queue.
 */
static inline void sim_arrive(struct sim_end *e, int lane,
                              const struct sim_frame *f)
{
    struct sim_wire *w = &e->wire[lane];
    uint32_t slot = w->slot[w->slot_first++ % TB_LANE_WINDOW], held;
    struct tb_header *h = sim_at(e, slot);
    size_t bytes = sizeof(f->content);
    bool intact;

    w->receives--;
    memcpy(h, f->content, bytes);
    if (f->fate == SIM_DAMAGED)
        ((char *)h)[sim_draw(e->sim) % (sizeof(*h) + 8)] ^= 1;
    intact = tb_header_intact(h, bytes) && tb_slot_intact(h, bytes);
    CHECK(intact || f->fate == SIM_DAMAGED);
    switch (tb_flow_arrive(&e->flow, lane, h, intact, slot, e->may_hold)) {
    case TB_ARRIVAL_TAKE:
        sim_deliver(e, h);
        sim_repost(e, lane, slot);
        break;
    case TB_ARRIVAL_HOLD:
        sim_repost(e, lane, sim_take(e));
        break;
    case TB_ARRIVAL_DROP:
        if (e->flow.lane[lane].open)
            sim_repost(e, lane, slot);
        else
            sim_give(e, slot);
        break;
    }
    while ((held = tb_flow_turn(&e->flow)) != TB_SLOT_NONE) {
        sim_deliver(e, sim_at(e, held));
        sim_give(e, held);
    }
}

/* What has reached this end by now. */
static inline void sim_receive(struct sim_end *e)
{
    struct sim *s = e->sim;

    for (int i = 0; i < s->cables * TB_CLASSES; i++) {
        struct sim_wire *w = &e->wire[i];
        while (w->first != w->last) {
            struct sim_frame *f = &w->frame[w->first % SIM_WIRE];
            if (f->at > s->now || (s->dead >> i & 1))
                break;
            if (f->fate != SIM_LOST && !w->receives) {
                s->early++;
                if (s->keeps)
                    break;
                f->fate = SIM_LOST;
            }
            w->first++;
            if (f->fate != SIM_LOST)
                sim_arrive(e, i, f);
        }
    }
}

/* SENDs complete when they leave, which is before they arrive. */
static inline void sim_complete(struct sim_end *e)
{
    struct sim *s = e->sim;

    for (int i = 0; i < s->cables * TB_CLASSES; i++) {
        struct sim_wire *w = &s->end[!e->side].wire[i];
        while (w->gone != w->last && !(s->dead >> i & 1) && sim_draw(s) % 3) {
            const struct sim_frame *f = &w->frame[w->gone++ % SIM_WIRE];
            tb_flow_completed(&e->flow, i);
            if (f->content->kind == TB_HEADER_REPORTS)
                sim_give(e, f->slot);
        }
    }
}

#define SIM_PATIENCE 200
#define SIM_SETTLE 100
#define SIM_DELAY 20

static inline void sim_timers(struct sim_end *e)
{
    struct sim *s = e->sim;
    struct sim_end *peer = &s->end[!e->side];

    tb_flow_tick(&e->flow, s->now, SIM_SETTLE);
    if (tb_flow_reports_due(&e->flow, s->now, SIM_DELAY)) {
        for (int i = 0; i < s->cables; i++) {
            struct tb_lane *l = &e->flow.lane[i * TB_CLASSES];
            if (tb_lane_space(l) <= 0)
                continue;
            uint32_t slot = sim_take(e);
            size_t n =
                tb_flow_post_reports(&e->flow, i * TB_CLASSES, sim_at(e, slot));
            CHECK(n && n <= TB_LANES_MOST * sizeof(struct tb_report));
            sim_put_on_wire(e, i * TB_CLASSES, slot);
            s->reports++;
            break;
        }
    }
    for (int i = 0; i < s->cables * TB_CLASSES; i++) {
        struct tb_report r;
        uint32_t settled;
        if ((s->dead >> i & 1) ||
            !tb_flow_probe_due(&e->flow, i, s->now, SIM_PATIENCE, &settled))
            continue;
        s->probes++;
        sim_receive(peer);
        if (tb_flow_probed(&peer->flow, i, e->flow.lane[i].epoch, settled)) {
            tb_flow_report(&peer->flow, i, &r);
            CHECK(tb_flow_learn(&e->flow, &r));
        }
    }
}

static inline void sim_step(struct sim *s)
{
    s->now++;
    for (int k = 0; k < 2; k++) {
        sim_receive(&s->end[k]);
        sim_complete(&s->end[k]);
        sim_timers(&s->end[k]);
        sim_flush(&s->end[k]);
    }
}

static inline bool sim_idle(struct sim *s)
{
    return tb_flow_idle(&s->end[0].flow) && tb_flow_idle(&s->end[1].flow);
}

/* Until both ends have acknowledged everything; it must not take long. */
static inline void sim_settle(struct sim *s)
{
    uint64_t limit = s->now + 200000;

    while (!sim_idle(s)) {
        sim_step(s);
        CHECK(s->now < limit);
    }
}

/* Everything that one end sent has reached the other, once. */
static inline void sim_check_complete(struct sim *s)
{
    for (int k = 0; k < 2; k++) {
        for (int ch = 0; ch < 2; ch++)
            CHECK_EQ(s->end[k].next[ch], s->end[!k].got[ch]);
    }
}

#endif
