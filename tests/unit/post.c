/* SPDX-License-Identifier: MIT */
/* Messages over sockets: whole, once, in order, never blocking, and nothing
 * believed unchecked. */
#include "net/post.h"

#include <sys/socket.h>

#include "unit/check.h"

static void open_pair(struct tb_post *a, struct tb_post *b)
{
    int fd[2];

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
    CHECK_EQ(tb_post_open(a, fd[0]), TB_OK);
    CHECK_EQ(tb_post_open(b, fd[1]), TB_OK);
}

static void fill(char *to, unsigned number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (char)(number * 7 + i);
}

/* All lengths, many at once, with the queue full now and then. */
static void test_stream(void)
{
    static char out[TB_POST_MOST], want[TB_POST_MOST];
    struct tb_post a, b;
    unsigned sent = 0, got = 0, kind;
    size_t bytes;

    open_pair(&a, &b);
    CHECK(!tb_post_next(&b, &kind, &bytes));
    while (got < 20000) {
        const void *p;
        while (sent < 20000) {
            size_t n = sent * 37 % (TB_POST_MOST + 1);
            tb_err err;
            fill(out, sent, n);
            err = tb_post_send(&a, sent % 1000, out, n);
            CHECK(err == TB_OK || err == TB_ERR_AGAIN);
            if (err)
                break;
            sent++;
        }
        while ((p = tb_post_next(&b, &kind, &bytes))) {
            CHECK_EQ(kind, got % 1000);
            CHECK_EQ(bytes, got * 37 % (TB_POST_MOST + 1));
            fill(want, got, bytes);
            CHECK(!memcmp(p, want, bytes));
            got++;
        }
        tb_post_flush(&a);
        CHECK(!a.ended && !b.ended);
    }
    tb_post_close(&a);
    tb_post_close(&b);
}

/* The last words of one who has gone are read before his end is seen, also
 * after a write to him has failed. */
static void test_last_words(void)
{
    struct tb_post a, b;
    unsigned kind;
    size_t bytes;

    open_pair(&a, &b);
    CHECK_EQ(tb_post_send(&a, 5, "bye", 3), TB_OK);
    tb_post_close(&a);
    CHECK_EQ(tb_post_send(&b, 1, "x", 1), TB_ERR_LOST);
    CHECK_EQ(tb_post_send(&b, 1, "x", 1), TB_ERR_LOST);
    CHECK(tb_post_next(&b, &kind, &bytes));
    CHECK(kind == 5 && bytes == 3);
    CHECK(!tb_post_next(&b, &kind, &bytes));
    CHECK(b.ended);
    tb_post_close(&b);
}

static void test_nonsense(void)
{
    struct tb_post_head too_long = {TB_POST_MOST + 1, 1, 0x4254};
    struct tb_post_head no_magic = {1, 1, 0};

    for (int i = 0; i < 2; i++) {
        struct tb_post a, b;
        unsigned kind;
        size_t bytes;
        open_pair(&a, &b);
        CHECK(tb_stream_write(a.fd, i ? &too_long : &no_magic,
                              sizeof(too_long)) == sizeof(too_long));
        CHECK(!tb_post_next(&b, &kind, &bytes));
        CHECK(b.ended);
        tb_post_close(&a);
        tb_post_close(&b);
    }
}

static void test_failures(void)
{
    struct tb_post a;

    CHECK_EQ(tb_post_open(&a, -1), TB_ERR_SYSTEM);
    for (long n = 0; n < 2; n++) {
        tb_mem_fail_after(n);
        CHECK_EQ(tb_post_open(&a, 0), TB_ERR_NO_MEM);
        tb_mem_fail_after(-1);
    }
    tb_post_close(&a);
}

int main(void)
{
    test_stream();
    test_last_words();
    test_nonsense();
    test_failures();
    return 0;
}
