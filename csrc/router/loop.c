/* SPDX-License-Identifier: MIT */
/*
 * How the router waits. The devices wake nobody, so it must look; how often is
 * a bargain between the latency of the next packet and a processor. While
 * packets flow, and for a while after, it looks all the time (where processes
 * share processors it yields in between). Then it naps, at most a fiftieth of
 * the time that nothing has happened for: a program that communicates every
 * 10 ms so waits 0.2 ms longer at worst. The ranks ring it out of a nap.
 */
#include "router/router.h"

#include <poll.h>

#define POLLS_BARE 256
#define POLLS_PER_YIELD 16
#define TURNS_PER_CHECK 4096
#define SPIN_NS 1000000
#define SPIN_CROWDED_NS 200000
#define NAP_PART 50
#define NAP_LEAST_NS 20000
#define LEAVE_NS 1000000000

struct rest {
    unsigned idle;  /* fruitless turns in a row */
    uint64_t since; /* of about the first of them */
    uint64_t spin_ns;
    uint32_t present;
    bool crowded;
};

/* The ranks are bound to processors or not, and so on: see net/idle.c. */
static void look_around(const struct tb_router *r, struct rest *rest)
{
    const struct tb_segment_head *head = r->segment;
    int cpus = head ? tb_segment_cpus(head) : tb_cpus();

    if (head)
        rest->present =
            atomic_load_explicit(&head->present, memory_order_acquire);
    rest->crowded = r->plan->crowd > cpus;
    rest->spin_ns = rest->crowded ? SPIN_CROWDED_NS : SPIN_NS;
    if (r->config->router_spin >= 0)
        rest->spin_ns = (uint64_t)r->config->router_spin;
}

static void nap(struct tb_router *r, uint64_t idle_ns)
{
    uint64_t ns = TB_MAX(idle_ns / NAP_PART, NAP_LEAST_NS);
    uint32_t ticket;

    ns = TB_MIN(ns, (uint64_t)r->config->router_nap);
    if (!ns) {
        tb_yield();
        return;
    }
    ticket = tb_bell_arm(&r->head->bell);
    if (!tb_lanes_pending(r) && !tb_transport_rdma.pending(r->port))
        tb_bell_sleep(&r->head->bell, ticket, ns);
    tb_bell_disarm(&r->head->bell);
}

static void rest(struct tb_router *r, struct rest *rest)
{
    const struct tb_segment_head *head = r->segment;
    uint64_t now;

    if (++rest->idle < POLLS_BARE && !rest->crowded) {
        tb_relax();
        return;
    }
    now = tb_now();
    if (!rest->since)
        rest->since = now;
    tb_router_check(r, now);
    if (head && atomic_load_explicit(&head->present, memory_order_relaxed) !=
                    rest->present)
        look_around(r, rest);
    if (now - rest->since >= rest->spin_ns)
        nap(r, now - rest->since);
    else if (rest->crowded || rest->idle % POLLS_PER_YIELD == 0)
        tb_yield();
    else
        tb_relax();
}

static void turn(struct tb_router *r, struct rest *rest_)
{
    int n = tb_router_turn(r);
    uint32_t turns =
        atomic_load_explicit(&r->head->polls, memory_order_relaxed) + 1;

    atomic_store_explicit(&r->head->polls, turns, memory_order_relaxed);
    if (n == 0) {
        rest(r, rest_);
        return;
    }
    rest_->idle = 0;
    rest_->since = 0;
    if (TB_UNLIKELY(turns % TURNS_PER_CHECK == 0))
        tb_router_check(r, tb_now());
}

/* The agent says that it goes by closing its end. It says nothing else. */
static bool agent_gone(const struct tb_router *r)
{
    struct pollfd p = {.fd = r->plan->agent, .events = POLLIN};

    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static void leave(struct tb_router *r, struct rest *rest)
{
    uint64_t until = tb_now() + LEAVE_NS;

    tb_router_leave(r);
    while (!tb_router_left(r) && tb_now() < until)
        turn(r, rest);
    tb_rdma_farewell(r->port);
}

tb_err tb_router_run(struct tb_router *r, const volatile sig_atomic_t *stop)
{
    uint64_t late = tb_now() + (uint64_t)r->config->router_start;
    struct rest rest = {0};

    look_around(r, &rest);
    while (!*stop && !r->broken) {
        turn(r, &rest);
        if (TB_UNLIKELY(rest.idle % TURNS_PER_CHECK == POLLS_BARE) &&
            agent_gone(r))
            break;
        if (TB_UNLIKELY(!r->up) && tb_now() > late)
            tb_router_late(r);
    }
    if (r->broken) {
        tb_router_fail(r, r->why);
        return tb_fail(r->broken, "%s", r->why);
    }
    leave(r, &rest);
    return TB_OK;
}
