/* ranks: 1 2 3 4 */
/* SPDX-License-Identifier: MIT */
/* Groups, locks and requests: nobody sees half of what another does. */
#include "smoke.h"

/* The part of the window that all use; more follow, one for each rank. */
enum { ROUNDS = 60, N = 3000 };

static int *base;
static MPI_Win win;

static void by_groups(void)
{
    MPI_Group all, others;
    int flag = 0, *mine = malloc(N * sizeof *mine);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < N; k++)
            mine[k] = i * 1000 + rank;
        MPI_Group_incl(all, 1, &left, &others);
        MPI_Win_post(others, 0, win);
        MPI_Group_free(&others);
        MPI_Group_incl(all, 1, &right, &others);
        MPI_Win_start(others, 0, win);
        MPI_Group_free(&others);
        MPI_Put(mine, N, MPI_INT, right, 0, N, MPI_INT, win);
        MPI_Win_complete(win);
        if (i % 2)
            MPI_Win_wait(win);
        for (flag = i % 2; !flag;)
            MPI_Win_test(win, &flag);
        for (int k = 0; k < N; k++)
            CHECK(base[k] == i * 1000 + left);
    }
    MPI_Group_free(&all);
    free(mine);
}

/* Without the lock some of the increments would be lost. */
static void by_exclusive_locks(void)
{
    int value;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    base[0] = base[N - 1] = 0;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++)
        for (int target = 0; target < size; target++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            MPI_Get(&value, 1, MPI_INT, target, N - 1, 1, MPI_INT, win);
            MPI_Win_flush(target, win);
            value++;
            MPI_Put(&value, 1, MPI_INT, target, N - 1, 1, MPI_INT, win);
            MPI_Win_unlock(target, win);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(base[N - 1] == ROUNDS * size);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Two locks at a time, taken by all in the same order. */
static void by_several_locks(void)
{
    int one = 1, next = (rank + 1) % size;
    int low = rank < next ? rank : next, high = rank + next - low;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, low, 0, win);
        if (high != low)
            MPI_Win_lock(MPI_LOCK_SHARED, high, 0, win);
        MPI_Accumulate(&one, 1, MPI_INT, low, 1, 1, MPI_INT, MPI_SUM, win);
        if (high != low)
            MPI_Win_unlock(high, win);
        MPI_Win_unlock(low, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void by_atomics(void)
{
    long long one = 1, before, sum = 0;
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        memset(base, 0, 16);
        MPI_Win_sync(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS * 10; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        sum += before;
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG_LONG, MPI_SUM,
                  MPI_COMM_WORLD);
    long long n = (long long)ROUNDS * 10 * size;
    CHECK(sum == n * (n - 1) / 2); /* each number was given once */
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Of one origin's accumulates the last one wins. */
static void in_order(void)
{
    int *long_one = malloc(N * sizeof *long_one), value = 0;
    MPI_Win_lock_all(0, win);
    if (rank == size - 1)
        for (int i = 0; i < ROUNDS; i++) {
            for (int k = 0; k < N; k++)
                long_one[k] = -1;
            MPI_Accumulate(long_one, N, MPI_INT, 0, 0, N, MPI_INT, MPI_REPLACE,
                           win);
            MPI_Accumulate(&i, 1, MPI_INT, 0, N / 2, 1, MPI_INT, MPI_REPLACE,
                           win);
            MPI_Fetch_and_op(NULL, &value, MPI_INT, 0, N / 2, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
            CHECK(value == i);
        }
    MPI_Win_unlock_all(win);
    free(long_one);
}

/* Each rank in a part of its own. */
static void by_requests(void)
{
    int mine[4] = {rank, rank + 1, rank + 2, rank + 3}, back[4];
    int *many = calloc(N, sizeof *many), at = (rank + 1) * N;
    MPI_Request r[3];
    MPI_Win_lock_all(0, win);
    for (int target = 0; target < size; target++) {
        MPI_Rput(mine, 4, MPI_INT, target, at, 4, MPI_INT, win, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        MPI_Win_flush(target, win);
        MPI_Rget(back, 4, MPI_INT, target, at, 4, MPI_INT, win, &r[0]);
        MPI_Rget(many, N, MPI_INT, target, at, N, MPI_INT, win, &r[1]);
        MPI_Raccumulate(mine, 4, MPI_INT, target, at, 4, MPI_INT, MPI_MAX, win,
                        &r[2]);
        MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
        CHECK(!memcmp(mine, back, sizeof back));
        CHECK(!memcmp(mine, many, sizeof mine));
        MPI_Rget_accumulate(mine, 4, MPI_INT, back, 4, MPI_INT, target, at, 4,
                            MPI_INT, MPI_REPLACE, win, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        CHECK(!memcmp(mine, back, sizeof back));
        /* Given back before it is done; the flush waits for it. */
        many[N - 1] = 17;
        MPI_Rput(many, N, MPI_INT, target, at, N, MPI_INT, win, &r[0]);
        MPI_Request_free(&r[0]);
        MPI_Win_flush_local(target, win);
        many[N - 1] = 0;
        MPI_Win_flush(target, win);
        MPI_Rget(back, 1, MPI_INT, target, at + N - 1, 1, MPI_INT, win, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        CHECK(back[0] == 17);
    }
    MPI_Win_unlock_all(win);
    free(many);
}

static void all_ways(void)
{
    by_groups();
    by_exclusive_locks();
    by_several_locks();
    by_atomics();
    in_order();
    by_requests();
    MPI_Win_free(&win);
}

int main(void)
{
    static int memory[5 * N];
    smoke_init(MPI_THREAD_SINGLE);
    base = memory;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    all_ways();
    MPI_Win_allocate(sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &base, &win);
    all_ways();
    MPI_Finalize();
    return 0;
}
