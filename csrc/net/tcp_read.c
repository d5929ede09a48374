/* SPDX-License-Identifier: MIT */
/* What is read from a socket. Nothing of it is believed unchecked. */
#include "net/tcp_port.h"

#include <stdio.h>

#define INBOX_BYTES (2 * FRAME_MOST)
#define POLL_BUDGET 64 /* packets a link and poll */
#define WHOLE_LEAST                                           \
    4096 /* a rest of a frame that is worth a read of its own \
          */

#define RING_MOST ((uint32_t)1 << 30)

/* A macro, as tb_fail is. */
#define broken(link, ...)                                     \
    (snprintf((link)->why, sizeof((link)->why), __VA_ARGS__), \
     tb_tcp_doom(link, DOOM_BROKEN), false)

/* -------------------------------------------------------------------- hello */

static bool greet(struct tb_link *link, const struct hello *from, size_t bytes)
{
    struct tb_port *port = link->port;
    struct hello h;

    if (bytes != sizeof(h))
        return broken(link, "its hello has %zu bytes, not %zu", bytes,
                      sizeof(h));
    memcpy(&h, from, sizeof(h));
    h.build[sizeof(h.build) - 1] = 0;
    if (h.magic != HELLO_MAGIC)
        return broken(link, "it speaks another protocol or byte order");
    if (strcmp(h.build, port->build) != 0)
        return broken(link,
                      "tbmpi %.40s runs there and %.40s here: install the "
                      "same one on all machines",
                      h.build, port->build);
    if (h.pointer_bytes != sizeof(void *) ||
        h.long_double_bytes != sizeof(long double))
        return broken(link,
                      "pointers have %u bytes there and long double %u: "
                      "all machines must be of one kind",
                      h.pointer_bytes, h.long_double_bytes);
    if (h.self != (uint32_t)link->peer || h.peer != (uint32_t)port->self ||
        h.endpoints != (uint32_t)port->endpoints)
        return broken(link, "it says it is rank %u of %u and looks for rank %u",
                      h.self, h.endpoints, h.peer);
    if (h.ring < TB_TCP_RING_LEAST || h.ring > RING_MOST)
        return broken(link, "its ring has %u bytes", h.ring);
    link->in.peer_ring = h.ring;
    link->in.greeted = true;
    return true;
}

/* ------------------------------------------------------------------- frames */

/* The frame at the inbox's start: 0 while it is not complete, SIZE_MAX when it
 * cannot be one. */
static size_t complete(struct tb_link *link, struct frame *f)
{
    struct inbox *in = &link->in;
    size_t have = in->to - in->from;

    if (have < sizeof(*f))
        return 0;
    memcpy(f, in->data + in->from, sizeof(*f));
    if (f->magic != FRAME_MAGIC || f->bytes > FRAME_MOST - sizeof(*f)) {
        (void)broken(link, "what it sends is no frame");
        return SIZE_MAX;
    }
    return have < frame_bytes(f->bytes) ? 0 : frame_bytes(f->bytes);
}

/* False: no peer that is in order sends that. */
static bool accept_frame(struct tb_link *link, const struct frame *f,
                         const void *packet)
{
    const struct tb_sink *up = link->port->up;
    bool data = f->kind == FRAME_CONTROL || f->kind == FRAME_BULK;

    if (!link->in.greeted || f->kind == FRAME_HELLO) {
        if (link->in.greeted || f->kind != FRAME_HELLO)
            return broken(link, "it does not begin with one hello");
        return greet(link, packet, f->bytes);
    }
    if (f->kind > FRAME_BYE || data != (f->bytes > 0) || link->left)
        return broken(link, "a frame of kind %u with %u bytes is none",
                      (unsigned)f->kind, (unsigned)f->bytes);
    if (!tb_tcp_taken(link, f->taken))
        return broken(link, "it has taken what was not sent");
    if (data)
        up->packet(up->ctx, link->peer,
                   f->kind == FRAME_BULK ? TB_BULK : TB_CONTROL, packet,
                   f->bytes);
    link->left = f->kind == FRAME_BYE;
    return true;
}

static void set_loaded(struct tb_link *link, bool loaded)
{
    if (link->in.loaded != loaded)
        link->port->loaded += loaded ? 1 : -1;
    link->in.loaded = loaded;
}

/* Delivers whole frames; the number of packets. */
static int take(struct tb_link *link)
{
    struct inbox *in = &link->in;
    struct frame f;
    size_t bytes;
    int n = 0;

    while ((bytes = complete(link, &f)) && !link->doom && n < POLL_BUDGET) {
        if (!accept_frame(link, &f, in->data + in->from + sizeof(f)))
            break;
        in->from += bytes;
        in->taken += bytes;
        n += f.kind == FRAME_CONTROL || f.kind == FRAME_BULK;
    }
    set_loaded(link, bytes && !link->doom);
    return n;
}

/* ------------------------------------------------------------------ reading */

/* How much to read. The rest of a long frame is read alone, so that the next
 * one begins at the start of the inbox and need not be moved. */
static size_t prepare(struct inbox *in)
{
    size_t have = in->to - in->from, whole = sizeof(struct frame);
    struct frame f;

    if (!have)
        in->from = in->to = 0;
    if (have >= sizeof(f)) {
        memcpy(&f, in->data + in->from, sizeof(f));
        whole = frame_bytes(f.bytes); /* which complete() has checked */
    }
    if (in->from + whole > INBOX_BYTES) {
        memmove(in->data, in->data + in->from, have);
        in->from = 0;
        in->to = have;
    }
    if (whole > have && whole - have >= WHOLE_LEAST)
        return whole - have;
    return INBOX_BYTES - in->to;
}

static void receive(struct tb_link *link)
{
    struct inbox *in = &link->in;
    long n;

    if (!in->data)
        in->data = tb_alloc_aligned(TB_LINE, INBOX_BYTES);
    if (!in->data) {
        (void)broken(link, "no memory for what it sends");
        return;
    }
    n = tb_stream_read(link->fd, in->data + in->to, prepare(in));
    if (n < 0)
        tb_tcp_doom(link, DOOM_ENDED);
    else
        in->to += (size_t)n;
}

int tb_tcp_read(struct tb_link *link, bool arrived)
{
    int n;

    if (!link->in.loaded && arrived)
        receive(link);
    if (!link->in.data)
        return 0;
    n = take(link);
    tb_tcp_tell(link);
    return n;
}
