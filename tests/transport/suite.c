/* SPDX-License-Identifier: MIT */
/*
 * The transport contract, as tests. Each runs over every transport and over
 * rings from the smallest to the largest; both ends live in this process, as
 * threads where they work at the same time, so that a thread sanitizer sees
 * both. A new transport adds a line to `cases`. What needs a process to die
 * is in faults.c.
 */
#include "transport/rig.h"

/* -------------------------------------------------------------------- order */

/* One of those who work at the same time is done: polls on until all are, for
 * on some transports a packet needs its sender until it has arrived. */
static void finish(struct end *e, _Atomic int *busy)
{
    atomic_fetch_sub(busy, 1);
    while (atomic_load(busy) > 0) {
        if (!end_poll(e))
            tb_yield();
    }
}

struct script {
    struct end *e;
    _Atomic int *busy; /* threads that are not done */
    int to;
    long packets;
    uint32_t seed;
    bool mixed; /* every third packet on BULK */
    bool sleepy;
};

/* Sends a fixed sequence of packets of all sizes. */
static void *run_script(void *arg)
{
    struct script *s = arg;
    uint32_t state = s->seed;
    uint64_t control = 0, bulk = 0;

    for (long i = 0; i < s->packets; i++) {
        size_t bytes = draw_bytes(&state, s->e->limits.packet_max);
        if (s->mixed && i % 3 == 0)
            send_packet(s->e, s->to, TB_BULK, bulk++, bytes);
        else
            send_packet(s->e, s->to, TB_CONTROL, control++, bytes);
    }
    if (s->busy)
        finish(s->e, s->busy);
    return NULL;
}

/* With one place the sender polls for itself; with two, a thread does. */
static void run_pair(struct rig *r, struct script s, unsigned char *seen)
{
    struct end a, b;
    pthread_t thread;
    _Atomic int busy = 2;

    end_init(&a, r, 0);
    if (r->places == 1) {
        a.seen = seen;
        s.e = &a;
        run_script(&s);
        await_packets(&a, s.packets);
    } else {
        end_init(&b, r, 1);
        b.seen = seen;
        ends_meet(&a, &b);
        s.e = &a;
        s.to = 1;
        s.busy = &busy;
        CHECK(!pthread_create(&thread, NULL, run_script, &s));
        await_packets(&b, s.packets);
        finish(&b, &busy);
        pthread_join(thread, NULL);
        CHECK_EQ(b.packets, s.packets);
        CHECK_EQ(end_poll(&b), 0);
        end_fini(&b);
    }
    end_fini(&a);
}

static void test_order(struct rig *r)
{
    run_pair(r, (struct script){.packets = 20000, .seed = 7}, NULL);
}

static void test_bulk(struct rig *r)
{
    enum { N = 6000 };
    unsigned char *seen = calloc(N, 1);

    run_pair(r, (struct script){.packets = N, .seed = 3, .mixed = true}, seen);
    for (int i = 0; i < N / 3; i++)
        CHECK(seen[i]);
    free(seen);
}

/* -------------------------------------------------------------------- sizes */

static struct end *peer_of(struct end *a, struct end *b)
{
    return a->rig->places == 1 ? a : b;
}

static void open_pair(struct rig *r, struct end *a, struct end *b)
{
    end_init(a, r, 0);
    if (r->places > 1) {
        end_init(b, r, 1);
        ends_meet(a, b);
        a->partner = b;
        b->partner = a;
    }
}

/* From here on a thread of its own drives `b`. */
static void part_pair(struct end *a, struct end *b)
{
    a->partner = b->partner = NULL;
}

static void close_pair(struct end *a, struct end *b)
{
    if (a->rig->places > 1)
        end_fini(b);
    end_fini(a);
}

static void test_sizes(struct rig *r)
{
    struct end a, b, *to;
    int peer = r->places - 1;
    uint64_t number = 0;
    size_t from = sizeof(struct stamp);

    open_pair(r, &a, &b);
    to = peer_of(&a, &b);
    for (size_t n = from; n <= a.limits.packet_max;) {
        send_packet(&a, peer, TB_CONTROL, number++, n);
        await_packets(to, (long)number);
        n += n < 400 || n + 300 > a.limits.packet_max ? 1 : 97;
    }
    CHECK_EQ(to->next[0], number);
    close_pair(&a, &b);
}

/* The shortest packets carry no stamp. */
static long short_packets;
static void on_short(void *ctx, int from, enum tb_channel ch, const void *data,
                     size_t bytes)
{
    const unsigned char *p = data;

    (void)ctx, (void)from, (void)ch;
    for (size_t i = 0; i < bytes; i++)
        CHECK_EQ(p[i], bytes);
    short_packets++;
}

static void test_short(struct rig *r)
{
    struct end a, b, *to;
    int peer = r->places - 1;

    open_pair(r, &a, &b);
    to = peer_of(&a, &b);
    to->sink.packet = on_short;
    short_packets = 0;
    for (size_t n = 1; n < 64; n++) {
        struct tb_slot slot;
        CHECK_EQ(r->via->reserve(a.links[peer], TB_CONTROL, n, &slot), TB_OK);
        memset(slot.data, (int)n, n);
        r->via->commit(a.links[peer], &slot, n);
        while (short_packets < (long)n)
            CHECK(end_poll(to) == 1 || rig_is_slow(r));
    }
    CHECK_EQ(short_packets, 63);
    close_pair(&a, &b);
}

/* A slot may be written all over, whatever part of it is committed, and given
 * back; neither may be taken for a packet later. */
static void test_unused_room(struct rig *r)
{
    struct end a, b, *to;
    int peer = r->places - 1;
    uint32_t state = 11;
    uint64_t number = 0;

    open_pair(r, &a, &b);
    to = peer_of(&a, &b);
    for (int i = 0; i < 20000; i++) {
        size_t most = draw_bytes(&state, a.limits.packet_max), bytes;
        struct tb_slot slot;
        tb_err err = r->via->reserve(a.links[peer], TB_CONTROL, most, &slot);
        if (err == TB_ERR_AGAIN) {
            end_poll(to);
            end_poll(&a);
            continue;
        }
        CHECK_EQ(err, TB_OK);
        memset(slot.data, 0xff, slot.room);
        bytes = sizeof(struct stamp) +
                draw(&state) % (most - sizeof(struct stamp) + 1);
        if (draw(&state) % 3 == 0) {
            r->via->commit(a.links[peer], &slot, 0);
            continue;
        }
        write_packet(slot.data, 0, number++, bytes);
        r->via->commit(a.links[peer], &slot, bytes);
        if (draw(&state) % 8 == 0)
            end_poll(to);
    }
    await_packets(to, (long)number);
    CHECK_EQ(end_poll(to), 0);
    close_pair(&a, &b);
}

/* ------------------------------------------------------------ back-pressure */

/* Fills the link until it says AGAIN; returns the number of packets. */
static uint64_t fill(struct end *a, int peer, uint64_t number, size_t bytes)
{
    uint64_t start = number;
    tb_err err;

    while (!(err = try_send(a, peer, TB_CONTROL, number, bytes)))
        number++;
    CHECK_EQ(err, TB_ERR_AGAIN);
    CHECK_EQ(try_send(a, peer, TB_CONTROL, number, bytes), TB_ERR_AGAIN);
    return number - start;
}

/* After AGAIN, room for a packet of `bytes` shows by `pending`; at once where
 * nothing is on its way. */
static void await_news(struct end *a, struct end *reader, size_t bytes)
{
    const struct tb_transport *via = a->rig->via;
    struct tb_slot slot;

    if (!rig_is_slow(a->rig)) {
        CHECK(via->pending(a->port));
        return;
    }
    do {
        while (!via->pending(a->port))
            end_poll(reader);
        end_poll(a);
    } while (via->reserve(a->links[reader->place], TB_CONTROL, bytes, &slot));
    via->commit(a->links[reader->place], &slot, 0);
}

static void test_again(struct rig *r)
{
    struct end a, b, *to;
    int peer = r->places - 1;
    uint64_t number = 0;

    open_pair(r, &a, &b);
    to = peer_of(&a, &b);
    for (int round = 0; round < 60; round++) {
        size_t bytes = round % 3 ? sizeof(struct stamp) + (size_t)round
                                 : a.limits.packet_max;
        uint64_t n = fill(&a, peer, number, bytes);
        CHECK(n >= 2 || bytes == a.limits.packet_max);
        CHECK(n >= 1);
        number += n;
        await_packets(to, (long)number);
        if (to != &a) /* the room is news, and only once */
            await_news(&a, to, bytes);
        CHECK(rig_is_slow(r) || !r->via->pending(a.port));
        CHECK_EQ(try_send(&a, peer, TB_CONTROL, number, bytes), TB_OK);
        number++;
    }
    await_packets(to, (long)number);
    CHECK_EQ(to->packets, number);
    close_pair(&a, &b);
}

/* A poll is bounded: it returns although more keeps coming. */
static void refill(struct end *e, int from, const void *data, size_t bytes)
{
    struct stamp s;

    (void)from, (void)data, (void)bytes;
    memcpy(&s, data, sizeof(s));
    if (e->rig->places == 1)
        (void)try_send(e, 0, TB_CONTROL, s.number + 1, sizeof(struct stamp));
}

static void test_bounded(struct rig *r)
{
    struct end a, b, *to;
    int peer = r->places - 1;
    int n;

    open_pair(r, &a, &b);
    to = peer_of(&a, &b);
    to->also = refill;
    if (to == &a)
        CHECK_EQ(try_send(&a, 0, TB_CONTROL, 0, sizeof(struct stamp)), TB_OK);
    else
        fill(&a, peer, 0, sizeof(struct stamp));
    do
        n = end_poll(to);
    while (!n);
    CHECK(n > 0 && n < 1000);
    close_pair(&a, &b);
}

/* --------------------------------------------------------- calls from below */

/* Answers from within the upcall. */
static void answer(struct end *e, int from, const void *data, size_t bytes)
{
    struct stamp s;

    memcpy(&s, data, sizeof(s));
    if (e->place == 1)
        CHECK_EQ(try_send(e, from, TB_CONTROL, s.number, bytes), TB_OK);
}

static void test_answer(struct rig *r)
{
    struct end a, b;
    uint32_t state = 5;

    open_pair(r, &a, &b);
    b.also = answer;
    for (uint64_t i = 0; i < 3000; i++) {
        size_t bytes = draw_bytes(&state, a.limits.packet_max);
        CHECK_EQ(try_send(&a, 1, TB_CONTROL, i, bytes), TB_OK);
        await_packets(&b, (long)i + 1);
        await_packets(&a, (long)i + 1);
    }
    close_pair(&a, &b);
}

/* ------------------------------------------------------------------ waiting */

static void *sleepy_echo(void *arg)
{
    struct script *s = arg;
    struct end *e = s->e;

    for (long i = 0; i < s->packets; i++) {
        while (e->packets <= i) {
            if (!end_poll(e))
                CHECK(end_sleep(e, 5000000000u));
        }
        send_packet(e, 0, TB_CONTROL, (uint64_t)i, 40);
    }
    finish(e, s->busy);
    return NULL;
}

/* Both sides sleep at once whenever there is nothing: a lost wake-up shows as
 * a sleep that runs out. */
static void test_wake(struct rig *r)
{
    struct end a, b;
    _Atomic int busy = 2;
    struct script s = {.e = &b, .packets = 3000, .busy = &busy};
    pthread_t thread;

    open_pair(r, &a, &b);
    part_pair(&a, &b);
    CHECK(!pthread_create(&thread, NULL, sleepy_echo, &s));
    for (long i = 0; i < s.packets; i++) {
        send_packet(&a, 1, TB_CONTROL, (uint64_t)i, 40);
        while (a.packets <= i) {
            if (!end_poll(&a))
                CHECK(end_sleep(&a, 5000000000u));
        }
    }
    finish(&a, &busy);
    pthread_join(thread, NULL);
    close_pair(&a, &b);
}

static void *sleepy_reader(void *arg)
{
    struct script *s = arg;

    while (s->e->packets < s->packets) {
        if (!end_poll(s->e))
            CHECK(end_sleep(s->e, 5000000000u));
    }
    finish(s->e, s->busy);
    return NULL;
}

/* A writer out of room sleeps until the reader has made some. */
static void test_wake_writer(struct rig *r)
{
    struct end a, b;
    _Atomic int busy = 2;
    struct script s = {.e = &b, .packets = 20000, .busy = &busy};
    pthread_t thread;
    uint32_t state = 99;
    size_t most;

    open_pair(r, &a, &b);
    most = TB_MIN(a.limits.packet_max, 16384u); /* a sanitizer is slow */
    part_pair(&a, &b);
    CHECK(!pthread_create(&thread, NULL, sleepy_reader, &s));
    for (long i = 0; i < s.packets; i++) {
        size_t bytes = draw_bytes(&state, most);
        while (try_send(&a, 1, TB_CONTROL, (uint64_t)i, bytes))
            CHECK(end_poll(&a) || end_sleep(&a, 5000000000u));
    }
    finish(&a, &busy);
    pthread_join(thread, NULL);
    close_pair(&a, &b);
}

/* --------------------------------------------------------------- many peers */

struct crowd {
    struct rig rig;
    _Atomic int busy;
    struct end ends[RIG_MOST];
};

struct member {
    struct crowd *crowd;
    int place;
};

#define CROWD_ROUNDS 300

/* Everybody sends to everybody. */
static void *mingle(void *arg)
{
    struct member *m = arg;
    struct end *e = &m->crowd->ends[m->place];
    int n = m->crowd->rig.places;
    uint32_t state = (uint32_t)m->place + 1;

    for (uint64_t i = 0; i < CROWD_ROUNDS; i++) {
        for (int k = 1; k < n; k++)
            send_packet(e, (m->place + k) % n, TB_CONTROL, i,
                        draw_bytes(&state, e->limits.packet_max));
    }
    await_packets(e, (long)CROWD_ROUNDS * (n - 1));
    finish(e, &m->crowd->busy);
    CHECK_EQ(end_poll(e), 0);
    end_fini(e);
    return NULL;
}

static void test_many(struct rig *r)
{
    struct crowd *c = calloc(1, sizeof(*c));
    struct member members[RIG_MOST];
    pthread_t threads[RIG_MOST];
    int n = 8;

    rig_init(&c->rig, r->via, n, r->config.ring);
    c->busy = n;
    for (int i = 0; i < n; i++) {
        end_init(&c->ends[i], &c->rig, i);
        members[i] = (struct member){c, i};
    }
    for (int i = 0; i < n; i++)
        CHECK(!pthread_create(&threads[i], NULL, mingle, &members[i]));
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    rig_fini(&c->rig);
    free(c);
}

/* --------------------------------------------------------------------- pull */

static void test_pull(struct rig *r)
{
    enum { N = 100000 };
    unsigned char *from = malloc(N), *to = calloc(N, 1);
    struct end a, b;
    size_t done = 1;
    tb_err err;

    open_pair(r, &a, &b);
    for (int i = 0; i < N; i++)
        from[i] = body_byte(5, (size_t)i);
    err = r->via->pull(a.links[r->places - 1], (uint64_t)(uintptr_t)from, to, N,
                       &done);
    CHECK(err == TB_OK || err == TB_ERR_NOTSUP);
    CHECK(done <= N);
    if (!err)
        CHECK_EQ(done, N);
    CHECK(!memcmp(from, to, done));
    close_pair(&a, &b);
    free(from);
    free(to);
}

/* As where the system forbids it. */
static void test_pull_refused(struct rig *r)
{
    struct end a, b;
    size_t done = 1;
    char from = 1, to = 0;

    r->config.single_copy = TB_SINGLE_COPY_REFUSE;
    open_pair(r, &a, &b);
    CHECK_EQ(
        r->via->pull(a.links[1], (uint64_t)(uintptr_t)&from, &to, 1, &done),
        TB_ERR_NOTSUP);
    CHECK_EQ(done, 0);
    close_pair(&a, &b);
    rig_connect(r);
    r->config.single_copy = TB_SINGLE_COPY_OFF;
    open_pair(r, &a, &b);
    CHECK_EQ(a.limits.pull_min, SIZE_MAX);
    close_pair(&a, &b);
}

/* --------------------------------------------------------- open and connect */

static void test_limits(struct rig *r)
{
    struct end a, b;

    open_pair(r, &a, &b);
    CHECK(a.limits.packet_max >= 256);
    CHECK(a.limits.eager_max > 0);
    CHECK(a.limits.latency_ns > 0);
    CHECK_EQ(r->via->connect(a.port, r->places == 1 ? 1 : 0, &a.links[0]),
             TB_ERR_NOTSUP);
    CHECK_EQ(r->via->connect(a.port, 99, &a.links[0]), TB_ERR_NOTSUP);
    close_pair(&a, &b);
}

/* Packets may be committed before the other side exists, and the sender may
 * be gone before the other side looks. */
static void test_early(struct rig *r)
{
    struct end a, b;

    end_init(&a, r, 0);
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(try_send(&a, 1, TB_CONTROL, i, 100), TB_OK);
    end_fini(&a);
    end_init(&b, r, 1);
    await_packets(&b, 3);
    r->via->check(b.port);
    end_poll(&b);
    CHECK_EQ(b.losts, 0);
    end_fini(&b);
}

static void test_out_of_memory(struct rig *r)
{
    struct end a;
    tb_err err = TB_ERR_NO_MEM;

    for (long n = 0; err; n++) {
        CHECK(n < 100);
        tb_mem_fail_after(n);
        err = end_open(&a, r, 0);
        tb_mem_fail_after(-1);
        CHECK(err == TB_OK || err == TB_ERR_NO_MEM);
        CHECK(!err == !!a.port);
    }
    end_fini(&a);
}

/* ------------------------------------------------------------------ running */

static const struct {
    const char *name;
    const struct tb_transport *via;
    int places;
    int64_t ring;
} cases[] = {
    {"self", &tb_transport_self, 1, 0},
    {"shm, smallest rings", &tb_transport_shm, 2, 1},
    {"shm, rings of 20 KiB", &tb_transport_shm, 2, 20480},
    {"shm, largest rings", &tb_transport_shm, 2, 0},
    {"rdma", &tb_transport_rdma, 2, 0},
    {"tcp, smallest rings", &tb_transport_tcp, 2, 1},
    {"tcp, rings of 20 KiB", &tb_transport_tcp, 2, 20480},
    {"tcp, largest rings", &tb_transport_tcp, 2, 0},
};

static const struct {
    const char *name;
    void (*run)(struct rig *r);
    int places; /* at least */
} tests[] = {
    {"limits", test_limits, 1},
    {"order", test_order, 1},
    {"bulk", test_bulk, 1},
    {"sizes", test_sizes, 1},
    {"short packets", test_short, 1},
    {"unused room", test_unused_room, 1},
    {"again", test_again, 1},
    {"bounded poll", test_bounded, 1},
    {"answer from upcall", test_answer, 2},
    {"early packets", test_early, 2},
    {"wake", test_wake, 2},
    {"wake writer", test_wake_writer, 2},
    {"many peers", test_many, 2},
    {"pull", test_pull, 1},
    {"pull refused", test_pull_refused, 2},
    {"out of memory", test_out_of_memory, 1},
};

/* suite [beginning of a case's name] */
int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < TB_COUNT_OF(cases); i++) {
        for (size_t k = 0; k < TB_COUNT_OF(tests); k++) {
            struct rig r;
            if (strncmp(cases[i].name, wanted, strlen(wanted)) ||
                cases[i].places < tests[k].places ||
                (tests[k].run == test_early &&
                 cases[i].via == &tb_transport_rdma))
                continue;
            printf("%s: %s\n", cases[i].name, tests[k].name);
            fflush(stdout);
            limit_time(60);
            rig_init(&r, cases[i].via, cases[i].places, cases[i].ring);
            tests[k].run(&r);
            rig_fini(&r);
        }
    }
    return 0;
}
