/* SPDX-License-Identifier: MIT */
/*
 * Sends numbered data between all pairs of ranks for some seconds (argument,
 * default 1) and looks at every byte that arrives. Rank 0 prints how much was
 * exact; each rank says where it ran. Exit code 1 if a byte was wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZES = 5, MOST = 1 << 20 };
static const int sizes[SIZES] = {8, 1000, 4097, 70000, MOST};

static unsigned char expected(int src, int dst, int round, int at)
{
    return (unsigned char)(src * 31 + dst * 17 + round * 7 + at * 3 + at / 251);
}

static void fill(unsigned char *p, int bytes, int src, int dst, int round)
{
    for (int i = 0; i < bytes; i++)
        p[i] = expected(src, dst, round, i);
}

static long wrong_bytes(const unsigned char *p, int bytes, int src, int dst,
                        int round)
{
    long wrong = 0;

    for (int i = 0; i < bytes; i++)
        wrong += p[i] != expected(src, dst, round, i);
    return wrong;
}

/* One message each way with the rank `step` further on, and one before. */
static long swap(unsigned char *out, unsigned char *in, int step, int round)
{
    int rank, size, bytes = sizes[round % SIZES], next, before;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + step) % size;
    before = (rank + size - step) % size;
    fill(out, bytes, rank, next, round);
    MPI_Sendrecv(out, bytes, MPI_BYTE, next, round, in, bytes, MPI_BYTE, before,
                 round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return wrong_bytes(in, bytes, before, rank, round);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1.0, end;
    unsigned char *out = malloc(MOST), *in = malloc(MOST);
    char host[MPI_MAX_PROCESSOR_NAME];
    int rank, size, length, more = 1, round = 0;
    long wrong = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    printf("rank %d on %s\n", rank, host);
    fflush(stdout);
    end = MPI_Wtime() + seconds;
    while (more) {
        for (int step = 1; step < size; step++)
            wrong += swap(out, in, step, round);
        round++;
        more = MPI_Wtime() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d rounds of %d ranks, %ld bytes wrong\n", round, size, all);
    free(out);
    free(in);
    MPI_Finalize();
    return all != 0;
}
