/* SPDX-License-Identifier: MIT */
/*
 * The engine on the self transport: every protocol, both orders of send and
 * receive, probes, cancel, truncation.
 */
#include "engine/engine.h"

#include <string.h>

#include "unit/check.h"

#define NAME 0x1234

static struct tb_engine *e;
static struct tb_context *c;
static const int peers[] = {0};

static struct tb_req *send_to_self(const void *buf, int64_t n, int tag,
                                   enum tb_send_mode mode)
{
    struct tb_req *req;
    struct tb_send_args a = {.context = c,
                             .buf = buf,
                             .layout = &tb_layout_byte,
                             .count = n,
                             .tag = tag,
                             .mode = mode};
    CHECK_EQ(tb_engine_send(e, &a, false, &req), TB_OK);
    return req;
}

static struct tb_req *recv_from(void *buf, int64_t n, int source, int tag)
{
    struct tb_req *req;
    struct tb_recv_args a = {.context = c,
                             .buf = buf,
                             .layout = &tb_layout_byte,
                             .count = n,
                             .source = source,
                             .tag = tag};
    CHECK_EQ(tb_engine_recv(e, &a, &req), TB_OK);
    return req;
}

static struct tb_result finish(struct tb_req *req)
{
    CHECK_EQ(tb_engine_wait(e, req), TB_OK);
    struct tb_result r = req->result;
    tb_req_free(req);
    return r;
}

static void exchange(int64_t n, enum tb_send_mode mode, bool recv_first)
{
    char *out = tb_alloc((size_t)n), *in = tb_alloc((size_t)n);
    for (int64_t i = 0; i < n; i++)
        out[i] = (char)(i * 7 + n);
    memset(in, 0, (size_t)n);
    struct tb_req *recv = NULL, *send;
    if (recv_first)
        recv = recv_from(in, n, 0, 5);
    send = send_to_self(out, n, 5, mode);
    for (int i = 0; i < 3; i++)
        tb_engine_poll(e);
    if (mode == TB_SEND_SYNC && !recv_first)
        CHECK(!send->done);
    if (!recv_first)
        recv = recv_from(in, n, 0, 5);
    finish(send);
    struct tb_result r = finish(recv);
    CHECK_EQ(r.bytes, n);
    CHECK_EQ(r.tag, 5);
    CHECK_EQ(r.err, TB_OK);
    CHECK(memcmp(in, out, (size_t)n) == 0);
    tb_free(out);
    tb_free(in);
}

static void all_sizes(void)
{
    static const int64_t sizes[] = {0,    1,     8,      100,     4095,
                                    8192, 65536, 100001, 1 << 20, 9 << 20};
    for (size_t i = 0; i < TB_COUNT_OF(sizes); i++)
        for (int mode = TB_SEND_STANDARD; mode <= TB_SEND_READY; mode++)
            for (int first = 0; first < 2; first++)
                exchange(sizes[i], (enum tb_send_mode)mode, first);
}

static void order(void)
{
    int values[50], got;
    struct tb_req *sends[50];
    for (int i = 0; i < 50; i++) {
        values[i] = i;
        sends[i] =
            send_to_self(&values[i], sizeof(int), i % 2, TB_SEND_STANDARD);
    }
    for (int i = 0; i < 25; i++) { /* the odd ones first, each in order */
        finish(recv_from(&got, sizeof got, TB_ANY_SOURCE, 1));
        CHECK_EQ(got, 2 * i + 1);
    }
    for (int i = 0; i < 25; i++) {
        finish(recv_from(&got, sizeof got, 0, TB_ANY_TAG));
        CHECK_EQ(got, 2 * i);
    }
    for (int i = 0; i < 50; i++)
        finish(sends[i]);
}

/* A receive from any source and one that names it: the older takes it. */
static void posting_order(void)
{
    int a = 0, b = 0, v = 1, w = 2;
    struct tb_req *any = recv_from(&a, sizeof a, TB_ANY_SOURCE, 3);
    struct tb_req *named = recv_from(&b, sizeof b, 0, 3);
    finish(send_to_self(&v, sizeof v, 3, TB_SEND_STANDARD));
    finish(send_to_self(&w, sizeof w, 3, TB_SEND_STANDARD));
    finish(any);
    finish(named);
    CHECK_EQ(a, 1);
    CHECK_EQ(b, 2);
}

static void truncation(void)
{
    static char out[200000], in[100];
    static const int64_t sizes[] = {200, 200000};
    for (int i = 0; i < 2; i++)
        for (int first = 0; first < 2; first++) {
            struct tb_req *recv = NULL;
            if (first)
                recv = recv_from(in, sizeof in, 0, 9);
            struct tb_req *send =
                send_to_self(out, sizes[i], 9, TB_SEND_STANDARD);
            tb_engine_poll(e);
            if (!first)
                recv = recv_from(in, sizeof in, 0, 9);
            finish(send);
            struct tb_result r = finish(recv);
            CHECK_EQ(r.err, TB_ERR_TRUNCATE);
            CHECK_EQ(r.bytes, sizeof in);
        }
}

static void probes(void)
{
    int v = 42, got = 0;
    bool found;
    struct tb_result r;
    struct tb_arrival *a;
    struct tb_req *req;
    CHECK_EQ(tb_engine_probe(e, c, 0, 8, &found, &r), TB_OK);
    CHECK(!found);
    finish(send_to_self(&v, sizeof v, 8, TB_SEND_STANDARD));
    do
        CHECK_EQ(tb_engine_probe(e, c, TB_ANY_SOURCE, 8, &found, &r), TB_OK);
    while (!found);
    CHECK_EQ(r.bytes, sizeof v);
    CHECK_EQ(tb_engine_mprobe(e, c, 0, TB_ANY_TAG, &a, &r), TB_OK);
    CHECK(a != NULL);
    CHECK_EQ(tb_engine_probe(e, c, 0, 8, &found, &r), TB_OK);
    CHECK(!found);
    CHECK_EQ(
        tb_engine_recv_arrival(e, a, &got, &tb_layout_byte, sizeof got, &req),
        TB_OK);
    finish(req);
    CHECK_EQ(got, 42);
}

static void cancels(void)
{
    static char big[1 << 20];
    int v = 0;
    struct tb_req *req = recv_from(&v, sizeof v, 0, 77);
    CHECK_EQ(tb_engine_cancel(req), TB_OK);
    CHECK(finish(req).cancelled);
    for (int i = 0; i < 2; i++) { /* an eager one, a rendezvous */
        req = send_to_self(big, i ? (int64_t)sizeof big : 10, 78,
                           TB_SEND_STANDARD);
        for (int k = 0; k < 3; k++)
            tb_engine_poll(e);
        CHECK_EQ(tb_engine_cancel(req), TB_OK);
        CHECK(finish(req).cancelled);
    }
    /* One that was received already cannot be cancelled. */
    req = send_to_self(&v, sizeof v, 79, TB_SEND_STANDARD);
    finish(recv_from(&v, sizeof v, 0, 79));
    CHECK_EQ(tb_engine_cancel(req), TB_OK);
    CHECK(!finish(req).cancelled);
}

/* Messages for a context that is opened later wait for it. */
static void early_context(void)
{
    struct tb_context *main_context = c, *later;
    int v = 11, got = 0;
    struct tb_context *first;
    CHECK_EQ(tb_context_open(e, 0x99, peers, 1, &first), TB_OK);
    c = first;
    finish(send_to_self(&v, sizeof v, 1, TB_SEND_STANDARD));
    tb_context_close(first);
    for (int i = 0; i < 3; i++)
        tb_engine_poll(e);
    CHECK_EQ(tb_context_open(e, 0x99, peers, 1, &later), TB_OK);
    c = later;
    finish(recv_from(&got, sizeof got, 0, 1));
    CHECK_EQ(got, 11);
    tb_context_close(later);
    c = main_context;
}

/* A context to send into beside one of the same name to receive from, and what
 * the engine says of the message on its way. */
static void outward(void)
{
    struct tb_context *main_context = c, *out, *in;
    struct tb_engine_stats before, sent, got;
    int v = 12, to = 0;
    CHECK_EQ(tb_context_outward(e, 0x77, peers, &out), TB_OK);
    CHECK_EQ(tb_context_open(e, 0x77, peers, 1, &in), TB_OK);
    tb_engine_stats(e, &before);
    c = out;
    struct tb_req *req = send_to_self(&v, sizeof v, 3, TB_SEND_STANDARD);
    tb_context_close(out);
    tb_engine_poll(e);
    tb_engine_stats(e, &sent);
    c = in;
    finish(recv_from(&to, sizeof to, 0, 3));
    finish(req);
    tb_engine_stats(e, &got);
    CHECK_EQ(to, 12);
    CHECK(sent.inside.messages_out == before.inside.messages_out + 1);
    CHECK(sent.inside.bytes_out == before.inside.bytes_out + sizeof v);
    CHECK(sent.unexpected == before.unexpected + 1);
    CHECK(sent.unexpected_bytes == before.unexpected_bytes + sizeof v);
    CHECK(got.unexpected == before.unexpected);
    CHECK(got.inside.bytes_in == before.inside.bytes_in + sizeof v);
    CHECK(got.outside.messages_out == 0);
    CHECK(tb_engine_settled(e));
    tb_context_close(in);
    c = main_context;
}

/* More unexpected data than the window allows: the rest is announced. */
static void flood(void)
{
    enum { N = 4000 };
    static int values[N];
    static struct tb_req *sends[N];
    int got;
    for (int i = 0; i < N; i++) {
        values[i] = i;
        sends[i] = send_to_self(&values[i], sizeof(int), 4, TB_SEND_STANDARD);
        if (i % 16 == 0)
            tb_engine_poll(e);
    }
    for (int i = 0; i < N; i++) {
        finish(recv_from(&got, sizeof got, 0, 4));
        CHECK_EQ(got, i);
    }
    for (int i = 0; i < N; i++)
        finish(sends[i]);
}

int main(void)
{
    struct tb_config config;
    struct tb_boot *boot;
    setenv("TBMPI_EAGER_WINDOW", "64k", 1);
    CHECK_EQ(tb_config_load(&config), TB_OK);
    CHECK_EQ(tb_boot_open(&boot, &config), TB_OK);
    CHECK_EQ(tb_engine_open(&e, &config, boot), TB_OK);
    CHECK_EQ(tb_context_open(e, NAME, peers, 1, &c), TB_OK);
    all_sizes();
    order();
    posting_order();
    truncation();
    probes();
    cancels();
    early_context();
    outward();
    flood();
    tb_context_close(c);
    tb_engine_close(e);
    tb_boot_close(boot);
    return 0;
}
