/* SPDX-License-Identifier: MIT */
/*
 * slots: a reliable link made of unreliable SENDs. Pure: no clock but a `now`
 * that callers pass, no verbs, no sockets, no memory but its own tables.
 *
 * Words. A link has up to four cables, a cable one *lane* (queue pair) per
 * slot class. A *packet* has a number in its channel, the same however often
 * it is sent; a *transmission* is one SEND on one lane, numbered from 1 within
 * the lane's *epoch*. A lane is FIFO and loses transmissions but never swaps
 * two, so a receiver that sees a number knows the fate of all before it.
 *
 * Reports. Of each lane the receiver tells (high, map, open): the highest
 * transmission it knows the fate of, which of the last 64 up to there it took
 * over, and how many receives are posted now. A report is complete by itself:
 * a sender has at most 64 transmissions of unknown fate, so whichever report
 * arrives, in whatever order, says all there is to say up to its `high`; it is
 * cumulative acknowledgement and negative acknowledgement in one. Reports ride
 * in the header of every transmission, in whole transmissions of their own
 * when there is nothing else to send, and in answers to probes.
 *
 * Credit. The transmissions after `high` find the receives posted now. So a
 * sender may go up to high + open, and no SEND ever precedes its receive. That
 * needs no account of who consumed what: a lost SEND that used up no receive
 * leaves `open` as it was and moves `high` when the loss is seen; one that used
 * up a receive by arriving damaged moves both. It is right for a device that
 * holds an early SEND back and for one that drops it.
 *
 * Tails. What is lost at the end is seen by nobody. Its sender asks, over the
 * socket, and names the last transmission that left the device long ago
 * (`settled`); the receiver first takes what has arrived, then counts what is
 * missing up to there as lost. Should such a transmission turn up after all, it
 * is dropped as late, and for a moment one credit too many is out, which costs
 * one repair more at worst; and the settle time doubles as long as all is lost,
 * so that it grows beyond any delay.
 *
 * Order and duplicates are the packets' affair: a window of packet numbers a
 * channel; control packets that arrive early are held in their slots, if the
 * caller can spare these, else counted as lost.
 *
 * Epochs. When a lane fails both ends close it, tell each other a last report,
 * which decides the fate of everything sent, and open it anew with numbers
 * that start over. A number or report of a past epoch is recognised and
 * dropped.
 */
#ifndef TB_SLOTS_H
#define TB_SLOTS_H

#include "net/pool.h"
#include "net/transport.h"

#define TB_LANES_MOST (TB_CABLES_MOST * TB_CLASSES)
#define TB_LANE_WINDOW 64   /* transmissions of unknown fate; bits of a map */
#define TB_FLOW_WINDOW 1024 /* packets from the oldest not taken over */
#define TB_PARCEL_NONE UINT32_MAX

/* ------------------------------------------------------------- on the wire */

#define TB_REPORT_NONE 0xff

struct tb_report {
    uint8_t lane;  /* 3 * position of the cable in the link + class */
    uint8_t epoch; /* the lane's, its low byte */
    uint8_t open;
    uint8_t seen; /* arrivals in order, taken over or not; modulo 256 */
    uint32_t high;
    uint64_t map; /* bit i: transmission high - i was taken over */
};
_Static_assert(sizeof(struct tb_report) == 16, "no padding");

enum tb_header_kind {
    TB_HEADER_CONTROL = TB_CONTROL,
    TB_HEADER_BULK = TB_BULK,
    TB_HEADER_REPORTS /* the payload is an array of struct tb_report */
};

#define TB_HEADER_MAGIC 0x7442
#define TB_HEADER_REPORTS_RIDING 2

/* Before each payload. Little-endian, as all machines here are. */
struct tb_header {
    struct tb_seal seal;
    uint32_t epoch;
    uint32_t tx;
    uint32_t number; /* of the packet in its channel */
    uint16_t magic;
    uint8_t kind;
    uint8_t lane;
    struct tb_report riding[TB_HEADER_REPORTS_RIDING];
    uint32_t spare;
    uint32_t check; /* CRC32C of all before it */
};
_Static_assert(sizeof(struct tb_header) == TB_SLOT_HEAD, "a slot's head");

/* ------------------------------------------------------------------- state */

struct tb_lane {
    /* Fixed while the lane is open. */
    uint32_t epoch;
    bool open;          /* receives are posted here */
    bool ready;         /* and there */
    uint8_t depth;      /* receives posted here, at most */
    uint8_t peer_depth; /* there */
    uint8_t send_depth; /* SENDs posted and not completed, at most */
    uint8_t reserve;    /* credits that only reports may use */
    uint8_t frames;     /* of its class */
    uint8_t backoff;    /* settle time is doubled so often */
    bool moved;         /* since the last tick: something was learnt … */
    bool wanted;        /* … somebody found no room */
    bool urgent;        /* there is a loss to report */
    /* Sending: known <= sent, done <= sent; modulo 2^32. */
    uint32_t sent;     /* the last transmission posted */
    uint32_t done;     /* the last that completed here: its slot was read */
    uint32_t known;    /* the last of known fate */
    uint32_t limit;    /* how far credit goes */
    uint32_t lost_run; /* lost since the last that arrived */
    uint32_t carrying; /* packets in transmissions of unknown fate */
    uint32_t settling, settled;   /* `done` one and two settle times ago */
    uint32_t out[TB_LANE_WINDOW]; /* parcel of each, or TB_PARCEL_NONE */
    /* Receiving. */
    uint32_t high;
    uint32_t receives; /* posted now */
    uint64_t map;
    uint8_t seen, peer_seen; /* arrivals here, and those that the peer told */
    uint32_t told_high, told_limit; /* in the last report */
    uint32_t packets;               /* arrived since then */
    /* Times; 0: not running. */
    uint64_t owed_at, quiet_at, probed_at, settle_at;
};

/* A packet that is the link's. */
struct tb_parcel {
    uint32_t slot;
    uint32_t number;
    uint32_t born; /* order of acceptance */
    uint32_t next; /* in a queue or the free list */
    uint16_t tries;
    uint8_t posts; /* SENDs of it that have not completed */
    uint8_t channel;
    uint8_t class;
    bool live;  /* in use */
    bool acked; /* only posts keep it */
    bool lent;  /* the caller's mark */
};

struct tb_parcel_queue {
    uint32_t first, last;
};

/* Numbers of one channel. */
struct tb_numbers {
    uint32_t base;                      /* all below are taken over */
    uint32_t next;                      /* sender: the next one to give out */
    uint64_t bits[TB_FLOW_WINDOW / 64]; /* from base on: taken over? */
};

struct tb_flow {
    int lanes;
    struct tb_lane lane[TB_LANES_MOST];
    uint32_t owing; /* lanes with something to report, a bit each */
    int last_told;  /* so that all get their turn */
    bool hurry;     /* reports are due whatever the time */
    uint32_t load[TB_CABLES_MOST]; /* frames on their way */
    uint32_t born;
    uint32_t live;             /* parcels that are not acked */
    struct tb_parcel *parcels; /* TB_FLOW_WINDOW */
    struct tb_parcel_queue free, waiting[TB_CLASSES];
    struct tb_numbers out[2], in[2]; /* by channel */
    uint32_t *held; /* early control packets: slot by number, or NONE */
    uint32_t holding;
    /* Called once for each packet that the neighbour has taken over and whose
     * SENDs have completed: its slot is free. */
    void (*done)(void *ctx, const struct tb_parcel *parcel);
    void *ctx;
    struct {
        uint64_t resent, lost, damaged, duplicates, stale;
    } count;
};

/* `cables` of them, all lanes closed. TB_ERR_NO_MEM, and nothing is left. */
tb_err tb_flow_init(struct tb_flow *f, int cables,
                    void (*done)(void *ctx, const struct tb_parcel *parcel),
                    void *ctx);
void tb_flow_fini(struct tb_flow *f);

/* ----------------------------------------------------------- a lane's life */

/* Starts an epoch: `depth` receives are posted here, so the peer may be told
 * and will send. Depths in slots, at most TB_LANE_WINDOW. */
void tb_flow_open(struct tb_flow *f, int lane, uint32_t epoch, int depth,
                  int send_depth);

/* The peer has said that `peer_depth` receives are posted there: this end may
 * send. */
void tb_flow_admit(struct tb_flow *f, int lane, int peer_depth);

/* The lane takes and sends no more; its SENDs count as completed. What was
 * posted to receive is the caller's again. */
void tb_flow_close(struct tb_flow *f, int lane);

/* The peer has closed the lane too, and this is its last report; NULL: none is
 * to be had. What it did not take over waits to be sent again. */
void tb_flow_settle(struct tb_flow *f, int lane, const struct tb_report *last);

/* ----------------------------------------------------------------- sending */

/* How many more transmissions the lane takes now; of packets, without the
 * credits kept for reports. 0 or less: none. */
static inline int tb_lane_space(const struct tb_lane *l)
{
    uint32_t credit = l->limit - l->sent;
    uint32_t window = TB_LANE_WINDOW - (l->sent - l->known);
    uint32_t queue = l->send_depth - (l->sent - l->done);

    return l->ready ? (int)TB_MIN(TB_MIN(credit, window), queue) : 0;
}

static inline int tb_lane_room(const struct tb_lane *l)
{
    return tb_lane_space(l) - l->reserve;
}

/* The open lane of a class, with room, whose cable is least busy; -1: none. */
int tb_flow_choose(struct tb_flow *f, enum tb_class class);

/* True when one more packet may be accepted. */
static inline bool tb_flow_accepts(const struct tb_flow *f, enum tb_channel ch)
{
    const struct tb_numbers *n = &f->out[ch];

    return f->free.first != TB_PARCEL_NONE &&
           n->next - n->base < TB_FLOW_WINDOW;
}

/* Accepts a packet: gives it a number. Needs tb_flow_accepts. It is in no
 * queue: post it, or tb_flow_wait. */
uint32_t tb_flow_add(struct tb_flow *f, enum tb_channel ch, enum tb_class class,
                     uint32_t slot, bool lent);

/* Puts it into the queue of its class, behind the others. */
void tb_flow_wait(struct tb_flow *f, uint32_t parcel);

/* Takes the first out of a queue; TB_PARCEL_NONE: empty. */
uint32_t tb_flow_next(struct tb_flow *f, enum tb_class class);

static inline bool tb_flow_waits(const struct tb_flow *f, enum tb_class class)
{
    return f->waiting[class].first != TB_PARCEL_NONE;
}

/* The packet goes out on the lane, which has room: fills what the link owns of
 * the header, reports included. */
void tb_flow_post(struct tb_flow *f, int lane, uint32_t parcel,
                  struct tb_header *header);

/* A transmission of reports alone goes out; the lane needs space for
 * it. Fills header, payload and seal; returns the payload's length. */
size_t tb_flow_post_reports(struct tb_flow *f, int lane,
                            struct tb_header *header);

/* Undoes the last tb_flow_post or _post_reports: the device refused it. */
void tb_flow_unpost(struct tb_flow *f, int lane);

/* The oldest SEND of the lane has completed. */
void tb_flow_completed(struct tb_flow *f, int lane);

/* Takes in a report. False: it cannot be (nothing was changed). */
bool tb_flow_learn(struct tb_flow *f, const struct tb_report *report);

/* --------------------------------------------------------------- receiving */

static inline void tb_flow_posted(struct tb_flow *f, int lane)
{
    f->lane[lane].receives++;
    f->owing |= 1u << lane;
}

enum tb_arrival {
    TB_ARRIVAL_TAKE, /* a packet: hand it up, then ask tb_flow_turn */
    TB_ARRIVAL_HOLD, /* an early one: keep its slot for tb_flow_turn */
    TB_ARRIVAL_DROP  /* nothing for the caller; its slot may be reused */
};

/* The header of an arrival of `bytes` bytes is in order: checksum, magic,
 * kind, length. */
bool tb_header_intact(const struct tb_header *header, size_t bytes);

/*
 * A receive has completed on the lane, in `slot`. `intact`: header and payload
 * are in order; if not, nothing in them is looked at. `may_hold`: a slot can be
 * spared. What the header reports is learnt.
 */
enum tb_arrival tb_flow_arrive(struct tb_flow *f, int lane,
                               const struct tb_header *header, bool intact,
                               uint32_t slot, bool may_hold);

/* The slot of a held packet whose turn it is, or TB_SLOT_NONE. */
uint32_t tb_flow_turn(struct tb_flow *f);

/* The slot of the oldest held packet, whether it is its turn or not; for a
 * link that is lost. TB_SLOT_NONE: there is none left. */
uint32_t tb_flow_release(struct tb_flow *f);

/* ------------------------------------------------------------------ timers */

/* To be called now and then, at least every few milliseconds. */
void tb_flow_tick(struct tb_flow *f, uint64_t now, uint64_t settle);

/* Reports are due in a transmission of their own: half a window of news or
 * credit is untold, or a loss, or something has been for `delay`. */
bool tb_flow_reports_due(struct tb_flow *f, uint64_t now, uint64_t delay);

/* The lane should ask by socket, having heard nothing new for `patience` while
 * it waits: the number to name in the probe, in *settled. */
bool tb_flow_probe_due(struct tb_flow *f, int lane, uint64_t now,
                       uint64_t patience, uint32_t *settled);

/* The other end's probe, after everything that has arrived was taken in. False:
 * of another epoch, or impossible. Then answer with tb_flow_report. */
bool tb_flow_probed(struct tb_flow *f, int lane, uint32_t epoch,
                    uint32_t settled);

/* The lane's present report. */
void tb_flow_report(struct tb_flow *f, int lane, struct tb_report *out);

/* --------------------------------------------------------------------- end */

/* Takes out the oldest packet that the neighbour has not taken over; false:
 * there is none. All lanes must be closed and settled. */
bool tb_flow_reclaim(struct tb_flow *f, struct tb_parcel *out);

/* True when the neighbour has taken over everything. */
static inline bool tb_flow_idle(const struct tb_flow *f)
{
    return f->live == 0;
}

#endif
