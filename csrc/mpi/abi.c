/* SPDX-License-Identifier: MIT */
/*
 * What the library says about the ABI: versions, sizes, and what a Fortran
 * layer above it may tell (MPI 5.0, chapter 20). May be called at any time.
 */
#include <string.h>

#include "mpi/api.h"
#include "mpi/world.h"

tb_err tb_abi_get_version(int *abi_major, int *abi_minor)
{
    *abi_major = MPI_ABI_VERSION;
    *abi_minor = MPI_ABI_SUBVERSION;
    return TB_OK;
}

struct fact {
    const char *key, *value;
};

static tb_err make_info(const struct fact *facts, size_t n,
                        struct tb_info **info)
{
    struct tb_info *made;
    TB_TRY(tb_info_create(&made));
    for (size_t i = 0; i < n; i++) {
        tb_err err = tb_info_set(made, facts[i].key, facts[i].value);
        if (err) {
            tb_info_release(made);
            return err;
        }
    }
    *info = made;
    return TB_OK;
}

tb_err tb_abi_get_info(struct tb_info **info)
{
    static const struct fact facts[] = {
        {"mpi_aint_size", "8"},
        {"mpi_count_size", "8"},
        {"mpi_offset_size", "8"},
    };
    return make_info(facts, TB_COUNT_OF(facts), info);
}

/*
 * The library has no Fortran side; it takes the sizes that every Fortran
 * compiler for its platforms uses by default. It has all sized types; where C
 * has no counterpart, they can be sent but not reduced.
 */
tb_err tb_abi_get_fortran_info(struct tb_info **info)
{
    static const struct fact facts[] = {
        {"mpi_logical_size", "4"},
        {"mpi_integer_size", "4"},
        {"mpi_real_size", "4"},
        {"mpi_double_precision_size", "8"},
        {"mpi_logical1_supported", "true"},
        {"mpi_logical2_supported", "true"},
        {"mpi_logical4_supported", "true"},
        {"mpi_logical8_supported", "true"},
        {"mpi_logical16_supported", "true"},
        {"mpi_integer1_supported", "true"},
        {"mpi_integer2_supported", "true"},
        {"mpi_integer4_supported", "true"},
        {"mpi_integer8_supported", "true"},
        {"mpi_integer16_supported", "true"},
        {"mpi_real2_supported", "true"},
        {"mpi_real4_supported", "true"},
        {"mpi_real8_supported", "true"},
        {"mpi_real16_supported", "true"},
        {"mpi_complex4_supported", "true"},
        {"mpi_complex8_supported", "true"},
        {"mpi_complex16_supported", "true"},
        {"mpi_complex32_supported", "true"},
        {"mpi_double_complex_supported", "true"},
    };
    return make_info(facts, TB_COUNT_OF(facts), info);
}

tb_err tb_abi_set_fortran_info(struct tb_info *info)
{
    (void)info;
    return tb_fail(TB_ERR_ABI, "the sizes of Fortran's types are fixed in this "
                               "library: see MPI_Abi_get_fortran_info");
}

/* How the Fortran program spells its logicals; told by its MPI layer, for each
 * size of LOGICAL once. */
static struct booleans {
    bool set;
    unsigned char yes[16], no[16];
} booleans[5]; /* by the logarithm of the size */

static tb_err find_booleans(int size, struct booleans **out)
{
    for (int i = 0; i < 5; i++)
        if (size == 1 << i) {
            *out = &booleans[i];
            return TB_OK;
        }
    return tb_fail(TB_ERR_ARG, "logical_size is %d, not 1, 2, 4, 8 or 16",
                   size);
}

tb_err tb_abi_get_fortran_booleans(int logical_size, void *logical_true,
                                   void *logical_false, int *is_set)
{
    struct booleans *b;
    TB_TRY(find_booleans(logical_size, &b));
    *is_set = b->set;
    if (!b->set)
        return TB_OK;
    memcpy(logical_true, b->yes, (size_t)logical_size);
    memcpy(logical_false, b->no, (size_t)logical_size);
    return TB_OK;
}

tb_err tb_abi_set_fortran_booleans(int logical_size, void *logical_true,
                                   void *logical_false)
{
    struct booleans *b;
    TB_TRY(find_booleans(logical_size, &b));
    if (b->set)
        return tb_fail(TB_ERR_ABI, "the booleans of LOGICAL*%d are set already",
                       logical_size);
    memcpy(b->yes, logical_true, (size_t)logical_size);
    memcpy(b->no, logical_false, (size_t)logical_size);
    b->set = true;
    return TB_OK;
}
