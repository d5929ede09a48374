/* SPDX-License-Identifier: MIT */
#include "coll/call.h"

const char *tb_coll_name(enum tb_coll_kind kind)
{
    static const char *const names[] = {
#define X(kind, name, word) name,
        TB_COLLS(X)
#undef X
    };
    return kind < TB_COLL_LIMIT ? names[kind] : "no collective";
}

/* Types were looked up when the call was checked: this one exists. */
static struct tb_layout *layout_of(MPI_Datatype handle)
{
    struct tb_type *type;
    return tb_type_get(handle, &type) ? &tb_layout_byte : type->layout;
}

struct tb_part tb_block(const struct tb_blocks *b, int i)
{
    struct tb_part p = {.layout = b->types ? layout_of(b->types[i]) : b->layout,
                        .count = b->count};
    int64_t at = i * b->count;
    if (b->total) {
        int64_t left = b->total - at;
        p.count = left <= 0 ? 0 : TB_MIN(left, b->count);
    }
    if (tb_counts_given(b->counts))
        p.count = tb_count_at(b->counts, i);
    if (tb_counts_given(b->displs))
        at = tb_count_at(b->displs, i);
    p.buf = tb_at(b->base, b->types ? at : at * p.layout->extent);
    return p;
}

struct tb_part tb_block_range(const struct tb_blocks *b, int i, int n)
{
    struct tb_part p = {.layout = b->layout, .count = n * b->count};
    int64_t at = i * b->count;
    if (b->total) {
        int64_t left = b->total - at;
        p.count = left <= 0 ? 0 : TB_MIN(left, p.count);
    }
    p.buf = tb_at(b->base, at * p.layout->extent);
    return p;
}

tb_err tb_part_copy(struct tb_part from, struct tb_part to)
{
    int64_t bytes = tb_part_bytes(from), room = tb_part_bytes(to);
    int64_t most = TB_MIN(bytes, room);
    for (int64_t at = 0; at < most;) {
        void *run;
        int64_t n = tb_layout_run(from.layout, from.buf, at, most, &run);
        tb_layout_unpack(to.layout, to.buf, at, run, n);
        at += n;
    }
    if (TB_LIKELY(bytes == room))
        return TB_OK;
    return tb_fail(bytes > room ? TB_ERR_TRUNCATE : TB_ERR_NOT_SAME,
                   "this rank gives itself %lld bytes and takes %lld: counts "
                   "and datatypes must agree",
                   (long long)bytes, (long long)room);
}
