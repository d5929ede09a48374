/* SPDX-License-Identifier: MIT */
/*
 * Communicates without an end, in all sizes and ways, until somebody kills a
 * rank. Each rank prints its process number before anything else.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 20 };

/* A window lives for one round; its memory goes with whoever is killed. */
static void use_window(int flavor, char *out, int bytes, int next)
{
    long long one = 1;
    char *base = out;
    MPI_Win win;

    if (flavor == MPI_WIN_FLAVOR_CREATE)
        MPI_Win_create(base, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate(MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, bytes / 2, MPI_BYTE, next, MOST / 2, bytes / 2, MPI_BYTE, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Accumulate(&one, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, MPI_SUM,
                   win);
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
}

int main(void)
{
    int rank, size;
    char *out = calloc(1, MOST), *in = calloc(1, MOST);
    double one = 1.0, sum;

    printf("pid %ld\n", (long)getpid());
    fflush(stdout);
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (unsigned round = 0;; round++) {
        int bytes = 1 << (round % 21);
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        MPI_Request r[2];

        MPI_Sendrecv(out, bytes, MPI_BYTE, next, 0, in, bytes, MPI_BYTE, before,
                     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Bcast(out, bytes, MPI_BYTE, (int)(round % (unsigned)size),
                  MPI_COMM_WORLD);
        MPI_Irecv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                  &r[0]);
        MPI_Isend(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        use_window(round % 2 ? MPI_WIN_FLAVOR_CREATE : MPI_WIN_FLAVOR_ALLOCATE,
                   out, bytes, next);
    }
}
