/* SPDX-License-Identifier: MIT */
/*
 * For tests of collectives: every call in its three forms, over several
 * communicators. RUN(Bcast, bcast, buf, n, type, root) calls MPI_Bcast,
 * MPI_Ibcast or MPI_Bcast_init, as `form` says, on `comm`, and completes it.
 */
#ifndef TB_COLL_FORMS_H
#define TB_COLL_FORMS_H

#include "smoke.h"

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

static int form;
static MPI_Comm comm;
static int me, n; /* in comm */

/* A persistent call runs twice, unless its input is in place. */
static int once;

static inline int complete(MPI_Request *r)
{
    int flag = 0;
    if (form == PERSISTENT) {
        for (int i = 0; i < (once ? 1 : 2); i++) {
            MPI_Start(r);
            int code = MPI_Wait(r, MPI_STATUS_IGNORE);
            if (code)
                return code;
        }
        return MPI_Request_free(r);
    }
    if (n % 2)
        return MPI_Wait(r, MPI_STATUS_IGNORE);
    int code = MPI_SUCCESS;
    while (!flag && !code)
        code = MPI_Test(r, &flag, MPI_STATUS_IGNORE);
    return code;
}

#define CODE(Name, name, ...)                                                \
    (form == BLOCKING ? MPI_##Name(__VA_ARGS__, comm)                        \
     : (form == NONBLOCKING                                                  \
            ? MPI_I##name(__VA_ARGS__, comm, &run_req)                       \
            : MPI_##Name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &run_req)) \
         ? MPI_ERR_OTHER                                                     \
         : complete(&run_req))

#define RUN(Name, name, ...)                       \
    do {                                           \
        int code_ = CODE(Name, name, __VA_ARGS__); \
        CHECK(code_ == MPI_SUCCESS);               \
    } while (0)

static MPI_Request run_req;

static inline void use(MPI_Comm c)
{
    comm = c;
    MPI_Comm_rank(c, &me);
    MPI_Comm_size(c, &n);
}

/* Runs the test on WORLD, on WORLD backwards, on its halves and on SELF. */
static inline void on_all_comms(void (*test)(void))
{
    MPI_Comm backwards, half;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (form = 0; form < FORMS; form++) {
        use(MPI_COMM_WORLD);
        test();
        use(backwards);
        test();
        use(half);
        test();
        use(MPI_COMM_SELF);
        test();
    }
    MPI_Comm_free(&backwards);
    MPI_Comm_free(&half);
}

/* A number that depends on who it is from, who it is for and its place. */
static inline int value(int from, int to, int i)
{
    return from * 1009 + to * 131 + i * 7 + 3;
}

static inline int *ints(int count)
{
    int *p = malloc(((size_t)count + 1) * sizeof *p);
    for (int i = 0; i <= count; i++)
        p[i] = -77;
    return p;
}

#endif
