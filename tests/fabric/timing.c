/* SPDX-License-Identifier: MIT */
/*
 * The model of the wire. Nothing may come earlier than the model says, ever;
 * how much later it comes depends on how loaded the machine is, so a figure is
 * taken again, for at most LIMIT, until it is within its room.
 */
#include "fabric/rig.h"

#define US 1000u
#define MS 1000000u
#define LIMIT (15ull * SECOND)
/* A sanitizer's copies are slow. */
#ifdef __SANITIZE_THREAD__
#define ROOMIER 10
#else
#define ROOMIER 1
#endif

static struct end a, b; /* on one cable */

static void open_both(const char *settings)
{
    rig_make(settings);
    rig_connect(&a, &b);
}

/* From the post of a SEND until its RECV completes. */
static uint64_t flight(struct end *from, struct end *to, uint32_t bytes)
{
    struct tb_ibv_wc wc;
    uint64_t start, arrived;
    bool sent = false;

    CHECK_EQ(rig_recv(to, 1, 0, bytes), 0);
    start = tb_now();
    CHECK_EQ(rig_send(from, 2, 0, bytes), 0);
    while (!tb_ibv_poll_cq(to->cq, 1, &wc))
        sent |= tb_ibv_poll_cq(from->cq, 1, &wc);
    arrived = tb_now();
    if (!sent)
        rig_expect(from, 2, TB_IBV_WC_SEND);
    return arrived - start;
}

static uint64_t forward(uint32_t bytes)
{
    return flight(&a, &b, bytes);
}

static void expect_time(uint64_t (*take)(uint32_t), uint32_t bytes,
                        uint64_t model, uint64_t room)
{
    uint64_t until = tb_now() + LIMIT, best = UINT64_MAX;

    room *= ROOMIER;
    while (best > model + room && tb_now() < until) {
        best = TB_MIN(best, take(bytes));
        CHECK(best >= model);
    }
    if (best > model + room) {
        fprintf(stderr, "took %llu ns, modelled are %llu, and %llu of room\n",
                (unsigned long long)best, (unsigned long long)model,
                (unsigned long long)room);
        exit(1);
    }
}

static void a_small_message_takes_the_latency(void)
{
    open_both("set latency 300us\n");
    expect_time(forward, 8, 300 * US, 100 * US);
    rig_fault("set latency 50us");
    expect_time(forward, 8, 50 * US, 100 * US);
    rig_end(&a, &b);
}

static void a_long_message_takes_its_wire_time(void)
{
    static const char *const how[] = {"late", "post"};

    for (int i = 0; i < 2; i++) {
        open_both("set latency 10us\nset rate 1\n");
        rig_fault("set send_read %s", how[i]);
        expect_time(forward, 1000000, 1010 * US, 700 * US);
        rig_end(&a, &b);
    }
}

/* A RECV's bytes are there only when it completes, and not all at its end:
 * a program that waits for the last byte sees the time of the wire. */
static void the_wire_is_shared_by_what_is_posted_together(void)
{
    uint64_t start;

    open_both("set latency 0\nset rate 1\n");
    for (uint64_t i = 0; i < 4; i++)
        CHECK_EQ(rig_recv(&b, i, 0, 250000), 0);
    start = tb_now();
    for (uint64_t i = 0; i < 4; i++)
        CHECK_EQ(rig_send(&a, i, 0, 250000), 0);
    for (uint64_t i = 0; i < 4; i++) {
        rig_expect(&a, i, TB_IBV_WC_SEND);
        rig_expect(&b, i, TB_IBV_WC_RECV);
        CHECK(tb_now() - start >= (i + 1) * 250 * US);
    }
    rig_end(&a, &b);
}

/* Time until both of two messages of a millisecond have arrived. */
static uint64_t both(struct end *a1, struct end *b1, struct end *a2,
                     struct end *b2, uint32_t bytes)
{
    uint64_t start;
    int got = 0;
    struct tb_ibv_wc wc;

    CHECK_EQ(rig_recv(b1, 1, 0, bytes), 0);
    CHECK_EQ(rig_recv(b2, 1, 0, bytes), 0);
    start = tb_now();
    CHECK_EQ(rig_send(a1, 2, 0, bytes), 0);
    CHECK_EQ(rig_send(a2, 2, 0, bytes), 0);
    while (got < 4) {
        got += tb_ibv_poll_cq(a1->cq, 1, &wc);
        got += tb_ibv_poll_cq(b1->cq, 1, &wc);
        got += tb_ibv_poll_cq(a2->cq, 1, &wc);
        got += tb_ibv_poll_cq(b2->cq, 1, &wc);
    }
    return tb_now() - start;
}

static uint64_t there_and_back(uint32_t bytes)
{
    return both(&a, &b, &b, &a, bytes);
}

static void both_directions_go_at_once(void)
{
    open_both("set latency 0\nset rate 1\n");
    expect_time(there_and_back, 1000000, 1000 * US, 900 * US);
    rig_end(&a, &b);
}

static void open_second(struct end *one, struct end *two)
{
    struct end *end[2] = {one, two};

    for (int host = 0; host < 2; host++) {
        struct end *e = end[host];
        memset(e, 0, sizeof(*e));
        e->context = rig_open(host, 1);
        e->gid_index = (uint8_t)rig_find_ipv4(e->context, &e->gid);
        e->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANON, -1, 0);
        CHECK(e->pd = rig_alloc_pd(e->context));
        CHECK(e->cq = rig_create_cq(e->context, 64, NULL, NULL, 0));
        e->memory += -(uintptr_t)e->memory % TB_PAGE;
        CHECK(e->mr = rig_reg_mr(e->pd, e->memory, MEMORY - TB_PAGE, ACCESS));
        CHECK(e->qp = rig_pair(e, 1023));
    }
    rig_join(one, two);
}

static struct end c, d; /* on the other */

static uint64_t on_two_cables(uint32_t bytes)
{
    return both(&a, &b, &c, &d, bytes);
}

static void cables_are_independent(void)
{
    rig_describe("host 0 x\nhost 1 y\n"
                 "cable 0 0 en2 169.254.1.1 1 en2 169.254.1.2\n"
                 "cable 1 0 en3 169.254.2.1 1 en3 169.254.2.2\n"
                 "set latency 0\nset rate 1\n");
    rig_connect(&a, &b);
    open_second(&c, &d);
    expect_time(on_two_cables, 1000000, 1000 * US, 900 * US);
    /* And one of them may be slower. */
    rig_fault("set latency 3ms 1");
    CHECK(flight(&c, &d, 64) >= 3 * MS);
    expect_time(forward, 64, 0, MS);
    rig_end(&c, &d);
    rig_end(&a, &b);
}

static struct end a2, b2; /* a second queue pair on the first */

/* Posts ten messages of `bytes` on one queue pair and a small one on another;
 * returns when the small one has arrived. */
static uint64_t beside_a_long_queue(uint32_t bytes)
{
    uint64_t start, small = 0, length = 10ull * bytes; /* at 1 GB/s: in ns */
    int got = 0, sent = 0;
    struct tb_ibv_wc wc;

    for (uint64_t i = 0; i < 10; i++)
        CHECK_EQ(rig_recv(&b, i, 0, bytes), 0);
    CHECK_EQ(rig_recv(&b2, 1, 1 << 20, 64), 0);
    start = tb_now();
    for (uint64_t i = 0; i < 10; i++)
        CHECK_EQ(rig_send(&a, i, 0, bytes), 0);
    CHECK_EQ(rig_send(&a2, 1, 0, 64), 0);
    while (got < 10 || sent < 11 || !small) {
        sent += tb_ibv_poll_cq(a.cq, 1, &wc);
        sent += tb_ibv_poll_cq(a2.cq, 1, &wc);
        if (tb_ibv_poll_cq(b2.cq, 1, &wc))
            small = tb_now() - start;
        if (tb_ibv_poll_cq(b.cq, 1, &wc) && ++got == 10)
            CHECK(tb_now() - start >= length);
    }
    return small;
}

/* Two queue pairs of one device take turns; neither waits for all that the
 * other has posted, and together they are no faster than the wire. */
static void queue_pairs_take_turns(void)
{
    open_both("set latency 0\nset rate 1\n");
    a2 = a;
    b2 = b;
    CHECK(a2.cq = rig_create_cq(a.context, 64, NULL, NULL, 0));
    CHECK(b2.cq = rig_create_cq(b.context, 64, NULL, NULL, 0));
    CHECK(a2.qp = rig_pair(&a2, 64));
    CHECK(b2.qp = rig_pair(&b2, 64));
    rig_join(&a2, &b2);
    expect_time(beside_a_long_queue, 1000000, 0, 2 * MS);
    CHECK_EQ(rig_destroy_qp(a2.qp), 0);
    CHECK_EQ(rig_destroy_qp(b2.qp), 0);
    CHECK_EQ(rig_destroy_cq(a2.cq), 0);
    CHECK_EQ(rig_destroy_cq(b2.cq), 0);
    rig_end(&a, &b);
}

int main(void)
{
    a_small_message_takes_the_latency();
    a_long_message_takes_its_wire_time();
    the_wire_is_shared_by_what_is_posted_together();
    both_directions_go_at_once();
    cables_are_independent();
    queue_pairs_take_turns();
    return 0;
}
