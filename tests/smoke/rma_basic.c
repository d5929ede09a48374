/* ranks: 1 2 4 */
/* SPDX-License-Identifier: MIT */
/* Every operation on every kind of window, short and long, with and without
 * gaps: between fences. */
#include "smoke.h"

enum { N = 60000 };

static int right, left;
static int out[N], in[N], old[N];

static void fill(int *p, int n, int salt)
{
    for (int i = 0; i < n; i++)
        p[i] = salt * 100003 + i;
}

static int is_filled(const int *p, int n, int salt)
{
    for (int i = 0; i < n; i++)
        if (p[i] != salt * 100003 + i)
            return 0;
    return 1;
}

static void put_and_get(MPI_Win win, int *base, MPI_Aint disp, int n)
{
    memset(base, 0, sizeof(int) * N);
    fill(out, n, rank + 1);
    MPI_Win_fence(0, win);
    MPI_Put(out, n, MPI_INT, right, disp, n, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(is_filled(base, n, left + 1));
    memset(in, 0, sizeof in);
    MPI_Win_fence(0, win);
    MPI_Get(in, n, MPI_INT, right, disp, n, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win);
    CHECK(is_filled(in, n, rank + 1));
}

/* Columns here, every other row there. */
static void with_gaps(MPI_Win win, int *base, MPI_Aint disp)
{
    MPI_Datatype column, rows;
    MPI_Type_vector(100, 1, 100, MPI_INT, &column);
    MPI_Type_vector(10, 10, 20, MPI_INT, &rows);
    MPI_Type_commit(&column);
    MPI_Type_commit(&rows);
    memset(base, 0, sizeof(int) * N);
    fill(out, 10000, rank);
    MPI_Win_fence(0, win);
    MPI_Put(out + 5, 1, column, right, disp, 1, rows, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 100; i++)
        CHECK(base[i / 10 * 20 + i % 10] == left * 100003 + 5 + i * 100);
    CHECK(base[10] == 0);
    memset(in, 0, sizeof in);
    MPI_Win_fence(0, win);
    MPI_Get(in + 7, 1, column, right, disp, 1, rows, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 100; i++)
        CHECK(in[7 + i * 100] == rank * 100003 + 5 + i * 100);
    MPI_Win_fence(0, win);
    MPI_Accumulate(out + 5, 1, column, right, disp, 1, rows, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 100; i++)
        CHECK(base[i / 10 * 20 + i % 10] == 2 * (left * 100003 + 5 + i * 100));
    MPI_Type_free(&column);
    MPI_Type_free(&rows);
}

static void accumulates(MPI_Win win, int *base, MPI_Aint disp, int n)
{
    for (int i = 0; i < n; i++) {
        out[i] = i + 1;
        base[i] = rank == 0 ? 5 : -1;
    }
    MPI_Win_fence(0, win);
    MPI_Accumulate(out, n, MPI_INT, 0, disp, n, MPI_INT, MPI_SUM, win);
    MPI_Accumulate(out, n, MPI_INT, 0, disp, n, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; rank == 0 && i < n; i++)
        CHECK(base[i] == 5 + 2 * size * (i + 1));
    MPI_Win_fence(0, win);
    if (rank == size - 1)
        MPI_Get_accumulate(out, n, MPI_INT, old, n, MPI_INT, 0, disp, n,
                           MPI_INT, MPI_REPLACE, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < n; i++) {
        CHECK(rank || base[i] == i + 1);
        CHECK(rank != size - 1 || old[i] == 5 + 2 * size * (i + 1));
    }
    memset(old, 0, sizeof old);
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, old, n, MPI_INT, 0, disp, n,
                       MPI_INT, MPI_NO_OP, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < n; i++)
        CHECK(old[i] == i + 1);
}

/* A pair has a gap in memory. */
static void pairs(MPI_Win win, MPI_Aint disp, void *base)
{
    struct {
        double value;
        int index;
    } mine = {rank == size / 2 ? 1e9 : rank, rank}, best = {0, 0},
      *there = base;
    there->value = -1;
    there->index = -1;
    MPI_Win_fence(0, win);
    MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, disp, 1, MPI_DOUBLE_INT,
                   MPI_MAXLOC, win);
    MPI_Win_fence(0, win);
    MPI_Fetch_and_op(NULL, &best, MPI_DOUBLE_INT, 0, disp, MPI_NO_OP, win);
    MPI_Win_fence(0, win);
    CHECK(best.value == 1e9 && best.index == size / 2);
}

static void single_elements(MPI_Win win, int *base, MPI_Aint disp)
{
    int one = 1, before = -1, nothing = -1;
    base[0] = 0;
    base[1] = -1;
    MPI_Win_fence(0, win);
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, disp, MPI_SUM, win);
    MPI_Win_fence(0, win);
    CHECK(before >= 0 && before < size);
    CHECK(rank || base[0] == size);
    MPI_Win_fence(0, win);
    MPI_Compare_and_swap(&rank, &nothing, &before, MPI_INT, right, disp, win);
    MPI_Win_fence(0, win);
    CHECK(before == (right ? 0 : size));
    CHECK(base[0] == (rank ? 0 : size));
    MPI_Win_fence(0, win);
    MPI_Compare_and_swap(&one, &before, &nothing, MPI_INT, right, disp, win);
    MPI_Win_fence(0, win);
    CHECK(nothing == before && base[0] == 1);
}

static void everything(MPI_Win win, int *base, const MPI_Aint *disps)
{
    static const int lengths[] = {1, 7, 1024, 1025, N};
    MPI_Aint disp = disps ? disps[right] : 0, first = disps ? disps[0] : 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        put_and_get(win, base, disp, lengths[i]);
        accumulates(win, base, first, lengths[i]);
    }
    with_gaps(win, base, disp);
    pairs(win, first, base);
    MPI_Win_fence(0, win);
    base[0] = 0;
    /* Not with a displacement of its own for each target. */
    if (!disps)
        single_elements(win, base, 0);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

static void attributes(MPI_Win win, int flavor, void *base, MPI_Aint bytes)
{
    void *value;
    int flag;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag);
    CHECK(flag && value == base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag);
    CHECK(flag && *(MPI_Aint *)value == bytes);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag);
    CHECK(flag && *(int *)value == flavor);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag);
    CHECK(flag && *(int *)value == MPI_WIN_UNIFIED);
}

static void dynamic(int *base)
{
    MPI_Aint mine, all[16];
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    attributes(win, MPI_WIN_FLAVOR_DYNAMIC, MPI_BOTTOM, 0);
    /* In two pieces that follow each other. */
    MPI_Win_attach(win, base, 4000);
    MPI_Win_attach(win, base + 1000, sizeof(int) * N - 4000);
    MPI_Get_address(base, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    everything(win, base, all);
    MPI_Win_detach(win, base);
    MPI_Win_detach(win, base + 1000);
    MPI_Win_free(&win);
}

static void shared(void)
{
    MPI_Comm here;
    MPI_Aint bytes;
    MPI_Win win;
    int *base, *other, unit, n, me;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &here);
    MPI_Comm_size(here, &n);
    MPI_Comm_rank(here, &me);
    MPI_Win_allocate_shared((me + 1) * (MPI_Aint)sizeof(int), sizeof(int),
                            MPI_INFO_NULL, here, &base, &win);
    attributes(win, MPI_WIN_FLAVOR_SHARED, base,
               (me + 1) * (MPI_Aint)sizeof(int));
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (int i = 0; i <= me; i++)
        base[i] = me * 100 + i;
    MPI_Win_sync(win);
    MPI_Barrier(here);
    MPI_Win_sync(win);
    for (int r = 0; r < n; r++) {
        MPI_Win_shared_query(win, r, &bytes, &unit, &other);
        CHECK(bytes == (r + 1) * (MPI_Aint)sizeof(int) && unit == sizeof(int));
        for (int i = 0; i <= r; i++)
            CHECK(other[i] == r * 100 + i);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &other);
    CHECK(base == other + me * (me + 1) / 2); /* one behind the other */
    MPI_Win_free(&win);
    MPI_Comm_free(&here);
}

int main(void)
{
    static int memory[N];
    int *base;
    MPI_Win win;
    smoke_init(MPI_THREAD_SINGLE);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    attributes(win, MPI_WIN_FLAVOR_CREATE, memory, sizeof memory);
    everything(win, memory, NULL);
    MPI_Win_free(&win);
    MPI_Win_allocate(sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &base, &win);
    attributes(win, MPI_WIN_FLAVOR_ALLOCATE, base, sizeof memory);
    everything(win, base, NULL);
    MPI_Win_free(&win);
    dynamic(memory);
    shared();
    MPI_Finalize();
    return 0;
}
