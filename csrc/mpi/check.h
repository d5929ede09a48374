/* SPDX-License-Identifier: MIT */
/*
 * Argument checks that follow from a parameter's kind. The bindings call them
 * before the implementation, so that no implementation repeats them. Each
 * returns TB_OK or notes what is wrong and returns the class's error.
 */
#ifndef TB_CHECK_H
#define TB_CHECK_H

#include "mpi/objects.h"

#define TB_TAG_UB 0x3fffffff

/* Slow paths: make the message. check.c */
tb_err tb_wrong_count(const char *arg, MPI_Count count);
tb_err tb_wrong_rank(const char *what, const struct tb_comm *c, int rank);
tb_err tb_wrong_root(const struct tb_comm *c, int root);
tb_err tb_wrong_tag(int tag);
tb_err tb_wrong_type(const struct tb_type *t);
tb_err tb_wrong_pointer(const char *arg);

static inline tb_err tb_check_count(const char *arg, MPI_Count count)
{
    return TB_LIKELY(count >= 0) ? TB_OK : tb_wrong_count(arg, count);
}

static inline tb_err tb_check_dest(const struct tb_comm *c, int rank)
{
    if (TB_LIKELY((unsigned)rank < (unsigned)c->peers->size) ||
        rank == MPI_PROC_NULL)
        return TB_OK;
    return tb_wrong_rank("destination", c, rank);
}

static inline tb_err tb_check_source(const struct tb_comm *c, int rank)
{
    if (TB_LIKELY((unsigned)rank < (unsigned)c->peers->size) ||
        rank == MPI_ANY_SOURCE || rank == MPI_PROC_NULL)
        return TB_OK;
    return tb_wrong_rank("source", c, rank);
}

static inline tb_err tb_check_root(const struct tb_comm *c, int root)
{
    if (TB_LIKELY((unsigned)root < (unsigned)c->peers->size) ||
        (c->remote && (root == MPI_ROOT || root == MPI_PROC_NULL)))
        return TB_OK;
    return tb_wrong_root(c, root);
}

static inline tb_err tb_check_tag(int tag)
{
    return TB_LIKELY((unsigned)tag <= TB_TAG_UB) ? TB_OK : tb_wrong_tag(tag);
}

static inline tb_err tb_check_rtag(int tag)
{
    return TB_LIKELY((unsigned)tag <= TB_TAG_UB) || tag == MPI_ANY_TAG
               ? TB_OK
               : tb_wrong_tag(tag);
}

static inline tb_err tb_check_type(const struct tb_type *t)
{
    return TB_LIKELY(t->committed) ? TB_OK : tb_wrong_type(t);
}

static inline tb_err tb_check_ptr(const char *arg, const void *p)
{
    return TB_LIKELY(p != NULL) ? TB_OK : tb_wrong_pointer(arg);
}

#endif
