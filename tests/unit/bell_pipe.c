/* SPDX-License-Identifier: MIT */
/* A doorbell whose owner sleeps in poll(2): who rings writes into its pipe. */
#include "base/base.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "unit/check.h"

#define ROUNDS 5000

struct sleeper {
    struct tb_bell bell;
    int pipe[2];
    _Atomic long got;
};

static void open_sleeper(struct sleeper *s)
{
    memset(s, 0, sizeof(*s));
    CHECK(!pipe(s->pipe));
    CHECK(!fcntl(s->pipe[0], F_SETFL, O_NONBLOCK));
    CHECK(!fcntl(s->pipe[1], F_SETFL, O_NONBLOCK));
    CHECK_EQ(tb_bell_pipe(&s->bell, s->pipe[1]), TB_OK);
}

static void close_sleeper(struct sleeper *s)
{
    tb_bell_forget(&s->bell);
    close(s->pipe[0]);
    close(s->pipe[1]);
}

static bool rung(struct sleeper *s, int ms)
{
    struct pollfd p = {s->pipe[0], POLLIN, 0};
    char bytes[64];

    if (poll(&p, 1, ms) <= 0)
        return false;
    CHECK(read(s->pipe[0], bytes, sizeof(bytes)) > 0);
    return true;
}

static void test_one_byte(void)
{
    static struct sleeper s;

    open_sleeper(&s);
    tb_bell_ring(&s.bell); /* nobody sleeps */
    CHECK(!rung(&s, 0));
    tb_bell_arm_pipe(&s.bell);
    tb_bell_ring(&s.bell);
    tb_bell_ring(&s.bell);
    CHECK(rung(&s, 0));
    CHECK(!rung(&s, 0));
    tb_bell_arm_pipe(&s.bell);
    tb_bell_disarm(&s.bell);
    tb_bell_ring(&s.bell);
    CHECK(!rung(&s, 0));
    tb_bell_arm_pipe(&s.bell);
    tb_bell_forget(&s.bell); /* not told: the sleep lasts, no more */
    tb_bell_ring(&s.bell);
    CHECK(!rung(&s, 0));
    close_sleeper(&s);
}

/* A pipe that is full is as good a bell. */
static void test_full(void)
{
    static struct sleeper s;

    open_sleeper(&s);
    while (write(s.pipe[1], "", 1) == 1)
        continue;
    tb_bell_arm_pipe(&s.bell);
    tb_bell_ring(&s.bell);
    CHECK(rung(&s, 0));
    close_sleeper(&s);
}

static struct sleeper pair[2];

/* Waits for the other's n-th move, asleep whenever there is none. */
static void await(struct sleeper *me, const struct sleeper *other, long n)
{
    while (atomic_load_explicit(&other->got, memory_order_acquire) < n) {
        tb_bell_arm_pipe(&me->bell);
        if (atomic_load_explicit(&other->got, memory_order_acquire) < n)
            CHECK(rung(me, 5000));
        tb_bell_disarm(&me->bell);
    }
}

static void *play(void *arg)
{
    struct sleeper *me = arg, *other = &pair[me == pair];

    for (long i = 1; i <= ROUNDS; i++) {
        await(me, other, me == pair ? i - 1 : i);
        atomic_store_explicit(&me->got, i, memory_order_release);
        tb_bell_ring(&other->bell);
    }
    return NULL;
}

/* A lost wake-up shows as a sleep that runs out. */
static void test_no_wake_is_lost(void)
{
    pthread_t thread;

    open_sleeper(&pair[0]);
    open_sleeper(&pair[1]);
    CHECK(!pthread_create(&thread, NULL, play, &pair[1]));
    play(&pair[0]);
    pthread_join(thread, NULL);
    close_sleeper(&pair[0]);
    close_sleeper(&pair[1]);
}

int main(void)
{
    test_one_byte();
    test_full();
    test_no_wake_is_lost();
    return 0;
}
