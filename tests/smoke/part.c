/* ranks: 1 2 3 */
/* SPDX-License-Identifier: MIT */
/* Partitioned messages: counts that differ, types with gaps, threads that make
 * partitions ready, and what is refused. */
#include <pthread.h>

#include "smoke.h"

enum { STARTS = 3, THREADS = 4 };

/* Where the ring of ranks goes on. */
static int next, before;

static void fill(double *out, int n, int start)
{
    for (int i = 0; i < n; i++)
        out[i] = rank * 1e6 + start * 1e5 + i;
}

static void check_from(int from, const double *in, int n, int start)
{
    for (int i = 0; i < n; i++)
        CHECK(in[i] == from * 1e6 + start * 1e5 + i);
}

/* `total` numbers in `parts` partitions to the right, in `into` from the left,
 * ready from last to first. */
static void exchange(int total, int parts, int into)
{
    double *out = calloc((size_t)total, sizeof *out);
    double *in = calloc((size_t)total, sizeof *in);
    MPI_Request r[2];
    MPI_Status status[2];
    int n;
    MPI_Psend_init(out, parts, total / parts, MPI_DOUBLE, next, 7,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]);
    MPI_Precv_init(in, into, total / into, MPI_DOUBLE, before, 7,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    for (int start = 0; start < STARTS; start++) {
        fill(out, total, start);
        memset(in, 0, (size_t)total * sizeof *in);
        MPI_Startall(2, r);
        for (int i = parts - 1; i >= 0; i--)
            MPI_Pready(i, r[0]);
        for (int i = 0; i < into; i++) {
            int here = 0;
            while (!here)
                MPI_Parrived(r[1], i, &here);
            CHECK(in[i * (total / into)] ==
                  before * 1e6 + start * 1e5 + i * (total / into));
        }
        MPI_Waitall(2, r, status);
        check_from(before, in, total, start);
        CHECK(status[1].MPI_SOURCE == before && status[1].MPI_TAG == 7);
        MPI_Get_count(&status[1], MPI_DOUBLE, &n);
        CHECK(n == total);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    free(out);
    free(in);
}

/* Three of four numbers are sent, and received into two of three: partitions
 * end within elements of the receiver's type. */
static void check_gaps(void)
{
    enum { N = 60 };
    double out[N / 3 * 4], in[N / 2 * 3], want[N];
    MPI_Datatype three, of_four, of_three;
    MPI_Request r[2];
    MPI_Type_contiguous(3, MPI_DOUBLE, &three);
    MPI_Type_create_resized(three, 0, 4 * sizeof(double), &of_four);
    MPI_Type_free(&three);
    MPI_Type_commit(&of_four);
    MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &of_three);
    MPI_Type_commit(&of_three);
    MPI_Psend_init(out, 20, 1, of_four, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &r[0]);
    MPI_Precv_init(in, 5, 6, of_three, before, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &r[1]);
    for (int start = 0; start < STARTS; start++) {
        fill(out, N / 3 * 4, start);
        MPI_Startall(2, r);
        MPI_Pready_range(0, 9, r[0]);
        MPI_Pready_list(10, (int[]){19, 18, 17, 16, 15, 14, 13, 12, 11, 10},
                        r[0]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++)
            want[i] = before * 1e6 + start * 1e5 + i / 3 * 4 + i % 3;
        for (int i = 0; i < N; i++)
            CHECK(in[i / 2 * 3 + i % 2 * 2] == want[i]);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    MPI_Type_free(&of_four);
    MPI_Type_free(&of_three);
}

struct share {
    MPI_Request request;
    int low, high;
};

static void *make_ready(void *arg)
{
    const struct share *s = arg;
    for (int i = s->low; i < s->high; i++)
        MPI_Pready(i, s->request);
    return NULL;
}

/* Threads make partitions ready while the main one waits. */
static void check_threads(void)
{
    enum { PARTS = 400, EACH = 256 };
    static double out[PARTS * EACH], in[PARTS * EACH];
    pthread_t threads[THREADS];
    struct share shares[THREADS];
    MPI_Request r[2];
    MPI_Psend_init(out, PARTS, EACH, MPI_DOUBLE, next, 1, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &r[0]);
    MPI_Precv_init(in, PARTS / 4, EACH * 4, MPI_DOUBLE, before, 1,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    for (int start = 0; start < STARTS; start++) {
        fill(out, PARTS * EACH, start);
        MPI_Startall(2, r);
        for (int i = 0; i < THREADS; i++) {
            shares[i] = (struct share){r[0], i * (PARTS / THREADS),
                                       (i + 1) * (PARTS / THREADS)};
            pthread_create(&threads[i], NULL, make_ready, &shares[i]);
        }
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        check_from(before, in, PARTS * EACH, start);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void check_refused(void)
{
    double number = 0;
    MPI_Request s, r;
    MPI_Status status;
    int here, code;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Psend_init(&number, 0, 1, MPI_DOUBLE, next, 2,
                                  MPI_COMM_WORLD, MPI_INFO_NULL, &s)) ==
          MPI_ERR_ARG);
    CHECK(class_of(MPI_Precv_init(&number, 1, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2,
                                  MPI_COMM_WORLD, MPI_INFO_NULL, &r)) ==
          MPI_ERR_RANK);
    MPI_Psend_init(&number, 2, 1, MPI_BYTE, next, 2, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &s);
    MPI_Precv_init(&number, 1, 1, MPI_BYTE, before, 2, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &r);
    CHECK(class_of(MPI_Pready(0, s)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(0, MPI_REQUEST_NULL)) == MPI_ERR_REQUEST);
    MPI_Start(&s);
    CHECK(class_of(MPI_Pready(2, s)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Parrived(s, 0, &here)) == MPI_ERR_REQUEST);
    MPI_Pready(1, s);
    CHECK(class_of(MPI_Pready(1, s)) == MPI_ERR_ARG);
    MPI_Start(&r);
    CHECK(class_of(MPI_Parrived(r, 1, &here)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Start(&r)) == MPI_ERR_REQUEST);
    MPI_Pready(0, s);
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    code = MPI_Wait(&r, &status); /* two bytes came, there is room for one */
    CHECK(class_of(code) == MPI_ERR_TRUNCATE);
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void check_nobody(void)
{
    MPI_Request r[2];
    int here = 0;
    MPI_Psend_init(NULL, 3, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &r[0]);
    MPI_Precv_init(NULL, 3, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &r[1]);
    MPI_Startall(2, r);
    MPI_Pready_range(0, 2, r[0]);
    MPI_Parrived(r[1], 2, &here);
    CHECK(here);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

int main(void)
{
    smoke_init(MPI_THREAD_MULTIPLE);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    exchange(1, 1, 1);
    exchange(64, 16, 32);
    exchange(64, 64, 1);
    exchange(60, 12, 5);
    exchange(1 << 19, 1 << 12, 1 << 4);
    exchange(1 << 19, 2, 1 << 9);
    check_gaps();
    check_threads();
    check_refused();
    check_nobody();
    MPI_Finalize();
    return 0;
}
