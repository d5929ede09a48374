/* SPDX-License-Identifier: MIT */
/*
 * Protection domains, completion queues, memory regions, queue pairs: made and
 * destroyed, within what a device gives to the whole machine.
 */
#include "fabric/objects.h"

#define MR_PAGE 16384
#define MR_KEY_SLOTS 4096 /* of a key; the rest tells its users apart */
#define CQE_MOST (TB_IBV_FRAMES_MOST + 1)

FAB_VERB(struct tb_ibv_pd *, alloc_pd, struct tb_ibv_context *context);
FAB_VERB(int, dealloc_pd, struct tb_ibv_pd *pd);
FAB_VERB(struct tb_ibv_cq *, create_cq, struct tb_ibv_context *context,
         int depth, void *cq_context, struct tb_ibv_comp_channel *channel,
         int vector);
FAB_VERB(int, destroy_cq, struct tb_ibv_cq *cq);
FAB_VERB(struct tb_ibv_comp_channel *, create_comp_channel,
         struct tb_ibv_context *context);
FAB_VERB(int, destroy_comp_channel, struct tb_ibv_comp_channel *channel);
FAB_VERB(struct tb_ibv_mr *, reg_mr, struct tb_ibv_pd *pd, void *addr,
         size_t length, int access);
FAB_VERB(struct tb_ibv_mr *, reg_mr_iova, struct tb_ibv_pd *pd, void *addr,
         size_t length, uint64_t iova, int access);
FAB_VERB(struct tb_ibv_mr *, reg_mr_iova2, struct tb_ibv_pd *pd, void *addr,
         size_t length, uint64_t iova, unsigned int access);
FAB_VERB(int, dereg_mr, struct tb_ibv_mr *mr);
FAB_VERB(struct tb_ibv_qp *, create_qp, struct tb_ibv_pd *pd,
         struct tb_ibv_qp_init_attr *attr);
FAB_VERB(int, destroy_qp, struct tb_ibv_qp *qp);

/* ------------------------------------------------------------------ claims */

/* Claims a free one of `count` words, of which at most `most` may be taken.
 * Returns its index; -1: none is free. */
static int claim(struct fab_context *c, _Atomic uint32_t *word, int count,
                 uint64_t most)
{
    int found = -1;
    uint64_t taken = 0;

    if (fab_lock(c->handle->map))
        return -1;
    fab_reap(c->handle->map);
    for (int i = 0; i < count; i++) {
        if (word[i])
            taken++;
        else if (found < 0)
            found = i;
    }
    if (taken >= most)
        found = -1;
    else if (found >= 0)
        word[found] = c->owner;
    fab_unlock(c->handle->map);
    return found;
}

static void *refuse(const struct fab_context *c, int darwin)
{
    errno = fab_code(c->s, darwin);
    return NULL;
}

void fab_empty(struct fab_context *c)
{
    for (int i = 0; i < FAB_QPS; i++) {
        if (c->pair[i])
            fab_destroy_qp(&c->pair[i]->pub);
    }
    for (int i = 0; i < FAB_MRS; i++) {
        if (c->region[i])
            fab_dereg_mr(&c->region[i]->pub);
    }
    for (int i = 0; i < FAB_CQS; i++) {
        if (c->cq[i])
            fab_destroy_cq(&c->cq[i]->pub);
    }
    for (int i = 0; i < FAB_PDS; i++) {
        if (c->domain[i])
            fab_dealloc_pd(&c->domain[i]->pub);
    }
}

/* ------------------------------------------------------ protection domains */

struct tb_ibv_pd *fab_alloc_pd(struct tb_ibv_context *context)
{
    struct fab_context *c = (struct fab_context *)context;
    struct fab_domain *pd;
    int slot;

    if (!fab_linked(c->s, c->d))
        return refuse(c, FAB_ENXIO);
    slot = claim(c, c->d->pd, FAB_PDS, fab_sw(c->s, FAB_SW_pd_max));
    if (slot < 0)
        return refuse(c, FAB_ENOMEM);
    pd = tb_calloc(1, sizeof(*pd));
    if (!pd) {
        c->d->pd[slot] = 0;
        return refuse(c, FAB_ENOMEM);
    }
    pd->pub.context = context;
    pd->pub.handle = (uint32_t)slot;
    c->domain[slot] = pd;
    return &pd->pub;
}

int fab_dealloc_pd(struct tb_ibv_pd *pub)
{
    struct fab_domain *pd = (struct fab_domain *)pub;
    struct fab_context *c = (struct fab_context *)pub->context;

    if (pd->objects)
        return fab_code(c->s, FAB_EBUSY);
    c->domain[pub->handle] = NULL;
    c->d->pd[pub->handle] = 0;
    tb_free(pd);
    return 0;
}

/* ------------------------------------------------------- completion queues */

struct tb_ibv_cq *fab_create_cq(struct tb_ibv_context *context, int depth,
                                void *cq_context,
                                struct tb_ibv_comp_channel *channel, int vector)
{
    struct fab_context *c = (struct fab_context *)context;
    struct fab_cq *cq;
    int slot;

    if (depth < 1 || depth > CQE_MOST || channel || vector)
        return refuse(c, FAB_EINVAL);
    slot = claim(c, c->d->cq, FAB_CQS, fab_sw(c->s, FAB_SW_cq_max));
    if (slot < 0)
        return refuse(c, FAB_ENOMEM);
    cq = tb_calloc(1, sizeof(*cq));
    if (!cq) {
        c->d->cq[slot] = 0;
        return refuse(c, FAB_ENOMEM);
    }
    cq->pub.context = context;
    cq->pub.cq_context = cq_context;
    cq->pub.handle = (uint32_t)slot;
    cq->pub.cqe = depth;
    c->cq[slot] = cq;
    return &cq->pub;
}

int fab_destroy_cq(struct tb_ibv_cq *pub)
{
    struct fab_cq *cq = (struct fab_cq *)pub;
    struct fab_context *c = (struct fab_context *)pub->context;

    if (cq->users)
        return fab_code(c->s, FAB_EBUSY);
    c->cq[pub->handle] = NULL;
    c->d->cq[pub->handle] = 0;
    tb_free(cq);
    return 0;
}

/* Nobody has seen one work there. */
struct tb_ibv_comp_channel *
fab_create_comp_channel(struct tb_ibv_context *context)
{
    return refuse((struct fab_context *)context, FAB_EOPNOTSUPP);
}

int fab_req_notify_cq(struct tb_ibv_cq *cq, int solicited_only)
{
    (void)solicited_only;
    return fab_code(((struct fab_context *)cq->context)->s, FAB_EOPNOTSUPP);
}

int fab_destroy_comp_channel(struct tb_ibv_comp_channel *channel)
{
    (void)channel;
    return FAB_EINVAL;
}

/* ---------------------------------------------------------- memory regions */

static bool access_allowed(const struct fab_state *s, unsigned access)
{
    const unsigned local = TB_IBV_ACCESS_LOCAL_WRITE;
    const unsigned wide =
        local | TB_IBV_ACCESS_REMOTE_READ | TB_IBV_ACCESS_REMOTE_WRITE;

    switch (fab_sw(s, FAB_SW_mr_access)) {
    case FAB_ACCESS_WIDE:
        return (access & wide) == wide;
    case FAB_ACCESS_LOCAL:
        return access == local;
    default:
        return access & local;
    }
}

static int claim_region(struct fab_context *c, uint32_t domain)
{
    struct fab_device *d = c->d;
    bool by_domain = fab_sw(c->s, FAB_SW_mr_scope) == FAB_SCOPE_PD;
    uint64_t taken = 0;
    int found = -1;

    if (fab_lock(c->handle->map))
        return -1;
    fab_reap(c->handle->map);
    for (int i = 0; i < FAB_MRS; i++) {
        if (!d->mr[i]) {
            if (found < 0)
                found = i;
        } else if (!by_domain || d->mr_pd[i] == domain) {
            taken++;
        }
    }
    if (taken >= fab_sw(c->s, FAB_SW_mr_max))
        found = -1;
    if (found >= 0) {
        d->mr_pd[found] = domain;
        d->mr[found] = c->owner;
    }
    fab_unlock(c->handle->map);
    return found;
}

static struct tb_ibv_mr *add_region(struct fab_context *c, int slot,
                                    const struct tb_ibv_mr *pub)
{
    struct fab_region *r = tb_calloc(1, sizeof(*r));
    static _Atomic uint32_t salt;

    if (!r) {
        c->d->mr[slot] = 0;
        return refuse(c, FAB_ENOMEM);
    }
    r->pub = *pub;
    r->key = (atomic_fetch_add_explicit(&salt, 1, memory_order_relaxed) + 1) *
                 MR_KEY_SLOTS +
             (uint32_t)slot + 1;
    r->pub.lkey = r->pub.rkey = r->key;
    r->pub.handle = (uint32_t)slot;
    r->misplaces = fab_sw(c->s, FAB_SW_mr_4g) == FAB_4G_ALIAS &&
                   (uintptr_t)pub->addr >> 32 !=
                       ((uintptr_t)pub->addr + pub->length - 1) >> 32;
    fab_enter(c);
    c->region[slot] = r;
    ((struct fab_domain *)pub->pd)->objects++;
    fab_leave(c);
    return &r->pub;
}

/* Whether the device takes such a region at all; an error number if not. */
static int check_region(const struct fab_state *s, const struct tb_ibv_mr *mr,
                        unsigned access)
{
    uintptr_t from = (uintptr_t)mr->addr;

    if (!mr->length || from % MR_PAGE || from + mr->length < from ||
        !access_allowed(s, access))
        return FAB_EINVAL;
    if (fab_sw(s, FAB_SW_mr_4g) == FAB_4G_REFUSE &&
        from >> 32 != (from + mr->length - 1) >> 32)
        return FAB_EINVAL;
    return 0;
}

struct tb_ibv_mr *fab_reg_mr_iova2(struct tb_ibv_pd *pd, void *addr,
                                   size_t length, uint64_t iova,
                                   unsigned int access)
{
    /* Without a domain this faults, as the real one does. */
    struct tb_ibv_context *context = pd->context;
    struct fab_context *c = (struct fab_context *)context;
    struct tb_ibv_mr mr = {
        .context = context, .pd = pd, .addr = addr, .length = length};
    int code = check_region(c->s, &mr, access), slot;

    if (code)
        return refuse(c, code);
    if (iova != (uintptr_t)addr) {
        errno = -fab_code(c->s, FAB_EOPNOTSUPP);
        return NULL;
    }
    slot = claim_region(c, pd->handle);
    if (slot < 0)
        return refuse(c, FAB_ENOMEM);
    return add_region(c, slot, &mr);
}

struct tb_ibv_mr *fab_reg_mr_iova(struct tb_ibv_pd *pd, void *addr,
                                  size_t length, uint64_t iova, int access)
{
    return fab_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

struct tb_ibv_mr *fab_reg_mr(struct tb_ibv_pd *pd, void *addr, size_t length,
                             int access)
{
    return fab_reg_mr_iova2(pd, addr, length, (uintptr_t)addr,
                            (unsigned)access);
}

int fab_dereg_mr(struct tb_ibv_mr *pub)
{
    struct fab_context *c = (struct fab_context *)pub->context;

    fab_enter(c);
    c->region[pub->handle] = NULL;
    ((struct fab_domain *)pub->pd)->objects--;
    fab_leave(c);
    c->d->mr[pub->handle] = 0;
    tb_free(pub);
    return 0;
}

/* ------------------------------------------------------------- queue pairs */

static int check_pair(const struct fab_context *c,
                      const struct tb_ibv_qp_init_attr *attr)
{
    const struct tb_ibv_qp_cap *cap = &attr->cap;
    bool split = fab_sw(c->s, FAB_SW_sge) == FAB_SGE_SPLIT;

    if (attr->qp_type != TB_IBV_QPT_UC)
        return FAB_EOPNOTSUPP;
    if (!attr->send_cq || !attr->recv_cq || attr->srq || cap->max_inline_data ||
        cap->max_send_wr > TB_IBV_FRAMES_MOST ||
        cap->max_recv_wr > TB_IBV_FRAMES_MOST ||
        (!split && (cap->max_send_sge > 1 || cap->max_recv_sge > 1)))
        return FAB_EINVAL;
    return 0;
}

/* Seen: 256 gave 1023 and 4095 gave 4095. The step between is a guess. */
static uint32_t grant_depth(const struct fab_state *s, uint32_t asked)
{
    switch (fab_sw(s, FAB_SW_depth)) {
    case FAB_DEPTH_EXACT:
        return asked;
    case FAB_DEPTH_HALF:
        return TB_MAX(asked / 2, 1);
    default:
        return asked <= 1023 ? 1023 : asked <= 2047 ? 2047 : 4095;
    }
}

static int claim_pair(struct fab_context *c)
{
    struct fab_device *d = c->d;
    uint64_t taken = 0;
    int found = -1;

    if (fab_lock(c->handle->map))
        return -1;
    fab_reap(c->handle->map);
    for (int i = 0; i < FAB_QPS; i++) {
        if (d->qp[i].owner)
            taken++;
        else if (found < 0)
            found = i;
    }
    if (taken >= fab_sw(c->s, FAB_SW_qp_max))
        found = -1;
    if (found >= 0) {
        struct fab_qp *me = &d->qp[found];
        me->state = TB_IBV_QPS_RESET;
        me->dest = 0;
        me->taken_of = 0;
        me->posted = me->matched = 0;
        me->births++;
        me->owner = c->owner;
    }
    fab_unlock(c->handle->map);
    return found;
}

static void give_back_pair(struct fab_context *c, struct fab_qp *me)
{
    /* Without the lock: nobody else has a say in it, but for `show`. */
    bool locked = !fab_lock(c->handle->map);

    fab_qp_vacate(c->d, me);
    if (locked)
        fab_unlock(c->handle->map);
}

/* Its number says device and slot, and in the upper bits which of the slot's
 * users it is; 24 bits in all, and never 0 or 1. */
static uint32_t number_of(uint32_t births, uint32_t device, uint32_t slot)
{
    return (births % 2047 + 1) << 13 | device << 4 | slot;
}

static void join_cq(struct fab_cq *cq, struct fab_pair *q)
{
    for (int i = 0; i < cq->users; i++) {
        if (cq->pair[i] == q)
            return;
    }
    cq->pair[cq->users++] = q;
}

static void quit_cq(struct fab_cq *cq, struct fab_pair *q)
{
    for (int i = 0; i < cq->users; i++) {
        if (cq->pair[i] == q) {
            cq->pair[i] = cq->pair[--cq->users];
            cq->next = 0;
            return;
        }
    }
}

static void set_up_pair(struct fab_pair *q, struct tb_ibv_pd *pd,
                        struct tb_ibv_qp_init_attr *attr, uint32_t slot)
{
    struct fab_context *c = (struct fab_context *)pd->context;
    uint32_t device = c->handle->index;

    attr->cap.max_send_wr = grant_depth(c->s, attr->cap.max_send_wr);
    attr->cap.max_recv_wr = grant_depth(c->s, attr->cap.max_recv_wr);
    attr->cap.max_send_sge = TB_MAX(attr->cap.max_send_sge, 1);
    attr->cap.max_recv_sge = TB_MAX(attr->cap.max_recv_sge, 1);
    q->c = c;
    q->me = &c->d->qp[slot];
    q->slot = slot;
    q->signal_all = attr->sq_sig_all;
    q->attr.cap = attr->cap;
    q->plugs = c->cable->plugs;
    q->out = fab_messages(c->s, device, slot);
    q->pub.context = pd->context;
    q->pub.qp_context = attr->qp_context;
    q->pub.pd = pd;
    q->pub.send_cq = attr->send_cq;
    q->pub.recv_cq = attr->recv_cq;
    q->pub.handle = slot;
    q->pub.qp_num = number_of(q->me->births, device, slot);
    q->pub.state = TB_IBV_QPS_RESET;
    q->pub.qp_type = attr->qp_type;
    q->dice =
        (fab_sw(c->s, FAB_SW_seed) + 1) * 0x9e3779b97f4a7c15 ^ q->pub.qp_num;
    q->me->depth_send = attr->cap.max_send_wr;
    q->me->depth_recv = attr->cap.max_recv_wr;
    q->me->number = q->pub.qp_num;
}

struct tb_ibv_qp *fab_create_qp(struct tb_ibv_pd *pd,
                                struct tb_ibv_qp_init_attr *attr)
{
    struct fab_context *c = (struct fab_context *)pd->context;
    int code = check_pair(c, attr), slot;
    struct fab_pair *q;

    if (code)
        return refuse(c, code);
    slot = claim_pair(c);
    if (slot < 0)
        return refuse(c, FAB_EBUSY);
    q = tb_calloc(1, sizeof(*q));
    if (!q) {
        give_back_pair(c, &c->d->qp[slot]);
        return refuse(c, FAB_ENOMEM);
    }
    set_up_pair(q, pd, attr, (uint32_t)slot);
    fab_enter(c);
    join_cq((struct fab_cq *)attr->send_cq, q);
    join_cq((struct fab_cq *)attr->recv_cq, q);
    c->pair[slot] = q;
    ((struct fab_domain *)pd)->objects++;
    fab_leave(c);
    return &q->pub;
}

int fab_destroy_qp(struct tb_ibv_qp *pub)
{
    struct fab_pair *q = (struct fab_pair *)pub;
    struct fab_context *c = q->c;

    fab_enter(c);
    quit_cq((struct fab_cq *)pub->send_cq, q);
    quit_cq((struct fab_cq *)pub->recv_cq, q);
    c->pair[q->slot] = NULL;
    ((struct fab_domain *)pub->pd)->objects--;
    fab_leave(c);
    give_back_pair(c, q->me);
    tb_free(q->send);
    tb_free(q->recv);
    tb_free(q);
    return 0;
}
