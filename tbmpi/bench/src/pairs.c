/* SPDX-License-Identifier: MIT */
/*
 * Point-to-point families.  Rank r of the lower half works with rank
 * r + size / 2; all pairs run at the same time.
 *
 * latency     ping-pong, an operation is half a round trip
 * bandwidth   64 messages in flight, then one acknowledgement
 * bibandwidth the same in both directions at once, no acknowledgement
 * msgrate     windows follow each other without an acknowledgement
 *
 * Receive buffers of one window never overlap, as MPI asks.  Where 64 slots
 * would take more than 8 MiB, fewer receives are posted ahead and each slot
 * is posted again as soon as its message is in.
 */
#include "bench.h"

#include <mpi.h>
#include <string.h>

enum { TAG_DATA = 1, TAG_ACK = 2, LARGEST = 4 << 20 };

static int slot_count(size_t bytes)
{
    size_t n = bytes ? BENCH_SLOTS_BYTES / bytes : BENCH_WINDOW;

    return n >= BENCH_WINDOW ? BENCH_WINDOW : n ? (int)n : 1;
}

static size_t one_message(const struct bench *b, size_t bytes)
{
    (void)b;
    return bytes;
}

static size_t all_slots(const struct bench *b, size_t bytes)
{
    (void)b;
    return bytes * (size_t)slot_count(bytes);
}

static void fill_slots(struct bench *b, size_t bytes)
{
    if (b->partner < 0)
        return;
    bench_pattern(b->send, bytes, b->rank, b->partner, b->key);
    memset(b->recv, 0, all_slots(b, bytes));
}

static void fill_one(struct bench *b, size_t bytes)
{
    if (b->partner < 0)
        return;
    bench_pattern(b->send, bytes, b->rank, b->partner, b->key);
    memset(b->recv, 0, bytes);
}

static long check_one(struct bench *b, size_t bytes)
{
    if (b->partner < 0)
        return 0;
    return bench_mismatch(b->recv, bytes, b->partner, b->rank, b->key);
}

static long check_slots(struct bench *b, size_t bytes)
{
    int slots = slot_count(bytes);
    long wrong = 0;

    if (b->partner < 0)
        return 0;
    for (int i = 0; i < slots; i++)
        wrong += bench_mismatch(b->recv + (size_t)i * bytes, bytes, b->partner,
                                b->rank, b->key);
    return wrong;
}

static long check_slots_upper(struct bench *b, size_t bytes)
{
    return b->is_lower ? 0 : check_slots(b, bytes);
}

static void ping(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns; i++) {
        MPI_Send(b->send, (int)bytes, MPI_BYTE, b->partner, TAG_DATA,
                 MPI_COMM_WORLD);
        MPI_Recv(b->recv, (int)bytes, MPI_BYTE, b->partner, TAG_DATA,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void pong(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns; i++) {
        MPI_Recv(b->recv, (int)bytes, MPI_BYTE, b->partner, TAG_DATA,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(b->send, (int)bytes, MPI_BYTE, b->partner, TAG_DATA,
                 MPI_COMM_WORLD);
    }
}

static void latency_loop(struct bench *b, size_t bytes)
{
    if (b->partner < 0)
        return;
    if (b->is_lower)
        ping(b, bytes);
    else
        pong(b, bytes);
}

static void post_sends(struct bench *b, size_t bytes, MPI_Request *req)
{
    for (int i = 0; i < BENCH_WINDOW; i++)
        MPI_Isend(b->send, (int)bytes, MPI_BYTE, b->partner, TAG_DATA,
                  MPI_COMM_WORLD, &req[i]);
}

static void post_slot(struct bench *b, size_t bytes, int slot, MPI_Request *req)
{
    MPI_Irecv(b->recv + (size_t)slot * bytes, (int)bytes, MPI_BYTE, b->partner,
              TAG_DATA, MPI_COMM_WORLD, &req[slot]);
}

static void finish_recvs(struct bench *b, size_t bytes, int slots,
                         MPI_Request *req)
{
    for (int i = slots; i < BENCH_WINDOW; i++) {
        MPI_Wait(&req[i % slots], MPI_STATUS_IGNORE);
        post_slot(b, bytes, i % slots, req);
    }
    MPI_Waitall(slots, req, MPI_STATUSES_IGNORE);
}

static void send_window(struct bench *b, size_t bytes)
{
    MPI_Request req[BENCH_WINDOW];

    post_sends(b, bytes, req);
    MPI_Waitall(BENCH_WINDOW, req, MPI_STATUSES_IGNORE);
}

static void recv_window(struct bench *b, size_t bytes)
{
    MPI_Request req[BENCH_WINDOW];
    int slots = slot_count(bytes);

    for (int i = 0; i < slots; i++)
        post_slot(b, bytes, i, req);
    finish_recvs(b, bytes, slots, req);
}

static void acknowledge(struct bench *b)
{
    char ack = 0;

    if (b->is_lower)
        MPI_Recv(&ack, 1, MPI_BYTE, b->partner, TAG_ACK, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    else
        MPI_Send(&ack, 1, MPI_BYTE, b->partner, TAG_ACK, MPI_COMM_WORLD);
}

static void one_way_window(struct bench *b, size_t bytes)
{
    if (b->is_lower)
        send_window(b, bytes);
    else
        recv_window(b, bytes);
}

static void bandwidth_loop(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns && b->partner >= 0; i++) {
        one_way_window(b, bytes);
        acknowledge(b);
    }
}

static void msgrate_loop(struct bench *b, size_t bytes)
{
    if (b->partner < 0)
        return;
    for (int i = 0; i < b->turns; i++)
        one_way_window(b, bytes);
    acknowledge(b);
}

static void bibandwidth_loop(struct bench *b, size_t bytes)
{
    MPI_Request sends[BENCH_WINDOW], recvs[BENCH_WINDOW];
    int slots = slot_count(bytes);

    for (int i = 0; i < b->turns && b->partner >= 0; i++) {
        for (int k = 0; k < slots; k++)
            post_slot(b, bytes, k, recvs);
        post_sends(b, bytes, sends);
        finish_recvs(b, bytes, slots, recvs);
        MPI_Waitall(BENCH_WINDOW, sends, MPI_STATUSES_IGNORE);
    }
}

const struct family bench_pair_families[] = {
    {
        .name = "latency",
        .min = 1,
        .max = LARGEST,
        .unit = 1,
        .starts_at_0 = 1,
        .ops = 2,
        .is_pairs = 1,
        .send_need = one_message,
        .recv_need = one_message,
        .fill = fill_one,
        .loop = latency_loop,
        .check = check_one,
    },
    {
        .name = "bandwidth",
        .min = 1,
        .max = LARGEST,
        .unit = 1,
        .ops = BENCH_WINDOW,
        .is_pairs = 1,
        .send_need = one_message,
        .recv_need = all_slots,
        .fill = fill_slots,
        .loop = bandwidth_loop,
        .check = check_slots_upper,
    },
    {
        .name = "bibandwidth",
        .min = 1,
        .max = LARGEST,
        .unit = 1,
        .ops = BENCH_WINDOW,
        .both_ways = 1,
        .is_pairs = 1,
        .send_need = one_message,
        .recv_need = all_slots,
        .fill = fill_slots,
        .loop = bibandwidth_loop,
        .check = check_slots,
    },
    {
        .name = "msgrate",
        .min = 1,
        .max = 4096,
        .unit = 1,
        .starts_at_0 = 1,
        .ops = BENCH_WINDOW,
        .is_pairs = 1,
        .send_need = one_message,
        .recv_need = all_slots,
        .fill = fill_slots,
        .loop = msgrate_loop,
        .check = check_slots_upper,
    },
};
const int bench_pair_family_count =
    sizeof(bench_pair_families) / sizeof(bench_pair_families[0]);
