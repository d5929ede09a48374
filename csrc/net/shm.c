/* SPDX-License-Identifier: MIT */
/* The shm transport: opening, limits, the dead, and single copies. */
#include "net/shm.h"

#define RING_MOST ((size_t)64 << 10)
#define RING_LEAST ((size_t)16 * TB_GRAIN) /* see shm_pipe.c, tell */
#define RING_SHARE 8                       /* of a pipe: one part in so many */
#define INLINE_MOST ((size_t)768 - WORD)
#define PACKET_MOST ((size_t)32 << 10)
#define EAGER_MOST ((size_t)4 << 10)
#define PATIENCE 1.1f /* with a pull, which spares the sender work; … */
#define PATIENCE_CROWDED 2.0f /* … that would be done on the same processor */

/* ---------------------------------------------------------------- opening */

static struct pipe *pipe_of(const struct tb_port *port, int to, int from)
{
    size_t index = (size_t)to * (size_t)(port->places - 1) +
                   (size_t)(from < to ? from : from - 1);

    return (struct pipe *)(void *)((char *)port->segment + port->plan.rings +
                                   index * port->plan.ring_bytes);
}

static void divide(const struct tb_port *port, struct pipe *pipe,
                   struct part *ring, struct part *slab)
{
    size_t room = port->plan.ring_bytes - sizeof(struct pipe);

    ring->data = (char *)(pipe + 1);
    ring->size = TB_MAX(TB_MIN(room / RING_SHARE, RING_MOST), RING_LEAST);
    ring->size &= ~(size_t)(TB_LINE - 1);
    slab->data = ring->data + ring->size;
    slab->size = room - ring->size;
}

static void inlet_init(struct tb_port *port, int place)
{
    struct inlet *in = &port->inlets[place];

    in->pipe = pipe_of(port, port->place, place);
    divide(port, in->pipe, &in->ring, &in->slab);
    in->bell = &tb_segment_rank(port->segment, &port->plan, place)->bell;
    in->from = port->local[place];
    in->place = place;
}

static size_t packet_max(const struct tb_link *link)
{
    size_t most = link->slab.size / 4 & ~(size_t)(TB_GRAIN - 1);

    return TB_MIN(most, PACKET_MOST);
}

static void link_init(struct tb_port *port, int place)
{
    struct tb_link *link = &port->links[place];

    link->pipe = pipe_of(port, place, port->place);
    divide(port, link->pipe, &link->ring, &link->slab);
    link->ring.edge = link->ring.size;
    link->slab.edge = link->slab.size;
    link->clean = NOWHERE;
    link->inline_max = TB_MIN(link->ring.size / 4 - WORD, INLINE_MOST);
    link->bell = &tb_segment_rank(port->segment, &port->plan, place)->bell;
    link->port = port;
    link->peer = port->local[place];
    link->place = place;
    if (port->config->single_copy == TB_SINGLE_COPY_OFF ||
        port->config->single_copy == TB_SINGLE_COPY_REFUSE ||
        !tb_process_can_read())
        link->pull = PULL_REFUSED;
    link->pace.packet_bytes = packet_max(link);
}

static void publish_nonce(struct tb_port *port)
{
    port->nonce = tb_random();
    atomic_store_explicit(&port->block->nonce, port->nonce,
                          memory_order_relaxed);
    atomic_store_explicit(&port->block->nonce_at,
                          (uint64_t)(uintptr_t)&port->nonce,
                          memory_order_release);
}

static void shm_close(struct tb_port *port)
{
    if (!port)
        return;
    tb_free(port->links);
    tb_free(port->inlets);
    tb_free(port->active);
    tb_free(port);
}

static tb_err shm_open_port(struct tb_port **out,
                            const struct tb_port_args *args)
{
    size_t n = (size_t)args->local_ranks;
    struct tb_port *port;
    tb_err err;

    if (!args->segment)
        return TB_ERR_NOTSUP;
    port = tb_calloc(1, sizeof(*port));
    if (!port)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the shm transport");
    port->up = args->up;
    port->config = args->config;
    port->segment = args->segment;
    port->place = args->local_rank;
    port->places = args->local_ranks;
    port->local = args->local;
    port->crowded = args->crowded;
    port->links = tb_calloc(n, sizeof(*port->links));
    port->inlets = tb_calloc(n, sizeof(*port->inlets));
    port->active = tb_calloc(n, sizeof(*port->active));
    err = tb_segment_plan(&port->plan, args->local_ranks, args->segment_bytes,
                          (size_t)args->config->ring);
    if (!err && !(port->links && port->inlets && port->active))
        err = tb_fail(TB_ERR_NO_MEM, "no memory for the shm transport");
    if (err) {
        shm_close(port);
        return err;
    }
    port->block = tb_segment_rank(port->segment, &port->plan, port->place);
    for (int i = 0; i < port->places; i++) {
        port->links[i].port = port;
        port->links[i].place = -1;
        if (i != port->place)
            inlet_init(port, i);
    }
    publish_nonce(port);
    *out = port;
    return TB_OK;
}

static tb_err shm_connect(struct tb_port *port, int peer, struct tb_link **out)
{
    int place = 0;

    while (place < port->places && port->local[place] != peer)
        place++;
    if (place == port->places || place == port->place)
        return TB_ERR_NOTSUP;
    if (port->links[place].place < 0)
        link_init(port, place);
    *out = &port->links[place];
    return TB_OK;
}

/* -------------------------------------------------------------- neighbours */

/* The job board tells who has gone without saying goodbye. */
static void shm_check(struct tb_port *port)
{
    for (int i = 0; i < port->places; i++) {
        struct tb_note *note = tb_segment_note(port->segment, &port->plan, i);
        if (i != port->place && note->state != TB_STATE_FINALIZED &&
            tb_process_gone(note->pid))
            tb_shm_doom(&port->links[i], TB_ERR_LOST);
    }
}

/* ------------------------------------------------------------ single copy */

static uint32_t pid_of(const struct tb_port *port, int place)
{
    return tb_segment_note(port->segment, &port->plan, place)->pid;
}

/* Reading a number that the peer has published proves that the process of
 * that id is the peer (not so between containers) and may be read. */
static bool can_pull(struct tb_link *link)
{
    struct tb_port *port = link->port;
    struct tb_rank_block *peer =
        tb_segment_rank(port->segment, &port->plan, link->place);
    uint64_t at = atomic_load_explicit(&peer->nonce_at, memory_order_acquire);
    uint64_t want = atomic_load_explicit(&peer->nonce, memory_order_relaxed);
    uint64_t found = ~want;
    size_t done;

    if (link->pull == PULL_UNTRIED) {
        link->pull = PULL_REFUSED;
        if (at &&
            !tb_process_read(pid_of(port, link->place), at, &found,
                             sizeof(found), &done) &&
            found == want)
            link->pull = PULL_WORKS;
    }
    return link->pull == PULL_WORKS;
}

static float patience(const struct tb_port *port)
{
    return tb_is_crowded(port->crowded) ? PATIENCE_CROWDED : PATIENCE;
}

/* The sender is not within MPI, and may stay away for as long as it likes:
 * it would not send packets. Relaxed: a guess, wrong at times. */
static bool is_away(const struct tb_link *link)
{
    struct tb_port *port = link->port;
    struct tb_note *note =
        tb_segment_note(port->segment, &port->plan, link->place);

    return atomic_load_explicit(&note->call, memory_order_relaxed) == 0;
}

static tb_err shm_pull(struct tb_link *link, uint64_t remote, void *local,
                       size_t bytes, size_t *done)
{
    struct tb_pace *pace = &link->pace;
    bool always = link->port->config->single_copy == TB_SINGLE_COPY_ALWAYS;
    uint64_t start;
    tb_err err;

    *done = 0;
    pace->patience = patience(link->port);
    if (!can_pull(link) ||
        !(always || is_away(link) || tb_pace_choose(pace, bytes)))
        return TB_ERR_NOTSUP;
    start = tb_now();
    err = tb_process_read(pid_of(link->port, link->place), remote, local, bytes,
                          done);
    if (!err && bytes >= TB_PACE_LEAST)
        tb_pace_note(&pace->pull[tb_pace_class(bytes)],
                     tb_pace_of(bytes, tb_now() - start));
    return err;
}

static void shm_limits(const struct tb_link *link, struct tb_limits *out)
{
    const struct tb_config *config = link->port->config;

    out->packet_max = packet_max(link);
    out->eager_max = TB_MIN(EAGER_MOST, out->packet_max / 2);
    out->pull_min = out->eager_max + 1; /* pull itself decides */
    if (config->single_copy == TB_SINGLE_COPY_OFF || !tb_process_can_read())
        out->pull_min = SIZE_MAX;
    out->latency_ns = 200;
}

const struct tb_transport tb_transport_shm = {
    .name = "shm",
    .open = shm_open_port,
    .connect = shm_connect,
    .reserve = tb_shm_reserve,
    .commit = tb_shm_commit,
    .poll = tb_shm_poll,
    .pending = tb_shm_pending,
    .pull = shm_pull,
    .limits = shm_limits,
    .check = shm_check,
    .close = shm_close,
};
