/* ranks: 1 2 3 */
/* SPDX-License-Identifier: MIT */
/*
 * MPI_THREAD_MULTIPLE: several threads of each rank talk at once, each with
 * its partner on the next rank, blocking and not, and one that only computes
 * and tests.
 */
#include <pthread.h>

#include "smoke.h"

enum { THREADS = 4, ROUNDS = 300 };

static void *talk(void *arg)
{
    int tag = (int)(long)arg;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int i = 0; i < ROUNDS; i++) {
        int out = rank * 100000 + i, in = -1;
        MPI_Request r;
        MPI_Irecv(&in, 1, MPI_INT, before, tag, MPI_COMM_WORLD, &r);
        if (tag % 2)
            MPI_Send(&out, 1, MPI_INT, next, tag, MPI_COMM_WORLD);
        else
            MPI_Ssend(&out, 1, MPI_INT, next, tag, MPI_COMM_WORLD);
        int done = 0;
        if (tag == 0)
            while (!done)
                MPI_Test(&r, &done, MPI_STATUS_IGNORE);
        else
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        CHECK(in == before * 100000 + i);
    }
    return NULL;
}

static void *reduce(void *arg)
{
    MPI_Comm comm = *(MPI_Comm *)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int v = rank + i, sum = 0;
        MPI_Allreduce(&v, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size * (size - 1) / 2 + size * i);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[THREADS], other;
    MPI_Comm comm;
    smoke_init(MPI_THREAD_MULTIPLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    pthread_create(&other, NULL, reduce, &comm);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, talk, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    pthread_join(other, NULL);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
