/* ranks: 1 2 3 4 5 8 */
/* SPDX-License-Identifier: MIT */
/*
 * Collectives with equal blocks, and the reductions: all forms, many sizes,
 * all roots, in place and not.
 */
#include "coll_forms.h"

static const int counts[] = {0, 1, 2, 7, 28, 29, 300, 1024, 5000, 40000};
#define COUNTS ((int)(sizeof counts / sizeof *counts))

static int is_mine(int root)
{
    return me == root;
}

static void barrier(void)
{
    if (form == BLOCKING) {
        MPI_Barrier(comm);
    } else if (form == NONBLOCKING) {
        CHECK(!MPI_Ibarrier(comm, &run_req) && !complete(&run_req));
    } else {
        CHECK(!MPI_Barrier_init(comm, MPI_INFO_NULL, &run_req));
        CHECK(!complete(&run_req));
    }
}

static void bcast(int count, int root)
{
    int *buf = ints(count);
    for (int i = 0; i < count && is_mine(root); i++)
        buf[i] = value(root, 0, i);
    RUN(Bcast, bcast, buf, count, MPI_INT, root);
    for (int i = 0; i < count; i++)
        CHECK(buf[i] == value(root, 0, i));
    CHECK(buf[count] == -77);
    free(buf);
}

static void gather(int count, int root, int in_place)
{
    int *in = ints(count), *out = ints(count * n);
    for (int i = 0; i < count; i++)
        in[i] = value(me, 0, i);
    if (in_place && is_mine(root))
        memcpy(out + me * count, in, count * sizeof *in);
    RUN(Gather, gather, in_place && is_mine(root) ? MPI_IN_PLACE : in, count,
        MPI_INT, is_mine(root) ? out : NULL, count, MPI_INT, root);
    for (int r = 0; r < n && is_mine(root); r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r, 0, i));
    free(in);
    free(out);
}

static void scatter(int count, int root, int in_place)
{
    int *in = ints(count * n), *out = ints(count);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            in[r * count + i] = value(root, r, i);
    RUN(Scatter, scatter, is_mine(root) ? in : NULL, count, MPI_INT,
        in_place && is_mine(root) ? MPI_IN_PLACE : out, count, MPI_INT, root);
    for (int i = 0; i < count && !(in_place && is_mine(root)); i++)
        CHECK(out[i] == value(root, me, i));
    free(in);
    free(out);
}

static void allgather(int count, int in_place)
{
    int *in = ints(count), *out = ints(count * n);
    for (int i = 0; i < count; i++)
        in[i] = value(me, 0, i);
    if (in_place)
        memcpy(out + me * count, in, count * sizeof *in);
    RUN(Allgather, allgather, in_place ? MPI_IN_PLACE : in, count, MPI_INT, out,
        count, MPI_INT);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r, 0, i));
    CHECK(out[n * count] == -77);
    free(in);
    free(out);
}

static void alltoall(int count, int in_place)
{
    int *in = ints(count * n), *out = ints(count * n);
    int *from = in_place ? out : in;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            from[r * count + i] = value(me, r, i);
    RUN(Alltoall, alltoall, in_place ? MPI_IN_PLACE : in, count, MPI_INT, out,
        count, MPI_INT);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r, me, i));
    CHECK(out[n * count] == -77);
    free(in);
    free(out);
}

/* ------------------------------------------------------------- reductions */

static int sum_of(int first, int last, int to, int i)
{
    int sum = 0;
    for (int r = first; r <= last; r++)
        sum += value(r, to, i);
    return sum;
}

static void reductions(int count, int root, int in_place)
{
    int *in = ints(count), *out = ints(count);
    int *from = in_place ? out : in;
    const void *arg = in_place ? MPI_IN_PLACE : in;
#define FILL()                      \
    for (int i = 0; i < count; i++) \
    in[i] = value(me, 0, i), out[i] = in_place ? in[i] : -77
    (void)from;
    FILL();
    RUN(Allreduce, allreduce, arg, out, count, MPI_INT, MPI_SUM);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == sum_of(0, n - 1, 0, i));
    FILL();
    RUN(Reduce, reduce, is_mine(root) ? arg : in, out, count, MPI_INT, MPI_SUM,
        root);
    for (int i = 0; i < count && is_mine(root); i++)
        CHECK(out[i] == sum_of(0, n - 1, 0, i));
    FILL();
    RUN(Scan, scan, arg, out, count, MPI_INT, MPI_SUM);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == sum_of(0, me, 0, i));
    FILL();
    RUN(Exscan, exscan, arg, out, count, MPI_INT, MPI_SUM);
    for (int i = 0; i < count && me > 0; i++)
        CHECK(out[i] == sum_of(0, me - 1, 0, i));
    CHECK(out[count] == -77);
    free(in);
    free(out);
}

static void scattered(int count, int in_place)
{
    int *in = ints(count * n), *out = ints(count * n), *lengths = ints(n);
    int *from = in_place ? out : in, at = 0, all = 0;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            from[r * count + i] = value(me, r, i);
    RUN(Reduce_scatter_block, reduce_scatter_block,
        in_place ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == sum_of(0, n - 1, me, i));
    for (int r = 0; r < n; r++) {
        lengths[r] = r % 3 ? count / (r % 3) : 0;
        at += r < me ? lengths[r] : 0;
        all += lengths[r];
    }
    for (int i = 0; i < all; i++)
        from[i] = value(me, 0, i);
    RUN(Reduce_scatter, reduce_scatter, in_place ? MPI_IN_PLACE : in, out,
        lengths, MPI_INT, MPI_SUM);
    for (int i = 0; i < lengths[me]; i++)
        CHECK(out[i] == sum_of(0, n - 1, 0, at + i));
    free(in);
    free(out);
    free(lengths);
}

static void all_of_them(void)
{
    barrier();
    for (int c = 0; c < COUNTS; c++)
        for (int in_place = 0; in_place < 2; in_place++) {
            int count = counts[c];
            once = in_place;
            for (int root = 0; root<n; root += count> 2000 ? 3 : 1) {
                if (!in_place)
                    bcast(count, root);
                gather(count, root, in_place);
                scatter(count, root, in_place);
                reductions(count, root, in_place);
            }
            allgather(count, in_place);
            alltoall(count, in_place);
            scattered(count, in_place);
        }
    once = 0;
}

int main(void)
{
    smoke_init(MPI_THREAD_SINGLE);
    on_all_comms(all_of_them);
    MPI_Finalize();
    return 0;
}
