/* SPDX-License-Identifier: MIT */
/*
 * self: packets to oneself, through one ring in private memory. A packet is
 * delivered by the next poll, not by commit, so that the caller of commit
 * never finds itself inside an upcall.
 */
#include "net/transport.h"

#define RING_BYTES ((size_t)256 << 10)
#define PACKET_MOST ((size_t)32 << 10)
#define EAGER_MOST ((size_t)16 << 10)
#define PULL_LEAST ((size_t)16 << 10)
#define ALIGN ((size_t)16)
#define POLL_BUDGET 64

/* Before each packet; `bytes` 0: continue at the start of the ring. */
struct record {
    _Alignas(16) uint32_t bytes;
    uint32_t channel;
};

struct tb_link {
    struct tb_port *port;
};

struct tb_port {
    const struct tb_sink *up;
    int self;
    char *ring;
    size_t pos;   /* of the next record to write */
    size_t first; /* of the next record to read */
    size_t used;  /* bytes between them */
    struct tb_link link;
};

static void self_close(struct tb_port *port)
{
    if (!port)
        return;
    tb_free(port->ring);
    tb_free(port);
}

static tb_err self_open(struct tb_port **out, const struct tb_port_args *args)
{
    struct tb_port *port = tb_calloc(1, sizeof(*port));

    if (port)
        port->ring = tb_alloc_aligned(TB_LINE, RING_BYTES);
    if (!port || !port->ring) {
        self_close(port);
        return tb_fail(TB_ERR_NO_MEM, "no memory for the self transport");
    }
    port->up = args->up;
    port->self = args->self;
    port->link.port = port;
    *out = port;
    return TB_OK;
}

static tb_err self_connect(struct tb_port *port, int peer, struct tb_link **out)
{
    if (peer != port->self)
        return TB_ERR_NOTSUP;
    *out = &port->link;
    return TB_OK;
}

static size_t record_bytes(size_t packet)
{
    return sizeof(struct record) + tb_round_up(packet, ALIGN);
}

static struct record *record_at(struct tb_port *port, size_t pos)
{
    return (struct record *)(void *)(port->ring + pos);
}

static tb_err self_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
                           struct tb_slot *out)
{
    struct tb_port *port = link->port;
    size_t need = record_bytes(max), skip = 0;

    if (port->pos + need > RING_BYTES)
        skip = RING_BYTES - port->pos;
    if (port->used + skip + need > RING_BYTES)
        return TB_ERR_AGAIN;
    if (skip) {
        record_at(port, port->pos)->bytes = 0;
        port->pos = 0;
        port->used += skip;
    }
    out->data = record_at(port, port->pos) + 1;
    out->room = need - sizeof(struct record);
    out->cookie = ch;
    return TB_OK;
}

static void self_commit(struct tb_link *link, const struct tb_slot *slot,
                        size_t bytes)
{
    struct tb_port *port = link->port;
    struct record *r = record_at(port, port->pos);
    size_t used = record_bytes(bytes);

    if (!bytes)
        return;
    r->bytes = (uint32_t)bytes;
    r->channel = (uint32_t)slot->cookie;
    port->used += used;
    port->pos = port->pos + used == RING_BYTES ? 0 : port->pos + used;
}

static int self_poll(struct tb_port *port)
{
    int n = 0;

    while (port->used && n < POLL_BUDGET) {
        struct record *r = record_at(port, port->first);
        size_t used = RING_BYTES - port->first;

        if (r->bytes) {
            used = record_bytes(r->bytes);
            port->up->packet(port->up->ctx, port->self,
                             (enum tb_channel)r->channel, r + 1, r->bytes);
            n++;
        }
        port->first = port->first + used == RING_BYTES ? 0 : port->first + used;
        port->used -= used;
    }
    return n;
}

static bool self_pending(struct tb_port *port)
{
    return port->used > 0;
}

static tb_err self_pull(struct tb_link *link, uint64_t remote, void *local,
                        size_t bytes, size_t *done)
{
    (void)link;
    /* A message to oneself may, against the rules, overlap its target. */
    memmove(local, (const void *)(uintptr_t)remote, bytes);
    *done = bytes;
    return TB_OK;
}

static void self_limits(const struct tb_link *link, struct tb_limits *out)
{
    (void)link;
    out->packet_max = PACKET_MOST;
    out->eager_max = EAGER_MOST;
    out->pull_min = PULL_LEAST;
    out->latency_ns = 50;
}

static void self_check(struct tb_port *port)
{
    (void)port; /* as long as this runs, it lives */
}

const struct tb_transport tb_transport_self = {
    .name = "self",
    .open = self_open,
    .connect = self_connect,
    .reserve = self_reserve,
    .commit = self_commit,
    .poll = self_poll,
    .pending = self_pending,
    .pull = self_pull,
    .limits = self_limits,
    .check = self_check,
    .close = self_close,
};
