/* SPDX-License-Identifier: MIT */
/*
 * The loop nest behind a layout: made by layout.c, run by layout_copy.c.
 *
 * A loop makes its stream by visiting places in memory; at each it takes `unit`
 * bytes, either as one run or by an inner loop of that size. Displacements
 * count from where the loop is started.
 */
#ifndef TB_LOOP_H
#define TB_LOOP_H

#include "engine/layout.h"

enum tb_loop_kind {
    TB_LOOP_REPEAT, /* `n` places, `stride` apart */
    TB_LOOP_BLOCKS, /* `n` places at displs[i] */
    TB_LOOP_RUNS,   /* `n` runs of any length at displs[i]; no inner loop.
                       Run i is bytes starts[i] to starts[i + 1] of the
                       stream */
    TB_LOOP_PARTS   /* `n` loops of their own */
};

/* One of many: `n` places, `stride` apart, the first at `displ`; begins at
 * `start` in the stream. */
struct tb_loop_part {
    int64_t start;
    int64_t displ;
    int64_t n;
    int64_t stride;
    int64_t unit;
    struct tb_loop *inner;
};

struct tb_loop {
    _Atomic int32_t refs; /* negative: static, never freed */
    enum tb_loop_kind kind;
    int64_t size; /* of the whole stream */
    int64_t runs;
    int64_t n;
    int64_t stride;
    int64_t unit;
    struct tb_loop *inner; /* a reference; NULL: units are runs */
    const int64_t *displs; /* these lie behind the struct, or are static */
    const int64_t *starts;
    const struct tb_loop_part *parts;
};

#endif
