/* SPDX-License-Identifier: MIT */
/*
 * Handle tables: stale, foreign and garbage values, growth, shared handles,
 * and the constants that the table has as plain numbers.
 */
#include "mpi/objects.h"

#include <string.h>

#include "unit/check.h"

#define MANY 5000

static struct tb_obj objects[MANY];

static void constants(void)
{
    CHECK(tb_handle_find((uintptr_t)MPI_GROUP_EMPTY, TB_KIND_GROUP) ==
          &tb_group_empty);
    CHECK(tb_handle_find((uintptr_t)MPI_INFO_ENV, TB_KIND_INFO) ==
          &tb_info_env);
    CHECK(tb_handle_find((uintptr_t)MPI_ERRORS_ARE_FATAL, TB_KIND_ERRH) ==
          &tb_errors_fatal);
    CHECK(tb_handle_find((uintptr_t)MPI_ERRORS_ABORT, TB_KIND_ERRH) ==
          &tb_errors_abort);
    CHECK(tb_handle_find((uintptr_t)MPI_ERRORS_RETURN, TB_KIND_ERRH) ==
          &tb_errors_return);
    CHECK(tb_group_handle(&tb_group_empty) == MPI_GROUP_EMPTY);
    CHECK(tb_info_handle(&tb_info_env) == MPI_INFO_ENV);
    CHECK(tb_errh_handle(&tb_errors_abort) == MPI_ERRORS_ABORT);
    CHECK(!tb_handle_find((uintptr_t)MPI_GROUP_EMPTY, TB_KIND_COMM));
    CHECK(!tb_handle_find((uintptr_t)MPI_COMM_NULL, TB_KIND_COMM));
}

static void garbage(void)
{
    static const uintptr_t values[] = {
        0,          1,          999,         1023,
        1024,       4095,       4096,        0x7fffffff,
        0x80000000, 0xffffffff, UINTPTR_MAX, (uintptr_t)1 << 40};
    for (size_t i = 0; i < TB_COUNT_OF(values); i++)
        for (enum tb_kind k = 0; k < TB_KIND_LIMIT; k++)
            CHECK(!tb_handle_find(values[i], k));
}

/* A slot is not given out again before 64 others have been, 128 times each. */
static void stale(void)
{
    struct tb_obj *o = &objects[0];
    CHECK_EQ(tb_handle_new(o, TB_KIND_OP), TB_OK);
    uint32_t first = o->handle;
    CHECK(first >= 4096 && first <= 0x7fffffff);
    CHECK(tb_handle_find(first, TB_KIND_OP) == o);
    CHECK(!tb_handle_find(first, TB_KIND_TYPE));
    tb_handle_drop(o);
    CHECK_EQ(o->handle, 0);
    for (int i = 0; i < 8000; i++) {
        CHECK(!tb_handle_find(first, TB_KIND_OP));
        CHECK_EQ(tb_handle_new(o, TB_KIND_OP), TB_OK);
        CHECK(o->handle != first);
        tb_handle_drop(o);
    }
}

static int swept;

static void sweep(void *object)
{
    CHECK_EQ(((struct tb_obj *)object)->handle, 0);
    swept++;
}

static void growth(void)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(tb_handle_new(&objects[i], TB_KIND_WIN), TB_OK);
    for (int i = 0; i < MANY; i++)
        CHECK(tb_handle_find(objects[i].handle, TB_KIND_WIN) == &objects[i]);
    for (int i = 0; i < MANY; i += 2)
        tb_handle_drop(&objects[i]);
    tb_handle_sweep(TB_KIND_WIN, sweep);
    CHECK_EQ(swept, MANY / 2);
    CHECK_EQ(objects[1].handle, 0);
}

/* MPI_Comm_group twice gives one handle that must be freed twice. */
static void sharing(void)
{
    struct tb_obj *o = &objects[0];
    o->refs = 1; /* its maker's */
    CHECK_EQ(tb_handle_share(o, TB_KIND_GROUP), TB_OK);
    CHECK_EQ(tb_handle_share(o, TB_KIND_GROUP), TB_OK);
    uint32_t handle = o->handle;
    CHECK_EQ(o->refs, 3);
    tb_handle_drop(o);
    CHECK(tb_handle_find(handle, TB_KIND_GROUP) == o);
    tb_handle_drop(o);
    CHECK(!tb_handle_find(handle, TB_KIND_GROUP));
    CHECK_EQ(tb_handle_share(o, TB_KIND_GROUP), TB_OK);
    CHECK(o->handle && o->handle != handle);
    tb_handle_drop(o);
}

static void messages(void)
{
    struct tb_comm *c;
    struct tb_group *g;
    CHECK_EQ(tb_comm_get(MPI_COMM_NULL, &c), TB_ERR_COMM);
    CHECK(strstr(tb_fail_note(), "MPI_COMM_NULL"));
    CHECK_EQ(tb_comm_get((MPI_Comm)MPI_GROUP_EMPTY, &c), TB_ERR_COMM);
    CHECK(strstr(tb_fail_note(), "is a group"));
    CHECK_EQ(tb_group_get((MPI_Group)(uintptr_t)0x12345678, &g), TB_ERR_GROUP);
    CHECK_EQ(tb_handle_new(&objects[0], TB_KIND_COMM), TB_OK);
    MPI_Comm freed = (MPI_Comm)(uintptr_t)objects[0].handle;
    tb_handle_drop(&objects[0]);
    CHECK_EQ(tb_comm_get(freed, &c), TB_ERR_COMM);
    CHECK(strstr(tb_fail_note(), "freed"));
}

int main(void)
{
    constants();
    garbage();
    stale();
    growth();
    sharing();
    messages();
    return 0;
}
