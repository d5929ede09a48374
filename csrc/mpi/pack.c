/* SPDX-License-Identifier: MIT */
/* MPI_Pack and MPI_Unpack: the packed form is the stream itself. */
#include "mpi/type.h"

/* The bytes of the elements, when they fit behind `position`. */
static tb_err room_for(const char *arg, int64_t count, const struct tb_type *t,
                       int64_t size, int64_t position, int64_t *bytes)
{
    TB_TRY(tb_type_stream(t, count, bytes));
    if (position < 0 || position > size)
        return tb_fail(TB_ERR_ARG, "position is %lld, and %s has %lld bytes",
                       (long long)position, arg, (long long)size);
    if (*bytes > size - position)
        return tb_fail(TB_ERR_TRUNCATE,
                       "%lld bytes at position %lld of %s, which has %lld",
                       (long long)*bytes, (long long)position, arg,
                       (long long)size);
    return TB_OK;
}

tb_err tb_pack(const void *inbuf, MPI_Count incount, struct tb_type *t,
               void *outbuf, MPI_Count outsize, MPI_Count *position,
               struct tb_comm *comm)
{
    int64_t bytes;

    (void)comm; /* all ranks represent data alike */
    TB_TRY(room_for("outbuf", incount, t, outsize, *position, &bytes));
    if (bytes == 0)
        return TB_OK;
    TB_TRY(tb_type_check_buffer("inbuf", inbuf, incount, t));
    if (!outbuf)
        return tb_fail(TB_ERR_BUFFER, "outbuf is NULL");
    tb_layout_pack(t->layout, inbuf, 0, (char *)outbuf + *position, bytes);
    *position += bytes;
    return TB_OK;
}

tb_err tb_unpack(const void *inbuf, MPI_Count insize, MPI_Count *position,
                 void *outbuf, MPI_Count outcount, struct tb_type *t,
                 struct tb_comm *comm)
{
    int64_t bytes;

    (void)comm;
    TB_TRY(room_for("inbuf", outcount, t, insize, *position, &bytes));
    if (bytes == 0)
        return TB_OK;
    TB_TRY(tb_type_check_buffer("outbuf", outbuf, outcount, t));
    if (!inbuf)
        return tb_fail(TB_ERR_BUFFER, "inbuf is NULL");
    tb_layout_unpack(t->layout, outbuf, 0, (const char *)inbuf + *position,
                     bytes);
    *position += bytes;
    return TB_OK;
}

tb_err tb_pack_size(MPI_Count incount, struct tb_type *t, struct tb_comm *comm,
                    MPI_Count *size)
{
    (void)comm;
    return tb_type_stream(t, incount, size);
}
