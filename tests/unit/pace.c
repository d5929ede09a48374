/* SPDX-License-Identifier: MIT */
/* The choice between a pull and packets, on made-up times. */
#include "net/pace.h"

#include "unit/check.h"

#define MESSAGE 65536

/* One message on a machine where a pull and a packet's two copies take these
 * times, in ns a KiB. Returns whether it was pulled. */
static bool move(struct tb_pace *p, size_t bytes, float pull, float write,
                 float read)
{
    if (tb_pace_choose(p, bytes)) {
        tb_pace_note(&p->pull[tb_pace_class(bytes)], pull);
        return true;
    }
    tb_pace_note(&p->write, write);
    tb_pace_note(&p->read, read);
    return false;
}

static int pulls(struct tb_pace *p, int messages, float pull, float copy)
{
    int n = 0;

    for (int i = 0; i < messages; i++)
        n += move(p, MESSAGE, pull, copy, copy);
    return n;
}

static struct tb_pace fresh(void)
{
    return (struct tb_pace){.packet_bytes = 32768, .patience = 1.1f};
}

static void test_classes(void)
{
    CHECK_EQ(tb_pace_class(1), 0);
    CHECK_EQ(tb_pace_class(4096), 0);
    CHECK_EQ(tb_pace_class(8191), 0);
    CHECK_EQ(tb_pace_class(8192), 1);
    CHECK_EQ(tb_pace_class(65536), 4);
    CHECK_EQ(tb_pace_class(SIZE_MAX), TB_PACE_CLASSES - 1);
}

/* Whichever is quicker is found at once, and kept, but for the odd chance. */
static void test_finds(void)
{
    struct tb_pace a = fresh(), b = fresh();

    CHECK(pulls(&a, 200, 80, 400) >= 180);
    CHECK(pulls(&b, 200, 400, 80) <= 20);
}

/* A wrong first impression, by a page fault, does not last. */
static void test_first_impression(void)
{
    struct tb_pace p = fresh();

    move(&p, MESSAGE, 100000, 50, 50);
    CHECK(pulls(&p, 500, 30, 100) >= 350);
}

/* A lost time slice in between changes nothing. */
static void test_outlier(void)
{
    struct tb_pace p = fresh();

    pulls(&p, 50, 80, 400);
    tb_pace_note(&p.pull[tb_pace_class(MESSAGE)], 1000000);
    CHECK(pulls(&p, 20, 80, 400) >= 16);
}

/* A lasting change is believed. */
static void test_change(void)
{
    struct tb_pace p = fresh();

    pulls(&p, 200, 80, 400);
    pulls(&p, 2000, 80, 30);
    CHECK(pulls(&p, 100, 80, 30) <= 6);
    pulls(&p, 2000, 80, 400);
    CHECK(pulls(&p, 100, 80, 400) >= 94);
}

/* Copies of one packet do not overlap, those of many do. */
static void test_overlap(void)
{
    struct tb_pace p = fresh();

    tb_pace_note(&p.write, 50);
    tb_pace_note(&p.read, 50);
    CHECK_EQ(tb_pace_packets(&p, 8192), 100);
    CHECK_EQ(tb_pace_packets(&p, 32768), 100);
    CHECK_EQ(tb_pace_packets(&p, 65536), 75);
    CHECK(tb_pace_packets(&p, 32 << 20) < 51);
    CHECK(tb_pace_choose(&p, 100)); /* too short to ask */
    p.packet_bytes = 1024;          /* packets too short to measure */
    p.pull[0] = 1000;
    CHECK(tb_pace_choose(&p, 5000));
}

int main(void)
{
    test_classes();
    test_finds();
    test_first_impression();
    test_outlier();
    test_change();
    test_overlap();
    return 0;
}
