/* SPDX-License-Identifier: MIT */
/*
 * From a call to its end: check it, choose, build a schedule, run that.
 */
#include "coll/coll.h"
#include "coll/scratch.h"
#include "coll/select.h"

static void build(struct tb_sched *s, const struct tb_call *c,
                  const struct tb_choice *choice)
{
    s->type = c->type;
    s->op = c->op;
    if (choice->how)
        tb_sched_direct(s, c, choice->how);
    else
        choice->build(s, c);
    tb_sched_round(s);
}

tb_err tb_coll_run(struct tb_call *call)
{
    const struct tb_choice *choice;
    struct tb_sched s;
    TB_TRY(tb_coll_check(call));
    TB_TRY(tb_lane_agree(call->comm));
    TB_TRY(tb_select(call, true, &choice));
    if (choice->how) {
        struct tb_direct d;
        tb_direct_init(&d, call, choice->how);
        return tb_direct_run(&d);
    }
    tb_sched_init(&s, call->comm, false);
    build(&s, call, choice);
    tb_err err = tb_sched_run(&s);
    tb_sched_fini(&s);
    return err;
}

static tb_err make(struct tb_call *call, bool persistent, struct tb_sched **out)
{
    const struct tb_choice *choice;
    TB_TRY(tb_coll_check(call));
    TB_TRY(tb_select(call, !persistent, &choice));
    TB_TRY(tb_sched_new(out, call->comm, persistent));
    build(*out, call, choice);
    return TB_OK;
}

tb_err tb_coll_begin(struct tb_call *call, struct tb_req **out)
{
    struct tb_sched *s;
    TB_TRY(make(call, false, &s));
    return tb_sched_begin(s, out);
}

tb_err tb_coll_prepare(struct tb_call *call, struct tb_req **out)
{
    struct tb_sched *s;
    TB_TRY(make(call, true, &s));
    return tb_sched_prepare(s, out);
}

/* ------------------------------------------------------- for the library */

static struct tb_blocks bytes_at(const void *buf, int64_t n)
{
    return (struct tb_blocks){
        .base = (void *)(uintptr_t)buf, .count = n, .layout = &tb_layout_byte};
}

tb_err tb_coll_barrier(struct tb_comm *c)
{
    struct tb_call call = {.kind = TB_COLL_BARRIER, .comm = c};
    return tb_coll_run(&call);
}

tb_err tb_coll_bcast_bytes(struct tb_comm *c, void *buf, int64_t bytes,
                           int root)
{
    struct tb_call call = {.kind = TB_COLL_BCAST,
                           .comm = c,
                           .recv = bytes_at(buf, bytes),
                           .root = root};
    return tb_coll_run(&call);
}

tb_err tb_coll_allgather_bytes(struct tb_comm *c, const void *in, void *out,
                               int64_t bytes_each)
{
    struct tb_call call = {
        .kind = TB_COLL_ALLGATHER,
        .comm = c,
        .send = bytes_at(in ? in : MPI_IN_PLACE, bytes_each),
        .recv = bytes_at(out, bytes_each),
    };
    return tb_coll_run(&call);
}

void tb_coll_fini(void)
{
    tb_sched_cleanup();
    tb_commons_fini();
}
