/* SPDX-License-Identifier: MIT */
/*
 * Routers and ranks of whole jobs over fake cables: everybody sends to
 * everybody through any shape with the smallest windows; cables die meanwhile;
 * nodes are lost; ranks die or hold still.
 */
#include "router/rig.h"

static void shape_mesh(struct job *j, int n)
{
    j->nodes = n;
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n; b++)
            job_cable(j, a, b);
    }
}

static void shape_ring(struct job *j, int n)
{
    j->nodes = n;
    for (int a = 0; a < n; a++)
        job_cable(j, a, (a + 1) % n);
}

static void shape_line(struct job *j, int n)
{
    j->nodes = n;
    for (int a = 0; a + 1 < n; a++)
        job_cable(j, a, a + 1);
}

static void shape_star(struct job *j, int n)
{
    j->nodes = n;
    for (int a = 1; a < n; a++)
        job_cable(j, 0, a);
}

static void shape_double(struct job *j, int n)
{
    shape_ring(j, n);
    shape_ring(j, n);
}

/* --------------------------------------------------------------- all to all */

struct member {
    struct job *job;
    struct a_rank rank;
    pthread_t thread;
    int packets; /* to each other rank */
    bool any_order;
    _Atomic long sent;
};

static bool is_far(const struct a_rank *a, int rank)
{
    return rank / a->job->per_node != a->plan->self;
}

/* Sends to all, polling only when there is no room. */
static void *mingle(void *arg)
{
    struct member *m = arg;
    struct a_rank *a = &m->rank;
    int size = m->job->size;
    uint32_t state = (uint32_t)a->rank + 1;

    for (int i = 0; i < size && m->any_order; i++)
        a->peers[i].seen = calloc((size_t)m->packets, 1);
    for (int i = 0; i < m->packets; i++) {
        for (int k = 1; k < size; k++) {
            int to = (a->rank + k) % size;
            if (!is_far(a, to))
                continue;
            rank_send(a, to, i % 3 ? TB_CONTROL : TB_BULK, draw_bytes(&state));
            m->sent++;
        }
    }
    rank_await(a, (long)m->packets * (size - m->job->per_node));
    for (int i = 0; i < size && m->any_order; i++)
        free(a->peers[i].seen);
    return NULL;
}

/* On one link nothing overtakes; with both channels mixed, or where ways
 * change, packets may. */
static struct member *start_all(struct job *j, int packets)
{
    struct member *m = calloc((size_t)j->size, sizeof(*m));

    for (int i = 0; i < j->size; i++) {
        m[i].job = j;
        m[i].packets = packets;
        m[i].any_order = true;
        rank_open(&m[i].rank, j, i);
    }
    for (int i = 0; i < j->size; i++)
        CHECK(!pthread_create(&m[i].thread, NULL, mingle, &m[i]));
    return m;
}

static void finish_all(struct job *j, struct member *m)
{
    for (int i = 0; i < j->size; i++)
        pthread_join(m[i].thread, NULL);
    for (int i = 0; i < j->size; i++) {
        CHECK_EQ(m[i].rank.losts, 0);
        rank_close(&m[i].rank);
    }
    free(m);
}

static void test_all_to_all(void (*shape)(struct job *, int), int n,
                            int per_node, int windows, int packets)
{
    struct job *j = calloc(1, sizeof(*j));

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->config.windows = windows;
    j->per_node = per_node;
    shape(j, n);
    job_start(j);
    finish_all(j, start_all(j, packets));
    job_stop(j);
    free(j);
}

/* -------------------------------------------------------------- order, sizes
 */

static void test_order(void)
{
    struct job *j = calloc(1, sizeof(*j));
    struct a_rank a, b;
    uint32_t state = 5;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->per_node = 1;
    shape_line(j, 3);
    job_start(j);
    rank_open(&a, j, 0);
    rank_open(&b, j, 2);
    for (int i = 0; i < 3000; i++) {
        rank_send(&a, 2, TB_CONTROL, draw_bytes(&state));
        if (i % 7 == 0)
            rank_poll(&b);
        if (i > 20)
            rank_await(&b, i - 20);
    }
    rank_await(&b, 3000);
    for (size_t n = sizeof(struct packet); n <= tb_class_room(TB_LARGE);
         n += n < 300 ? 1 : 4093) {
        rank_send(&b, 0, TB_CONTROL, n);
        rank_await(&a, (long)b.peers[0].to);
    }
    CHECK(fake_carried(0, 1) >= 3000 && fake_carried(1, 2) >= 3000);
    CHECK_EQ(fake_carried(0, 2), 0);
    rank_close(&a);
    rank_close(&b);
    job_stop(j);
    free(j);
}

/* ------------------------------------------------------------ cables that die
 */

static long sent_by_all(struct member *m, int n)
{
    long sum = 0;

    for (int i = 0; i < n; i++)
        sum += m[i].sent;
    return sum;
}

/* Cables die in the middle, one after the other, as long as a way is left:
 * everything still arrives, and once. */
static void test_cuts(void (*shape)(struct job *, int), int n,
                      const int *cables, int cuts, int windows)
{
    enum { PACKETS = 150 };
    struct job *j = calloc(1, sizeof(*j));
    struct member *m;
    long all;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->config.windows = windows;
    j->config.log = TB_LOG_ERROR;
    tb_log_limit(TB_LOG_ERROR);
    j->per_node = 2;
    shape(j, n);
    job_start(j);
    m = start_all(j, PACKETS);
    all = (long)j->size * (j->size - j->per_node) * PACKETS;
    for (int i = 0; i < cuts; i++) {
        while (sent_by_all(m, j->size) < all * (i + 1) / (cuts + 1))
            tb_yield();
        fake_cut(cables[i]);
    }
    finish_all(j, m);
    job_join(j);
    for (int i = 0; i < cuts; i++) {
        for (int k = 0; k < n; k++)
            CHECK(j->machines[k].router->routes.dead[cables[i]]);
    }
    job_close(j);
    free(j);
}

/* -------------------------------------------------------------- nodes lost */

static void await_losses(struct a_rank *a, int n)
{
    uint64_t start = tb_now();

    while (a->losts < n) {
        rank_poll(a);
        tb_yield();
        CHECK(tb_now() - start < 3000000000u);
    }
}

static void test_no_way_left(void)
{
    struct job *j = calloc(1, sizeof(*j));
    struct a_rank a, b, c;
    struct tb_slot slot;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->per_node = 1;
    shape_line(j, 3);
    job_start(j);
    rank_open(&a, j, 0);
    rank_open(&b, j, 1);
    rank_open(&c, j, 2);
    for (int i = 0; i < 5; i++)
        rank_send(&a, 2, TB_CONTROL, 131008);
    fake_cut(1);
    await_losses(&a, 1);
    await_losses(&b, 1);
    await_losses(&c, 2);
    CHECK_EQ(a.lost_peer, 2);
    CHECK_EQ(a.lost_why, TB_ERR_OTHER);
    CHECK(strstr(a.lost_note, "cable 1") && strstr(a.lost_note, "mac2"));
    CHECK_EQ(tb_transport_relay.reserve(a.links[2], TB_CONTROL, 100, &slot),
             TB_ERR_LOST);
    rank_send(&a, 1, TB_CONTROL, 100); /* the others go on */
    rank_await(&b, 1);
    rank_close(&a);
    rank_close(&b);
    rank_close(&c);
    job_stop(j);
    free(j);
}

static void test_router_dies(void)
{
    struct job *j = calloc(1, sizeof(*j));
    struct a_rank a, b;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->per_node = 1;
    shape_mesh(j, 3);
    job_start(j);
    rank_open(&a, j, 0);
    rank_open(&b, j, 1);
    j->machines[2].kill = true;
    pthread_join(j->machines[2].thread, NULL);
    rank_send(&a, 2, TB_CONTROL, 100);
    fake_kill(2);
    await_losses(&a, 1);
    await_losses(&b, 1);
    CHECK_EQ(a.lost_why, TB_ERR_LOST);
    CHECK(strstr(a.lost_note, "ended"));
    rank_send(&a, 1, TB_CONTROL, 100);
    rank_await(&b, 1);
    rank_close(&a);
    rank_close(&b);
    CHECK(!pthread_create(&j->machines[2].thread, NULL, run_router,
                          &j->machines[2])); /* for the join; ends at once */
    job_stop(j);
    free(j);
}

/* Who lies behind it is lost as well, and the reason is told. */
static void test_middle_router_dies(void)
{
    struct job *j = calloc(1, sizeof(*j));
    struct a_rank a;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->per_node = 1;
    shape_line(j, 3);
    job_start(j);
    rank_open(&a, j, 0);
    j->machines[1].kill = true;
    pthread_join(j->machines[1].thread, NULL);
    fake_kill(1);
    await_losses(&a, 2);
    CHECK_EQ(a.lost_peer, 2);
    CHECK_EQ(a.lost_why, TB_ERR_OTHER);
    CHECK(strstr(a.lost_note, "router of mac1 has ended"));
    rank_close(&a);
    CHECK(!pthread_create(&j->machines[1].thread, NULL, run_router,
                          &j->machines[1])); /* for the join; ends at once */
    job_stop(j);
    free(j);
}

/* ---------------------------------------------------------- ranks in trouble
 */

/* A rank that takes nothing for a while keeps nobody else waiting, neither
 * beside it nor from the same sender. */
static void test_busy_rank(void)
{
    struct job *j = calloc(1, sizeof(*j));
    struct a_rank a, busy, other;
    int n = 0;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->per_node = 3;
    shape_line(j, 2);
    job_start(j);
    rank_open(&a, j, 0);
    rank_open(&busy, j, 3);
    rank_open(&other, j, 4);
    for (int idle = 0; idle < 2000; idle++) {
        while (!rank_try(&a, 3, TB_BULK, idle % 2 ? 131008 : 100)) {
            idle = 0;
            n++;
        }
        rank_poll(&a);
        tb_yield();
    }
    CHECK(n > 4);
    for (int i = 0; i < 200; i++) {
        rank_send(&a, 4, TB_CONTROL, i % 2 ? 131008 : 100);
        rank_await(&other, i + 1);
    }
    CHECK_EQ(busy.got, 0);
    rank_await(&busy, n);
    rank_close(&a);
    rank_close(&busy);
    rank_close(&other);
    job_stop(j);
    free(j);
}

static uint32_t dead_pid(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    return (uint32_t)pid;
}

/* Its slots come back, what it had sent is delivered, what is sent to it is
 * thrown away and holds nobody up. */
static void test_dead_rank(void)
{
    struct job *j = calloc(1, sizeof(*j));
    struct a_rank a, b, dies;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    j->per_node = 2;
    shape_line(j, 2);
    job_start(j);
    rank_open(&a, j, 0);
    rank_open(&dies, j, 2);
    rank_open(&b, j, 3);
    for (int i = 0; i < 5; i++)
        rank_send(&dies, 0, TB_CONTROL, 5000);
    for (int i = 0; i < 20; i++)
        rank_send(&a, 2, TB_BULK, 5000);
    dies.note->pid = dead_pid();
    rank_await(&a, 5);
    for (int i = 0; i < 1000; i++)
        rank_send(&a, 2, TB_BULK, 131008);
    rank_send(&a, 3, TB_CONTROL, 100);
    rank_await(&b, 1);
    rank_close(&a);
    rank_close(&b);
    rank_close(&dies);
    job_stop(j);
    free(j);
}

static void test_disorder(uint64_t word)
{
    struct job *j = calloc(1, sizeof(*j));
    struct a_rank a, b, c;

    CHECK_EQ(tb_config_load(&j->config), TB_OK);
    tb_log_limit((enum tb_log_level) - 1);
    j->per_node = 2;
    shape_line(j, 2);
    job_start(j);
    rank_open(&a, j, 0);
    rank_open(&b, j, 1);
    rank_open(&c, j, 2);
    rank_send(&a, 2, TB_CONTROL, 100);
    {
        struct tb_ring_end ring = {
            .words =
                tb_relay_at(a.pool, &j->machines[0].router->owner.pool->plan, 0)
                    ->up,
            .at = 1};
        tb_ring_put(&ring, word);
    }
    await_losses(&a, 2);
    CHECK(strstr(a.lost_note, "disorder"));
    rank_send(&b, 2, TB_CONTROL, 100); /* goes on */
    rank_await(&c, 2);
    rank_close(&a);
    rank_close(&b);
    rank_close(&c);
    job_stop(j);
    free(j);
}

static void test_disorders(void)
{
    test_disorder(tb_relay_pack(TB_RELAY_SEND, 0xfffff, 100, 2, 0));
    test_disorder(tb_relay_pack(TB_RELAY_SEND, 0, 100, 2, 0));
    test_disorder(tb_relay_pack(TB_RELAY_GIVE, 5, 0, 0, 0));
    test_disorder(tb_relay_pack(TB_RELAY_LOST, 1, 0, 0, 0));
    test_disorder(tb_relay_pack(7, 1, 0, 0, 0));
}

int main(void)
{
    alarm(280);
    test_order();
    puts("order");
    test_all_to_all(shape_mesh, 4, 2, 0, 100);
    test_all_to_all(shape_mesh, 4, 1, 1, 200);
    test_all_to_all(shape_ring, 4, 2, 1, 100);
    test_all_to_all(shape_ring, 5, 1, 1, 200);
    test_all_to_all(shape_line, 4, 2, 1, 100);
    test_all_to_all(shape_line, 5, 1, 1, 200);
    test_all_to_all(shape_star, 4, 2, 1, 100);
    test_all_to_all(shape_ring, 6, 2, 2, 30);
    puts("all to all");
    test_cuts(shape_mesh, 4, (const int[]){0, 5, 2}, 3, 0);
    test_cuts(shape_mesh, 4, (const int[]){0, 5, 2}, 3, 1);
    test_cuts(shape_ring, 4, (const int[]){2}, 1, 1);
    test_cuts(shape_double, 3, (const int[]){0, 4, 3}, 3, 1);
    puts("cuts");
    test_no_way_left();
    test_router_dies();
    test_middle_router_dies();
    puts("losses");
    test_busy_rank();
    test_dead_rank();
    test_disorders();
    return 0;
}
