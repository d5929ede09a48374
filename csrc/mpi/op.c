/* SPDX-License-Identifier: MIT */
/* Reduction operations: predefined ones, the program's, and applying them. */
#include "mpi/op.h"

#include <limits.h>
#include <string.h>

#include "mpi/life.h"

/* -------------------------------------------------------------- predefined */

#define BIT(family) (1u << TB_FAMILY_##family)
#define INTEGER (BIT(C_INTEGER) | BIT(FORTRAN_INTEGER) | BIT(MULTI))
#define LOGIC (BIT(C_INTEGER) | BIT(LOGICAL) | BIT(MULTI))

/* X(name without MPI_, families of types it is defined for): MPI 5.0, section
 * 6.9.2, and the logical operations on MPI_AINT and its like. */
#define OPS(X)                                      \
    X(SUM, INTEGER | BIT(FLOATING) | BIT(COMPLEX))  \
    X(MIN, INTEGER | BIT(FLOATING))                 \
    X(MAX, INTEGER | BIT(FLOATING))                 \
    X(PROD, INTEGER | BIT(FLOATING) | BIT(COMPLEX)) \
    X(BAND, INTEGER | BIT(BYTE))                    \
    X(BOR, INTEGER | BIT(BYTE))                     \
    X(BXOR, INTEGER | BIT(BYTE))                    \
    X(LAND, LOGIC)                                  \
    X(LOR, LOGIC)                                   \
    X(LXOR, LOGIC)                                  \
    X(MINLOC, BIT(PAIR))                            \
    X(MAXLOC, BIT(PAIR))                            \
    X(REPLACE, 0)                                   \
    X(NO_OP, 0)

enum {
#define X(name, families) AT_##name,
    OPS(X)
#undef X
        PREDEFINED
};

static const struct {
    const char *name;
    MPI_Op handle;
    unsigned families;
} facts[PREDEFINED] = {
#define X(name, families) {"MPI_" #name, MPI_##name, families},
    OPS(X)
#undef X
};

static struct tb_op ops[PREDEFINED];

static void drop(void *object)
{
    tb_op_unref(object);
}

tb_err tb_op_init(void)
{
    for (int i = 0; i < PREDEFINED; i++) {
        uintptr_t value = (uintptr_t)facts[i].handle;
        /* MPI_REPLACE keeps the one operand: order matters. */
        ops[i].commutes = i != AT_REPLACE && i != AT_NO_OP;
        ops[i].which = (int)value;
        tb_handle_predefine(&ops[i].obj, TB_KIND_OP, value);
    }
    return TB_OK;
}

void tb_op_fini(void)
{
    tb_handle_sweep(TB_KIND_OP, drop);
}

/* ----------------------------------------------------------------- objects */

struct tb_op *tb_op_ref(struct tb_op *op)
{
    if (!op->obj.predefined)
        op->obj.refs++;
    return op;
}

void tb_op_unref(struct tb_op *op)
{
    if (op && !op->obj.predefined && --op->obj.refs == 0)
        tb_free(op);
}

tb_err tb_op_create(MPI_User_function *fn, MPI_User_function_c *fn_c,
                    int commute, struct tb_op **out)
{
    struct tb_op *op;

    if (!fn && !fn_c)
        return tb_fail(TB_ERR_ARG, "user_fn must not be NULL");
    op = tb_calloc(1, sizeof *op);
    if (!op)
        return tb_fail(TB_ERR_NO_MEM, "no memory for an operation");
    op->commutes = commute != 0;
    op->fn = fn;
    op->fn_c = fn_c;
    tb_err err = tb_handle_new(&op->obj, TB_KIND_OP);
    if (err)
        tb_free(op);
    else
        *out = op;
    return err;
}

tb_err tb_op_free(struct tb_op *op)
{
    if (op->obj.predefined)
        return tb_fail(TB_ERR_OP, "the operation is predefined: it cannot be "
                                  "freed");
    tb_handle_drop(&op->obj);
    tb_op_unref(op);
    return TB_OK;
}

tb_err tb_op_commutative(struct tb_op *op, int *commute)
{
    *commute = op->commutes;
    return TB_OK;
}

/* ---------------------------------------------------------------- applying */

static tb_op_kernel *kernel_of(const struct tb_op *op, const struct tb_type *t)
{
    return tb_op_kernels[op->which - TB_OP_FIRST][t->basic];
}

tb_err tb_op_check(const struct tb_op *op, const struct tb_type *t)
{
    if (!op->which)
        return TB_OK;
    const char *name = facts[op - ops].name;
    const char *type = t->label[0] ? t->label : "a derived datatype";
    unsigned families = facts[op - ops].families;
    if (families == 0)
        return tb_fail(TB_ERR_OP, "%s is for one-sided communication only",
                       name);
    if (!(families & 1u << t->family))
        return tb_fail(TB_ERR_OP,
                       "%s is not defined for %s: use an operation "
                       "of MPI_Op_create",
                       name, type);
    if (!kernel_of(op, t))
        return tb_fail(TB_ERR_OP,
                       "%s cannot be computed here for %s, a type "
                       "that the processor and the compiler lack",
                       name, type);
    return TB_OK;
}

/* Element by element through a small buffer. */
static void replace(const char *in, char *inout, int64_t count,
                    const struct tb_layout *l)
{
    int64_t size = count * l->size;
    char piece[2048];

    for (int64_t at = 0; at < size;) {
        int64_t n = TB_MIN(size - at, (int64_t)sizeof piece);
        tb_layout_pack(l, in, at, piece, n);
        tb_layout_unpack(l, inout, at, piece, n);
        at += n;
    }
}

/* The int form gets no more elements than an int can count. */
static void call_user(const struct tb_op *op, char *in, char *inout,
                      int64_t count, struct tb_type *t, MPI_Datatype handle)
{
    if (op->fn_c) {
        MPI_Count n = count;
        op->fn_c(in, inout, &n, &handle);
        return;
    }
    while (count > 0) {
        int n = (int)TB_MIN(count, INT_MAX);
        int given = n;
        op->fn(in, inout, &given, &handle);
        in += n * t->layout->extent;
        inout += n * t->layout->extent;
        count -= n;
    }
}

/* The program may have freed the datatype, and still gets its handle here. */
static void apply_user(const struct tb_op *op, char *in, char *inout,
                       int64_t count, struct tb_type *t)
{
    bool mine = !t->obj.handle && !tb_handle_share(&t->obj, TB_KIND_TYPE);

    call_user(op, in, inout, count, t,
              t->obj.handle ? tb_type_handle(t) : MPI_DATATYPE_NULL);
    if (mine) {
        tb_handle_drop(&t->obj);
        tb_type_unref(t);
    }
}

void tb_op_apply(struct tb_op *op, const void *in, void *inout, int64_t count,
                 struct tb_type *t)
{
    if (count == 0)
        return;
    if (TB_UNLIKELY(!op->which))
        apply_user(op, (char *)(uintptr_t)in, inout, count, t);
    else if (op == &ops[AT_REPLACE])
        replace(in, inout, count, t->layout);
    else if (op != &ops[AT_NO_OP])
        kernel_of(op, t)(in, inout, count);
}

tb_err tb_reduce_local(const void *inbuf, void *inoutbuf, MPI_Count count,
                       struct tb_type *t, struct tb_op *op)
{
    int64_t bytes;

    TB_TRY(tb_op_check(op, t));
    TB_TRY(tb_type_stream(t, count, &bytes));
    if (bytes == 0)
        return TB_OK;
    if (inbuf == inoutbuf)
        return tb_fail(TB_ERR_BUFFER, "inbuf and inoutbuf are the same");
    TB_TRY(tb_type_check_buffer("inbuf", inbuf, count, t));
    TB_TRY(tb_type_check_buffer("inoutbuf", inoutbuf, count, t));
    tb_op_apply(op, inbuf, inoutbuf, count, t);
    return TB_OK;
}
