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
    }
}
