/* SPDX-License-Identifier: MIT */
/*
 * tbmpi-selftest: two processes at the ends of some cables find out, probe by
 * probe, what the verbs provider there does, and say so in lines of JSON. Both
 * run the same list of probes in step; they talk over a socket of their own.
 *
 *   station.c   the two ends' conversation, devices, what is printed
 *   pair.c      a queue pair that is used for one probe after the other
 *   device.c    probes of one device alone: its limits and flags
 *   rules.c     probes of what a SEND and a RECV do to each other
 *   daring.c    the same, where a driver might take it badly
 *   rates.c     latency, bandwidth, loss
 *   link.c      the library's own transport over the same cables
 *
 * Side 0 leads: it reports what both have seen together. Nothing here waits
 * without a limit; a peer that does not answer ends the process.
 */
#ifndef TB_STATION_H
#define TB_STATION_H

#include "base/config.h"
#include "net/plan.h"
#include "net/post.h"
#include "net/verbs.h"

#define TB_FRAME_BYTES ((uint32_t)TB_IBV_FRAME)
/* Of a region: so much to send, so much to receive. */
#define TB_HALF_BYTES ((size_t)16 << 20)
#define TB_NO_CODE INT32_MIN /* a step that was not reached */

struct tb_station {
    const struct tb_config *config;
    const struct tb_plan *plan;
    int side; /* 0 leads */
    bool daring;
    uint64_t patience; /* ns to wait for what may never come */
    struct tb_post talk;
    /* A message of the peer's that has come before it was waited for. */
    const void *early;
    size_t early_bytes;
    /* Called again and again while a swap waits; NULL: it sleeps. */
    void (*meanwhile)(void *ctx);
    void *meanwhile_ctx;

    /* The cable that is being looked at. */
    int cable;
    uint8_t gid[16], peer_gid[16];
    struct tb_verbs *verbs;
    struct tb_device device;
    char *out, *in; /* TB_HALF_BYTES each, in one region */
    struct tb_ibv_mr *region;
};

/* ------------------------------------------------------------ conversation */

/* Both ends call it at the same point: each sends `bytes` from `mine` and gets
 * as many of the other's. Ends the process when that does not come. */
void tb_swap(struct tb_station *st, const void *mine, void *theirs,
             size_t bytes);
void tb_meet(struct tb_station *st);

/* True when the peer has come to its next swap. */
bool tb_called(struct tb_station *st);

/* ----------------------------------------------------------------- printing */

struct tb_pair;

/* One line: what `probe` saw, in a word, in words for people, and as figures
 * (printf of JSON members, "" for none). */
void tb_report(const struct tb_station *st, const char *probe, const char *seen,
               const char *note, const char *values, ...) TB_PRINTF(5, 6);

/* Says which probe begins, for whoever has to explain a crash. */
void tb_begin(const struct tb_station *st, const char *probe);

/*
 * One try of a probe that both ends make: joins the pair and returns what side
 * 0 has seen, in a word ("" on side 1), with figures in `values`. NULL: there
 * is nothing to say.
 */
#define TB_VALUES 256
typedef const char *(*tb_try)(struct tb_station *st, struct tb_pair *pair,
                              char values[TB_VALUES]);

/* Makes the probe and reports. A message that was merely lost looks like much
 * else, so what speaks of nothing arriving (`weak`, words with blanks around)
 * is tried three times. */
void tb_probe(struct tb_station *st, struct tb_pair *pair, const char *probe,
              const char *weak, tb_try try);

/* A JSON string of `text`, quotes included; for lines printed elsewhere. */
void tb_print_text(const char *text);

/* ------------------------------------------------------------------ devices */

/* Opens the device of the cable, its region included; the note says why not. */
tb_err tb_station_open(struct tb_station *st, int cable);
void tb_station_close(struct tb_station *st);

/* What a call answered, positive, negative or -1 with errno, as a positive
 * number; 0: it worked. */
int tb_code(int code);

/* Bytes that depend on `seed` and on where they stand. */
void tb_fill(void *at, size_t bytes, uint32_t seed);
bool tb_filled(const void *at, size_t bytes, uint32_t seed);

/* -------------------------------------------------------------------- pairs */

struct tb_pair {
    struct tb_station *st;
    struct tb_ibv_qp *qp;
    struct tb_ibv_cq *cq;
    uint32_t send_frames, recv_frames; /* granted */
    uint32_t joins;
};

/* Makes it, in state RESET; a code (tb_code) of what was refused, 0: none. */
int tb_pair_make(struct tb_pair *out, struct tb_station *st,
                 const struct tb_ibv_qp_cap *cap);
void tb_pair_drop(struct tb_pair *pair);

/* What happened to each step, as codes; TB_NO_CODE: not reached. */
struct tb_steps {
    int32_t reset, init, early, rtr, rts;
};

/* Whatever state it is in: to RTS, connected with the peer's, which calls it
 * too; nothing is posted. `early`: tries to post a receive in INIT. True when
 * both ends got there. `steps`, of this end and the peer's, may be NULL. */
bool tb_pair_join(struct tb_pair *pair, enum tb_ibv_mtu mtu, bool early,
                  struct tb_steps steps[2]);

/* RESET to RTR, towards a queue pair that need not exist: a code. */
int tb_pair_reach(struct tb_pair *pair);

/* A code. The slot number comes back in the completion's wr_id, with
 * TB_OF_SEND for a SEND. */
#define TB_OF_SEND ((uint64_t)1 << 32)
int tb_pair_send(struct tb_pair *pair, uint32_t number, const void *at,
                 uint32_t bytes);
int tb_pair_receive(struct tb_pair *pair, uint32_t number, void *at,
                    uint32_t bytes);
/* A message of the station's `out` that is not quite as usual. */
int tb_pair_send_as(struct tb_pair *pair, int opcode, unsigned flags,
                    uint32_t bytes);
/* Any work request, as it is. */
int tb_pair_post(struct tb_pair *pair, struct tb_ibv_send_wr *wr);

/* Polls until `n` completions are in `out` or `ns` have passed; how many. */
int tb_pair_await(struct tb_pair *pair, int n, uint64_t ns,
                  struct tb_ibv_wc *out);

/* A code of its own for a completion: 0 success, TB_NO_CODE none came. */
int32_t tb_pair_outcome(struct tb_pair *pair, uint64_t ns);

/* ------------------------------------------------------------------- probes */

void tb_probe_device(struct tb_station *st);
/* `pair` is made, and not connected. False: it cannot be, and so much for the
 * other probes of this cable. */
bool tb_probe_connect(struct tb_station *st, struct tb_pair *pair);
void tb_probe_rules(struct tb_station *st, struct tb_pair *pair);
void tb_probe_daring(struct tb_station *st, struct tb_pair *pair);
void tb_probe_rates(struct tb_station *st, struct tb_pair *pair);
void tb_probe_link(struct tb_station *st);

/* The commands beside the conversation; exit codes. */
int tb_list_devices(const struct tb_config *config);
int tb_hold_device(const struct tb_config *config, const char *gid);
int tb_try_device(const struct tb_config *config, const char *gid,
                  const char *peer);

#endif
