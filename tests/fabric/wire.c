/* SPDX-License-Identifier: MIT */
/* The data path: what a SEND and its RECV promise, and what they do not. */
#include "fabric/rig.h"

#define MS 1000000u

static struct end a, b;

static void open_both(const char *settings)
{
    rig_make(settings);
    rig_connect(&a, &b);
}

static void close_both(void)
{
    rig_end(&a, &b);
}

static void messages_of_all_sizes_arrive(void)
{
    static const uint32_t sizes[] = {0,    1,    64,     4095,    4096,
                                     4097, 8192, 131072, 1000000, 4 << 20};

    open_both("");
    for (size_t i = 0; i < TB_COUNT_OF(sizes); i++) {
        rig_exchange(&a, &b, sizes[i]);
        rig_exchange(&b, &a, sizes[i]);
    }
    close_both();
}

static void a_long_stream_arrives_in_order(void)
{
    enum { DEPTH = 16, COUNT = 4000, ROOM = 3 * TB_IBV_FRAME };
    int posted = 0, got = 0, sent = 0;

    open_both("set latency 0\nset rate 0\n");
    while (got < COUNT) {
        struct tb_ibv_wc wc;
        for (; posted < COUNT && posted < got + DEPTH; posted++) {
            uint32_t bytes = (uint32_t)posted * 37 % ROOM + 4;
            CHECK_EQ(rig_recv(&b, (uint64_t)posted,
                              (size_t)(posted % DEPTH) * ROOM, bytes),
                     0);
        }
        for (; sent < posted; sent++) {
            uint32_t bytes = (uint32_t)sent * 37 % ROOM + 4;
            char *p = a.memory + (size_t)(sent % DEPTH) * ROOM;
            memcpy(p, &sent, sizeof(sent));
            p[bytes - 1] = (char)sent;
            CHECK_EQ(rig_send(&a, (uint64_t)sent, (size_t)(sent % DEPTH) * ROOM,
                              bytes),
                     0);
        }
        while (tb_ibv_poll_cq(a.cq, 1, &wc))
            CHECK_EQ(wc.status, TB_IBV_WC_SUCCESS);
        while (tb_ibv_poll_cq(b.cq, 1, &wc)) {
            char *p = b.memory + (size_t)(got % DEPTH) * ROOM;
            CHECK_EQ(wc.status, TB_IBV_WC_SUCCESS);
            CHECK_EQ(wc.wr_id, got);
            CHECK_EQ(wc.byte_len, (uint32_t)got * 37 % ROOM + 4);
            CHECK(wc.byte_len < 8 || !memcmp(p, &got, sizeof(got)));
            CHECK_EQ(p[wc.byte_len - 1], (char)got);
            got++;
        }
    }
    close_both();
}

/* The sender is always far ahead, so that its ring never runs empty: it goes
 * round, in front and again behind what is not taken yet. */
static void a_receiver_that_lags_stalls_nothing(void)
{
    enum { AHEAD = 60, COUNT = 2000 };
    int sent = 0, got = 0;
    struct tb_ibv_wc wc;

    open_both("set latency 0\nset rate 0\n");
    for (int i = 0; i < 2 * AHEAD; i++)
        CHECK_EQ(rig_recv(&b, 0, 0, 8192), 0);
    while (got < COUNT) {
        uint64_t until = tb_now() + 5ull * SECOND;
        for (; sent < COUNT && sent < got + AHEAD; sent++)
            CHECK_EQ(rig_send(&a, 0, 0, 4097 + (uint32_t)sent % 4000), 0);
        while (!tb_ibv_poll_cq(b.cq, 1, &wc)) {
            CHECK(tb_now() < until);
            tb_ibv_poll_cq(a.cq, 1, &wc);
        }
        CHECK_EQ(wc.status, TB_IBV_WC_SUCCESS);
        CHECK_EQ(wc.byte_len, 4097 + got % 4000);
        CHECK_EQ(rig_recv(&b, 0, 0, 8192), 0);
        got++;
    }
    close_both();
}

/* Hardware holds a SEND until its RECV is there: no error, no limit. */
static void a_send_waits_for_its_recv(void)
{
    open_both("");
    rig_fill(a.memory, 100, 3);
    CHECK_EQ(rig_send(&a, 1, 0, 100), 0);
    rig_expect_nothing(&a, &b, 20 * MS);
    CHECK_EQ(rig_recv(&b, 2, 0, 100), 0);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    rig_expect(&b, 2, TB_IBV_WC_RECV);
    CHECK(!memcmp(a.memory, b.memory, 100));
    close_both();
}

/* As on Soft-RoCE: early is lost, and completes all the same. */
static void a_send_without_recv_is_lost_in_drop_mode(void)
{
    open_both("set credit drop\n");
    CHECK_EQ(rig_send(&a, 1, 0, 100), 0);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    rig_expect_nothing(&a, &b, MS);
    /* It was due before this. */
    CHECK_EQ(rig_recv(&b, 2, 0, 100), 0);
    rig_expect_nothing(&a, &b, MS);
    rig_fill(a.memory, 100, 9);
    CHECK_EQ(rig_send(&a, 3, 0, 100), 0);
    rig_expect(&a, 3, TB_IBV_WC_SEND);
    rig_expect(&b, 2, TB_IBV_WC_RECV);
    CHECK(!memcmp(a.memory, b.memory, 100));
    close_both();
}

/* A SEND completes when it has left, long before the peer has it. */
static void a_send_completes_before_it_arrives(void)
{
    struct tb_ibv_wc wc;

    open_both("set latency 200ms\n");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    CHECK_EQ(tb_ibv_poll_cq(b.cq, 1, &wc), 0);
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    close_both();
}

static void receives_complete_in_the_order_of_their_posting(void)
{
    open_both("");
    for (uint64_t i = 0; i < 8; i++)
        CHECK_EQ(rig_recv(&b, i, i * 64, 64), 0);
    for (uint64_t i = 0; i < 8; i++) {
        memset(a.memory + i * 64, (int)i + 1, 64);
        CHECK_EQ(rig_send(&a, 100 + i, i * 64, 64), 0);
    }
    for (uint64_t i = 0; i < 8; i++) {
        rig_expect(&a, 100 + i, TB_IBV_WC_SEND);
        rig_expect(&b, i, TB_IBV_WC_RECV);
        CHECK_EQ(b.memory[i * 64 + 63], i + 1);
    }
    close_both();
}

/* Equal frames is the rule; equal bytes is not. */
static void a_shorter_message_of_as_many_frames_arrives(void)
{
    struct tb_ibv_wc wc;

    open_both("");
    CHECK_EQ(rig_recv(&b, 1, 0, TB_IBV_FRAME), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 10), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    wc = rig_wait(&b);
    CHECK_EQ(wc.status, TB_IBV_WC_SUCCESS);
    CHECK_EQ(wc.byte_len, 10);
    close_both();
}

static void unequal_frames_fail_the_receive(void)
{
    open_both("");
    CHECK_EQ(rig_recv(&b, 1, 0, 3 * TB_IBV_FRAME), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 2 * TB_IBV_FRAME), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_expect_error(&b, 1, TB_IBV_WC_LOC_LEN_ERR);
    /* Too long within a frame is too long as well. */
    CHECK_EQ(rig_recv(&b, 3, 0, 100), 0);
    CHECK_EQ(rig_send(&a, 4, 0, 200), 0);
    rig_expect(&a, 4, TB_IBV_WC_SEND);
    rig_expect_error(&b, 3, TB_IBV_WC_LOC_LEN_ERR);
    /* Only that one. */
    rig_exchange(&a, &b, 5000);
    close_both();
}

static void unequal_frames_fail_the_queue_pair_under_a_switch(void)
{
    open_both("set mismatch queue\n");
    CHECK_EQ(rig_recv(&b, 1, 0, 3 * TB_IBV_FRAME), 0);
    CHECK_EQ(rig_recv(&b, 2, 0, 64), 0);
    CHECK_EQ(rig_send(&a, 3, 0, 2 * TB_IBV_FRAME), 0);
    rig_expect(&a, 3, TB_IBV_WC_SEND);
    rig_expect_error(&b, 1, TB_IBV_WC_LOC_LEN_ERR);
    rig_expect_error(&b, 2, TB_IBV_WC_WR_FLUSH_ERR);
    CHECK_EQ(b.qp->state, TB_IBV_QPS_ERR);
    /* RESET and up again, at both ends. */
    CHECK_EQ(rig_to(a.qp, TB_IBV_QPS_RESET), 0);
    CHECK_EQ(rig_to(b.qp, TB_IBV_QPS_RESET), 0);
    rig_join(&a, &b);
    rig_exchange(&a, &b, 5000);
    rig_exchange(&b, &a, 5000);
    close_both();
}

/* What was on its way when an end began anew belongs to nobody. */
static void a_reset_forgets_what_was_on_its_way(void)
{
    open_both("set latency 5ms\n");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    memset(a.memory, 1, 64);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    CHECK_EQ(rig_to(b.qp, TB_IBV_QPS_RESET), 0);
    rig_raise(&b, a.qp->qp_num, &a.gid);
    CHECK_EQ(rig_recv(&b, 3, 64, 64), 0);
    rig_expect_nothing(&a, &b, 20 * MS);
    memset(a.memory, 2, 64);
    CHECK_EQ(rig_send(&a, 4, 0, 64), 0);
    rig_expect(&a, 4, TB_IBV_WC_SEND);
    rig_expect(&b, 3, TB_IBV_WC_RECV);
    CHECK_EQ(b.memory[64], 2);
    close_both();
}

static void the_error_state_flushes_in_order(void)
{
    open_both("");
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ(rig_send(&a, i, 0, 64), 0);
        CHECK_EQ(rig_recv(&a, 10 + i, 0, 64), 0);
    }
    CHECK_EQ(rig_to(a.qp, TB_IBV_QPS_ERR), 0);
    for (uint64_t i = 0; i < 3; i++)
        rig_expect_error(&a, i, TB_IBV_WC_WR_FLUSH_ERR);
    for (uint64_t i = 0; i < 3; i++)
        rig_expect_error(&a, 10 + i, TB_IBV_WC_WR_FLUSH_ERR);
    close_both();
}

/* 4 ms on the wire: time to change the buffer after posting. */
#define SLOW "set rate 0.001\nset latency 0\n"

static void a_send_is_read_when_it_completes(void)
{
    open_both(SLOW);
    memset(a.memory, 1, TB_IBV_FRAME);
    CHECK_EQ(rig_recv(&b, 1, 0, TB_IBV_FRAME), 0);
    CHECK_EQ(rig_send(&a, 2, 0, TB_IBV_FRAME), 0);
    memset(a.memory, 2, TB_IBV_FRAME); /* misuse */
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    CHECK_EQ(b.memory[0], 2);
    CHECK_EQ(b.memory[TB_IBV_FRAME - 1], 2);
    close_both();
}

static void a_send_is_read_at_once_under_a_switch(void)
{
    open_both(SLOW "set send_read post\n");
    memset(a.memory, 1, TB_IBV_FRAME);
    CHECK_EQ(rig_recv(&b, 1, 0, TB_IBV_FRAME), 0);
    CHECK_EQ(rig_send(&a, 2, 0, TB_IBV_FRAME), 0);
    memset(a.memory, 2, TB_IBV_FRAME);
    /* And it travels though nobody polls at this end. */
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    CHECK_EQ(b.memory[0], 1);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    close_both();
}

static void posted_memory_is_scribbled_on(void)
{
    static const char *const how[] = {"off", "frames", "all"};

    for (size_t i = 0; i < TB_COUNT_OF(how); i++) {
        char setting[64];
        snprintf(setting, sizeof(setting), "set scribble %s\n", how[i]);
        open_both(setting);
        memset(b.memory, 1, 2 * TB_IBV_FRAME);
        CHECK_EQ(rig_recv(&b, 1, 0, 2 * TB_IBV_FRAME), 0);
        CHECK_EQ(b.memory[0] == 1, i == 0);
        CHECK_EQ(b.memory[TB_IBV_FRAME] == 1, i == 0);
        CHECK_EQ(b.memory[TB_IBV_FRAME - 1] == 1, i < 2);
        close_both();
    }
}

/* The provider takes what the queue has no room for, and it shows later. */
static void a_receive_too_many_fails_the_oldest(void)
{
    rig_make("set depth exact\n");
    rig_prepare(&a, 0);
    rig_prepare(&b, 1);
    CHECK_EQ(rig_destroy_qp(b.qp), 0);
    CHECK(b.qp = rig_pair(&b, 4));
    rig_join(&a, &b);
    /* Frames count, not requests. */
    CHECK_EQ(rig_recv(&b, 0, 0, 3 * TB_IBV_FRAME), 0);
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_recv(&b, 2, 0, 64), 0);
    CHECK_EQ(rig_send(&a, 9, 0, 3 * TB_IBV_FRAME), 0);
    rig_expect(&a, 9, TB_IBV_WC_SEND);
    rig_expect_error(&b, 0, TB_IBV_WC_LOC_LEN_ERR);
    close_both();
}

static void a_receive_too_many_corrupts_the_oldest_under_a_switch(void)
{
    rig_make("set depth exact\nset overpost corrupt\n");
    rig_prepare(&a, 0);
    rig_prepare(&b, 1);
    CHECK_EQ(rig_destroy_qp(b.qp), 0);
    CHECK(b.qp = rig_pair(&b, 4));
    rig_join(&a, &b);
    for (uint64_t i = 0; i < 5; i++)
        CHECK_EQ(rig_recv(&b, i, i * 64, 64), 0);
    memset(a.memory, 7, 64);
    CHECK_EQ(rig_send(&a, 9, 0, 64), 0);
    rig_expect(&a, 9, TB_IBV_WC_SEND);
    rig_expect(&b, 0, TB_IBV_WC_RECV); /* nothing says so, but: */
    CHECK(b.memory[0] != 7);
    CHECK_EQ(b.memory[4 * 64], 7);
    close_both();
}

static void a_send_too_many_spoils_the_oldest(void)
{
    rig_make("set depth exact\n");
    rig_prepare(&a, 0);
    rig_prepare(&b, 1);
    CHECK_EQ(rig_destroy_qp(a.qp), 0);
    CHECK(a.qp = rig_pair(&a, 2));
    rig_join(&a, &b);
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(rig_send(&a, i, 0, 64), 0);
    rig_expect_error(&a, 0, TB_IBV_WC_LOC_LEN_ERR);
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    close_both();
}

static void posting_too_many_is_refused_under_a_switch(void)
{
    struct tb_ibv_recv_wr wr = {.wr_id = 3}, *bad = &wr + 1;

    rig_make("set depth exact\nset overpost refuse\n");
    rig_prepare(&a, 0);
    rig_prepare(&b, 1);
    CHECK_EQ(rig_destroy_qp(a.qp), 0);
    CHECK(a.qp = rig_pair(&a, 2));
    rig_join(&a, &b);
    CHECK_EQ(rig_send(&a, 1, 0, 2 * TB_IBV_FRAME), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 1), -12);
    CHECK_EQ(rig_recv(&a, 1, 0, 2 * TB_IBV_FRAME), 0);
    CHECK_EQ(tb_ibv_post_recv(a.qp, &wr, &bad), -12);
    CHECK(bad == &wr + 1); /* untouched */
    close_both();
}

static void a_list_is_posted_up_to_its_error(void)
{
    struct tb_ibv_sge sge;
    struct tb_ibv_send_wr second = {.wr_id = 2,
                                    .sg_list = &sge,
                                    .num_sge = 1,
                                    .opcode = TB_IBV_WR_RDMA_WRITE,
                                    .send_flags = TB_IBV_SEND_SIGNALED};
    struct tb_ibv_send_wr first = second, *bad = NULL;

    open_both("");
    sge = (struct tb_ibv_sge){(uintptr_t)a.memory, 64, a.mr->lkey};
    first.wr_id = 1;
    first.opcode = TB_IBV_WR_SEND;
    first.next = &second;
    CHECK_EQ(rig_recv(&b, 3, 0, 64), 0);
    CHECK_EQ(tb_ibv_post_send(a.qp, &first, &bad), 102);
    CHECK(!bad);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    rig_expect(&b, 3, TB_IBV_WC_RECV);
    rig_expect_nothing(&a, &b, MS);
    close_both();
}

static int post_write(struct end *e)
{
    struct tb_ibv_sge sge = {(uintptr_t)e->memory, 64, e->mr->lkey};
    struct tb_ibv_send_wr wr = {.wr_id = 1,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = TB_IBV_WR_RDMA_WRITE,
                                .send_flags = TB_IBV_SEND_SIGNALED};
    struct tb_ibv_send_wr *bad;

    return tb_ibv_post_send(e->qp, &wr, &bad);
}

static void an_rdma_write_is_refused(void)
{
    open_both("");
    CHECK_EQ(post_write(&a), 102);
    close_both();
}

static void an_rdma_write_lands_nowhere_under_a_switch(void)
{
    open_both("set rdma_write swallow\n");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(post_write(&a), 0);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    rig_expect_nothing(&a, &b, MS);
    close_both();
}

static int post_two(struct end *e)
{
    struct tb_ibv_sge sge[2] = {{(uintptr_t)e->memory, 10, e->mr->lkey},
                                {(uintptr_t)e->memory + 64, 20, e->mr->lkey}};
    struct tb_ibv_send_wr wr = {.wr_id = 1,
                                .sg_list = sge,
                                .num_sge = 2,
                                .opcode = TB_IBV_WR_SEND,
                                .send_flags = TB_IBV_SEND_SIGNALED};
    struct tb_ibv_send_wr *bad;

    return tb_ibv_post_send(e->qp, &wr, &bad);
}

static void two_sges_are_refused(void)
{
    open_both("");
    CHECK_EQ(post_two(&a), 22);
    close_both();
}

static void two_sges_are_two_messages_under_a_switch(void)
{
    open_both("set sge split\n");
    CHECK_EQ(rig_recv(&b, 5, 0, 64), 0);
    CHECK_EQ(rig_recv(&b, 6, 64, 64), 0);
    CHECK_EQ(post_two(&a), 0);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    CHECK_EQ(rig_wait(&b).byte_len, 10);
    CHECK_EQ(rig_wait(&b).byte_len, 20);
    close_both();
}

static void memory_that_is_not_registered_fails_its_request(void)
{
    open_both("");
    a.mr->lkey += 4096;
    CHECK_EQ(rig_send(&a, 1, 0, 64), 0);
    a.mr->lkey -= 4096;
    rig_expect_error(&a, 1, TB_IBV_WC_LOC_PROT_ERR);
    CHECK_EQ(rig_send(&a, 2, MEMORY - TB_PAGE - 63, 64), 0);
    rig_expect_error(&a, 2, TB_IBV_WC_LOC_PROT_ERR);
    CHECK_EQ(rig_recv(&b, 3, MEMORY, 64), 0);
    CHECK_EQ(rig_send(&a, 4, 0, 64), 0);
    rig_expect(&a, 4, TB_IBV_WC_SEND);
    rig_expect_error(&b, 3, TB_IBV_WC_LOC_PROT_ERR);
    close_both();
}

static void sends_that_are_not_signaled_complete_silently(void)
{
    struct tb_ibv_sge sge;
    struct tb_ibv_send_wr wr = {
        .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = TB_IBV_WR_SEND};
    struct tb_ibv_send_wr *bad;

    open_both("");
    sge = (struct tb_ibv_sge){(uintptr_t)a.memory, 64, a.mr->lkey};
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_recv(&b, 2, 0, 64), 0);
    CHECK_EQ(tb_ibv_post_send(a.qp, &wr, &bad), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    rig_expect(&b, 2, TB_IBV_WC_RECV);
    close_both();
}

int main(void)
{
    messages_of_all_sizes_arrive();
    a_long_stream_arrives_in_order();
    a_receiver_that_lags_stalls_nothing();
    a_send_waits_for_its_recv();
    a_send_without_recv_is_lost_in_drop_mode();
    a_send_completes_before_it_arrives();
    receives_complete_in_the_order_of_their_posting();
    a_shorter_message_of_as_many_frames_arrives();
    unequal_frames_fail_the_receive();
    unequal_frames_fail_the_queue_pair_under_a_switch();
    a_reset_forgets_what_was_on_its_way();
    the_error_state_flushes_in_order();
    a_send_is_read_when_it_completes();
    a_send_is_read_at_once_under_a_switch();
    posted_memory_is_scribbled_on();
    a_receive_too_many_fails_the_oldest();
    a_receive_too_many_corrupts_the_oldest_under_a_switch();
    a_send_too_many_spoils_the_oldest();
    posting_too_many_is_refused_under_a_switch();
    a_list_is_posted_up_to_its_error();
    an_rdma_write_is_refused();
    an_rdma_write_lands_nowhere_under_a_switch();
    two_sges_are_refused();
    two_sges_are_two_messages_under_a_switch();
    memory_that_is_not_registered_fails_its_request();
    sends_that_are_not_signaled_complete_silently();
    return 0;
}
