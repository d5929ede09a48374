/* SPDX-License-Identifier: MIT */
/*
 * The reliable link of slots.h, case by case: every fate of every transmission
 * of a short exchange, credit, order, duplicates, reports that overtake one
 * another, probes, and what is given back when a link ends.
 */
#include "unit/slots_sim.h"

/* ------------------------------------------------ every fate of every send */

#define FATES 8

static int fate_code, fate_at;

static enum sim_fate scripted(struct sim *s)
{
    int digit = fate_code;

    (void)s;
    if (fate_at >= FATES)
        return SIM_ARRIVES;
    for (int i = 0; i < fate_at; i++)
        digit /= 3;
    fate_at++;
    return (enum sim_fate)(digit % 3);
}

/* Eight packets in a row; the first eight transmissions have each of the 3^8
 * combinations of fates: arrives, lost without a trace, arrives damaged. */
static void every_fate(bool keeps, int depth)
{
    for (fate_code = 0; fate_code < 6561; fate_code++) {
        struct sim s;
        int sent = 0;

        sim_init(&s, 1, keeps);
        s.depth[TB_SMALL] = depth;
        s.fate = scripted;
        fate_at = 0;
        sim_open(&s);
        while (sent < FATES) {
            enum tb_channel ch = sent % 3 ? TB_CONTROL : TB_BULK;
            if (sim_send(&s.end[0], ch, TB_SMALL))
                sent++;
            else
                sim_step(&s);
            CHECK(s.now < 100000);
        }
        sim_settle(&s);
        sim_check_complete(&s);
        CHECK_EQ(s.early, 0);
        CHECK_EQ(s.end[0].flow.count.stale + s.end[1].flow.count.stale, 0);
        sim_fini(&s);
    }
}

/* ------------------------------------------------------------------ credit */

/* Credit ends where the posted receives end, and a loss that used none up
 * costs none. */
static void test_credit(void)
{
    struct sim s;
    int n = 0;

    sim_init(&s, 1, true);
    sim_open(&s);
    while (sim_send(&s.end[0], TB_BULK, TB_LARGE))
        n++;
    CHECK_EQ(n, 16);
    CHECK(s.end[0].flow.lane[TB_LARGE].wanted);
    s.loss = 65536; /* nobody hears of anything */
    for (int i = 0; i < 100; i++)
        sim_step(&s);
    s.loss = 0;
    sim_settle(&s);
    sim_check_complete(&s);
    CHECK_EQ(s.early, 0);
    /* All credit is back. */
    for (n = 0; sim_send(&s.end[0], TB_BULK, TB_LARGE); n++)
        continue;
    CHECK_EQ(n, 16);
    sim_settle(&s);
    sim_fini(&s);
}

/* Packets leave some small credit to reports, so that two ends out of credit
 * for packets still hear of each other. */
static void test_reserve(void)
{
    struct sim s;
    int n[2] = {0, 0};

    sim_init(&s, 1, false);
    sim_open(&s);
    for (int k = 0; k < 2; k++) {
        while (sim_send(&s.end[k], TB_BULK, TB_SMALL))
            n[k]++;
        CHECK_EQ(n[k], 62);
    }
    sim_settle(&s);
    CHECK_EQ(s.probes, 0);
    CHECK_EQ(s.early, 0);
    sim_check_complete(&s);
    sim_fini(&s);
}

/* A stream in one direction costs a transmission of reports every half window,
 * and silence afterwards costs nothing. */
static void test_lazy(void)
{
    enum { N = 6400 };
    struct sim s;
    long reports;
    int sent = 0;

    sim_init(&s, 1, true);
    sim_open(&s);
    while (sent < N) {
        if (sim_send(&s.end[0], TB_CONTROL, TB_SMALL))
            sent++;
        else
            sim_step(&s);
    }
    sim_settle(&s);
    CHECK(s.reports <= N / 32 + 10);
    CHECK_EQ(s.probes, 0);
    for (int i = 0; i < 10000; i++)
        sim_step(&s);
    reports = s.reports;
    for (int i = 0; i < 10000; i++)
        sim_step(&s);
    CHECK_EQ(s.reports, reports);
    CHECK_EQ(s.probes, 0);
    sim_check_complete(&s);
    sim_fini(&s);
}

/* A receiver that gives its slots back late opens the lane again without
 * being asked. */
static void test_late_receives(void)
{
    struct sim s;
    struct tb_flow *f;
    struct sim_wire *w;
    uint32_t kept[16];
    int n = 0;

    sim_init(&s, 1, true);
    sim_open(&s);
    f = &s.end[1].flow;
    w = &s.end[1].wire[TB_LARGE];
    while (sim_send(&s.end[0], TB_BULK, TB_LARGE))
        n++;
    for (int i = 0; i < 10; i++)
        s.now++;
    /* As sim_receive, but nothing is posted again. */
    for (int i = 0; i < n; i++) {
        struct tb_header *h;
        kept[i] = w->slot[w->slot_first++ % TB_LANE_WINDOW];
        w->receives--;
        h = sim_at(&s.end[1], kept[i]);
        memcpy(h, w->frame[w->first++ % SIM_WIRE].content, sizeof(*h) + 8);
        CHECK_EQ(tb_flow_arrive(f, TB_LARGE, h, true, kept[i], true),
                 TB_ARRIVAL_TAKE);
        sim_deliver(&s.end[1], h);
    }
    for (int i = 0; i < 100; i++)
        sim_step(&s);
    CHECK(tb_flow_idle(&s.end[0].flow));
    CHECK(!sim_send(&s.end[0], TB_BULK, TB_LARGE));
    s.end[0].flow.lane[TB_LARGE].wanted = false;
    sim_repost(&s.end[1], TB_LARGE, kept[0]);
    for (int i = 0; i < 60; i++)
        sim_step(&s);
    CHECK(sim_send(&s.end[0], TB_BULK, TB_LARGE));
    CHECK(!sim_send(&s.end[0], TB_BULK, TB_LARGE));
    CHECK_EQ(s.probes, 0);
    CHECK_EQ(s.early, 0);
    sim_fini(&s);
}

/* ----------------------------------------------------------------- reports */

/* Old reports, in whatever order, change nothing; impossible ones are said to
 * be. */
static void test_report_order(void)
{
    enum { N = 40 };
    struct tb_report r[N + 1];
    struct sim s;

    sim_init(&s, 1, true);
    sim_open(&s);
    tb_flow_report(&s.end[1].flow, TB_SMALL, &r[0]);
    for (int i = 1; i <= N; i++) {
        CHECK(sim_send(&s.end[0], TB_CONTROL, TB_SMALL));
        s.now += 10;
        sim_receive(&s.end[1]);
        tb_flow_report(&s.end[1].flow, TB_SMALL, &r[i]);
    }
    sim_complete(&s.end[0]);
    for (int i = N; i >= 0; i -= 7) {
        CHECK(tb_flow_learn(&s.end[0].flow, &r[i]));
        CHECK_EQ(s.end[0].flow.lane[TB_SMALL].known, N);
        CHECK_EQ(s.end[0].flow.lane[TB_SMALL].limit, N + 64);
    }
    r[N].high = N + 1;
    CHECK(!tb_flow_learn(&s.end[0].flow, &r[N]));
    r[N].high = N;
    r[N].open = 65;
    CHECK(!tb_flow_learn(&s.end[0].flow, &r[N]));
    r[N].open = 64;
    r[N].lane = 3;
    CHECK(!tb_flow_learn(&s.end[0].flow, &r[N]));
    r[N].lane = TB_SMALL;
    r[N].epoch = 9; /* of another epoch: of no interest */
    CHECK(tb_flow_learn(&s.end[0].flow, &r[N]));
    sim_fini(&s);
}

/* Numbers of transmissions and packets wrap around. */
static void test_wrap(void)
{
    struct sim s;
    int sent = 0;

    sim_init(&s, 2, false);
    sim_open(&s);
    s.loss = 3000;
    s.damage = 1000;
    s.jitter = 9;
    for (int k = 0; k < 2; k++) {
        struct tb_flow *f = &s.end[k].flow;
        for (int i = 0; i < f->lanes; i++) {
            struct tb_lane *l = &f->lane[i];
            l->sent = l->done = l->known = l->high = 0xffffff00u;
            l->settled = l->settling = l->told_high = l->sent;
            l->limit += l->sent;
            l->told_limit += l->sent;
        }
        for (int ch = 0; ch < 2; ch++) {
            f->out[ch].base = f->out[ch].next = 0xffffff80u;
            f->in[ch].base = 0xffffff80u;
        }
        f->born = 0xfffffff0u;
    }
    while (sent < 5000) {
        enum tb_channel ch = sim_draw(&s) % 2 ? TB_CONTROL : TB_BULK;
        if (sim_send(&s.end[sent % 2], ch, sim_draw(&s) % TB_CLASSES))
            sent++;
        else
            sim_step(&s);
    }
    sim_settle(&s);
    sim_check_complete(&s);
    CHECK_EQ(s.early, 0);
    sim_fini(&s);
}

/* ------------------------------------------------------- order, duplicates */

/* Arrives as transmission `tx` on the small lane of `e`. */
static enum tb_arrival arrive(struct sim_end *e, uint32_t tx, uint32_t number,
                              uint8_t kind, bool may_hold)
{
    struct tb_lane *l = &e->flow.lane[TB_SMALL];
    uint32_t slot = sim_take(e);
    struct tb_header *h = sim_at(e, slot);
    enum tb_arrival what;

    memset(h, 0, sizeof(*h));
    h->epoch = l->epoch;
    h->tx = tx;
    h->number = number;
    h->kind = kind;
    for (int i = 0; i < TB_HEADER_REPORTS_RIDING; i++)
        h->riding[i].lane = TB_REPORT_NONE;
    what = tb_flow_arrive(&e->flow, TB_SMALL, h, true, slot, may_hold);
    tb_flow_posted(&e->flow, TB_SMALL);
    return what;
}

static void test_early_packets(void)
{
    struct tb_report r;
    struct sim s;
    struct sim_end *e = &s.end[1];

    sim_init(&s, 1, true);
    sim_open(&s);
    CHECK_EQ(arrive(e, 1, 2, TB_CONTROL, true), TB_ARRIVAL_HOLD);
    CHECK_EQ(tb_flow_turn(&e->flow), TB_SLOT_NONE);
    CHECK_EQ(arrive(e, 2, 2, TB_CONTROL, true), TB_ARRIVAL_DROP);
    /* No slot to spare: as if it had been lost. */
    CHECK_EQ(arrive(e, 3, 1, TB_CONTROL, false), TB_ARRIVAL_DROP);
    tb_flow_report(&e->flow, TB_SMALL, &r);
    CHECK_EQ(r.map, 6);
    CHECK_EQ(arrive(e, 4, 0, TB_CONTROL, false), TB_ARRIVAL_TAKE);
    CHECK_EQ(tb_flow_turn(&e->flow), TB_SLOT_NONE);
    CHECK_EQ(arrive(e, 5, 1, TB_CONTROL, false), TB_ARRIVAL_TAKE);
    CHECK(tb_flow_turn(&e->flow) != TB_SLOT_NONE);
    CHECK_EQ(tb_flow_turn(&e->flow), TB_SLOT_NONE);
    CHECK_EQ(arrive(e, 6, 1, TB_CONTROL, true), TB_ARRIVAL_DROP);
    /* BULK in any order, once. */
    CHECK_EQ(arrive(e, 7, 5, TB_BULK, false), TB_ARRIVAL_TAKE);
    CHECK_EQ(arrive(e, 8, 0, TB_BULK, false), TB_ARRIVAL_TAKE);
    CHECK_EQ(arrive(e, 9, 5, TB_BULK, false), TB_ARRIVAL_DROP);
    CHECK_EQ(arrive(e, 10, 0, TB_BULK, false), TB_ARRIVAL_DROP);
    CHECK_EQ(arrive(e, 11, 1023, TB_BULK, false), TB_ARRIVAL_TAKE);
    CHECK_EQ(arrive(e, 12, 1025, TB_BULK, false), TB_ARRIVAL_DROP);
    CHECK_EQ(e->flow.count.duplicates, 5);
    /* A transmission seen before, and one that is too far on. */
    CHECK_EQ(arrive(e, 12, 4, TB_BULK, true), TB_ARRIVAL_DROP);
    CHECK_EQ(arrive(e, 12 + 65, 4, TB_BULK, true), TB_ARRIVAL_DROP);
    CHECK_EQ(e->flow.count.stale, 2);
    CHECK_EQ(arrive(e, 12 + 64, 4, TB_BULK, true), TB_ARRIVAL_TAKE);
    tb_flow_report(&e->flow, TB_SMALL, &r);
    CHECK_EQ(r.map, 1);
    sim_fini(&s);
}

/* Nothing in a header is believed because its checksum is right. */
static void test_header_sanity(void)
{
    static const struct {
        uint32_t bytes;
        uint16_t magic;
        uint8_t kind;
        bool intact;
    } cases[] = {
        {4032, TB_HEADER_MAGIC, TB_HEADER_BULK, true},
        {4033, TB_HEADER_MAGIC, TB_HEADER_BULK, false},
        {UINT32_MAX, TB_HEADER_MAGIC, TB_HEADER_BULK, false},
        {10, TB_HEADER_MAGIC + 1, TB_HEADER_BULK, false},
        {10, TB_HEADER_MAGIC, TB_HEADER_REPORTS + 1, false},
    };

    for (size_t i = 0; i < TB_COUNT_OF(cases); i++) {
        struct tb_header h = {.magic = cases[i].magic, .kind = cases[i].kind};
        h.seal.bytes = cases[i].bytes;
        h.check = tb_crc32c(0, &h, offsetof(struct tb_header, check));
        CHECK_EQ(tb_header_intact(&h, TB_FRAME), cases[i].intact);
        CHECK(!tb_header_intact(&h, sizeof(h) - 1));
        h.tx ^= 1;
        CHECK(!tb_header_intact(&h, TB_FRAME));
    }
}

/* A link that ends gives up what it holds, in order. */
static void test_release(void)
{
    struct sim s;
    struct sim_end *e = &s.end[1];
    uint32_t last = 0;

    sim_init(&s, 1, true);
    sim_open(&s);
    for (uint32_t i = 1; i < 8; i += 2)
        CHECK_EQ(arrive(e, i, i * 3, TB_CONTROL, true), TB_ARRIVAL_HOLD);
    for (int i = 0; i < 4; i++) {
        uint32_t slot = tb_flow_release(&e->flow);
        CHECK(slot != TB_SLOT_NONE);
        CHECK(sim_at(e, slot)->number > last);
        last = sim_at(e, slot)->number;
    }
    CHECK_EQ(tb_flow_release(&e->flow), TB_SLOT_NONE);
    sim_fini(&s);
}

/* ---------------------------------------------------------- probes, epochs */

static void test_probe_sanity(void)
{
    struct sim s;
    struct tb_flow *f = &s.end[1].flow;

    sim_init(&s, 1, true);
    sim_open(&s);
    CHECK(tb_flow_probed(f, 0, 1, 0));
    CHECK(tb_flow_probed(f, 0, 1, 64));
    CHECK_EQ(f->lane[0].high, 64);
    CHECK(!tb_flow_probed(f, 0, 1, 64 + 65));
    CHECK(!tb_flow_probed(f, 0, 2, 65));
    CHECK(!tb_flow_probed(f, -1, 1, 65));
    CHECK(!tb_flow_probed(f, 3, 1, 65));
    CHECK_EQ(f->lane[0].high, 64);
    tb_flow_close(f, 0);
    CHECK(!tb_flow_probed(f, 0, 1, 65));
    sim_fini(&s);
}

/* What a probe declared lost turns up after all: dropped, and sent again all
 * the same; nothing is doubled. */
static void test_late(void)
{
    struct sim s;

    sim_init(&s, 1, false);
    s.delay[TB_SMALL] = 1000; /* far longer than the settle time */
    sim_open(&s);
    for (int i = 0; i < 10; i++)
        CHECK(sim_send(&s.end[0], TB_CONTROL, TB_SMALL));
    sim_settle(&s);
    for (int i = 0; i < 3000; i++)
        sim_step(&s);
    CHECK(s.end[1].flow.count.stale > 0);
    sim_check_complete(&s);
    sim_fini(&s);
}

/* A refused post leaves the packet with the link. */
static void test_unpost(void)
{
    struct sim s;
    struct sim_end *e = &s.end[0];
    struct tb_flow *f = &e->flow;
    uint32_t slot, parcel;

    sim_init(&s, 1, true);
    sim_open(&s);
    slot = sim_take(e);
    parcel = tb_flow_add(f, TB_CONTROL, TB_SMALL, slot, false);
    tb_flow_post(f, 0, parcel, sim_at(e, slot));
    tb_flow_unpost(f, 0);
    CHECK_EQ(f->lane[0].sent, 0);
    CHECK_EQ(f->load[0], 0);
    CHECK(tb_flow_waits(f, TB_SMALL));
    CHECK_EQ(tb_flow_next(f, TB_SMALL), parcel);
    CHECK(!tb_flow_waits(f, TB_SMALL));
    tb_flow_post_reports(f, 0, sim_at(e, slot));
    tb_flow_unpost(f, 0);
    CHECK_EQ(f->load[0], 0);
    sim_fini(&s);
}

/* The packets that the neighbour lacks come back, oldest first, no others. */
static void test_reclaim(void)
{
    struct sim s;
    struct sim_end *a = &s.end[0], *b = &s.end[1];
    struct tb_parcel p;
    uint32_t born = 0, back = 0;

    sim_init(&s, 2, true);
    sim_open(&s);
    for (int i = 0; i < 60; i++) {
        CHECK(sim_send(a, i % 2 ? TB_BULK : TB_CONTROL, TB_SMALL));
        if (i == 30) {
            s.now += 100;
            sim_receive(b);
        }
    }
    for (int i = 0; i < s.cables * TB_CLASSES; i++) {
        struct tb_report r;
        tb_flow_close(&b->flow, i);
        tb_flow_close(&a->flow, i);
        tb_flow_report(&b->flow, i, &r);
        tb_flow_settle(&a->flow, i, &r);
    }
    CHECK(!tb_flow_idle(&a->flow));
    while (tb_flow_reclaim(&a->flow, &p)) {
        CHECK(!back || p.born == born + 1);
        born = p.born;
        back++;
    }
    CHECK_EQ(back + b->got[0] + b->got[1], 60);
    CHECK_EQ(back, 29);
    CHECK(tb_flow_idle(&a->flow));
    sim_fini(&s);
}

static void test_no_memory(void)
{
    struct tb_flow f;

    for (long n = 0; n < 2; n++) {
        tb_mem_fail_after(n);
        CHECK_EQ(tb_flow_init(&f, 1, sim_done, NULL), TB_ERR_NO_MEM);
    }
    tb_mem_fail_after(-1);
}

int main(void)
{
    every_fate(true, 64);
    every_fate(false, 4);
    test_credit();
    test_reserve();
    test_lazy();
    test_late_receives();
    test_report_order();
    test_wrap();
    test_early_packets();
    test_header_sanity();
    test_release();
    test_probe_sanity();
    test_late();
    test_unpost();
    test_reclaim();
    test_no_memory();
    return 0;
}
