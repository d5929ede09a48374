/* SPDX-License-Identifier: MIT */
/*
 * A program that knows nothing of tbmpi: rdma-core's header and library. On a
 * virtual Mac it must see refused what Apple's verbs refuse. Prints a line for
 * each thing tried.
 */
#include <infiniband/verbs.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ALL \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void say(const char *what, int taken)
{
    printf("%s %s %d\n", what, taken ? "taken" : "refused", taken ? 0 : errno);
}

static struct ibv_qp *make(enum ibv_qp_type type, unsigned sges, unsigned bytes)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {16, 16, sges, 1, bytes},
        .qp_type = type,
    };

    errno = 0;
    return ibv_create_qp(pd, &attr);
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, int sges)
{
    struct ibv_sge sge[2] = {{0}};
    struct ibv_send_wr wr = {.sg_list = sge, .num_sge = sges, .opcode = opcode};
    struct ibv_send_wr *bad;

    return errno = ibv_post_send(qp, &wr, &bad);
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
    struct ibv_port_attr port;
    struct ibv_qp *qp;
    char *memory = aligned_alloc(16384, 65536);

    if (!context || !memory)
        return 1;
    if (ibv_query_port(context, 1, &port))
        return 1;
    printf("port %d\n", port.state);
    pd = ibv_alloc_pd(context);
    say("domain", pd != NULL);
    say("channel", ibv_create_comp_channel(context) != NULL);
    cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    if (!pd || !cq)
        return 1;
    say("RC", make(IBV_QPT_RC, 1, 0) != NULL);
    say("UD", make(IBV_QPT_UD, 1, 0) != NULL);
    say("two-SGEs", make(IBV_QPT_UC, 2, 0) != NULL);
    say("inline", make(IBV_QPT_UC, 1, 64) != NULL);
    say("page", ibv_reg_mr(pd, memory, 65536, ALL) != NULL);
    say("half-page", ibv_reg_mr(pd, memory + 4096, 4096, ALL) != NULL);
    qp = make(IBV_QPT_UC, 1, 0);
    say("UC", qp != NULL);
    if (!qp)
        return 1;
    say("early-send", !post(qp, IBV_WR_SEND, 1));
    /* The error state takes work, to flush it: enough to see opcodes. */
    ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR},
                  IBV_QP_STATE);
    say("send", !post(qp, IBV_WR_SEND, 1));
    say("send-two", !post(qp, IBV_WR_SEND, 2));
    say("write", !post(qp, IBV_WR_RDMA_WRITE, 1));
    say("read", !post(qp, IBV_WR_RDMA_READ, 1));
    say("atomic", !post(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 1));
    return ibv_close_device(context);
}
