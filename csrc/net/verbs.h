/* SPDX-License-Identifier: MIT */
/*
 * The verbs library, loaded at run time: Apple's librdma where there is one,
 * any libibverbs elsewhere. The control calls are function pointers found by
 * name, the data path goes through the context's own table (verbs_abi.h).
 * Failures come with cause and remedy in the note.
 *
 * A device may fault: Apple's library is known to end in SIGSEGV inside a post
 * when a cable is pulled. With tb_verbs_guard() such a fault makes the call
 * fail and the device dead, and no call reaches the library for that device
 * any more, not even to give back what it holds.
 *
 * One thread a device. Nothing here may be used in a child after fork.
 */
#ifndef TB_VERBS_H
#define TB_VERBS_H

#include "base/base.h"
#include "net/verbs_abi.h"

/* Name, return type, parameters: every control call there is. */
#define TB_VERBS_CALLS(X)                                                    \
    X(get_device_list, struct tb_ibv_device **, (int *n))                    \
    X(free_device_list, void, (struct tb_ibv_device * *list))                \
    X(get_device_name, const char *, (struct tb_ibv_device * device))        \
    X(open_device, struct tb_ibv_context *, (struct tb_ibv_device * device)) \
    X(close_device, int, (struct tb_ibv_context * context))                  \
    X(query_port, int,                                                       \
      (struct tb_ibv_context * context, uint8_t port,                        \
       struct tb_ibv_port_attr * out))                                       \
    X(query_gid, int,                                                        \
      (struct tb_ibv_context * context, uint8_t port, int index,             \
       union tb_ibv_gid *out))                                               \
    X(alloc_pd, struct tb_ibv_pd *, (struct tb_ibv_context * context))       \
    X(dealloc_pd, int, (struct tb_ibv_pd * pd))                              \
    X(reg_mr, struct tb_ibv_mr *,                                            \
      (struct tb_ibv_pd * pd, void *p, size_t bytes, int access))            \
    X(dereg_mr, int, (struct tb_ibv_mr * mr))                                \
    X(create_cq, struct tb_ibv_cq *,                                         \
      (struct tb_ibv_context * context, int entries, void *user,             \
       struct tb_ibv_comp_channel *channel, int vector))                     \
    X(destroy_cq, int, (struct tb_ibv_cq * cq))                              \
    X(create_qp, struct tb_ibv_qp *,                                         \
      (struct tb_ibv_pd * pd, struct tb_ibv_qp_init_attr * init))            \
    X(destroy_qp, int, (struct tb_ibv_qp * qp))                              \
    X(modify_qp, int,                                                        \
      (struct tb_ibv_qp * qp, struct tb_ibv_qp_attr * attr, int mask))       \
    X(query_qp, int,                                                         \
      (struct tb_ibv_qp * qp, struct tb_ibv_qp_attr * attr, int mask,        \
       struct tb_ibv_qp_init_attr *init))

struct tb_verbs {
    void *library;
    const char *path; /* as given or found */
    bool guarded;
#define X(name, type, parameters) type(*name) parameters;
    TB_VERBS_CALLS(X)
#undef X
};

/* Loads the library: `path` (TBMPI_LIBRDMA), or if empty Apple's, else
 * libibverbs. TB_ERR_NOTSUP with a note: there is none, use something else. */
tb_err tb_verbs_open(struct tb_verbs **out, const char *path);
void tb_verbs_close(struct tb_verbs *verbs);

/* Installs the process's handler of SIGSEGV and SIGBUS; other faults go to
 * whoever handled them before. For a process of our own only, not a user's. */
void tb_verbs_guard(struct tb_verbs *verbs);

/* ----------------------------------------------------------------- devices */

struct tb_device {
    struct tb_verbs *verbs;
    struct tb_ibv_context *context;
    struct tb_ibv_pd *pd;
    char name[64];
    uint8_t gid_index;
    uint16_t lid;
    enum tb_ibv_mtu mtu;
    bool dead; /* a call faulted */
};

/* Opens the device that has the address `gid`, whatever its name, once its
 * port is active, and takes a protection domain. `hint` is the name that the
 * plan expects, for messages. */
tb_err tb_device_open(struct tb_device *out, struct tb_verbs *verbs,
                      const uint8_t gid[16], const char *hint);

/* All queue pairs and regions must be gone. */
void tb_device_close(struct tb_device *device);

/* `at` is a multiple of TB_PAGE. */
tb_err tb_device_register(struct tb_device *device, void *at, size_t bytes,
                          struct tb_ibv_mr **out);
void tb_device_deregister(struct tb_device *device, struct tb_ibv_mr *mr);

/* ------------------------------------------------------------- queue pairs */

struct tb_qp {
    struct tb_device *device;
    struct tb_ibv_qp *qp;
    struct tb_ibv_cq *cq;
    uint32_t send_frames, recv_frames; /* granted depth */
};

/* What the other end needs to know to connect to this one. */
struct tb_qp_address {
    uint8_t gid[16];
    uint32_t number;
    uint32_t psn;
    uint16_t lid;
    uint8_t mtu; /* enum tb_ibv_mtu: the smaller one of both counts */
};

/* Makes a UC queue pair and its completion queue, in state RESET, for up to
 * `frames` frames posted each way; what was granted is read back. */
tb_err tb_qp_open(struct tb_qp *out, struct tb_device *device, uint32_t frames);

/* RESET to RTS. `peer` names the other machine, for messages. */
tb_err tb_qp_connect(struct tb_qp *qp, const struct tb_qp_address *self,
                     const struct tb_qp_address *peer, const char *peer_name);

/* Any state to RESET: what was posted is forgotten. Completions may be left in
 * the queue. */
tb_err tb_qp_reset(struct tb_qp *qp);

void tb_qp_close(struct tb_qp *qp);

/* These three: 0 or the number of completions, or negative: failed, or the
 * device is dead. They never block. */
int tb_qp_send(struct tb_qp *qp, uint64_t id, const void *at, uint32_t bytes,
               uint32_t key);
int tb_qp_receive(struct tb_qp *qp, uint64_t id, void *at, uint32_t bytes,
                  uint32_t key);
int tb_qp_poll(struct tb_qp *qp, int room, struct tb_ibv_wc *out);

/* Why a queue pair does not get to RTR, by the error number, and what to do. */
const char *tb_verbs_rtr_cause(int code);

/* Names a status of a completion. Never NULL. */
const char *tb_wc_text(int status);

#endif
