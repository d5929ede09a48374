/* SPDX-License-Identifier: MIT */
/* Loss, corruption, delay, pulled cables: what each looks like. */
#include "fabric/rig.h"

#include <fcntl.h>
#include <setjmp.h>

#define MS 1000000u

static struct end a, b;

static void open_both(const char *settings)
{
    rig_make(settings);
    rig_connect(&a, &b);
}

/* Sends `count` messages of a frame; returns how many arrive. */
static int arrivals(int count)
{
    uint64_t until;
    int got = 0, sent = 0;
    struct tb_ibv_wc wc;

    for (int i = 0; i < count; i++) {
        CHECK_EQ(rig_recv(&b, (uint64_t)i, 0, TB_IBV_FRAME), 0);
        CHECK_EQ(rig_send(&a, (uint64_t)i, 0, TB_IBV_FRAME), 0);
        while (tb_ibv_poll_cq(a.cq, 1, &wc))
            sent++;
        while (tb_ibv_poll_cq(b.cq, 1, &wc))
            got += wc.status == TB_IBV_WC_SUCCESS;
    }
    until = tb_now() + 20 * MS;
    while (tb_now() < until) {
        sent += tb_ibv_poll_cq(a.cq, 1, &wc);
        if (tb_ibv_poll_cq(b.cq, 1, &wc))
            got += wc.status == TB_IBV_WC_SUCCESS;
    }
    CHECK_EQ(sent, count); /* who sends does not notice */
    return got;
}

static void lost_messages_vanish(void)
{
    int got;

    open_both("set loss 20%\nset latency 0\n");
    got = arrivals(1000);
    CHECK(got > 650 && got < 950);
    rig_end(&a, &b);
}

static void loss_repeats_with_its_seed(void)
{
    int first, again;

    open_both("set loss 10%\nset latency 0\nset seed 5\n");
    first = arrivals(500);
    rig_end(&a, &b);
    open_both("set loss 10%\nset latency 0\nset seed 5\n");
    again = arrivals(500);
    rig_end(&a, &b);
    CHECK_EQ(first, again);
}

/* A long message is lost with any of its frames. */
static void loss_is_by_frame(void)
{
    int got = 0;
    struct tb_ibv_wc wc;

    open_both("set loss 2%\nset latency 0\nset rate 0\n");
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(rig_recv(&b, 1, 0, 64 * TB_IBV_FRAME), 0);
        CHECK_EQ(rig_send(&a, 2, 0, 64 * TB_IBV_FRAME), 0);
        rig_expect(&a, 2, TB_IBV_WC_SEND);
        got += tb_ibv_poll_cq(b.cq, 1, &wc);
    }
    CHECK(got > 20 && got < 100); /* 0.98^64 is 27 % */
    rig_end(&a, &b);
}

static void lost_messages_leave_their_recv_posted(void)
{
    open_both("set loss 100%\n");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_expect_nothing(&a, &b, 5 * MS);
    rig_fault("drop 0");
    CHECK_EQ(rig_send(&a, 3, 0, 64), 0);
    rig_expect(&a, 3, TB_IBV_WC_SEND);
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    rig_end(&a, &b);
}

static void lost_messages_fail_their_recv_under_a_switch(void)
{
    open_both("set loss 100%\nset lost fail\n");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_expect_error(&b, 1, TB_IBV_WC_LOC_LEN_ERR);
    rig_end(&a, &b);
}

static void corruption_turns_one_bit_and_reports_success(void)
{
    int wrong = 0;

    open_both("set corrupt 100%\n");
    rig_fill(a.memory, 5000, 1);
    CHECK_EQ(rig_recv(&b, 1, 0, 5000), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 5000), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    for (int i = 0; i < 5000; i++)
        wrong += __builtin_popcount((unsigned char)(a.memory[i] ^ b.memory[i]));
    CHECK_EQ(wrong, 1);
    rig_end(&a, &b);
}

static void delays_keep_the_order(void)
{
    uint64_t start;

    open_both("");
    rig_fault("delay 100%% 20ms");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_recv(&b, 2, 64, 64), 0);
    memset(a.memory, 1, 64);
    memset(a.memory + 64, 2, 64);
    start = tb_now();
    CHECK_EQ(rig_send(&a, 3, 0, 64), 0);
    rig_expect(&a, 3, TB_IBV_WC_SEND);
    rig_fault("delay 0 0");
    CHECK_EQ(rig_send(&a, 4, 64, 64), 0);
    rig_expect(&a, 4, TB_IBV_WC_SEND);
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    CHECK(tb_now() - start >= 20 * MS);
    rig_expect(&b, 2, TB_IBV_WC_RECV);
    CHECK(b.memory[0] == 1 && b.memory[64] == 2);
    rig_end(&a, &b);
}

static void a_pulled_cable_is_silent(void)
{
    struct tb_ibv_port_attr port;

    open_both("");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    rig_fault("pull 0");
    CHECK_EQ(tbmpi_fabric_pulled(rig_path, 0), 1);
    CHECK(!rig_query_port(a.context, 1, &port));
    CHECK_EQ(port.state, TB_IBV_PORT_DOWN);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect_nothing(&a, &b, 20 * MS);
    CHECK_EQ(rig_to(a.qp, TB_IBV_QPS_RESET), 0);
    CHECK_EQ(rig_to_init(a.qp), 0);
    CHECK_EQ(rig_to_rtr(a.qp, b.qp->qp_num, &b.gid, 1), 60);
    /* Back in: old connections stay dead, new ones work. */
    rig_fault("plug 0");
    CHECK_EQ(tbmpi_fabric_pulled(rig_path, 0), 0);
    rig_expect_nothing(&a, &b, 5 * MS);
    CHECK_EQ(rig_to(a.qp, TB_IBV_QPS_RESET), 0);
    CHECK_EQ(rig_to(b.qp, TB_IBV_QPS_RESET), 0);
    rig_join(&a, &b);
    rig_exchange(&a, &b, 100);
    rig_end(&a, &b);
}

static void what_is_on_a_pulled_cable_is_lost(void)
{
    open_both("set latency 20ms\n");
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_fault("pull 0");
    rig_expect_nothing(&a, &b, 50 * MS);
    rig_end(&a, &b);
}

static sigjmp_buf landing;

static void land(int signum)
{
    siglongjmp(landing, signum);
}

/* The doorbell's mapping goes away under the process: a post faults, at both
 * ends, and who survives that can take everything down. */
static void posts_on_a_pulled_cable_fault_under_a_switch(void)
{
    struct sigaction trap = {.sa_handler = land};
    volatile int faults = 0;

    open_both("");
    sigaction(SIGSEGV, &trap, NULL);
    sigaction(SIGBUS, &trap, NULL);
    rig_fault("pull 0 segv");
    if (!sigsetjmp(landing, 1))
        rig_recv(&a, 1, 0, 64);
    else
        faults++;
    if (!sigsetjmp(landing, 1))
        rig_send(&b, 1, 0, 64);
    else
        faults++;
    CHECK_EQ(faults, 2);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    rig_end(&a, &b);
}

static void a_port_that_is_down_gives_no_domain(void)
{
    struct tb_ibv_port_attr port;

    rig_make("");
    rig_fault("port mac0 rdma_en2 down");
    a.context = rig_open(0, 0); /* that works */
    CHECK(!rig_query_port(a.context, 1, &port));
    CHECK_EQ(port.state, TB_IBV_PORT_DOWN);
    CHECK(!rig_alloc_pd(a.context));
    rig_fault("port 0 rdma_en2 up");
    CHECK(a.pd = rig_alloc_pd(a.context));
    CHECK_EQ(rig_dealloc_pd(a.pd), 0);
    CHECK_EQ(rig_close_device(a.context), 0);
}

/* What a launcher reads without us. */
static void the_file_shows_pulled_cables(void)
{
    unsigned char byte = 9;
    int fd;

    rig_make("");
    rig_fault("pull 0");
    fd = open(rig_path, O_RDONLY);
    CHECK_EQ(pread(fd, &byte, 1, 4096), 1);
    CHECK_EQ(byte, 1);
    rig_fault("plug 0");
    CHECK_EQ(pread(fd, &byte, 1, 4096), 1);
    CHECK_EQ(byte, 0);
    close(fd);
    CHECK_EQ(tbmpi_fabric_pulled(rig_path, 1), -1);
}

static void refused(const char *what, const char *says)
{
    char why[2048];

    CHECK_EQ(tbmpi_fabric_fault(rig_path, what, why, sizeof(why)), -1);
    if (!strstr(why, says)) {
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
    }
}

static void wrong_faults_are_refused(void)
{
    rig_make("");
    refused("explode", "'explode' is no fault");
    refused("pull 4", "no cable '4'");
    refused("pull 0 loudly", "silent or segv");
    refused("set speed 9", "no switch 'speed'");
    refused("set loss 3", "takes a share");
    refused("set latency 5", "takes a time");
    refused("set rate -1", "GB/s");
    refused("set credit maybe", "one of hold|drop");
    refused("set qp_max 17", "at most 16");
    refused("set seed 1 0", "not a matter of one cable");
    refused("port 7 x up", "no host '7'");
    refused("port 1 x up", "no device 'x'");
    refused("leak on 3", "96, 16 or 14");
}

int main(void)
{
    lost_messages_vanish();
    loss_repeats_with_its_seed();
    loss_is_by_frame();
    lost_messages_leave_their_recv_posted();
    lost_messages_fail_their_recv_under_a_switch();
    corruption_turns_one_bit_and_reports_success();
    delays_keep_the_order();
    a_pulled_cable_is_silent();
    what_is_on_a_pulled_cable_is_lost();
    posts_on_a_pulled_cable_fault_under_a_switch();
    a_port_that_is_down_gives_no_domain();
    the_file_shows_pulled_cables();
    wrong_faults_are_refused();
    return 0;
}
