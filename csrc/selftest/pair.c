/* SPDX-License-Identifier: MIT */
/*
 * A queue pair for one probe after the other. It goes back to RESET between
 * them and is destroyed at the end: drivers are said to leak with each one that
 * is made.
 */
#include "selftest/station.h"

#define CQ_ENTRIES (TB_IBV_FRAMES_MOST + 1)
#define PSN 7
#define PORT 1
#define SWEEP 16
#define TRIES 3

int tb_pair_make(struct tb_pair *out, struct tb_station *st,
                 const struct tb_ibv_qp_cap *cap)
{
    struct tb_verbs *v = st->verbs;
    struct tb_ibv_qp_init_attr init = {.cap = *cap, .qp_type = TB_IBV_QPT_UC};
    struct tb_ibv_qp_attr attr;
    int code;

    *out = (struct tb_pair){.st = st};
    out->cq = v->create_cq(st->device.context, CQ_ENTRIES, NULL, NULL, 0);
    if (!out->cq)
        return tb_code(-1);
    init.send_cq = init.recv_cq = out->cq;
    out->qp = v->create_qp(st->device.pd, &init);
    if (!out->qp) {
        code = tb_code(-1);
        tb_pair_drop(out);
        return code;
    }
    memset(&attr, 0, sizeof(attr));
    memset(&init, 0, sizeof(init));
    code = tb_code(v->query_qp(out->qp, &attr, TB_IBV_QP_CAP, &init));
    out->send_frames = attr.cap.max_send_wr;
    out->recv_frames = attr.cap.max_recv_wr;
    return code;
}

void tb_pair_drop(struct tb_pair *pair)
{
    if (pair->qp)
        pair->st->verbs->destroy_qp(pair->qp);
    if (pair->cq)
        pair->st->verbs->destroy_cq(pair->cq);
    pair->qp = NULL;
    pair->cq = NULL;
}

/* ------------------------------------------------------------------ states */

static int modify(struct tb_pair *p, struct tb_ibv_qp_attr *attr, int mask)
{
    return tb_code(
        p->st->verbs->modify_qp(p->qp, attr, mask | TB_IBV_QP_STATE));
}

static int to_reset(struct tb_pair *p)
{
    struct tb_ibv_wc left[SWEEP];
    struct tb_ibv_qp_attr attr;
    int code;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_RESET;
    code = modify(p, &attr, 0);
    while (tb_ibv_poll_cq(p->cq, SWEEP, left) > 0)
        continue;
    return code;
}

static int to_init(struct tb_pair *p)
{
    struct tb_ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_INIT;
    attr.port_num = PORT;
    return modify(p, &attr,
                  TB_IBV_QP_PKEY_INDEX | TB_IBV_QP_PORT |
                      TB_IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct tb_pair *p, const struct tb_qp_address *peer,
                  enum tb_ibv_mtu mtu)
{
    struct tb_ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_RTR;
    attr.path_mtu = mtu;
    attr.rq_psn = peer->psn;
    attr.dest_qp_num = peer->number;
    attr.ah_attr.dlid = peer->lid;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = PORT;
    attr.ah_attr.grh.sgid_index = p->st->device.gid_index;
    attr.ah_attr.grh.hop_limit = 1;
    memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
    return modify(p, &attr,
                  TB_IBV_QP_AV | TB_IBV_QP_PATH_MTU | TB_IBV_QP_DEST_QPN |
                      TB_IBV_QP_RQ_PSN);
}

static int to_rts(struct tb_pair *p, uint32_t psn)
{
    struct tb_ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = TB_IBV_QPS_RTS;
    attr.sq_psn = psn;
    return modify(p, &attr, TB_IBV_QP_SQ_PSN);
}

static void climb(struct tb_pair *p, const struct tb_qp_address addresses[2],
                  enum tb_ibv_mtu mtu, bool early, struct tb_steps *s)
{
    *s = (struct tb_steps){to_reset(p), TB_NO_CODE, TB_NO_CODE, TB_NO_CODE,
                           TB_NO_CODE};
    if (s->reset)
        return;
    s->init = to_init(p);
    if (s->init)
        return;
    if (early)
        s->early = tb_pair_receive(p, 0, p->st->in, TB_FRAME_BYTES);
    s->rtr = to_rtr(p, &addresses[1], mtu);
    if (!s->rtr)
        s->rts = to_rts(p, addresses[0].psn);
}

bool tb_pair_join(struct tb_pair *p, enum tb_ibv_mtu mtu, bool early,
                  struct tb_steps steps[2])
{
    struct tb_station *st = p->st;
    struct tb_qp_address addresses[2];
    struct tb_steps own[2];

    if (!steps)
        steps = own;
    memset(addresses, 0, sizeof(addresses));
    memcpy(addresses[0].gid, st->gid, sizeof(st->gid));
    addresses[0].number = p->qp->qp_num;
    addresses[0].psn = PSN + p->joins++;
    addresses[0].lid = st->device.lid;
    tb_swap(st, &addresses[0], &addresses[1], sizeof(addresses[0]));
    memcpy(addresses[1].gid, st->peer_gid, sizeof(st->peer_gid));
    climb(p, addresses, mtu, early, &steps[0]);
    tb_swap(st, &steps[0], &steps[1], sizeof(steps[0]));
    return !steps[0].rts && !steps[1].rts;
}

int tb_pair_reach(struct tb_pair *p)
{
    struct tb_qp_address peer = {.number = 1, .psn = PSN, .lid = 1};
    int code = to_reset(p);

    memcpy(peer.gid, p->st->peer_gid, sizeof(peer.gid));
    if (!code)
        code = to_init(p);
    return code ? code : to_rtr(p, &peer, p->st->device.mtu);
}

/* -------------------------------------------------------------------- work */

int tb_pair_post(struct tb_pair *p, struct tb_ibv_send_wr *wr)
{
    struct tb_ibv_send_wr *bad = NULL;

    return tb_code(tb_ibv_post_send(p->qp, wr, &bad));
}

int tb_pair_send(struct tb_pair *p, uint32_t number, const void *at,
                 uint32_t bytes)
{
    struct tb_ibv_sge sge = {(uint64_t)(uintptr_t)at, bytes,
                             p->st->region->lkey};
    struct tb_ibv_send_wr wr;

    memset(&wr, 0, sizeof(wr));
    wr.wr_id = number | TB_OF_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = TB_IBV_WR_SEND;
    wr.send_flags = TB_IBV_SEND_SIGNALED;
    return tb_pair_post(p, &wr);
}

int tb_pair_send_as(struct tb_pair *p, int opcode, unsigned flags,
                    uint32_t bytes)
{
    struct tb_ibv_sge sge = {(uint64_t)(uintptr_t)p->st->out, bytes,
                             p->st->region->lkey};
    struct tb_ibv_send_wr wr;

    memset(&wr, 0, sizeof(wr));
    wr.sg_list = &sge;
    wr.num_sge = bytes > 0;
    wr.opcode = (enum tb_ibv_wr_opcode)opcode;
    wr.send_flags = flags;
    wr.imm_data = 0x5a5a5a5a;
    return tb_pair_post(p, &wr);
}

int tb_pair_receive(struct tb_pair *p, uint32_t number, void *at,
                    uint32_t bytes)
{
    struct tb_ibv_sge sge = {(uint64_t)(uintptr_t)at, bytes,
                             p->st->region->lkey};
    struct tb_ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1};
    struct tb_ibv_recv_wr *bad = NULL;

    return tb_code(tb_ibv_post_recv(p->qp, &wr, &bad));
}

int tb_pair_await(struct tb_pair *p, int n, uint64_t ns, struct tb_ibv_wc *out)
{
    uint64_t until = tb_now() + ns;
    int found = 0;

    do {
        int got = tb_ibv_poll_cq(p->cq, n - found, out + found);
        if (got > 0)
            found += got;
        else
            tb_yield();
    } while (found < n && tb_now() < until);
    return found;
}

int32_t tb_pair_outcome(struct tb_pair *p, uint64_t ns)
{
    struct tb_ibv_wc wc;

    return tb_pair_await(p, 1, ns, &wc) ? (int32_t)wc.status : TB_NO_CODE;
}

/* ------------------------------------------------------------------- probes */

static bool is_weak(const char *weak, const char *seen)
{
    const char *at = *seen ? strstr(weak, seen) : NULL;

    return at && at > weak && at[-1] == ' ' && at[strlen(seen)] == ' ';
}

void tb_probe(struct tb_station *st, struct tb_pair *pair, const char *probe,
              const char *weak, tb_try try)
{
    char values[TB_VALUES];
    const char *seen = NULL;
    int32_t again = 1, theirs;

    tb_begin(st, probe);
    for (int i = 0; i < TRIES && again; i++) {
        values[0] = 0;
        seen = try(st, pair, values);
        again = seen && is_weak(weak, seen);
        tb_swap(st, &again, &theirs, sizeof(again));
        again |= theirs;
    }
    if (st->side == 0 && seen)
        tb_report(st, probe, seen, "", "%s", values);
}
