/* SPDX-License-Identifier: MIT */
/* The MPI calls that start operations, and what may be wrong with them. */
#include "mpi/check.h"
#include "rma/inside.h"

static bool is_op(const struct tb_op *op, MPI_Op handle)
{
    return op->which == (int)(uintptr_t)handle;
}

/* Sets c->element. */
static tb_err check_op(struct tb_rma_call *c)
{
    struct tb_type *there = tb_type_element(c->type), *here = there;
    if (!is_op(c->op, MPI_NO_OP))
        here = tb_type_element(c->origin.type);
    if (c->op->which == 0)
        return tb_fail(TB_ERR_OP, "accumulates take predefined operations "
                                  "only, not those of MPI_Op_create");
    if (is_op(c->op, MPI_REPLACE) || is_op(c->op, MPI_NO_OP)) {
        c->element = there == here && there
                         ? there
                         : tb_handle_find((uintptr_t)MPI_BYTE, TB_KIND_TYPE);
        return TB_OK;
    }
    if (!there || there != here)
        return tb_fail(TB_ERR_TYPE,
                       "the elements of the origin and the target datatype "
                       "must all be of the same predefined type");
    c->element = there;
    return tb_op_check(c->op, there);
}

/* MPI_NO_OP takes nothing from the origin, and no datatype either. */
static tb_err need_type(const struct tb_type *t, const struct tb_op *op)
{
    if (is_op(op, MPI_NO_OP))
        return TB_OK;
    if (!t)
        return tb_wrong_handle((uintptr_t)MPI_DATATYPE_NULL, TB_KIND_TYPE);
    return tb_check_type(t);
}

/* ------------------------------------------------------------- put and get */

static tb_err move(enum tb_rma_kind kind, struct tb_rma_side origin, int rank,
                   MPI_Aint disp, MPI_Count count, struct tb_type *type,
                   struct tb_win *win, struct tb_req **request)
{
    struct tb_rma_call c = {.rma = win->rma,
                            .kind = kind,
                            .origin = origin,
                            .rank = rank,
                            .disp = disp,
                            .count = count,
                            .type = type,
                            .request = request};
    return tb_rma_start(&c);
}

tb_err tb_rput(const void *origin_addr, MPI_Count origin_count,
               struct tb_type *origin_datatype, int target_rank,
               MPI_Aint target_disp, MPI_Count target_count,
               struct tb_type *target_datatype, struct tb_win *win,
               struct tb_req **request)
{
    struct tb_rma_side origin = {origin_addr, origin_count, origin_datatype};
    return move(TB_RMA_PUT, origin, target_rank, target_disp, target_count,
                target_datatype, win, request);
}

tb_err tb_put(const void *origin_addr, MPI_Count origin_count,
              struct tb_type *origin_datatype, int target_rank,
              MPI_Aint target_disp, MPI_Count target_count,
              struct tb_type *target_datatype, struct tb_win *win)
{
    return tb_rput(origin_addr, origin_count, origin_datatype, target_rank,
                   target_disp, target_count, target_datatype, win, NULL);
}

tb_err tb_rget(void *origin_addr, MPI_Count origin_count,
               struct tb_type *origin_datatype, int target_rank,
               MPI_Aint target_disp, MPI_Count target_count,
               struct tb_type *target_datatype, struct tb_win *win,
               struct tb_req **request)
{
    struct tb_rma_side origin = {origin_addr, origin_count, origin_datatype};
    return move(TB_RMA_GET, origin, target_rank, target_disp, target_count,
                target_datatype, win, request);
}

tb_err tb_get(void *origin_addr, MPI_Count origin_count,
              struct tb_type *origin_datatype, int target_rank,
              MPI_Aint target_disp, MPI_Count target_count,
              struct tb_type *target_datatype, struct tb_win *win)
{
    return tb_rget(origin_addr, origin_count, origin_datatype, target_rank,
                   target_disp, target_count, target_datatype, win, NULL);
}

/* ------------------------------------------------------------- accumulates */

static tb_err accumulate(struct tb_rma_call *c)
{
    c->kind = TB_RMA_ACC;
    /* What touches nothing is right with any datatype. */
    if (c->rank != MPI_PROC_NULL && c->count && c->type->layout->size)
        TB_TRY(check_op(c));
    return tb_rma_start(c);
}

tb_err tb_raccumulate(const void *origin_addr, MPI_Count origin_count,
                      struct tb_type *origin_datatype, int target_rank,
                      MPI_Aint target_disp, MPI_Count target_count,
                      struct tb_type *target_datatype, struct tb_op *op,
                      struct tb_win *win, struct tb_req **request)
{
    struct tb_rma_call c = {
        .rma = win->rma,
        .origin = {origin_addr, origin_count, origin_datatype},
        .rank = target_rank,
        .disp = target_disp,
        .count = target_count,
        .type = target_datatype,
        .op = op,
        .request = request,
    };
    return accumulate(&c);
}

tb_err tb_accumulate(const void *origin_addr, MPI_Count origin_count,
                     struct tb_type *origin_datatype, int target_rank,
                     MPI_Aint target_disp, MPI_Count target_count,
                     struct tb_type *target_datatype, struct tb_op *op,
                     struct tb_win *win)
{
    return tb_raccumulate(origin_addr, origin_count, origin_datatype,
                          target_rank, target_disp, target_count,
                          target_datatype, op, win, NULL);
}

tb_err tb_rget_accumulate(const void *origin_addr, MPI_Count origin_count,
                          struct tb_type *origin_datatype, void *result_addr,
                          MPI_Count result_count,
                          struct tb_type *result_datatype, int target_rank,
                          MPI_Aint target_disp, MPI_Count target_count,
                          struct tb_type *target_datatype, struct tb_op *op,
                          struct tb_win *win, struct tb_req **request)
{
    struct tb_rma_call c = {
        .rma = win->rma,
        .flags = TB_RMA_FETCH,
        .origin = {origin_addr, origin_count, origin_datatype},
        .result = {result_addr, result_count, result_datatype},
        .rank = target_rank,
        .disp = target_disp,
        .count = target_count,
        .type = target_datatype,
        .op = op,
        .request = request,
    };
    TB_TRY(need_type(origin_datatype, op));
    return accumulate(&c);
}

tb_err tb_get_accumulate(const void *origin_addr, MPI_Count origin_count,
                         struct tb_type *origin_datatype, void *result_addr,
                         MPI_Count result_count,
                         struct tb_type *result_datatype, int target_rank,
                         MPI_Aint target_disp, MPI_Count target_count,
                         struct tb_type *target_datatype, struct tb_op *op,
                         struct tb_win *win)
{
    return tb_rget_accumulate(origin_addr, origin_count, origin_datatype,
                              result_addr, result_count, result_datatype,
                              target_rank, target_disp, target_count,
                              target_datatype, op, win, NULL);
}

/* --------------------------------------------------------- single elements */

static tb_err need_predefined(const struct tb_type *t)
{
    if (t->obj.predefined)
        return TB_OK;
    return tb_fail(TB_ERR_TYPE, "the datatype must be a predefined one here");
}

tb_err tb_fetch_and_op(const void *origin_addr, void *result_addr,
                       struct tb_type *datatype, int target_rank,
                       MPI_Aint target_disp, struct tb_op *op,
                       struct tb_win *win)
{
    TB_TRY(need_predefined(datatype));
    return tb_rget_accumulate(origin_addr, 1, datatype, result_addr, 1,
                              datatype, target_rank, target_disp, 1, datatype,
                              op, win, NULL);
}

/* The types that the standard allows: those of which equal values have equal
 * bytes (MPI 5.0, section 12.3.4). */
static tb_err need_comparable(const struct tb_type *t)
{
    switch (t->family) {
    case TB_FAMILY_C_INTEGER:
    case TB_FAMILY_FORTRAN_INTEGER:
    case TB_FAMILY_LOGICAL:
    case TB_FAMILY_MULTI:
    case TB_FAMILY_BYTE:
        return TB_OK;
    default:
        return tb_fail(TB_ERR_TYPE,
                       "%s cannot be compared and swapped: only integers, "
                       "logicals and MPI_BYTE can",
                       t->label);
    }
}

tb_err tb_compare_and_swap(const void *origin_addr, const void *compare_addr,
                           void *result_addr, struct tb_type *datatype,
                           int target_rank, MPI_Aint target_disp,
                           struct tb_win *win)
{
    struct tb_rma_call c = {
        .rma = win->rma,
        .kind = TB_RMA_SWAP,
        .origin = {origin_addr, 1, datatype},
        .result = {result_addr, 1, datatype},
        .compare = compare_addr,
        .element = datatype,
        .rank = target_rank,
        .disp = target_disp,
        .count = 1,
        .type = datatype,
    };
    TB_TRY(need_predefined(datatype));
    TB_TRY(need_comparable(datatype));
    return tb_rma_start(&c);
}
