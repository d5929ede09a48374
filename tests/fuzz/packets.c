/* SPDX-License-Identifier: MIT */
/*
 * Packets of the engine (engine/packet.h), made up by a peer: this process
 * itself, over the self transport. Requests of all kinds are under way, so that
 * what a packet names may exist. No address is sent, for a process may read its
 * own memory wherever it likes.
 */
#include "engine/internal.h"

#include "fuzz/fuzz.h"

#define NAME 0x1234
#define MANY 6
#define MESSAGE 200000

/* What a bad packet leaves unfinished stays with the engine's requests. */
FUZZ_LEAKS

union any {
    struct tb_base base;
    struct tb_envelope envelope;
    struct tb_rts rts;
    struct tb_sync sync;
    struct tb_cts cts;
    struct tb_data data;
    struct tb_fin fin;
    struct tb_cancel cancel;
};

static void fuzz_example(struct fuzz *f)
{
    union any p;

    memset(&p, 0, sizeof(p));
    p.base.kind = (uint8_t)(1 + fuzz_below(f, 8));
    p.base.flags = (uint8_t)fuzz_below(f, 4);
    p.base.seq = (uint32_t)fuzz_below(f, 2 * MANY);
    switch (p.base.kind) {
    case TB_PACKET_EAGER:
    case TB_PACKET_RTS:
        p.envelope.context = NAME;
        p.envelope.tag = (int32_t)fuzz_below(f, 2);
        p.rts.bytes = fuzz_below(f, 2 * MESSAGE);
        p.rts.from = 1 + (uint32_t)fuzz_below(f, MANY);
        break;
    case TB_PACKET_CTS:
        p.cts.id = 1 + (uint32_t)fuzz_below(f, MANY);
        p.cts.from = 1 + (uint32_t)fuzz_below(f, MANY);
        p.cts.offset = fuzz_below(f, MESSAGE);
        p.cts.end = fuzz_below(f, 2 * MESSAGE);
        break;
    default:
        p.data.id = 1 + (uint32_t)fuzz_below(f, MANY);
        p.data.offset = fuzz_below(f, MESSAGE);
    }
    fuzz_add(f, &p, sizeof(p));
    for (size_t n = fuzz_below(f, 100); n > 0; n--)
        fuzz_add(f, "0123456789abcdef", 16);
}

static void inject(struct tb_engine *e, const struct fuzz *f)
{
    const struct tb_route *way = tb_net_route(e->net, 0);
    union any *p;
    struct tb_slot slot;
    size_t bytes = TB_MIN(f->bytes, way->limits.packet_max);

    if (bytes < sizeof(struct tb_hop) ||
        tb_route_reserve(way, TB_CONTROL, bytes, &slot))
        return;
    memcpy(slot.data, f->data, bytes);
    p = slot.data;
    p->base.hop = (struct tb_hop){0, 0};
    if (bytes >= sizeof(struct tb_rts) && p->base.kind == TB_PACKET_RTS)
        p->rts.address = 0;
    tb_route_commit(way, &slot, bytes);
}

static void start(struct fuzz *f, struct tb_engine *e, struct tb_context *c,
                  char *buf)
{
    struct tb_req *req;
    int tag = (int)fuzz_below(f, 2);
    int64_t count = fuzz_below(f, 2) ? 100 : MESSAGE;

    if (fuzz_below(f, 2)) {
        struct tb_recv_args a = {.context = c,
                                 .buf = buf,
                                 .layout = &tb_layout_byte,
                                 .count = count,
                                 .source = TB_ANY_SOURCE,
                                 .tag = tag};
        tb_engine_recv(e, &a, &req);
    } else {
        struct tb_send_args a = {.context = c,
                                 .buf = buf,
                                 .layout = &tb_layout_byte,
                                 .count = count,
                                 .tag = tag,
                                 .mode = fuzz_below(f, 2) ? TB_SEND_SYNC
                                                          : TB_SEND_STANDARD};
        tb_engine_send(e, &a, false, &req);
    }
}

static void fuzz_try(struct fuzz *f)
{
    static const int peers[] = {0};
    static char memory[MANY][MESSAGE];
    const enum tb_log_level nothing = (enum tb_log_level)(-1);
    struct tb_config config;
    struct tb_boot *boot;
    struct tb_engine *e;
    struct tb_context *c;

    CHECK_EQ(tb_config_load(&config), TB_OK);
    CHECK_EQ(tb_boot_open(&boot, &config), TB_OK);
    CHECK_EQ(tb_engine_open(&e, &config, boot), TB_OK);
    tb_log_limit(nothing); /* it would name every packet */
    CHECK_EQ(tb_context_open(e, NAME, peers, 1, &c), TB_OK);
    for (int i = 0; i < MANY; i++) {
        if (fuzz_below(f, 3))
            start(f, e, c, memory[i]);
        inject(e, f);
        for (size_t n = fuzz_below(f, 4); n > 0; n--)
            tb_engine_poll(e);
        fuzz_change(f);
    }
    for (int i = 0; i < 20; i++)
        tb_engine_poll(e);
    tb_context_close(c);
    tb_engine_close(e);
    tb_boot_close(boot);
}
