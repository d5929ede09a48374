/* SPDX-License-Identifier: MIT */
/*
 * The rdma transport on devices of all kinds: other depths, other places of the
 * address, other permissions, damage, and everything that can be wrong with one
 * when a link comes up.
 *
 *     devices [test's name]
 */
#include "transport/pair.h"

/* On a fabric that does no harm nothing is lost, repaired or renewed, from the
 * first packet on, also where a SEND that finds no receive is dropped. */
static void run_clean(int cables, const char *settings)
{
    struct rig r;
    struct end a, b;
    struct tb_rdma_counts c;
    uint64_t number[2] = {0, 0};
    uint32_t state = 9;

    rig_init_macs(&r, 2, cables, settings);
    end_init(&a, &r, 0);
    end_init(&b, &r, 1);
    a.partner = &b;
    while (a.packets < 4000 || b.packets < 4000) {
        size_t bytes = draw_bytes(&state, a.limits.packet_max);
        if (number[0] < 4000 && !try_send(&a, 1, TB_CONTROL, number[0], bytes))
            number[0]++;
        if (number[1] < 4000 && !try_send(&b, 0, TB_CONTROL, number[1], bytes))
            number[1]++;
        end_poll(&a);
        CHECK_EQ(a.losts + b.losts, 0);
    }
    c = counts(&a);
    CHECK_EQ(c.lost + c.damaged + c.epochs + c.stale, 0);
    c = counts(&b);
    CHECK_EQ(c.lost + c.damaged + c.epochs + c.stale, 0);
    close_two(&a, &b);
    check_returned(&r);
    rig_fini(&r);
}

static void test_clean(void)
{
    run_clean(1, "");
    run_clean(2, "set credit drop\n");
    run_clean(1, "set scribble all\nset mismatch queue\n");
}

/* The device grants half of what was asked for, rounded to nothing. */
static void test_granted_depth(void)
{
    run_clean(1, "set depth half\n");
    run_clean(1, "set depth exact\n");
}

/* The address is elsewhere in the table of GIDs; regions want the narrow or the
 * wide access flags. */
static void test_gid_index(void)
{
    run_clean(1, "set gid_index 2\n");
    run_clean(2, "set gid_index 0\nset mr_access local\n");
    run_clean(1, "set mr_access wide\nset mr_scope pd\n");
}

/* Damage without loss: each damaged slot is noticed, and sent again. */
static void test_damage(void)
{
    struct rig r;
    struct end a, b;
    uint64_t number = 0;

    rig_init_macs(&r, 2, 1, "set corrupt 2%\n");
    open_two(&r, &a, &b);
    while (number < 3000) {
        send_packet(&a, 1, TB_CONTROL, number, 200 + number * 37 % 3000);
        number++;
    }
    await_packets(&b, (long)number);
    CHECK_EQ(b.next[0], number);
    CHECK(counts(&b).damaged > 10);
    close_two(&a, &b);
    rig_fini(&r);
}

/* Verbs are not touched before every peer has answered. */
static void test_verbs_last(void)
{
    struct rig r;
    struct end e[3];
    struct macs_held held;

    rig_init_macs(&r, 3, 1, "");
    end_init(&e[0], &r, 0);
    end_init(&e[1], &r, 1);
    for (uint64_t start = tb_now(); tb_now() - start < 100000000u;) {
        end_poll(&e[0]);
        end_poll(&e[1]);
    }
    held = macs_held(&r.macs);
    CHECK_EQ(held.qps + held.pds, 0);
    end_init(&e[2], &r, 2);
    ends_meet(&e[2], &e[0]);
    for (int i = 0; i < 3; i++)
        end_fini(&e[i]);
    rig_fini(&r);
}

/* Opens Mac 0 on a fabric where that cannot work; the note must say so. */
static void expect_failure(const char *settings, const char *fault,
                           const char *note)
{
    struct rig r;
    struct end a, b;

    rig_init_macs(&r, 2, 1, settings);
    if (*fault)
        macs_fault(&r.macs, "%s", fault);
    end_init(&b, &r, 1);
    end_init(&a, &r, 0);
    while (!a.losts) {
        end_poll(&b);
        end_poll(&a);
    }
    if (!strstr(tb_fail_note(), note)) {
        fprintf(stderr, "%s\nlacks: %s\n", tb_fail_note(), note);
        exit(1);
    }
    close_two(&a, &b);
    check_returned(&r);
    rig_fini(&r);
}

/* What cannot work is said with its cause and its remedy. */
static void test_causes(void)
{
    expect_failure("", "port 0 rdma_en0 down", "the port is down");
    expect_failure("", "address 0 rdma_en0 none",
                   "no RDMA device has the address");
    expect_failure("set neighbour empty\n", "", "ping the other end once");
    expect_failure("set rtr_errno 96\n", "", "run out of resources");
    expect_failure("set rtr_errno 22\n", "", "out of bridge0");
    expect_failure("set qp_max 2\n", "", "queue pairs of the device are taken");
    expect_failure("set mr_max 0\n", "", "memory region left");
    expect_failure("set pd_max 0\n", "", "protection domain left");
}

/* A machine without a device: not an error that ends anything, but a reason to
 * go another way. */
static void test_no_device(void)
{
    struct tb_device device;
    struct rig r;
    struct mac mac;
    uint8_t gid[16] = {0};

    /* The only cable joins two others. */
    rig_init_macs(&r, 1, 0,
                  "host 1 one\nhost 2 two\ncable 0 1 rdma_en2 169.254.1.1 "
                  "2 rdma_en3 169.254.1.2\n");
    CHECK_EQ(mac_init(&mac, &r.macs, 0, MACS_POOL), TB_OK);
    CHECK_EQ(tb_device_open(&device, mac.verbs, gid, "rdma_en2"),
             TB_ERR_NOTSUP);
    CHECK(strstr(tb_fail_note(), "rdma_ctl") != NULL);
    mac_fini(&mac);
    rig_fini(&r);
}

struct sleeper {
    struct end *e;
    _Atomic bool over;
};

/* Sleeps as long as tb_rdma_nap allows whenever there is nothing; answers each
 * packet. Nothing ever rings its bell. */
static void *answer_sleepily(void *arg)
{
    struct sleeper *s = arg;
    uint64_t answered = 0;

    while (!atomic_load(&s->over)) {
        uint64_t nap = tb_rdma_nap(s->e->port);
        if (end_poll(s->e)) {
            send_packet(s->e, 0, TB_CONTROL, answered++, 100);
        } else if (nap) {
            tb_bell_sleep(s->e->bell, tb_bell_arm(s->e->bell),
                          TB_MIN(nap, (uint64_t)SECOND));
            tb_bell_disarm(s->e->bell);
        }
    }
    return NULL;
}

/* Packets that come now and then find a sleeper awake in time. */
static void test_naps(void)
{
    enum { N = 50 };
    struct rig r;
    struct end a, b;
    struct sleeper s = {.e = &b};
    uint64_t start = tb_now();
    pthread_t thread;

    rig_init_macs(&r, 2, 1, "");
    open_two(&r, &a, &b);
    a.partner = b.partner = NULL;
    CHECK(!pthread_create(&thread, NULL, answer_sleepily, &s));
    for (uint64_t i = 0; i < N; i++) {
        for (uint64_t sent = tb_now(); tb_now() - sent < 2000000;)
            end_poll(&a);
        send_packet(&a, 1, TB_CONTROL, i, 100);
        await_packets(&a, (long)i + 1);
        CHECK(tb_now() - start < 10 * (uint64_t)SECOND);
    }
    s.over = true;
    pthread_join(thread, NULL);
    close_two(&a, &b);
    rig_fini(&r);
}

/* Fifty times up and down: nothing leaks, and no region or queue pair more than
 * promised is taken. */
static void test_churn(void)
{
    struct rig r;
    struct end a, b;

    rig_init_macs(&r, 2, 2, "");
    for (int i = 0; i < 50; i++) {
        struct macs_held held;
        open_two(&r, &a, &b);
        held = macs_held(&r.macs);
        CHECK_EQ(held.qps, 4 * TB_CLASSES);
        CHECK_EQ(held.mrs, 4);
        CHECK_EQ(held.pds, 4);
        CHECK_EQ(try_send(&a, 1, TB_CONTROL, 0, 100), TB_OK);
        await_packets(&b, 1);
        close_two(&a, &b);
        check_returned(&r);
    }
    rig_fini(&r);
}

static const struct pair_test tests[] = {
    {"clean", test_clean},           {"granted depth", test_granted_depth},
    {"gid index", test_gid_index},   {"damage", test_damage},
    {"verbs last", test_verbs_last}, {"causes", test_causes},
    {"no device", test_no_device},   {"naps", test_naps},
    {"churn", test_churn},
};

int main(int argc, char **argv)
{
    run_tests(tests, TB_COUNT_OF(tests), argc > 1 ? argv[1] : "", 60);
    return 0;
}
