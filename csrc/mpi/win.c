/* SPDX-License-Identifier: MIT */
/* Windows as objects: how they are made and freed, and what they tell. What is
 * done with them is in rma. */
#include <stdio.h>
#include <string.h>

#include "coll/coll.h"
#include "mpi/api.h"
#include "mpi/comm.h"
#include "mpi/life.h"
#include "mpi/world.h"
#include "rma/rma.h"

/* -------------------------------------------------------------------- hints */

/* All that a window tells of itself, and what holds without a word. */
static const struct {
    const char *key, *value;
} hints[] = {
    {"no_locks", "false"},
    {"accumulate_ordering", "rar,raw,war,waw"},
    {"accumulate_ops", "same_op_no_op"},
    {"mpi_accumulate_granularity", "0"},
    {"same_size", "false"},
    {"same_disp_unit", "false"},
    {"alloc_shared_noncontig", "false"},
};

static tb_err take_hints(struct tb_win *win, const struct tb_info *info,
                         bool first)
{
    for (size_t i = 0; i < TB_COUNT_OF(hints); i++) {
        const char *value = info ? tb_info_look(info, hints[i].key) : NULL;
        if (!value && first)
            value = hints[i].value;
        if (value)
            TB_TRY(tb_info_set(win->info, hints[i].key, value));
    }
    return TB_OK;
}

tb_err tb_win_set_info(struct tb_win *win, struct tb_info *info)
{
    return take_hints(win, info, false);
}

tb_err tb_win_get_info(struct tb_win *win, struct tb_info **info_used)
{
    return tb_info_dup(win->info, info_used);
}

static bool is_true(const struct tb_info *info, const char *key)
{
    const char *value = info ? tb_info_look(info, key) : NULL;
    return value && (!strcmp(value, "true") || !strcmp(value, "1"));
}

/* The key of MPI 4.1, section 12.2.2. */
static size_t alignment(const struct tb_info *info)
{
    const char *text =
        info ? tb_info_look(info, "mpi_minimum_memory_alignment") : NULL;
    unsigned long long n;
    if (!text || sscanf(text, "%llu", &n) != 1 || n & (n - 1))
        return TB_LINE;
    return (size_t)n;
}

/* --------------------------------------------------------------------- life */

static void destroy(struct tb_win *win)
{
    tb_rma_close(win->rma);
    tb_comm_unref(win->comm);
    tb_attrs_forget(&win->attrs);
    tb_info_release(win->info);
    tb_errh_unref(win->errh);
    tb_free(win);
}

static tb_err furnish(struct tb_win *win, struct tb_comm *comm,
                      struct tb_rma_memory *m, const struct tb_info *info)
{
    TB_TRY(tb_comm_make(&win->comm, tb_comm_next_name(comm), comm->group, NULL,
                        comm));
    TB_TRY(tb_info_make(&win->info));
    TB_TRY(take_hints(win, info, true));
    TB_TRY(tb_rma_open(&win->rma, win->comm, m));
    win->base = m->base;
    win->size = m->size;
    win->disp_unit = (int)m->unit;
    win->flavor = m->flavor;
    win->model = MPI_WIN_UNIFIED;
    return tb_handle_new(&win->obj, TB_KIND_WIN);
}

static tb_err make(struct tb_comm *comm, struct tb_rma_memory m,
                   const struct tb_info *info, struct tb_win **out)
{
    TB_TRY(tb_comm_need_intra(comm));
    if (m.size < 0)
        return tb_fail(TB_ERR_SIZE, "size is %lld", (long long)m.size);
    if (m.unit < 1)
        return tb_fail(TB_ERR_DISP, "disp_unit is %lld: it must be positive",
                       (long long)m.unit);
    struct tb_win *win = tb_calloc(1, sizeof *win);
    if (!win)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a window");
    win->errh = &tb_errors_fatal;
    m.align = alignment(info);
    tb_err err = furnish(win, comm, &m, info);
    if (err)
        destroy(win);
    else
        *out = win;
    return err;
}

tb_err tb_win_create(void *base, MPI_Aint size, MPI_Aint disp_unit,
                     struct tb_info *info, struct tb_comm *comm,
                     struct tb_win **win)
{
    struct tb_rma_memory m = {.flavor = MPI_WIN_FLAVOR_CREATE,
                              .base = base,
                              .size = size,
                              .unit = disp_unit};
    if (!base && size > 0)
        return tb_fail(TB_ERR_BASE, "base is NULL and size is %lld",
                       (long long)size);
    return make(comm, m, info, win);
}

static tb_err allocate(int flavor, MPI_Aint size, MPI_Aint disp_unit,
                       struct tb_info *info, struct tb_comm *comm,
                       void *baseptr, struct tb_win **win)
{
    struct tb_rma_memory m = {.flavor = flavor,
                              .size = size,
                              .unit = disp_unit,
                              .apart = is_true(info, "alloc_shared_noncontig")};
    TB_TRY(make(comm, m, info, win));
    memcpy(baseptr, &(*win)->base, sizeof(void *));
    return TB_OK;
}

tb_err tb_win_allocate(MPI_Aint size, MPI_Aint disp_unit, struct tb_info *info,
                       struct tb_comm *comm, void *baseptr, struct tb_win **win)
{
    return allocate(MPI_WIN_FLAVOR_ALLOCATE, size, disp_unit, info, comm,
                    baseptr, win);
}

tb_err tb_win_allocate_shared(MPI_Aint size, MPI_Aint disp_unit,
                              struct tb_info *info, struct tb_comm *comm,
                              void *baseptr, struct tb_win **win)
{
    return allocate(MPI_WIN_FLAVOR_SHARED, size, disp_unit, info, comm, baseptr,
                    win);
}

tb_err tb_win_create_dynamic(struct tb_info *info, struct tb_comm *comm,
                             struct tb_win **win)
{
    struct tb_rma_memory m = {.flavor = MPI_WIN_FLAVOR_DYNAMIC, .unit = 1};
    return make(comm, m, info, win);
}

/* Others may still access this process's part until all have come here. */
tb_err tb_win_free(struct tb_win *win)
{
    TB_TRY(tb_rma_may_close(win->rma));
    TB_TRY(tb_coll_barrier(win->comm));
    TB_TRY(tb_attrs_free(&win->attrs, tb_win_handle(win), TB_KIND_WIN));
    tb_handle_drop(&win->obj);
    destroy(win);
    return TB_OK;
}

/* ------------------------------------------------------------------ inquiry */

tb_err tb_win_get_group(struct tb_win *win, struct tb_group **group)
{
    return tb_comm_group(win->comm, group);
}

tb_err tb_win_set_name(struct tb_win *win, const char *win_name)
{
    snprintf(win->label, sizeof(win->label), "%s", win_name);
    return TB_OK;
}

tb_err tb_win_get_name(struct tb_win *win, char *win_name, int *resultlen)
{
    *resultlen = snprintf(win_name, MPI_MAX_OBJECT_NAME, "%s",
                          win ? win->label : "MPI_WIN_NULL");
    return TB_OK;
}

/* ------------------------------------------------------------ start and end */

tb_err tb_win_init(void)
{
    return TB_OK;
}

static void drop(void *object)
{
    destroy(object);
}

void tb_win_fini(void)
{
    tb_handle_sweep(TB_KIND_WIN, drop);
}
