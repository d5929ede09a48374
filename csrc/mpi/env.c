/* SPDX-License-Identifier: MIT */
/*
 * Inquiries about the library, the machine and the ABI; memory; time.
 */
#include <stdio.h>
#include <string.h>

#include "mpi/api.h"
#include "mpi/version.h"
#include "mpi/world.h"

tb_err tb_get_version(int *version, int *subversion)
{
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return TB_OK;
}

tb_err tb_get_library_version(char *version, int *resultlen)
{
    *resultlen =
        snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING,
                 "tbmpi " TB_VERSION ", MPI %d.%d, ABI %d.%d", MPI_VERSION,
                 MPI_SUBVERSION, MPI_ABI_VERSION, MPI_ABI_SUBVERSION);
    return TB_OK;
}

tb_err tb_get_processor_name(char *name, int *resultlen)
{
    tb_host_name(name, MPI_MAX_PROCESSOR_NAME);
    *resultlen = (int)strlen(name);
    return TB_OK;
}

double tb_wtime(void)
{
    return (double)tb_now() * 1e-9;
}

double tb_wtick(void)
{
    return (double)tb_clock_step() * 1e-9;
}

tb_err tb_pcontrol(const int level)
{
    (void)level; /* for profilers, who put themselves in front of it */
    return TB_OK;
}

tb_err tb_get_address(const void *location, MPI_Aint *address)
{
    *address = (MPI_Aint)(uintptr_t)location;
    return TB_OK;
}

/* ----------------------------------------------------------------- memory */

/* The alignment asked for by the info key of MPI 4.1, section 10.2.1. */
static tb_err alignment(const struct tb_info *info, size_t *align)
{
    const char *text = tb_info_look(info, "mpi_minimum_memory_alignment");
    unsigned long long n;
    char rest;
    *align = TB_LINE;
    if (!text)
        return TB_OK;
    if (sscanf(text, "%llu%c", &n, &rest) != 1 || !n || (n & (n - 1)))
        return tb_fail(TB_ERR_INFO_VALUE,
                       "mpi_minimum_memory_alignment is \"%s\", not a power "
                       "of two",
                       text);
    *align = TB_MAX((size_t)n, (size_t)TB_LINE);
    return TB_OK;
}

tb_err tb_alloc_mem(MPI_Aint size, struct tb_info *info, void *baseptr)
{
    size_t align;
    if (size < 0)
        return tb_fail(TB_ERR_ARG, "size is %lld", (long long)size);
    TB_TRY(alignment(info, &align));
    void *p = tb_alloc_aligned(align, (size_t)size);
    if (!p)
        return tb_fail(TB_ERR_NO_MEM, "no memory for %lld bytes",
                       (long long)size);
    memcpy(baseptr, &p, sizeof p);
    return TB_OK;
}

tb_err tb_free_mem(void *base)
{
    tb_free(base);
    return TB_OK;
}

/* ---------------------------------------------------------------- hardware */

/* The one kind of hardware that MPI_Comm_split_type divides by: a process is
 * always confined to one machine. */
tb_err tb_get_hw_resource_info(struct tb_info **hw_info)
{
    struct tb_info *made;
    TB_TRY(tb_info_create(&made));
    tb_err err = tb_info_set(made, "mpi_shared_memory", "true");
    if (err)
        tb_info_release(made);
    else
        *hw_info = made;
    return err;
}
