/* SPDX-License-Identifier: MIT */
/*
 * Neighbours that die, stop, or write nonsense, on transports that cross
 * processes. The neighbour is a child process; what is asked of the transport
 * is in transport.h: what the dead one has not taken over comes back in order,
 * then `lost`, once, and within a poll or two of the first look.
 */
#include "transport/rig.h"

#include <signal.h>

static const struct tb_transport *via;
static int64_t ring;

static void set_up(struct rig *r, struct end *a)
{
    rig_init(r, via, 2, ring);
    end_init(a, r, 0);
}

static void take_down(struct rig *r, struct end *a)
{
    end_fini(a);
    rig_fini(r);
}

/* The child is place 1, the parent place 0, and neither holds what is the
 * other's. */
static pid_t fork_reader(struct rig *r)
{
    pid_t child = fork();

    CHECK(child >= 0);
    rig_keep(r, child == 0 ? 1 : 0);
    return child;
}

/* A child that is place 1, reads `take` packets, says so, and then waits to be
 * killed. */
static pid_t start_reader(struct rig *r, long take, bool farewell)
{
    int said[2];
    pid_t child;
    char c;

    CHECK(!pipe(said));
    child = fork_reader(r);
    if (child == 0) {
        struct end b;
        tb_follow_parent();
        end_init(&b, r, 1);
        await_packets(&b, take);
        if (farewell)
            end_fini(&b);
        CHECK(write(said[1], "x", 1) == 1);
        if (farewell)
            _exit(0);
        for (;;)
            pause();
    }
    close(said[1]);
    CHECK(read(said[0], &c, 1) == 1);
    close(said[0]);
    return child;
}

static void end_child(pid_t child, int signal)
{
    CHECK(!signal || !kill(child, signal));
    CHECK(waitpid(child, NULL, 0) == child);
}

/* ------------------------------------------------------------------- death */

static void test_killed(void)
{
    enum { SENT = 20 };
    struct rig r;
    struct end a;
    size_t bytes;
    pid_t child;

    set_up(&r, &a);
    bytes = a.limits.packet_max / 8;
    bytes = TB_MAX(bytes, sizeof(struct stamp));
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, 0, bytes), TB_OK);
    child = start_reader(&r, 1, false);
    for (uint64_t i = 1; i < SENT; i++) {
        /* The child does not read these. */
        size_t n = i % 2 ? sizeof(struct stamp) : bytes;
        if (try_send(&a, 1, TB_CONTROL, i, n))
            break;
        a.next[1] = i;
    }
    via->check(a.port);
    end_poll(&a);
    CHECK_EQ(a.losts, 0);
    end_child(child, SIGKILL);
    via->check(a.port);
    CHECK(via->pending(a.port));
    end_poll(&a);
    CHECK_EQ(a.losts, 1);
    CHECK_EQ(a.lost_peer, 1);
    CHECK_EQ(a.lost_why, TB_ERR_LOST);
    /* At least what was not read, up to the last. */
    CHECK(a.returned >= (long)a.next[1]);
    CHECK_EQ(a.back[1], a.next[1] + 1);
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, SENT, bytes), TB_ERR_LOST);
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, SENT, 24), TB_ERR_LOST);
    via->check(a.port);
    CHECK(!via->pending(a.port));
    end_poll(&a);
    CHECK_EQ(a.losts, 1);
    take_down(&r, &a);
}

/* A writer out of room learns of the death as well. */
static void test_killed_full(void)
{
    struct rig r;
    struct end a;
    uint64_t number = 0;
    pid_t child;

    set_up(&r, &a);
    child = start_reader(&r, 0, false);
    while (!try_send(&a, 1, TB_CONTROL, number, a.limits.packet_max))
        number++;
    CHECK(!via->pending(a.port));
    end_child(child, SIGKILL);
    via->check(a.port);
    end_poll(&a);
    CHECK_EQ(a.losts, 1);
    CHECK_EQ(a.returned, number);
    CHECK_EQ(a.back[1], number);
    CHECK(!via->pending(a.port));
    take_down(&r, &a);
}

/* What the dead one still sent is delivered before the loss. */
static void test_last_words(void)
{
    struct rig r;
    struct end a;
    pid_t child;

    set_up(&r, &a);
    child = fork_reader(&r);
    if (child == 0) {
        struct end b;
        end_init(&b, &r, 1);
        for (uint64_t i = 0; i < 5; i++)
            CHECK_EQ(try_send(&b, 0, TB_CONTROL, i, 100), TB_OK);
        kill(getpid(), SIGKILL);
    }
    end_child(child, 0);
    via->check(a.port);
    while (!a.losts) {
        end_poll(&a);
        CHECK(a.packets > 0);
    }
    CHECK_EQ(a.packets, 5);
    CHECK_EQ(a.losts, 1);
    take_down(&r, &a);
}

static void test_goodbye(void)
{
    struct rig r;
    struct end a;

    set_up(&r, &a);
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, 0, 100), TB_OK);
    end_child(start_reader(&r, 1, true), 0);
    via->check(a.port);
    end_poll(&a);
    CHECK_EQ(a.losts, 0);
    take_down(&r, &a);
}

/* ------------------------------------------------------------------ stopped */

static void test_stopped(void)
{
    enum { EXTRA = 500 };
    struct rig r;
    struct end a;
    uint64_t number = 0;
    pid_t child;
    int status;

    set_up(&r, &a);
    child = fork_reader(&r);
    if (child == 0) {
        struct end b;
        tb_follow_parent();
        end_init(&b, &r, 1);
        while (b.next[0] < EXTRA || b.packets % EXTRA) {
            if (!end_poll(&b))
                end_sleep(&b, 100000000);
        }
        end_fini(&b);
        _exit(0);
    }
    CHECK(!kill(child, SIGSTOP));
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    while (!try_send(&a, 1, TB_CONTROL, number, a.limits.packet_max))
        number++;
    for (int i = 0; i < 5; i++) {
        via->check(a.port);
        CHECK_EQ(end_poll(&a), 0);
        CHECK_EQ(try_send(&a, 1, TB_CONTROL, number, a.limits.packet_max),
                 TB_ERR_AGAIN);
    }
    CHECK_EQ(a.losts, 0);
    CHECK(!kill(child, SIGCONT));
    while (number < EXTRA || number % EXTRA) {
        tb_err err =
            try_send(&a, 1, TB_CONTROL, number, a.limits.packet_max / 4);
        if (err && !end_poll(&a))
            CHECK(end_sleep(&a, 5000000000u));
        else if (!err)
            number++;
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    CHECK_EQ(a.losts, 0);
    take_down(&r, &a);
}

/* ----------------------------------------------------------------- nonsense */

/* Noise is neither stamped nor numbered; it may only lie within the segment. */
static void on_noise(void *ctx, int from, enum tb_channel ch, const void *data,
                     size_t bytes)
{
    struct end *e = ctx;
    const char *start = e->rig->segment, *p = data;

    (void)from, (void)ch;
    CHECK(p >= start && bytes <= e->rig->bytes &&
          p + bytes <= start + e->rig->bytes);
    e->packets++;
}

/* A neighbour whose memory is in disorder writes noise over both rings: words
 * that could be records, and counters. It may cost the link and nothing else.
 */
static void test_nonsense(void)
{
    for (uint32_t seed = 1; seed < 300; seed++) {
        struct rig r;
        struct end a;
        uint32_t state = seed;
        uint64_t *words;
        size_t n;

        set_up(&r, &a);
        a.sink.packet = a.sink.returned = on_noise;
        for (uint64_t i = 0; i < 4; i++)
            CHECK_EQ(try_send(&a, 1, TB_CONTROL, i, 64), TB_OK);
        words = (uint64_t *)(void *)((char *)r.segment + r.plan.rings);
        n = TB_MIN(2 * r.plan.ring_bytes, 65536) / sizeof(*words);
        for (size_t i = 0; i < n; i++) {
            words[i] = (uint64_t)(draw(&state) & 0x8000000f) << 32;
            words[i] |= draw(&state) & 0x7fff;
        }
        words[0] = seed % 2 ? 0 : words[0]; /* how far place 0 has read */
        tb_segment_rank(r.segment, &r.plan, 0)->active[0] = ~(uint64_t)0;
        tb_segment_rank(r.segment, &r.plan, 0)->news++;
        for (int i = 0; i < 50; i++) {
            end_poll(&a);
            (void)try_send(&a, 1, TB_CONTROL, 5, 64);
            (void)try_send(&a, 1, TB_CONTROL, 5, a.limits.packet_max);
        }
        CHECK(a.losts <= 1);
        CHECK(!a.losts || a.lost_why == TB_ERR_PROTOCOL);
        take_down(&r, &a);
    }
}

/* -------------------------------------------------------------- single copy */

static void test_pull_across(void)
{
    enum { PAGE = 65536, N = 4 * PAGE };
    struct rig r;
    struct end a;
    char *from = mmap(NULL, N, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *to = calloc(N, 1);
    size_t done = 1;
    pid_t child;
    tb_err err;

    memset(from, 3, N);
    rig_init(&r, via, 2, ring);
    r.config.single_copy = TB_SINGLE_COPY_ALWAYS;
    end_init(&a, &r, 0);
    child = start_reader(&r, 0, false);
    memset(from, 4, N); /* not in the child: its memory still says 3 */
    err = via->pull(a.links[1], (uint64_t)(uintptr_t)from, to, N, &done);
    if (err) {
        CHECK_EQ(err, TB_ERR_NOTSUP);
        CHECK_EQ(done, 0);
        printf("  (this system refuses single copies)\n");
    } else {
        CHECK_EQ(done, N);
        CHECK(to[0] == 3 && to[N - 1] == 3);
        /* Where the sender's memory ends, the rest is refused. */
        memset(to, 0, N);
        err = via->pull(a.links[1], (uint64_t)(uintptr_t)(from + N - PAGE), to,
                        N, &done);
        CHECK(err == TB_OK || done < N);
        CHECK(done >= PAGE && to[0] == 3 && to[PAGE - 1] == 3);
        err = via->pull(a.links[1], 8, to, 8, &done);
        CHECK_EQ(err, TB_ERR_NOTSUP);
        CHECK_EQ(done, 0);
    }
    end_child(child, SIGKILL);
    munmap(from, N);
    free(to);
    take_down(&r, &a);
}

/* As between containers: the number is another process's here. */
static void test_pull_wrong_process(void)
{
    struct rig r;
    struct end a;
    char x = 1, y = 0;
    size_t done = 1;
    pid_t child;

    set_up(&r, &a);
    child = start_reader(&r, 0, false);
    tb_segment_note(r.segment, &r.plan, 1)->pid = (uint32_t)getppid();
    CHECK_EQ(via->pull(a.links[1], (uint64_t)(uintptr_t)&x, &y, 1, &done),
             TB_ERR_NOTSUP);
    CHECK_EQ(done, 0);
    end_child(child, SIGKILL);
    take_down(&r, &a);
}

static const struct {
    const char *name;
    void (*run)(void);
    bool memory; /* about memory that both share */
} tests[] = {
    {"killed", test_killed, false},
    {"killed, link full", test_killed_full, false},
    {"last words", test_last_words, false},
    {"goodbye is no loss", test_goodbye, false},
    {"stopped and continued", test_stopped, false},
    {"nonsense", test_nonsense, true},
    {"pull from another process", test_pull_across, true},
    {"pull from the wrong process", test_pull_wrong_process, true},
};

static void run_all(const struct tb_transport *over, int64_t bytes)
{
    via = over;
    ring = bytes;
    for (size_t k = 0; k < TB_COUNT_OF(tests); k++) {
        if (tests[k].memory && via != &tb_transport_shm)
            continue;
        printf("%s, ring %lld: %s\n", via->name, (long long)ring,
               tests[k].name);
        fflush(stdout);
        limit_time(60);
        tests[k].run();
    }
}

int main(void)
{
    static const int64_t rings[] = {1, 20480, 0};

    for (size_t i = 0; i < TB_COUNT_OF(rings); i++) {
        run_all(&tb_transport_shm, rings[i]);
        run_all(&tb_transport_tcp, rings[i]);
    }
    return 0;
}
