/* SPDX-License-Identifier: MIT */
/*
 * What a SEND and a RECV do to each other. Side 0 sends, side 1 receives and
 * looks; each try joins the pair anew, so that none inherits another's
 * leftovers. At its end both sides know what both have seen.
 */
#include "selftest/station.h"

#include <stdio.h>

#define MTU(st) ((enum tb_ibv_mtu)(st)->device.mtu)
#define SOON(st) ((st)->patience / 4)

/* --------------------------------------------------------------- connecting */

static const char *first_failure(const struct tb_steps *s, int *code)
{
    const int32_t codes[] = {s->reset, s->init, s->rtr, s->rts};
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS"};

    for (int i = 0; i < 4; i++) {
        *code = codes[i];
        if (codes[i])
            return names[i];
    }
    return "";
}

bool tb_probe_connect(struct tb_station *st, struct tb_pair *p)
{
    struct tb_steps steps[2];
    char note[512];
    bool joined;
    int code;

    tb_begin(st, "connect");
    joined = tb_pair_join(p, MTU(st), false, steps);
    for (int i = 0; i < 2 && st->side == 0; i++) {
        const char *step = first_failure(&steps[i], &code);
        int node = i == 0 ? st->plan->self : !st->plan->self;
        if (!*step)
            continue;
        snprintf(note, sizeof(note), "%s: %s", st->plan->node[node].name,
                 strcmp(step, "RTR") ? step : tb_verbs_rtr_cause(code));
        tb_report(st, "connect", "refused", note,
                  "\"step\": \"%s\", \"errno\": %d", step, code);
    }
    if (joined && st->side == 0)
        tb_report(st, "connect", "works", "", "%s", "");
    return joined;
}

static const char *try_early_receive(struct tb_station *st, struct tb_pair *p,
                                     char *values)
{
    struct tb_steps steps[2];
    int32_t code;

    tb_pair_join(p, MTU(st), true, steps);
    code = steps[0].early;
    snprintf(values, TB_VALUES, "\"errno\": %d", code);
    return code ? "refused" : "accepted";
}

static const char *try_mtu(struct tb_station *st, struct tb_pair *p,
                           char *values)
{
    bool small = tb_pair_join(p, TB_IBV_MTU_1024, false, NULL);
    bool large = tb_pair_join(p, TB_IBV_MTU_4096, false, NULL);

    (void)st;
    snprintf(values, TB_VALUES, "\"1024\": %d, \"4096\": %d", small, large);
    if (large)
        return small ? "any" : "4096";
    return "smaller";
}

/* -------------------------------------------------------------- one message */

/* Of a message from side 0 to side 1, as side 1 saw it. */
struct arrival {
    int32_t status; /* of the RECV; TB_NO_CODE: it did not complete */
    int32_t right;  /* the bytes were what was sent */
};

/* Side 1 posts a RECV of `room`, side 0 sends `bytes` of tb_fill's. */
static struct arrival exchange(struct tb_pair *p, uint32_t bytes, uint32_t room,
                               uint32_t seed)
{
    struct tb_station *st = p->st;
    struct arrival mine = {TB_NO_CODE, 0}, theirs;

    if (st->side == 1)
        tb_pair_receive(p, 0, st->in, room);
    tb_meet(st);
    if (st->side == 0) {
        tb_fill(st->out, bytes, seed);
        tb_pair_send(p, 0, st->out, bytes);
        tb_pair_outcome(p, st->patience);
    } else {
        mine.status = tb_pair_outcome(p, st->patience);
        mine.right = !mine.status && tb_filled(st->in, bytes, seed);
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    return st->side == 1 ? mine : theirs;
}

/* A SEND before its RECV: held until there is one, or gone. */
static const char *try_credit(struct tb_station *st, struct tb_pair *p,
                              char *values)
{
    int32_t mine = 0, theirs, left;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    if (st->side == 0) {
        tb_fill(st->out, TB_FRAME_BYTES, 1);
        tb_pair_send(p, 0, st->out, TB_FRAME_BYTES);
        mine = tb_pair_outcome(p, SOON(st)) == TB_IBV_WC_SUCCESS;
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    left = st->side == 0 ? mine : theirs;
    if (st->side == 1)
        tb_pair_receive(p, 0, st->in, TB_FRAME_BYTES);
    tb_meet(st);
    if (st->side == 1)
        mine = tb_pair_outcome(p, st->patience) == TB_IBV_WC_SUCCESS;
    else if (!left)
        tb_pair_outcome(p, st->patience);
    tb_swap(st, &mine, &theirs, sizeof(mine));
    snprintf(values, TB_VALUES, "\"completed_early\": %d", left);
    return (st->side == 1 ? mine : theirs) ? "hold" : "drop";
}

/* One frame for a RECV of two; then the same queue pair is used as it should
 * be, to see what is left of it. */
static const char *try_mismatch(struct tb_station *st, struct tb_pair *p,
                                char *values)
{
    struct arrival odd, next;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    odd = exchange(p, TB_FRAME_BYTES, 2 * TB_FRAME_BYTES, 2);
    next = exchange(p, TB_FRAME_BYTES, TB_FRAME_BYTES, 3);
    snprintf(values, TB_VALUES, "\"status\": %d, \"next\": %d", odd.status,
             next.status);
    if (odd.status == TB_NO_CODE)
        return "nothing";
    if (!odd.status)
        return "works";
    return next.status || !next.right ? "queue" : "receive";
}

/* The longest message that both queues take. */
static const char *try_longest(struct tb_station *st, struct tb_pair *p,
                               char *values)
{
    uint32_t frames = TB_MIN(p->send_frames, p->recv_frames), theirs;
    struct arrival x;

    tb_swap(st, &frames, &theirs, sizeof(frames));
    frames = TB_MIN(frames, theirs);
    frames = (uint32_t)TB_MIN(frames, TB_HALF_BYTES / TB_FRAME_BYTES);
    frames = TB_MIN(frames, TB_IBV_FRAMES_MOST);
    if (!frames || !tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    x = exchange(p, frames * TB_FRAME_BYTES, frames * TB_FRAME_BYTES, 4);
    snprintf(values, TB_VALUES, "\"frames\": %u", frames);
    return x.right ? "arrives" : "fails";
}

/* ------------------------------------------------------------------ buffers */

/* When a SEND's buffer is read: side 0 writes to it after posting. */
static const char *try_send_read(struct tb_station *st, struct tb_pair *p,
                                 char *values)
{
    const uint32_t bytes = 32 * TB_FRAME_BYTES;
    int32_t mine = 0, theirs, seen;

    (void)values;
    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    if (st->side == 1)
        tb_pair_receive(p, 0, st->in, bytes);
    tb_meet(st);
    if (st->side == 0) {
        tb_fill(st->out, bytes, 5);
        tb_pair_send(p, 0, st->out, bytes);
        memset(st->out, 0, bytes);
        tb_pair_outcome(p, st->patience);
    } else if (tb_pair_outcome(p, st->patience) == TB_IBV_WC_SUCCESS) {
        mine = tb_filled(st->in, bytes, 5) ? 1 : 2;
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    seen = st->side == 1 ? mine : theirs;
    return seen == 1 ? "post" : seen == 2 ? "late" : "nothing";
}

/* Whether something has written to a posted RECV: 0 no, 1 to the first bytes of
 * frames, 2 elsewhere too. */
static int32_t look_at_posted(const char *at, uint32_t bytes, uint32_t seed)
{
    char *expected = tb_alloc(bytes);
    int32_t seen = 0;

    if (!expected)
        return 0;
    tb_fill(expected, bytes, seed);
    for (uint32_t i = 0; i < bytes; i++) {
        if (at[i] != expected[i])
            seen = TB_MAX(seen, i % TB_FRAME_BYTES < 64 ? 1 : 2);
    }
    tb_free(expected);
    return seen;
}

static const char *try_scribble(struct tb_station *st, struct tb_pair *p,
                                char *values)
{
    static const char *const words[] = {"off", "frames", "all"};
    const uint32_t bytes = 4 * TB_FRAME_BYTES;
    int32_t mine = 0, theirs;

    (void)values;
    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    if (st->side == 1) {
        tb_fill(st->in, bytes, 6);
        tb_pair_receive(p, 0, st->in, bytes);
        tb_pair_outcome(p, SOON(st));
        mine = look_at_posted(st->in, bytes, 6);
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    return words[(st->side == 1 ? mine : theirs) % 3];
}

/* ------------------------------------------------------------ work requests */

/* Half a frame each. */
static int post_two_pieces(struct tb_pair *p)
{
    struct tb_station *st = p->st;
    struct tb_ibv_sge pieces[2];
    struct tb_ibv_send_wr wr;

    for (size_t i = 0; i < 2; i++)
        pieces[i] = (struct tb_ibv_sge){
            (uint64_t)(uintptr_t)(st->out + i * TB_FRAME_BYTES),
            TB_FRAME_BYTES / 2, st->region->lkey};
    memset(&wr, 0, sizeof(wr));
    wr.sg_list = pieces;
    wr.num_sge = 2;
    wr.opcode = TB_IBV_WR_SEND;
    wr.send_flags = TB_IBV_SEND_SIGNALED;
    return tb_pair_post(p, &wr);
}

/* Two pieces in one SEND, for two receives of a frame. */
static const char *try_two_pieces(struct tb_station *st, struct tb_pair *p,
                                  char *values)
{
    struct {
        int32_t code, messages;
    } mine = {0, 0}, theirs;
    struct tb_ibv_wc wc[2];
    int messages;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    for (uint32_t i = 0; i < 2 && st->side == 1; i++)
        tb_pair_receive(p, i, st->in + i * TB_FRAME_BYTES, TB_FRAME_BYTES);
    tb_meet(st);
    if (st->side == 0)
        mine.code = post_two_pieces(p);
    mine.messages = tb_pair_await(p, 2, st->patience, wc);
    tb_swap(st, &mine, &theirs, sizeof(mine));
    messages = st->side == 1 ? mine.messages : theirs.messages;
    snprintf(values, TB_VALUES, "\"errno\": %d", mine.code | theirs.code);
    if (mine.code | theirs.code)
        return "refuse";
    return messages == 2 ? "split" : messages == 1 ? "joined" : "nothing";
}

/* On a queue pair of its own, which a device may refuse. */
static void probe_sge(struct tb_station *st)
{
    const struct tb_ibv_qp_cap cap = {64, 64, 2, 2, 0};
    int32_t mine, theirs;
    struct tb_pair p;

    tb_begin(st, "sge");
    mine = tb_pair_make(&p, st, &cap);
    tb_swap(st, &mine, &theirs, sizeof(mine));
    if (!mine && !theirs)
        tb_probe(st, &p, "sge", " nothing ", try_two_pieces);
    else if (st->side == 0)
        tb_report(st, "sge", "refuse", "", "\"errno\": %d",
                  mine ? mine : theirs);
    tb_pair_drop(&p);
}

/* A SEND that asks for no completion. */
static const char *try_unsignaled(struct tb_station *st, struct tb_pair *p,
                                  char *values)
{
    struct {
        int32_t code, completed, came;
    } mine = {0, 0, 0}, theirs;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    if (st->side == 1)
        tb_pair_receive(p, 0, st->in, TB_FRAME_BYTES);
    tb_meet(st);
    if (st->side == 0) {
        mine.code = tb_pair_send_as(p, TB_IBV_WR_SEND, 0, TB_FRAME_BYTES);
        mine.completed = tb_pair_outcome(p, SOON(st)) != TB_NO_CODE;
    } else {
        mine.came = tb_pair_outcome(p, st->patience) == TB_IBV_WC_SUCCESS;
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    snprintf(values, TB_VALUES, "\"errno\": %d", mine.code | theirs.code);
    if (mine.code | theirs.code)
        return "refuse";
    if (!(mine.came | theirs.came))
        return "nothing";
    return mine.completed | theirs.completed ? "completes" : "quiet";
}

/* -------------------------------------------------------------------- order */

/* A long message on one queue pair, then a short one on another: which comes
 * first, 1 or 2; 0: neither did. */
static int32_t race(struct tb_pair *slow, struct tb_pair *quick)
{
    uint64_t until = tb_now() + slow->st->patience;
    int32_t first = 0;
    struct tb_ibv_wc wc;

    for (int got = 0; got < 2 && tb_now() < until;) {
        int a = tb_ibv_poll_cq(slow->cq, 1, &wc) > 0;
        int b = tb_ibv_poll_cq(quick->cq, 1, &wc) > 0;
        if (!first && (a || b))
            first = b ? 2 : 1;
        got += a + b;
        if (!a && !b)
            tb_yield();
    }
    return first;
}

static const char *run_race(struct tb_station *st, struct tb_pair *slow,
                            struct tb_pair *quick, uint32_t frames)
{
    char *last = st->in + TB_HALF_BYTES - TB_FRAME_BYTES;
    int32_t mine, theirs, first;

    if (st->side == 1) {
        tb_pair_receive(slow, 0, st->in, frames * TB_FRAME_BYTES);
        tb_pair_receive(quick, 0, last, TB_FRAME_BYTES);
    }
    tb_meet(st);
    if (st->side == 0) {
        tb_pair_send(slow, 0, st->out, frames * TB_FRAME_BYTES);
        tb_pair_send(quick, 0, st->out, TB_FRAME_BYTES);
    }
    mine = race(slow, quick);
    tb_swap(st, &mine, &theirs, sizeof(mine));
    first = st->side == 1 ? mine : theirs;
    return first == 2 ? "overtakes" : first == 1 ? "waits" : "nothing";
}

static const char *try_order(struct tb_station *st, struct tb_pair *p,
                             char *values)
{
    const struct tb_ibv_qp_cap cap = {64, 64, 1, 1, 0};
    struct {
        int32_t code;
        uint32_t frames;
    } mine, theirs;
    const char *seen = NULL;
    struct tb_pair other;
    uint32_t frames;

    mine.code = tb_pair_make(&other, st, &cap);
    mine.frames = TB_MIN(TB_MIN(p->send_frames, p->recv_frames), 1000);
    tb_swap(st, &mine, &theirs, sizeof(mine));
    frames = TB_MIN(mine.frames, theirs.frames);
    snprintf(values, TB_VALUES, "\"frames\": %u", frames);
    if (!mine.code && !theirs.code && frames &&
        tb_pair_join(p, MTU(st), false, NULL) &&
        tb_pair_join(&other, MTU(st), false, NULL))
        seen = run_race(st, p, &other, frames);
    tb_pair_drop(&other);
    return seen;
}

void tb_probe_rules(struct tb_station *st, struct tb_pair *pair)
{
    tb_probe(st, pair, "early_receive", "", try_early_receive);
    tb_probe(st, pair, "mtu", "", try_mtu);
    tb_probe(st, pair, "credit", " drop ", try_credit);
    tb_probe(st, pair, "mismatch", " nothing queue ", try_mismatch);
    tb_probe(st, pair, "longest", " fails ", try_longest);
    tb_probe(st, pair, "send_read", " nothing ", try_send_read);
    tb_probe(st, pair, "scribble", "", try_scribble);
    probe_sge(st);
    tb_probe(st, pair, "unsignaled", " nothing ", try_unsignaled);
    tb_probe(st, pair, "order", " nothing ", try_order);
}
