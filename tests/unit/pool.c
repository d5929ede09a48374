/* SPDX-License-Identifier: MIT */
/* The registration pool: its division, where it lies, its free lists, and the
 * seal of a slot. Registration itself is tested over the fabric. */
#include "net/pool.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "unit/check.h"

#define MIB ((size_t)1 << 20)

static void test_classes(void)
{
    CHECK_EQ(tb_class_room(TB_SMALL), 4032);
    CHECK_EQ(tb_class_room(TB_LARGE), 131008);
    CHECK_EQ(tb_class_of(1), TB_SMALL);
    CHECK_EQ(tb_class_of(4032), TB_SMALL);
    CHECK_EQ(tb_class_of(4033), TB_MIDDLE);
    CHECK_EQ(tb_class_of(tb_class_room(TB_MIDDLE)), TB_MIDDLE);
    CHECK_EQ(tb_class_of(tb_class_room(TB_MIDDLE) + 1), TB_LARGE);
}

/* Slots lie behind the lanes, in the object, apart, and in frames. */
static void check_plan(int ranks, size_t bytes)
{
    struct tb_regpool_plan p;
    size_t end = 0;

    CHECK_EQ(tb_regpool_plan(&p, ranks, bytes), TB_OK);
    CHECK_EQ(p.slots, TB_POOL_HEAD + (size_t)ranks * TB_POOL_LANE);
    CHECK_EQ(p.slots % TB_PAGE, 0);
    for (uint32_t i = 0; i < p.first[TB_CLASSES]; i++) {
        size_t at = tb_regpool_offset(&p, i);
        CHECK(at >= TB_MAX(p.slots, end));
        CHECK_EQ((at - p.slots) % TB_FRAME, 0);
        end = at + tb_class_room(tb_regpool_class(&p, i)) + TB_SLOT_HEAD;
    }
    CHECK(end == p.end && end <= bytes);
    CHECK(bytes - end < bytes / 8);
    CHECK(tb_regpool_has(&p, p.first[TB_CLASSES] - 1));
    CHECK(!tb_regpool_has(&p, p.first[TB_CLASSES]));
    CHECK(!tb_regpool_has(&p, TB_SLOT_NONE));
    for (int c = 0; c < TB_CLASSES; c++)
        CHECK(p.first[c + 1] - p.first[c] >= 16);
}

static void test_plans(void)
{
    struct tb_regpool_plan p;

    check_plan(0, TB_POOL_HEAD + TB_POOL_LEAST);
    check_plan(8, 64 * MIB);
    check_plan(3, 64 * MIB + 12345);
    CHECK_EQ(tb_regpool_plan(&p, 0, TB_POOL_LEAST), TB_ERR_ARG);
    CHECK(strstr(tb_fail_note(), "TBMPI_POOL") != NULL);
    CHECK_EQ(tb_regpool_plan(&p, 0, (size_t)17 << 30), TB_ERR_ARG);
}

/* Each class gives all its slots once, and takes them back. */
static void test_free_lists(void)
{
    struct tb_regpool *pool;

    CHECK_EQ(tb_regpool_open(&pool, -1, 8 * MIB, 0), TB_OK);
    CHECK_EQ((uintptr_t)pool->base % TB_PAGE, 0);
    for (int c = 0; c < TB_CLASSES; c++) {
        uint32_t first = pool->plan.first[c],
                 n = pool->plan.first[c + 1] - first;
        CHECK_EQ(pool->n[c], n);
        for (uint32_t i = 0; i < n; i++) {
            CHECK_EQ(tb_regpool_take(pool, c), first + i);
            memset(tb_regpool_at(pool, first + i), c,
                   tb_class_room(c) + TB_SLOT_HEAD);
        }
        CHECK_EQ(tb_regpool_take(pool, c), TB_SLOT_NONE);
        for (uint32_t i = 0; i < n; i++)
            tb_regpool_give(pool, first + i);
        CHECK_EQ(pool->n[c], n);
    }
    tb_regpool_close(pool);
}

/* Memory of more than a gigabyte is cut at gigabyte lines, and no slot lies
 * across one. */
static void check_pieces(size_t bytes)
{
    struct tb_regpool *pool;
    uintptr_t base;
    uint32_t n = 0;

    CHECK_EQ(tb_regpool_open(&pool, -1, bytes, 1), TB_OK);
    base = (uintptr_t)pool->base;
    CHECK(pool->pieces <= TB_REGIONS_MOST);
    for (int i = 0; i < pool->pieces; i++) {
        uintptr_t from = base + pool->cut[i], to = base + pool->cut[i + 1];
        CHECK(to > from && to - from <= TB_REGION_MOST);
        CHECK_EQ(from >> 32, (to - 1) >> 32);
        CHECK_EQ(from % TB_PAGE, 0);
    }
    for (int c = 0; c < TB_CLASSES; c++) {
        for (uint32_t i = 0; i < pool->n[c]; i += 13) {
            uintptr_t at = (uintptr_t)tb_regpool_at(pool, pool->free[c][i]);
            uintptr_t end = at + tb_class_room(c) + TB_SLOT_HEAD;
            CHECK_EQ(at / TB_REGION_MOST, (end - 1) / TB_REGION_MOST);
        }
        n += pool->n[c];
    }
    CHECK(n + (uint32_t)pool->pieces >= pool->plan.first[TB_CLASSES]);
    if (bytes <= TB_REGION_MOST)
        CHECK_EQ(pool->pieces, 1);
    tb_regpool_close(pool);
}

static void test_pieces(void)
{
    for (int i = 0; i < 20; i++)
        check_pieces((64 + (size_t)i * 40) * MIB);
    check_pieces(1100 * MIB);
    check_pieces(2500 * MIB + 4096);
}

/* Two processes see the same object, whoever maps it where. */
static void test_shared(void)
{
    struct tb_regpool *pool;
    struct tb_share share;
    struct tb_regpool_plan plan;
    uint32_t slot;
    void *other;

    CHECK_EQ(tb_share_make(&share, 8 * MIB), TB_OK);
    CHECK_EQ(tb_regpool_open(&pool, share.fd, 8 * MIB, 2), TB_OK);
    CHECK_EQ(tb_share_map(share.fd, 8 * MIB, &other), TB_OK);
    CHECK_EQ(tb_regpool_plan(&plan, 2, 8 * MIB), TB_OK);
    slot = tb_regpool_take(pool, TB_LARGE);
    memset(tb_slot_data(tb_regpool_at(pool, slot)), 7, 1000);
    tb_slot_seal(tb_regpool_at(pool, slot), 1000);
    CHECK(tb_slot_intact((char *)other + tb_regpool_offset(&plan, slot), 1000));
    tb_share_unmap(other, 8 * MIB);
    tb_regpool_close(pool);
    tb_share_release(&share);
}

static void test_seal(void)
{
    static _Alignas(64) char slot[TB_FRAME];
    struct tb_seal seal;

    memset(slot, 1, sizeof(slot));
    tb_slot_seal(slot, 300);
    CHECK(tb_slot_intact(slot, 300));
    CHECK(!tb_slot_intact(slot, 299));
    slot[TB_SLOT_HEAD + 299] ^= 64;
    CHECK(!tb_slot_intact(slot, 300));
    slot[TB_SLOT_HEAD + 299] ^= 64;
    memcpy(&seal, slot, sizeof(seal));
    seal.bytes = UINT32_MAX;
    memcpy(slot, &seal, sizeof(seal));
    CHECK(!tb_slot_intact(slot, 4032));
}

static void test_no_memory(void)
{
    struct tb_regpool *pool;
    tb_err err = TB_ERR_NO_MEM;

    for (long n = 0; err; n++) {
        CHECK(n < 10);
        tb_mem_fail_after(n);
        err = tb_regpool_open(&pool, -1, 8 * MIB, 0);
        tb_mem_fail_after(-1);
        CHECK(!err || err == TB_ERR_NO_MEM);
    }
    tb_regpool_close(pool);
}

int main(void)
{
    test_classes();
    test_plans();
    test_free_lists();
    test_pieces();
    test_shared();
    test_seal();
    test_no_memory();
    return 0;
}
