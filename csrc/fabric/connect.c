/* SPDX-License-Identifier: MIT */
/* A queue pair's states: RESET, INIT, RTR, RTS, and back. */
#include "fabric/objects.h"

FAB_VERB(int, modify_qp, struct tb_ibv_qp *qp, struct tb_ibv_qp_attr *attr,
         int mask);
FAB_VERB(int, query_qp, struct tb_ibv_qp *qp, struct tb_ibv_qp_attr *attr,
         int mask, struct tb_ibv_qp_init_attr *init);

/* What each step must have in its mask; there is nothing else it may have. */
#define INIT_NEEDS (TB_IBV_QP_STATE | TB_IBV_QP_PORT)
#define INIT_MAY (TB_IBV_QP_PKEY_INDEX | TB_IBV_QP_ACCESS_FLAGS)
#define RTR_NEEDS                                          \
    (TB_IBV_QP_STATE | TB_IBV_QP_AV | TB_IBV_QP_PATH_MTU | \
     TB_IBV_QP_DEST_QPN | TB_IBV_QP_RQ_PSN)
#define RTS_NEEDS (TB_IBV_QP_STATE | TB_IBV_QP_SQ_PSN)

static void set_state(struct fab_pair *q, enum tb_ibv_qp_state state)
{
    q->pub.state = state;
    /* Release: whoever sees the state sees what it was set up with. */
    atomic_store_explicit(&q->me->state, (uint32_t)state, memory_order_release);
}

/* Forgets all work. Messages that are still on their way to us belong to the
 * old epoch, and are dropped when they come. */
static void reset(struct fab_pair *q)
{
    set_state(q, TB_IBV_QPS_RESET);
    q->send_head = q->send_sent = q->send_booked = q->send_tail;
    q->recv_head = q->recv_tail;
    q->send_frames = q->recv_frames = 0;
    q->posted = q->matched = q->credit = 0;
    q->copied = 0;
}

static int to_init(struct fab_pair *q, const struct tb_ibv_qp_attr *attr,
                   int mask)
{
    if (q->pub.state != TB_IBV_QPS_RESET || attr->port_num != 1 ||
        (mask & INIT_NEEDS) != INIT_NEEDS || (mask & ~(INIT_NEEDS | INIT_MAY)))
        return FAB_EINVAL;
    q->attr.port_num = 1;
    q->attr.qp_access_flags = attr->qp_access_flags;
    q->rx_epoch = q->me->rx_epoch + 1;
    atomic_store_explicit(&q->me->posted, 0, memory_order_relaxed);
    atomic_store_explicit(&q->me->matched, 0, memory_order_relaxed);
    /* Release: a peer that sees the new epoch sees the counts at zero. */
    atomic_store_explicit(&q->me->rx_epoch, q->rx_epoch, memory_order_release);
    set_state(q, TB_IBV_QPS_INIT);
    return 0;
}

/* Whether the device at the other end has that GID. */
static bool reaches(const struct fab_context *c, const union tb_ibv_gid *dgid)
{
    const struct fab_device *peer = &c->s->device[c->d->peer];
    union tb_ibv_gid gid;

    for (uint32_t i = 0; fab_gid(peer, i, &gid); i++) {
        if (gid.raw[0] | gid.raw[10] && !memcmp(&gid, dgid, sizeof(gid)))
            return true;
    }
    return false;
}

/* True when a process that was killed has left something on this device. */
static bool has_leaks(struct fab_context *c)
{
    bool found = false;

    if (!fab_sw(c->s, FAB_SW_leak) || fab_lock(c->handle->map))
        return false;
    fab_reap(c->handle->map);
    for (int i = 0; i < FAB_QPS; i++)
        found |= fab_leaked(c->s, c->d->qp[i].owner);
    for (int i = 0; i < FAB_PDS; i++)
        found |= fab_leaked(c->s, c->d->pd[i]);
    fab_unlock(c->handle->map);
    return found;
}

static int check_way(struct fab_context *c, const struct tb_ibv_ah_attr *ah)
{
    union tb_ibv_gid own;

    if (!ah->is_global || ah->port_num != 1 ||
        !fab_gid(c->d, ah->grh.sgid_index, &own) ||
        !(own.raw[0] | own.raw[10]) ||
        fab_gid_is_ipv4(&own) != fab_gid_is_ipv4(&ah->grh.dgid))
        return FAB_EINVAL;
    if (!fab_linked(c->s, c->d) || !reaches(c, &ah->grh.dgid) ||
        fab_sw(c->s, FAB_SW_neighbour) == FAB_NEIGHBOUR_EMPTY)
        return FAB_ETIMEDOUT;
    if (has_leaks(c))
        return (int)fab_sw(c->s, FAB_SW_leak_errno);
    return (int)fab_sw(c->s, FAB_SW_rtr_errno);
}

static int to_rtr(struct fab_pair *q, const struct tb_ibv_qp_attr *attr,
                  int mask)
{
    struct fab_context *c = q->c;
    struct fab_device *peer = &c->s->device[c->d->peer];
    uint32_t slot = attr->dest_qp_num % FAB_QPS;
    int code;

    if (q->pub.state != TB_IBV_QPS_INIT || mask != RTR_NEEDS ||
        attr->path_mtu < 1 || attr->path_mtu > TB_IBV_MTU_4096)
        return FAB_EINVAL;
    q->plugs = c->cable->plugs;
    code = check_way(c, &attr->ah_attr);
    if (code)
        return code;
    q->attr.path_mtu = attr->path_mtu;
    q->attr.rq_psn = attr->rq_psn;
    q->attr.dest_qp_num = attr->dest_qp_num;
    q->attr.ah_attr = attr->ah_attr;
    if (attr->dest_qp_num != q->dest) {
        /* What was taken of another peer's means nothing now. */
        q->in_epoch = 0;
        atomic_store_explicit(&q->me->taken_of, 0, memory_order_relaxed);
    }
    q->dest = attr->dest_qp_num;
    q->peer = &peer->qp[slot];
    q->in = fab_messages(c->s, c->d->peer, slot);
    atomic_store_explicit(&q->me->dest, q->dest, memory_order_release);
    set_state(q, TB_IBV_QPS_RTR);
    return 0;
}

static int to_rts(struct fab_pair *q, const struct tb_ibv_qp_attr *attr,
                  int mask)
{
    if (q->pub.state != TB_IBV_QPS_RTR || mask != RTS_NEEDS)
        return FAB_EINVAL;
    q->attr.sq_psn = attr->sq_psn;
    q->tx_epoch = q->me->tx_epoch + 1;
    q->booked = q->published = q->freed = 0;
    q->credit = 0;
    q->to_epoch = 0;
    q->place = 0;
    q->last_due = 0;
    atomic_store_explicit(&q->me->tail, 0, memory_order_relaxed);
    /* Release: a peer that sees the new epoch sees an empty ring. */
    atomic_store_explicit(&q->me->tx_epoch, q->tx_epoch, memory_order_release);
    set_state(q, TB_IBV_QPS_RTS);
    return 0;
}

static int change(struct fab_pair *q, const struct tb_ibv_qp_attr *attr,
                  int mask)
{
    if (!(mask & TB_IBV_QP_STATE))
        return FAB_EINVAL;
    switch (attr->qp_state) {
    case TB_IBV_QPS_RESET:
        reset(q);
        return 0;
    case TB_IBV_QPS_INIT:
        return to_init(q, attr, mask);
    case TB_IBV_QPS_RTR:
        return to_rtr(q, attr, mask);
    case TB_IBV_QPS_RTS:
        return to_rts(q, attr, mask);
    case TB_IBV_QPS_ERR:
        set_state(q, TB_IBV_QPS_ERR);
        return 0;
    default:
        return FAB_EINVAL;
    }
}

int fab_modify_qp(struct tb_ibv_qp *qp, struct tb_ibv_qp_attr *attr, int mask)
{
    struct fab_pair *q = (struct fab_pair *)qp;
    int code;

    fab_enter(q->c);
    code = fab_code(q->c->s, change(q, attr, mask));
    fab_leave(q->c);
    if (code)
        errno = code;
    return code;
}

int fab_query_qp(struct tb_ibv_qp *qp, struct tb_ibv_qp_attr *attr, int mask,
                 struct tb_ibv_qp_init_attr *init)
{
    struct fab_pair *q = (struct fab_pair *)qp;

    (void)mask; /* it may say more than was asked */
    fab_enter(q->c);
    *attr = q->attr;
    attr->qp_state = attr->cur_qp_state = q->pub.state;
    memset(init, 0, sizeof(*init));
    init->qp_context = qp->qp_context;
    init->send_cq = qp->send_cq;
    init->recv_cq = qp->recv_cq;
    init->cap = q->attr.cap;
    init->qp_type = qp->qp_type;
    init->sq_sig_all = q->signal_all;
    fab_leave(q->c);
    return 0;
}
