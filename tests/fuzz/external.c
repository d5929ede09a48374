/* SPDX-License-Identifier: MIT */
/* Data in external32 that somebody else has made (mpi/external.c): unpacking
 * stays within both buffers, and what fits is packed again as it was. */
#include "mpi/life.h"
#include "mpi/type.h"

#include "fuzz/fuzz.h"

#define ROOM 4096

static void fuzz_example(struct fuzz *f)
{
    for (size_t n = fuzz_below(f, 60); n > 0; n--)
        fuzz_add(f, &(uint64_t){fuzz_number(f, 8)}, sizeof(uint64_t));
}

static struct tb_type *some_type(struct fuzz *f)
{
    const MPI_Datatype all[] = {
        MPI_INT,
        MPI_LONG,
        MPI_SHORT,
        MPI_CHAR,
        MPI_WCHAR,
        MPI_C_BOOL,
        MPI_FLOAT,
        MPI_DOUBLE,
        MPI_INT64_T,
        MPI_LONG_DOUBLE,
        MPI_C_COMPLEX,
        MPI_UNSIGNED_LONG,
        MPI_SHORT_INT,
        MPI_DOUBLE_INT,
        MPI_LONG_INT,
        MPI_BYTE,
        MPI_LONG_DOUBLE_INT,
    };
    struct tb_type *t;

    CHECK_EQ(tb_type_get(all[fuzz_below(f, TB_COUNT_OF(all))], &t), TB_OK);
    return t;
}

/* Exact allocations, so that a byte too far is seen. */
static void fuzz_try(struct fuzz *f)
{
    struct tb_type *t = some_type(f);
    int64_t extent = t->layout->extent;
    MPI_Count count = (MPI_Count)fuzz_below(f, (size_t)(ROOM / extent));
    size_t bytes = (size_t)(count * extent);
    char *in = malloc(f->bytes + 1), *out = malloc(bytes + 1);
    MPI_Count position = (MPI_Count)fuzz_below(f, 9), before = position;

    CHECK(in && out);
    memcpy(in, f->data, f->bytes);
    if (tb_unpack_external("external32", in, (MPI_Count)f->bytes, &position,
                           out, count, t))
        CHECK_EQ(position, before);
    else
        CHECK(position <= (MPI_Count)f->bytes);
    free(in);
    free(out);
}

__attribute__((constructor)) static void start(void)
{
    CHECK_EQ(tb_type_init(), TB_OK);
}
