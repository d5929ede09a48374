/* SPDX-License-Identifier: MIT */
/* The reliable link: see slots.h. */
#include "net/slots.h"

#include "base/crc.h"

#define BACKOFF_MOST 6
#define CHECKED offsetof(struct tb_header, check)

/* True when a comes after b, of two numbers less than 2^31 apart. */
static inline bool is_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

/* ------------------------------------------------------------------ tables */

static uint32_t pop(struct tb_flow *f, struct tb_parcel_queue *q)
{
    uint32_t first = q->first;

    if (first != TB_PARCEL_NONE)
        q->first = f->parcels[first].next;
    return first;
}

static void push(struct tb_flow *f, struct tb_parcel_queue *q, uint32_t parcel)
{
    f->parcels[parcel].next = TB_PARCEL_NONE;
    if (q->first == TB_PARCEL_NONE)
        q->first = parcel;
    else
        f->parcels[q->last].next = parcel;
    q->last = parcel;
}

tb_err tb_flow_init(struct tb_flow *f, int cables,
                    void (*done)(void *ctx, const struct tb_parcel *parcel),
                    void *ctx)
{
    memset(f, 0, sizeof(*f));
    f->lanes = cables * TB_CLASSES;
    f->done = done;
    f->ctx = ctx;
    f->free.first = TB_PARCEL_NONE;
    f->parcels = tb_calloc(TB_FLOW_WINDOW, sizeof(*f->parcels));
    f->held = tb_calloc(TB_FLOW_WINDOW, sizeof(*f->held));
    if (!f->parcels || !f->held) {
        tb_flow_fini(f);
        return tb_fail(TB_ERR_NO_MEM, "no memory for a link");
    }
    for (uint32_t i = 0; i < TB_FLOW_WINDOW; i++) {
        push(f, &f->free, i);
        f->held[i] = TB_SLOT_NONE;
    }
    for (int c = 0; c < TB_CLASSES; c++)
        f->waiting[c].first = TB_PARCEL_NONE;
    for (int i = 0; i < f->lanes; i++)
        f->lane[i].frames = (uint8_t)tb_class_frames(i % TB_CLASSES);
    return TB_OK;
}

void tb_flow_fini(struct tb_flow *f)
{
    tb_free(f->parcels);
    tb_free(f->held);
    f->parcels = NULL;
    f->held = NULL;
}

static bool number_is_set(const struct tb_numbers *n, uint32_t number)
{
    return n->bits[number % TB_FLOW_WINDOW / 64] >> number % 64 & 1;
}

/* Notes a number from base on, and moves base past what is complete. */
static void number_set(struct tb_numbers *n, uint32_t number)
{
    if (TB_UNLIKELY(number != n->base)) {
        n->bits[number % TB_FLOW_WINDOW / 64] |= (uint64_t)1 << number % 64;
        return;
    }
    n->base++;
    while (number_is_set(n, n->base)) {
        n->bits[n->base % TB_FLOW_WINDOW / 64] &=
            ~((uint64_t)1 << n->base % 64);
        n->base++;
    }
}

/* ----------------------------------------------------------------- parcels */

static void retire(struct tb_flow *f, uint32_t parcel)
{
    struct tb_parcel *p = &f->parcels[parcel];

    p->live = false;
    f->done(f->ctx, p);
    push(f, &f->free, parcel);
}

static void complete_post(struct tb_flow *f, uint32_t parcel)
{
    struct tb_parcel *p;

    if (parcel == TB_PARCEL_NONE)
        return;
    p = &f->parcels[parcel];
    p->posts--;
    if (p->acked && !p->posts)
        retire(f, parcel);
}

/* The fate of the lane's next transmission after `known`. */
static void resolve(struct tb_flow *f, struct tb_lane *l, bool taken)
{
    uint32_t parcel = l->out[++l->known % TB_LANE_WINDOW];
    struct tb_parcel *p;

    f->load[(l - f->lane) / TB_CLASSES] -= l->frames;
    if (parcel == TB_PARCEL_NONE)
        return;
    l->carrying--;
    p = &f->parcels[parcel];
    if (TB_UNLIKELY(!taken)) {
        f->count.lost++;
        l->lost_run++;
        push(f, &f->waiting[p->class], parcel);
        return;
    }
    p->acked = true;
    f->live--;
    number_set(&f->out[p->channel], p->number);
    if (!p->posts)
        retire(f, parcel);
}

uint32_t tb_flow_add(struct tb_flow *f, enum tb_channel ch, enum tb_class class,
                     uint32_t slot, bool lent)
{
    uint32_t parcel = pop(f, &f->free);

    f->parcels[parcel] = (struct tb_parcel){
        .slot = slot,
        .number = f->out[ch].next++,
        .born = f->born++,
        .channel = (uint8_t)ch,
        .class = (uint8_t) class,
        .live = true,
        .lent = lent,
    };
    f->live++;
    return parcel;
}

void tb_flow_wait(struct tb_flow *f, uint32_t parcel)
{
    push(f, &f->waiting[f->parcels[parcel].class], parcel);
}

uint32_t tb_flow_next(struct tb_flow *f, enum tb_class class)
{
    return pop(f, &f->waiting[class]);
}

/* ----------------------------------------------------------- a lane's life */

void tb_flow_open(struct tb_flow *f, int lane, uint32_t epoch, int depth,
                  int send_depth)
{
    struct tb_lane *l = &f->lane[lane];

    *l = (struct tb_lane){
        .epoch = epoch,
        .open = true,
        .depth = (uint8_t)depth,
        .send_depth = (uint8_t)send_depth,
        .frames = l->frames,
        .receives = (uint32_t)depth,
        .told_limit = (uint32_t)depth,
    };
    f->owing &= ~(1u << lane);
}

void tb_flow_admit(struct tb_flow *f, int lane, int peer_depth)
{
    struct tb_lane *l = &f->lane[lane];

    l->ready = true;
    l->peer_depth = (uint8_t)peer_depth;
    l->limit = (uint32_t)peer_depth;
    /* Reports travel in small slots only. */
    if (lane % TB_CLASSES == TB_SMALL)
        l->reserve = TB_MIN(peer_depth, l->send_depth) >= 8 ? 2 : 1;
}

void tb_flow_close(struct tb_flow *f, int lane)
{
    struct tb_lane *l = &f->lane[lane];

    l->open = l->ready = false;
    f->owing &= ~(1u << lane);
    while (l->done != l->sent)
        complete_post(f, l->out[++l->done % TB_LANE_WINDOW]);
}

void tb_flow_settle(struct tb_flow *f, int lane, const struct tb_report *last)
{
    struct tb_lane *l = &f->lane[lane];

    if (last)
        tb_flow_learn(f, last);
    while (l->known != l->sent)
        resolve(f, l, false);
}

/* ----------------------------------------------------------------- sending */

int tb_flow_choose(struct tb_flow *f, enum tb_class class)
{
    int best = -1;

    for (int i = class; i < f->lanes; i += TB_CLASSES) {
        if (tb_lane_room(&f->lane[i]) > 0 &&
            (best < 0 || f->load[i / TB_CLASSES] < f->load[best / TB_CLASSES]))
            best = i;
    }
    if (TB_UNLIKELY(best < 0)) {
        for (int i = class; i < f->lanes; i += TB_CLASSES)
            f->lane[i].wanted = true;
    }
    return best;
}

/* Fills a report and notes that it was told. */
static void tell(struct tb_flow *f, int lane, struct tb_report *r)
{
    struct tb_lane *l = &f->lane[lane];

    *r = (struct tb_report){
        .lane = (uint8_t)lane,
        .epoch = (uint8_t)l->epoch,
        .open = (uint8_t)l->receives,
        .seen = l->seen,
        .high = l->high,
        .map = l->map,
    };
    l->told_high = l->high;
    l->told_limit = l->high + l->receives;
    l->packets = 0;
    l->owed_at = 0;
    l->urgent = false;
    f->owing &= ~(1u << lane);
}

void tb_flow_report(struct tb_flow *f, int lane, struct tb_report *out)
{
    tell(f, lane, out);
}

/* The lane that sends first, then one after the other. */
static int next_owing(struct tb_flow *f, int own)
{
    if (f->owing >> own & 1)
        return own;
    do {
        f->last_told = (f->last_told + 1) % f->lanes;
    } while (!(f->owing >> f->last_told & 1));
    return f->last_told;
}

static void ride(struct tb_flow *f, int own, struct tb_header *h)
{
    for (int i = 0; i < TB_HEADER_REPORTS_RIDING; i++) {
        if (f->owing)
            tell(f, next_owing(f, own), &h->riding[i]);
        else
            h->riding[i] = (struct tb_report){.lane = TB_REPORT_NONE};
    }
}

static void seal_header(struct tb_header *h)
{
    h->check = tb_crc32c(0, h, CHECKED);
}

/* The next transmission of a lane, of a parcel or of none. */
static void transmit(struct tb_flow *f, int lane, uint32_t parcel,
                     struct tb_header *h)
{
    struct tb_lane *l = &f->lane[lane];

    l->sent++;
    l->out[l->sent % TB_LANE_WINDOW] = parcel;
    f->load[lane / TB_CLASSES] += l->frames;
    h->epoch = l->epoch;
    h->tx = l->sent;
    h->magic = TB_HEADER_MAGIC;
    h->lane = (uint8_t)lane;
    h->spare = 0;
    ride(f, lane, h);
}

void tb_flow_post(struct tb_flow *f, int lane, uint32_t parcel,
                  struct tb_header *h)
{
    struct tb_parcel *p = &f->parcels[parcel];

    f->lane[lane].carrying++;
    p->posts++;
    if (p->tries++)
        f->count.resent++;
    h->number = p->number;
    h->kind = p->channel;
    transmit(f, lane, parcel, h);
    seal_header(h);
}

size_t tb_flow_post_reports(struct tb_flow *f, int lane, struct tb_header *h)
{
    struct tb_report *r = tb_slot_data(h);
    size_t n = 0;

    h->number = 0;
    h->kind = TB_HEADER_REPORTS;
    transmit(f, lane, TB_PARCEL_NONE, h);
    while (f->owing)
        tell(f, next_owing(f, lane), &r[n++]);
    if (!n)
        r[n++] = (struct tb_report){.lane = TB_REPORT_NONE};
    tb_slot_seal(h, n * sizeof(*r));
    seal_header(h);
    return n * sizeof(*r);
}

void tb_flow_unpost(struct tb_flow *f, int lane)
{
    struct tb_lane *l = &f->lane[lane];
    uint32_t parcel = l->out[l->sent-- % TB_LANE_WINDOW];

    f->load[lane / TB_CLASSES] -= l->frames;
    if (parcel == TB_PARCEL_NONE)
        return;
    l->carrying--;
    f->parcels[parcel].posts--;
    tb_flow_wait(f, parcel);
}

void tb_flow_completed(struct tb_flow *f, int lane)
{
    struct tb_lane *l = &f->lane[lane];

    if (l->done != l->sent)
        complete_post(f, l->out[++l->done % TB_LANE_WINDOW]);
}

/* Whether one of the last `n` transmissions of a report, 1 to 64, arrived. */
static bool took_any(const struct tb_report *r, uint32_t n)
{
    return (r->map & UINT64_MAX >> (TB_LANE_WINDOW - n)) != 0;
}

bool tb_flow_learn(struct tb_flow *f, const struct tb_report *r)
{
    struct tb_lane *l;
    uint32_t high = r->high;

    if (r->lane == TB_REPORT_NONE)
        return true;
    if (r->lane >= f->lanes)
        return false;
    l = &f->lane[r->lane];
    if (r->epoch != (uint8_t)l->epoch || !l->peer_depth ||
        is_after(l->known, high))
        return true; /* of another epoch, or overtaken by a later one */
    if (is_after(high, l->sent) || r->open > l->peer_depth)
        return false;
    if (is_after(high + r->open, l->limit)) {
        l->limit = high + r->open;
        l->moved = true;
    }
    if (l->known == high)
        return true;
    l->moved = true;
    l->backoff = took_any(r, high - l->known)
                     ? 0
                     : (uint8_t)TB_MIN(l->backoff + 1, BACKOFF_MOST);
    while (l->known != high)
        resolve(f, l, r->map >> (high - l->known - 1) & 1);
    if (r->seen != l->peer_seen)
        l->lost_run = 0;
    l->peer_seen = r->seen;
    return true;
}

/* --------------------------------------------------------------- receiving */

bool tb_header_intact(const struct tb_header *h, size_t bytes)
{
    return bytes >= sizeof(*h) && h->check == tb_crc32c(0, h, CHECKED) &&
           h->magic == TB_HEADER_MAGIC && h->kind <= TB_HEADER_REPORTS &&
           h->seal.bytes <= bytes - sizeof(*h);
}

/* The fate of everything up to `tx` is known: lost, but for `tx` perhaps. */
static void advance(struct tb_lane *l, uint32_t tx, bool taken)
{
    uint32_t step = tx - l->high;

    l->map = step < 64 ? l->map << step : 0;
    l->map |= taken;
    l->high = tx;
    if (step > 1 || !taken)
        l->urgent = true;
}

static void learn_payload(struct tb_flow *f, const struct tb_header *h)
{
    const struct tb_report *r = tb_slot_data((void *)(uintptr_t)h);
    size_t n = TB_MIN(h->seal.bytes / sizeof(*r), (size_t)TB_LANES_MOST);

    for (size_t i = 0; i < n; i++)
        tb_flow_learn(f, &r[i]);
}

/* What a packet is, by its number. May refuse an early one. */
static enum tb_arrival sort(struct tb_flow *f, const struct tb_header *h,
                            uint32_t slot, bool may_hold, bool *taken)
{
    struct tb_numbers *n = &f->in[h->kind];
    uint32_t ahead = h->number - n->base;

    *taken = true;
    if (TB_UNLIKELY(ahead >= TB_FLOW_WINDOW) || number_is_set(n, h->number)) {
        f->count.duplicates++;
        return TB_ARRIVAL_DROP;
    }
    if (h->kind == TB_HEADER_CONTROL && ahead) {
        *taken = may_hold;
        if (!may_hold)
            return TB_ARRIVAL_DROP;
        f->held[h->number % TB_FLOW_WINDOW] = slot;
        f->holding++;
        n->bits[h->number % TB_FLOW_WINDOW / 64] |= (uint64_t)1
                                                    << h->number % 64;
        return TB_ARRIVAL_HOLD;
    }
    if (h->kind == TB_HEADER_BULK)
        number_set(n, h->number);
    else
        n->base++;
    return TB_ARRIVAL_TAKE;
}

enum tb_arrival tb_flow_arrive(struct tb_flow *f, int lane,
                               const struct tb_header *h, bool intact,
                               uint32_t slot, bool may_hold)
{
    struct tb_lane *l = &f->lane[lane];
    enum tb_arrival what = TB_ARRIVAL_DROP;
    bool taken = true;

    if (!l->open)
        return TB_ARRIVAL_DROP;
    l->receives--;
    f->owing |= 1u << lane;
    if (TB_UNLIKELY(!intact)) {
        /* It was some transmission after the last one. */
        f->count.damaged++;
        advance(l, l->high + 1, false);
        f->hurry = true;
        return TB_ARRIVAL_DROP;
    }
    if (TB_UNLIKELY(h->epoch != l->epoch || h->lane != lane ||
                    h->tx - l->high - 1 >= TB_LANE_WINDOW)) {
        f->count.stale++;
        return TB_ARRIVAL_DROP;
    }
    l->seen++;
    for (int i = 0; i < TB_HEADER_REPORTS_RIDING; i++)
        tb_flow_learn(f, &h->riding[i]);
    if (h->kind == TB_HEADER_REPORTS) {
        learn_payload(f, h);
    } else {
        what = sort(f, h, slot, may_hold, &taken);
        l->packets++;
    }
    advance(l, h->tx, taken);
    f->hurry |= l->urgent || l->high - l->told_high >= (l->depth + 1u) / 2;
    return what;
}

uint32_t tb_flow_turn(struct tb_flow *f)
{
    struct tb_numbers *n = &f->in[TB_CONTROL];
    uint32_t at = n->base % TB_FLOW_WINDOW, slot = f->held[at];

    if (TB_LIKELY(slot == TB_SLOT_NONE))
        return TB_SLOT_NONE;
    f->held[at] = TB_SLOT_NONE;
    f->holding--;
    n->bits[at / 64] &= ~((uint64_t)1 << at % 64);
    n->base++;
    return slot;
}

uint32_t tb_flow_release(struct tb_flow *f)
{
    while (f->holding) {
        uint32_t slot = tb_flow_turn(f);
        if (slot != TB_SLOT_NONE)
            return slot;
        f->in[TB_CONTROL].base++;
    }
    return TB_SLOT_NONE;
}

/* ------------------------------------------------------------------ timers */

/* Something sent or wanted hangs on what the peer says next. */
static bool waits(const struct tb_lane *l)
{
    return l->carrying || (l->wanted && tb_lane_room(l) <= 0);
}

void tb_flow_tick(struct tb_flow *f, uint64_t now, uint64_t settle)
{
    for (int i = 0; i < f->lanes; i++) {
        struct tb_lane *l = &f->lane[i];
        if (!l->ready)
            continue;
        if (l->moved || !l->quiet_at || !waits(l)) {
            l->quiet_at = now;
            l->moved = l->wanted = false;
        }
        if (now - l->settle_at >= settle << l->backoff) {
            l->settled = l->settling;
            l->settling = l->done;
            l->settle_at = now;
        }
    }
}

/* Whether a lane's news should not wait for a packet to ride with. */
static bool is_due(struct tb_lane *l, uint64_t now, uint64_t delay)
{
    uint32_t news = l->high - l->told_high;
    uint32_t credit = l->high + l->receives - l->told_limit;
    bool scarce = l->told_limit - l->high <= l->depth / 4u;

    if (l->urgent || news >= (l->depth + 1u) / 2 ||
        (scarce && (int32_t)credit > l->depth / 4))
        return true;
    if (!l->packets && !(scarce && (int32_t)credit > 0))
        return false;
    if (!l->owed_at)
        l->owed_at = now;
    return now - l->owed_at >= delay;
}

bool tb_flow_reports_due(struct tb_flow *f, uint64_t now, uint64_t delay)
{
    f->hurry = false;
    for (uint32_t left = f->owing; left; left &= left - 1) {
        if (is_due(&f->lane[__builtin_ctz(left)], now, delay))
            return true;
    }
    return false;
}

bool tb_flow_probe_due(struct tb_flow *f, int lane, uint64_t now,
                       uint64_t patience, uint32_t *settled)
{
    struct tb_lane *l = &f->lane[lane];

    if (!l->ready || !waits(l) || now - l->quiet_at < patience ||
        now - l->probed_at < patience)
        return false;
    l->probed_at = now;
    *settled = is_after(l->settled, l->known) ? l->settled : l->known;
    return true;
}

bool tb_flow_probed(struct tb_flow *f, int lane, uint32_t epoch,
                    uint32_t settled)
{
    struct tb_lane *l;

    if (lane < 0 || lane >= f->lanes)
        return false;
    l = &f->lane[lane];
    if (!l->open || l->epoch != epoch)
        return false;
    if (!is_after(settled, l->high))
        return true;
    if (settled - l->high > TB_LANE_WINDOW)
        return false;
    advance(l, settled, false);
    f->owing |= 1u << lane;
    return true;
}

/* --------------------------------------------------------------------- end */

bool tb_flow_reclaim(struct tb_flow *f, struct tb_parcel *out)
{
    struct tb_parcel *oldest = NULL;

    for (int c = 0; c < TB_CLASSES; c++)
        f->waiting[c].first = TB_PARCEL_NONE;
    for (uint32_t i = 0; i < TB_FLOW_WINDOW && f->live; i++) {
        struct tb_parcel *p = &f->parcels[i];
        if (p->live && (!oldest || is_after(oldest->born, p->born)))
            oldest = p;
    }
    if (!oldest)
        return false;
    *out = *oldest;
    oldest->live = false;
    f->live--;
    push(f, &f->free, (uint32_t)(oldest - f->parcels));
    return true;
}
