/* SPDX-License-Identifier: MIT */
/* The conversation, devices, and what is printed. */
#include "selftest/station.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SWAP 1                     /* the only kind of message */
#define PEER_LEAST_NS 30000000000u /* longest wait for the other end */
#define PEER_PATIENCE 100          /* or so many times the patience */
#define LOOK_MS 20        /* between two looks at the clock while waiting */
#define VALUES_BYTES 2048 /* of the figures of a line */
#define LINE ((size_t)1 << 32)

/* ------------------------------------------------------------ conversation */

static void give_up(const struct tb_station *st, const char *why)
{
    fprintf(stderr, "tbmpi-selftest of %s: %s\n",
            st->plan->node[st->plan->self].name, why);
    exit(1);
}

bool tb_called(struct tb_station *st)
{
    unsigned kind = 0;

    if (!st->early)
        st->early = tb_post_next(&st->talk, &kind, &st->early_bytes);
    if (!st->early && st->talk.ended)
        give_up(st, "the other end has gone");
    return st->early != NULL;
}

static void wait_for_call(struct tb_station *st)
{
    uint64_t most = TB_MAX(PEER_PATIENCE * st->patience, PEER_LEAST_NS);
    uint64_t until = tb_now() + most;

    while (!tb_called(st)) {
        struct pollfd fd = {st->talk.fd, POLLIN, 0};
        if (tb_now() > until)
            give_up(st, "the other end does not answer");
        tb_post_flush(&st->talk);
        if (st->meanwhile)
            st->meanwhile(st->meanwhile_ctx);
        else
            poll(&fd, 1, LOOK_MS);
    }
}

void tb_swap(struct tb_station *st, const void *mine, void *theirs,
             size_t bytes)
{
    if (tb_post_send(&st->talk, SWAP, mine, bytes))
        give_up(st, "the other end has gone");
    wait_for_call(st);
    if (st->early_bytes != bytes)
        give_up(st, "the other end runs another tbmpi: install the same one");
    memcpy(theirs, st->early, bytes);
    st->early = NULL;
}

void tb_meet(struct tb_station *st)
{
    uint32_t mine = 1, theirs;

    tb_swap(st, &mine, &theirs, sizeof(mine));
}

/* ----------------------------------------------------------------- printing */

void tb_print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < ' ')
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_place(const struct tb_station *st)
{
    fputs("{\"mac\": ", stdout);
    tb_print_text(st->plan->node[st->plan->self].name);
    printf(", \"cable\": %d", st->cable);
}

void tb_report(const struct tb_station *st, const char *probe, const char *seen,
               const char *note, const char *values, ...)
{
    char text[VALUES_BYTES];
    va_list args;

    va_start(args, values);
    vsnprintf(text, sizeof(text), values, args);
    va_end(args);
    print_place(st);
    printf(", \"probe\": \"%s\", \"seen\": \"%s\", \"note\": ", probe, seen);
    tb_print_text(note);
    printf(", \"values\": {%s}}\n", text);
    fflush(stdout);
}

void tb_begin(const struct tb_station *st, const char *probe)
{
    print_place(st);
    printf(", \"begin\": \"%s\"}\n", probe);
    fflush(stdout);
}

/* ------------------------------------------------------------------ devices */

int tb_code(int code)
{
    if (code == -1)
        return errno ? errno : 1;
    return code < 0 ? -code : code;
}

void tb_fill(void *at, size_t bytes, uint32_t seed)
{
    unsigned char *p = at;

    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(seed * 101 + i * 7 + (i >> 8));
}

bool tb_filled(const void *at, size_t bytes, uint32_t seed)
{
    const unsigned char *p = at;

    for (size_t i = 0; i < bytes; i++) {
        if (p[i] != (unsigned char)(seed * 101 + i * 7 + (i >> 8)))
            return false;
    }
    return true;
}

tb_err tb_station_open(struct tb_station *st, int cable)
{
    const struct tb_plan_cable *c = &st->plan->cable[cable];
    int side = c->node[0] == st->plan->self ? 0 : 1;
    void *memory;

    st->cable = cable;
    memcpy(st->gid, c->gid[side], sizeof(st->gid));
    memcpy(st->peer_gid, c->gid[!side], sizeof(st->peer_gid));
    TB_TRY(tb_share_place(-1, 2 * TB_HALF_BYTES, LINE, &memory));
    st->out = memory;
    st->in = st->out + TB_HALF_BYTES;
    TB_TRY(tb_device_open(&st->device, st->verbs, st->gid, c->device[side]));
    return tb_device_register(&st->device, st->out, 2 * TB_HALF_BYTES,
                              &st->region);
}

void tb_station_close(struct tb_station *st)
{
    if (st->region)
        tb_device_deregister(&st->device, st->region);
    tb_device_close(&st->device);
    if (st->out)
        tb_share_unmap(st->out, 2 * TB_HALF_BYTES);
    st->region = NULL;
    st->out = st->in = NULL;
}
