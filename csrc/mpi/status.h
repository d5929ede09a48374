/* SPDX-License-Identifier: MIT */
/*
 * What lies in the private part of an MPI_Status: the count of bytes and the
 * cancelled flag. The ABI aligns the struct to int only, so the 64-bit count
 * goes in and out by memcpy.
 */
#ifndef TB_STATUS_H
#define TB_STATUS_H

#include <string.h>

#include "engine/engine.h"
#include "include/mpi.h"

#define TB_STATUS_BYTES_AT 0 /* ints 0 and 1 of MPI_internal: the count */
#define TB_STATUS_CANCELLED_AT 2

static inline int64_t tb_status_bytes(const MPI_Status *s)
{
    int64_t n;
    memcpy(&n, &s->MPI_internal[TB_STATUS_BYTES_AT], sizeof n);
    return n;
}

static inline void tb_status_set_bytes(MPI_Status *s, int64_t n)
{
    memcpy(&s->MPI_internal[TB_STATUS_BYTES_AT], &n, sizeof n);
}

/* Everything but MPI_ERROR, which only the multiple-completion calls set. */
static inline void tb_status_set(MPI_Status *s, int source, int tag,
                                 int64_t bytes, bool cancelled)
{
    if (s == MPI_STATUS_IGNORE)
        return;
    s->MPI_SOURCE = source;
    s->MPI_TAG = tag;
    tb_status_set_bytes(s, bytes);
    s->MPI_internal[TB_STATUS_CANCELLED_AT] = cancelled;
}

static inline void tb_status_result(MPI_Status *s, const struct tb_result *r)
{
    tb_status_set(s, r->source, r->tag, r->bytes, r->cancelled);
}

/* The standard's "empty status", to which MPI_ERROR belongs. */
static inline void tb_status_empty(MPI_Status *s)
{
    tb_status_set(s, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
    if (s != MPI_STATUS_IGNORE)
        s->MPI_ERROR = MPI_SUCCESS;
}

#endif
