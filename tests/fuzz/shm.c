/* SPDX-License-Identifier: MIT */
/*
 * Memory that another rank of the machine has written (net/shm.h): the reader
 * of a pipe must not read beyond the segment, nor for ever, whatever the ring
 * and the counters say.
 */
#include "net/shm.h"

#include <sys/mman.h>

#include "fuzz/fuzz.h"

#define PLACES 2
#define POLLS 200

struct rank {
    struct tb_port *port;
    struct tb_link *link;
    struct tb_sink sink;
    struct tb_bell bell;
    uint64_t sum; /* of all bytes that came: so that they are read */
};

static char *segment;
static size_t segment_bytes;
static struct tb_segment_plan plan;

/* Changes to make to the segment: where and what. */
static void fuzz_example(struct fuzz *f)
{
    for (size_t n = 1 + fuzz_below(f, 4); n > 0; n--)
        fuzz_add(f, &(uint64_t){fuzz_number(f, 8)}, sizeof(uint64_t));
}

static void on_packet(void *ctx, int from, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct rank *r = ctx;
    const unsigned char *p = data;

    (void)ch;
    CHECK(from >= 0 && from < PLACES);
    CHECK((const char *)data >= segment &&
          (const char *)data + bytes <= segment + segment_bytes);
    for (size_t i = 0; i < bytes; i++)
        r->sum += p[i];
}

static void on_returned(void *ctx, int to, enum tb_channel ch, const void *data,
                        size_t bytes)
{
    (void)ctx, (void)to, (void)ch, (void)data, (void)bytes;
}

static void on_lost(void *ctx, int peer, tb_err why)
{
    (void)ctx, (void)peer;
    CHECK(why);
}

static void open_rank(struct rank *r, int place, struct tb_config *config)
{
    static const int local[] = {0, 1};
    struct tb_port_args args = {.config = config,
                                .up = &r->sink,
                                .self = place,
                                .endpoints = PLACES,
                                .segment = segment,
                                .segment_bytes = segment_bytes,
                                .local_rank = place,
                                .local_ranks = PLACES,
                                .local = local};

    memset(r, 0, sizeof(*r));
    r->sink = (struct tb_sink){r, on_packet, on_returned, on_lost};
    args.bell = &tb_segment_rank(segment, &plan, place)->bell;
    tb_segment_note(segment, &plan, place)->pid = (uint32_t)getpid();
    CHECK_EQ(tb_transport_shm.open(&r->port, &args), TB_OK);
    CHECK_EQ(tb_transport_shm.connect(r->port, 1 - place, &r->link), TB_OK);
}

static void send_some(struct fuzz *f, struct rank *r)
{
    for (size_t n = fuzz_below(f, 20); n > 0; n--) {
        struct tb_limits limits;
        struct tb_slot slot;
        size_t bytes;
        tb_transport_shm.limits(r->link, &limits);
        bytes = 1 + fuzz_below(f, fuzz_below(f, 2) ? 200 : limits.packet_max);
        if (tb_transport_shm.reserve(r->link, TB_CONTROL, bytes, &slot))
            return;
        memset(slot.data, 7, bytes);
        tb_transport_shm.commit(r->link, &slot, bytes);
    }
}

/* Anywhere behind the board: rings, slabs, counters, bells, maps; often in the
 * words at the start of the ring that is in use. */
static void damage(struct fuzz *f)
{
    for (size_t at = 0; at + 8 <= f->bytes; at += 8) {
        size_t room = segment_bytes - plan.rings;
        size_t to = plan.rings + fuzz_below(f, room / 8) * 8;
        if (fuzz_below(f, 4))
            to = plan.rings + fuzz_below(f, 64) * 8;
        else if (!fuzz_below(f, 4))
            to = plan.rings + plan.ring_bytes + fuzz_below(f, 64) * 8;
        memcpy(segment + to, f->data + at, 8);
    }
}

static void fuzz_try(struct fuzz *f)
{
    struct tb_config config;
    struct rank ranks[PLACES];

    CHECK_EQ(tb_config_load(&config), TB_OK);
    segment_bytes = (size_t)PLACES * TB_SEGMENT_PER_RANK;
    segment = mmap(NULL, segment_bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(segment != MAP_FAILED);
    CHECK_EQ(tb_segment_plan(&plan, PLACES, segment_bytes, 0), TB_OK);
    for (int i = 0; i < PLACES; i++)
        open_rank(&ranks[i], i, &config);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < PLACES; i++)
            send_some(f, &ranks[i]);
        if (turn)
            damage(f);
        for (int n = 0; n < POLLS; n++)
            tb_transport_shm.poll(ranks[n % PLACES].port);
        tb_transport_shm.pending(ranks[0].port);
    }
    for (int i = 0; i < PLACES; i++)
        tb_transport_shm.close(ranks[i].port);
    munmap(segment, segment_bytes);
}
