/* SPDX-License-Identifier: MIT */
/*
 * shm: packets through memory that the ranks of one machine share.
 *
 * Each ordered pair of ranks has a pipe with one writer and one reader: a
 * ring of records and a slab for what is too long for the ring.
 *
 * Ring. A record is one 8-byte word (length, kind) and the packet behind it,
 * in whole grains (TB_GRAIN, one cache transfer), so a packet of up to 56
 * bytes costs one transfer. There is no shared tail: the reader looks at the
 * word where the next record will begin, which the writer has made zero
 * before it published the record before. (Polling the data itself is the idea
 * of FastForward: Giacomoni, Moseley, Vachharajani, PPoPP 2008.)
 *
 * Slab. A long packet leaves only its word in the ring, with the place of its
 * bytes in the slab. Slabs are used from end to end although a small part
 * would do: a line that the reader's cache has dropped since the last lap is
 * cheaper to write than one it still holds, by a factor of three where the
 * slab is larger than that cache. Rings are small, so that they stay close.
 *
 * The reader tells how far it has read only now and then, in a line of its
 * own; the writer looks there only when the room it knows of is used up. A
 * rank polls the pipes of those senders that have set their bit in its
 * `active` map, which each does once, with its first packet.
 */
#include "net/pace.h"
#include "net/segment.h"
#include "net/transport.h"

#define WORD sizeof(uint64_t)
#define NOWHERE SIZE_MAX
#define RING_MOST ((size_t)64 << 10)
#define RING_LEAST ((size_t)16 * TB_GRAIN) /* see tell */
#define RING_SHARE 8                       /* of a pipe: one part in so many */
#define INLINE_MOST ((size_t)384 - WORD)
#define PACKET_MOST ((size_t)32 << 10)
#define EAGER_MOST ((size_t)4 << 10)
#define PATIENCE 1.1f /* with a pull, which spares the sender work; … */
#define PATIENCE_CROWDED 2.0f /* … that would be done on the same processor */
#define POLL_BUDGET 64 /* packets a pipe and poll, so that poll is bounded */

/*
 * A record's word, from the low bits: bytes (18 bits), how long the sender
 * took to write them (12, ns a KiB, 0: not measured), kind (5), place in the
 * slab in grains (28), and a bit that makes it non-zero. A wrap has no bytes:
 * the next record begins at the start of the ring.
 */
#define WORD_PACE_SHIFT 18
#define WORD_PACE_MOST 4095
#define WORD_BULK ((uint64_t)1 << 30)
#define WORD_WRAP ((uint64_t)1 << 31)
#define WORD_SLAB ((uint64_t)1 << 32)
#define WORD_PLACE_SHIFT 35
#define WORD_FULL ((uint64_t)1 << 63)

static inline size_t word_bytes(uint64_t word)
{
    return word & (((size_t)1 << WORD_PACE_SHIFT) - 1);
}

static inline unsigned word_pace(uint64_t word)
{
    return (unsigned)(word >> WORD_PACE_SHIFT) & WORD_PACE_MOST;
}

static inline enum tb_channel word_channel(uint64_t word)
{
    return word & WORD_BULK ? TB_BULK : TB_CONTROL;
}

static inline size_t word_place(uint64_t word)
{
    return (size_t)((word & ~WORD_FULL) >> WORD_PLACE_SHIFT) * TB_GRAIN;
}

/* In the segment, before the ring. Written by the reader alone. */
struct pipe {
    _Alignas(TB_LINE) _Atomic uint64_t ring_read; /* bytes since the start */
    _Atomic uint64_t slab_read;
};
_Static_assert(sizeof(struct pipe) == TB_LINE, "a line of its own");

enum pull_state { PULL_UNTRIED, PULL_WORKS, PULL_REFUSED };

/* A part of a pipe as one of its ends sees it. */
struct part {
    char *data;
    size_t size;
    size_t pos;      /* where the next record or packet begins */
    uint64_t passed; /* bytes written or read since the start */
    uint64_t edge;   /* writer: what `passed` may reach; reader: last told */
};

/* The writing end. */
struct tb_link {
    struct part ring;
    size_t clean;      /* a later word that is zero already, or NOWHERE */
    size_t inline_max; /* longest packet for the ring */
    struct tb_bell *bell;
    bool announced;
    uint64_t lent_at; /* when the slot in use was reserved; 0: not measured */
    struct part slab;
    struct pipe *pipe;
    struct tb_port *port;
    int peer;     /* endpoint */
    int place;    /* in the segment; -1: not connected */
    bool starved; /* reserve said AGAIN; the reader's progress is news */
    bool lost;
    tb_err dying; /* why; to be reported lost by the next poll */
    enum pull_state pull;
    struct tb_pace pace; /* of what comes from this peer */
};

/* The reading end. */
struct inlet {
    struct part ring, slab;
    struct pipe *pipe;
    struct tb_bell *bell; /* the writer's */
    int from;
    int place;
};

struct tb_port {
    const struct tb_sink *up;
    const struct tb_config *config;
    void *segment;
    struct tb_segment_plan plan;
    struct tb_rank_block *block; /* this rank's */
    uint32_t news;               /* of block->news, seen */
    int place, places;
    const int *local;
    int actives;
    int *active; /* places whose inlets are polled */
    int starving, dying;
    struct inlet *inlets; /* by place */
    struct tb_link *links;
    uint64_t nonce; /* what peers read to see whether pull works */
};

static inline _Atomic uint64_t *word_at(const struct part *ring, size_t pos)
{
    return (_Atomic uint64_t *)(void *)(ring->data + pos);
}

static inline size_t grains(size_t bytes)
{
    return tb_round_up(bytes, TB_GRAIN);
}

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
    link->pace.patience =
        port->places > tb_cpus() ? PATIENCE_CROWDED : PATIENCE;
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

/* ---------------------------------------------------------------- sending */

static void doom(struct tb_link *link, tb_err why)
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
    doom(link, TB_ERR_PROTOCOL);
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
    if (max >= TB_PACE_LEAST && slab->passed >= slab->size)
        link->lent_at = tb_now();
    return TB_OK;
}

static tb_err shm_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
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

    if (!link->lent_at || bytes < TB_PACE_LEAST)
        return 0;
    pace = tb_pace_of(bytes, tb_now() - link->lent_at);
    return (uint64_t)TB_MAX(TB_MIN(pace, WORD_PACE_MOST), 1) << WORD_PACE_SHIFT;
}

static void shm_commit(struct tb_link *link, const struct tb_slot *slot,
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
        if (*used > TB_GRAIN)
            __builtin_prefetch(data + TB_GRAIN);
        return data;
    }
    *used = TB_GRAIN;
    if (!bytes || (at && at != in->slab.pos) || at > in->slab.size ||
        bytes > in->slab.size - at)
        return NULL;
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
                doom(&port->links[in->place], TB_ERR_PROTOCOL);
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
    port->up->lost(port->up->ctx, port->local[link - port->links], why);
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

static int shm_poll(struct tb_port *port)
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

static bool shm_pending(struct tb_port *port)
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

/* The job board tells who has gone without saying goodbye. */
static void shm_check(struct tb_port *port)
{
    for (int i = 0; i < port->places; i++) {
        struct tb_note *note = tb_segment_note(port->segment, &port->plan, i);
        if (i != port->place && note->state != TB_STATE_FINALIZED &&
            tb_process_gone(note->pid))
            doom(&port->links[i], TB_ERR_LOST);
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

static tb_err shm_pull(struct tb_link *link, uint64_t remote, void *local,
                       size_t bytes, size_t *done)
{
    struct tb_pace *pace = &link->pace;
    bool always = link->port->config->single_copy == TB_SINGLE_COPY_ALWAYS;
    uint64_t start;
    tb_err err;

    *done = 0;
    if (!can_pull(link) || (!always && !tb_pace_choose(pace, bytes)))
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
    .reserve = shm_reserve,
    .commit = shm_commit,
    .poll = shm_poll,
    .pending = shm_pending,
    .pull = shm_pull,
    .limits = shm_limits,
    .check = shm_check,
    .close = shm_close,
};
