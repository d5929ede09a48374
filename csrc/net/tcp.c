/* SPDX-License-Identifier: MIT */
/* The tcp transport's port: opening, looking at sockets, sleeping, the dead. */
#include "net/tcp_port.h"

#include <stdio.h>
#include <unistd.h>

#define EAGER_MOST ((size_t)32 << 10)
#define HEAD_ROOM 64     /* for the envelope of an eager message */
#define LATENCY_NS 30000 /* Ethernet, and Thunderbolt's IP is no better */
#define LOOK_EVERY 4     /* polls, beside neighbours in shared memory */
#define RING_MOST ((size_t)1 << 28)
#define NS_PER_S 1000000000

/* ------------------------------------------------------------------ opening */

static void free_port(struct tb_port *port)
{
    for (int i = 0; port->link && i < port->links; i++) {
        tb_free(port->link[i].out.data);
        tb_free(port->link[i].in.data);
    }
    tb_free(port->link);
    tb_free(port->of);
    tb_free(port->look);
    tb_free(port->asleep);
    tb_free(port);
}

static size_t ring_bytes(const struct tb_config *config)
{
    size_t wanted = TB_MIN((size_t)config->tcp_ring, RING_MOST);

    return tb_round_up(TB_MAX(wanted, (size_t)TB_TCP_RING_LEAST), 4096);
}

static tb_err make_tables(struct tb_port *port, const struct tb_tcp_args *a)
{
    size_t n = 0;

    for (int i = 0; i < port->endpoints; i++)
        n += a->socket[i] >= 0;
    port->link = tb_calloc(n, sizeof(*port->link));
    port->of = tb_calloc((size_t)port->endpoints, sizeof(struct tb_link *));
    port->look = tb_calloc(n, sizeof(*port->look));
    port->asleep = tb_calloc(n + 1, sizeof(*port->asleep));
    if (!port->link || !port->of || !port->look || !port->asleep)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the tcp transport");
    for (int i = 0; i < port->endpoints; i++) {
        if (a->socket[i] < 0)
            continue;
        TB_TRY(tb_stream_keep(a->socket[i], port->silence_s));
        port->of[i] = &port->link[port->links++];
        port->of[i]->fd = a->socket[i];
        port->of[i]->peer = i;
        port->of[i]->port = port;
    }
    return TB_OK;
}

static tb_err tcp_open(struct tb_port **out, const struct tb_port_args *args)
{
    const struct tb_tcp_args *a = args->tcp;
    struct tb_port *port;
    tb_err err;

    if (!a)
        return TB_ERR_NOTSUP;
    port = tb_calloc(1, sizeof(*port));
    if (!port)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the tcp transport");
    port->up = args->up;
    port->bell = args->bell;
    port->host = a->host;
    port->build = a->build;
    port->ear = a->ear;
    port->mourn_ns = a->mourn_ns;
    port->self = args->self;
    port->endpoints = args->endpoints;
    port->silence_s = (int)TB_MAX(args->config->tcp_timeout / NS_PER_S, 1);
    port->ring = ring_bytes(args->config);
    port->frame_most = TB_MIN(port->ring / FRAMES_A_RING, FRAME_MOST);
    port->stride = args->local_ranks > 1 ? LOOK_EVERY : 1;
    err = make_tables(port, a);
    if (err) {
        free_port(port);
        return err;
    }
    *out = port;
    return TB_OK;
}

static tb_err tcp_connect(struct tb_port *port, int peer, struct tb_link **out)
{
    if (peer < 0 || peer >= port->endpoints || !port->of[peer])
        return TB_ERR_NOTSUP;
    *out = port->of[peer];
    return TB_OK;
}

static void tcp_limits(const struct tb_link *link, struct tb_limits *out)
{
    *out = (struct tb_limits){0};
    out->packet_max = link->port->frame_most - sizeof(struct frame);
    out->eager_max =
        TB_MIN(EAGER_MOST, out->packet_max - out->packet_max / 4) - HEAD_ROOM;
    out->pull_min = SIZE_MAX;
    out->latency_ns = LATENCY_NS;
}

static tb_err tcp_pull(struct tb_link *link, uint64_t remote, void *local,
                       size_t bytes, size_t *done)
{
    (void)link, (void)remote, (void)local, (void)bytes;
    *done = 0;
    return TB_ERR_NOTSUP;
}

/* --------------------------------------------------------------------- loss */

static void say_why(const struct tb_link *link, char *out, size_t room)
{
    const struct tb_port *port = link->port;
    const char *host = port->host && port->host[link->peer]
                           ? port->host[link->peer]
                           : "another machine";

    if (link->doom == DOOM_BROKEN)
        snprintf(out, room, "the connection to it, on %s, is of no use: %s",
                 host, link->why);
    else if (link->doom == DOOM_SILENT)
        snprintf(out, room, "%s has not answered for %d s (TBMPI_TCP_TIMEOUT)",
                 host, port->silence_s);
    else if (link->doom == DOOM_LEFT)
        snprintf(out, room, "it has called MPI_Finalize");
    else
        snprintf(out, room, "the connection to its process, on %s, has ended",
                 host);
}

void tb_tcp_doom(struct tb_link *link, enum doom why)
{
    struct tb_port *port = link->port;
    bool mourned = why == DOOM_ENDED && !link->left;

    if (link->doom || link->lost)
        return;
    link->doom = why;
    link->bury_at = mourned ? tb_now() + port->mourn_ns : 0;
    if (!port->doomed++ || link->bury_at < port->bury_at)
        port->bury_at = link->bury_at;
    if (why == DOOM_ENDED) { /* its end would be news for ever */
        close(link->fd);
        link->fd = -1;
    }
}

static bool burial_is_due(const struct tb_port *port)
{
    return port->doomed && (!port->bury_at || tb_now() >= port->bury_at);
}

static void bury(struct tb_link *link)
{
    struct tb_port *port = link->port;
    tb_err cause = link->doom == DOOM_BROKEN ? TB_ERR_PROTOCOL : TB_ERR_LOST;
    char why[256];

    say_why(link, why, sizeof(why));
    if (link->in.loaded)
        port->loaded--;
    link->in.loaded = false;
    port->doomed--;
    link->lost = true;
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    tb_tcp_hand_back(link);
    port->up->lost(port->up->ctx, link->peer, tb_fail(cause, "%s", why));
    link->doom = DOOM_NONE;
}

/* After a goodbye the end of the connection is nobody's loss. */
static void part(struct tb_link *link)
{
    link->doom = DOOM_NONE;
    link->port->doomed--;
}

/* After everything that had arrived from there. */
static void bury_the_dead(struct tb_port *port)
{
    uint64_t now = tb_now(), next = UINT64_MAX;

    for (int i = 0; i < port->links; i++) {
        struct tb_link *link = &port->link[i];
        if (!link->doom)
            continue;
        if (link->bury_at > now)
            next = TB_MIN(next, link->bury_at);
        else if (link->doom == DOOM_ENDED && link->left)
            part(link);
        else
            bury(link);
    }
    port->bury_at = next;
}

static void tcp_check(struct tb_port *port)
{
    for (int i = 0; i < port->links; i++) {
        struct tb_link *link = &port->link[i];
        if (link->fd >= 0 && tb_stream_silent(link->fd, port->silence_s))
            tb_tcp_doom(link, DOOM_SILENT);
    }
    port->rest = 0;
}

/* ------------------------------------------------------------------ looking */

static short events_of(const struct tb_link *link)
{
    return (short)(link->blocked ? POLLIN | POLLOUT : POLLIN);
}

static void describe(const struct tb_port *port, struct pollfd *out)
{
    for (int i = 0; i < port->links; i++) {
        out[i].fd = port->link[i].fd; /* poll skips -1 */
        out[i].events = events_of(&port->link[i]);
        out[i].revents = 0;
    }
}

static int serve(struct tb_link *link, short events)
{
    if (events & POLLOUT && link->blocked)
        tb_tcp_flush(link);
    return tb_tcp_read(link, (events & ~POLLOUT) != 0);
}

static int look(struct tb_port *port)
{
    int n = 0;

    if (port->links == 1) {
        struct tb_link *link = port->link;
        if (link->fd < 0)
            return 0;
        return serve(link, events_of(link));
    }
    describe(port, port->look);
    if (poll(port->look, (nfds_t)port->links, 0) <= 0 && !port->loaded)
        return 0;
    for (int i = 0; i < port->links; i++) {
        struct tb_link *link = &port->link[i];
        if (port->look[i].revents || link->in.loaded)
            n += serve(link, port->look[i].revents);
    }
    return n;
}

static int tcp_poll(struct tb_port *port)
{
    int n;

    if (port->rest) {
        port->rest--;
        return 0;
    }
    n = look(port);
    if (!n && !port->loaded)
        port->rest = port->stride - 1;
    if (TB_UNLIKELY(burial_is_due(port)))
        bury_the_dead(port);
    return n;
}

static void empty_ear(int ear)
{
    char rung[64];

    while (read(ear, rung, sizeof(rung)) == (ssize_t)sizeof(rung))
        continue;
}

/* A byte in the ear may be news that came after the caller has looked at other
 * transports: he looks again. */
static bool tcp_pending(struct tb_port *port)
{
    struct pollfd *ear = &port->asleep[port->links];
    bool any;

    port->rest = 0;
    if (port->relief || port->loaded || burial_is_due(port)) {
        port->relief = false;
        return true;
    }
    describe(port, port->asleep);
    *ear = (struct pollfd){port->ear, POLLIN, 0};
    any = poll(port->asleep, (nfds_t)port->links + 1, 0) > 0;
    if (any && ear->revents)
        empty_ear(port->ear);
    return any;
}

void tb_tcp_sleep(struct tb_port *port, uint64_t ns)
{
    uint64_t ms = TB_MIN((ns + 999999) / 1000000, 3600000);
    struct pollfd *ear = &port->asleep[port->links];

    if (poll(port->asleep, (nfds_t)port->links + 1, (int)ms) > 0 &&
        ear->revents)
        empty_ear(ear->fd);
}

/* ------------------------------------------------------------------ closing */

static void tcp_close(struct tb_port *port)
{
    if (!port)
        return;
    for (int i = 0; i < port->links; i++) {
        struct tb_link *link = &port->link[i];
        if (link->fd < 0)
            continue;
        tb_tcp_flush(link);
        tb_tcp_say_bye(link);
        tb_stream_close(link->fd);
    }
    free_port(port);
}

const struct tb_transport tb_transport_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .connect = tcp_connect,
    .reserve = tb_tcp_reserve,
    .commit = tb_tcp_commit,
    .poll = tcp_poll,
    .pending = tcp_pending,
    .pull = tcp_pull,
    .limits = tcp_limits,
    .check = tcp_check,
    .close = tcp_close,
};
