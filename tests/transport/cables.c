/* SPDX-License-Identifier: MIT */
/*
 * The rdma transport on an emulated fabric that loses, damages and delays; with
 * several cables, cables that die, queue pairs that fail, neighbours that die,
 * stop or are of another build; and packets that pass through without a copy.
 *
 *     cables [test's name [bytes of a soak]]
 */
#include "transport/pair.h"

#include <signal.h>

#define SOAK_BYTES ((size_t)48 << 20)

static size_t soak_bytes = SOAK_BYTES;

/* -------------------------------------------------------------------- soak */

struct soaker {
    struct end *e;
    int to;
    size_t bytes;
    uint32_t seed;
    uint64_t control, bulk;
    _Atomic int *busy;
};

static bool soak_one(struct soaker *s, uint32_t *state)
{
    size_t bytes = draw_bytes(state, s->e->limits.packet_max);
    enum tb_channel ch = draw(state) % 3 ? TB_CONTROL : TB_BULK;
    uint64_t *number = ch == TB_CONTROL ? &s->control : &s->bulk;

    if (draw(state) % 4 == 0)
        bytes = s->e->limits.packet_max;
    send_packet(s->e, s->to, ch, (*number)++, bytes);
    s->bytes -= TB_MIN(bytes, s->bytes);
    return s->bytes > 0;
}

static void *soak(void *arg)
{
    struct soaker *s = arg;
    uint32_t state = s->seed;

    while (soak_one(s, &state))
        continue;
    while (!tb_rdma_idle(s->e->port)) {
        if (!end_poll(s->e))
            tb_yield();
    }
    atomic_fetch_sub(s->busy, 1);
    while (atomic_load(s->busy) > 0) {
        if (!end_poll(s->e))
            tb_yield();
    }
    return NULL;
}

/* Both directions at once, by two threads; everything arrives once and, on
 * CONTROL, in order, which on_packet checks. */
static void run_soak(int cables, const char *settings)
{
    struct rig r;
    struct end e[2];
    struct soaker s[2];
    struct tb_rdma_counts c;
    pthread_t thread;
    _Atomic int busy = 2;

    rig_init_macs(&r, 2, cables, settings);
    open_two(&r, &e[0], &e[1]);
    for (int k = 0; k < 2; k++) {
        e[k].partner = NULL;
        e[k].seen = calloc(soak_bytes / 100 + 1000, 1);
        s[k] = (struct soaker){&e[k], !k, soak_bytes / 2, 5u + (uint32_t)k,
                               0,     0,  &busy};
    }
    CHECK(!pthread_create(&thread, NULL, soak, &s[1]));
    soak(&s[0]);
    pthread_join(thread, NULL);
    for (int k = 0; k < 2; k++) {
        CHECK_EQ(e[k].next[!k], s[!k].control);
        CHECK_EQ(e[k].bulk, s[!k].bulk);
        CHECK_EQ(e[k].losts, 0);
    }
    c = counts(&e[0]);
    printf("  %llu sent, %llu lost, %llu damaged, %llu probes, %llu acks, "
           "%llu epochs, %llu duplicates, %llu late\n",
           (unsigned long long)c.sends, (unsigned long long)c.lost,
           (unsigned long long)c.damaged, (unsigned long long)c.probes,
           (unsigned long long)c.acks, (unsigned long long)c.epochs,
           (unsigned long long)c.duplicates, (unsigned long long)c.stale);
    close_two(&e[0], &e[1]);
    check_returned(&r);
    for (int k = 0; k < 2; k++)
        free(e[k].seen);
    rig_fini(&r);
}

static void test_soak(void)
{
    run_soak(2, "set loss 1%\nset corrupt 0.1%\nset delays 5%\n");
    if (soak_bytes > SOAK_BYTES)
        return;
    run_soak(1, "");
    run_soak(4, "set loss 1%\nset corrupt 0.1%\nset delays 5%\n"
                "set credit drop\n");
}

/* ------------------------------------------------------------------ epochs */

/* Lost messages fail their RECVs: the queue pair must be renewed each time. */
static void test_epochs(void)
{
    struct rig r;
    struct end a, b;
    uint64_t number = 0, epochs;

    rig_init_macs(&r, 2, 2, "set lost fail\n");
    open_two(&r, &a, &b);
    for (int round = 0; round < 8; round++) {
        macs_fault(&r.macs, "set loss 0.5%%");
        epochs = counts(&a).epochs;
        while (counts(&a).epochs == epochs) {
            send_packet(&a, 1, TB_CONTROL, number,
                        number % 7 ? 500 : a.limits.packet_max);
            number++;
        }
        macs_fault(&r.macs, "set loss 0");
        await_packets(&b, (long)number);
    }
    CHECK_EQ(b.next[0], number);
    CHECK_EQ(a.losts + b.losts, 0);
    CHECK(counts(&a).epochs >= 8 && counts(&a).cables_lost == 0);
    close_two(&a, &b);
    check_returned(&r);
    rig_fini(&r);
}

/* A queue pair that fails all the time costs the cable, and with it the link;
 * what was not taken over comes back. */
static void test_too_many_epochs(void)
{
    struct rig r;
    struct end a, b;
    uint64_t number = 0;

    rig_init_macs(&r, 2, 1, "set lost fail\n");
    r.config.rdma_epochs = 4;
    open_two(&r, &a, &b);
    macs_fault(&r.macs, "set loss 100%%");
    while (!a.losts) {
        if (!try_send(&a, 1, TB_CONTROL, number, 300))
            number++;
        end_poll(&a);
    }
    CHECK(a.lost_why != TB_ERR_LOST); /* the process there lives */
    while (!b.losts)
        end_poll(&b);
    CHECK_EQ(a.returned + b.packets, number);
    CHECK(strstr(tb_fail_note(), "rdma_en0 of mac") != NULL);
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, number, 300), TB_ERR_LOST);
    close_two(&a, &b);
    check_returned(&r);
    rig_fini(&r);
}

/* ----------------------------------------------------------- pulled cables */

/* A device whose library has faulted is never given back, which a leak checker
 * would take amiss: such a test ends in a process of its own. */
static void run_apart(void (*run)(void))
{
    pid_t child;
    int status;

#ifdef __SANITIZE_THREAD__
    printf("  (left out: the thread sanitizer does not let a handler jump)\n");
    return;
#endif
    child = fork();
    if (child == 0) {
        tb_follow_parent();
        alarm(60);
        run();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
}

/* Of two cables one is pulled in mid-flow: all arrives over the other, and both
 * ends know within three seconds. */
static void pull_one_of_two(const char *how)
{
    struct rig r;
    struct end a, b;
    uint64_t number[2] = {0, 0}, start;

    rig_init_macs(&r, 2, 2, "");
    macs_start_relay(&r.macs);
    open_two(&r, &a, &b);
    tb_verbs_guard(a.mac.verbs);
    tb_verbs_guard(b.mac.verbs);
    for (int i = 0; i < 400; i++) {
        send_packet(&a, 1, TB_CONTROL, number[0]++, a.limits.packet_max);
        send_packet(&b, 0, TB_CONTROL, number[1]++, 1000);
    }
    macs_fault(&r.macs, "pull 0 %s", how);
    start = tb_now();
    while (!counts(&a).cables_lost || !counts(&b).cables_lost) {
        if (!try_send(&a, 1, TB_CONTROL, number[0], a.limits.packet_max))
            number[0]++;
        if (!try_send(&b, 0, TB_CONTROL, number[1], 1000))
            number[1]++;
        end_poll(&a);
        CHECK(tb_now() - start < 3 * (uint64_t)SECOND);
    }
    for (int i = 0; i < 400; i++)
        send_packet(&a, 1, TB_CONTROL, number[0]++, 20000);
    await_packets(&b, (long)number[0]);
    await_packets(&a, (long)number[1]);
    CHECK_EQ(b.next[0], number[0]);
    CHECK_EQ(a.next[1], number[1]);
    CHECK_EQ(a.losts + b.losts, 0);
    close_two(&a, &b);
    rig_fini(&r);
}

static void test_pull_one_of_two(void)
{
    pull_one_of_two("silent");
}

static void pull_faulting(void)
{
    pull_one_of_two("segv");
}

/* Apple's library faults in a post on a pulled cable. */
static void test_pull_faulting(void)
{
    run_apart(pull_faulting);
}

/* The only cable is pulled: each packet has arrived or comes back, once. */
static void test_pull_the_only_one(void)
{
    struct rig r;
    struct end a, b;
    uint64_t number = 0, start;

    rig_init_macs(&r, 2, 1, "");
    macs_start_relay(&r.macs);
    open_two(&r, &a, &b);
    for (int i = 0; i < 200; i++)
        send_packet(&a, 1, TB_CONTROL, number++, 3000);
    macs_fault(&r.macs, "pull 0");
    start = tb_now();
    while (!a.losts || !b.losts) {
        if (!a.losts && !try_send(&a, 1, TB_CONTROL, number, 3000))
            number++;
        end_poll(&a);
        CHECK(tb_now() - start < 3 * (uint64_t)SECOND);
    }
    CHECK(a.lost_why && a.lost_why != TB_ERR_LOST);
    CHECK(strstr(tb_fail_note(), "cable 0") && strstr(tb_fail_note(), "mac"));
    CHECK(a.returned > 0);
    CHECK_EQ(a.returned + b.packets, number);
    CHECK_EQ(a.back[1], number);
    close_two(&a, &b);
    check_returned(&r);
    rig_fini(&r);
}

static void pull_the_only_one_faulting(void)
{
    struct rig r;
    struct end a, b;
    uint64_t number = 0;

    rig_init_macs(&r, 2, 1, "");
    macs_start_relay(&r.macs);
    open_two(&r, &a, &b);
    tb_verbs_guard(a.mac.verbs);
    tb_verbs_guard(b.mac.verbs);
    macs_fault(&r.macs, "pull 0 segv");
    while (!a.losts || !b.losts) {
        if (!a.losts && !try_send(&a, 1, TB_CONTROL, number, 3000))
            number++;
        end_poll(&a);
    }
    CHECK_EQ(a.returned + b.packets, number);
    close_two(&a, &b);
    rig_fini(&r);
}

/* A faulting library with the only cable. */
static void test_pull_the_only_one_faulting(void)
{
    run_apart(pull_the_only_one_faulting);
}

/* One of two cables swallows what is sent, while its wire goes on answering:
 * it alone is dropped. */
static void test_black_hole(void)
{
    struct rig r;
    struct end a, b;
    uint64_t number = 0, start;

    rig_init_macs(&r, 2, 2, "");
    open_two(&r, &a, &b);
    for (int i = 0; i < 100; i++)
        send_packet(&a, 1, TB_CONTROL, number++, 20000);
    macs_fault(&r.macs, "set loss 100%% 0");
    start = tb_now();
    while (!counts(&a).cables_lost || !counts(&b).cables_lost) {
        if (!try_send(&a, 1, TB_CONTROL, number, 20000))
            number++;
        end_poll(&a);
        CHECK(tb_now() - start < 5 * (uint64_t)SECOND);
    }
    for (int i = 0; i < 100; i++)
        send_packet(&a, 1, TB_CONTROL, number++, 20000);
    await_packets(&b, (long)number);
    CHECK_EQ(b.next[0], number);
    CHECK_EQ(a.losts + b.losts, 0);
    CHECK_EQ(counts(&a).cables_lost, 1);
    close_two(&a, &b);
    check_returned(&r);
    rig_fini(&r);
}

/* The wires alone fall silent, as when whoever passes their bytes on is busy:
 * the queue pairs show that the cables live. */
static void test_silent_wires(void)
{
    struct rig r;
    struct end a, b;

    rig_init_macs(&r, 2, 2, "");
    macs_start_relay(&r.macs);
    open_two(&r, &a, &b);
    r.macs.deaf = true;
    for (uint64_t start = tb_now(); tb_now() - start < 3 * (uint64_t)SECOND;)
        end_poll(&a);
    CHECK_EQ(counts(&a).cables_lost + counts(&b).cables_lost, 0);
    r.macs.deaf = false;
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, 0, 100), TB_OK);
    await_packets(&b, 1);
    close_two(&a, &b);
    rig_fini(&r);
}

/* The wires are silent from the start, when there are no queue pairs yet. As
 * long as whoever passes them on is silent too, that is no cable's fault; when
 * it is not, it is. */
static void test_silent_start(void)
{
    struct rig r;
    struct end a, b;

    rig_init_macs(&r, 2, 2, "");
    macs_start_relay(&r.macs);
    r.macs.deaf = true;
    end_init(&a, &r, 0);
    end_init(&b, &r, 1);
    for (uint64_t start = tb_now(); tb_now() - start < 3 * (uint64_t)SECOND;) {
        end_poll(&a);
        end_poll(&b);
    }
    CHECK_EQ(counts(&a).cables_lost + counts(&b).cables_lost, 0);
    macs_fault(&r.macs, "pull 1");
    r.macs.deaf = false;
    for (uint64_t start = tb_now();
         !counts(&a).cables_lost && tb_now() - start < 3 * (uint64_t)SECOND;) {
        end_poll(&a);
        end_poll(&b);
    }
    CHECK_EQ(counts(&a).cables_lost, 1);
    ends_meet(&a, &b);
    close_two(&a, &b);
    rig_fini(&r);
}

/* -------------------------------------------------------------- neighbours */

/* A child that is Mac 1, reads until it has `take` packets, says so, and goes
 * on reading until it is killed. */
static pid_t start_mac(struct rig *r, long take, int *out)
{
    int said[2];
    pid_t child;

    CHECK(!pipe(said));
    child = fork();
    if (child == 0) {
        struct end b;
        tb_follow_parent();
        for (int i = 0; i < r->macs.cables; i++)
            close(r->macs.cable[i].wire[0]);
        close(r->macs.mgmt[0][1]);
        end_init(&b, r, 1);
        await_packets(&b, take);
        CHECK(write(said[1], "x", 1) == 1);
        for (;;) {
            if (!end_poll(&b))
                tb_yield();
        }
    }
    for (int i = 0; i < r->macs.cables; i++)
        close(r->macs.cable[i].wire[1]);
    close(r->macs.mgmt[1][0]);
    close(said[1]);
    *out = said[0];
    return child;
}

/* Sends `take` packets, and waits until the child has said so. */
static void await_mac(struct end *a, uint64_t *number, long take, int said)
{
    char c;

    CHECK(!fcntl(said, F_SETFL, O_NONBLOCK));
    while (read(said, &c, 1) != 1) {
        if ((long)*number < take && !try_send(a, 1, TB_CONTROL, *number, 2000))
            ++*number;
        end_poll(a);
    }
    close(said);
}

static void test_killed(void)
{
    enum { TAKE = 50 };
    struct rig r;
    struct end a;
    uint64_t number = 0, start;
    pid_t child;
    int said;

    rig_init_macs(&r, 2, 2, "");
    child = start_mac(&r, TAKE, &said);
    end_init(&a, &r, 0);
    await_mac(&a, &number, TAKE, said);
    CHECK(!kill(child, SIGSTOP));
    for (int i = 0; i < 20; i++) {
        if (!try_send(&a, 1, TB_CONTROL, number, 2000))
            number++;
    }
    CHECK(!kill(child, SIGKILL));
    start = tb_now();
    while (!a.losts) {
        end_poll(&a);
        CHECK(tb_now() - start < 2 * (uint64_t)SECOND);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_EQ(a.lost_why, TB_ERR_LOST);
    CHECK(a.returned >= (long)number - TAKE);
    CHECK_EQ(a.back[1], number);
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, number, 100), TB_ERR_LOST);
    for (int i = 0; i < 1000; i++)
        end_poll(&a);
    CHECK_EQ(a.losts, 1);
    end_fini(&a);
    rig_fini(&r);
}

/* A stopped neighbour is waited for, and lost only by TBMPI_STOPPED_TIMEOUT. */
static void test_stopped(void)
{
    enum { TAKE = 20 };
    struct rig r;
    struct end a;
    uint64_t number = 0, start;
    pid_t child;
    int said;

    rig_init_macs(&r, 2, 1, "");
    child = start_mac(&r, TAKE, &said);
    end_init(&a, &r, 0);
    await_mac(&a, &number, TAKE, said);
    CHECK(!kill(child, SIGSTOP));
    start = tb_now();
    while (tb_now() - start < 2500000000u) {
        if (!try_send(&a, 1, TB_CONTROL, number, 3000))
            number++;
        end_poll(&a);
    }
    CHECK_EQ(a.losts, 0);
    CHECK_EQ(counts(&a).cables_lost, 0);
    CHECK(!kill(child, SIGCONT));
    while (!tb_rdma_idle(a.port))
        end_poll(&a);
    CHECK_EQ(a.losts, 0);
    CHECK(!kill(child, SIGSTOP));
    r.config.stopped_timeout = 1000000000;
    start = tb_now();
    while (!a.losts) {
        end_poll(&a);
        CHECK(tb_now() - start < 3 * (uint64_t)SECOND);
    }
    CHECK_EQ(a.lost_why, TB_ERR_LOST);
    CHECK(strstr(tb_fail_note(), "TBMPI_STOPPED_TIMEOUT") != NULL);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    end_fini(&a);
    rig_fini(&r);
}

/* Two builds do not talk to each other, and say who they are. */
static void test_other_build(void)
{
    struct rig r;
    struct end a, b;

    rig_init_macs(&r, 2, 1, "");
    end_init(&a, &r, 0);
    r.build = "0.0.0-other";
    end_init(&b, &r, 1);
    while (!a.losts || !b.losts) {
        end_poll(&a);
        end_poll(&b);
    }
    CHECK(strstr(tb_fail_note(), "mac0") && strstr(tb_fail_note(), "mac1") &&
          strstr(tb_fail_note(), "0.0.0-other"));
    close_two(&a, &b);
    check_returned(&r);
    rig_fini(&r);
}

/* --------------------------------------------------------- passing through */

static struct end *middle;
static long forwarded, sent_back;
static uint32_t waiting[4096];
static unsigned waiting_n;

static void on_sent(void *ctx, uint32_t slot)
{
    (void)ctx;
    tb_rdma_give(middle->port, slot);
    sent_back++;
}

/* Mac 1 keeps the slots of what comes from Mac 0, for Mac 2. */
static void on_transit(void *ctx, int from, enum tb_channel ch,
                       const void *data, size_t bytes)
{
    struct end *e = ctx;

    (void)data, (void)bytes;
    CHECK(e == middle && from == 0 && ch == TB_CONTROL);
    CHECK(waiting_n < TB_COUNT_OF(waiting));
    waiting[waiting_n++] = tb_rdma_keep(e->port);
    e->packets++;
}

static void pass_on(struct end *e)
{
    unsigned i = 0;

    while (i < waiting_n) {
        const struct tb_seal *seal = tb_regpool_at(e->mac.pool, waiting[i]);
        if (tb_rdma_send(e->links[2], TB_CONTROL, waiting[i], seal->bytes))
            break;
        forwarded++;
        i++;
    }
    memmove(waiting, waiting + i, (waiting_n - i) * sizeof(*waiting));
    waiting_n -= i;
}

/* What arrives carries the stamp of Mac 0. */
static void on_far_packet(void *ctx, int from, enum tb_channel ch,
                          const void *data, size_t bytes)
{
    struct end *e = ctx;

    (void)ch;
    CHECK_EQ(from, 1);
    CHECK_EQ(check_packet(0, data, bytes), e->next[0]);
    e->next[0]++;
    e->packets++;
}

static void test_transit(void)
{
    enum { N = 3000 };
    struct rig r;
    struct end e[3];
    uint32_t free_before[TB_CLASSES], state = 3;
    uint64_t number = 0;

    rig_init_macs(&r, 3, 1, "set loss 0.5%\n");
    middle = &e[1];
    r.more.sent = on_sent;
    for (int i = 0; i < 3; i++)
        end_init(&e[i], &r, i);
    e[1].sink.packet = on_transit;
    e[2].sink.packet = on_far_packet;
    ends_meet(&e[0], &e[1]);
    ends_meet(&e[1], &e[2]);
    memcpy(free_before, e[1].mac.pool->n, sizeof(free_before));
    while (e[2].packets < N) {
        if (number < N && !try_send(&e[0], 1, TB_CONTROL, number,
                                    draw_bytes(&state, e[0].limits.packet_max)))
            number++;
        for (int i = 0; i < 3; i++)
            end_poll(&e[i]);
        pass_on(&e[1]);
    }
    while (!tb_rdma_idle(e[1].port) || !tb_rdma_idle(e[0].port)) {
        for (int i = 0; i < 3; i++)
            end_poll(&e[i]);
    }
    CHECK_EQ(forwarded, N);
    CHECK_EQ(sent_back, N);
    for (int i = 0; i < 100000; i++) {
        for (int k = 0; k < 3; k++)
            end_poll(&e[k]);
        if (!memcmp(free_before, e[1].mac.pool->n, sizeof(free_before)))
            break;
    }
    for (int c = 0; c < TB_CLASSES; c++)
        CHECK_EQ(e[1].mac.pool->n[c], free_before[c]);
    for (int i = 0; i < 3; i++)
        end_fini(&e[i]);
    check_returned(&r);
    rig_fini(&r);
}

/* ------------------------------------------------------------------- small */

static char told[TB_TELL_MOST];
static size_t told_bytes;

static void on_told(void *ctx, int peer, const void *data, size_t bytes)
{
    (void)ctx;
    CHECK_EQ(peer, 0);
    memcpy(told, data, bytes);
    told_bytes = bytes;
}

static void test_tell(void)
{
    static char text[TB_TELL_MOST + 1];
    struct rig r;
    struct end a, b;

    rig_init_macs(&r, 2, 1, "");
    r.more.told = on_told;
    open_two(&r, &a, &b);
    for (size_t n = 1; n <= TB_TELL_MOST; n *= 2) {
        memset(text, (int)n, n);
        told_bytes = 0;
        CHECK_EQ(tb_rdma_tell(a.port, 1, text, n), TB_OK);
        while (!told_bytes)
            end_poll(&b);
        CHECK(told_bytes == n && !memcmp(told, text, n));
    }
    CHECK_EQ(tb_rdma_tell(a.port, 1, text, sizeof(text)), TB_ERR_ARG);
    CHECK_EQ(tb_rdma_tell(a.port, 5, text, 1), TB_ERR_ARG);
    close_two(&a, &b);
    rig_fini(&r);
}

static const struct pair_test tests[] = {
    {"soak", test_soak},
    {"epochs", test_epochs},
    {"too many epochs", test_too_many_epochs},
    {"one of two cables pulled", test_pull_one_of_two},
    {"one of two cables pulled, library faults", test_pull_faulting},
    {"the only cable pulled", test_pull_the_only_one},
    {"the only cable pulled, library faults", test_pull_the_only_one_faulting},
    {"black hole", test_black_hole},
    {"silent wires", test_silent_wires},
    {"silent start", test_silent_start},
    {"killed", test_killed},
    {"stopped", test_stopped},
    {"another build", test_other_build},
    {"transit", test_transit},
    {"tell", test_tell},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* the relay of wires writes to who has gone */
    if (argc > 2)
        soak_bytes = strtoull(argv[2], NULL, 10);
    run_tests(tests, TB_COUNT_OF(tests), argc > 1 ? argv[1] : "",
              argc > 2 ? 3600 : 60);
    return 0;
}
