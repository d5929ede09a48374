/* SPDX-License-Identifier: MIT */
/*
 * The rdma transport's own structures, shared by its files only.
 *
 *   rdma.c         opening, the calls of the contract and of rdma.h
 *   rdma_path.c    the data path: packets into slots, slots onto lanes, back
 *   rdma_cable.c   a cable's life: hello, queue pairs, epochs, death
 *   rdma_watch.c   timers and sockets: reports, probes, who is alive
 *
 * Verbs objects and flows change only in poll, outside upcalls: an upcall that
 * meets a failure marks the lane `broken` and sets the port's alarm.
 */
#ifndef TB_RDMA_PORT_H
#define TB_RDMA_PORT_H

#include "base/config.h"
#include "net/post.h"
#include "net/rdma.h"
#include "net/slots.h"
#include "net/verbs.h"

#define TB_WHY_BYTES 512
#define TB_NAME_BYTES 64
#define TB_WC_BATCH 16
#define TB_REPORTS_MOST 8 /* SENDs of reports under way on a lane */

/* ---------------------------------------------------------------- messages */

enum tb_wire_kind { /* on wires, and HELLO to PONG on management sockets too */
                    TB_WIRE_HELLO = 1,
                    TB_WIRE_PING,
                    TB_WIRE_PONG,
                    TB_WIRE_CARD,
                    TB_WIRE_CLOSED,
                    TB_WIRE_READY,
                    TB_WIRE_PROBE,
                    TB_WIRE_REPORT,
                    TB_MGMT_DOWN, /* on management sockets only */
                    TB_MGMT_BYE,
                    TB_MGMT_TELL
};

#define TB_HELLO_MAGIC 0x31414d4452504254 /* "TBPRDMA1" */
#define TB_HELLO_VERSION 1
#define TB_HELLO_ORDER 0x01020304

struct tb_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t features; /* bits that both must understand: none yet */
    uint32_t order;
    uint32_t page, frame;
    uint16_t pointer, long_double;
    int32_t cable; /* -1 on a management socket */
    int32_t endpoint;
    char build[TB_NAME_BYTES];
    char name[TB_NAME_BYTES];
};

struct tb_ping {
    uint64_t stamp; /* comes back as it was */
};

/* The queue pairs of a cable's end, by class. */
struct tb_card {
    struct tb_qp_address qp[TB_CLASSES];
};

/* "My queue pair is in RESET, ready for `epoch`; this is the last that I have
 * received on it." */
struct tb_closed {
    uint32_t class;
    uint32_t epoch;
    struct tb_report last;
};

/* "It is up, and `depth` receives are posted." */
struct tb_ready {
    uint32_t class;
    uint32_t epoch;
    uint32_t depth;
};

struct tb_probe {
    uint32_t class;
    uint32_t epoch;
    uint32_t settled;
};

/* "I have closed this cable for good; this is the last I have received." */
struct tb_down {
    int32_t cable;
    uint32_t farewell; /* closed in order, not broken */
    struct tb_report last[TB_CLASSES];
    char why[TB_WHY_BYTES];
};

/* ------------------------------------------------------------------- state */

enum tb_lane_state {
    TB_LANE_NONE,  /* no queue pair yet */
    TB_LANE_RESET, /* waiting for the peer to be in RESET too */
    TB_LANE_POSTED /* up, receives posted; may send once the peer says so */
};

struct tb_rdma_lane {
    struct tb_qp qp;
    struct tb_qp_address self, peer;
    enum tb_lane_state state;
    uint32_t epoch;                    /* in force, or being agreed on */
    bool broken;                       /* a post or a completion failed */
    const char *why;                   /* it is */
    bool peer_reset;                   /* the peer is ready for `epoch` */
    bool peer_ready;                   /* it has posted its receives */
    int depth, send_depth, peer_depth; /* slots */
    int damaged;                       /* arrivals in a row */
    /* Slots posted to receive, oldest first. */
    uint32_t slot[TB_LANE_WINDOW];
    uint32_t first, posted;
    /* Slots of the SENDs that carry reports alone, until they complete. */
    uint32_t report[TB_REPORTS_MOST];
    int reports;
    /* Completions that were polled and not handled yet. */
    struct tb_ibv_wc wc[TB_WC_BATCH];
    int wc_next, wc_n;
    /* SENDs that do not leave: what was done, and since when. */
    uint32_t stuck_done;
    uint64_t stuck_at;
};

struct tb_rdma_cable {
    int id;
    int position; /* in the link; equal at both ends */
    char device_name[TB_NAME_BYTES];
    uint8_t gid[16], peer_gid[16];
    struct tb_port *port;
    struct tb_link *link;
    struct tb_post wire;
    enum tb_cable_state state;
    bool greeted;   /* the peer's hello was right */
    bool opened;    /* verbs objects exist */
    bool has_card;  /* the peer's */
    bool told_down; /* its last reports have come */
    bool settled;   /* dead, and the fate of all it carried is known */
    bool heard;     /* a receive completed since the last look */
    struct tb_card peer_card;
    struct tb_report last[TB_CLASSES]; /* the peer's, with told_down */
    struct tb_device device;
    struct tb_regions regions;
    struct tb_rdma_lane lane[TB_CLASSES];
    int epochs;         /* since the minute began */
    uint64_t minute_at; /* when it did */
    /* Liveness: 0, not running. */
    uint64_t asked_at; /* the oldest ping without an answer */
    uint64_t pinged_at, heard_at, ended_at;
    uint64_t knocked_at; /* a SEND was tried, since the wire is silent */
    uint64_t hole_at;    /* nothing has arrived at the other end since */
    char why[TB_WHY_BYTES];
};

struct tb_link {
    struct tb_port *port;
    int peer; /* endpoint */
    char name[TB_NAME_BYTES];
    struct tb_rdma_peer *host;
    struct tb_rdma_cable *cables[TB_CABLES_MOST];
    int n;
    struct tb_rdma_cable *last_dead; /* whose death ends the link */
    struct tb_flow flow;
    bool lost;
    bool starved;               /* reserve said AGAIN … */
    enum tb_channel starved_ch; /* … for a packet like this */
    enum tb_class starved_class;
    uint64_t reports_late_at; /* due since, with no credit to send them */
    uint64_t rest_until;      /* for packets sent in vain */
    uint64_t hopeless_at;     /* when to look next for a hopeless packet … */
    uint32_t hopeless_born;   /* … which was the oldest the last time … */
    uint32_t hopeless_tries;  /* … after so many tries */
};

/* Another machine, over the management network. */
struct tb_rdma_peer {
    struct tb_port *port;
    int peer; /* endpoint */
    char name[TB_NAME_BYTES];
    struct tb_post post;
    struct tb_link *link; /* NULL: no cable leads there */
    bool greeted, gone, left;
    bool silent; /* told as such */
    uint64_t asked_at, pinged_at, heard_at;
    uint64_t answered; /* stamp of the last ping answered: when it was sent */
};

struct tb_port {
    const struct tb_sink *up;
    struct tb_rdma_sink more;
    const struct tb_config *config;
    struct tb_verbs *verbs;
    struct tb_regpool *pool;
    int self;
    char name[TB_NAME_BYTES], build[TB_NAME_BYTES];
    struct tb_rdma_cable *cables;
    int n_cables;
    struct tb_link *links;
    int n_links;
    struct tb_rdma_peer *peers;
    int n_peers;
    bool started; /* every cable was greeted or is dead: verbs may be touched */
    bool closing; /* nothing is handed up any more */
    bool bidden;  /* farewell was said */
    bool hungry;  /* a lane lacks receives for want of slots */
    bool alarm;   /* a lane is broken */
    bool busy;    /* packets went by since the last look */
    bool hasty;   /* queue pairs are being agreed on */
    /* The slot of the packet that is being handed up. */
    uint32_t current;
    bool kept;
    uint32_t spare[TB_CLASSES]; /* slots that packets to send leave free */
    struct tb_post relay; /* to whoever passes on the wires; fd -1: nobody */
    uint64_t relay_asked_at, relay_pinged_at;
    uint64_t relay_late_at; /* when it was last seen not to answer */
    uint32_t polls;
    uint64_t now; /* when the clock was read last */
    uint64_t watch_at, liveness_at, idle_since;
    struct tb_rdma_counts count;
};

static inline struct tb_rdma_lane *tb_lane_of(struct tb_rdma_cable *c,
                                              enum tb_class class)
{
    return &c->lane[class];
}

static inline int tb_lane_index(const struct tb_rdma_cable *c,
                                enum tb_class class)
{
    return c->position * TB_CLASSES + (int)class;
}

/* ------------------------------------------------------------- rdma_path.c */

/* These four as in struct tb_transport. */
tb_err tb_rdma_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
                       struct tb_slot *out);
void tb_rdma_commit(struct tb_link *link, const struct tb_slot *slot,
                    size_t bytes);
int tb_rdma_poll(struct tb_port *port);
bool tb_rdma_pending(struct tb_port *port);

/* The lane has failed; the next poll mends it. `why` is a constant. */
void tb_rdma_break(struct tb_rdma_cable *c, enum tb_class class,
                   const char *why);

/* A flow's `done`: the slot is free again. */
void tb_rdma_done(void *link, const struct tb_parcel *parcel);

/* Posts receives until `depth` are, or no slot is free. */
void tb_rdma_top_up(struct tb_rdma_cable *c, enum tb_class class);

/* Takes in what has completed on a lane; returns packets handed up. */
int tb_rdma_drain(struct tb_rdma_cable *c, enum tb_class class);

/* Hands the packet in `slot` up. */
void tb_rdma_deliver(struct tb_link *link, uint32_t slot);

/* Sends a transmission of reports alone; false: no credit for it. */
bool tb_rdma_report_on(struct tb_rdma_cable *c);

/* ------------------------------------------------------------ rdma_cable.c */

/* Says hello on every socket. */
void tb_rdma_greet(struct tb_port *port);

/* Opens the verbs of all cables, once every peer has answered. */
void tb_rdma_start(struct tb_port *port);

/* Starts a new epoch on a lane that failed, or drops the cable. */
void tb_rdma_mend(struct tb_rdma_cable *c, enum tb_class class);

/* Closes a cable for good, gives back what it held, and tells the peer, unless
 * that one has gone. The text goes to people. */
void tb_rdma_kill(struct tb_rdma_cable *c, bool farewell, const char *fmt, ...)
    TB_PRINTF(3, 4);

/* The process at the other end has gone: no cable to it is of use. */
void tb_rdma_bury(struct tb_rdma_peer *h, const char *why);

/* A link whose cables are all dead and settled is lost, with `why`. */
void tb_rdma_end_link(struct tb_link *link, tb_err why);

/* Messages about a cable's life; what does not fit is ignored or kills it. */
void tb_rdma_on_hello(struct tb_rdma_cable *c, struct tb_rdma_peer *h,
                      const void *data, size_t bytes);
void tb_rdma_on_card(struct tb_rdma_cable *c, const void *data, size_t bytes);
void tb_rdma_on_closed(struct tb_rdma_cable *c, const void *data, size_t bytes);
void tb_rdma_on_ready(struct tb_rdma_cable *c, const void *data, size_t bytes);
void tb_rdma_on_down(struct tb_rdma_peer *h, const void *data, size_t bytes);

/* ------------------------------------------------------------ rdma_watch.c */

/* Sockets and timers; does what is due. */
void tb_rdma_watch(struct tb_port *port);

#endif
