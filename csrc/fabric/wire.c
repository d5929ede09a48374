/* SPDX-License-Identifier: MIT */
/*
 * The wire: when each message has its turn on a cable, and how its bytes get
 * to the other end.
 *
 * A message of L bytes takes L / rate of its direction's time, and arrives
 * `latency` later. Queue pairs that share a direction take turns by frames; so
 * a message ends as much later as the others have to send meanwhile, and what
 * they have to send ends later by this one. Whoever books wire time keeps both
 * accounts: busy[i] is when queue pair i's next message may begin.
 *
 * Bytes travel through the ring of the sending queue pair, which only its
 * owner writes; the receiver copies them out as they arrive, frame by frame.
 */
#include "fabric/objects.h"

#define SOFT_END ((uint32_t)128 << 10) /* begin again in front: caches */
#define MOST ((uint32_t)TB_IBV_FRAMES_MOST * TB_IBV_FRAME)

/* -------------------------------------------------------------- booking */

static uint64_t wire_word(const struct fab_pair *q, enum fab_switch which)
{
    return atomic_load_explicit(&q->c->cable->wire[which],
                                memory_order_relaxed);
}

/* Adds to what the other queue pairs have before them; returns how much of
 * that they will send while this one does. */
static uint64_t share_wire(const struct fab_pair *q, uint64_t from,
                           uint64_t length)
{
    _Atomic uint64_t *busy = q->c->d->busy;
    uint64_t others = 0;

    for (uint32_t i = 0; i < FAB_QPS; i++) {
        uint64_t until = atomic_load_explicit(&busy[i], memory_order_relaxed);
        if (i != q->slot && until > from) {
            uint64_t turn = TB_MIN(length, until - from);
            atomic_fetch_add_explicit(&busy[i], turn, memory_order_relaxed);
            others += turn;
        }
    }
    return others;
}

static void book(struct fab_pair *q, struct fab_send *w, uint64_t now)
{
    _Atomic uint64_t *own = &q->c->d->busy[q->slot];
    uint64_t free_at = atomic_load_explicit(own, memory_order_relaxed);
    /* In two steps, so that it fits. */
    uint64_t length = w->bytes * (wire_word(q, FAB_SW_rate) >> 12) >> 20;

    w->begin = TB_MAX(now, free_at);
    w->finish = w->begin + length + share_wire(q, w->begin, length);
    /* Another process may just have added to it: that is kept. */
    while (!atomic_compare_exchange_weak_explicit(
        own, &free_at, TB_MAX(free_at, w->finish), memory_order_relaxed,
        memory_order_relaxed))
        ;
    q->booked++;
}

/* --------------------------------------------------------------- credit */

/* Learns what the peer has taken of the ring. */
static void refresh_freed(struct fab_pair *q)
{
    struct fab_qp *p = q->peer;

    if (atomic_load_explicit(&p->taken_of, memory_order_acquire) == q->tx_epoch)
        q->freed = TB_MIN(atomic_load_explicit(&p->taken, memory_order_acquire),
                          q->published);
}

/* How many more messages will find a RECV, as the peer's words say now. The
 * peer counts a message as matched before it counts it as taken, so `taken`
 * is read first: the result is never too large. */
static uint64_t look_for_credit(struct fab_pair *q)
{
    struct fab_qp *p = q->peer;
    uint32_t epoch = atomic_load_explicit(&p->rx_epoch, memory_order_acquire);
    uint32_t state = atomic_load_explicit(&p->state, memory_order_acquire);
    uint64_t matched, posted, used;

    if (atomic_load_explicit(&p->number, memory_order_relaxed) != q->dest ||
        atomic_load_explicit(&p->dest, memory_order_relaxed) != q->pub.qp_num ||
        (state != TB_IBV_QPS_RTR && state != TB_IBV_QPS_RTS))
        return 0;
    refresh_freed(q);
    matched = atomic_load_explicit(&p->matched, memory_order_acquire);
    posted = atomic_load_explicit(&p->posted, memory_order_acquire);
    if (atomic_load_explicit(&p->rx_epoch, memory_order_relaxed) != epoch)
        return 0;
    q->to_epoch = epoch;
    used = matched + (q->booked - q->freed);
    return posted > used ? posted - used : 0;
}

static bool take_credit(struct fab_pair *q)
{
    if (!q->credit)
        q->credit = look_for_credit(q);
    if (!q->credit)
        return false;
    q->credit--;
    return true;
}

/* Drop mode: sends wait for nobody. */
static void connect_blindly(struct fab_pair *q)
{
    look_for_credit(q);
    q->credit = 1;
}

/* ----------------------------------------------------------- publishing */

/* xorshift64* of Marsaglia and Vigna: enough for dice, and repeatable. */
static uint32_t throw_dice(struct fab_pair *q)
{
    q->dice ^= q->dice >> 12;
    q->dice ^= q->dice << 25;
    q->dice ^= q->dice >> 27;
    return (uint32_t)(q->dice * 0x2545f4914f6cdd1d >> 32);
}

/* Whether it happens to any of `frames`, to each with chance share / 2^32. */
static bool strikes(struct fab_pair *q, uint64_t share, uint32_t frames)
{
    while (share && frames--) {
        if (throw_dice(q) < share)
            return true;
    }
    return false;
}

static void count(_Atomic uint64_t *word, uint64_t more)
{
    /* One writer: no need to lock the bus. */
    atomic_store_explicit(
        word, atomic_load_explicit(word, memory_order_relaxed) + more,
        memory_order_relaxed);
}

/* Finds room in the ring, as far as is known. The oldest message still there
 * begins at `oldest`, and what is in use never fills the ring to the last byte,
 * so that equal places mean an empty ring. */
static bool fits(struct fab_pair *q, uint32_t need)
{
    uint32_t oldest;

    if (q->published == q->freed) {
        q->place = 0;
        return true;
    }
    if (q->published - q->freed >= FAB_MESSAGES)
        return false;
    oldest = q->out[q->freed % FAB_MESSAGES].at;
    if (q->place <= oldest)
        return need < oldest - q->place;
    if (q->place >= SOFT_END && need < oldest)
        q->place = 0;
    if (need <= FAB_RING - q->place)
        return true;
    if (need >= oldest)
        return false;
    q->place = 0;
    return true;
}

static bool find_place(struct fab_pair *q, uint32_t need)
{
    /* Far behind, a new look may allow to begin again in front. */
    if (q->place < SOFT_END && fits(q, need))
        return true;
    refresh_freed(q);
    return fits(q, need);
}

static void copy_in(struct fab_pair *q, const struct fab_send *w)
{
    char *to = fab_ring(q->out) + q->place;

    memcpy(to, w->data, w->good);
    if (TB_UNLIKELY(w->good < w->bytes))
        memset(to + w->good, 0, w->bytes - w->good);
}

static void roll_fate(struct fab_pair *q, const struct fab_send *w,
                      struct fab_message *m)
{
    uint64_t delays = wire_word(q, FAB_SW_delays);

    m->flags = 0;
    if (strikes(q, wire_word(q, FAB_SW_loss), w->frames)) {
        m->flags = FAB_LOST;
        count(&q->me->tally.lost, 1);
    } else if (strikes(q, wire_word(q, FAB_SW_corrupt), w->frames)) {
        m->flags = FAB_CORRUPT;
        m->spoil = throw_dice(q);
        count(&q->me->tally.corrupted, 1);
    }
    if (strikes(q, delays, 1)) {
        m->due += wire_word(q, FAB_SW_delay);
        count(&q->me->tally.delayed, 1);
    }
}

/* Puts a message into the ring. False: no room now. */
static bool publish(struct fab_pair *q, const struct fab_send *w)
{
    struct fab_message *m = &q->out[q->published % FAB_MESSAGES];
    uint64_t latency = wire_word(q, FAB_SW_latency);
    uint32_t need = (uint32_t)tb_round_up(TB_MAX(w->bytes, 1), 64);

    if (!find_place(q, need)) {
        refresh_freed(q);
        if (!find_place(q, need))
            return false;
    }
    m->begin = w->begin + latency;
    m->due = w->finish + latency;
    m->at = q->place;
    m->bytes = w->bytes;
    m->tx_epoch = q->tx_epoch;
    m->rx_epoch = q->to_epoch;
    roll_fate(q, w, m);
    /* In order, also behind a late one. */
    m->due = q->last_due = TB_MAX(m->due, q->last_due);
    if (!(m->flags & FAB_LOST))
        copy_in(q, w);
    q->place += need;
    q->published++;
    count(&q->me->tally.sends, 1);
    count(&q->me->tally.frames, w->frames);
    count(&q->me->tally.bytes, w->bytes);
    /* Release: whoever sees the count sees the message and its bytes. */
    atomic_store_explicit(&q->me->tail, q->published, memory_order_release);
    return true;
}

static bool lose(struct fab_pair *q, const struct fab_send *w)
{
    q->booked--;
    count(&q->me->tally.sends, 1);
    count(&q->me->tally.frames, w->frames);
    count(&q->me->tally.lost, 1);
    return true;
}

static bool depart(struct fab_pair *q, const struct fab_send *w, bool drops)
{
    if (w->nothing)
        return true;
    return publish(q, w) || (drops && lose(q, w));
}

void fab_push(struct fab_pair *q, uint64_t now)
{
    bool drops = fab_sw(q->c->s, FAB_SW_credit) == FAB_CREDIT_DROP;
    bool late = fab_sw(q->c->s, FAB_SW_send_read) == FAB_READ_LATE;

    if (q->pub.state != TB_IBV_QPS_RTS || !fab_alive(q))
        return;
    while (q->send_booked != q->send_tail) {
        struct fab_send *w = &q->send[q->send_booked & (q->send_size - 1)];
        if (w->nothing) {
            w->finish = q->c->d->busy[q->slot];
        } else {
            if (drops)
                connect_blindly(q);
            if (!take_credit(q))
                break;
            book(q, w, now);
        }
        q->send_booked++;
    }
    while (q->send_sent != q->send_booked) {
        struct fab_send *w = &q->send[q->send_sent & (q->send_size - 1)];
        if ((late && w->finish > now) || !depart(q, w, drops))
            break;
        q->send_sent++;
    }
}

/* ------------------------------------------------------------ receiving */

/* Begins to follow the peer's new connection, if it is one with us. */
static bool follow(struct fab_pair *q, uint32_t epoch)
{
    struct fab_qp *p = q->peer;

    if (atomic_load_explicit(&p->number, memory_order_relaxed) != q->dest ||
        atomic_load_explicit(&p->dest, memory_order_relaxed) != q->pub.qp_num)
        return false;
    q->in_epoch = epoch;
    q->taken = 0;
    q->copied = 0;
    atomic_store_explicit(&q->me->taken, 0, memory_order_relaxed);
    /* Release: with the epoch the peer sees the count that belongs to it. */
    atomic_store_explicit(&q->me->taken_of, epoch, memory_order_release);
    return true;
}

bool fab_arrived(struct fab_pair *q)
{
    uint32_t epoch;

    if (q->pub.state != TB_IBV_QPS_RTR && q->pub.state != TB_IBV_QPS_RTS)
        return false;
    epoch = atomic_load_explicit(&q->peer->tx_epoch, memory_order_acquire);
    if (epoch != q->in_epoch && !follow(q, epoch))
        return false;
    return atomic_load_explicit(&q->peer->tail, memory_order_acquire) >
           q->taken;
}

/* The next message is done with. Release: the sender may write where it was
 * once it sees this; our loads are over. */
static void pass(struct fab_pair *q)
{
    q->copied = 0;
    q->taken++;
    atomic_store_explicit(&q->me->taken, q->taken, memory_order_release);
}

/* Copies up to `until` of a message into its RECV. */
static void copy_out(struct fab_pair *q, const struct fab_message *m,
                     struct fab_recv *r, uint32_t until)
{
    uint32_t end = TB_MIN(until, r->good);

    if (end > q->copied)
        memcpy(r->data + q->copied, fab_ring(q->in) + m->at + q->copied,
               end - q->copied);
    q->copied = until;
}

/* The frames of a long message that have arrived before its end. */
static void copy_arrived(struct fab_pair *q, const struct fab_message *m,
                         struct fab_recv *r, uint64_t now)
{
    uint64_t part;

    if (m->bytes <= TB_IBV_FRAME || m->bytes > r->bytes ||
        (m->flags & FAB_LOST) || now <= m->begin)
        return;
    part = (uint64_t)((double)(now - m->begin) / (double)(m->due - m->begin) *
                      m->bytes);
    part &= ~(uint64_t)(TB_IBV_FRAME - 1);
    if (part > q->copied && part < m->bytes)
        copy_out(q, m, r, (uint32_t)part);
}

static void spoil(const struct fab_message *m, struct fab_recv *r)
{
    uint32_t bit = m->bytes ? m->spoil % (m->bytes * 8) : 0;

    if (bit / 8 < TB_MIN(m->bytes, r->good))
        r->data[bit / 8] ^= (char)(1 << bit % 8);
}

static int end_recv(struct fab_pair *q, uint8_t status, uint32_t bytes,
                    struct tb_ibv_wc *out)
{
    struct fab_recv *r = &q->recv[q->recv_head & (q->recv_size - 1)];

    fab_complete(q, out, r->wr_id, status, TB_IBV_WC_RECV, bytes);
    q->recv_frames -= r->frames;
    q->recv_head++;
    q->matched++;
    /* Before `taken`: see look_for_credit. */
    atomic_store_explicit(&q->me->matched, q->matched, memory_order_release);
    pass(q);
    return 1;
}

static int fail_recv(struct fab_pair *q, struct tb_ibv_wc *out)
{
    int n = end_recv(q, TB_IBV_WC_LOC_LEN_ERR, 0, out);

    if (fab_sw(q->c->s, FAB_SW_mismatch) == FAB_MISMATCH_QUEUE) {
        q->pub.state = TB_IBV_QPS_ERR;
        atomic_store_explicit(&q->me->state, TB_IBV_QPS_ERR,
                              memory_order_release);
    }
    return n;
}

/* A message is due and has its RECV. */
static int deliver(struct fab_pair *q, const struct fab_message *m,
                   struct fab_recv *r, struct tb_ibv_wc *out)
{
    if (r->status)
        return end_recv(q, r->status, 0, out);
    if (fab_frames(m->bytes) != r->frames || m->bytes > r->bytes)
        return fail_recv(q, out);
    copy_out(q, m, r, m->bytes);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&q->peer->tx_epoch, memory_order_relaxed) !=
        q->in_epoch)
        return 0; /* the peer has begun anew: who knows what we copied */
    if (m->flags & FAB_CORRUPT)
        spoil(m, r);
    return end_recv(q, TB_IBV_WC_SUCCESS, m->bytes, out);
}

/* Whether a message of the ring can be one; nothing there is believed. */
static bool sound(const struct fab_pair *q, const struct fab_message *m)
{
    return m->tx_epoch == q->in_epoch && m->bytes <= MOST &&
           m->at <= FAB_RING - m->bytes && m->begin <= m->due;
}

int fab_take(struct fab_pair *q, uint64_t now, struct tb_ibv_wc *out)
{
    bool drops = fab_sw(q->c->s, FAB_SW_credit) == FAB_CREDIT_DROP;

    if (!fab_alive(q))
        return 0;
    for (int i = 0; i < FAB_MESSAGES && fab_arrived(q); i++) {
        struct fab_message m = q->in[q->taken % FAB_MESSAGES];
        struct fab_recv *r = q->recv_head == q->recv_tail
                                 ? NULL
                                 : &q->recv[q->recv_head & (q->recv_size - 1)];
        if (!sound(q, &m))
            return 0;
        if (m.rx_epoch == q->rx_epoch) {
            if (m.due > now) {
                if (r)
                    copy_arrived(q, &m, r, now);
                return 0;
            }
            if (!r && !drops)
                return 0;
            if ((m.flags & FAB_LOST) && r &&
                fab_sw(q->c->s, FAB_SW_lost) == FAB_LOST_FAIL)
                return fail_recv(q, out);
            if (r && !(m.flags & FAB_LOST) && !(drops && r->posted_at > m.due))
                return deliver(q, &m, r, out);
        }
        pass(q);
    }
    return 0;
}
