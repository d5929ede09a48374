/* SPDX-License-Identifier: MIT */
/*
 * Headers, reports and probes of a link (net/slots.h). Two ends talk over
 * simulated cables; now and then one of them gets a frame or a probe that
 * nobody sent, its checksum made right, so that what lies behind is reached.
 */
#define SIM_SLOTS 4096
#include "unit/slots_sim.h"

#include "fuzz/fuzz.h"

static void fuzz_example(struct fuzz *f)
{
    struct tb_header h;

    memset(&h, 0, sizeof(h));
    h.epoch = 1;
    h.tx = 1 + (uint32_t)fuzz_below(f, 80);
    h.number = (uint32_t)fuzz_below(f, 80);
    h.magic = TB_HEADER_MAGIC;
    h.kind = (uint8_t)fuzz_below(f, 3);
    h.lane = (uint8_t)fuzz_below(f, 6);
    h.seal.bytes = (uint32_t)fuzz_below(f, 129);
    for (int i = 0; i < TB_HEADER_REPORTS_RIDING; i++)
        h.riding[i] = (struct tb_report){.lane = (uint8_t)fuzz_below(f, 6),
                                         .epoch = 1,
                                         .open = (uint8_t)fuzz_below(f, 65),
                                         .high = (uint32_t)fuzz_below(f, 80),
                                         .map = fuzz_draw(f)};
    fuzz_add(f, &h, sizeof(h));
    for (size_t i = 0; i < 24; i++)
        fuzz_add(f, &(uint64_t){fuzz_number(f, 8)}, 8);
}

/* As sim_arrive, but nothing is expected of the packet. */
static void arrive(struct sim_end *e, int lane, const struct fuzz *f)
{
    struct sim_wire *w = &e->wire[lane];
    struct tb_header *h;
    uint32_t slot, held;
    size_t room = 4 * sizeof(*h);

    if (!w->receives || e->n_free < 8)
        return;
    w->receives--;
    slot = w->slot[w->slot_first++ % TB_LANE_WINDOW];
    h = sim_at(e, slot);
    memcpy(h, f->data, TB_MIN(f->bytes, room));
    h->check = tb_crc32c(0, h, offsetof(struct tb_header, check));
    switch (tb_flow_arrive(&e->flow, lane, h, tb_header_intact(h, room), slot,
                           true)) {
    case TB_ARRIVAL_HOLD:
        slot = sim_take(e);
        sim_repost(e, lane, slot);
        break;
    default:
        sim_repost(e, lane, slot);
    }
    while ((held = tb_flow_turn(&e->flow)) != TB_SLOT_NONE)
        sim_give(e, held);
}

static void fuzz_try(struct fuzz *f)
{
    struct sim *s = calloc(1, sizeof(*s));
    struct tb_report report;

    CHECK(s);
    sim_init(s, 1 + (int)fuzz_below(f, 2), true);
    sim_open(s);
    for (int k = 0; k < 2; k++) {
        for (size_t n = fuzz_below(f, 30); n > 0; n--)
            sim_send(&s->end[k], (enum tb_channel)fuzz_below(f, 2), TB_SMALL);
    }
    for (int n = 0; n < 6; n++) {
        struct sim_end *e = &s->end[fuzz_below(f, 2)];
        int lane = (int)fuzz_below(f, (size_t)s->cables * TB_CLASSES);
        arrive(e, lane, f);
        memcpy(&report, f->data, sizeof(report));
        tb_flow_learn(&e->flow, &report);
        tb_flow_probed(&e->flow, lane, 1, (uint32_t)fuzz_number(f, 4));
        tb_flow_report(&e->flow, lane, &report);
        s->now += 1000;
        tb_flow_tick(&e->flow, s->now, SIM_SETTLE);
        fuzz_change(f);
    }
    sim_fini(s);
    free(s);
}
