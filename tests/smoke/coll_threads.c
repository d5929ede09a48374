/* ranks: 1 2 3 */
/* SPDX-License-Identifier: MIT */
/*
 * Threads that call collectives at the same time, each on communicators of its
 * own, so that lanes are agreed upon, used and given back by several at once.
 */
#include "smoke.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 12, CALLS = 12, MOST = 3000 };

static MPI_Comm base[THREADS];

static int value(int from, int key, int i)
{
    return from * 31 + key * 7 + i;
}

static void check_sum(const int *out, int n, int count, int key)
{
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int r = 0; r < n; r++)
            sum += value(r, key, i);
        CHECK(out[i] == sum);
    }
}

static void call(MPI_Comm comm, int key, int count)
{
    static _Thread_local int in[MOST], out[4 * MOST];
    MPI_Request r;
    int me, n, root = key % size;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int i = 0; i < count; i++)
        in[i] = value(me, key, i);
    MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
    check_sum(out, n, count, key);
    MPI_Iallreduce(in, out, count, MPI_INT, MPI_SUM, comm, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    check_sum(out, n, count, key);
    MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, comm);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < count; i++)
            CHECK(out[k * count + i] == value(k, key, i));
    MPI_Bcast(in, count, MPI_INT, root, comm);
    for (int i = 0; i < count; i++)
        CHECK(in[i] == value(root, key, i));
    MPI_Barrier(comm);
}

static void *work(void *arg)
{
    int t = *(int *)arg;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        MPI_Comm_dup(base[t], &comm);
        for (int i = 0; i < CALLS; i++)
            call(comm, t * 100 + round + i, i * i * 20);
        MPI_Comm_free(&comm);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], level;
    smoke_init(MPI_THREAD_MULTIPLE);
    MPI_Query_thread(&level);
    CHECK(level == MPI_THREAD_MULTIPLE);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &base[t]);
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        CHECK(!pthread_create(&threads[t], NULL, work, &numbers[t]));
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&base[t]);
    MPI_Finalize();
    return 0;
}
