/* ranks: 2 3 4 5 */
/* SPDX-License-Identifier: MIT */
/* Collectives on intercommunicators: the even ranks and the odd ones. */
#include "coll_forms.h"

static int others, first; /* the other group; its k-th is WORLD's first + 2k */
static int is_even;

/* The root is the first of the odd ones; what its group's ranks say. */
static int root_argument(void)
{
    if (is_even)
        return 0;
    return me == 0 ? MPI_ROOT : MPI_PROC_NULL;
}

static int world(int k)
{
    return first + 2 * k;
}

static void rooted(int count)
{
    int root = root_argument();
    int *buf = ints(count * 8), *one = ints(count);
    for (int i = 0; i < count * 8; i++)
        buf[i] = value(rank, 0, i);
    RUN(Bcast, bcast, buf, count, MPI_INT, root);
    for (int i = 0; i < count && is_even; i++)
        CHECK(buf[i] == value(1, 0, i));
    for (int i = 0; i < count; i++)
        one[i] = value(rank, 5, i);
    RUN(Gather, gather, one, count, MPI_INT, buf, count, MPI_INT, root);
    for (int k = 0; k < others && root == MPI_ROOT; k++)
        for (int i = 0; i < count; i++)
            CHECK(buf[k * count + i] == value(world(k), 5, i));
    for (int i = 0; i < count * others; i++)
        buf[i] = value(rank, i / (count ? count : 1), i);
    RUN(Scatter, scatter, buf, count, MPI_INT, one, count, MPI_INT, root);
    for (int i = 0; i < count && is_even; i++)
        CHECK(one[i] == value(1, me, me * count + i));
    for (int i = 0; i < count; i++)
        one[i] = value(rank, 0, i);
    RUN(Reduce, reduce, one, buf, count, MPI_INT, MPI_SUM, root);
    for (int i = 0; i < count && root == MPI_ROOT; i++) {
        int sum = 0;
        for (int k = 0; k < others; k++)
            sum += value(world(k), 0, i);
        CHECK(buf[i] == sum);
    }
    free(buf);
    free(one);
}

static void symmetric(int count)
{
    int *in = ints(count * 16), *out = ints(count * 16);
    for (int i = 0; i < count * 16; i++)
        in[i] = value(rank, 0, i);
    RUN(Allgather, allgather, in, count, MPI_INT, out, count, MPI_INT);
    for (int k = 0; k < others; k++)
        for (int i = 0; i < count; i++)
            CHECK(out[k * count + i] == value(world(k), 0, i));
    RUN(Alltoall, alltoall, in, count, MPI_INT, out, count, MPI_INT);
    for (int k = 0; k < others; k++)
        for (int i = 0; i < count; i++)
            CHECK(out[k * count + i] == value(world(k), 0, me * count + i));
    RUN(Allreduce, allreduce, in, out, count, MPI_INT, MPI_SUM);
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int k = 0; k < others; k++)
            sum += value(world(k), 0, i);
        CHECK(out[i] == sum);
    }
    /* Both totals must agree: so many for each as the other group has ranks. */
    RUN(Reduce_scatter_block, reduce_scatter_block, in, out, count * others,
        MPI_INT, MPI_SUM);
    for (int i = 0; i < count * others; i++) {
        int sum = 0;
        for (int k = 0; k < others; k++)
            sum += value(world(k), 0, me * count * others + i);
        CHECK(out[i] == sum);
    }
    free(in);
    free(out);
}

static void barrier(void)
{
    if (form == BLOCKING)
        CHECK(!MPI_Barrier(comm));
    if (form == NONBLOCKING)
        CHECK(!MPI_Ibarrier(comm, &run_req) && !complete(&run_req));
}

int main(void)
{
    MPI_Comm half, inter;
    smoke_init(MPI_THREAD_SINGLE);
    is_even = rank % 2 == 0;
    first = is_even ? 1 : 0;
    MPI_Comm_split(MPI_COMM_WORLD, is_even, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, first, 3, &inter);
    MPI_Comm_remote_size(inter, &others);
    for (form = 0; form < FORMS; form++) {
        static const int counts[] = {0, 1, 3, 500, 20000};
        use(inter);
        for (int c = 0; c < 5; c++) {
            barrier();
            rooted(counts[c]);
            symmetric(counts[c]);
        }
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
