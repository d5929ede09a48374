/* SPDX-License-Identifier: MIT */
/*
 * For programs that run under tbmpirun: a failed CHECK says rank, place and
 * condition and ends the job. The first line of a program names the rank counts
 * it is run with: ranks: 1 2 4.
 */
#ifndef TB_SMOKE_H
#define TB_SMOKE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(cond)                                                           \
    do {                                                                      \
        if (!(cond)) {                                                        \
            fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, \
                    #cond);                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                     \
        }                                                                     \
    } while (0)

/* The class of an error code. */
static inline int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static inline void smoke_init(int required)
{
    int provided;
    MPI_Init_thread(NULL, NULL, required, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

#endif
