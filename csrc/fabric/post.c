/* SPDX-License-Identifier: MIT */
/* The data path: posting work and polling for completions. */
#include "fabric/objects.h"

#define QUEUE_MOST 65536u /* where silent over-posting ends */
#define SCRIBBLE 0xdb
#define SCRIBBLE_BYTES 64 /* at each frame's start */

/* -------------------------------------------------------------- requests */

/* The region that an SGE lies in; NULL: none of this domain. */
static const struct fab_region *find_region(const struct fab_pair *q,
                                            const struct tb_ibv_sge *sge)
{
    uint32_t slot = sge->lkey & 0xfff;
    const struct fab_region *r;

    if (!slot || slot > FAB_MRS)
        return NULL;
    r = q->c->region[slot - 1];
    if (!r || r->key != sge->lkey || r->pub.pd != q->pub.pd ||
        sge->addr < (uintptr_t)r->pub.addr || sge->length > r->pub.length ||
        sge->addr - (uintptr_t)r->pub.addr > r->pub.length - sge->length)
        return NULL;
    return r;
}

/* How many leading bytes of an SGE the device finds where the program has
 * them: it knows the low half of addresses only. */
static uint32_t well_placed(const struct fab_region *r,
                            const struct tb_ibv_sge *sge)
{
    uint64_t line = (((uintptr_t)r->pub.addr >> 32) + 1) << 32;

    if (!r->misplaces)
        return sge->length;
    if (sge->addr >= line)
        return 0;
    return (uint32_t)TB_MIN(sge->length, line - sge->addr);
}

/* Makes room for one more request in a queue. False: no memory, or too many. */
static bool grow(void **items, size_t each, uint32_t *size, uint32_t head,
                 uint32_t tail)
{
    uint32_t used = tail - head, wider = TB_MAX(*size * 2, 64);
    char *now;

    if (used < *size)
        return true;
    if (used >= QUEUE_MOST)
        return false;
    now = tb_alloc(wider * each);
    if (!now)
        return false;
    for (uint32_t i = head; i != tail; i++)
        memcpy(now + (i & (wider - 1)) * each,
               (char *)*items + (i & (*size - 1)) * each, each);
    tb_free(*items);
    *items = now;
    *size = wider;
    return true;
}

/* The kernel has taken the mapping away with the cable. Touching it is what
 * the real library does; nothing is locked meanwhile. */
static void ring_doorbell(struct fab_context *c)
{
    if (TB_UNLIKELY(atomic_load_explicit(&c->s->pulled[c->d->cable],
                                         memory_order_relaxed) &&
                    c->cable->mode == FAB_PULL_SEGV))
        *c->doorbell = 1;
}

/* ---------------------------------------------------------------- sending */

static int check_send(const struct fab_pair *q, const struct tb_ibv_send_wr *w)
{
    const struct fab_state *s = q->c->s;

    if (q->pub.state != TB_IBV_QPS_RTS && q->pub.state != TB_IBV_QPS_ERR)
        return FAB_EINVAL;
    if (w->opcode != TB_IBV_WR_SEND &&
        !(w->opcode == TB_IBV_WR_RDMA_WRITE &&
          fab_sw(s, FAB_SW_rdma_write) == FAB_WRITE_SWALLOW))
        return FAB_EOPNOTSUPP;
    if (w->num_sge < 0 || (w->send_flags & TB_IBV_SEND_INLINE) ||
        (w->num_sge > 1 && fab_sw(s, FAB_SW_sge) == FAB_SGE_REFUSE))
        return FAB_EINVAL;
    return 0;
}

static void fill_send(const struct fab_pair *q, struct fab_send *to,
                      const struct tb_ibv_send_wr *w,
                      const struct tb_ibv_sge *sge)
{
    const struct fab_region *r = NULL;

    memset(to, 0, sizeof(*to));
    to->wr_id = w->wr_id;
    to->signaled = q->signal_all || (w->send_flags & TB_IBV_SEND_SIGNALED);
    to->frames = 1;
    if (sge) {
        r = find_region(q, sge);
        to->data = (const char *)(uintptr_t)sge->addr;
        to->bytes = sge->length;
        to->frames = fab_frames(sge->length);
        to->good = r ? well_placed(r, sge) : 0;
    }
    if (to->frames > TB_IBV_FRAMES_MOST)
        to->status = TB_IBV_WC_LOC_LEN_ERR;
    else if (sge && !r)
        to->status = TB_IBV_WC_LOC_PROT_ERR;
    to->nothing = to->status || w->opcode != TB_IBV_WR_SEND;
}

/* The queue was full and took the request all the same: what it did not fit
 * into was the oldest one's place. */
static void overwrite_send(struct fab_pair *q, const struct fab_send *newest)
{
    struct fab_send *oldest = &q->send[q->send_sent & (q->send_size - 1)];

    if (q->send_sent == q->send_tail)
        return;
    if (fab_sw(q->c->s, FAB_SW_overpost) == FAB_OVERPOST_CORRUPT) {
        oldest->data = newest->data;
        oldest->good = TB_MIN(newest->good, oldest->bytes);
    } else if (q->send_sent == q->send_booked) {
        oldest->status = TB_IBV_WC_LOC_LEN_ERR;
        oldest->nothing = true;
    }
}

static int add_send(struct fab_pair *q, const struct fab_send *w)
{
    bool over = q->send_frames + w->frames > q->attr.cap.max_send_wr;

    if (over && fab_sw(q->c->s, FAB_SW_overpost) == FAB_OVERPOST_REFUSE)
        return -FAB_ENOMEM;
    if (!grow((void **)&q->send, sizeof(*w), &q->send_size, q->send_head,
              q->send_tail))
        return -FAB_ENOMEM;
    if (TB_UNLIKELY(over))
        overwrite_send(q, w);
    q->send[q->send_tail++ & (q->send_size - 1)] = *w;
    q->send_frames += w->frames;
    return 0;
}

static int post_one_send(struct fab_pair *q, const struct tb_ibv_send_wr *w)
{
    int code = check_send(q, w);
    int count = code ? 0 : TB_MAX(w->num_sge, 1);

    /* The device ends a message at each SGE. */
    for (int i = 0; i < count && !code; i++) {
        struct fab_send item;
        fill_send(q, &item, w, w->num_sge ? &w->sg_list[i] : NULL);
        code = add_send(q, &item);
    }
    return code < 0 ? code : fab_code(q->c->s, code);
}

int fab_post_send(struct tb_ibv_qp *qp, struct tb_ibv_send_wr *list,
                  struct tb_ibv_send_wr **bad)
{
    struct fab_pair *q = (struct fab_pair *)qp;
    int code = 0;

    (void)bad; /* not set by the real one either */
    ring_doorbell(q->c);
    fab_enter(q->c);
    for (; list && !code; list = list->next)
        code = post_one_send(q, list);
    if (q->send_sent != q->send_tail)
        fab_push(q, tb_now());
    fab_leave(q->c);
    return code;
}

/* -------------------------------------------------------------- receiving */

static int check_recv(const struct fab_pair *q, const struct tb_ibv_recv_wr *w)
{
    const struct fab_state *s = q->c->s;

    if (q->pub.state == TB_IBV_QPS_RESET ||
        ((q->pub.state == TB_IBV_QPS_INIT || q->pub.state == TB_IBV_QPS_RTR) &&
         fab_sw(s, FAB_SW_recv_before_rts) == FAB_EARLY_REFUSE))
        return FAB_EINVAL;
    if (w->num_sge < 0 ||
        (w->num_sge > 1 && fab_sw(s, FAB_SW_sge) == FAB_SGE_REFUSE))
        return FAB_EINVAL;
    return 0;
}

/* The program may not look at this memory now; whoever does is to notice. */
static void scribble(const struct fab_pair *q, const struct fab_recv *r)
{
    uint64_t how = fab_sw(q->c->s, FAB_SW_scribble);

    if (how == FAB_SCRIBBLE_ALL)
        memset(r->data, SCRIBBLE, r->good);
    for (uint32_t at = 0; how == FAB_SCRIBBLE_FRAMES && at < r->good;
         at += TB_IBV_FRAME)
        memset(r->data + at, SCRIBBLE, TB_MIN(r->good - at, SCRIBBLE_BYTES));
}

static void fill_recv(const struct fab_pair *q, struct fab_recv *to,
                      const struct tb_ibv_recv_wr *w,
                      const struct tb_ibv_sge *sge)
{
    const struct fab_region *r = NULL;

    memset(to, 0, sizeof(*to));
    to->wr_id = w->wr_id;
    to->frames = 1;
    if (sge) {
        r = find_region(q, sge);
        to->data = (char *)(uintptr_t)sge->addr;
        to->bytes = sge->length;
        to->frames = fab_frames(sge->length);
        to->good = r ? well_placed(r, sge) : 0;
    }
    if (to->frames > TB_IBV_FRAMES_MOST)
        to->status = TB_IBV_WC_LOC_LEN_ERR;
    else if (sge && !r)
        to->status = TB_IBV_WC_LOC_PROT_ERR;
    if (fab_sw(q->c->s, FAB_SW_credit) == FAB_CREDIT_DROP)
        to->posted_at = tb_now();
    scribble(q, to);
}

static void overwrite_recv(struct fab_pair *q, const struct fab_recv *newest)
{
    struct fab_recv *oldest = &q->recv[q->recv_head & (q->recv_size - 1)];

    if (q->recv_head == q->recv_tail)
        return;
    if (fab_sw(q->c->s, FAB_SW_overpost) == FAB_OVERPOST_CORRUPT) {
        oldest->data = newest->data;
        oldest->good = TB_MIN(newest->good, oldest->good);
    } else {
        oldest->status = TB_IBV_WC_LOC_LEN_ERR;
    }
}

static int add_recv(struct fab_pair *q, const struct fab_recv *w)
{
    bool over = q->recv_frames + w->frames > q->attr.cap.max_recv_wr;

    if (over && fab_sw(q->c->s, FAB_SW_overpost) == FAB_OVERPOST_REFUSE)
        return -FAB_ENOMEM;
    if (!grow((void **)&q->recv, sizeof(*w), &q->recv_size, q->recv_head,
              q->recv_tail))
        return -FAB_ENOMEM;
    if (TB_UNLIKELY(over))
        overwrite_recv(q, w);
    q->recv[q->recv_tail++ & (q->recv_size - 1)] = *w;
    q->recv_frames += w->frames;
    q->posted++;
    return 0;
}

static int post_one_recv(struct fab_pair *q, const struct tb_ibv_recv_wr *w)
{
    int code = check_recv(q, w);
    int count = code ? 0 : TB_MAX(w->num_sge, 1);

    for (int i = 0; i < count && !code; i++) {
        struct fab_recv item;
        fill_recv(q, &item, w, w->num_sge ? &w->sg_list[i] : NULL);
        code = add_recv(q, &item);
    }
    return code < 0 ? code : fab_code(q->c->s, code);
}

int fab_post_recv(struct tb_ibv_qp *qp, struct tb_ibv_recv_wr *list,
                  struct tb_ibv_recv_wr **bad)
{
    struct fab_pair *q = (struct fab_pair *)qp;
    int code = 0;

    (void)bad;
    ring_doorbell(q->c);
    fab_enter(q->c);
    for (; list && !code; list = list->next)
        code = post_one_recv(q, list);
    /* The peer's credit; no memory of ours is touched by the peer. */
    atomic_store_explicit(&q->me->posted, q->posted, memory_order_release);
    fab_leave(q->c);
    return code;
}

/* ---------------------------------------------------------------- polling */

static int reap_sends(struct fab_pair *q, uint64_t now, int room,
                      struct tb_ibv_wc *out)
{
    int n = 0;

    while (n < room && q->send_head != q->send_sent) {
        struct fab_send *w = &q->send[q->send_head & (q->send_size - 1)];
        if (w->finish > now)
            break;
        /* A failed one completes whether it was signaled or not. */
        if (w->signaled || w->status)
            fab_complete(q, &out[n++], w->wr_id, w->status, TB_IBV_WC_SEND, 0);
        q->send_frames -= w->frames;
        q->send_head++;
    }
    return n;
}

static int flush_sends(struct fab_pair *q, int room, struct tb_ibv_wc *out)
{
    int n = 0;

    for (; n < room && q->send_head != q->send_tail; q->send_head++, n++) {
        struct fab_send *w = &q->send[q->send_head & (q->send_size - 1)];
        fab_complete(q, &out[n], w->wr_id, TB_IBV_WC_WR_FLUSH_ERR,
                     TB_IBV_WC_SEND, 0);
        q->send_frames -= w->frames;
    }
    if (q->send_head == q->send_tail)
        q->send_sent = q->send_booked = q->send_tail;
    return n;
}

static int flush_recvs(struct fab_pair *q, int room, struct tb_ibv_wc *out)
{
    int n = 0;

    for (; n < room && q->recv_head != q->recv_tail; q->recv_head++, n++) {
        struct fab_recv *r = &q->recv[q->recv_head & (q->recv_size - 1)];
        fab_complete(q, &out[n], r->wr_id, TB_IBV_WC_WR_FLUSH_ERR,
                     TB_IBV_WC_RECV, 0);
        q->recv_frames -= r->frames;
    }
    return n;
}

static int flush(struct fab_pair *q, const struct fab_cq *cq, int room,
                 struct tb_ibv_wc *out)
{
    int n = 0;

    if (q->pub.send_cq == &cq->pub)
        n += flush_sends(q, room, out);
    if (q->pub.recv_cq == &cq->pub)
        n += flush_recvs(q, room - n, out + n);
    return n;
}

static int poll_pair(struct fab_pair *q, const struct fab_cq *cq, int room,
                     struct tb_ibv_wc *out)
{
    uint64_t now = 0;
    int n = 0;

    if (TB_UNLIKELY(q->pub.state == TB_IBV_QPS_ERR))
        return flush(q, cq, room, out);
    if (q->send_head != q->send_tail) {
        now = tb_now();
        if (q->send_sent != q->send_tail)
            fab_push(q, now);
        if (q->pub.send_cq == &cq->pub && fab_alive(q))
            n = reap_sends(q, now, room, out);
    }
    if (q->pub.recv_cq != &cq->pub || n == room || !fab_arrived(q))
        return n;
    if (!now)
        now = tb_now();
    while (n < room && fab_take(q, now, &out[n]))
        n++;
    return n;
}

int fab_poll_cq(struct tb_ibv_cq *pub, int room, struct tb_ibv_wc *out)
{
    struct fab_cq *cq = (struct fab_cq *)pub;
    struct fab_context *c = (struct fab_context *)pub->context;
    int n = 0;

    fab_enter(c);
    for (int i = 0; i < cq->users && n < room; i++) {
        int k = cq->next + i;
        if (k >= cq->users)
            k -= cq->users;
        n += poll_pair(cq->pair[k], cq, room - n, out + n);
    }
    /* Nobody is first for ever. */
    if (cq->users > 1 && ++cq->next >= cq->users)
        cq->next = 0;
    fab_leave(c);
    return n;
}
