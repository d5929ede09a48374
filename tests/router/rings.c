/* SPDX-License-Identifier: MIT */
/*
 * The two rings of a lane with a thread at each end, which hand a bounded
 * number of slots back and forth in every order: no word is lost, none is read
 * twice, and what lies behind a slot is seen with it.
 */
#include "net/relay.h"

#include <pthread.h>

#include "unit/check.h"

#define SLOTS 3000 /* less than TB_RELAY_LENT */
#define ROUNDS 400000

static struct tb_relay_lane *lane;
static uint32_t payload[SLOTS]; /* not atomic: the rings order it */

static void *rank(void *arg)
{
    struct tb_ring_end in = {.words = lane->down}, out = {.words = lane->up};
    uint32_t have[SLOTS], n = 0, state = 7;
    long got = 0;

    (void)arg;
    while (got < ROUNDS) {
        uint64_t raw;
        if (n < SLOTS && tb_ring_look(&in, &raw)) {
            struct tb_relay_word w = tb_relay_unpack(raw);
            CHECK_EQ(w.kind, TB_RELAY_DELIVER);
            CHECK_EQ(w.bytes, got % 131009);
            CHECK_EQ(payload[w.slot], (uint32_t)got);
            payload[w.slot] = ~(uint32_t)got;
            have[n++] = w.slot;
            tb_ring_step(&in);
            got++;
        }
        state = state * 1664525 + 1013904223;
        while (n && (state >> 16) % 4 == 0) {
            uint32_t i = state % n;
            tb_ring_put(&out, tb_relay_pack(TB_RELAY_GIVE, have[i], 0, 0, 0));
            have[i] = have[--n];
            state = state * 1664525 + 1013904223;
        }
    }
    return NULL;
}

int main(void)
{
    struct tb_ring_end in, out;
    static uint32_t have[SLOTS];
    uint32_t n = SLOTS;
    pthread_t thread;
    long put = 0;

    lane = aligned_alloc(TB_PAGE, TB_POOL_LANE);
    memset(lane, 0, TB_POOL_LANE);
    in = (struct tb_ring_end){.words = lane->up};
    out = (struct tb_ring_end){.words = lane->down};
    for (uint32_t i = 0; i < SLOTS; i++)
        have[i] = i;
    CHECK(!pthread_create(&thread, NULL, rank, NULL));
    while (put < ROUNDS) {
        uint64_t raw;
        while (tb_ring_look(&in, &raw)) {
            struct tb_relay_word w = tb_relay_unpack(raw);
            CHECK_EQ(w.kind, TB_RELAY_GIVE);
            CHECK(n < SLOTS);
            have[n++] = w.slot;
            tb_ring_step(&in);
        }
        if (!n) {
            tb_yield();
            continue;
        }
        payload[have[--n]] = (uint32_t)put;
        tb_ring_put(&out, tb_relay_pack(TB_RELAY_DELIVER, have[n],
                                        (size_t)put % 131009, 3, TB_BULK));
        put++;
    }
    pthread_join(thread, NULL);
    free(lane);
    return 0;
}
