/* SPDX-License-Identifier: MIT */
/*
 * Everybody sends to everybody at once, in every round messages of each kind
 * of slot in an order of chance, and looks at every byte. Now and then a rank
 * computes and takes nothing. Arguments: rounds (20), seed (1). Rank 0 prints
 * how much was exact. Exit code 1 if a byte was wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KINDS = 6, STALL_NS = 20000000 };
/* Lengths up to: in a packet, a slot of 1, 8, 32 frames, and several. */
static const int longest[KINDS] = {64, 3900, 4500, 32000, 131000, 600000};

static int rank, size;

static unsigned chance(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* What both ends know of the message of a round, kind and pair. */
static unsigned stamp(int seed, int round, int kind, int src, int dst)
{
    unsigned state =
        (unsigned)(seed * 1000003 + round * 8191 + kind * 509 + src * 61 + dst);

    chance(&state);
    return chance(&state);
}

static int length_of(unsigned what, int kind)
{
    int least = kind ? longest[kind - 1] : 0;

    return least + (int)(what % (unsigned)(longest[kind] - least + 1));
}

static void fill(unsigned char *p, int bytes, unsigned what)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(what + (unsigned)i * 5 + (unsigned)i / 253);
}

static long wrong_bytes(const unsigned char *p, int bytes, unsigned what)
{
    long wrong = 0;

    for (int i = 0; i < bytes; i++)
        wrong +=
            p[i] != (unsigned char)(what + (unsigned)i * 5 + (unsigned)i / 253);
    return wrong;
}

/* Numbers 0 to n - 1 in an order of chance. */
static void shuffle(int *order, int n, unsigned *state)
{
    for (int i = 0; i < n; i++) {
        int k = (int)(chance(state) % (unsigned)(i + 1));
        order[i] = order[k];
        order[k] = i;
    }
}

static long play(unsigned char **out, unsigned char **in, int seed, int round)
{
    int n = size * KINDS, *order = malloc(sizeof(*order) * (size_t)n);
    MPI_Request *request = malloc(sizeof(*request) * 2 * (size_t)n);
    unsigned state = (unsigned)(seed + round * size + rank);
    long wrong = 0;

    shuffle(order, n, &state);
    for (int i = 0; i < n; i++)
        MPI_Irecv(in[i], longest[i % KINDS], MPI_BYTE, i / KINDS, i % KINDS,
                  MPI_COMM_WORLD, &request[i]);
    for (int i = 0; i < n; i++) {
        int to = order[i] / KINDS, kind = order[i] % KINDS;
        unsigned what = stamp(seed, round, kind, rank, to);
        int bytes = length_of(what, kind);
        fill(out[order[i]], bytes, what);
        MPI_Isend(out[order[i]], bytes, MPI_BYTE, to, kind, MPI_COMM_WORLD,
                  &request[n + i]);
    }
    if (chance(&state) % 4 == 0)
        nanosleep(&(struct timespec){0, STALL_NS}, NULL);
    MPI_Waitall(2 * n, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++) {
        unsigned what = stamp(seed, round, i % KINDS, i / KINDS, rank);
        wrong += wrong_bytes(in[i], length_of(what, i % KINDS), what);
    }
    free(request);
    free(order);
    return wrong;
}

static unsigned char **make_buffers(void)
{
    unsigned char **p = malloc(sizeof(*p) * (size_t)(size * KINDS));

    for (int i = 0; i < size * KINDS; i++)
        p[i] = malloc((size_t)longest[i % KINDS]);
    return p;
}

static void free_buffers(unsigned char **p)
{
    for (int i = 0; i < size * KINDS; i++)
        free(p[i]);
    free(p);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    int seed = argc > 2 ? atoi(argv[2]) : 1;
    unsigned char **out, **in;
    long wrong = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = make_buffers();
    in = make_buffers();
    for (int round = 0; round < rounds; round++)
        wrong += play(out, in, seed, round);
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d rounds of %d ranks, %ld bytes wrong\n", rounds, size, all);
    free_buffers(out);
    free_buffers(in);
    MPI_Finalize();
    return all != 0;
}
