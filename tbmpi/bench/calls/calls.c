/* SPDX-License-Identifier: MIT */
/* The rounds of calls.py in C: calls SECONDS. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 100, ROUNDS = 100, OBJECT_BYTES = 57 };
#define SAMPLE_SECONDS 2e-4 /* about */

static int rank, size, peer;
static double out[1], into[1], many[2], parts[2];
static char object[OBJECT_BYTES];

static void isend_irecv(void)
{
    MPI_Request receive, send;

    MPI_Irecv(into, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &receive);
    MPI_Isend(out, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
}

static void send_round(void)
{
    MPI_Request receive;

    MPI_Irecv(into, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &receive);
    MPI_Send(out, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
}

static void recv_round(void)
{
    MPI_Request send;

    MPI_Isend(out, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &send);
    MPI_Recv(into, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
}

static void sendrecv(void)
{
    MPI_Sendrecv(out, 1, MPI_DOUBLE, peer, 0, into, 1, MPI_DOUBLE, peer, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void bcast(void)
{
    MPI_Bcast(out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void reduce(void)
{
    MPI_Reduce(out, into, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void allreduce(void)
{
    MPI_Allreduce(out, into, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(void)
{
    MPI_Allgather(out, 1, MPI_DOUBLE, many, 1, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void alltoall(void)
{
    MPI_Alltoall(parts, 1, MPI_DOUBLE, many, 1, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What sending and receiving an object is in C: its bytes, matched first. */
static void take(void)
{
    MPI_Message message;
    MPI_Status status;
    int count;

    MPI_Mprobe(peer, 0, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    MPI_Mrecv(object, count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
}

static void objects(void)
{
    if (rank)
        take();
    MPI_Send(object, OBJECT_BYTES, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    if (!rank)
        take();
}

static int compare(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;

    return (a > b) - (a < b);
}

static double timed(void (*one)(void), double seconds)
{
    int count =
        seconds > 4 * SAMPLE_SECONDS ? (int)(seconds / SAMPLE_SECONDS) : 4;
    double *samples = malloc((size_t)count * sizeof *samples), start, found;

    if (!samples)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < WARM_UP; i++)
        one();
    for (int k = 0; k < count; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int i = 0; i < ROUNDS; i++)
            one();
        samples[k] = (MPI_Wtime() - start) / ROUNDS;
    }
    qsort(samples, (size_t)count, sizeof *samples, compare);
    found = samples[count / 4] * 1e6;
    free(samples);
    return found;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*one)(void);
    } rounds[] = {
        {"Isend, Irecv, 2 Wait", isend_irecv},
        {"Send, Irecv, Wait", send_round},
        {"Recv, Isend, Wait", recv_round},
        {"Sendrecv", sendrecv},
        {"Bcast", bcast},
        {"Reduce", reduce},
        {"Allreduce", allreduce},
        {"Allgather", allgather},
        {"Alltoall", alltoall},
        {"Barrier", barrier},
        {"send, recv", objects}, /* on two ranks */
    };
    int count = sizeof rounds / sizeof rounds[0];
    double seconds = argc > 1 ? atof(argv[1]) : 0.1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    peer = size - 1 - rank;
    for (int k = 0; k < (size == 2 ? count : count - 1); k++) {
        double found = timed(rounds[k].one, seconds);

        if (rank == 0)
            printf("%s\"%s\": %.4f", k ? ", " : "{", rounds[k].name, found);
    }
    if (rank == 0)
        printf("}\n");
    MPI_Finalize();
    return 0;
}
