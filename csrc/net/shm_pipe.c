/* SPDX-License-Identifier: MIT */
/* The two ends of a pipe, and what becomes of it when the other end dies. */
#include "net/shm.h"

#define FETCH_RING (16 * TB_GRAIN)
#define FETCH_SLAB (4 * TB_GRAIN)
#define MEASURE_LEAST ((size_t)6 << 10) /* not worth the clock below */
#define POLL_BUDGET 64 /* packets a pipe and poll, so that poll is bounded */

/* ---------------------------------------------------------------- sending */

void tb_shm_doom(struct tb_link *link, tb_err why)
{
    if (!link->dying && !link->lost) {
        link->dying = why;
        link->port->dying++;
    }
}

/* Learns how much of a part the reader has read. False: a value that cannot
 * be, from a neighbour whose memory is in disorder. */
static bool learn(struct part *part, _Atomic uint64_t *read)
{
    uint64_t now = atomic_load_explicit(read, memory_order_acquire);

    if (now > part->passed || now + part->size < part->edge)
        return false;
    part->edge = now + part->size;
    return true;
}

static bool refresh(struct tb_link *link)
{
    if (learn(&link->ring, &link->pipe->ring_read) &&
        learn(&link->slab, &link->pipe->slab_read))
        return true;
    tb_shm_doom(link, TB_ERR_PROTOCOL);
    return false;
}

static void end_starvation(struct tb_link *link)
{
    if (link->starved) {
        link->starved = false;
        link->port->starving--;
    }
}

/* The room known of is used up: is there more? */
static tb_err find_room(struct tb_link *link, size_t ring, size_t slab)
{
    if (link->lost)
        return TB_ERR_LOST;
    if (!refresh(link))
        return TB_ERR_AGAIN;
    if (link->ring.passed + ring <= link->ring.edge &&
        link->slab.passed + slab <= link->slab.edge) {
        end_starvation(link);
        return TB_OK;
    }
    if (!link->starved) {
        link->starved = true;
        link->port->starving++;
    }
    return TB_ERR_AGAIN;
}

static inline void clear_word(struct part *ring, size_t pos)
{
    atomic_store_explicit(word_at(ring, pos), 0, memory_order_relaxed);
}

/* Makes the record at `pos` visible. Release: on a weakly ordered machine
 * whoever sees this word must also see the packet, and the zero in the word
 * where the next record will begin. */
static inline void publish(struct part *ring, uint64_t word, size_t used,
                           size_t next)
{
    atomic_store_explicit(word_at(ring, ring->pos), word, memory_order_release);
    ring->pos = next;
    ring->passed += used;
}

static void wrap(struct tb_link *link)
{
    struct part *ring = &link->ring;

    clear_word(ring, 0);
    publish(ring, WORD_FULL | WORD_WRAP, ring->size - ring->pos, 0);
    link->clean = NOWHERE;
}

static tb_err reserve_slab(struct tb_link *link, uint64_t word, size_t max,
                           struct tb_slot *out)
{
    struct part *ring = &link->ring, *slab = &link->slab;
    size_t need = grains(max), skip = 0, at = slab->pos;

    if (at + need > slab->size) {
        skip = slab->size - at;
        at = 0;
    }
    if (TB_UNLIKELY(slab->passed + skip + need > slab->edge ||
                    ring->passed + 2 * TB_GRAIN > ring->edge))
        TB_TRY(find_room(link, 2 * TB_GRAIN, skip + need));
    out->data = slab->data + at;
    out->room = need;
    out->cookie =
        word | WORD_SLAB | (uint64_t)(at / TB_GRAIN) << WORD_PLACE_SHIFT;
    /* The first lap meets pages that are not mapped yet. */
    link->lent_at = 0;
    if (max >= MEASURE_LEAST && slab->passed >= slab->size)
        link->lent_at = tb_now();
    return TB_OK;
}

tb_err tb_shm_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
                      struct tb_slot *out)
{
    struct part *ring = &link->ring;
    uint64_t word = ch == TB_BULK ? WORD_FULL | WORD_BULK : WORD_FULL;
    size_t need = grains(max + WORD), skip = 0;

    if (max > link->inline_max)
        return reserve_slab(link, word, max, out);
    if (TB_UNLIKELY(ring->pos + need > ring->size))
        skip = ring->size - ring->pos;
    /* One grain more, for the word that follows the record. */
    if (TB_UNLIKELY(ring->passed + skip + need + TB_GRAIN > ring->edge))
        TB_TRY(find_room(link, skip + need + TB_GRAIN, 0));
    if (TB_UNLIKELY(skip))
        wrap(link);
    if (TB_UNLIKELY(link->clean - ring->pos < need))
        link->clean = NOWHERE; /* the caller may write over it */
    out->data = ring->data + ring->pos + WORD;
    out->room = need - WORD;
    out->cookie = word;
    return TB_OK;
}

/* A sender's first packet: tells the receiver to look at this pipe. */
static void announce(struct tb_link *link)
{
    struct tb_port *port = link->port;
    struct tb_rank_block *to =
        tb_segment_rank(port->segment, &port->plan, link->place);

    atomic_fetch_or_explicit(&to->active[port->place / 64],
                             (uint64_t)1 << port->place % 64,
                             memory_order_release);
    atomic_fetch_add_explicit(&to->news, 1, memory_order_release);
    link->announced = true;
}

/* Moves the slab past the packet, and past the end that was too short. */
static void pass_slab(struct part *slab, size_t at, size_t bytes)
{
    if (at != slab->pos)
        slab->passed += slab->size - slab->pos;
    slab->passed += grains(bytes);
    slab->pos = at + grains(bytes);
}

/* The part of a record's word that says how long its packet took to write. */
static uint64_t measure(const struct tb_link *link, size_t bytes)
{
    float pace;

    if (!link->lent_at || bytes < MEASURE_LEAST)
        return 0;
    pace = tb_pace_of(bytes, tb_now() - link->lent_at);
    return (uint64_t)TB_MAX(TB_MIN(pace, WORD_PACE_MOST), 1) << WORD_PACE_SHIFT;
}

void tb_shm_commit(struct tb_link *link, const struct tb_slot *slot,
                   size_t bytes)
{
    struct part *ring = &link->ring;
    uint64_t word = slot->cookie | bytes;
    size_t used = TB_GRAIN, next;

    if (TB_UNLIKELY(!bytes))
        return;
    if (word & WORD_SLAB) {
        word |= measure(link, bytes);
        pass_slab(&link->slab, word_place(word), bytes);
    } else {
        used = grains(bytes + WORD);
    }
    next = ring->pos + used;
    if (TB_UNLIKELY(next == ring->size))
        next = 0;
    if (next != link->clean)
        clear_word(ring, next);
    publish(ring, word, used, next);
    if (TB_UNLIKELY(!link->announced))
        announce(link);
    tb_bell_ring(link->bell);
    /* The next record is likely to be as long as this one. Fetching the line
     * of the word behind it now, while nobody waits, takes that out of its
     * way. */
    link->clean = NOWHERE;
    if (TB_LIKELY(next + used < ring->size &&
                  ring->passed + used + TB_GRAIN <= ring->edge)) {
        link->clean = next + used;
        clear_word(ring, link->clean);
    }
}

/* -------------------------------------------------------------- receiving */

/* Adds the pipes of senders that have announced themselves. */
static void admit(struct tb_port *port, uint32_t news)
{
    port->news = news;
    port->actives = 0;
    for (int i = 0; i < port->places; i++) {
        uint64_t map = atomic_load_explicit(&port->block->active[i / 64],
                                            memory_order_acquire);
        if (i != port->place && map >> i % 64 & 1 && !port->links[i].lost)
            port->active[port->actives++] = i;
    }
}

/*
 * Release: the reader's loads are over before the writer may store again.
 *
 * Telling late never starves the writer. A record in the ring is at most a
 * quarter of it, the end it may have to skip is shorter than itself, and a
 * grain comes on top: at most half the ring and three grains, where at least
 * three quarters are known to be free once the reader has caught up. In the
 * slab a packet is at most a quarter, and seven eighths are known free.
 */
static void tell(struct inlet *in)
{
    in->ring.edge = in->ring.passed;
    in->slab.edge = in->slab.passed;
    atomic_store_explicit(&in->pipe->ring_read, in->ring.passed,
                          memory_order_release);
    atomic_store_explicit(&in->pipe->slab_read, in->slab.passed,
                          memory_order_release);
    tb_bell_ring(in->bell);
}

/* Asks for the leading lines of a packet at once; whoever matches it first
 * would otherwise wait for one after the other later. */
static inline void fetch(const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += TB_GRAIN)
        __builtin_prefetch(data + i);
}

/* Where the packet of a record lies; NULL when the record cannot be. Nothing
 * that a peer wrote is believed unchecked. */
static const void *locate(const struct inlet *in, uint64_t word, size_t *used)
{
    size_t bytes = word_bytes(word), at = word_place(word);

    if (!(word & WORD_SLAB)) {
        const char *data = in->ring.data + in->ring.pos + WORD;
        *used = grains(bytes + WORD);
        if (!bytes || *used > in->ring.size - in->ring.pos)
            return NULL;
        fetch(data + TB_GRAIN, TB_MIN(*used - TB_GRAIN, FETCH_RING));
        return data;
    }
    *used = TB_GRAIN;
    if (!bytes || (at && at != in->slab.pos) || at > in->slab.size ||
        bytes > in->slab.size - at)
        return NULL;
    fetch(in->slab.data + at, TB_MIN(bytes, FETCH_SLAB));
    return in->slab.data + at;
}

/* Delivers a packet that the sender has measured, and measures too. */
static void deliver_measured(struct tb_port *port, struct inlet *in,
                             uint64_t word, const void *data)
{
    const struct tb_sink *up = port->up;
    struct tb_pace *pace = &port->links[in->place].pace;
    size_t bytes = word_bytes(word);
    uint64_t start = tb_now();

    up->packet(up->ctx, in->from, word_channel(word), data, bytes);
    tb_pace_note(&pace->read, tb_pace_of(bytes, tb_now() - start));
    tb_pace_note(&pace->write, (float)word_pace(word));
}

static int drain(struct tb_port *port, struct inlet *in)
{
    const struct tb_sink *up = port->up;
    struct part *ring = &in->ring;
    int n = 0;

    for (int i = 0; i < POLL_BUDGET; i++) {
        uint64_t word = atomic_load_explicit(word_at(ring, ring->pos),
                                             memory_order_acquire);
        size_t used = ring->size - ring->pos;

        if (!word)
            break;
        if (TB_LIKELY(!(word & WORD_WRAP))) {
            const void *data = locate(in, word, &used);
            if (TB_UNLIKELY(!data)) {
                tb_shm_doom(&port->links[in->place], TB_ERR_PROTOCOL);
                break;
            }
            if (TB_UNLIKELY(word_pace(word)))
                deliver_measured(port, in, word, data);
            else
                up->packet(up->ctx, in->from, word_channel(word), data,
                           word_bytes(word));
            if (word & WORD_SLAB)
                pass_slab(&in->slab, word_place(word), word_bytes(word));
            n++;
        }
        ring->pos = ring->pos + used == ring->size ? 0 : ring->pos + used;
        ring->passed += used;
        if (TB_UNLIKELY(ring->passed - ring->edge >= ring->size / 4 ||
                        in->slab.passed - in->slab.edge >= in->slab.size / 8))
            tell(in);
    }
    return n;
}

/* ------------------------------------------------------------------- loss */

/* Hands back what the dead reader has not acknowledged, oldest first. */
static void hand_back(struct tb_link *link)
{
    const struct tb_sink *up = link->port->up;
    struct inlet as_reader = {.ring = link->ring, .slab = link->slab};
    struct part *ring = &as_reader.ring, *slab = &as_reader.slab;

    if (!refresh(link))
        return;
    ring->passed = link->ring.edge - link->ring.size;
    slab->passed = link->slab.edge - link->slab.size;
    ring->pos = ring->passed % ring->size;
    slab->pos = slab->passed % slab->size;
    while (ring->passed < link->ring.passed) {
        uint64_t word = atomic_load_explicit(word_at(ring, ring->pos),
                                             memory_order_relaxed);
        size_t used = ring->size - ring->pos;
        if (!(word & WORD_WRAP)) {
            const void *data = locate(&as_reader, word, &used);
            if (!data)
                return;
            up->returned(up->ctx, link->peer, word_channel(word), data,
                         word_bytes(word));
            if (word & WORD_SLAB)
                pass_slab(slab, word_place(word), word_bytes(word));
        }
        ring->pos = (ring->pos + used) % ring->size;
        ring->passed += used;
    }
}

static void bury(struct tb_port *port, struct tb_link *link)
{
    tb_err why = link->dying;

    if (link->place >= 0)
        hand_back(link);
    end_starvation(link);
    link->lost = true;
    link->dying = TB_OK;
    link->ring.edge = link->slab.edge = 0; /* so that reserve looks closer */
    port->dying--;
    admit(port, port->news);
    port->up->lost(port->up->ctx, port->local[link - port->links],
                   tb_fail(why, why == TB_ERR_LOST ? "its process has ended"
                                                   : "it breaks the protocol"));
}

static bool has_arrivals(const struct inlet *in)
{
    return atomic_load_explicit(word_at(&in->ring, in->ring.pos),
                                memory_order_relaxed) != 0;
}

/* After everything that had arrived from there, if it can be read. */
static void bury_the_dead(struct tb_port *port)
{
    for (int i = 0; i < port->places; i++) {
        struct tb_link *link = &port->links[i];
        if (link->dying &&
            (link->dying != TB_ERR_LOST || !has_arrivals(&port->inlets[i])))
            bury(port, link);
    }
}

int tb_shm_poll(struct tb_port *port)
{
    uint32_t news =
        atomic_load_explicit(&port->block->news, memory_order_acquire);
    int n = 0;

    if (TB_UNLIKELY(news != port->news))
        admit(port, news);
    for (int i = 0; i < port->actives; i++)
        n += drain(port, &port->inlets[port->active[i]]);
    if (TB_UNLIKELY(port->dying))
        bury_the_dead(port);
    return n;
}

bool tb_shm_pending(struct tb_port *port)
{
    if (port->dying || atomic_load_explicit(&port->block->news,
                                            memory_order_acquire) != port->news)
        return true;
    for (int i = 0; i < port->actives; i++) {
        if (has_arrivals(&port->inlets[port->active[i]]))
            return true;
    }
    for (int i = 0; port->starving && i < port->places; i++) {
        struct tb_link *link = &port->links[i];
        uint64_t had = link->ring.edge + link->slab.edge;
        if (link->starved &&
            (!refresh(link) || link->ring.edge + link->slab.edge != had)) {
            end_starvation(link);
            return true;
        }
    }
    return false;
}
