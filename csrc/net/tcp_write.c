/* SPDX-License-Identifier: MIT */
/* The ring of a link, and what is written from it to the socket. */
#include "net/tcp_port.h"

static struct frame *frame_at(const struct ring *r, uint64_t place)
{
    return (struct frame *)(void *)(r->data + place % r->size);
}

static uint64_t next_lap(const struct ring *r, uint64_t place)
{
    return (place / r->size + 1) * r->size;
}

/* `place` moved on by `bytes`, and over the gap if it comes to it. */
static uint64_t step(const struct ring *r, uint64_t place, uint64_t bytes)
{
    place += bytes;
    return place == r->gap ? next_lap(r, place) : place;
}

/* ------------------------------------------------------------------ filling */

/* The place for a frame of `bytes`, of which `spare` bytes of the ring are to
 * stay free; NOWHERE: there is no room. */
static uint64_t find_place(const struct ring *r, size_t bytes, size_t spare)
{
    uint64_t at = r->head;

    if (at % r->size + bytes > r->size)
        at = next_lap(r, at);
    return at + bytes + spare <= r->tail + r->size ? at : NOWHERE;
}

static void put(struct tb_link *link, uint64_t at, enum frame_kind kind,
                size_t bytes)
{
    struct ring *r = &link->out;
    struct frame *f = frame_at(r, at);

    f->bytes = (uint32_t)bytes;
    f->kind = (uint16_t)kind;
    f->magic = FRAME_MAGIC;
    f->taken = link->in.taken;
    link->in.told = link->in.taken;
    if (at != r->head) {
        r->gap = r->head;
        if (r->next == r->gap)
            r->next = at;
        if (r->tail == r->gap) {
            r->tail = at;
            r->gap = NOWHERE;
        }
    }
    r->head = at + frame_bytes(bytes);
    r->filled += frame_bytes(bytes);
}

static void put_hello(struct tb_link *link)
{
    struct tb_port *port = link->port;
    struct hello h = {
        .magic = HELLO_MAGIC,
        .self = (uint32_t)port->self,
        .peer = (uint32_t)link->peer,
        .endpoints = (uint32_t)port->endpoints,
        .ring = (uint32_t)port->ring,
        .pointer_bytes = sizeof(void *),
        .long_double_bytes = sizeof(long double),
    };

    strncpy(h.build, port->build, sizeof(h.build) - 1);
    memcpy(frame_at(&link->out, 0) + 1, &h, sizeof(h));
    put(link, 0, FRAME_HELLO, sizeof(h));
}

/* The ring is made when it is first needed: most ranks talk to few. */
static bool begin(struct tb_link *link)
{
    struct ring *r = &link->out;

    if (r->data)
        return true;
    r->data = tb_alloc_aligned(TB_LINE, link->port->ring);
    if (!r->data)
        return false;
    r->size = link->port->ring;
    r->gap = NOWHERE;
    put_hello(link);
    return true;
}

/* All is taken: from the start again, so that a link on which little is on its
 * way touches little memory. */
static void rewind(struct ring *r)
{
    if (r->taken == r->filled && r->head % r->size) {
        r->head = r->next = r->tail = next_lap(r, r->head);
        r->gap = NOWHERE;
    }
}

tb_err tb_tcp_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
                      struct tb_slot *out)
{
    struct ring *r = &link->out;
    uint64_t at;

    if (TB_UNLIKELY(link->lost || link->left)) {
        tb_tcp_doom(link, DOOM_LEFT);
        return TB_ERR_LOST;
    }
    if (TB_UNLIKELY(!begin(link)))
        return tb_fail(TB_ERR_NO_MEM, "no memory for a connection's packets");
    at = find_place(r, frame_bytes(max), RING_SPARE);
    if (TB_UNLIKELY(at == NOWHERE)) {
        link->starved = true;
        return TB_ERR_AGAIN;
    }
    out->data = frame_at(r, at) + 1;
    out->room = tb_round_up(max, 8);
    out->cookie = at << 1 | (uint64_t)(ch == TB_BULK);
    return TB_OK;
}

void tb_tcp_commit(struct tb_link *link, const struct tb_slot *slot,
                   size_t bytes)
{
    if (TB_UNLIKELY(!bytes))
        return;
    put(link, slot->cookie >> 1, slot->cookie & 1 ? FRAME_BULK : FRAME_CONTROL,
        bytes);
    if (link->blocked || link->fd < 0)
        return;
    tb_tcp_flush(link);
    /* Another thread may be asleep without an eye on this socket's room. */
    if (TB_UNLIKELY(link->blocked) && link->port->bell)
        tb_bell_ring(link->port->bell);
}

/* ------------------------------------------------------------------ writing */

/* What has not been written, in one piece or two: a lap ends at the gap, or
 * where the ring does. */
static int pieces(const struct ring *r, struct tb_span out[TB_SPANS_MOST])
{
    uint64_t lap = next_lap(r, r->next), end = lap;

    if (r->gap != NOWHERE && r->next < r->gap)
        end = r->gap;
    out[0].data = r->data + r->next % r->size;
    out[0].bytes = (size_t)(TB_MIN(end, r->head) - r->next);
    if (r->head <= lap)
        return 1;
    out[1] = (struct tb_span){r->data, (size_t)(r->head - lap)};
    return 2;
}

static void pass_written(struct ring *r, uint64_t bytes)
{
    uint64_t left = bytes;

    r->written += bytes;
    if (r->gap != NOWHERE && r->next < r->gap && r->next + left >= r->gap) {
        left -= r->gap - r->next;
        r->next = next_lap(r, r->gap);
    }
    r->next += left;
}

void tb_tcp_flush(struct tb_link *link)
{
    struct tb_span spans[TB_SPANS_MOST];
    struct ring *r = &link->out;

    link->blocked = false;
    while (r->written < r->filled && !link->deaf) {
        int n = pieces(r, spans);
        uint64_t left = r->filled - r->written;
        long done = tb_stream_gather(link->fd, spans, n);
        if (done < 0) { /* what was said before can still be read */
            link->deaf = true;
            return;
        }
        pass_written(r, (uint64_t)done);
        if ((uint64_t)done < left) {
            link->blocked = true;
            return;
        }
    }
}

static void put_short(struct tb_link *link, enum frame_kind kind)
{
    uint64_t at;

    if (link->deaf || link->fd < 0 || !begin(link))
        return;
    at = find_place(&link->out, sizeof(struct frame), 0);
    if (at == NOWHERE)
        return; /* told later: more than this is on its way */
    put(link, at, kind, 0);
    if (!link->blocked)
        tb_tcp_flush(link);
}

void tb_tcp_tell(struct tb_link *link)
{
    if (link->in.taken - link->in.told >= link->in.peer_ring / TELL_PARTS)
        put_short(link, FRAME_TAKEN);
}

void tb_tcp_say_bye(struct tb_link *link)
{
    put_short(link, FRAME_BYE);
}

/* -------------------------------------------------------------------- taken */

bool tb_tcp_taken(struct tb_link *link, uint64_t bytes)
{
    struct ring *r = &link->out;

    if (bytes < r->taken || bytes > r->written)
        return false;
    if (bytes == r->taken)
        return true;
    while (r->taken < bytes) {
        size_t step_by = frame_bytes(frame_at(r, r->tail)->bytes);
        r->taken += step_by;
        r->tail = step(r, r->tail, step_by);
        if (r->gap != NOWHERE && r->tail > r->gap)
            r->gap = NOWHERE;
    }
    if (link->starved) {
        link->starved = false;
        link->port->relief = true;
    }
    if (r->taken != bytes)
        return false;
    rewind(r);
    return true;
}

void tb_tcp_hand_back(struct tb_link *link)
{
    const struct tb_sink *up = link->port->up;
    struct ring *r = &link->out;

    while (r->taken < r->filled) {
        const struct frame *f = frame_at(r, r->tail);
        size_t bytes = frame_bytes(f->bytes);
        if (f->kind == FRAME_CONTROL || f->kind == FRAME_BULK)
            up->returned(up->ctx, link->peer,
                         f->kind == FRAME_BULK ? TB_BULK : TB_CONTROL, f + 1,
                         f->bytes);
        r->taken += bytes;
        r->tail = step(r, r->tail, bytes);
    }
}
