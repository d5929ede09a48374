/* SPDX-License-Identifier: MIT */
/* What a program reads from a status, or writes into one. */
#include "mpi/status.h"

#include "mpi/type.h"

/* ------------------------------------------------ counts, in any datatype */

tb_err tb_get_count(const MPI_Status *status, struct tb_type *t,
                    MPI_Count *count)
{
    int64_t bytes = tb_status_bytes(status);
    int64_t size = t->layout->size;

    if (size > 0)
        *count = bytes % size ? MPI_UNDEFINED : bytes / size;
    else
        *count = bytes > 0 ? MPI_UNDEFINED : 0;
    return TB_OK;
}

tb_err tb_get_elements(const MPI_Status *status, struct tb_type *t,
                       MPI_Count *count)
{
    *count = tb_type_elements(t, tb_status_bytes(status));
    return TB_OK;
}

static tb_err check(const MPI_Status *status)
{
    if (status != MPI_STATUS_IGNORE)
        return TB_OK;
    return tb_fail(TB_ERR_ARG, "status must not be MPI_STATUS_IGNORE");
}

tb_err tb_status_set_elements(MPI_Status *status, struct tb_type *t,
                              MPI_Count count)
{
    int64_t bytes;

    TB_TRY(check(status));
    TB_TRY(tb_type_prefix(t, count, &bytes));
    tb_status_set_bytes(status, bytes);
    return TB_OK;
}

/* --------------------------------------------------------- all other parts */

tb_err tb_test_cancelled(const MPI_Status *status, int *flag)
{
    *flag = status->MPI_internal[TB_STATUS_CANCELLED_AT];
    return TB_OK;
}

tb_err tb_status_set_cancelled(MPI_Status *status, int flag)
{
    TB_TRY(check(status));
    status->MPI_internal[TB_STATUS_CANCELLED_AT] = flag != 0;
    return TB_OK;
}

tb_err tb_status_get_source(const MPI_Status *status, int *source)
{
    *source = status->MPI_SOURCE;
    return TB_OK;
}

tb_err tb_status_set_source(MPI_Status *status, int source)
{
    TB_TRY(check(status));
    status->MPI_SOURCE = source;
    return TB_OK;
}

tb_err tb_status_get_tag(const MPI_Status *status, int *tag)
{
    *tag = status->MPI_TAG;
    return TB_OK;
}

tb_err tb_status_set_tag(MPI_Status *status, int tag)
{
    TB_TRY(check(status));
    status->MPI_TAG = tag;
    return TB_OK;
}

tb_err tb_status_get_error(const MPI_Status *status, int *error)
{
    *error = status->MPI_ERROR;
    return TB_OK;
}

tb_err tb_status_set_error(MPI_Status *status, int error)
{
    TB_TRY(check(status));
    status->MPI_ERROR = error;
    return TB_OK;
}
