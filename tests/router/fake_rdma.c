/* SPDX-License-Identifier: MIT */
#include "router/fake_rdma.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/owner.h"
#include "unit/check.h"

#define POLL_BUDGET 64
#define TELLS_MOST 256
#define QUEUE_MOST 8192

struct arrival {
    uint32_t slot; /* here */
    uint32_t its;  /* there: to be acknowledged */
    uint32_t bytes;
    enum tb_channel channel;
};

struct fifo {
    struct arrival at[QUEUE_MOST];
    uint32_t in, out;
};

/* What one node has with one neighbour; locked by the node's port. */
struct tb_link {
    struct tb_port *port;
    int peer; /* node */
    bool exists;
    bool closed; /* nothing moves any more; set at both ends at once */
    bool lost;   /* the owner has been told */
    uint32_t *posted[TB_CLASSES];
    uint32_t n[TB_CLASSES], want[TB_CLASSES];
    struct fifo arrived; /* from the peer */
    struct fifo unacked; /* to the peer, in order */
    struct fifo acked;   /* taken over by the peer */
};

struct tell {
    int from;
    size_t bytes;
    char data[TB_TELL_MOST];
};

struct tb_port {
    pthread_mutex_t lock;
    const struct tb_sink *up;
    struct tb_rdma_args args;
    int node;
    struct tb_link links[TB_NODES_MOST];
    struct tell tells[TELLS_MOST];
    uint32_t tells_in, tells_out;
    bool cable_said[TB_PLAN_CABLES_MOST], dead_said[TB_PLAN_CABLES_MOST];
    bool gone_said[TB_NODES_MOST];
    uint32_t current; /* slot of the packet in the upcall */
    bool kept;
};

uint32_t fake_depth[3] = {8, 4, 2};

static const struct tb_plan *plan;
static _Atomic(struct tb_port *) ports[TB_NODES_MOST];
static struct tb_port *opened[TB_NODES_MOST]; /* to free at the end */
static _Atomic bool cut[TB_PLAN_CABLES_MOST], dead[TB_NODES_MOST];
static _Atomic long carried[TB_NODES_MOST][TB_NODES_MOST];

void fake_begin(const struct tb_plan *p)
{
    plan = p;
    for (int k = 0; k < TB_NODES_MOST; k++) {
        ports[k] = NULL;
        dead[k] = false;
        for (int i = 0; i < TB_NODES_MOST; i++)
            carried[k][i] = 0;
    }
    for (int i = 0; i < TB_PLAN_CABLES_MOST; i++)
        cut[i] = false;
}

void fake_end(void)
{
    for (int k = 0; k < TB_NODES_MOST; k++) {
        struct tb_port *port = opened[k];
        opened[k] = NULL;
        for (int i = 0; port && i < plan->nodes; i++) {
            for (int c = 0; c < TB_CLASSES; c++)
                free(port->links[i].posted[c]);
        }
        if (port)
            pthread_mutex_destroy(&port->lock);
        free(port);
    }
}

void fake_cut(int cable)
{
    cut[cable] = true;
}

void fake_kill(int node)
{
    dead[node] = true;
}

long fake_carried(int a, int b)
{
    return carried[a][b] + carried[b][a];
}

static bool joined(int a, int b)
{
    for (int i = 0; i < plan->cables; i++) {
        const int *n = plan->cable[i].node;
        if (!cut[i] && ((n[0] == a && n[1] == b) || (n[0] == b && n[1] == a)))
            return true;
    }
    return false;
}

static struct arrival *push(struct fifo *f)
{
    CHECK(f->in - f->out < QUEUE_MOST);
    return &f->at[f->in++ % QUEUE_MOST];
}

static bool empty(const struct fifo *f)
{
    return f->in == f->out;
}

static struct arrival *pop(struct fifo *f)
{
    return &f->at[f->out++ % QUEUE_MOST];
}

static void lock_two(struct tb_port *a, struct tb_port *b)
{
    pthread_mutex_lock(a->node < b->node ? &a->lock : &b->lock);
    pthread_mutex_lock(a->node < b->node ? &b->lock : &a->lock);
}

static void unlock_two(struct tb_port *a, struct tb_port *b)
{
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&b->lock);
}

/* ------------------------------------------------------------------- opening
 */

/* Posts what is missing, as far as the pool goes. Under the port's lock. */
static void post(struct tb_port *port)
{
    for (int k = 0; k < plan->nodes; k++) {
        struct tb_link *l = &port->links[k];
        for (int c = 0; l->exists && c < TB_CLASSES; c++) {
            while (l->n[c] < l->want[c] && port->args.pool->n[c])
                l->posted[c][l->n[c]++] =
                    tb_regpool_take(port->args.pool, (enum tb_class)c);
        }
    }
}

static tb_err fake_open(struct tb_port **out, const struct tb_port_args *args)
{
    struct tb_port *port = calloc(1, sizeof(*port));

    pthread_mutex_init(&port->lock, NULL);
    port->up = args->up;
    port->args = *args->rdma;
    port->node = args->self - plan->size;
    for (int k = 0; k < plan->nodes; k++) {
        struct tb_link *l = &port->links[k];
        l->port = port;
        l->peer = k;
        l->exists = k != port->node && joined(k, port->node);
        for (int c = 0; c < TB_CLASSES; c++) {
            l->posted[c] = calloc(fake_depth[c], sizeof(uint32_t));
            l->want[c] = fake_depth[c];
        }
    }
    post(port);
    ports[port->node] = opened[port->node] = port;
    *out = port;
    return TB_OK;
}

static tb_err fake_connect(struct tb_port *port, int peer, struct tb_link **out)
{
    *out = &port->links[peer - plan->size];
    return TB_OK;
}

/* Others may still hold a pointer: memory stays until fake_end. */
static void fake_close(struct tb_port *port)
{
    ports[port->node] = NULL;
}

/* ------------------------------------------------------------------- packets
 */

tb_err tb_rdma_send(struct tb_link *link, enum tb_channel ch, uint32_t slot,
                    size_t bytes)
{
    struct tb_port *port = link->port, *to = ports[link->peer];
    struct tb_regpool *pool = port->args.pool;
    enum tb_class class = tb_regpool_class(&pool->plan, slot);
    tb_err err = TB_ERR_AGAIN;
    struct tb_link *there;

    if (link->lost)
        return TB_ERR_LOST;
    if (!to || dead[link->peer] || !joined(port->node, link->peer))
        return TB_ERR_AGAIN;
    lock_two(port, to);
    there = &to->links[port->node];
    if (there->n[class] && !there->closed) {
        uint32_t its = there->posted[class][--there->n[class]];
        memcpy(tb_regpool_at(to->args.pool, its), tb_regpool_at(pool, slot),
               TB_SLOT_HEAD + bytes);
        *push(&there->arrived) =
            (struct arrival){its, slot, (uint32_t)bytes, ch};
        *push(&link->unacked) =
            (struct arrival){slot, its, (uint32_t)bytes, ch};
        carried[port->node][link->peer]++;
        err = TB_OK;
    }
    unlock_two(port, to);
    return err;
}

uint32_t tb_rdma_keep(struct tb_port *port)
{
    CHECK(!port->kept);
    port->kept = true;
    return port->current;
}

void tb_rdma_give(struct tb_port *port, uint32_t slot)
{
    pthread_mutex_lock(&port->lock);
    tb_regpool_give(port->args.pool, slot);
    post(port);
    pthread_mutex_unlock(&port->lock);
}

/* One packet from the link, if there is one: takes it over, which the sender
 * learns, and hands it up. */
static int receive(struct tb_port *port, struct tb_link *l)
{
    struct tb_port *from = ports[l->peer];
    struct arrival a;
    enum tb_class class;

    if (!from || l->lost)
        return 0;
    lock_two(port, from);
    if (l->closed || empty(&l->arrived)) {
        unlock_two(port, from);
        return 0;
    }
    a = *pop(&l->arrived);
    CHECK_EQ(pop(&from->links[port->node].unacked)->slot, a.its);
    *push(&from->links[port->node].acked) = a;
    unlock_two(port, from);
    class = tb_regpool_class(&port->args.pool->plan, a.slot);
    CHECK(tb_slot_intact(tb_regpool_at(port->args.pool, a.slot),
                         tb_class_room(class)));
    port->current = a.slot;
    port->kept = false;
    port->up->packet(port->up->ctx, plan->size + l->peer, a.channel,
                     tb_slot_data(tb_regpool_at(port->args.pool, a.slot)),
                     a.bytes);
    pthread_mutex_lock(&port->lock);
    if (!port->kept)
        tb_regpool_give(port->args.pool, a.slot);
    post(port);
    pthread_mutex_unlock(&port->lock);
    return 1;
}

static int acknowledge(struct tb_port *port, struct tb_link *l)
{
    int n = 0;

    for (;;) {
        uint32_t slot = TB_SLOT_NONE;
        pthread_mutex_lock(&port->lock);
        if (!empty(&l->acked))
            slot = pop(&l->acked)->its;
        pthread_mutex_unlock(&port->lock);
        if (slot == TB_SLOT_NONE)
            return n;
        port->args.more.sent(port->args.more.ctx, slot);
        n++;
    }
}

/* ---------------------------------------------------------------------- loss
 */

static void close_both(struct tb_link *l)
{
    struct tb_port *port = l->port, *to = ports[l->peer];

    if (to) {
        lock_two(port, to);
        to->links[port->node].closed = true;
        l->closed = true;
        unlock_two(port, to);
    }
    l->closed = true;
}

/* What had arrived but was not taken over is forgotten here, and handed back
 * there. */
static void lose(struct tb_port *port, struct tb_link *l)
{
    close_both(l);
    acknowledge(port, l);
    while (!empty(&l->arrived))
        tb_regpool_give(port->args.pool, pop(&l->arrived)->slot);
    for (int c = 0; c < TB_CLASSES; c++) {
        l->want[c] = 0;
        while (l->n[c])
            tb_regpool_give(port->args.pool, l->posted[c][--l->n[c]]);
    }
    l->lost = true;
    while (!empty(&l->unacked)) {
        struct arrival *a = pop(&l->unacked);
        port->current = a->slot;
        port->kept = false;
        port->up->returned(
            port->up->ctx, plan->size + l->peer, a->channel,
            tb_slot_data(tb_regpool_at(port->args.pool, a->slot)), a->bytes);
        CHECK(port->kept);
    }
    port->up->lost(port->up->ctx, plan->size + l->peer,
                   tb_fail(dead[l->peer] ? TB_ERR_LOST : TB_ERR_OTHER,
                           "the fake link is lost"));
}

static void look_at_cables(struct tb_port *port)
{
    const struct tb_rdma_sink *more = &port->args.more;

    for (int i = 0; i < port->args.n_cables; i++) {
        int id = port->args.cables[i].id;
        if (!port->cable_said[id] && !cut[id]) {
            port->cable_said[id] = true;
            more->cable(more->ctx, id, TB_CABLE_UP, "up");
        }
        if (cut[id] && !port->dead_said[id]) {
            port->dead_said[id] = true;
            more->cable(more->ctx, id, TB_CABLE_DEAD, "a fake cable is dead");
        }
    }
    for (int k = 0; k < plan->nodes; k++) {
        struct tb_link *l = &port->links[k];
        if (dead[k] && !port->gone_said[k] && k != port->node) {
            port->gone_said[k] = true;
            more->gone(more->ctx, plan->size + k, "the fake process has ended");
        }
        if (l->exists && !l->lost && (dead[k] || !joined(k, port->node)))
            lose(port, l);
    }
}

/* --------------------------------------------------------------------- tells
 */

tb_err tb_rdma_tell(struct tb_port *port, int peer, const void *data,
                    size_t bytes)
{
    struct tb_port *to = ports[peer - plan->size];
    tb_err err = TB_ERR_AGAIN;

    if (dead[peer - plan->size])
        return TB_ERR_LOST;
    if (!to)
        return TB_ERR_AGAIN;
    pthread_mutex_lock(&to->lock);
    if (to->tells_in - to->tells_out < TELLS_MOST) {
        struct tell *t = &to->tells[to->tells_in++ % TELLS_MOST];
        t->from = plan->size + port->node;
        t->bytes = bytes;
        memcpy(t->data, data, bytes);
        err = TB_OK;
    }
    pthread_mutex_unlock(&to->lock);
    return err;
}

static int hear(struct tb_port *port)
{
    const struct tb_rdma_sink *more = &port->args.more;
    struct tell t;
    int n = 0;

    for (;;) {
        pthread_mutex_lock(&port->lock);
        if (port->tells_in == port->tells_out) {
            pthread_mutex_unlock(&port->lock);
            return n;
        }
        t = port->tells[port->tells_out++ % TELLS_MOST];
        pthread_mutex_unlock(&port->lock);
        more->told(more->ctx, t.from, t.data, t.bytes);
        n++;
    }
}

static int fake_poll(struct tb_port *port)
{
    int n = 0, got;

    look_at_cables(port);
    n += hear(port);
    for (int k = 0; k < plan->nodes; k++) {
        struct tb_link *l = &port->links[k];
        if (!l->exists)
            continue;
        n += acknowledge(port, l);
        for (int i = 0; i < POLL_BUDGET; i++) {
            got = receive(port, l);
            n += got;
            if (!got)
                break;
        }
    }
    return n;
}

static bool fake_pending(struct tb_port *port)
{
    (void)port;
    return false;
}

static void fake_check(struct tb_port *port)
{
    (void)port;
}

const struct tb_transport tb_transport_rdma = {
    .name = "fake",
    .open = fake_open,
    .connect = fake_connect,
    .poll = fake_poll,
    .pending = fake_pending,
    .check = fake_check,
    .close = fake_close,
};

uint64_t tb_rdma_nap(struct tb_port *port)
{
    (void)port;
    return 50000;
}

bool tb_rdma_idle(const struct tb_port *port)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&port->lock;
    bool idle = true;

    pthread_mutex_lock(lock);
    for (int k = 0; k < plan->nodes; k++) {
        const struct tb_link *l = &port->links[k];
        if (l->exists && !l->lost && (!empty(&l->unacked) || !empty(&l->acked)))
            idle = false;
    }
    pthread_mutex_unlock(lock);
    return idle;
}

void tb_rdma_farewell(struct tb_port *port)
{
    (void)port;
}

/* ------------------------------------------------------- what owner.c opens */

tb_err tb_verbs_open(struct tb_verbs **out, const char *path)
{
    (void)path;
    *out = NULL;
    return TB_OK;
}

void tb_verbs_close(struct tb_verbs *verbs)
{
    (void)verbs;
}

void tb_verbs_guard(struct tb_verbs *verbs)
{
    (void)verbs;
}

tb_err tb_device_register(struct tb_device *device, void *at, size_t bytes,
                          struct tb_ibv_mr **out)
{
    (void)device, (void)at, (void)bytes, (void)out;
    return TB_ERR_NOTSUP;
}

void tb_device_deregister(struct tb_device *device, struct tb_ibv_mr *mr)
{
    (void)device, (void)mr;
}
