/* SPDX-License-Identifier: MIT */
/*
 * Probes that break the rules by which drivers have been kept alive: more
 * posted than granted, operations that Apple does not name, a region across a 4
 * GiB line. Only on request.
 */
#include "selftest/station.h"

#include <stdio.h>
#include <sys/mman.h>

#define WR_SEND_WITH_IMM 3
#define MTU(st) ((enum tb_ibv_mtu)(st)->device.mtu)
#define SOON(st) ((st)->patience / 4)
#define OVER 8 /* receives beyond what was granted */

/* Receives of a frame until the queue is over-full; the oldest has a buffer of
 * its own, and what becomes of it is the answer. */
static const char *try_overpost(struct tb_station *st, struct tb_pair *p,
                                char *values)
{
    struct {
        int32_t code, status, right, posted;
    } mine = {0, TB_NO_CODE, 0, 0}, theirs;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    if (st->side == 1) {
        memset(st->in, 0, 2 * TB_FRAME_BYTES);
        mine.code = tb_pair_receive(p, 0, st->in, TB_FRAME_BYTES);
        for (uint32_t i = 0; !mine.code && i < p->recv_frames + OVER; i++) {
            mine.code =
                tb_pair_receive(p, 1, st->in + TB_FRAME_BYTES, TB_FRAME_BYTES);
            mine.posted += !mine.code;
        }
    }
    tb_meet(st);
    if (st->side == 0) {
        tb_fill(st->out, TB_FRAME_BYTES, 7);
        tb_pair_send(p, 0, st->out, TB_FRAME_BYTES);
        tb_pair_outcome(p, st->patience);
    } else {
        mine.status = tb_pair_outcome(p, st->patience);
        mine.right = tb_filled(st->in, TB_FRAME_BYTES, 7);
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    if (st->side == 0)
        mine = theirs;
    snprintf(values, TB_VALUES, "\"errno\": %d, \"posted\": %d", mine.code,
             mine.posted + 1);
    if (mine.code)
        return "refuse";
    if (mine.status == TB_NO_CODE)
        return "nothing";
    if (mine.status)
        return "len_error";
    return mine.right ? "works" : "corrupt";
}

/* ------------------------------------------------------- other operations */

struct target {
    uint64_t at;
    uint32_t key;
};

static int post_write(struct tb_pair *p, const struct target *peer)
{
    struct tb_station *st = p->st;
    struct tb_ibv_sge sge = {(uint64_t)(uintptr_t)st->out, TB_FRAME_BYTES,
                             st->region->lkey};
    struct tb_ibv_send_wr wr;

    memset(&wr, 0, sizeof(wr));
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = TB_IBV_WR_RDMA_WRITE;
    wr.send_flags = TB_IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = peer->at;
    wr.wr.rdma.rkey = peer->key;
    return tb_pair_post(p, &wr);
}

static const char *try_write(struct tb_station *st, struct tb_pair *p,
                             char *values)
{
    struct target own = {(uint64_t)(uintptr_t)st->in, st->region->rkey}, peer;
    struct {
        int32_t code, landed;
    } mine = {0, 0}, theirs;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    memset(st->in, 0, TB_FRAME_BYTES);
    tb_swap(st, &own, &peer, sizeof(own));
    if (st->side == 0) {
        tb_fill(st->out, TB_FRAME_BYTES, 8);
        mine.code = post_write(p, &peer);
        if (!mine.code)
            tb_pair_outcome(p, st->patience);
    }
    tb_meet(st);
    mine.landed = st->side == 1 && tb_filled(st->in, TB_FRAME_BYTES, 8);
    tb_swap(st, &mine, &theirs, sizeof(mine));
    snprintf(values, TB_VALUES, "\"errno\": %d", mine.code | theirs.code);
    if (mine.code | theirs.code)
        return "refuse";
    return mine.landed | theirs.landed ? "lands" : "swallow";
}

/* A SEND that is not quite as usual: does it arrive? */
static const char *send_oddly(struct tb_station *st, struct tb_pair *p,
                              int opcode, uint32_t bytes, char *values)
{
    struct {
        int32_t code, came;
    } mine = {0, 0}, theirs;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    if (st->side == 1)
        tb_pair_receive(p, 0, st->in, TB_FRAME_BYTES);
    tb_meet(st);
    if (st->side == 0) {
        mine.code = tb_pair_send_as(p, opcode, TB_IBV_SEND_SIGNALED, bytes);
        tb_pair_outcome(p, mine.code ? 0 : st->patience);
    } else {
        mine.came = tb_pair_outcome(p, SOON(st)) == TB_IBV_WC_SUCCESS;
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    snprintf(values, TB_VALUES, "\"errno\": %d", mine.code | theirs.code);
    if (mine.code | theirs.code)
        return "refuse";
    return mine.came | theirs.came ? "arrives" : "nothing";
}

static const char *try_empty(struct tb_station *st, struct tb_pair *p,
                             char *values)
{
    return send_oddly(st, p, TB_IBV_WR_SEND, 0, values);
}

static const char *try_immediate(struct tb_station *st, struct tb_pair *p,
                                 char *values)
{
    return send_oddly(st, p, WR_SEND_WITH_IMM, TB_FRAME_BYTES, values);
}

/* ---------------------------------------------------------- a 4 GiB line */

/* Two pages on both sides of such a line; NULL: there is no room at one. */
static char *straddle(void)
{
    const uintptr_t line = (uintptr_t)1 << 32;
    char *probe = mmap(NULL, TB_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANON, -1, 0);
    uintptr_t near = (uintptr_t)probe / line * line;

    if (probe == MAP_FAILED)
        return NULL;
    munmap(probe, TB_PAGE);
    for (uintptr_t i = 0; i < 64 && near > i * line; i++) {
        uintptr_t at = near - i * line - TB_PAGE;
        /* A hint, not an order: what is there stays there. */
        char *got = mmap((void *)at, 2 * (size_t)TB_PAGE,
                         PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
        if (got == MAP_FAILED)
            return NULL;
        if ((uintptr_t)got == at)
            return got;
        munmap(got, 2 * (size_t)TB_PAGE);
    }
    return NULL;
}

/* Sends what lies beyond the line. Only the sender's region crosses it: what
 * is read wrongly does no harm. False: the device does not take the region. */
static bool send_beyond(struct tb_pair *p, char *memory)
{
    struct tb_station *st = p->st;
    struct tb_ibv_mr *region, *usual = st->region;

    if (tb_device_register(&st->device, memory, 2 * (size_t)TB_PAGE, &region))
        return false;
    st->region = region;
    tb_fill(memory + TB_PAGE, TB_FRAME_BYTES, 9);
    tb_pair_send(p, 0, memory + TB_PAGE, TB_FRAME_BYTES);
    tb_pair_outcome(p, st->patience);
    st->region = usual;
    tb_device_deregister(&st->device, region);
    return true;
}

static const char *try_line(struct tb_station *st, struct tb_pair *p,
                            char *values)
{
    struct {
        int32_t refused, no_room, came, right;
    } mine = {0, 0, 0, 0}, theirs;
    char *memory;

    (void)values;
    if (!tb_pair_join(p, MTU(st), false, NULL))
        return NULL;
    if (st->side == 1) {
        memset(st->in, 0, TB_FRAME_BYTES);
        tb_pair_receive(p, 0, st->in, TB_FRAME_BYTES);
    }
    tb_meet(st);
    if (st->side == 0) {
        memory = straddle();
        mine.no_room = memory == NULL;
        mine.refused = memory && !send_beyond(p, memory);
        if (memory)
            munmap(memory, 2 * (size_t)TB_PAGE);
    } else {
        mine.came = tb_pair_outcome(p, st->patience) == TB_IBV_WC_SUCCESS;
        mine.right = tb_filled(st->in, TB_FRAME_BYTES, 9);
    }
    tb_swap(st, &mine, &theirs, sizeof(mine));
    if (mine.no_room | theirs.no_room)
        return "not_seen";
    if (mine.refused | theirs.refused)
        return "refuse";
    if (!(mine.came | theirs.came))
        return "nothing";
    return mine.right | theirs.right ? "ignore" : "alias";
}

void tb_probe_daring(struct tb_station *st, struct tb_pair *pair)
{
    if (!st->daring)
        return;
    tb_probe(st, pair, "empty", " nothing ", try_empty);
    tb_probe(st, pair, "immediate", " nothing ", try_immediate);
    tb_probe(st, pair, "rdma_write", "", try_write);
    tb_probe(st, pair, "line", " nothing ", try_line);
    tb_probe(st, pair, "overpost", " nothing ", try_overpost);
}
