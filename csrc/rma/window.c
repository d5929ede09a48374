/* SPDX-License-Identifier: MIT */
/* The life of a window's communication. */
#include "rma/inside.h"

#include "mpi/comm_name.h"

static tb_err open_ops(struct tb_rma *r)
{
    const struct tb_comm *c = r->comm;
    TB_TRY(tb_context_open(r->engine, tb_name_local(c->name_id),
                           c->group->ranks, r->n, &r->ops));
    tb_rma_serve(r);
    return TB_OK;
}

static tb_err make_tables(struct tb_rma *r)
{
    size_t n = (size_t)r->n;
    r->targets = tb_calloc(n, sizeof *r->targets);
    r->origins = tb_calloc(n, sizeof *r->origins);
    if (!r->targets || !r->origins)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a window of %d ranks",
                       r->n);
    tb_list_init(&r->queue);
    for (int i = 0; i < r->n; i++)
        tb_list_init(&r->origins[i].link);
    return TB_OK;
}

tb_err tb_rma_open(struct tb_rma **out, struct tb_comm *comm,
                   struct tb_rma_memory *memory)
{
    struct tb_rma *r = tb_calloc(1, sizeof *r);
    if (!r)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a window");
    r->engine = tb_world.engine;
    r->comm = comm;
    r->n = comm->size;
    r->rank = comm->rank;
    r->memory = *memory;
    tb_err err = make_tables(r);
    if (!err)
        err = open_ops(r);
    /* Talks, so that all have opened their contexts when it returns. */
    if (!err)
        err = tb_rma_map(r);
    if (err) {
        tb_rma_close(r);
        return err;
    }
    *memory = r->memory;
    *out = r;
    return TB_OK;
}

void tb_rma_close(struct tb_rma *r)
{
    if (!r)
        return;
    if (r->serving.posted)
        tb_list_remove(&r->serving.link);
    if (r->ops)
        tb_context_close(r->ops);
    tb_rma_unmap(r);
    tb_free(r->targets);
    tb_free(r->origins);
    tb_free(r);
}

/* ------------------------------------------------------------------ inquiry */

/* The lowest rank that has memory stands for MPI_PROC_NULL. */
static int stand_in(const struct tb_rma *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->targets[i].size > 0)
            return i;
    return -1;
}

tb_err tb_win_shared_query(struct tb_win *win, int rank, MPI_Aint *size,
                           MPI_Count *disp_unit, void *baseptr)
{
    const struct tb_rma *r = win->rma;
    struct tb_rma_target none = {.unit = 1};
    const struct tb_rma_target *t = &none;
    if (r->memory.flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return tb_fail(TB_ERR_RMA_FLAVOR, "a window of MPI_Win_create_dynamic "
                                          "has no memory to ask for");
    TB_TRY(tb_rma_check_rank(r, rank));
    if (rank == MPI_PROC_NULL)
        rank = stand_in(r);
    if (rank >= 0 && r->targets[rank].direct)
        t = &r->targets[rank];
    void *base = t->size ? t->base : NULL; /* as MPICH does */
    *size = t->size;
    *disp_unit = t->unit;
    memcpy(baseptr, &base, sizeof base);
    return TB_OK;
}
