/* SPDX-License-Identifier: MIT */
/*
 * A tool, not a test: half round trip and streaming bandwidth of a bare
 * transport between two processes.
 *
 *     pingpong [ping|stream] [longest message, bytes] [shm|tcp|rdma [settings]]
 *
 * The settings are lines of a fabric's description; "set rate 1" by default.
 */
#include "transport/rig.h"

#define BATCHES 40

static const struct tb_transport *via;

struct meter {
    struct end end;
    struct tb_link *link;
    struct tb_limits limits;
    size_t got; /* bytes */
    long packets;
    char *target; /* where received bytes go, as in a receive */
    size_t target_bytes;
};

static void on_packet(void *ctx, int from, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct meter *e = ctx;

    (void)from, (void)ch;
    memcpy(e->target + e->got % e->target_bytes, data, bytes);
    e->got += bytes;
    e->packets++;
}

static void on_returned(void *ctx, int to, enum tb_channel ch, const void *data,
                        size_t bytes)
{
    (void)ctx, (void)to, (void)ch, (void)data, (void)bytes;
}

static void on_lost(void *ctx, int peer, tb_err why)
{
    (void)ctx;
    fprintf(stderr, "lost %d: %s\n", peer, tb_err_text(why));
    exit(1);
}

static void must(tb_err err)
{
    if (err) {
        fprintf(stderr, "%s: %s\n", tb_err_text(err), tb_fail_note());
        exit(1);
    }
}

/* Sends `bytes` in packets; polls while there is no room. */
static void send_bytes(struct meter *e, const char *from, size_t bytes)
{
    while (bytes) {
        size_t n = TB_MIN(bytes, e->limits.packet_max);
        struct tb_slot slot;
        tb_err err = via->reserve(e->link, TB_CONTROL, n, &slot);
        if (err == TB_ERR_AGAIN) {
            end_poll(&e->end);
            continue;
        }
        must(err);
        memcpy(slot.data, from, n);
        via->commit(e->link, &slot, n);
        from += n;
        bytes -= n;
    }
}

static void receive_bytes(struct meter *e, size_t bytes)
{
    while (e->got < bytes)
        end_poll(&e->end);
    e->got -= bytes;
}

/* One batch of round trips; nanoseconds of half a one. */
static double ping(struct meter *e, int self, size_t bytes, const char *data,
                   int rounds)
{
    uint64_t start = tb_now();

    for (int i = 0; i < rounds; i++) {
        if (self == 0)
            send_bytes(e, data, bytes);
        receive_bytes(e, bytes);
        if (self == 1)
            send_bytes(e, data, bytes);
    }
    return (double)(tb_now() - start) / rounds / 2;
}

/* One batch in one direction; nanoseconds a message. */
static double stream(struct meter *e, int self, size_t bytes, const char *data,
                     int rounds)
{
    uint64_t start = tb_now();

    for (int i = 0; i < rounds; i++) {
        if (self == 0)
            send_bytes(e, data, bytes);
        else
            receive_bytes(e, bytes);
    }
    if (self == 0)
        receive_bytes(e, 1);
    else
        send_bytes(e, data, 1);
    return (double)(tb_now() - start) / rounds;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The lower quartile of many batches: other programs disturb some. */
static double measure(struct meter *e, int self, size_t bytes, const char *data,
                      bool is_stream)
{
    double ns[BATCHES];
    int rounds = (int)TB_MAX(TB_MIN(200, (1u << 20) / bytes), 2);

    for (int i = 0; i < BATCHES; i++)
        ns[i] = (is_stream ? stream : ping)(e, self, bytes, data, rounds);
    qsort(ns, BATCHES, sizeof(*ns), by_size);
    return ns[BATCHES / 4];
}

int main(int argc, char **argv)
{
    bool is_stream = argc > 1 && argv[1][0] == 's';
    size_t most = argc > 2 ? strtoull(argv[2], NULL, 10) : 4 << 20;
    char over = argc > 3 ? argv[3][0] : 's';
    struct meter m = {.target_bytes = most};
    struct rig r;
    int self;
    char *data = malloc(most);

    if (over == 'r')
        rig_init_macs(&r, 2, 1, argc > 4 ? argv[4] : "set rate 1\n");
    else
        rig_init(&r, over == 't' ? &tb_transport_tcp : &tb_transport_shm, 2, 0);
    self = fork() ? 0 : 1;
    rig_keep(&r, self);
    alarm(0);
    if (self)
        tb_follow_parent();
    m.target = malloc(2 * most + (1 << 20));
    memset(data, 1, most);
    memset(m.target, 1, 2 * most);
    end_init(&m.end, &r, self);
    m.end.sink = (struct tb_sink){&m, on_packet, on_returned, on_lost};
    via = r.via;
    m.link = m.end.links[1 - self];
    m.limits = m.end.limits;
    for (size_t bytes = 8; bytes <= most; bytes *= bytes < 1024 ? 2 : 4) {
        double ns = measure(&m, self, bytes, data, is_stream);
        if (self == 0)
            printf("%8zu bytes %10.1f ns %8.2f GB/s\n", bytes, ns,
                   (double)bytes / ns);
    }
    end_fini(&m.end);
    if (self)
        return 0;
    wait(NULL);
    rig_fini(&r);
    return 0;
}
