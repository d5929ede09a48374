/* SPDX-License-Identifier: MIT */
/* The division of the segment: nothing overlaps, nothing is outside. */
#include "net/segment.h"

#include "unit/check.h"

static void check_plan(int ranks, size_t bytes, size_t ring)
{
    size_t n = (size_t)ranks;
    struct tb_segment_plan p;

    CHECK_EQ(tb_segment_plan(&p, ranks, bytes, ring), TB_OK);
    CHECK(p.board >= sizeof(struct tb_segment_head));
    CHECK(p.ranks >= p.board + n * TB_NOTE_BYTES);
    CHECK(p.rank_bytes * 8 >= sizeof(struct tb_rank_block) * 8 + n);
    CHECK(p.commons >= p.ranks + n * p.rank_bytes);
    CHECK(p.rings >= p.commons + n * p.commons_bytes);
    CHECK(p.rings + n * (n - 1) * p.ring_bytes <= bytes);
    CHECK_EQ(p.board % TB_LINE, 0);
    CHECK_EQ(p.ranks % TB_LINE, 0);
    CHECK_EQ(p.rank_bytes % TB_LINE, 0);
    CHECK_EQ(p.commons % TB_LINE, 0);
    CHECK_EQ(p.commons_bytes % TB_LINE, 0);
    CHECK_EQ(p.rings % TB_LINE, 0);
    CHECK_EQ(p.ring_bytes % TB_LINE, 0);
    CHECK(p.commons_bytes >= 1024);
    CHECK(n == 1 || p.ring_bytes >= 4096);
    if (ring)
        CHECK(p.ring_bytes <= TB_MAX(ring, 4096u) + 2 * TB_LINE);
}

int main(void)
{
    struct tb_segment_plan p;

    for (int ranks = 1; ranks <= 300; ranks++) {
        check_plan(ranks, (size_t)ranks * TB_SEGMENT_PER_RANK, 0);
        check_plan(ranks, (size_t)ranks * TB_SEGMENT_PER_RANK, 4096);
        check_plan(ranks, (size_t)ranks * TB_SEGMENT_PER_RANK, 100000);
        check_plan(ranks, (size_t)ranks * TB_SEGMENT_PER_RANK, 1);
    }
    CHECK_EQ(tb_segment_plan(&p, 2, TB_SEGMENT_HEAD, 0), TB_ERR_NO_SPACE);
    CHECK_EQ(tb_segment_plan(&p, 2, 0, 0), TB_ERR_NO_SPACE);
    CHECK_EQ(tb_segment_plan(&p, 64, TB_SEGMENT_PER_RANK, 0), TB_ERR_NO_SPACE);
    CHECK_EQ(tb_segment_plan(&p, 2000, (size_t)2000 * TB_SEGMENT_PER_RANK, 0),
             TB_ERR_NO_SPACE);
    CHECK(strstr(tb_fail_note(), "fewer ranks"));
    return 0;
}
