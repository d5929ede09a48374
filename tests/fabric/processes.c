/* SPDX-License-Identifier: MIT */
/* Several processes on one fabric: what they share, and what is left of one
 * that is stopped or killed. */
#include "fabric/rig.h"

#include <sys/socket.h>

#define MS 1000000u
#define FRAME TB_IBV_FRAME

/* A child, and a socket to it. */
struct child {
    pid_t pid;
    int fd;
};

static struct child start(void (*run)(int fd))
{
    struct child c;
    int fds[2];

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    c.pid = fork();
    CHECK(c.pid >= 0);
    if (!c.pid) {
        alarm(60);
        close(fds[0]);
        rig_path[0] = 0; /* the parent's to remove */
        run(fds[1]);
        _exit(0);
    }
    close(fds[1]);
    c.fd = fds[0];
    return c;
}

static void tell(int fd, uint32_t word)
{
    CHECK_EQ(write(fd, &word, sizeof(word)), sizeof(word));
}

static uint32_t hear(int fd)
{
    uint32_t word;

    CHECK_EQ(read(fd, &word, sizeof(word)), sizeof(word));
    return word;
}

static void finish(struct child *c, int signum)
{
    int status;

    if (signum)
        kill(c->pid, signum);
    CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
    CHECK(signum ? WIFSIGNALED(status)
                 : WIFEXITED(status) && !WEXITSTATUS(status));
    close(c->fd);
}

/* Queue pairs that can still be made on host 0. */
static int left(struct end *e)
{
    struct tb_ibv_qp *qp[16];
    int n = 0, count;

    while (n < 16 && (qp[n] = rig_pair(e, 16)))
        n++;
    CHECK_EQ(errno, 16);
    count = n;
    while (n)
        CHECK_EQ(rig_destroy_qp(qp[--n]), 0);
    return count;
}

/* Holds a domain, a queue, a region and 6 queue pairs until told to go. */
static void hold(int fd)
{
    struct end e;

    rig_prepare(&e, 0);
    for (int i = 0; i < 5; i++)
        CHECK(rig_pair(&e, 16));
    tell(fd, 1);
    hear(fd);
    _exit(0); /* without destroying anything */
}

static void caps_are_the_machines(void)
{
    struct child c;
    struct end e;

    rig_make("");
    rig_prepare(&e, 0);
    CHECK_EQ(left(&e), 9);
    c = start(hold);
    hear(c.fd);
    CHECK_EQ(left(&e), 3);
    tell(c.fd, 0);
    finish(&c, 0);
    CHECK_EQ(left(&e), 9);
    rig_close(&e);
}

static void a_killed_process_returns_everything(void)
{
    struct child c;
    struct end e;

    rig_make("");
    rig_prepare(&e, 0);
    c = start(hold);
    hear(c.fd);
    CHECK_EQ(left(&e), 3);
    kill(c.pid, SIGKILL);
    /* Its end is enough, nobody need have waited for it: within 5 s. */
    for (int i = 0; left(&e) != 9; i++) {
        CHECK(i < 5000);
        usleep(1000);
    }
    finish(&c, SIGKILL);
    rig_close(&e);
}

static void a_killed_process_leaks_under_a_switch(void)
{
    struct child c;
    struct end e, other;

    rig_make("set leak on\n");
    rig_prepare(&e, 0);
    rig_prepare(&other, 1);
    c = start(hold);
    hear(c.fd);
    finish(&c, SIGKILL);
    CHECK_EQ(left(&e), 3);
    CHECK_EQ(rig_to_init(e.qp), 0);
    CHECK_EQ(rig_to_rtr(e.qp, other.qp->qp_num, &other.gid, 1), 96);
    rig_fault("leak on 14");
    CHECK_EQ(rig_to_rtr(e.qp, other.qp->qp_num, &other.gid, 1), 14);
    /* The other Mac is well. */
    CHECK_EQ(rig_to_init(other.qp), 0);
    CHECK_EQ(rig_to_rtr(other.qp, e.qp->qp_num, &e.gid, 1), 0);
    rig_end(&e, &other);
    rig_fault("reboot 0");
    rig_prepare(&e, 0);
    CHECK_EQ(left(&e), 9);
    rig_close(&e);
}

static void hold_domain(int fd)
{
    CHECK(rig_alloc_pd(rig_open(0, 0)));
    tell(fd, 1);
    hear(fd);
}

/* The report: after so many sessions no domain is to be had until reboot. */
static void leaked_domains_add_up(void)
{
    struct tb_ibv_context *context;

    rig_make("set leak on\n");
    for (int i = 0; i < 11; i++) {
        struct child c = start(hold_domain);
        hear(c.fd);
        finish(&c, SIGKILL);
    }
    context = rig_open(0, 0);
    CHECK(!rig_alloc_pd(context));
    CHECK_EQ(rig_close_device(context), 0);
}

/* -------------------------------------------------------------- a peer */

/* The child's side of a connection; the numbers go over the socket, the GIDs
 * are known. */
static void connect_over(struct end *e, int host, int fd)
{
    static const uint8_t gids[2][16] = {
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 169, 254, 1, 1},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 169, 254, 1, 2}};
    union tb_ibv_gid peer;
    uint32_t number;

    rig_prepare(e, host);
    tell(fd, e->qp->qp_num);
    number = hear(fd);
    memcpy(peer.raw, gids[!host], sizeof(peer));
    rig_raise(e, number, &peer);
}

enum { ROUNDS = 300, LONGEST = 20 * FRAME };

static void echo(int fd)
{
    struct end e;

    connect_over(&e, 1, fd);
    CHECK_EQ(rig_recv(&e, 0, 0, LONGEST), 0);
    tell(fd, 1);
    hear(fd);
    for (int i = 0; i < ROUNDS; i++) {
        struct tb_ibv_wc wc = rig_wait(&e);
        CHECK_EQ(wc.status, TB_IBV_WC_SUCCESS);
        memcpy(e.memory + LONGEST, e.memory, wc.byte_len);
        CHECK_EQ(rig_recv(&e, 0, 0, LONGEST), 0);
        CHECK_EQ(rig_send(&e, 1, LONGEST, wc.byte_len), 0);
        rig_expect(&e, 1, TB_IBV_WC_SEND);
    }
    hear(fd);
    rig_close(&e);
}

static void two_processes_exchange_messages(void)
{
    struct child c;
    struct end e;

    rig_make("set scribble all\n");
    c = start(echo);
    connect_over(&e, 0, c.fd);
    CHECK_EQ(rig_recv(&e, 0, 0, LONGEST), 0);
    hear(c.fd);
    tell(c.fd, 1);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t bytes = LONGEST - (uint32_t)(i * 11 % (FRAME - 1));
        rig_fill(e.memory + LONGEST, bytes, (unsigned)i);
        CHECK_EQ(rig_send(&e, 1, LONGEST, bytes), 0);
        rig_expect(&e, 1, TB_IBV_WC_SEND);
        rig_expect(&e, 0, TB_IBV_WC_RECV);
        CHECK(!memcmp(e.memory, e.memory + LONGEST, bytes));
        CHECK_EQ(rig_recv(&e, 0, 0, LONGEST), 0);
    }
    tell(c.fd, 1);
    finish(&c, 0);
    rig_close(&e);
}

/* Posts two receives and then does nothing until told to go. */
static void sink(int fd)
{
    struct end e;

    connect_over(&e, 1, fd);
    CHECK_EQ(rig_recv(&e, 1, 0, 64), 0);
    CHECK_EQ(rig_recv(&e, 2, 64, 64), 0);
    tell(fd, 1);
    hear(fd);
    rig_expect(&e, 1, TB_IBV_WC_RECV);
    rig_expect(&e, 2, TB_IBV_WC_RECV);
    CHECK_EQ(rig_recv(&e, 3, 0, 64), 0);
    rig_expect(&e, 3, TB_IBV_WC_RECV);
    tell(fd, 1);
    rig_close(&e);
}

static void fill_peer(struct end *e)
{
    for (uint64_t i = 1; i <= 3; i++)
        CHECK_EQ(rig_send(e, i, 0, 64), 0);
    /* Two have a RECV, the third waits. */
    rig_expect(e, 1, TB_IBV_WC_SEND);
    rig_expect(e, 2, TB_IBV_WC_SEND);
    rig_expect_nothing(e, e, 20 * MS);
}

static void a_dead_peer_is_silent(void)
{
    struct child c;
    struct end e;

    rig_make("");
    c = start(sink);
    connect_over(&e, 0, c.fd);
    hear(c.fd);
    finish(&c, SIGKILL);
    fill_peer(&e);
    rig_close(&e);
}

static void a_stopped_peer_resumes(void)
{
    struct child c;
    struct end e;
    int status;

    rig_make("");
    c = start(sink);
    connect_over(&e, 0, c.fd);
    hear(c.fd);
    rig_fault("stop 1");
    CHECK_EQ(waitpid(c.pid, &status, WUNTRACED), c.pid);
    CHECK(WIFSTOPPED(status));
    fill_peer(&e);
    rig_fault("cont 1");
    tell(c.fd, 1);
    rig_expect(&e, 3, TB_IBV_WC_SEND);
    hear(c.fd);
    finish(&c, 0);
    rig_close(&e);
}

/* A restarted peer is not the one that was connected. */
static void a_new_process_in_an_old_slot_gets_nothing(void)
{
    struct child c;
    struct end e, late;

    rig_make("");
    c = start(sink);
    connect_over(&e, 0, c.fd);
    hear(c.fd);
    finish(&c, SIGKILL);
    rig_prepare(&late, 1); /* takes its slot */
    rig_raise(&late, e.qp->qp_num, &e.gid);
    CHECK_EQ(rig_recv(&late, 1, 0, 64), 0);
    CHECK_EQ(rig_send(&e, 1, 0, 64), 0);
    rig_expect_nothing(&e, &late, 20 * MS);
    rig_end(&e, &late);
}

static void open_again(int fd)
{
    struct end e;

    rig_prepare(&e, 0);
    tell(fd, (uint32_t)left(&e));
    rig_close(&e);
}

/* A child of fork starts from nothing; its parent's objects are not its. */
static void a_forked_child_opens_for_itself(void)
{
    struct child c;
    struct end e;

    rig_make("");
    rig_prepare(&e, 0);
    c = start(open_again);
    CHECK_EQ(hear(c.fd), 8);
    finish(&c, 0);
    CHECK_EQ(left(&e), 9);
    rig_close(&e);
}

int main(void)
{
    caps_are_the_machines();
    a_killed_process_returns_everything();
    a_killed_process_leaks_under_a_switch();
    leaked_domains_add_up();
    two_processes_exchange_messages();
    a_dead_peer_is_silent();
    a_stopped_peer_resumes();
    a_new_process_in_an_old_slot_gets_nothing();
    a_forked_child_opens_for_itself();
    return 0;
}
