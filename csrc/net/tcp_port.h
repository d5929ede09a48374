/* SPDX-License-Identifier: MIT */
/*
 * The tcp transport's own structures.
 *
 *   tcp.c        the port: opening, looking at sockets, sleeping, the dead
 *   tcp_write.c  the ring of a link, and what is written from it
 *   tcp_read.c   what is read, and what is believed of it
 *
 * The stream of each direction is a sequence of frames: a head and a packet,
 * filled up to a multiple of 8 bytes. The first is a hello, the last one of an
 * orderly end a goodbye. Each head says how many bytes of the other direction's
 * stream its writer has taken; where nothing else is to be said for long, a
 * frame of its own does.
 */
#ifndef TB_TCP_PORT_H
#define TB_TCP_PORT_H

#include "net/tcp.h"

#include <poll.h>

#define FRAME_MOST ((size_t)64 << 10)
#define FRAMES_A_RING 8 /* at least: so that a reader may tell late */
/* Kept free for frames that say what has been taken: without them two rings
 * that are both full would wait for each other. A reader says so four times a
 * ring, and what it says last is on its way back with the next frame. */
#define RING_SPARE (16 * sizeof(struct frame))
#define TELL_PARTS 4
#define NOWHERE UINT64_MAX

enum frame_kind {
    FRAME_HELLO,
    FRAME_CONTROL,
    FRAME_BULK,
    FRAME_TAKEN,
    FRAME_BYE
};

#define FRAME_MAGIC 0x5442

/* Little-endian, as everything on the wire. */
struct frame {
    uint32_t bytes; /* of the packet, without filling */
    uint16_t kind;
    uint16_t magic;
    uint64_t taken; /* of the other direction, since its start */
};
_Static_assert(sizeof(struct frame) == 16, "what follows is aligned to 8");

#define HELLO_MAGIC 0x31504354504d4254 /* "TBMPTCP1", little-endian */
#define HELLO_NAME_BYTES 64

struct hello {
    uint64_t magic;
    uint32_t self, peer, endpoints;
    uint32_t ring; /* the writer's */
    uint16_t pointer_bytes, long_double_bytes;
    uint32_t reserved;
    char build[HELLO_NAME_BYTES];
};

/* Bytes of the stream since the start, and where they lie: places grow with
 * the bytes and with what is left unused at the ring's end. */
struct ring {
    char *data; /* NULL: nothing has been sent yet */
    size_t size;
    uint64_t head, next, tail; /* places: to fill, to write, to be taken */
    uint64_t filled, written, taken; /* bytes up to each */
    uint64_t gap; /* the place where the end is left unused, or NOWHERE */
};

struct inbox {
    char *data; /* NULL: nothing has come yet */
    size_t from, to;
    uint64_t taken, told; /* bytes of the stream */
    uint32_t peer_ring;
    bool greeted; /* the hello was right */
    bool loaded;  /* a whole frame is in `data` */
};

/* Why a link is to be reported lost. */
enum doom { DOOM_NONE, DOOM_ENDED, DOOM_SILENT, DOOM_LEFT, DOOM_BROKEN };

struct tb_link {
    struct tb_port *port;
    int fd; /* -1: there is none, or no more */
    int peer;
    struct ring out;
    struct inbox in;
    bool blocked; /* the socket takes no more now */
    bool starved; /* reserve said AGAIN */
    bool deaf;    /* what is written goes nowhere */
    bool left;    /* the peer has said goodbye */
    bool lost;
    enum doom doom;
    uint64_t bury_at; /* with a doom: when it is reported */
    char why[160];    /* with DOOM_BROKEN */
};

struct tb_port {
    const struct tb_sink *up;
    struct tb_bell *bell;
    const char *const *host;
    const char *build;
    int self, endpoints, silence_s;
    size_t ring, frame_most;
    unsigned stride, rest; /* polls between two looks; left until the next */
    int links, ear;
    bool relief; /* a starved link has room: news for who sleeps */
    int doomed, loaded;
    uint64_t mourn_ns, bury_at; /* when the next of the doomed is due */
    struct tb_link *link;  /* those with a socket, in the order of endpoints */
    struct tb_link **of;   /* by endpoint; NULL: none */
    struct pollfd *look;   /* by link, while polling */
    struct pollfd *asleep; /* the same and the ear, while sleeping */
};

static inline size_t frame_bytes(size_t packet)
{
    return sizeof(struct frame) + tb_round_up(packet, 8);
}

/* The link is lost, or after a goodbye only over: a later poll sees to it. */
void tb_tcp_doom(struct tb_link *link, enum doom why);

/* As in struct tb_transport. */
tb_err tb_tcp_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
                      struct tb_slot *out);
void tb_tcp_commit(struct tb_link *link, const struct tb_slot *slot,
                   size_t bytes);

/* Writes what the socket takes. */
void tb_tcp_flush(struct tb_link *link);
/* Says what has been taken, if that is worth a frame. */
void tb_tcp_tell(struct tb_link *link);
void tb_tcp_say_bye(struct tb_link *link);
/* The peer has taken so much. False: that cannot be. */
bool tb_tcp_taken(struct tb_link *link, uint64_t bytes);
/* Hands back what the peer has not taken, oldest first. */
void tb_tcp_hand_back(struct tb_link *link);

/* Reads what has come, if `arrived`, and delivers a bounded number of packets;
 * returns how many. */
int tb_tcp_read(struct tb_link *link, bool arrived);

#endif
