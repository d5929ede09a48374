/* SPDX-License-Identifier: MIT */
/*
 * Sends small messages between all pairs until one fails, says what the error
 * was and how long after the last success it came, and waits, so that the
 * others can say theirs. Argument: the longest that may take, seconds (30).
 * Exit code 3 when it failed as it should, 1 when nothing has failed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { OTHERS_S = 4 };

static int swap(int to, int from)
{
    char out[1000] = {0}, in[1000];

    return MPI_Sendrecv(out, sizeof(out), MPI_BYTE, to, 0, in, sizeof(in),
                        MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    double most = argc > 1 ? atof(argv[1]) : 30.0, start, good;
    char text[MPI_MAX_ERROR_STRING];
    int rank, size, length, err = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    start = good = MPI_Wtime();
    while (!err && good - start < most) {
        for (int step = 1; step < size && !err; step++) {
            err = swap((rank + step) % size, (rank + size - step) % size);
            if (!err)
                good = MPI_Wtime();
        }
    }
    if (err) {
        double late = MPI_Wtime() - good;
        MPI_Error_string(err, text, &length);
        printf("rank %d after %.2f s: %s\n", rank, late, text);
        fflush(stdout);
        nanosleep(&(struct timespec){OTHERS_S, 0}, NULL);
    }
    /* MPI_Finalize would wait for those that nothing reaches. */
    _exit(err ? 3 : 1);
}
