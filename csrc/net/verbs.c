/* SPDX-License-Identifier: MIT */
/* The verbs library: loading, devices, queue pairs, and what went wrong. */
#include "net/verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

#define PORT 1 /* every device has one */

/* ------------------------------------------------------------------ faults */

/* Where this thread goes when a verbs call faults. A signal handler has no
 * other way to learn it. */
static _Thread_local sigjmp_buf *volatile rescue;
static struct sigaction before[2];
static _Atomic int guards; /* libraries open that want the handler */

static void on_fault(int signal, siginfo_t *info, void *context)
{
    struct sigaction *old = &before[signal == SIGBUS];

    if (rescue)
        siglongjmp(*rescue, 1);
    if (old->sa_flags & SA_SIGINFO && old->sa_sigaction) {
        old->sa_sigaction(signal, info, context);
        return;
    }
    /* On return the fault happens again, unhandled. */
    sigaction(signal, old, NULL);
}

void tb_verbs_guard(struct tb_verbs *verbs)
{
    struct sigaction action;

    if (verbs->guarded)
        return;
    verbs->guarded = true;
    if (atomic_fetch_add(&guards, 1))
        return;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_fault;
    /* NODEFER: a jump out of the handler would leave the signal blocked. */
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
}

static void mark_dead(struct tb_device *d)
{
    d->dead = true;
    tb_log(TB_LOG_WARN,
           "%s: the verbs library faulted; the device is left alone", d->name);
}

/*
 * Evaluates `call` into `result` unless the device is dead, and marks it dead
 * when the call faults. The signal mask is not saved: that is a system call.
 */
#define GUARDED(d, result, call)               \
    do {                                       \
        sigjmp_buf here_;                      \
        if ((d)->dead)                         \
            break;                             \
        if (TB_LIKELY(!(d)->verbs->guarded)) { \
            (result) = (call);                 \
        } else if (!sigsetjmp(here_, 0)) {     \
            rescue = &here_;                   \
            (result) = (call);                 \
            rescue = NULL;                     \
        } else {                               \
            rescue = NULL;                     \
            mark_dead(d);                      \
        }                                      \
    } while (0)

/* ----------------------------------------------------------------- loading */

static tb_err find_calls(struct tb_verbs *v)
{
#define X(name, type, parameters)                              \
    *(void **)&v->name = dlsym(v->library, "ibv_" #name);      \
    if (!v->name)                                              \
        return tb_fail(TB_ERR_NOTSUP,                          \
                       "%s has no ibv_" #name ": it is not a " \
                       "verbs library that tbmpi can use",     \
                       v->path);
    TB_VERBS_CALLS(X)
#undef X
    return TB_OK;
}

tb_err tb_verbs_open(struct tb_verbs **out, const char *path)
{
    static const char *const usual[] = {"/usr/lib/librdma.dylib",
                                        "libibverbs.so.1"};
    struct tb_verbs *v = tb_calloc(1, sizeof(*v));
    tb_err err;

    if (!v)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the verbs library");
    if (path && *path) {
        v->path = path;
        v->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    for (size_t i = 0; !v->path && i < TB_COUNT_OF(usual); i++) {
        v->library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
        if (v->library)
            v->path = usual[i];
    }
    if (v->library)
        err = find_calls(v);
    else if (v->path)
        err = tb_fail(TB_ERR_NOTSUP, "TBMPI_LIBRDMA: %s", dlerror());
    else
        err = tb_fail(TB_ERR_NOTSUP,
                      "this system has no verbs library (RDMA over Thunderbolt "
                      "needs macOS 26.2 or later)");
    if (err) {
        tb_verbs_close(v);
        return err;
    }
    *out = v;
    return TB_OK;
}

void tb_verbs_close(struct tb_verbs *v)
{
    if (!v)
        return;
    if (v->guarded && atomic_fetch_sub(&guards, 1) == 1) {
        sigaction(SIGSEGV, &before[0], NULL);
        sigaction(SIGBUS, &before[1], NULL);
    }
    if (v->library)
        dlclose(v->library);
    tb_free(v);
}

/* ------------------------------------------------------------------ causes */

enum step { OPEN, PD, MR, CQ, QP, INIT, RTR, RTS, RESET };

static const char *const step_names[] = {
    [OPEN] = "ibv_open_device",
    [PD] = "ibv_alloc_pd",
    [MR] = "ibv_reg_mr",
    [CQ] = "ibv_create_cq",
    [QP] = "ibv_create_qp",
    [INIT] = "ibv_modify_qp to INIT",
    [RTR] = "ibv_modify_qp to RTR",
    [RTS] = "ibv_modify_qp to RTS",
    [RESET] = "ibv_modify_qp to RESET",
};

#define ANY 0

/* Numbers are macOS's; this system's own are translated first. */
static const struct {
    enum step step;
    int code;
    const char *cause;
} causes[] = {
    {PD, ANY,
     "the device has no protection domain left: earlier programs did not give "
     "theirs back; end them, or restart this Mac"},
    {MR, 12,
     "the device has no memory region left (100 for the whole machine), or the "
     "memory cannot be wired; end other RDMA programs"},
    {QP, 16,
     "all 10 queue pairs of the device are taken; end other jobs and RDMA "
     "programs on this machine"},
    {QP, 102, "the device knows no unreliable connections"},
    {RTR, 14,
     "the driver's memory for this boot is used up; use a smaller TBMPI_POOL, "
     "or restart this Mac"},
    {RTR, 16,
     "the driver still holds what a killed program left; restart both Macs"},
    {RTR, 22,
     "an address is missing or wrong: give the cable's enX interface an IPv4 "
     "address at both ends and keep it out of bridge0"},
    {RTR, 60,
     "the other end's address does not answer on this cable: is the cable in "
     "the port that the plan says? ping the other end once, and try again"},
    {RTR, 96,
     "the driver has run out of resources, as after many killed programs or "
     "after sleep; restart this Mac"},
};

static int darwin_number(int code)
{
    if (code == ETIMEDOUT)
        return 60;
    return code == EOPNOTSUPP ? 102 : code;
}

/* `code`: positive, negative or -1 with errno, as the providers please. */
static tb_err blame(const struct tb_device *d, enum step step, int code,
                    const char *peer)
{
    const char *cause = "no known cause";
    int n = code == -1 ? errno : code < 0 ? -code : code;

    n = darwin_number(n);
    for (size_t i = 0; i < TB_COUNT_OF(causes); i++) {
        if (causes[i].step == step &&
            (causes[i].code == n || causes[i].code == ANY)) {
            cause = causes[i].cause;
            break;
        }
    }
    return tb_fail(TB_ERR_SYSTEM, "%s%s%s: %s failed (error %d): %s", d->name,
                   *peer ? " to " : "", peer, step_names[step], n, cause);
}

const char *tb_verbs_rtr_cause(int code)
{
    int n = darwin_number(code);

    for (size_t i = 0; i < TB_COUNT_OF(causes); i++) {
        if (causes[i].step == RTR && causes[i].code == n)
            return causes[i].cause;
    }
    return "no known cause";
}

static tb_err faulted(const struct tb_device *d)
{
    return tb_fail(TB_ERR_SYSTEM,
                   "%s: the verbs library faulted, as it does when a cable is "
                   "pulled; the device is of no use until this process ends",
                   d->name);
}

/* ----------------------------------------------------------------- devices */

/* Functions of their own: a jump back to GUARDED leaves the other variables of
 * its function undefined. */
static int query_port(struct tb_device *d, struct tb_ibv_port_attr *out)
{
    int code = -1;

    GUARDED(d, code, d->verbs->query_port(d->context, PORT, out));
    return code;
}

static void take_pd(struct tb_device *d)
{
    GUARDED(d, d->pd, d->verbs->alloc_pd(d->context));
}

static int query_gid(struct tb_device *d, int index, union tb_ibv_gid *out)
{
    int code = -1;

    GUARDED(d, code, d->verbs->query_gid(d->context, PORT, index, out));
    return code;
}

/* True when the device has the address; sets the index of it. */
static bool has_gid(struct tb_device *d, const struct tb_ibv_port_attr *port,
                    const uint8_t gid[16])
{
    for (int i = 0; i < port->gid_tbl_len && i < 256; i++) {
        union tb_ibv_gid found;
        memset(&found, 0, sizeof(found));
        if (!query_gid(d, i, &found) &&
            !memcmp(found.raw, gid, sizeof(found.raw))) {
            d->gid_index = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* Looks at one device; leaves it open if it is the one. A device that does not
 * open is another job's trouble, unless it is the one that the plan names. */
static tb_err try_device(struct tb_device *d, struct tb_ibv_device *device,
                         const uint8_t gid[16], bool *found)
{
    struct tb_ibv_port_attr port;

    GUARDED(d, d->context, d->verbs->open_device(device));
    if (!d->context)
        return d->dead ? faulted(d) : blame(d, OPEN, -1, "");
    memset(&port, 0, sizeof(port));
    if (!query_port(d, &port) && has_gid(d, &port, gid)) {
        *found = true;
        if (port.state != TB_IBV_PORT_ACTIVE)
            return tb_fail(TB_ERR_SYSTEM,
                           "%s: the port is down: is the cable in at both "
                           "ends, and RDMA enabled (rdma_ctl status)?",
                           d->name);
        d->lid = port.lid;
        d->mtu = port.active_mtu;
        return TB_OK;
    }
    tb_device_close(d);
    return TB_OK;
}

static const char *gid_text(const uint8_t gid[16], char out[16])
{
    snprintf(out, 16, "%d.%d.%d.%d", gid[12], gid[13], gid[14], gid[15]);
    return out;
}

/* The device by its address: names move with the cable and the boot. */
static tb_err find_device(struct tb_device *d, const uint8_t gid[16],
                          const char *hint)
{
    struct tb_verbs *v = d->verbs;
    struct tb_ibv_device **list = v->get_device_list(NULL);
    bool found = false;
    tb_err err = TB_OK, named = TB_OK;
    char text[16];

    if (list && !list[0]) {
        v->free_device_list(list);
        list = NULL;
    }
    if (!list)
        return tb_fail(TB_ERR_NOTSUP,
                       "there is no RDMA device here; enable it with rdma_ctl "
                       "enable in macOS Recovery");
    for (int i = 0; list[i] && !found; i++) {
        const char *name = v->get_device_name(list[i]);
        snprintf(d->name, sizeof(d->name), "%s", name ? name : "?");
        err = try_device(d, list[i], gid, &found);
        if (err && !found && !strcmp(d->name, hint))
            named = err;
    }
    v->free_device_list(list);
    if (found)
        return err;
    if (named)
        return named;
    snprintf(d->name, sizeof(d->name), "%s", hint);
    return tb_fail(TB_ERR_SYSTEM,
                   "no RDMA device has the address %s, which the plan gives "
                   "%s: give its enX interface that IPv4 address, or find the "
                   "cables anew",
                   gid_text(gid, text), hint);
}

tb_err tb_device_open(struct tb_device *out, struct tb_verbs *verbs,
                      const uint8_t gid[16], const char *hint)
{
    struct tb_device d = {.verbs = verbs};
    tb_err err = find_device(&d, gid, hint);

    if (!err) {
        take_pd(&d);
        if (!d.pd)
            err = d.dead ? faulted(&d) : blame(&d, PD, 0, "");
    }
    if (err)
        tb_device_close(&d);
    *out = d;
    return err;
}

void tb_device_close(struct tb_device *d)
{
    int code = 0;

    if (d->pd)
        GUARDED(d, code, d->verbs->dealloc_pd(d->pd));
    if (d->context)
        GUARDED(d, code, d->verbs->close_device(d->context));
    if (code)
        tb_log(TB_LOG_WARN, "%s: cannot be closed in order, error %d", d->name,
               code);
    d->pd = NULL;
    d->context = NULL;
}

tb_err tb_device_register(struct tb_device *d, void *at, size_t bytes,
                          struct tb_ibv_mr **out)
{
    /* One report says that local write alone is refused, Apple's note that it
     * is all there should be. */
    static const int wide = TB_IBV_ACCESS_LOCAL_WRITE |
                            TB_IBV_ACCESS_REMOTE_READ |
                            TB_IBV_ACCESS_REMOTE_WRITE;
    struct tb_ibv_mr *mr = NULL;

    GUARDED(d, mr, d->verbs->reg_mr(d->pd, at, bytes, wide));
    if (!mr)
        GUARDED(d, mr,
                d->verbs->reg_mr(d->pd, at, bytes, TB_IBV_ACCESS_LOCAL_WRITE));
    if (!mr)
        return d->dead ? faulted(d) : blame(d, MR, -1, "");
    *out = mr;
    return TB_OK;
}

void tb_device_deregister(struct tb_device *d, struct tb_ibv_mr *mr)
{
    int code = 0;

    GUARDED(d, code, d->verbs->dereg_mr(mr));
    if (code)
        tb_log(TB_LOG_WARN, "%s: a region stays registered, error %d", d->name,
               code);
}

/* ------------------------------------------------------------- queue pairs */

static tb_err make_queues(struct tb_qp *q, uint32_t frames)
{
    struct tb_device *d = q->device;
    struct tb_ibv_qp_init_attr init = {
        .cap = {.max_send_wr = frames,
                .max_recv_wr = frames,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = TB_IBV_QPT_UC,
        .sq_sig_all = 1,
    };
    int entries = (int)TB_MIN(2 * frames, (uint32_t)TB_IBV_FRAMES_MOST);

    GUARDED(d, q->cq, d->verbs->create_cq(d->context, entries, NULL, NULL, 0));
    if (!q->cq)
        return d->dead ? faulted(d) : blame(d, CQ, -1, "");
    init.send_cq = init.recv_cq = q->cq;
    GUARDED(d, q->qp, d->verbs->create_qp(d->pd, &init));
    if (!q->qp)
        return d->dead ? faulted(d) : blame(d, QP, -1, "");
    return TB_OK;
}

/* The driver grants what it likes. */
static tb_err read_depth(struct tb_qp *q)
{
    struct tb_device *d = q->device;
    struct tb_ibv_qp_init_attr init;
    struct tb_ibv_qp_attr attr;
    int code = -1;

    memset(&init, 0, sizeof(init));
    memset(&attr, 0, sizeof(attr));
    GUARDED(d, code, d->verbs->query_qp(q->qp, &attr, TB_IBV_QP_CAP, &init));
    if (code)
        return tb_fail(TB_ERR_SYSTEM, "%s: ibv_query_qp failed (error %d)",
                       d->name, code);
    q->send_frames = attr.cap.max_send_wr;
    q->recv_frames = attr.cap.max_recv_wr;
    return TB_OK;
}

tb_err tb_qp_open(struct tb_qp *out, struct tb_device *device, uint32_t frames)
{
    struct tb_qp q = {.device = device};
    tb_err err = make_queues(&q, frames);

    if (!err)
        err = read_depth(&q);
    if (err)
        tb_qp_close(&q);
    *out = q;
    return err;
}

static tb_err modify(struct tb_qp *q, enum step step,
                     struct tb_ibv_qp_attr *attr, int mask, const char *peer)
{
    int code = -1;

    GUARDED(q->device, code,
            q->device->verbs->modify_qp(q->qp, attr, mask | TB_IBV_QP_STATE));
    if (q->device->dead)
        return faulted(q->device);
    return code ? blame(q->device, step, code, peer) : TB_OK;
}

tb_err tb_qp_connect(struct tb_qp *q, const struct tb_qp_address *self,
                     const struct tb_qp_address *peer, const char *peer_name)
{
    struct tb_ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_INIT;
    attr.port_num = PORT;
    TB_TRY(
        modify(q, INIT, &attr,
               TB_IBV_QP_PKEY_INDEX | TB_IBV_QP_PORT | TB_IBV_QP_ACCESS_FLAGS,
               peer_name));
    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_RTR;
    attr.path_mtu = (enum tb_ibv_mtu)TB_MIN(self->mtu, peer->mtu);
    attr.rq_psn = peer->psn;
    attr.dest_qp_num = peer->number;
    attr.ah_attr.dlid = peer->lid;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = PORT;
    attr.ah_attr.grh.sgid_index = q->device->gid_index;
    attr.ah_attr.grh.hop_limit = 1;
    memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
    TB_TRY(modify(q, RTR, &attr,
                  TB_IBV_QP_AV | TB_IBV_QP_PATH_MTU | TB_IBV_QP_DEST_QPN |
                      TB_IBV_QP_RQ_PSN,
                  peer_name));
    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_RTS;
    attr.sq_psn = self->psn;
    return modify(q, RTS, &attr, TB_IBV_QP_SQ_PSN, peer_name);
}

tb_err tb_qp_reset(struct tb_qp *q)
{
    struct tb_ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_RESET;
    return modify(q, RESET, &attr, 0, "");
}

void tb_qp_close(struct tb_qp *q)
{
    struct tb_device *d = q->device;
    int code = 0;

    if (q->qp)
        GUARDED(d, code, d->verbs->destroy_qp(q->qp));
    if (q->cq)
        GUARDED(d, code, d->verbs->destroy_cq(q->cq));
    if (code)
        tb_log(TB_LOG_WARN, "%s: a queue pair cannot be given back, error %d",
               d->name, code);
    q->qp = NULL;
    q->cq = NULL;
}

int tb_qp_send(struct tb_qp *q, uint64_t id, const void *at, uint32_t bytes,
               uint32_t key)
{
    struct tb_ibv_sge sge = {(uint64_t)(uintptr_t)at, bytes, key};
    struct tb_ibv_send_wr wr, *bad = NULL;
    int code = -1;

    memset(&wr, 0, sizeof(wr));
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = TB_IBV_WR_SEND;
    wr.send_flags = TB_IBV_SEND_SIGNALED;
    GUARDED(q->device, code, tb_ibv_post_send(q->qp, &wr, &bad));
    return code ? -1 : 0;
}

int tb_qp_receive(struct tb_qp *q, uint64_t id, void *at, uint32_t bytes,
                  uint32_t key)
{
    struct tb_ibv_sge sge = {(uint64_t)(uintptr_t)at, bytes, key};
    struct tb_ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
    struct tb_ibv_recv_wr *bad = NULL;
    int code = -1;

    GUARDED(q->device, code, tb_ibv_post_recv(q->qp, &wr, &bad));
    return code ? -1 : 0;
}

int tb_qp_poll(struct tb_qp *q, int room, struct tb_ibv_wc *out)
{
    int n = -1;

    GUARDED(q->device, n, tb_ibv_poll_cq(q->cq, room, out));
    return n;
}

const char *tb_wc_text(int status)
{
    /* In the order of their numbers, which are the InfiniBand ones. */
    static const char *const text[] = {
        "success",         "local length error",     "local QP operation error",
        "local EEC error", "local protection error", "flushed",
    };

    if (status >= 0 && (size_t)status < TB_COUNT_OF(text))
        return text[status];
    return status == TB_IBV_WC_GENERAL_ERR ? "general error" : "other error";
}
