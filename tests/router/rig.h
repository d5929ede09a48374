/* SPDX-License-Identifier: MIT */
/*
 * A whole job in one process: nodes with a router in a thread each, and ranks
 * that a test drives, joined by the fake cables of fake_rdma.c.
 */
#ifndef TB_ROUTER_RIG_H
#define TB_ROUTER_RIG_H

#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "router/fake_rdma.h"
#include "router/router.h"
#include "unit/check.h"

#define NODES_MOST 8
#define RANKS_MOST 32
#define POOL_BYTES ((size_t)24 << 20)

struct job {
    int nodes, per_node, size;
    int cables;
    int ends[64][2];
    struct tb_config config;
    struct machine {
        struct job *job;
        int node;
        int pool_fd, segment_fd;
        struct tb_config config;
        struct tb_router *router;
        pthread_t thread;
        _Atomic bool stop, left, over;
        _Atomic bool kill; /* the router just stops turning */
    } machines[NODES_MOST];
    struct tb_plan *plan; /* for the fake cables */
};

static inline void job_cable(struct job *j, int a, int b)
{
    j->ends[j->cables][0] = a;
    j->ends[j->cables][1] = b;
    j->cables++;
}

/* The plan as node `self` gets it. */
static inline struct tb_plan *job_plan(const struct job *j, int self)
{
    char *text = malloc(65536);
    struct tb_plan *plan;
    size_t n = 0;

#define ADD(...) (n += (size_t)snprintf(text + n, 65536 - n, __VA_ARGS__))
    ADD("tbmpi-plan 1\njob %032d\nsize %d\nnodes %d\nself %d\nowner router\n",
        7, j->size, j->nodes, self);
    ADD("crowd %d\n", 1000); /* so that all yield */
    for (int k = 0; k < j->nodes; k++) {
        ADD("node %d mac%d", k, k);
        for (int i = 0; i < j->per_node; i++)
            ADD(" %d", k * j->per_node + i);
        ADD("\n");
    }
    for (int i = 0; i < j->cables; i++)
        ADD("cable %d %d rdma_en%d ::ffff:169.254.1.%d %d rdma_en%d "
            "::ffff:169.254.2.%d\n",
            i, j->ends[i][0], i, i + 1, j->ends[i][1], i, i + 1);
    for (int i = 0; i < j->cables; i++) {
        if (j->ends[i][0] == self || j->ends[i][1] == self)
            ADD("wire %d %d\n", i, 1000 + i);
    }
    for (int k = 0; k < j->nodes; k++) {
        if (k != self)
            ADD("mgmt %d %d\n", k, 2000 + k);
    }
#undef ADD
    if (tb_plan_parse(&plan, text, n)) {
        fprintf(stderr, "%s\n%s", tb_fail_note(), text);
        exit(1);
    }
    free(text);
    return plan;
}

static inline int memory_fd(size_t bytes)
{
    struct tb_share share;

    CHECK_EQ(tb_share_make(&share, bytes), TB_OK);
    return share.fd;
}

static inline void make_segment_of(struct machine *m)
{
    struct tb_segment_head head = {.magic = TB_SEGMENT_MAGIC,
                                   .ranks = (uint32_t)m->job->per_node};

    m->segment_fd = memory_fd((size_t)m->job->per_node * TB_SEGMENT_PER_RANK);
    CHECK(pwrite(m->segment_fd, &head, sizeof(head), 0) == sizeof(head));
}

static inline void *run_router(void *arg)
{
    struct machine *m = arg;

    while (!m->stop) {
        if (m->kill)
            return NULL;
        if (!tb_router_turn(m->router))
            tb_yield();
        tb_router_check(m->router, tb_now());
        if (m->router->broken) {
            fprintf(stderr, "router of node %d: %s\n", m->node, tb_fail_note());
            exit(1);
        }
    }
    tb_router_leave(m->router);
    while (!m->over) { /* the others may still need an answer */
        m->left = tb_router_left(m->router);
        if (!tb_router_turn(m->router))
            tb_yield();
    }
    return NULL;
}

/* Fills in what the caller has not: nodes, per_node and cables are set. */
static inline void job_start(struct job *j)
{
    j->size = j->nodes * j->per_node;
    j->plan = job_plan(j, 0);
    fake_begin(j->plan);
    for (int k = 0; k < j->nodes; k++) {
        struct machine *m = &j->machines[k];
        m->job = j;
        m->node = k;
        m->config = j->config;
        m->pool_fd = memory_fd(POOL_BYTES);
        make_segment_of(m);
        m->config.pool_fd = m->pool_fd;
        m->config.shm_fd = m->segment_fd;
        if (tb_router_open(&m->router, &m->config, job_plan(j, k))) {
            fprintf(stderr, "%s\n", tb_fail_note());
            exit(1);
        }
    }
    for (int k = 0; k < j->nodes; k++)
        CHECK(!pthread_create(&j->machines[k].thread, NULL, run_router,
                              &j->machines[k]));
}

/* All slots must be where they were at first. */
static inline void check_slots_of(const struct machine *m)
{
    struct tb_router *r = m->router;
    uint32_t slots = r->owner.pool->plan.first[TB_CLASSES];

    for (uint32_t s = 0; s < slots; s++) {
        const struct tb_load *l = &r->loads[s];
        if (l->whose == TB_WHOSE_POOL ||
            (l->whose == TB_WHOSE_RANK && !l->reading))
            continue;
        fprintf(stderr, "slot %u: whose %d, place %d, from %d to %d\n", s,
                l->whose, l->place, l->origin, l->dest);
        exit(1);
    }
}

static inline bool all_left(const struct job *j)
{
    for (int k = 0; k < j->nodes; k++) {
        if (!j->machines[k].left && !j->machines[k].kill)
            return false;
    }
    return true;
}

/* From now on the routers are this thread's. */
static inline void job_join(struct job *j)
{
    for (int k = 0; k < j->nodes; k++)
        j->machines[k].stop = true;
    for (int quiet = 0; quiet < 50; quiet = all_left(j) ? quiet + 1 : 0)
        usleep(1000);
    for (int k = 0; k < j->nodes; k++)
        j->machines[k].over = true;
    for (int k = 0; k < j->nodes; k++)
        pthread_join(j->machines[k].thread, NULL);
}

static inline void job_close(struct job *j)
{
    for (int k = 0; k < j->nodes; k++) {
        struct machine *m = &j->machines[k];
        if (!m->kill)
            check_slots_of(m);
        tb_router_close(m->router);
        close(m->pool_fd);
        close(m->segment_fd);
    }
    fake_end();
    tb_plan_free(j->plan);
}

static inline void job_stop(struct job *j)
{
    job_join(j);
    job_close(j);
}

/* ---------------------------------------------------------------- a rank */

struct packet {
    struct tb_hop hop;
    uint32_t bytes;
    uint64_t number;
};

struct peer_of {
    uint64_t to;         /* next number to send */
    uint64_t from;       /* next number expected, where order is kept */
    unsigned char *seen; /* by number; NULL: order is checked instead */
};

struct a_rank {
    struct job *job;
    struct machine *machine;
    struct tb_plan *plan;
    int rank;
    void *pool, *segment;
    size_t pool_bytes, segment_bytes;
    struct tb_segment_plan board;
    struct tb_sink sink;
    struct tb_port *port;
    struct tb_link *links[RANKS_MOST];
    struct tb_bell *bell;
    struct tb_note *note;
    struct peer_of peers[RANKS_MOST];
    long got;
    int losts;
    int lost_peer;
    tb_err lost_why;
    char lost_note[256];
};

static inline unsigned char byte_of(uint64_t number, size_t at)
{
    return (unsigned char)(number * 37 + at * 11 + (at >> 9));
}

static inline void rank_packet(void *ctx, int from, enum tb_channel ch,
                               const void *data, size_t bytes)
{
    struct a_rank *a = ctx;
    const struct packet *p = data;
    const unsigned char *body = data;
    struct peer_of *peer = &a->peers[from];

    (void)ch;
    CHECK(bytes >= sizeof(*p));
    CHECK_EQ(p->hop.dest, a->rank);
    CHECK_EQ(p->hop.origin, from);
    CHECK_EQ(p->bytes, bytes);
    for (size_t i = sizeof(*p); i < bytes; i++) {
        if (body[i] != byte_of(p->number, i))
            CHECK_EQ(body[i], byte_of(p->number, i));
    }
    if (peer->seen) {
        CHECK(!peer->seen[p->number]);
        peer->seen[p->number] = 1;
    } else {
        CHECK_EQ(p->number, peer->from);
    }
    peer->from++;
    a->got++;
}

static inline void rank_returned(void *ctx, int to, enum tb_channel ch,
                                 const void *data, size_t bytes)
{
    (void)ctx, (void)to, (void)ch, (void)data, (void)bytes;
    CHECK(0);
}

static inline void rank_lost(void *ctx, int peer, tb_err why)
{
    struct a_rank *a = ctx;

    a->losts++;
    a->lost_peer = peer;
    a->lost_why = why;
    snprintf(a->lost_note, sizeof(a->lost_note), "%s", tb_fail_note());
}

static inline void rank_open(struct a_rank *a, struct job *j, int rank)
{
    struct tb_relay_args relay;
    struct tb_port_args args;
    const struct tb_plan_node *here;

    memset(a, 0, sizeof(*a));
    a->job = j;
    a->rank = rank;
    a->machine = &j->machines[rank / j->per_node];
    a->plan = job_plan(j, rank / j->per_node);
    here = &a->plan->node[a->plan->self];
    CHECK_EQ(
        tb_relay_map(&a->pool, &a->pool_bytes, a->machine->pool_fd, here->n),
        TB_OK);
    CHECK_EQ(tb_segment_find(&a->segment, &a->segment_bytes,
                             a->machine->segment_fd, here->n),
             TB_OK);
    CHECK_EQ(tb_segment_plan(&a->board, here->n, a->segment_bytes, 0), TB_OK);
    a->bell = &tb_segment_rank(a->segment, &a->board, rank % j->per_node)->bell;
    a->note = tb_segment_note(a->segment, &a->board, rank % j->per_node);
    a->note->pid = (uint32_t)getpid();
    relay = (struct tb_relay_args){a->pool, a->pool_bytes, a->plan};
    a->sink = (struct tb_sink){a, rank_packet, rank_returned, rank_lost};
    args = (struct tb_port_args){
        .config = &j->config,
        .up = &a->sink,
        .self = rank,
        .endpoints = j->size,
        .local_rank = rank % j->per_node,
        .local_ranks = here->n,
        .local = here->ranks,
        .bell = a->bell,
        .relay = &relay,
    };
    CHECK_EQ(tb_transport_relay.open(&a->port, &args), TB_OK);
    for (int i = 0; i < j->size; i++) {
        tb_err err = tb_transport_relay.connect(a->port, i, &a->links[i]);
        CHECK_EQ(err, i / j->per_node == a->plan->self ? TB_ERR_NOTSUP : TB_OK);
    }
    CHECK_EQ(tb_relay_await(a->pool, 20000000000u), TB_OK);
}

static inline void rank_close(struct a_rank *a)
{
    tb_transport_relay.close(a->port);
    tb_share_unmap(a->pool, a->pool_bytes);
    tb_share_unmap(a->segment, a->segment_bytes);
    tb_plan_free(a->plan);
}

static inline tb_err rank_try(struct a_rank *a, int to, enum tb_channel ch,
                              size_t bytes)
{
    struct tb_slot slot;
    struct packet *p;
    unsigned char *body;

    TB_TRY(tb_transport_relay.reserve(a->links[to], ch, bytes, &slot));
    p = slot.data;
    body = slot.data;
    p->hop.dest = (uint16_t)to;
    p->hop.origin = (uint16_t)a->rank;
    p->bytes = (uint32_t)bytes;
    p->number = a->peers[to].to++;
    for (size_t i = sizeof(*p); i < bytes; i++)
        body[i] = byte_of(p->number, i);
    tb_transport_relay.commit(a->links[to], &slot, bytes);
    return TB_OK;
}

static inline int rank_poll(struct a_rank *a)
{
    return tb_transport_relay.poll(a->port);
}

static inline void rank_send(struct a_rank *a, int to, enum tb_channel ch,
                             size_t bytes)
{
    tb_err err;

    while ((err = rank_try(a, to, ch, bytes)) == TB_ERR_AGAIN) {
        if (!rank_poll(a))
            tb_yield();
    }
    CHECK_EQ(err, TB_OK);
}

static inline void rank_await(struct a_rank *a, long n)
{
    while (a->got < n) {
        if (!rank_poll(a))
            tb_yield();
    }
}

/* A repeatable sequence of numbers (Marsaglia's xorshift). */
static inline uint32_t draw(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Mostly short, some middle, some of the longest. */
static inline size_t draw_bytes(uint32_t *state)
{
    static const size_t most[4] = {200, 4000, 30000, 131008};
    uint32_t r = draw(state);

    return sizeof(struct packet) +
           (r >> 4) % (most[r % 16 ? r % 3 : 3] - sizeof(struct packet) + 1);
}

#endif
