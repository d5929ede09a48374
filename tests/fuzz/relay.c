/* SPDX-License-Identifier: MIT */
/* What a router puts into a rank's lane (net/relay.h): the rank's end must not
 * read beyond the pool, whatever the descriptors say. */
#include "net/net.h"
#include "net/relay.h"

#include <sys/mman.h>

#include "fuzz/fuzz.h"

#define POOL_BYTES ((size_t)24 << 20)
#define SLOTS 64

static const char text[] =
    "tbmpi-plan 1\njob 00000000000000000000000000000007\nsize 4\nnodes 3\n"
    "self 0\nowner router\nnode 0 mac0 0 1\nnode 1 mac1 2\nnode 2 mac2 3\n"
    "cable 0 0 rdma_en2 ::ffff:169.254.1.1 1 rdma_en2 ::ffff:169.254.1.2\n"
    "cable 1 1 rdma_en3 ::ffff:169.254.2.1 2 rdma_en2 ::ffff:169.254.2.2\n";

struct rank {
    struct tb_plan *plan;
    struct tb_port *port;
    char *pool;
    uint64_t sum; /* of all bytes that came: so that they are read */
    int losts;
};

static void fuzz_example(struct fuzz *f)
{
    for (size_t n = 1 + fuzz_below(f, 60); n > 0; n--) {
        enum tb_relay_kind kind =
            (enum tb_relay_kind)(TB_RELAY_STOCK + fuzz_below(f, 3));
        bool lost = kind == TB_RELAY_LOST && !fuzz_below(f, 8);
        uint64_t word = tb_relay_pack(
            kind == TB_RELAY_LOST && !lost ? TB_RELAY_STOCK : kind,
            lost ? 1 : (uint32_t)fuzz_below(f, SLOTS), fuzz_below(f, 4000),
            2 + (int)fuzz_below(f, 2), (enum tb_channel)fuzz_below(f, 2));
        fuzz_add(f, &word, sizeof(word));
    }
}

static void on_packet(void *ctx, int from, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct rank *r = ctx;
    const unsigned char *p = data;

    (void)ch;
    CHECK(from >= 0 && from < r->plan->size);
    CHECK((const char *)data >= r->pool &&
          (const char *)data + bytes <= r->pool + POOL_BYTES);
    for (size_t i = 0; i < bytes; i++)
        r->sum += p[i];
}

static void on_returned(void *ctx, int to, enum tb_channel ch, const void *data,
                        size_t bytes)
{
    (void)ctx, (void)to, (void)ch, (void)data, (void)bytes;
    CHECK(0);
}

static void on_lost(void *ctx, int peer, tb_err why)
{
    struct rank *r = ctx;

    CHECK(peer == 2 || peer == 3);
    CHECK(why && ++r->losts <= 2);
}

/* Packets of the rank's own in between: what it was lent it may use. */
static void send_one(struct fuzz *f, struct tb_link *link)
{
    struct tb_slot slot;
    size_t bytes = 1 + fuzz_below(f, 4000);

    if (tb_transport_relay.reserve(link, TB_CONTROL, bytes, &slot))
        return;
    CHECK(slot.room >= bytes);
    memset(slot.data, 1, bytes);
    tb_transport_relay.commit(link, &slot, fuzz_below(f, 2) ? bytes : 0);
}

static void play(struct fuzz *f, struct rank *r, struct tb_relay_lane *lane)
{
    struct tb_ring_end down = {.words = lane->down};
    struct tb_link *links[2];
    uint64_t word;

    for (int i = 0; i < 2; i++)
        CHECK_EQ(tb_transport_relay.connect(r->port, 2 + i, &links[i]), TB_OK);
    for (size_t at = 0; at + sizeof(word) <= f->bytes; at += sizeof(word)) {
        memcpy(&word, f->data + at, sizeof(word));
        tb_ring_put(&down, word & ~TB_RELAY_LAP);
        if (fuzz_below(f, 3))
            continue;
        tb_transport_relay.poll(r->port);
        send_one(f, links[fuzz_below(f, 2)]);
    }
    while (tb_transport_relay.poll(r->port) > 0)
        continue;
    tb_transport_relay.pending(r->port);
}

static void fuzz_try(struct fuzz *f)
{
    static const int local[] = {0, 1};
    struct rank r = {0};
    struct tb_sink sink = {&r, on_packet, on_returned, on_lost};
    struct tb_relay_args relay = {.bytes = POOL_BYTES};
    struct tb_config config;
    struct tb_bell bell = {0};
    struct tb_port_args args = {.config = &config,
                                .up = &sink,
                                .endpoints = 4,
                                .local_ranks = 2,
                                .local = local,
                                .bell = &bell,
                                .relay = &relay};
    struct tb_regpool_plan slots;

    CHECK_EQ(tb_config_load(&config), TB_OK);
    CHECK_EQ(tb_plan_parse(&r.plan, text, strlen(text)), TB_OK);
    r.pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(r.pool != MAP_FAILED);
    relay.pool = r.pool;
    relay.plan = r.plan;
    CHECK_EQ(tb_transport_relay.open(&r.port, &args), TB_OK);
    CHECK_EQ(tb_regpool_plan(&slots, 2, POOL_BYTES), TB_OK);
    play(f, &r, tb_relay_at(r.pool, &slots, 0));
    tb_transport_relay.close(r.port);
    munmap(r.pool, POOL_BYTES);
    tb_plan_free(r.plan);
}
