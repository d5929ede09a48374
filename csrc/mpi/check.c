/* SPDX-License-Identifier: MIT */
/* What is wrong with an argument, in words. */
#include "mpi/check.h"

tb_err tb_wrong_count(const char *arg, MPI_Count count)
{
    return tb_fail(TB_ERR_COUNT, "%s is %lld: it must not be negative", arg,
                   (long long)count);
}

tb_err tb_wrong_rank(const char *what, const struct tb_comm *c, int rank)
{
    if (rank == MPI_ANY_SOURCE)
        return tb_fail(TB_ERR_RANK,
                       "%s rank MPI_ANY_SOURCE: one process must "
                       "be named here",
                       what);
    if (c->remote)
        return tb_fail(TB_ERR_RANK,
                       "%s rank %d is not in 0..%d, the ranks of "
                       "the remote group",
                       what, rank, c->peers->size - 1);
    return tb_fail(TB_ERR_RANK, "%s rank %d is not in 0..%d", what, rank,
                   c->peers->size - 1);
}

tb_err tb_wrong_root(const struct tb_comm *c, int root)
{
    if (c->remote)
        return tb_fail(TB_ERR_ROOT,
                       "root %d is neither a rank of the remote "
                       "group (0..%d) nor MPI_ROOT or MPI_PROC_NULL",
                       root, c->peers->size - 1);
    return tb_fail(TB_ERR_ROOT, "root %d is not in 0..%d", root, c->size - 1);
}

tb_err tb_wrong_tag(int tag)
{
    if (tag == MPI_ANY_TAG)
        return tb_fail(TB_ERR_TAG, "tag MPI_ANY_TAG: only a receive or a probe "
                                   "can take any");
    return tb_fail(TB_ERR_TAG, "tag %d is not in 0..%d (MPI_TAG_UB)", tag,
                   TB_TAG_UB);
}

tb_err tb_wrong_type(const struct tb_type *t)
{
    if (t->label[0])
        return tb_fail(TB_ERR_TYPE,
                       "datatype %s is not committed: call "
                       "MPI_Type_commit first",
                       t->label);
    return tb_fail(TB_ERR_TYPE,
                   "the datatype is not committed: call MPI_Type_commit first");
}

tb_err tb_wrong_pointer(const char *arg)
{
    return tb_fail(TB_ERR_ARG, "%s must not be NULL", arg);
}
