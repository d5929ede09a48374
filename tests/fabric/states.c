/* SPDX-License-Identifier: MIT */
/* Bringing a queue pair up, and every way in which that fails. */
#include "fabric/rig.h"

#define MS 1000000u

static struct end a, b;

static void prepare_both(const char *settings)
{
    rig_make(settings);
    rig_prepare(&a, 0);
    rig_prepare(&b, 1);
    CHECK_EQ(rig_to_init(a.qp), 0);
}

static int rtr(const union tb_ibv_gid *gid, uint8_t index)
{
    return rig_to_rtr(a.qp, b.qp->qp_num, gid, index);
}

static void steps_come_in_order(void)
{
    rig_make("");
    rig_prepare(&a, 0);
    rig_prepare(&b, 1);
    CHECK_EQ(rtr(&b.gid, 1), 22);
    CHECK_EQ(rig_to_rts(a.qp), 22);
    CHECK_EQ(rig_to_init(a.qp), 0);
    CHECK_EQ(rig_to_init(a.qp), 22);
    CHECK_EQ(rig_to_rts(a.qp), 22);
    CHECK_EQ(rtr(&b.gid, 1), 0);
    CHECK_EQ(rig_to_rts(a.qp), 0);
    CHECK_EQ(a.qp->state, TB_IBV_QPS_RTS);
    CHECK_EQ(rig_to(a.qp, TB_IBV_QPS_RESET), 0);
    CHECK_EQ(rig_to_init(a.qp), 0);
    rig_end(&a, &b);
}

/* RTR takes what UC has, no more and no less. */
static void rtr_wants_its_attributes(void)
{
    const int mask = TB_IBV_QP_STATE | TB_IBV_QP_AV | TB_IBV_QP_PATH_MTU |
                     TB_IBV_QP_DEST_QPN | TB_IBV_QP_RQ_PSN;
    struct tb_ibv_qp_attr attr = {.qp_state = TB_IBV_QPS_RTR,
                                  .path_mtu = TB_IBV_MTU_1024};

    prepare_both("");
    attr.ah_attr.grh.dgid = b.gid;
    attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.port_num = 1;
    CHECK_EQ(rig_modify_qp(a.qp, &attr, mask), 22); /* not global */
    attr.ah_attr.is_global = 1;
    CHECK_EQ(rig_modify_qp(a.qp, &attr, mask & ~TB_IBV_QP_RQ_PSN), 22);
    CHECK_EQ(rig_modify_qp(a.qp, &attr, mask | 1 << 15), 22); /* RNR timer */
    CHECK_EQ(rig_modify_qp(a.qp, &attr, mask), 0);
    rig_end(&a, &b);
}

static void rtr_wants_a_gid_that_fits(void)
{
    union tb_ibv_gid none = {{0}}, local;

    prepare_both("");
    CHECK_EQ(rtr(&b.gid, 9), 22); /* no such index */
    CHECK_EQ(rtr(&b.gid, 0), 22); /* fe80 cannot reach IPv4 */
    CHECK_EQ(rtr(&none, 1), 22);
    /* From fe80 to fe80 is a way as well. */
    CHECK(!rig_query_gid(b.context, 1, 0, &local));
    CHECK_EQ(rtr(&local, 0), 0);
    rig_end(&a, &b);
}

static void rtr_without_an_address_is_22(void)
{
    prepare_both("");
    rig_fault("address 0 rdma_en2 none");
    CHECK_EQ(rtr(&b.gid, 1), 22);
    rig_end(&a, &b);
}

static void rtr_to_an_unknown_gid_is_60(void)
{
    union tb_ibv_gid other;

    prepare_both("");
    other = b.gid;
    other.raw[15]++;
    CHECK_EQ(rtr(&other, 1), 60);
    CHECK_EQ(rtr(&a.gid, 1), 60); /* our own: there is no loop */
    /* The address of the peer changed, as it may when a cable is replugged. */
    rig_fault("address 1 rdma_en3 169.254.9.9");
    CHECK_EQ(rtr(&b.gid, 1), 60);
    rig_fault("set errno native");
    CHECK_EQ(rtr(&b.gid, 1), ETIMEDOUT);
    rig_end(&a, &b);
}

static void rtr_with_an_empty_neighbour_cache_is_60(void)
{
    prepare_both("set neighbour empty\n");
    CHECK_EQ(rtr(&b.gid, 1), 60);
    rig_fault("set neighbour known"); /* a ping */
    CHECK_EQ(rtr(&b.gid, 1), 0);
    rig_end(&a, &b);
}

static void rtr_fails_as_the_switch_says(void)
{
    static const int codes[] = {16, 96, 14};

    prepare_both("");
    for (size_t i = 0; i < TB_COUNT_OF(codes); i++) {
        rig_fault("set rtr_errno %d", codes[i]);
        CHECK_EQ(rtr(&b.gid, 1), codes[i]);
    }
    rig_fault("set rtr_errno 0");
    CHECK_EQ(rtr(&b.gid, 1), 0);
    rig_end(&a, &b);
}

static void receives_wait_for_rts(void)
{
    prepare_both("");
    CHECK_EQ(rig_recv(&a, 1, 0, 64), 22);
    CHECK_EQ(rtr(&b.gid, 1), 0);
    CHECK_EQ(rig_recv(&a, 1, 0, 64), 22);
    CHECK_EQ(rig_to_rts(a.qp), 0);
    CHECK_EQ(rig_recv(&a, 1, 0, 64), 0);
    rig_end(&a, &b);
}

static void receives_before_rts_under_a_switch(void)
{
    prepare_both("set recv_before_rts accept\n");
    CHECK_EQ(rig_to_init(b.qp), 0);
    CHECK_EQ(rig_recv(&a, 1, 0, 64), 0);
    CHECK_EQ(rtr(&b.gid, 1), 0);
    /* RTR suffices to receive. */
    CHECK_EQ(rig_to_rtr(b.qp, a.qp->qp_num, &a.gid, 1), 0);
    CHECK_EQ(rig_to_rts(b.qp), 0);
    CHECK_EQ(rig_send(&b, 2, 0, 64), 0);
    rig_expect(&b, 2, TB_IBV_WC_SEND);
    rig_expect(&a, 1, TB_IBV_WC_RECV);
    rig_end(&a, &b);
}

static void sends_wait_for_rts(void)
{
    prepare_both("");
    CHECK_EQ(rig_send(&a, 1, 0, 64), 22);
    CHECK_EQ(rtr(&b.gid, 1), 0);
    CHECK_EQ(rig_send(&a, 1, 0, 64), 22);
    rig_end(&a, &b);
}

/* One side is up, the other failed: nothing but silence tells. */
static void a_half_open_pair_is_silent(void)
{
    prepare_both("");
    CHECK_EQ(rtr(&b.gid, 1), 0);
    CHECK_EQ(rig_to_rts(a.qp), 0);
    CHECK_EQ(rig_send(&a, 1, 0, 64), 0);
    rig_expect_nothing(&a, &b, 20 * MS);
    /* The other side comes up after all. */
    rig_raise(&b, a.qp->qp_num, &a.gid);
    CHECK_EQ(rig_recv(&b, 2, 0, 64), 0);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    rig_expect(&b, 2, TB_IBV_WC_RECV);
    rig_end(&a, &b);
}

/* Numbers are not used again soon: an old one reaches nobody. */
static void a_stale_number_reaches_nobody(void)
{
    uint32_t old;

    prepare_both("");
    old = b.qp->qp_num;
    CHECK_EQ(rig_destroy_qp(b.qp), 0);
    CHECK(b.qp = rig_pair(&b, 16));
    CHECK(b.qp->qp_num != old);
    CHECK_EQ(rig_to_rtr(a.qp, old, &b.gid, 1), 0);
    CHECK_EQ(rig_to_rts(a.qp), 0);
    rig_raise(&b, a.qp->qp_num, &a.gid);
    CHECK_EQ(rig_recv(&b, 1, 0, 64), 0);
    CHECK_EQ(rig_send(&a, 2, 0, 64), 0);
    rig_expect_nothing(&a, &b, 20 * MS);
    rig_end(&a, &b);
}

int main(void)
{
    steps_come_in_order();
    rtr_wants_its_attributes();
    rtr_wants_a_gid_that_fits();
    rtr_without_an_address_is_22();
    rtr_to_an_unknown_gid_is_60();
    rtr_with_an_empty_neighbour_cache_is_60();
    rtr_fails_as_the_switch_says();
    receives_wait_for_rts();
    receives_before_rts_under_a_switch();
    sends_wait_for_rts();
    a_half_open_pair_is_silent();
    a_stale_number_reaches_nobody();
    return 0;
}
