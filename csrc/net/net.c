/* SPDX-License-Identifier: MIT */
/* Endpoints, ways to them, and waiting. */
#include "net/net.h"
#include "net/attach.h"

#include <unistd.h>

/* In the order of preference: the first that reaches an endpoint carries. */
static const struct tb_transport *const transports[] = {
    &tb_transport_self,
    &tb_transport_shm,
};
#define TRANSPORTS TB_COUNT_OF(transports)

/*
 * Where every rank has a processor: poll without a pause, then with one, then
 * yield in between, then sleep. Where they share processors: yield, then
 * sleep; each poll that another could have used is lost.
 */
#define POLLS_BARE 256
#define POLLS_PAUSED 1024
#define POLLS_PER_YIELD 16
#define POLLS_PER_CHECK (1u << 18)
#define SPIN_NS 10000000 /* a wake-up costs some 50 us: at most 1 in 200 */

struct tb_net {
    const struct tb_config *config;
    struct tb_net_sink up;
    struct tb_boot *boot;
    struct tb_sink sink; /* what the transports call */
    int self, endpoints;
    struct tb_route *ways; /* by endpoint */
    struct tb_port *ports[TRANSPORTS];
    struct tb_machine machine;
    struct tb_segment_plan plan;
    struct tb_bell *bell;
    struct tb_note *note;
    bool crowded;
    uint64_t spin_ns;       /* 0: do not */
    uint64_t spin_until;    /* of the present wait */
    uint64_t check_at;      /* when to look next whether the others live */
    _Atomic bool check_due; /* the next poll looks at the neighbours */
    _Atomic bool orphaned;  /* the launcher has gone */
    uint32_t polls;
    struct tb_bell own_bell; /* used where there is no segment */
    struct tb_note own_note;
};

static tb_err orphaned(void)
{
    return tb_fail(TB_ERR_LOST, "the launcher of this job is gone");
}

/* ----------------------------------------------------------------- upcalls */

static void on_packet(void *ctx, int from, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct tb_net *net = ctx;

    (void)from;
    net->up.packet(net->up.ctx, ch, data, bytes);
}

/* With every endpoint a neighbour there is no other way to send it. */
static void on_returned(void *ctx, int to, enum tb_channel ch, const void *data,
                        size_t bytes)
{
    (void)ctx, (void)to, (void)ch, (void)data, (void)bytes;
}

static void on_lost(void *ctx, int peer, tb_err why)
{
    struct tb_net *net = ctx;

    for (int i = 0; i < net->endpoints; i++) {
        if (net->ways[i].neighbour == peer)
            net->up.lost(net->up.ctx, i, why);
    }
}

/* ----------------------------------------------------------------- opening */

static tb_err open_ports(struct tb_net *net)
{
    struct tb_port_args args = {
        .config = net->config,
        .up = &net->sink,
        .self = net->self,
        .endpoints = net->endpoints,
        .segment = net->machine.segment,
        .segment_bytes = net->machine.bytes,
        .local_rank = net->machine.place,
        .local_ranks = net->machine.places,
        .local = net->machine.local,
        .bell = net->bell,
    };

    for (size_t i = 0; i < TRANSPORTS; i++) {
        tb_err err = transports[i]->open(&net->ports[i], &args);
        if (err && err != TB_ERR_NOTSUP)
            return err;
    }
    return TB_OK;
}

static tb_err find_way(struct tb_net *net, int endpoint)
{
    struct tb_route *way = &net->ways[endpoint];

    for (size_t i = 0; i < TRANSPORTS; i++) {
        tb_err err = TB_ERR_NOTSUP;
        if (net->ports[i])
            err = transports[i]->connect(net->ports[i], endpoint, &way->link);
        if (err == TB_ERR_NOTSUP)
            continue;
        if (!err) {
            way->by = transports[i];
            way->neighbour = endpoint;
            way->by->limits(way->link, &way->limits);
        }
        return err;
    }
    return tb_fail(TB_ERR_NOTSUP, "no way from rank %d to rank %d", net->self,
                   endpoint);
}

static tb_err open_net(struct tb_net *net)
{
    struct tb_machine *m = &net->machine;

    TB_TRY(tb_machine_join(m, net->config, net->boot));
    net->bell = &net->own_bell;
    net->note = &net->own_note;
    if (m->segment) {
        TB_TRY(tb_segment_plan(&net->plan, m->places, m->bytes,
                               (size_t)net->config->ring));
        net->bell = &tb_segment_rank(m->segment, &net->plan, m->place)->bell;
        net->note = tb_segment_note(m->segment, &net->plan, m->place);
    }
    net->crowded = m->places > tb_cpus();
    net->spin_ns = net->crowded ? 0 : SPIN_NS;
    if (net->config->spin >= 0)
        net->spin_ns = (uint64_t)net->config->spin;
    net->note->peer = TB_PEER_NONE;
    net->note->pid = (uint32_t)getpid();
    net->note->state = TB_STATE_RUNNING;
    TB_TRY(open_ports(net));
    for (int i = 0; i < net->endpoints; i++)
        TB_TRY(find_way(net, i));
    return TB_OK;
}

tb_err tb_net_open(struct tb_net **out, const struct tb_net_args *args)
{
    struct tb_net *net = tb_alloc_aligned(TB_LINE, sizeof(*net));
    tb_err err;

    if (!net)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the network");
    memset(net, 0, sizeof(*net));
    net->config = args->config;
    net->up = args->up;
    net->boot = args->boot;
    net->self = tb_boot_rank(args->boot);
    net->endpoints = tb_boot_size(args->boot);
    net->sink = (struct tb_sink){net, on_packet, on_returned, on_lost};
    net->ways = tb_calloc((size_t)net->endpoints, sizeof(*net->ways));
    if (net->ways)
        err = open_net(net);
    else
        err = tb_fail(TB_ERR_NO_MEM, "no memory for the network");
    if (err) {
        tb_net_close(net);
        return err;
    }
    *out = net;
    return TB_OK;
}

void tb_net_close(struct tb_net *net)
{
    if (!net)
        return;
    if (net->note && net->note->state == TB_STATE_RUNNING)
        net->note->state = TB_STATE_FINALIZED;
    for (size_t i = TRANSPORTS; i-- > 0;) {
        if (net->ports[i])
            transports[i]->close(net->ports[i]);
    }
    tb_machine_leave(&net->machine);
    tb_free(net->ways);
    tb_free(net);
}

/* --------------------------------------------------------------- questions */

int tb_net_self(const struct tb_net *net)
{
    return net->self;
}

int tb_net_endpoints(const struct tb_net *net)
{
    return net->endpoints;
}

int tb_net_node(const struct tb_net *net, int endpoint)
{
    return net->machine.node[endpoint];
}

struct tb_note *tb_net_note(struct tb_net *net)
{
    return net->note;
}

void *tb_net_commons(struct tb_net *net, size_t *bytes)
{
    if (!net->machine.segment || !net->plan.commons_bytes)
        return NULL;
    *bytes = net->plan.commons_bytes;
    return (char *)net->machine.segment + net->plan.commons;
}

const int *tb_net_local(const struct tb_net *net, int *n)
{
    *n = net->machine.places;
    return net->machine.local;
}

bool tb_net_crowded(const struct tb_net *net)
{
    return net->crowded;
}

/* ----------------------------------------------------------------- packets */

const struct tb_route *tb_net_route(const struct tb_net *net, int endpoint)
{
    return &net->ways[endpoint];
}

/* Do the others live? Who calls Test in a loop never idles, so every so many
 * polls this is asked as well. */
static void look_after_others(struct tb_net *net)
{
    atomic_store_explicit(&net->check_due, false, memory_order_relaxed);
    for (size_t i = 0; i < TRANSPORTS; i++) {
        if (net->ports[i])
            transports[i]->check(net->ports[i]);
    }
    if (atomic_load_explicit(&net->orphaned, memory_order_relaxed) ||
        tb_boot_alive(net->boot))
        return;
    atomic_store_explicit(&net->orphaned, true, memory_order_relaxed);
    for (int i = 0; i < net->endpoints; i++) {
        if (i != net->self)
            net->up.lost(net->up.ctx, i, orphaned());
    }
}

int tb_net_poll(struct tb_net *net)
{
    int n = 0;

    if (TB_UNLIKELY(
            atomic_load_explicit(&net->check_due, memory_order_relaxed) ||
            ++net->polls % POLLS_PER_CHECK == 0))
        look_after_others(net);
    for (size_t i = 0; i < TRANSPORTS; i++) {
        if (net->ports[i])
            n += transports[i]->poll(net->ports[i]);
    }
    return n;
}

/* ----------------------------------------------------------------- waiting */

bool tb_net_pending(struct tb_net *net)
{
    for (size_t i = 0; i < TRANSPORTS; i++) {
        if (net->ports[i] && transports[i]->pending(net->ports[i]))
            return true;
    }
    return false;
}

/* True as long as it is too early to sleep. */
static bool spin(struct tb_net *net, unsigned idle)
{
    if (net->spin_ns == 0) {
        if (idle > (unsigned)net->config->yields)
            return false;
        tb_yield();
        return true;
    }
    if (idle < POLLS_BARE)
        return true;
    if (idle == POLLS_BARE)
        net->spin_until = tb_now() + net->spin_ns;
    tb_relax();
    if (idle < POLLS_PAUSED || idle % POLLS_PER_YIELD)
        return true;
    tb_yield();
    return tb_now() < net->spin_until;
}

tb_err tb_net_idle(struct tb_net *net, unsigned idle, bool (*ready)(void *arg),
                   void *arg)
{
    uint32_t ticket;

    if (spin(net, idle))
        return TB_OK;
    ticket = tb_bell_arm(net->bell);
    if (!(ready ? ready(arg) : tb_net_pending(net))) {
        if (!net->note->since)
            net->note->since = tb_now();
        tb_bell_sleep(net->bell, ticket, (uint64_t)net->config->check);
    }
    tb_bell_disarm(net->bell);
    net->note->polls++;
    if (tb_now() >= net->check_at) {
        net->check_at = tb_now() + (uint64_t)net->config->check;
        atomic_store_explicit(&net->check_due, true, memory_order_relaxed);
    }
    if (atomic_load_explicit(&net->orphaned, memory_order_relaxed))
        return orphaned();
    return TB_OK;
}

void tb_net_wake(struct tb_net *net)
{
    tb_bell_ring(net->bell);
}

void tb_net_ring(struct tb_net *net, int endpoint)
{
    struct tb_machine *m = &net->machine;
    int place = m->place_of[endpoint];

    if (m->segment)
        tb_bell_ring(&tb_segment_rank(m->segment, &net->plan, place)->bell);
}
