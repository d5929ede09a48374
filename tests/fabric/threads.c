/* SPDX-License-Identifier: MIT */
/* Both ends of a cable as threads of one process, which ThreadSanitizer can
 * watch, and one context used by several threads. */
#include "fabric/rig.h"

enum { ROUNDS = 3000, DEPTH = 8, ROOM = 2 * TB_IBV_FRAME };

static struct end ends[2];
static _Atomic int ready;

static void meet(int count)
{
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < count)
        tb_yield();
}

static void post_receive(struct end *e, int i)
{
    CHECK_EQ(rig_recv(e, (uint64_t)i, (size_t)(i % DEPTH) * ROOM, ROOM), 0);
}

static void check_message(const char *p, int i)
{
    CHECK_EQ(((const int *)(const void *)p)[0], i);
    CHECK_EQ(((const int *)(const void *)p)[ROOM / 4 - 1], i * 3);
}

static void post_message(struct end *e, int i)
{
    size_t at = (size_t)(DEPTH + i % DEPTH) * ROOM;
    char *p = e->memory + at;

    ((int *)(void *)p)[0] = i;
    ((int *)(void *)p)[ROOM / 4 - 1] = i * 3;
    CHECK_EQ(rig_send(e, (uint64_t)i, at, ROOM), 0);
}

static void *run_end(void *arg)
{
    int host = (int)(intptr_t)arg, received = 0, sent = 0, done = 0;
    struct end *e = &ends[host], *other = &ends[!host];

    rig_prepare(e, host);
    meet(2);
    rig_raise(e, other->qp->qp_num, &other->gid);
    for (int i = 0; i < DEPTH; i++)
        post_receive(e, i);
    while (received < ROUNDS || done < ROUNDS) {
        struct tb_ibv_wc wc;
        if (sent < ROUNDS && sent < done + DEPTH)
            post_message(e, sent++);
        if (!tb_ibv_poll_cq(e->cq, 1, &wc)) {
            tb_yield();
            continue;
        }
        CHECK_EQ(wc.status, TB_IBV_WC_SUCCESS);
        if (wc.opcode == TB_IBV_WC_SEND) {
            done++;
            continue;
        }
        check_message(e->memory + (size_t)(received % DEPTH) * ROOM, received);
        post_receive(e, received + DEPTH);
        received++;
    }
    meet(4);
    rig_close(e);
    return NULL;
}

static void run_two(const char *settings, void *(*run)(void *))
{
    pthread_t thread[2];

    rig_make(settings);
    ready = 0;
    for (intptr_t i = 0; i < 2; i++)
        CHECK(!pthread_create(&thread[i], NULL, run, (void *)i));
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_join(thread[i], NULL));
}

static void two_threads_are_two_macs(void)
{
    run_two("set latency 0\nset rate 0\n", run_end);
    run_two("set latency 0\nset rate 0\nset send_read post\n", run_end);
}

static struct end shared;

/* Makes and destroys on one context while the other thread does. */
static void *churn(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        struct tb_ibv_mr *mr;
        struct tb_ibv_qp *qp;
        struct tb_ibv_wc wc;
        CHECK(mr = rig_reg_mr(shared.pd, shared.memory, 4096, ACCESS));
        CHECK(qp = rig_pair(&shared, 16));
        CHECK_EQ(tb_ibv_poll_cq(shared.cq, 1, &wc), 0);
        CHECK_EQ(rig_destroy_qp(qp), 0);
        CHECK_EQ(rig_dereg_mr(mr), 0);
    }
    return NULL;
}

static void threads_share_a_context(void)
{
    pthread_t thread[2];

    rig_make("");
    rig_prepare(&shared, 0);
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&thread[i], NULL, churn, NULL));
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_join(thread[i], NULL));
    rig_close(&shared);
}

int main(void)
{
    two_threads_are_two_macs();
    threads_share_a_context();
    return 0;
}
