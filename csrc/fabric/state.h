/* SPDX-License-Identifier: MIT */
/*
 * The state file of a fabric, as all processes map it, and its settings.
 *
 * Who writes what. Ownership (which process holds which PD, CQ, QP, MR) and
 * everything a fault changes is written under the control lock. The words of a
 * queue pair are written by the process that owns it and read by the owner of
 * the queue pair at the other end of the cable; there is no other data path,
 * so no lock is held, and none is lost, when a process is killed.
 *
 * The control lock and the proof of life are POSIX record locks on the file:
 * the kernel releases them at the end of the process, however it ends.
 */
#ifndef TB_FABRIC_STATE_H
#define TB_FABRIC_STATE_H

#include "base/base.h"
#include "net/verbs_abi.h"

#include <sys/types.h>

#define FAB_HOSTS 64
#define FAB_CABLES 256
#define FAB_DEVICES 512 /* a queue pair's number has 9 bits for its device */
#define FAB_PROCS 1024
#define FAB_PDS 16
#define FAB_CQS 16
#define FAB_QPS 16
#define FAB_MRS 1100
#define FAB_NAME 32
#define FAB_MESSAGES 4096 /* in flight per queue pair and direction */
#define FAB_RING (((size_t)16 << 20) + 4 * TB_PAGE) /* the deepest queue */
#define FAB_PULLED_AT 4096 /* offset of `pulled`: a promise to others */

/* --------------------------------------------------------------- settings */

/*
 * Name, kind, default, words, help. Kinds: COUNT (a number), TIME (suffix us,
 * ms, s; kept in ns), RATE (GB/s; kept in ns per 2^32 bytes), SHARE (of one, or
 * with %; kept in 2^-32), WORD (one of the words; kept as its index).
 */
#define FAB_SWITCHES(X)                                                       \
    X(latency, TIME, "5us", "",                                               \
      "from the end of a SEND on the wire to its arrival")                    \
    X(rate, RATE, "8.9", "",                                                  \
      "GB/s of a cable in each direction; 0: no wire time")                   \
    X(loss, SHARE, "0", "", "frames lost")                                    \
    X(corrupt, SHARE, "0", "", "frames with a wrong bit")                     \
    X(delays, SHARE, "0", "", "messages that are late by `delay`")            \
    X(delay, TIME, "200us", "", "how late")                                   \
    X(lost, WORD, "vanish", "vanish|fail",                                    \
      "a lost message leaves its RECV posted, or fails it")                   \
    X(seed, COUNT, "1", "", "of loss, corruption and delays")                 \
    X(send_read, WORD, "late", "late|post",                                   \
      "a SEND's buffer is read when it completes, or when it is posted")      \
    X(scribble, WORD, "frames", "off|frames|all",                             \
      "a posted RECV's buffer is overwritten: not, at each frame's start, "   \
      "whole")                                                                \
    X(credit, WORD, "hold", "hold|drop",                                      \
      "a SEND without RECV waits for it, or is lost as on Soft-RoCE")         \
    X(mismatch, WORD, "receive", "receive|queue",                             \
      "unequal frame counts fail that RECV, or the queue pair")               \
    X(overpost, WORD, "len_error", "len_error|corrupt|refuse",                \
      "more frames posted than granted: the oldest fails, the oldest takes "  \
      "the newest one's buffer, or post answers -12")                         \
    X(recv_before_rts, WORD, "refuse", "refuse|accept",                       \
      "receives posted before the state RTS")                                 \
    X(rdma_write, WORD, "refuse", "refuse|swallow",                           \
      "an RDMA write is refused, or completes and nothing lands")             \
    X(sge, WORD, "refuse", "refuse|split",                                    \
      "more than one SGE is refused, or each is a message of its own")        \
    X(depth, WORD, "round", "round|exact|half",                               \
      "granted queue depth: 1023, 2047 or 4095; as asked; half of it")        \
    X(qp_max, COUNT, "10", "", "queue pairs a device gives to all processes") \
    X(pd_max, COUNT, "11", "", "protection domains of a device")              \
    X(cq_max, COUNT, "11", "", "completion queues of a device")               \
    X(mr_max, COUNT, "100", "", "memory regions of a device or domain")       \
    X(mr_scope, WORD, "device", "device|pd", "what mr_max counts")            \
    X(mr_access, WORD, "any", "any|wide|local",                               \
      "registration takes any access flags, wants remote read and write "     \
      "too, or wants local write alone")                                      \
    X(mr_4g, WORD, "alias", "alias|refuse|ignore",                            \
      "a region across a 4 GiB line: what lies beyond is misplaced, it is "   \
      "refused, it works")                                                    \
    X(gid_index, COUNT, "1", "",                                              \
      "where a device's IPv4 GID lies in its table")                          \
    X(neighbour, WORD, "known", "known|empty",                                \
      "with an empty neighbour cache RTR answers 60")                         \
    X(rtr_errno, COUNT, "0", "", "what RTR answers; 0: works")                \
    X(leak, WORD, "off", "off|on",                                            \
      "what a killed process held is never returned")                         \
    X(leak_errno, COUNT, "96", "",                                            \
      "what RTR answers on a device with leaks: 96, 16 or 14")                \
    X(present, WORD, "thunderbolt", "thunderbolt|ethernet",                   \
      "link layer and transport type shown, for tools that know only theirs") \
    X(errno, WORD, "darwin", "darwin|native",                                 \
      "error numbers as macOS has them, or as this system has them")

enum fab_switch {
#define X(name, kind, def, words, help) FAB_SW_##name,
    FAB_SWITCHES(X)
#undef X
        FAB_SW_LIMIT
};
#define FAB_WIRE_SWITCHES                              \
    (FAB_SW_delay + 1) /* the first few: per cable too \
                        */

enum { FAB_LOST_VANISH, FAB_LOST_FAIL };
enum { FAB_READ_LATE, FAB_READ_POST };
enum { FAB_SCRIBBLE_OFF, FAB_SCRIBBLE_FRAMES, FAB_SCRIBBLE_ALL };
enum { FAB_CREDIT_HOLD, FAB_CREDIT_DROP };
enum { FAB_MISMATCH_RECEIVE, FAB_MISMATCH_QUEUE };
enum { FAB_OVERPOST_LEN_ERROR, FAB_OVERPOST_CORRUPT, FAB_OVERPOST_REFUSE };
enum { FAB_EARLY_REFUSE, FAB_EARLY_ACCEPT };
enum { FAB_WRITE_REFUSE, FAB_WRITE_SWALLOW };
enum { FAB_SGE_REFUSE, FAB_SGE_SPLIT };
enum { FAB_DEPTH_ROUND, FAB_DEPTH_EXACT, FAB_DEPTH_HALF };
enum { FAB_SCOPE_DEVICE, FAB_SCOPE_PD };
enum { FAB_ACCESS_ANY, FAB_ACCESS_WIDE, FAB_ACCESS_LOCAL };
enum { FAB_4G_ALIAS, FAB_4G_REFUSE, FAB_4G_IGNORE };
enum { FAB_NEIGHBOUR_KNOWN, FAB_NEIGHBOUR_EMPTY };
enum { FAB_PRESENT_THUNDERBOLT, FAB_PRESENT_ETHERNET };
enum { FAB_ERRNO_DARWIN, FAB_ERRNO_NATIVE };

/* ------------------------------------------------------------- the file */

enum fab_pull { FAB_PULL_SILENT, FAB_PULL_SEGV };

struct fab_host {
    char name[FAB_NAME]; /* "": there is none of this number */
};

struct fab_cable {
    _Alignas(TB_LINE) _Atomic uint64_t wire[FAB_WIRE_SWITCHES];
    _Atomic uint32_t plugs; /* counts pulls: older connections are dead */
    _Atomic uint32_t mode;  /* of the last pull */
    uint32_t device[2];
};

/* A process that has opened a device. Its slot number, plus 1, stands beside
 * all that it holds. */
struct fab_proc {
    _Atomic uint32_t pid; /* 0: free */
    _Atomic uint32_t dead;
    _Atomic uint64_t hosts; /* a bit for each whose devices it has opened */
};

struct fab_tally {
    _Atomic uint64_t sends, frames, bytes, lost, corrupted, delayed;
};

/* One message on its way; written by the sender, published by `tail`. */
struct fab_message {
    _Alignas(64) uint64_t begin; /* its first byte arrives */
    uint64_t due;                /* its last */
    uint32_t at;                 /* in the ring */
    uint32_t bytes;
    uint32_t tx_epoch;
    uint32_t rx_epoch;
    uint32_t flags; /* FAB_LOST, FAB_CORRUPT */
    uint32_t spoil; /* FAB_CORRUPT: which bit, modulo */
};
#define FAB_LOST 1u
#define FAB_CORRUPT 2u

/*
 * A queue pair. An epoch counts connections: tx_epoch with each arrival at
 * RTS, rx_epoch with each leaving of RESET; neither ever goes back, also when
 * the slot changes hands. So a message tells whether it was meant for the
 * receives that are posted now.
 */
struct fab_qp {
    _Alignas(TB_LINE) _Atomic uint32_t owner; /* 0: free */
    _Atomic uint32_t number;
    _Atomic uint32_t dest; /* number of the queue pair it is connected to */
    _Atomic uint32_t state;
    _Atomic uint32_t depth_send, depth_recv;
    uint32_t births;

    _Alignas(TB_LINE) _Atomic uint32_t tx_epoch;
    _Atomic uint64_t tail; /* messages published in this epoch */

    _Alignas(TB_LINE) _Atomic uint32_t rx_epoch;
    _Atomic uint32_t taken_of; /* the peer's tx_epoch that `taken` is about */
    _Atomic uint64_t taken;    /* its messages that were read, or dropped */
    _Atomic uint64_t posted;   /* receives, in this rx_epoch */
    _Atomic uint64_t matched;  /* of those, how many a message has used */

    _Alignas(TB_LINE) struct fab_tally tally;
};

struct fab_device {
    char name[FAB_NAME];
    uint32_t host;
    uint32_t cable;
    uint32_t peer; /* device at the other end */
    uint32_t lid;
    _Atomic uint32_t up;        /* the port, when the cable is plugged */
    _Atomic uint32_t ip;        /* network byte order; 0: none */
    _Atomic uint32_t gid_index; /* where the IPv4 GID lies */
    _Atomic uint32_t pd[FAB_PDS];
    _Atomic uint32_t cq[FAB_CQS];
    _Atomic uint32_t mr[FAB_MRS];
    _Atomic uint32_t mr_pd[FAB_MRS];
    struct fab_tally gone; /* of queue pairs destroyed */
    /* When the wire is free for each queue pair's next message. */
    _Alignas(TB_LINE) _Atomic uint64_t busy[FAB_QPS];
    struct fab_qp qp[FAB_QPS];
};

struct fab_state {
    char magic[8];
    uint32_t layout; /* size of this struct: guards against other builds */
    uint64_t bytes;  /* of the file */
    uint32_t hosts, cables, devices;
    _Atomic uint64_t sw[FAB_SW_LIMIT];
    _Alignas(FAB_PULLED_AT) _Atomic uint8_t pulled[FAB_CABLES];
    struct fab_host host[FAB_HOSTS];
    struct fab_proc proc[FAB_PROCS];
    struct fab_cable cable[FAB_CABLES];
    struct fab_device device[FAB_DEVICES];
};
_Static_assert(offsetof(struct fab_state, pulled) == FAB_PULLED_AT, "promise");

/* Behind the struct, for each device and queue pair, never in memory until
 * used: its messages, then its data. */
#define FAB_QP_BYTES (FAB_MESSAGES * sizeof(struct fab_message) + FAB_RING)
#define FAB_HEAD_BYTES \
    ((sizeof(struct fab_state) + TB_PAGE - 1) / TB_PAGE * TB_PAGE)
_Static_assert(FAB_QP_BYTES % TB_PAGE == 0, "rings begin at pages");

static inline struct fab_message *fab_messages(struct fab_state *s,
                                               uint32_t device, uint32_t qp)
{
    return (struct fab_message *)(void *)((char *)s + FAB_HEAD_BYTES +
                                          ((size_t)device * FAB_QPS + qp) *
                                              FAB_QP_BYTES);
}

static inline char *fab_ring(struct fab_message *messages)
{
    return (char *)(messages + FAB_MESSAGES);
}

static inline uint64_t fab_sw(const struct fab_state *s, enum fab_switch which)
{
    return atomic_load_explicit(&s->sw[which], memory_order_relaxed);
}

/* False while the cable is out or the port down. */
static inline bool fab_linked(const struct fab_state *s,
                              const struct fab_device *d)
{
    return !atomic_load_explicit(&s->pulled[d->cable], memory_order_acquire) &&
           atomic_load_explicit(&d->up, memory_order_relaxed);
}

/* ------------------------------------------------------------ switches.c */

enum fab_kind { FAB_COUNT, FAB_TIME, FAB_RATE, FAB_SHARE, FAB_WORD };

struct fab_switch_row {
    const char *name;
    enum fab_kind kind;
    const char *def;
    const char *words;
    const char *help;
};
extern const struct fab_switch_row fab_switch_rows[FAB_SW_LIMIT];

/* The switch of that name; -1. */
int fab_switch_find(const char *name);

/* Text to value. The error names the switch and what it takes. */
tb_err fab_switch_parse(int which, const char *text, uint64_t *out);

/* Value to text, at most `room` bytes. */
void fab_switch_print(int which, uint64_t value, char *out, size_t room);

/* A whole number of at most `most`; false if it is none. */
bool fab_parse_count(const char *text, uint64_t most, uint64_t *out);

/* ---------------------------------------------------------------- map.c */

/* A state file as this process has it mapped. */
struct fab_map {
    struct fab_map *next;
    struct fab_state *s;
    size_t bytes;
    dev_t dev;
    ino_t ino;
    int fd;
    int refs;
    int slot; /* in s->proc; -1: none yet */
    uint32_t pid;
    char path[];
};

/* Maps the file, or finds it mapped already; one release per attach. The file
 * is checked to be a fabric of this build. */
tb_err fab_attach(const char *path, struct fab_map **out);
void fab_release(struct fab_map *map);
void fab_keep(struct fab_map *map); /* one reference more */

/* Writes what attach checks into a state that has been described; returns the
 * size that its file must have. */
size_t fab_stamp(struct fab_state *s);

/* The control lock, against other processes and other threads. Waits for at
 * most 10 s: then an error that names the process which holds it. */
tb_err fab_lock(struct fab_map *map);
void fab_unlock(struct fab_map *map);

/* Gives this process its slot. Lock held. */
tb_err fab_enrol(struct fab_map *map);

/* Takes back what processes that have ended held, or marks it leaked. Lock
 * held. Costs a system call for each process that uses the fabric. */
void fab_reap(struct fab_map *map);

/* Gives back what dead processes have left on a host. Lock held. */
void fab_forget_leaks(struct fab_state *s, uint32_t host);

/* True when what `owner` held is leaked. */
static inline bool fab_leaked(const struct fab_state *s, uint32_t owner)
{
    return owner && owner <= FAB_PROCS &&
           atomic_load_explicit(&s->proc[owner - 1].dead, memory_order_relaxed);
}

/* Puts a queue pair's slot back. Lock held, or by its owner under the lock. */
void fab_qp_vacate(struct fab_device *d, struct fab_qp *qp);

/* ------------------------------------------------------- describe.c, fault.c
 */

/* Fills a zeroed state from a description; errors name the line. */
tb_err fab_describe(struct fab_state *s, const char *text);

/* Makes the file. */
tb_err fab_create(const char *path, const char *text);

/* One fault, in words; fab_fault_help lists them. */
tb_err fab_fault(const char *path, int count, char *const *words);
extern const char fab_fault_help[];

/* Sets a switch; a wire's on one cable only, unless `cable` is negative. */
tb_err fab_set(struct fab_state *s, const char *name, const char *value,
               int cable);

/* The cable of that number in a text; the error names it. */
tb_err fab_find_cable(const struct fab_state *s, const char *text, int *out);

/* A dotted IPv4 address, in network byte order. */
bool fab_parse_ip(const char *text, uint32_t *out);

#endif
