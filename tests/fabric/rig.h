/* SPDX-License-Identifier: MIT */
/*
 * A fabric for a test: two virtual Macs and a cable, both opened by this
 * process, or by it and a child. Every failure ends the program.
 */
#ifndef TB_FABRIC_RIG_H
#define TB_FABRIC_RIG_H

#include "base/base.h"
#include "fabric/tbmpi_fabric.h"
#include "net/verbs_abi.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "unit/check.h"

/* The verbs, under names of ours; linked in, so nothing is opened. */
#define RIG_TEXT_OF(x) #x
#define RIG_TEXT(x) RIG_TEXT_OF(x)
#define RIG_VERB(result, name, ...)         \
    result rig_##name(__VA_ARGS__) __asm__( \
        RIG_TEXT(__USER_LABEL_PREFIX__) "ibv_" #name)

RIG_VERB(struct tb_ibv_device **, get_device_list, int *count);
RIG_VERB(void, free_device_list, struct tb_ibv_device **list);
RIG_VERB(const char *, get_device_name, struct tb_ibv_device *device);
RIG_VERB(struct tb_ibv_context *, open_device, struct tb_ibv_device *device);
RIG_VERB(int, close_device, struct tb_ibv_context *context);
RIG_VERB(int, query_device, struct tb_ibv_context *context,
         struct tb_ibv_device_attr *out);
RIG_VERB(int, query_port, struct tb_ibv_context *context, uint8_t port,
         struct tb_ibv_port_attr *out);
RIG_VERB(int, query_gid, struct tb_ibv_context *context, uint8_t port,
         int index, union tb_ibv_gid *out);
RIG_VERB(struct tb_ibv_pd *, alloc_pd, struct tb_ibv_context *context);
RIG_VERB(int, dealloc_pd, struct tb_ibv_pd *pd);
RIG_VERB(struct tb_ibv_cq *, create_cq, struct tb_ibv_context *context,
         int depth, void *cq_context, struct tb_ibv_comp_channel *channel,
         int vector);
RIG_VERB(int, destroy_cq, struct tb_ibv_cq *cq);
RIG_VERB(struct tb_ibv_comp_channel *, create_comp_channel,
         struct tb_ibv_context *context);
RIG_VERB(struct tb_ibv_mr *, reg_mr, struct tb_ibv_pd *pd, void *addr,
         size_t length, int access);
RIG_VERB(struct tb_ibv_mr *, reg_mr_iova2, struct tb_ibv_pd *pd, void *addr,
         size_t length, uint64_t iova, unsigned int access);
RIG_VERB(int, dereg_mr, struct tb_ibv_mr *mr);
RIG_VERB(struct tb_ibv_qp *, create_qp, struct tb_ibv_pd *pd,
         struct tb_ibv_qp_init_attr *attr);
RIG_VERB(int, destroy_qp, struct tb_ibv_qp *qp);
RIG_VERB(int, modify_qp, struct tb_ibv_qp *qp, struct tb_ibv_qp_attr *attr,
         int mask);
RIG_VERB(int, query_qp, struct tb_ibv_qp *qp, struct tb_ibv_qp_attr *attr,
         int mask, struct tb_ibv_qp_init_attr *init);

#define ACCESS                                               \
    (TB_IBV_ACCESS_LOCAL_WRITE | TB_IBV_ACCESS_REMOTE_READ | \
     TB_IBV_ACCESS_REMOTE_WRITE)
#define MEMORY ((size_t)8 << 20)
#define SECOND 1000000000u

/* One end of a cable, with one queue pair. */
struct end {
    struct tb_ibv_context *context;
    struct tb_ibv_pd *pd;
    struct tb_ibv_cq *cq;
    struct tb_ibv_mr *mr;
    struct tb_ibv_qp *qp;
    union tb_ibv_gid gid;
    uint8_t gid_index;
    char *memory;
};

static char rig_path[256];

static inline void rig_remove(void)
{
    unlink(rig_path);
}

/* A fabric of the description; `settings` are its further lines. */
static inline void rig_describe(const char *text)
{
    const char *folder = getenv("TMPDIR");
    char why[512];

    if (!rig_path[0])
        atexit(rig_remove);
    unlink(rig_path);
    snprintf(rig_path, sizeof(rig_path), "%s/tbmpi-fabric-test-%d",
             folder ? folder : "/tmp", (int)getpid());
    unlink(rig_path);
    if (tbmpi_fabric_create(rig_path, text, why, sizeof(why))) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    setenv("TBMPI_FABRIC", rig_path, 1);
}

static inline void rig_make(const char *settings)
{
    char text[2048];

    snprintf(text, sizeof(text),
             "host 0 mac0\nhost 1 mac1\n"
             "cable 0 0 rdma_en2 169.254.1.1 1 rdma_en3 169.254.1.2\n%s",
             settings);
    rig_describe(text);
}

static inline void rig_fault(const char *fmt, ...)
{
    char text[128], why[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (tbmpi_fabric_fault(rig_path, text, why, sizeof(why))) {
        fprintf(stderr, "%s: %s\n", text, why);
        exit(1);
    }
}

static inline struct tb_ibv_context *rig_open(int host, int which)
{
    struct tb_ibv_device **list;
    struct tb_ibv_context *context;
    int count;

    tbmpi_fabric_host(host);
    list = rig_get_device_list(&count);
    CHECK(list && count > which);
    context = rig_open_device(list[which]);
    CHECK(context);
    rig_free_device_list(list);
    return context;
}

static inline struct tb_ibv_qp *rig_pair(struct end *e, uint32_t depth)
{
    struct tb_ibv_qp_init_attr attr = {
        .send_cq = e->cq,
        .recv_cq = e->cq,
        .cap = {depth, depth, 1, 1, 0},
        .qp_type = TB_IBV_QPT_UC,
    };

    return rig_create_qp(e->pd, &attr);
}

/* The index of the IPv4 GID, by looking for it. */
static inline int rig_find_ipv4(struct tb_ibv_context *c, union tb_ibv_gid *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct tb_ibv_port_attr port;

    CHECK(!rig_query_port(c, 1, &port));
    for (int i = 0; i < port.gid_tbl_len; i++) {
        CHECK(!rig_query_gid(c, 1, i, out));
        if (!memcmp(out->raw, mapped, sizeof(mapped)))
            return i;
    }
    return -1;
}

/* Everything up to a queue pair in RESET. */
static inline void rig_prepare(struct end *e, int host)
{
    memset(e, 0, sizeof(*e));
    e->context = rig_open(host, 0);
    e->gid_index = (uint8_t)rig_find_ipv4(e->context, &e->gid);
    e->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANON, -1, 0);
    CHECK(e->memory != MAP_FAILED);
    CHECK(e->pd = rig_alloc_pd(e->context));
    CHECK(e->cq = rig_create_cq(e->context, 4096, NULL, NULL, 0));
    if ((uintptr_t)e->memory % TB_PAGE)
        e->memory += TB_PAGE - (uintptr_t)e->memory % TB_PAGE;
    CHECK(e->mr = rig_reg_mr(e->pd, e->memory, MEMORY - TB_PAGE, ACCESS));
    CHECK(e->qp = rig_pair(e, 4095));
}

static inline int rig_to_init(struct tb_ibv_qp *qp)
{
    struct tb_ibv_qp_attr attr = {.qp_state = TB_IBV_QPS_INIT, .port_num = 1};

    return rig_modify_qp(qp, &attr,
                         TB_IBV_QP_STATE | TB_IBV_QP_PKEY_INDEX |
                             TB_IBV_QP_PORT | TB_IBV_QP_ACCESS_FLAGS);
}

static inline int rig_to_rtr(struct tb_ibv_qp *qp, uint32_t dest,
                             const union tb_ibv_gid *gid, uint8_t gid_index)
{
    struct tb_ibv_qp_attr attr = {
        .qp_state = TB_IBV_QPS_RTR,
        .path_mtu = TB_IBV_MTU_4096,
        .rq_psn = 7,
        .dest_qp_num = dest,
        .ah_attr = {.grh = {.dgid = *gid,
                            .sgid_index = gid_index,
                            .hop_limit = 1},
                    .dlid = 1,
                    .is_global = 1,
                    .port_num = 1},
    };

    return rig_modify_qp(qp, &attr,
                         TB_IBV_QP_STATE | TB_IBV_QP_AV | TB_IBV_QP_PATH_MTU |
                             TB_IBV_QP_DEST_QPN | TB_IBV_QP_RQ_PSN);
}

static inline int rig_to_rts(struct tb_ibv_qp *qp)
{
    struct tb_ibv_qp_attr attr = {.qp_state = TB_IBV_QPS_RTS, .sq_psn = 7};

    return rig_modify_qp(qp, &attr, TB_IBV_QP_STATE | TB_IBV_QP_SQ_PSN);
}

static inline int rig_to(struct tb_ibv_qp *qp, enum tb_ibv_qp_state state)
{
    struct tb_ibv_qp_attr attr = {.qp_state = state};

    return rig_modify_qp(qp, &attr, TB_IBV_QP_STATE);
}

/* From RESET to RTS. */
static inline void rig_raise(struct end *e, uint32_t dest,
                             const union tb_ibv_gid *gid)
{
    CHECK_EQ(rig_to_init(e->qp), 0);
    CHECK_EQ(rig_to_rtr(e->qp, dest, gid, e->gid_index), 0);
    CHECK_EQ(rig_to_rts(e->qp), 0);
}

static inline void rig_join(struct end *a, struct end *b)
{
    rig_raise(a, b->qp->qp_num, &b->gid);
    rig_raise(b, a->qp->qp_num, &a->gid);
}

/* Two ends in RTS. */
static inline void rig_connect(struct end *a, struct end *b)
{
    rig_prepare(a, 0);
    rig_prepare(b, 1);
    rig_join(a, b);
}

static inline void rig_close(struct end *e)
{
    if (e->qp)
        CHECK_EQ(rig_destroy_qp(e->qp), 0);
    if (e->mr)
        CHECK_EQ(rig_dereg_mr(e->mr), 0);
    if (e->cq)
        CHECK_EQ(rig_destroy_cq(e->cq), 0);
    if (e->pd)
        CHECK_EQ(rig_dealloc_pd(e->pd), 0);
    CHECK_EQ(rig_close_device(e->context), 0);
    munmap(e->memory, MEMORY - TB_PAGE);
}

static inline void rig_end(struct end *a, struct end *b)
{
    rig_close(a);
    rig_close(b);
}

static inline int rig_recv(struct end *e, uint64_t id, size_t at,
                           uint32_t bytes)
{
    struct tb_ibv_sge sge = {(uintptr_t)e->memory + at, bytes, e->mr->lkey};
    struct tb_ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
    struct tb_ibv_recv_wr *bad;

    return tb_ibv_post_recv(e->qp, &wr, &bad);
}

static inline int rig_send(struct end *e, uint64_t id, size_t at,
                           uint32_t bytes)
{
    struct tb_ibv_sge sge = {(uintptr_t)e->memory + at, bytes, e->mr->lkey};
    struct tb_ibv_send_wr wr = {.wr_id = id,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = TB_IBV_WR_SEND,
                                .send_flags = TB_IBV_SEND_SIGNALED};
    struct tb_ibv_send_wr *bad;

    return tb_ibv_post_send(e->qp, &wr, &bad);
}

/* The next completion, within 5 s. */
static inline struct tb_ibv_wc rig_wait(struct end *e)
{
    uint64_t until = tb_now() + 5ull * SECOND;
    struct tb_ibv_wc wc;

    while (!tb_ibv_poll_cq(e->cq, 1, &wc)) {
        CHECK(tb_now() < until);
        tb_yield();
    }
    return wc;
}

static inline void rig_expect(struct end *e, uint64_t id, int opcode)
{
    struct tb_ibv_wc wc = rig_wait(e);

    CHECK_EQ(wc.status, TB_IBV_WC_SUCCESS);
    CHECK_EQ(wc.wr_id, id);
    CHECK_EQ(wc.opcode, opcode);
    CHECK_EQ(wc.qp_num, e->qp->qp_num);
}

static inline void rig_expect_error(struct end *e, uint64_t id, int status)
{
    struct tb_ibv_wc wc = rig_wait(e);

    CHECK_EQ(wc.wr_id, id);
    CHECK_EQ(wc.status, status);
}

/* No completion at either end for a while. */
static inline void rig_expect_nothing(struct end *a, struct end *b, uint64_t ns)
{
    uint64_t until = tb_now() + ns;
    struct tb_ibv_wc wc;

    while (tb_now() < until) {
        CHECK_EQ(tb_ibv_poll_cq(a->cq, 1, &wc), 0);
        CHECK_EQ(tb_ibv_poll_cq(b->cq, 1, &wc), 0);
        tb_yield();
    }
}

static inline void rig_fill(char *p, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)(seed + i * 7 + i / 251);
}

/* Sends one message from a to b and checks its bytes. */
static inline void rig_exchange(struct end *a, struct end *b, uint32_t bytes)
{
    rig_fill(a->memory, bytes, bytes);
    CHECK_EQ(rig_recv(b, 1, 0, bytes), 0);
    CHECK_EQ(rig_send(a, 2, 0, bytes), 0);
    rig_expect(a, 2, TB_IBV_WC_SEND);
    rig_expect(b, 1, TB_IBV_WC_RECV);
    CHECK(!memcmp(a->memory, b->memory, bytes));
}

/* Waits for a child that must end with `code`. */
static inline void rig_reap(pid_t child, int code)
{
    int status;

    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), code);
}

#endif
