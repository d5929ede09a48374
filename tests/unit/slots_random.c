/* SPDX-License-Identifier: MIT */
/*
 * The reliable link of slots.h under everything at once: loss, damage,
 * transmissions that swap between queue pairs, slots that run short, lanes
 * that fail and start new epochs, cables that die, links that end. Seeds are
 * numbered, so that a failure can be repeated: slots_random [first [last]].
 */
#define SIM_SLOTS 4096
#include "unit/slots_sim.h"

#define PACKETS 3000

/* What is on the wires of a lane is gone, the receives are the owner's. */
static void cut_lane(struct sim *s, int lane)
{
    for (int k = 0; k < 2; k++) {
        struct sim_end *e = &s->end[k], *from = &s->end[!k];
        struct sim_wire *w = &e->wire[lane];
        while (w->receives) {
            sim_give(e, w->slot[w->slot_first++ % TB_LANE_WINDOW]);
            w->receives--;
        }
        while (w->gone != w->last) {
            const struct sim_frame *f = &w->frame[w->gone++ % SIM_WIRE];
            if (f->content->kind == TB_HEADER_REPORTS)
                sim_give(from, f->slot);
        }
        w->first = w->last;
    }
}

/* Both ends close a lane and tell each other a last report, or, where the
 * process at the other end is gone too, do not. */
static void close_lane(struct sim *s, int lane, bool tell)
{
    struct tb_report r[2];

    for (int k = 0; k < 2; k++)
        tb_flow_close(&s->end[k].flow, lane);
    cut_lane(s, lane);
    for (int k = 0; k < 2; k++)
        tb_flow_report(&s->end[k].flow, lane, &r[k]);
    for (int k = 0; k < 2; k++)
        tb_flow_settle(&s->end[k].flow, lane, tell ? &r[!k] : NULL);
}

static void kill_cable(struct sim *s, int cable)
{
    for (int c = 0; c < TB_CLASSES; c++) {
        close_lane(s, cable * TB_CLASSES + c, sim_draw(s) % 2);
        s->dead |= 1u << (cable * TB_CLASSES + c);
    }
}

static void some_epoch(struct sim *s, uint32_t *epoch)
{
    int lane = (int)(sim_draw(s) % (uint32_t)(s->cables * TB_CLASSES));

    if (s->dead >> lane & 1)
        return;
    close_lane(s, lane, sim_draw(s) % 4);
    sim_open_lane(s, lane, ++*epoch);
}

static void set_up(struct sim *s, uint32_t seed)
{
    sim_init(s, 1 + (int)(seed % 4), seed / 4 % 2);
    s->state = seed * 2654435761u + 1;
    s->loss = seed % 3 ? sim_draw(s) % 6000 : 0;
    s->damage = seed % 5 ? sim_draw(s) % 3000 : 0;
    s->jitter = sim_draw(s) % 3 ? 1 + sim_draw(s) % 30 : 0;
    for (int i = 0; i < s->cables * TB_CLASSES; i++)
        s->delay[i] = 1 + sim_draw(s) % 30;
    for (int c = 0; c < TB_CLASSES; c++)
        s->depth[c] = 4 + (int)(sim_draw(s) % 61);
    sim_open(s);
}

static void send_some(struct sim *s)
{
    int k = (int)(sim_draw(s) % 2);
    enum tb_channel ch = sim_draw(s) % 3 ? TB_CONTROL : TB_BULK;

    sim_send(&s->end[k], ch, sim_draw(s) % TB_CLASSES);
    s->end[k].may_hold = sim_draw(s) % 8;
}

/* Slots neither leak nor are freed twice: all but the posted are free. */
static void check_slots(struct sim *s)
{
    for (int k = 0; k < 2; k++) {
        struct sim_end *e = &s->end[k];
        uint32_t n = e->n_free;
        for (int i = 0; i < s->cables * TB_CLASSES; i++)
            n += e->wire[i].receives;
        CHECK_EQ(n, SIM_SLOTS);
    }
}

static void run(uint32_t seed)
{
    struct sim s;
    uint32_t epoch = 1;

    set_up(&s, seed);
    for (int i = 0; i < PACKETS; i++) {
        send_some(&s);
        if (sim_draw(&s) % 3 == 0)
            sim_step(&s);
        if (seed % 7 == 0 && sim_draw(&s) % 100 == 0)
            some_epoch(&s, &epoch);
        if (seed % 6 == 5 && s.cables > 1 && i == PACKETS / 2)
            kill_cable(&s, (int)(sim_draw(&s) % (uint32_t)s.cables));
    }
    s.end[0].may_hold = s.end[1].may_hold = true;
    sim_settle(&s);
    sim_check_complete(&s);
    for (int i = 0; i < 2000; i++)
        sim_step(&s);
    check_slots(&s);
    CHECK_EQ(s.early, 0);
    CHECK_EQ(s.end[0].flow.count.stale + s.end[1].flow.count.stale, 0);
    sim_fini(&s);
}

/* The link ends in mid-flow: each packet has been taken over or comes back,
 * never both; early ones that were held count as taken over. */
static void run_to_the_end(uint32_t seed)
{
    struct sim s;
    int most = (int)(seed % 1000);

    set_up(&s, seed);
    for (int i = 0; i < most; i++) {
        send_some(&s);
        if (sim_draw(&s) % 3 == 0)
            sim_step(&s);
    }
    for (int i = 0; i < s.cables * TB_CLASSES; i++)
        close_lane(&s, i, true);
    for (int k = 0; k < 2; k++) {
        struct sim_end *e = &s.end[k];
        struct tb_parcel p;
        uint32_t slot, held = e->flow.holding;
        while ((slot = tb_flow_release(&e->flow)) != TB_SLOT_NONE) {
            sim_give(e, slot);
            held--;
        }
        CHECK_EQ(held, 0);
        while (tb_flow_reclaim(&e->flow, &p)) {
            struct sim_packet packet;
            memcpy(&packet, tb_slot_data(sim_at(e, p.slot)), sizeof(packet));
            CHECK_EQ(packet.channel, p.channel);
            if (p.channel == TB_BULK)
                CHECK(!s.end[!k].seen[packet.number]);
            else
                CHECK(packet.number >= s.end[!k].got[TB_CONTROL]);
            e->reclaimed[p.channel]++;
            sim_give(e, p.slot);
        }
        CHECK(tb_flow_idle(&e->flow));
    }
    check_slots(&s);
    for (int k = 0; k < 2; k++)
        CHECK_EQ(s.end[k].next[TB_BULK],
                 s.end[!k].got[TB_BULK] + s.end[k].reclaimed[TB_BULK]);
    sim_fini(&s);
}

int main(int argc, char **argv)
{
    uint32_t first = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    uint32_t last = argc > 2 ? (uint32_t)atoi(argv[2]) : first + 249;

    for (uint32_t seed = first; seed <= last; seed++) {
        run(seed);
        run_to_the_end(seed);
    }
    return 0;
}
