/* SPDX-License-Identifier: MIT */
/*
 * Collective families: back-to-back calls on MPI_COMM_WORLD.
 *
 * The root of Bcast and Reduce moves on by one rank with every call, so that
 * a root cannot run ahead of the others and turn the time of a call into the
 * rate of a pipeline.  Sizes are bytes per call for Bcast, Reduce and
 * Allreduce, bytes per rank for Allgather, bytes per pair for Alltoall.
 * Reductions add doubles whose sums are exact.
 */
#include "bench.h"

#include <mpi.h>
#include <string.h>

enum { LARGEST = 1 << 20 };

static size_t nothing(const struct bench *b, size_t bytes)
{
    (void)b;
    (void)bytes;
    return 0;
}

static size_t one_block(const struct bench *b, size_t bytes)
{
    (void)b;
    return bytes;
}

static size_t block_per_rank(const struct bench *b, size_t bytes)
{
    return bytes * (size_t)b->size;
}

static int root_of(const struct bench *b, int turn)
{
    return (int)((b->key + (unsigned)turn) % (unsigned)b->size);
}

static void fill_none(struct bench *b, size_t bytes)
{
    (void)b;
    (void)bytes;
}

static long check_none(struct bench *b, size_t bytes)
{
    (void)b;
    (void)bytes;
    return 0;
}

static void barrier_loop(struct bench *b, size_t bytes)
{
    (void)bytes;
    for (int i = 0; i < b->turns; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

/* Only the first root has the data: the others pass on what they got. */
static void bcast_fill(struct bench *b, size_t bytes)
{
    if (b->rank == root_of(b, 0))
        bench_pattern(b->recv, bytes, 0, 0, b->key);
    else
        memset(b->recv, 0, bytes);
}

static void bcast_loop(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns; i++)
        MPI_Bcast(b->recv, (int)bytes, MPI_BYTE, root_of(b, i), MPI_COMM_WORLD);
}

static long bcast_check(struct bench *b, size_t bytes)
{
    return bench_mismatch(b->recv, bytes, 0, 0, b->key);
}

static double term(const struct bench *b, size_t i)
{
    return (double)((i + b->key) % 1021);
}

static void reduce_fill(struct bench *b, size_t bytes)
{
    double *d = (double *)b->send;

    for (size_t i = 0; i < bytes / sizeof(double); i++)
        d[i] = term(b, i) + b->rank;
    memset(b->recv, 0, bytes);
}

static long sum_mismatch(struct bench *b, size_t bytes)
{
    const double *d = (const double *)b->recv;
    double ranks = 0.5 * b->size * (b->size - 1);
    long wrong = 0;

    for (size_t i = 0; i < bytes / sizeof(double); i++)
        wrong += d[i] != b->size * term(b, i) + ranks;
    return wrong;
}

static void reduce_loop(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns; i++)
        MPI_Reduce(b->send, b->recv, (int)(bytes / sizeof(double)), MPI_DOUBLE,
                   MPI_SUM, root_of(b, i), MPI_COMM_WORLD);
}

static long reduce_check(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns && i < b->size; i++)
        if (root_of(b, i) == b->rank)
            return sum_mismatch(b, bytes);
    return 0;
}

static void allreduce_loop(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns; i++)
        MPI_Allreduce(b->send, b->recv, (int)(bytes / sizeof(double)),
                      MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather_fill(struct bench *b, size_t bytes)
{
    bench_pattern(b->send, bytes, b->rank, 0, b->key);
    memset(b->recv, 0, block_per_rank(b, bytes));
}

static void allgather_loop(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns; i++)
        MPI_Allgather(b->send, (int)bytes, MPI_BYTE, b->recv, (int)bytes,
                      MPI_BYTE, MPI_COMM_WORLD);
}

static long allgather_check(struct bench *b, size_t bytes)
{
    long wrong = 0;

    for (int r = 0; r < b->size; r++)
        wrong +=
            bench_mismatch(b->recv + (size_t)r * bytes, bytes, r, 0, b->key);
    return wrong;
}

static void alltoall_fill(struct bench *b, size_t bytes)
{
    for (int r = 0; r < b->size; r++)
        bench_pattern(b->send + (size_t)r * bytes, bytes, b->rank, r, b->key);
    memset(b->recv, 0, block_per_rank(b, bytes));
}

static void alltoall_loop(struct bench *b, size_t bytes)
{
    for (int i = 0; i < b->turns; i++)
        MPI_Alltoall(b->send, (int)bytes, MPI_BYTE, b->recv, (int)bytes,
                     MPI_BYTE, MPI_COMM_WORLD);
}

static long alltoall_check(struct bench *b, size_t bytes)
{
    long wrong = 0;

    for (int r = 0; r < b->size; r++)
        wrong += bench_mismatch(b->recv + (size_t)r * bytes, bytes, r, b->rank,
                                b->key);
    return wrong;
}

const struct family bench_coll_families[] = {
    {
        .name = "barrier",
        .ops = 1,
        .send_need = nothing,
        .recv_need = nothing,
        .fill = fill_none,
        .loop = barrier_loop,
        .check = check_none,
    },
    {
        .name = "bcast",
        .min = 8,
        .max = LARGEST,
        .unit = 1,
        .ops = 1,
        .send_need = nothing,
        .recv_need = one_block,
        .fill = bcast_fill,
        .loop = bcast_loop,
        .check = bcast_check,
    },
    {
        .name = "reduce",
        .min = 8,
        .max = LARGEST,
        .unit = sizeof(double),
        .ops = 1,
        .send_need = one_block,
        .recv_need = one_block,
        .fill = reduce_fill,
        .loop = reduce_loop,
        .check = reduce_check,
    },
    {
        .name = "allreduce",
        .min = 8,
        .max = LARGEST,
        .unit = sizeof(double),
        .ops = 1,
        .send_need = one_block,
        .recv_need = one_block,
        .fill = reduce_fill,
        .loop = allreduce_loop,
        .check = sum_mismatch,
    },
    {
        .name = "allgather",
        .min = 8,
        .max = LARGEST,
        .unit = 1,
        .ops = 1,
        .send_need = one_block,
        .recv_need = block_per_rank,
        .fill = allgather_fill,
        .loop = allgather_loop,
        .check = allgather_check,
    },
    {
        .name = "alltoall",
        .min = 8,
        .max = LARGEST,
        .unit = 1,
        .ops = 1,
        .send_need = block_per_rank,
        .recv_need = block_per_rank,
        .fill = alltoall_fill,
        .loop = alltoall_loop,
        .check = alltoall_check,
    },
};
const int bench_coll_family_count =
    sizeof(bench_coll_families) / sizeof(bench_coll_families[0]);
