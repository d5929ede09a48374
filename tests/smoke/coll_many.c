/* ranks: 2 3 4 6 */
/* SPDX-License-Identifier: MIT */
/*
 * Many collectives under way at once: random sequences, equal on all ranks, of
 * blocking and nonblocking calls on several communicators, completed in a
 * random order that differs from rank to rank; with communicators that come
 * and go, so that shared memory is reused.
 */
#include "smoke.h"

enum { OPEN = 40, COMMS = 6, MOST = 20000 };

struct open {
    MPI_Request request;
    int kind, count, root, n, key;
    int *in, *out;
};

static unsigned shared = 1, private; /* states of two random generators */

static int random_of(unsigned *state, int below)
{
    *state = *state * 1103515245 + 12345;
    return (int)((*state >> 16) % (unsigned)below);
}

static int value(int from, int key, int i)
{
    return from * 31 + key * 7 + i;
}

static int random_count(void)
{
    static const int limits[] = {2, 30, 600, 5000, MOST};
    return random_of(&shared, limits[random_of(&shared, 5)]);
}

static void start(struct open *o, MPI_Comm comm, int is_blocking)
{
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    o->kind = random_of(&shared, 6);
    o->count = random_count();
    o->root = random_of(&shared, n);
    o->key = random_of(&shared, 1000);
    o->n = n;
    o->in = malloc(((size_t)o->count * n + 1) * sizeof(int));
    o->out = malloc(((size_t)o->count * n + 1) * sizeof(int));
    o->request = MPI_REQUEST_NULL;
    for (int i = 0; i < o->count * n; i++)
        o->in[i] = value(me, o->key, i);
    for (int i = 0; i < o->count; i++)
        o->out[i] = value(me, o->key, i);
#define EITHER(Name, name, ...)                  \
    (is_blocking ? MPI_##Name(__VA_ARGS__, comm) \
                 : MPI_I##name(__VA_ARGS__, comm, &o->request))
    int c = o->count, code = 0;
    switch (o->kind) {
    case 0:
        code = EITHER(Bcast, bcast, o->out, c, MPI_INT, o->root);
        break;
    case 1:
        code = EITHER(Allreduce, allreduce, o->in, o->out, c, MPI_INT, MPI_SUM);
        break;
    case 2:
        code =
            EITHER(Allgather, allgather, o->in, c, MPI_INT, o->out, c, MPI_INT);
        break;
    case 3:
        code =
            EITHER(Alltoall, alltoall, o->in, c, MPI_INT, o->out, c, MPI_INT);
        break;
    case 4:
        code = EITHER(Reduce, reduce, o->in, me == o->root ? o->out : NULL, c,
                      MPI_INT, MPI_SUM, o->root);
        if (me != o->root)
            o->kind = -1;
        break;
    case 5:
        code = EITHER(Scatter, scatter, o->in, c, MPI_INT, o->out, c, MPI_INT,
                      o->root);
        o->key += me * 1000000;
        break;
    }
    CHECK(code == MPI_SUCCESS);
}

static void check(struct open *o, int me)
{
    int c = o->count;
    for (int i = 0; i < c; i++) {
        int sum = 0;
        for (int r = 0; r < o->n; r++)
            sum += value(r, o->key, i);
        switch (o->kind) {
        case 0:
            CHECK(o->out[i] == value(o->root, o->key, i));
            break;
        case 1:
        case 4:
            CHECK(o->out[i] == sum);
            break;
        case 5:
            CHECK(o->out[i] == value(o->root, o->key % 1000000, me * c + i));
            break;
        }
    }
    for (int r = 0; r < o->n && (o->kind == 2 || o->kind == 3); r++)
        for (int i = 0; i < c; i++)
            CHECK(o->out[r * c + i] ==
                  value(r, o->key, o->kind == 3 ? me * c + i : i));
    free(o->in);
    free(o->out);
}

static void round_of_many(MPI_Comm *comms, const int *ranks)
{
    static struct open open[OPEN];
    static int comm_of[OPEN];
    int n = 0, calls = 10 + random_of(&shared, OPEN - 10);
    for (int i = 0; i < calls; i++) {
        int c = random_of(&shared, COMMS);
        int is_blocking = random_of(&shared, 3) == 0;
        struct open *o = &open[n];
        start(o, comms[c], is_blocking);
        comm_of[n] = c;
        if (is_blocking)
            check(o, ranks[c]);
        else
            n++;
    }
    while (n-- > 0) { /* the last one moves into the gap */
        int i = random_of(&private, n + 1);
        MPI_Wait(&open[i].request, MPI_STATUS_IGNORE);
        check(&open[i], ranks[comm_of[i]]);
        open[i] = open[n];
        comm_of[i] = comm_of[n];
    }
}

static void make(MPI_Comm *comms, int *ranks, int i)
{
    int color = i < 2 ? 0 : random_of(&shared, 2) ? rank % 2 : rank / 2;
    int key = random_of(&shared, 2) ? rank : -rank;
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &comms[i]);
    MPI_Comm_rank(comms[i], &ranks[i]);
}

int main(void)
{
    MPI_Comm comms[COMMS];
    int ranks[COMMS];
    smoke_init(MPI_THREAD_SINGLE);
    private = (unsigned)rank + 77;
    for (int i = 0; i < COMMS; i++)
        make(comms, ranks, i);
    for (int i = 0; i < 60; i++) {
        round_of_many(comms, ranks);
        int c = random_of(&shared, COMMS);
        MPI_Comm_free(&comms[c]);
        make(comms, ranks, c);
    }
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
