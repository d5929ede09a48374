/* SPDX-License-Identifier: MIT */
/*
 * Two processes at the ends of one cable, on the emulated fabric or on real
 * devices (macs.h): round trips, then a stream, every byte checked, times
 * printed.
 *
 *     cable [round trips, 1000]
 */
#include "transport/rig.h"

#define STREAM 500 /* packets of full length */

static struct rig rig;

/* The other end's answer is its next packet. */
static void play(struct end *e, int to, long rounds, size_t bytes)
{
    long before = e->packets;

    for (long i = 0; i < rounds; i++) {
        if (e->place == 0)
            send_packet(e, to, TB_CONTROL, (uint64_t)(before + i), bytes);
        await_packets(e, before + i + 1);
        if (e->place == 1)
            send_packet(e, to, TB_CONTROL, (uint64_t)(before + i), bytes);
    }
}

static void stream(struct end *e, int to, long packets)
{
    uint64_t first = e->next[to];

    if (e->place == 0) {
        for (long i = 0; i < packets; i++)
            send_packet(e, to, TB_CONTROL, first + (uint64_t)i,
                        e->limits.packet_max);
        await_packets(e, e->packets + 1);
    } else {
        await_packets(e, e->packets + packets);
        send_packet(e, to, TB_CONTROL, first, sizeof(struct stamp));
    }
}

static void run(int place, long rounds)
{
    struct tb_rdma_counts counts;
    struct end e;
    uint64_t t[4];

    rig.macs.host(place);
    end_init(&e, &rig, place);
    play(&e, !place, 10, sizeof(struct stamp)); /* the link comes up */
    t[0] = tb_now();
    play(&e, !place, rounds, sizeof(struct stamp));
    t[1] = tb_now();
    play(&e, !place, rounds / 10 + 1, e.limits.packet_max);
    t[2] = tb_now();
    stream(&e, !place, STREAM);
    t[3] = tb_now();
    tb_rdma_count(e.port, &counts);
    if (place == 0) {
        printf("half a round trip: %zu bytes %.1f us, %zu bytes %.1f us\n",
               sizeof(struct stamp),
               (double)(t[1] - t[0]) / 2e3 / (double)rounds,
               e.limits.packet_max,
               (double)(t[2] - t[1]) / 2e3 / (double)(rounds / 10 + 1));
        printf(
            "stream: %.1f MB/s; resent %llu, lost %llu, epochs %llu\n",
            (double)e.limits.packet_max * STREAM * 1e3 / (double)(t[3] - t[2]),
            (unsigned long long)counts.resent, (unsigned long long)counts.lost,
            (unsigned long long)counts.epochs);
    }
    CHECK_EQ(e.losts, 0);
    end_fini(&e);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    int status;
    pid_t child;

    CHECK(rounds > 0);
    rig_init(&rig, &tb_transport_rdma, 2, 0);
    child = fork();
    if (child == 0) {
        tb_follow_parent();
        run(1, rounds);
        _exit(0);
    }
    run(0, rounds);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    rig_fini(&rig);
    return 0;
}
