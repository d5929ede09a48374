/* SPDX-License-Identifier: MIT */
/* How a process waits: polls, yields, sleeps. */
#include "net/inside.h"

/*
 * Where every process has a processor: poll without a pause, then with one and
 * a yield now and then, then sleep. Another job may share the processors after
 * all, and the peer wait for this one: so yields begin early, and are many only
 * when the wait is long. Where processes share processors: yield, then sleep;
 * each poll that another could have used is lost.
 */
#define POLLS_BARE 256
#define POLLS_PAUSED 1024
#define POLLS_PER_YIELD_EARLY 64
#define POLLS_PER_YIELD 16
#define SPIN_NS 10000000 /* a wake-up costs some 50 us: at most 1 in 200 */

/* ---------------------------------------------------------------- crowding */

/* Who polls: the ranks beside this one, their router, and under --sim those
 * of the other machines that are really this one. */
static int crowd(const struct tb_machine *m)
{
    return m->job ? m->job->crowd : m->places;
}

/* A rank may be bound to one processor: only all of them together say how
 * many there are. So this changes as they arrive. */
static void look_around(struct tb_net *net)
{
    const struct tb_segment_head *head = net->machine.segment;
    int cpus;
    bool crowded;

    if (head)
        net->present =
            atomic_load_explicit(&head->present, memory_order_acquire);
    cpus = head ? tb_segment_cpus(head) : tb_cpus();
    crowded = crowd(&net->machine) > cpus;
    atomic_store_explicit(&net->crowded, crowded, memory_order_relaxed);
    net->spin_ns = crowded ? 0 : SPIN_NS;
    if (net->config->spin >= 0)
        net->spin_ns = (uint64_t)net->config->spin;
}

void tb_idle_init(struct tb_net *net)
{
    if (net->machine.segment)
        tb_segment_join_cpus(net->machine.segment);
    look_around(net);
}

bool tb_net_crowded(const struct tb_net *net)
{
    return atomic_load_explicit(&net->crowded, memory_order_relaxed);
}

/* ----------------------------------------------------------------- waiting */

tb_err tb_net_orphaned(void)
{
    return tb_fail(TB_ERR_LOST, "the launcher of this job is gone");
}

bool tb_net_pending(struct tb_net *net)
{
    for (size_t i = 0; i < TB_TRANSPORTS; i++) {
        if (net->ports[i] && tb_transports[i]->pending(net->ports[i]))
            return true;
    }
    return false;
}

/* True as long as it is too early to sleep. */
static bool spin(struct tb_net *net, unsigned idle)
{
    unsigned each =
        idle < POLLS_PAUSED ? POLLS_PER_YIELD_EARLY : POLLS_PER_YIELD;

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
    if (idle % each)
        return true;
    tb_yield();
    return tb_now() < net->spin_until;
}

/* One sleep on the doorbell, or on it and sockets, unless there is work. */
static void sleep_once(struct tb_net *net, uint64_t longest,
                       bool (*ready)(void *arg), void *arg)
{
    uint32_t ticket = 0;

    if (net->tcp)
        tb_bell_arm_pipe(net->bell);
    else
        ticket = tb_bell_arm(net->bell);
    if (!(ready ? ready(arg) : tb_net_pending(net))) {
        if (!net->note->since)
            net->note->since = tb_now();
        if (net->tcp)
            tb_tcp_sleep(net->tcp, longest);
        else
            tb_bell_sleep(net->bell, ticket, longest);
    }
    tb_bell_disarm(net->bell);
}

tb_err tb_net_idle(struct tb_net *net, unsigned idle, bool (*ready)(void *arg),
                   void *arg)
{
    const struct tb_segment_head *head = net->machine.segment;
    uint64_t longest = (uint64_t)net->config->check;

    if (head &&
        TB_UNLIKELY(atomic_load_explicit(&head->present,
                                         memory_order_relaxed) != net->present))
        look_around(net);
    if (spin(net, idle))
        return TB_OK;
    if (net->rdma) { /* no completion wakes it */
        uint64_t nap = atomic_load_explicit(&net->nap, memory_order_relaxed);
        longest = TB_MIN(longest, nap);
    }
    if (!longest) {
        tb_yield();
        return TB_OK;
    }
    sleep_once(net, longest, ready, arg);
    net->note->polls++;
    if (tb_now() >= net->check_at) {
        net->check_at = tb_now() + (uint64_t)net->config->check;
        atomic_store_explicit(&net->check_due, true, memory_order_relaxed);
    }
    if (atomic_load_explicit(&net->orphaned, memory_order_relaxed))
        return tb_net_orphaned();
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
