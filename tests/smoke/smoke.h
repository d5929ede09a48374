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

/* That a call fails with an error of that class: IS(MPI_ERR_COUNT, MPI_…). */
#define IS(class, call) is_class(call, class, __LINE__)
static inline void is_class(int code, int class, int line)
{
    if (class_of(code) != class) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "rank %d, line %d: class %d, not %d: %s\n", rank, line,
                class_of(code), class, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static inline void smoke_init(int required)
{
    int provided;
    MPI_Init_thread(NULL, NULL, required, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

#endif
