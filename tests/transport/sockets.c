/* SPDX-License-Identifier: MIT */
/*
 * What comes out of a socket of the tcp transport may be anything: the other
 * end is this test, which writes frames of its own making. It may cost the link
 * and nothing else, and the message says what was wrong.
 */
#include "net/tcp_port.h"
#include "transport/rig.h"

static struct rig rig;
static struct end end;
static int wire; /* the other end's socket */
static char note[256];

static void on_any(void *ctx, int from, enum tb_channel ch, const void *data,
                   size_t bytes)
{
    struct end *e = ctx;
    volatile unsigned char sum = 0;

    (void)from, (void)ch;
    for (size_t i = 0; i < bytes; i++)
        sum += ((const unsigned char *)data)[i];
    e->packets++;
}

static void on_lost(void *ctx, int peer, tb_err why)
{
    rig_lost(ctx, peer, why);
    snprintf(note, sizeof(note), "%s", tb_fail_note());
}

static void set_up(void)
{
    rig_init(&rig, &tb_transport_tcp, 2, 0);
    end_init(&end, &rig, 0);
    end.sink.packet = end.sink.returned = on_any;
    end.sink.lost = on_lost;
    wire = rig.socket[1][0];
    note[0] = 0;
}

static void take_down(void)
{
    end_fini(&end);
    rig_fini(&rig);
}

static void say(const void *data, size_t bytes)
{
    CHECK(send(wire, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

static void say_frame(unsigned kind, size_t bytes, uint64_t taken)
{
    char filling[1024] = {0};
    struct frame f = {(uint32_t)bytes, (uint16_t)kind, FRAME_MAGIC, taken};

    say(&f, sizeof(f));
    if (bytes <= sizeof(filling) - 8)
        say(filling, tb_round_up(bytes, 8));
}

static struct hello hello(void)
{
    struct hello h = {
        .magic = HELLO_MAGIC,
        .self = 1,
        .peer = 0,
        .endpoints = 2,
        .ring = 65536,
        .pointer_bytes = sizeof(void *),
        .long_double_bytes = sizeof(long double),
        .build = "a build",
    };

    return h;
}

static void say_hello(const struct hello *h)
{
    struct frame f = {sizeof(*h), FRAME_HELLO, FRAME_MAGIC, 0};

    say(&f, sizeof(f));
    say(h, sizeof(*h));
}

/* Loopback delivers at once, but a poll reads a piece at a time. */
static void poll_some(void)
{
    for (int i = 0; i < 10; i++)
        end_poll(&end);
}

static void expect_broken(const char *words)
{
    poll_some();
    CHECK_EQ(end.losts, 1);
    CHECK_EQ(end.lost_why, TB_ERR_PROTOCOL);
    if (!strstr(note, words)) {
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", words, note);
        exit(1);
    }
    CHECK_EQ(try_send(&end, 1, TB_CONTROL, 0, 40), TB_ERR_LOST);
    CHECK(!rig.via->pending(end.port));
    take_down();
}

/* -------------------------------------------------------------------- hello */

static void test_no_hello(void)
{
    set_up();
    say_frame(FRAME_CONTROL, 8, 0);
    expect_broken("does not begin");
    set_up();
    say("GET / HTTP/1.1\r\nHost: mac1\r\n\r\n", 30);
    expect_broken("no frame");
}

static void test_two_hellos(void)
{
    struct hello h = hello();

    set_up();
    say_hello(&h);
    say_hello(&h);
    expect_broken("one hello");
}

static void test_hellos(void)
{
    struct hello h = hello();

    h.magic = __builtin_bswap64(h.magic);
    set_up();
    say_hello(&h);
    expect_broken("byte order");
    h = hello();
    h.build[0] = 'b';
    set_up();
    say_hello(&h);
    expect_broken("tbmpi b build runs there and a build here");
    h = hello();
    memset(h.build, 'x', sizeof(h.build));
    set_up();
    say_hello(&h);
    expect_broken("tbmpi xxx");
    h = hello();
    h.long_double_bytes = 7;
    set_up();
    say_hello(&h);
    expect_broken("long double 7");
    h = hello();
    h.peer = 1;
    set_up();
    say_hello(&h);
    expect_broken("looks for rank 1");
    h = hello();
    h.ring = 0;
    set_up();
    say_hello(&h);
    expect_broken("ring has 0");
}

/* ------------------------------------------------------------------- frames */

static void test_lengths(void)
{
    struct hello h = hello();
    static const size_t lengths[] = {FRAME_MOST - sizeof(struct frame) + 1,
                                     FRAME_MOST, UINT32_MAX};

    for (size_t i = 0; i < TB_COUNT_OF(lengths); i++) {
        set_up();
        say_hello(&h);
        say_frame(FRAME_BULK, lengths[i], 0);
        expect_broken("no frame");
    }
    set_up();
    say_hello(&h);
    say_frame(FRAME_CONTROL, 0, 0);
    expect_broken("is none");
    set_up();
    say_hello(&h);
    say_frame(FRAME_TAKEN, 8, 0);
    expect_broken("is none");
    set_up();
    say_hello(&h);
    say_frame(FRAME_BYE + 1, 0, 0);
    expect_broken("is none");
}

static void test_taken(void)
{
    struct hello h = hello();
    uint64_t sent;

    set_up();
    say_hello(&h);
    say_frame(FRAME_TAKEN, 0, 1);
    expect_broken("what was not sent");
    set_up();
    CHECK_EQ(try_send(&end, 1, TB_CONTROL, 0, 100), TB_OK);
    sent = frame_bytes(sizeof(struct hello)) + frame_bytes(100);
    say_hello(&h);
    say_frame(FRAME_TAKEN, 0, sent);
    poll_some();
    CHECK_EQ(end.losts, 0);
    say_frame(FRAME_TAKEN, 0, sent - 8); /* it cannot be less than before */
    expect_broken("what was not sent");
    set_up();
    CHECK_EQ(try_send(&end, 1, TB_CONTROL, 0, 100), TB_OK);
    say_hello(&h);
    say_frame(FRAME_TAKEN, 0, sent - 8); /* in the middle of a frame */
    expect_broken("what was not sent");
}

static void test_ends(void)
{
    struct hello h = hello();

    set_up(); /* in the middle of a frame */
    say_hello(&h);
    say("TBTBTBTB", 8);
    CHECK(!shutdown(wire, SHUT_WR));
    poll_some();
    CHECK_EQ(end.losts, 1);
    CHECK_EQ(end.lost_why, TB_ERR_LOST);
    CHECK(strstr(note, "another machine"));
    take_down();
    set_up(); /* in order, and what follows is nobody's concern */
    say_hello(&h);
    say_frame(FRAME_CONTROL, 24, 0);
    say_frame(FRAME_BYE, 0, 0);
    CHECK(!shutdown(wire, SHUT_WR));
    poll_some();
    CHECK_EQ(end.packets, 1);
    CHECK_EQ(end.losts, 0);
    CHECK(!rig.via->pending(end.port));
    CHECK_EQ(try_send(&end, 1, TB_CONTROL, 0, 40), TB_ERR_LOST);
    poll_some();
    CHECK_EQ(end.losts, 1);
    CHECK(strstr(note, "MPI_Finalize"));
    take_down();
    set_up(); /* more after a goodbye */
    say_hello(&h);
    say_frame(FRAME_BYE, 0, 0);
    say_frame(FRAME_CONTROL, 8, 0);
    expect_broken("is none");
}

/* -------------------------------------------------------------------- noise */

static void test_noise(void)
{
    struct hello h = hello();

    for (uint32_t seed = 1; seed < 400; seed++) {
        uint32_t state = seed;

        set_up();
        if (seed % 4)
            say_hello(&h);
        for (int i = 0; i < 200 && !end.losts; i++) {
            struct frame f = {draw(&state) & 0x100ff, draw(&state) % 6,
                              FRAME_MAGIC, draw(&state) % 600};
            if (seed % 2)
                f.taken = 0;
            if (send(wire, &f, draw(&state) % 50 ? sizeof(f) : 5,
                     MSG_NOSIGNAL) < 0)
                break;
            (void)try_send(&end, 1, TB_BULK, (uint64_t)i, 40);
            end_poll(&end);
        }
        CHECK(end.losts <= 1);
        CHECK(!end.losts || end.lost_why == TB_ERR_PROTOCOL);
        take_down();
    }
}

/* Another build is told from both sides. */
static void test_builds(void)
{
    struct rig r;
    struct end a, b;

    rig_init(&r, &tb_transport_tcp, 2, 0);
    end_init(&a, &r, 0);
    r.build = "other";
    end_init(&b, &r, 1);
    CHECK_EQ(try_send(&a, 1, TB_CONTROL, 0, 40), TB_OK);
    CHECK_EQ(try_send(&b, 0, TB_CONTROL, 0, 40), TB_OK);
    for (int i = 0; i < 10; i++) {
        end_poll(&a);
        end_poll(&b);
    }
    CHECK_EQ(a.losts, 1);
    CHECK_EQ(b.losts, 1);
    CHECK_EQ(a.packets + b.packets, 0);
    end_fini(&a);
    end_fini(&b);
    rig_fini(&r);
}

int main(void)
{
    test_no_hello();
    test_two_hellos();
    test_hellos();
    test_lengths();
    test_taken();
    test_ends();
    test_noise();
    test_builds();
    return 0;
}
