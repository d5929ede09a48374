/* SPDX-License-Identifier: MIT */
/*
 * Lanes of the commons: members are threads here, so that the thread sanitizer
 * sees what processes do. In each turn some post a block, all or some look at
 * it, twice, and it must be whole both times; sizes are such that slots and
 * ring are used again all the time.
 */
#include <pthread.h>
#include <string.h>

#include "coll/commons.h"
#include "unit/check.h"

enum { MEMBERS = 4, TURNS = 6000, BYTES = 7000 };

static int n;
static _Alignas(TB_LINE) char memory[MEMBERS][BYTES / TB_LINE * TB_LINE];

static unsigned mix(uint64_t turn, unsigned salt)
{
    unsigned x = (unsigned)turn * 2654435761u + salt * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

/* Equal for all members: who posts, who looks, and how much. */
static bool posts(uint64_t turn, int i)
{
    return mix(turn, 1) % 3 ? mix(turn, 2) % (unsigned)n == (unsigned)i : true;
}

static bool looks(uint64_t turn, int i)
{
    return mix(turn, 3) % 4 || mix(turn, 4) % (unsigned)n == (unsigned)i;
}

static size_t length(const struct tb_lane *l, uint64_t turn)
{
    static const unsigned most[] = {8, TB_SLOT_BYTES + 1, 300, 0};
    unsigned limit = most[mix(turn, 5) % 4];
    return mix(turn, 6) % (limit ? limit : (unsigned)l->room + 1);
}

static unsigned char byte_of(uint64_t turn, int i, size_t at)
{
    return (unsigned char)(turn * 31 + (unsigned)i * 7 + at);
}

static void post(struct tb_lane *l, uint64_t turn)
{
    size_t bytes = length(l, turn);
    unsigned char *block;
    while (!(block = tb_lane_block(l, turn, bytes)))
        tb_yield();
    for (size_t i = 0; i < bytes; i++)
        block[i] = byte_of(turn, l->rank, i);
    tb_lane_post(l, turn, turn * 5 + (unsigned)l->rank, bytes);
}

static void look(struct tb_lane *l, uint64_t turn, int from)
{
    size_t bytes = length(l, turn);
    const unsigned char *block;
    uint64_t what;
    while (!(block = tb_lane_look(l, from, turn, bytes, &what)))
        tb_yield();
    for (int k = 0; k < 2; k++) {
        CHECK_EQ(what, turn * 5 + (unsigned)from);
        for (size_t i = 0; i < bytes; i++)
            CHECK_EQ(block[i], byte_of(turn, from, i));
        if (mix(turn, 7) % 16 == 0)
            tb_yield();
    }
}

static void *member(void *arg)
{
    int rank = *(int *)arg;
    struct tb_lane *l = tb_alloc(sizeof *l + MEMBERS * sizeof l->peers[0]);
    tb_lane_init(l, n, rank, sizeof memory[0], TB_LANE_SLOTS);
    for (int i = 0; i < n; i++)
        l->peers[i].memory = (void *)memory[i];
    for (int k = 0; k < TURNS; k++) {
        uint64_t turn = l->next++;
        if (posts(turn, rank))
            post(l, turn);
        for (int i = 0; i < n && looks(turn, rank); i++)
            if (i != rank && posts(turn, i))
                look(l, turn, i);
        tb_lane_finish(l, turn);
        tb_lane_tell(l);
    }
    while (!tb_lane_all_finished(l, l->next - 1))
        tb_yield();
    tb_free(l);
    return NULL;
}

int main(void)
{
    for (n = 2; n <= MEMBERS; n++) {
        pthread_t threads[MEMBERS];
        int ranks[MEMBERS];
        memset(memory, 0, sizeof memory);
        for (int i = 0; i < n; i++) {
            ranks[i] = i;
            CHECK_EQ(pthread_create(&threads[i], NULL, member, &ranks[i]), 0);
        }
        for (int i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
