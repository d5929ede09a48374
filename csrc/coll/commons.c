/* SPDX-License-Identifier: MIT */
/*
 * Lanes: agreeing on them, posting and looking.
 *
 * Turns of a new lane begin above all turns that any member has ever seen, so
 * that what an earlier communicator left in the memory counts as old. A lane
 * given back is free again when all its former members have finished its last
 * turn: until then they may still look at posts.
 */
#include "coll/commons.h"

#include <string.h>
#include <unistd.h>

#include "coll/coll.h"
#include "mpi/world.h"

#define LANES 6         /* the first has five eighths of the memory */
#define MEMBERS_MOST 64 /* places in a mask */
#define FIRST_TRY 3     /* calls before the first agreement */
#define PIECES 4        /* of a long vector, in the ring at a time */
#define LEAST_LANE (sizeof(struct tb_lane_memory) + PIECES * TB_LINE)

/* A communicator's state, with or without a lane. */
struct tb_commons {
    uint32_t calls;
    uint32_t next_try; /* 0: never */
    struct tb_lane *lane;
};

/* One of this process's lanes. */
struct place {
    const struct tb_lane *lane; /* NULL: not in use */
    uint64_t last;              /* turn, of the last communicator that had it */
    uint64_t members;           /* of that one, as places in the commons */
};

static struct {
    char *memory; /* NULL: no commons */
    size_t place_bytes;
    const int *local; /* endpoint of each place */
    int n;
    uint64_t top;  /* the highest turn in lanes that were given back */
    bool agreeing; /* the free lanes are on offer */
    bool known;    /* what is above is filled in */
    struct place lanes[LANES];
} own;

/* Where a lane begins in a place; one beyond the last: where that ends. */
static size_t lane_start(int lane)
{
    size_t first = own.place_bytes / 8 * 5 & ~(size_t)(TB_LINE - 1);
    size_t other = (own.place_bytes - first) / (LANES - 1);
    other &= ~(size_t)(TB_LINE - 1);
    return lane ? first + (size_t)(lane - 1) * other : 0;
}

static void look_around(void)
{
    struct tb_net *net = tb_engine_net(tb_world.engine);
    own.known = true;
    own.top = TB_LANE_SLOTS; /* so that there is a turn that long before */
    own.local = tb_net_local(net, &own.n);
    own.memory = tb_net_commons(net, &own.place_bytes);
    if (lane_start(2) - lane_start(1) < LEAST_LANE || own.n > MEMBERS_MOST ||
        !tb_world.config.commons)
        own.memory = NULL;
}

static int place_of(int endpoint)
{
    for (int i = 0; i < own.n; i++)
        if (own.local[i] == endpoint)
            return i;
    return -1;
}

static struct tb_lane_memory *memory_of(int place, int lane)
{
    return (void *)(own.memory + (size_t)place * own.place_bytes +
                    lane_start(lane));
}

/* -------------------------------------------------------------- agreement */

struct offer {
    uint64_t top;
    uint64_t free;    /* lanes */
    uint64_t address; /* of `nonce`, for the others to read */
    uint64_t nonce;
    uint32_t pid;
    uint32_t allows; /* single copies, by its settings */
};

static bool is_free(int lane)
{
    const struct place *p = &own.lanes[lane];
    if (p->lane)
        return false;
    for (int i = 0; i < own.n; i++)
        if (p->members & (uint64_t)1 << i &&
            atomic_load_explicit(&memory_of(i, lane)->finished,
                                 memory_order_acquire) < p->last)
            return false;
    return true;
}

static uint64_t free_lanes(void)
{
    uint64_t mask = 0;
    if (!own.memory || own.agreeing)
        return 0;
    for (int i = 0; i < LANES; i++)
        if (is_free(i))
            mask |= (uint64_t)1 << i;
    return mask;
}

static uint64_t highest_turn(void)
{
    uint64_t top = own.top;
    for (int i = 0; i < LANES; i++)
        if (own.lanes[i].lane)
            top = TB_MAX(top, own.lanes[i].lane->next);
    return top;
}

/* Whether all members have memory in common. */
static bool is_on_one_machine(const struct tb_comm *c)
{
    struct tb_net *net = tb_engine_net(tb_world.engine);
    int node = tb_net_node(net, c->group->ranks[0]);
    for (int i = 1; i < c->size; i++)
        if (tb_net_node(net, c->group->ranks[i]) != node)
            return false;
    return true;
}

static bool allows_single_copies(void)
{
    return tb_process_can_read() &&
           tb_world.config.single_copy != TB_SINGLE_COPY_OFF &&
           tb_world.config.single_copy != TB_SINGLE_COPY_REFUSE;
}

/* Whether this process can read what the others offer. The right number
 * proves that the process of that id is the member: in containers it may be
 * another. */
static bool can_read_all(const struct tb_comm *c, const struct offer *offers)
{
    for (int i = 0; i < c->size; i++) {
        uint64_t seen = ~offers[i].nonce;
        size_t done;
        if (!offers[i].allows ||
            tb_process_read(offers[i].pid, offers[i].address, &seen,
                            sizeof seen, &done) ||
            seen != offers[i].nonce)
            return false;
    }
    return true;
}

void tb_lane_init(struct tb_lane *l, int n, int rank, size_t bytes,
                  uint64_t top)
{
    memset(l, 0, sizeof *l);
    l->n = n;
    l->rank = rank;
    l->next = top + 1;
    l->finished = top;
    l->ring_bytes =
        (bytes - sizeof(struct tb_lane_memory)) & ~(size_t)(TB_LINE - 1);
    l->room = l->ring_bytes / 2;
    l->piece = l->ring_bytes / PIECES & ~(size_t)(TB_LINE - 1);
    for (int i = 0; i < n; i++)
        l->peers[i].finished = top;
}

static void take_lane(struct tb_lane *l, const struct tb_comm *c, int number,
                      uint64_t top, const struct offer *offers)
{
    struct place *p = &own.lanes[number];
    tb_lane_init(l, c->size, c->rank,
                 lane_start(number + 1) - lane_start(number), top);
    p->lane = l;
    p->members = 0;
    l->net = tb_engine_net(tb_world.engine);
    l->number = number;
    for (int i = 0; i < l->n; i++) {
        int place = place_of(c->group->ranks[i]);
        p->members |= (uint64_t)1 << place;
        l->peers[i].memory = memory_of(place, number);
        l->peers[i].endpoint = c->group->ranks[i];
        l->peers[i].pid = offers[i].pid;
    }
}

/* Swaps offers and takes the first lane that is free everywhere. */
static tb_err agree(struct tb_comm *c, struct offer *offers,
                    struct tb_lane *lane)
{
    struct offer mine = {.top = highest_turn(),
                         .nonce = tb_random(),
                         .pid = (uint32_t)getpid(),
                         .allows = allows_single_copies()};
    uint64_t free = mine.free = free_lanes(), top = 0;
    int number = 0;
    mine.address = (uintptr_t)&mine.nonce;
    own.agreeing = true;
    tb_err err = tb_coll_allgather_bytes(c, &mine, offers, sizeof mine);
    for (int i = 0; !err && i < c->size; i++) {
        free &= offers[i].free;
        top = TB_MAX(top, offers[i].top);
    }
    if (!err && free) {
        while (!(free & (uint64_t)1 << number))
            number++;
        take_lane(lane, c, number, top, offers);
    }
    own.agreeing = false;
    if (err || !free)
        return err;
    c->commons->lane = lane;
    char reads = can_read_all(c, offers);
    char *all = (char *)offers;
    TB_TRY(tb_coll_allgather_bytes(c, &reads, all, 1));
    lane->can_pull = true;
    for (int i = 0; i < c->size; i++)
        lane->can_pull = lane->can_pull && all[i];
    return TB_OK;
}

static tb_err try_to_agree(struct tb_comm *c)
{
    size_t n = (size_t)c->size;
    struct tb_lane *lane =
        tb_calloc(1, sizeof *lane + n * sizeof lane->peers[0]);
    struct offer *offers = tb_alloc(n * sizeof *offers);
    tb_err err =
        lane && offers
            ? agree(c, offers, lane)
            : tb_fail(TB_ERR_NO_MEM, "no memory for a lane of the commons");
    tb_free(offers);
    if (c->commons->lane != lane)
        tb_free(lane);
    return err;
}

static tb_err open_commons(struct tb_comm *c)
{
    c->commons = tb_calloc(1, sizeof *c->commons);
    if (!c->commons)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a collective operation");
    if (!own.known)
        look_around();
    bool possible = !c->remote && c->size > 1 && c->size <= MEMBERS_MOST &&
                    is_on_one_machine(c);
    c->commons->next_try = possible ? FIRST_TRY : 0;
    return TB_OK;
}

tb_err tb_lane_agree(struct tb_comm *c)
{
    if (TB_UNLIKELY(!c->commons))
        TB_TRY(open_commons(c));
    struct tb_commons *k = c->commons;
    if (TB_LIKELY(k->lane || !k->next_try) || ++k->calls < k->next_try)
        return TB_OK;
    uint32_t next = k->next_try * 4;
    k->next_try = 0; /* the agreement itself calls collectives */
    tb_err err = try_to_agree(c);
    k->next_try = next;
    return err;
}

struct tb_lane *tb_lane_of(const struct tb_comm *c)
{
    return c->commons ? c->commons->lane : NULL;
}

void tb_commons_free(struct tb_commons *k)
{
    if (k && k->lane) {
        struct place *p = &own.lanes[k->lane->number];
        p->lane = NULL;
        p->last = k->lane->next - 1;
        own.top = TB_MAX(own.top, p->last);
        tb_free(k->lane);
    }
    tb_free(k);
}

void tb_commons_fini(void)
{
    memset(&own, 0, sizeof own);
}

/* ---------------------------------------------------------------- posting */

void tb_lane_tell(struct tb_lane *l)
{
    if (!l->has_news)
        return;
    l->has_news = false;
    for (int i = 0; l->net && i < l->n; i++)
        if (i != l->rank)
            tb_net_ring(l->net, l->peers[i].endpoint);
}

bool tb_lane_all_finished(struct tb_lane *l, uint64_t turn)
{
    for (int i = 0; i < l->n; i++) {
        struct tb_lane_peer *p = &l->peers[i];
        /* This rank too: it may post ahead of what it has taken itself. */
        if (p->finished >= turn || (i == l->rank && l->finished >= turn))
            continue;
        p->finished =
            TB_MAX(p->finished, atomic_load_explicit(&p->memory->finished,
                                                     memory_order_acquire));
        if (p->finished < turn)
            return false;
    }
    return true;
}

/* Where a block of so many bytes begins, as the ring counts. Blocks do not
 * wrap round. */
static uint64_t block_start(const struct tb_lane *l, size_t bytes)
{
    size_t at = l->head % l->ring_bytes;
    return at + bytes <= l->ring_bytes ? l->head : l->head + l->ring_bytes - at;
}

/* The last turn whose block lies where the ring would be used again up to
 * `end`; 0: none. */
static uint64_t turn_in_the_way(const struct tb_lane *l, uint64_t end)
{
    uint64_t turn = 0;
    if (end <= l->ring_bytes)
        return 0;
    for (int i = 0; i < TB_LANE_SLOTS; i++)
        if (l->posts[i].start < end - l->ring_bytes)
            turn = TB_MAX(turn, l->posts[i].turn);
    return turn;
}

void *tb_lane_block(struct tb_lane *l, uint64_t turn, size_t bytes)
{
    struct tb_lane_memory *m = l->peers[l->rank].memory;
    if (!tb_lane_all_finished(l, turn - TB_LANE_SLOTS))
        return NULL;
    if (TB_LIKELY(bytes <= TB_SLOT_BYTES))
        return m->slots[turn % TB_LANE_SLOTS].data;
    uint64_t start = block_start(l, bytes);
    if (!tb_lane_all_finished(l, turn_in_the_way(l, start + bytes)))
        return NULL;
    return m->ring + start % l->ring_bytes;
}

void tb_lane_post(struct tb_lane *l, uint64_t turn, uint64_t what, size_t bytes)
{
    struct tb_lane_memory *m = l->peers[l->rank].memory;
    struct tb_posted *slot = &m->slots[turn % TB_LANE_SLOTS];
    slot->what = what;
    if (TB_UNLIKELY(bytes > TB_SLOT_BYTES)) {
        uint64_t start = block_start(l, bytes);
        slot->offset = start % l->ring_bytes;
        l->posts[turn % TB_LANE_SLOTS] = (struct tb_lane_post){turn, start};
        l->head = start + tb_round_up(bytes, TB_LINE);
    }
    atomic_store_explicit(&slot->turn, turn, memory_order_release);
    l->has_news = true;
}

const void *tb_lane_look(struct tb_lane *l, int i, uint64_t turn, size_t bytes,
                         uint64_t *what)
{
    struct tb_lane_memory *m = l->peers[i].memory;
    const struct tb_posted *slot = &m->slots[turn % TB_LANE_SLOTS];
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != turn)
        return NULL;
    *what = slot->what;
    if (TB_LIKELY(bytes <= TB_SLOT_BYTES))
        return slot->data;
    uint64_t offset = slot->offset;
    if (offset > l->ring_bytes || bytes > l->ring_bytes - offset)
        *what = 0; /* of another call: the caller will see that */
    return m->ring + (*what ? offset : 0);
}

void tb_lane_finish(struct tb_lane *l, uint64_t turn)
{
    struct tb_lane_memory *m = l->peers[l->rank].memory;
    l->finished = turn;
    atomic_store_explicit(&m->finished, turn, memory_order_release);
    l->has_news = true;
}
