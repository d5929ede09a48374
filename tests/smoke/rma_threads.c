/* ranks: 2 4 */
/* SPDX-License-Identifier: MIT */
/* Several threads of each rank on one window, and on windows of their own. */
#include <pthread.h>

#include "smoke.h"

enum { THREADS = 3, ROUNDS = 150, N = 3000 };

static MPI_Win common, own[THREADS];
static int *memory[THREADS];
static long long sums[THREADS];

static void count(int me)
{
    long long one = 1, before;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, i % size, me, MPI_SUM,
                         common);
        MPI_Win_flush(i % size, common);
        sums[me] += before >= 0;
        MPI_Accumulate(&one, 1, MPI_LONG_LONG, 0, THREADS, 1, MPI_LONG_LONG,
                       MPI_SUM, common);
    }
    MPI_Win_flush_all(common);
}

static void exchange(int me)
{
    int *mine = malloc(N * sizeof *mine);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < N; k++)
            mine[k] = i + rank * 1000 + me * 100000;
        MPI_Win_fence(0, own[me]);
        MPI_Put(mine, N, MPI_INT, right, 0, N, MPI_INT, own[me]);
        MPI_Win_fence(0, own[me]);
        for (int k = 0; k < N; k++)
            CHECK(memory[me][k] == i + left * 1000 + me * 100000);
    }
    free(mine);
}

static void *run(void *arg)
{
    int me = (int)((char *)arg - (char *)NULL);
    count(me);
    exchange(me);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    long long *base;
    smoke_init(MPI_THREAD_MULTIPLE);
    MPI_Win_create(calloc(THREADS + 1, 8), (THREADS + 1) * 8, 8, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &common);
    for (int i = 0; i < THREADS; i++)
        MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL,
                         MPI_COMM_WORLD, &memory[i], &own[i]);
    MPI_Win_lock_all(0, common);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (char *)NULL + i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MPI_Win_unlock_all(common);
    MPI_Barrier(MPI_COMM_WORLD);
    int flag;
    MPI_Win_get_attr(common, MPI_WIN_BASE, &base, &flag);
    for (int i = 0; i < THREADS; i++) {
        CHECK(sums[i] == ROUNDS);
        CHECK(base[i] == (ROUNDS / size + (rank < ROUNDS % size)) * size);
        MPI_Win_free(&own[i]);
    }
    CHECK(rank || base[THREADS] == (long long)THREADS * ROUNDS * size);
    MPI_Win_free(&common);
    free(base);
    MPI_Finalize();
    return 0;
}
