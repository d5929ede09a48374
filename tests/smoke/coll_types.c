/* ranks: 1 2 3 4 7 */
/* SPDX-License-Identifier: MIT */
/*
 * Collectives with different blocks, derived types, types that are freed while
 * in use, operations that do not commute, and the address MPI_BOTTOM.
 */
#include "coll_forms.h"

enum { MOST = 16 };

/* Block i of a rank: its length, with empty ones among them. */
static int length(int from, int to, int scale)
{
    return (from * to + from + to) % 4 * scale;
}

static void gatherv(int scale, int root)
{
    int lengths[MOST], displs[MOST], room = 0;
    for (int r = n - 1; r >= 0; r--) {
        lengths[r] = length(r, 0, scale);
        displs[r] = room;
        room += lengths[r] + 1;
    }
    int *in = ints(lengths[me]), *out = ints(room);
    for (int i = 0; i < lengths[me]; i++)
        in[i] = value(me, 0, i);
    RUN(Gatherv, gatherv, in, lengths[me], MPI_INT, out,
        me == root ? lengths : NULL, me == root ? displs : NULL, MPI_INT, root);
    for (int r = 0; r < n && me == root; r++) {
        for (int i = 0; i < lengths[r]; i++)
            CHECK(out[displs[r] + i] == value(r, 0, i));
        CHECK(out[displs[r] + lengths[r]] == -77);
    }
    memset(out, 0, (size_t)room * sizeof *out);
    RUN(Allgatherv, allgatherv, in, lengths[me], MPI_INT, out, lengths, displs,
        MPI_INT);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < lengths[r]; i++)
            CHECK(out[displs[r] + i] == value(r, 0, i));
    free(in);
    in = ints(lengths[me]);
    RUN(Scatterv, scatterv, out, me == root ? lengths : NULL,
        me == root ? displs : NULL, MPI_INT, in, lengths[me], MPI_INT, root);
    for (int i = 0; i < lengths[me]; i++)
        CHECK(in[i] == value(me, 0, i));
    free(in);
    free(out);
}

static void alltoallv(int scale, int in_place)
{
    int out_n[MOST], in_n[MOST], out_at[MOST], in_at[MOST], a = 0, b = 0;
    for (int r = 0; r < n; r++) {
        out_n[r] = in_n[r] = length(me, r, scale);
        out_at[r] = a;
        in_at[r] = b;
        a += out_n[r];
        b += in_n[r] + 2;
    }
    int *out = ints(a), *in = ints(b);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < out_n[r]; i++) {
            out[out_at[r] + i] = value(me, r, i);
            if (in_place)
                in[in_at[r] + i] = value(me, r, i);
        }
    RUN(Alltoallv, alltoallv, in_place ? MPI_IN_PLACE : out, out_n, out_at,
        MPI_INT, in, in_n, in_at, MPI_INT);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < in_n[r]; i++)
            CHECK(in[in_at[r] + i] == value(r, me, i));
    free(out);
    free(in);
}

/* Blocks to even ranks are ints, to odd ones pairs of ints with a hole. */
static void alltoallw(int scale)
{
    int counts[MOST], out_at[MOST], in_at[MOST], at = 0;
    MPI_Datatype pair, types[MOST], in_types[MOST];
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int r = 0; r < n; r++) {
        counts[r] = length(me, r, scale);
        in_at[r] = out_at[r] = at * (int)sizeof(int);
        at += 8 * counts[r] + 1;
        types[r] = r % 2 ? pair : MPI_INT;
        in_types[r] = me % 2 ? pair : MPI_INT;
    }
    int *out = ints(at), *in = ints(at);
    for (int i = 0; i < at; i++)
        out[i] = value(me, 0, i);
    RUN(Alltoallw, alltoallw, out, counts, out_at, types, in, counts, in_at,
        in_types);
    MPI_Type_free(&pair);
    for (int r = 0; r < n; r++) {
        int their_at = 0; /* where rank r put this rank's block */
        for (int k = 0; k < me; k++)
            their_at += 8 * length(r, k, scale) + 1;
        for (int i = 0; i < counts[r]; i++) {
            int step = me % 2 ? 3 : 1;
            CHECK(in[in_at[r] / (int)sizeof(int) + i * step] ==
                  value(r, 0, their_at + i * step));
        }
    }
    free(out);
    free(in);
}

/* A column of a matrix is sent, a row received; the type is freed at once. */
static void columns(int rows)
{
    int *matrix = ints(rows * 3), *row = ints(rows * n);
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < rows; i++)
        matrix[3 * i + 1] = value(me, 1, i);
    RUN(Allgather, allgather, matrix + 1, 1, column, row, rows, MPI_INT);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < rows; i++)
            CHECK(row[r * rows + i] == value(r, 1, i));
    if (me == 0)
        RUN(Bcast, bcast, row, rows, MPI_INT, 0);
    else
        RUN(Bcast, bcast, matrix + 2, 1, column, 0);
    for (int i = 0; i < rows && me; i++)
        CHECK(matrix[3 * i + 2] == value(0, 1, i));
    MPI_Type_free(&column);
    free(matrix);
    free(row);
}

static void freed_while_in_use(void)
{
    static int out[3000], in[3000 * MOST];
    MPI_Datatype type;
    MPI_Request r;
    for (int i = 0; i < 3000; i++)
        out[i] = value(me, 0, i);
    MPI_Type_vector(1000, 1, 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Iallgather(out, 1, type, in, 1000, MPI_INT, comm, &r);
    MPI_Type_free(&type);
    MPI_Type_vector(7, 3, 5, MPI_CHAR, &type); /* takes the freed memory */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 1000; i++)
            CHECK(in[k * 1000 + i] == value(k, 0, 3 * i));
}

/* ---------------------------------------------- operations that don't commute
 */

struct map {
    long a, b;
}; /* x -> a x + b, modulo a prime */

#define PRIME 1000003

static struct map after(struct map f, struct map g)
{
    return (struct map){f.a * g.a % PRIME, (f.a * g.b + f.b) % PRIME};
}

static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    struct map *f = in, *g = inout;
    (void)type;
    for (int i = 0; i < *len; i++)
        g[i] = after(f[i], g[i]);
}

static struct map map_of(int r, int i)
{
    return (struct map){(r * 17 + i + 2) % PRIME, (r * 29 + 3 * i) % PRIME};
}

static void check_maps(const struct map *f, int first, int last, int count,
                       int from)
{
    for (int i = 0; i < count; i++) {
        struct map want = map_of(first, from + i);
        for (int r = first + 1; r <= last; r++)
            want = after(want, map_of(r, from + i));
        CHECK(f[i].a == want.a && f[i].b == want.b);
    }
}

static void ordered(int count)
{
    MPI_Op op;
    MPI_Datatype type;
    size_t room = sizeof(struct map) * (size_t)(count * n + 1);
    struct map *in = malloc(room), *out = malloc(room);
    MPI_Type_contiguous(2, MPI_LONG, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(compose, 0, &op);
    for (int i = 0; i < count * n; i++)
        in[i] = map_of(me, i);
    RUN(Allreduce, allreduce, in, out, count, type, op);
    check_maps(out, 0, n - 1, count, 0);
    for (int root = 0; root < n; root++) {
        RUN(Reduce, reduce, in, out, count, type, op, root);
        if (me == root)
            check_maps(out, 0, n - 1, count, 0);
    }
    RUN(Scan, scan, in, out, count, type, op);
    check_maps(out, 0, me, count, 0);
    RUN(Exscan, exscan, in, out, count, type, op);
    if (me)
        check_maps(out, 0, me - 1, count, 0);
    RUN(Reduce_scatter_block, reduce_scatter_block, in, out, count, type, op);
    check_maps(out, 0, n - 1, count, me * count);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    free(in);
    free(out);
}

/* Doubles with indices: a predefined type with holes. */
static void maxloc(int count)
{
    struct {
        double v;
        int at;
    } *in = calloc((size_t)count + 1, sizeof *in),
      *out = calloc((size_t)count + 1, sizeof *out);
    for (int i = 0; i < count; i++) {
        in[i].v = (me * 7 + i) % n;
        in[i].at = me;
    }
    RUN(Allreduce, allreduce, in, out, count, MPI_DOUBLE_INT, MPI_MAXLOC);
    for (int i = 0; i < count; i++) {
        int best = 0;
        for (int r = 1; r < n; r++)
            if ((r * 7 + i) % n > (best * 7 + i) % n)
                best = r;
        CHECK(out[i].at == best && out[i].v == (best * 7 + i) % n);
    }
    free(in);
    free(out);
}

static void from_the_bottom(void)
{
    static int data[4];
    MPI_Aint where;
    MPI_Datatype type;
    int one = 4;
    for (int i = 0; i < 4; i++)
        data[i] = me ? -1 : value(0, 9, i);
    MPI_Get_address(data, &where);
    MPI_Type_create_hindexed(1, &one, &where, MPI_INT, &type);
    MPI_Type_commit(&type);
    RUN(Bcast, bcast, MPI_BOTTOM, 1, type, 0);
    for (int i = 0; i < 4; i++)
        CHECK(data[i] == value(0, 9, i));
    MPI_Type_free(&type);
}

static void all_of_them(void)
{
    static const int scales[] = {0, 1, 5, 700, 20000};
    for (int s = 0; s < 5; s++) {
        for (int root = 0; root < n; root++)
            gatherv(scales[s], root);
        alltoallv(scales[s], 0);
        once = 1;
        alltoallv(scales[s], 1);
        once = 0;
        alltoallw(scales[s]);
        columns(scales[s] + 1);
        ordered(scales[s]);
        maxloc(scales[s]);
    }
    freed_while_in_use();
    from_the_bottom();
}

int main(void)
{
    smoke_init(MPI_THREAD_SINGLE);
    on_all_comms(all_of_them);
    MPI_Finalize();
    return 0;
}
