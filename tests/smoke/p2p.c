/* ranks: 1 2 3 4 */
/* SPDX-License-Identifier: MIT */
/*
 * Point-to-point in all its forms, around a ring: each rank sends to the next
 * and receives from the one before (with one rank: itself).
 */
#include "smoke.h"

static int next, before;

/* A buffer whose bytes name the sender and the round. */
static void fill(char *buf, int n, int who, int round)
{
    for (int i = 0; i < n; i++)
        buf[i] = (char)(i * 31 + who * 7 + round);
}

static void check_filled(const char *buf, int n, int who, int round)
{
    for (int i = 0; i < n; i++)
        CHECK(buf[i] == (char)(i * 31 + who * 7 + round));
}

static const int sizes[] = {0,     1,     7,      24,      25,     100,
                            1000,  8191,  8192,   8193,    20000,  65535,
                            65536, 65537, 262144, 1000003, 5000000};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

typedef int isend_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                     MPI_Request *);

static void all_modes(void)
{
    static isend_fn *const modes[] = {MPI_Isend, MPI_Issend, MPI_Irsend};
    char *out = malloc(sizes[SIZES - 1]), *in = malloc(sizes[SIZES - 1]);
    for (int m = 0; m < 3; m++)
        for (int i = 0; i < SIZES; i++) {
            MPI_Request r[2];
            MPI_Status s[2];
            int n = sizes[i], count;
            fill(out, n, rank, i);
            MPI_Irecv(in, n, MPI_CHAR, before, i, MPI_COMM_WORLD, &r[0]);
            MPI_Barrier(MPI_COMM_WORLD); /* ready mode wants it posted */
            modes[m](out, n, MPI_CHAR, next, i, MPI_COMM_WORLD, &r[1]);
            MPI_Waitall(2, r, s);
            CHECK(s[0].MPI_SOURCE == before && s[0].MPI_TAG == i);
            MPI_Get_count(&s[0], MPI_CHAR, &count);
            CHECK(count == n);
            check_filled(in, n, before, i);
        }
    free(out);
    free(in);
}

/* Messages that arrive before their receives, in two tags, taken in reverse. */
static void unexpected(void)
{
    enum { N = 200 };
    static int out[N], in;
    static MPI_Request r[N];
    MPI_Status s;
    for (int i = 0; i < N; i++) {
        out[i] = rank * 1000 + i;
        MPI_Isend(&out[i], 1, MPI_INT, next, i % 2, MPI_COMM_WORLD, &r[i]);
    }
    for (int tag = 1; tag >= 0; tag--)
        for (int i = tag; i < N; i += 2) {
            MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &s);
            CHECK(in == before * 1000 + i && s.MPI_SOURCE == before);
        }
    MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
}

static void sendrecv(void)
{
    int n = 100000;
    char *out = malloc(n), *in = malloc(n);
    MPI_Status s;
    MPI_Request r;
    fill(out, n, rank, 1);
    MPI_Sendrecv(out, n, MPI_CHAR, next, 1, in, n, MPI_CHAR, before, 1,
                 MPI_COMM_WORLD, &s);
    check_filled(in, n, before, 1);
    MPI_Sendrecv_replace(out, n, MPI_CHAR, next, 2, before, 2, MPI_COMM_WORLD,
                         &s);
    check_filled(out, n, before, 1);
    MPI_Isendrecv(in, n, MPI_CHAR, before, 3, out, n, MPI_CHAR, next, 3,
                  MPI_COMM_WORLD, &r);
    MPI_Wait(&r, &s);
    CHECK(s.MPI_SOURCE == next);
    check_filled(out, n, rank, 1);
    MPI_Isendrecv_replace(out, n, MPI_CHAR, next, 4, before, 4, MPI_COMM_WORLD,
                          &r);
    MPI_Wait(&r, &s);
    check_filled(out, n, before, 1);
    free(out);
    free(in);
}

static void persistent(void)
{
    char out[3000] = "", in[3000] = "";
    MPI_Request r[2];
    int flag;
    MPI_Send_init(out, 3000, MPI_CHAR, next, 5, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(in, 3000, MPI_CHAR, before, 5, MPI_COMM_WORLD, &r[1]);
    MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);
    CHECK(flag); /* inactive ones are complete */
    for (int i = 0; i < 20; i++) {
        fill(out, 3000, rank, i);
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        CHECK(r[0] != MPI_REQUEST_NULL);
        check_filled(in, 3000, before, i);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void buffered(void)
{
    enum { N = 10, BYTES = 5000 };
    char out[BYTES], in[BYTES], *buffer;
    int bytes = N * (BYTES + MPI_BSEND_OVERHEAD);
    buffer = malloc(bytes);
    MPI_Buffer_attach(buffer, bytes);
    for (int i = 0; i < N; i++) {
        fill(out, BYTES, rank, i);
        MPI_Bsend(out, BYTES, MPI_CHAR, next, 6, MPI_COMM_WORLD);
    }
    for (int i = 0; i < N; i++) {
        MPI_Recv(in, BYTES, MPI_CHAR, before, 6, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        check_filled(in, BYTES, before, i);
    }
    void *back;
    int back_bytes;
    MPI_Buffer_detach(&back, &back_bytes);
    CHECK(back == buffer && back_bytes == bytes);
    free(buffer);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int err = MPI_Bsend(out, 1, MPI_CHAR, next, 6, MPI_COMM_WORLD);
    CHECK(class_of(err) == MPI_ERR_BUFFER);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void any_and_some(void)
{
    enum { N = 8 };
    int out[N], in[N], left = N, indices[N], n;
    MPI_Request send[N], recv[N];
    for (int i = 0; i < N; i++) {
        out[i] = i;
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, before, 10 + i, MPI_COMM_WORLD, &recv[i]);
        MPI_Isend(&out[i], 1, MPI_INT, next, 10 + i, MPI_COMM_WORLD, &send[i]);
    }
    MPI_Waitany(N, recv, &n, MPI_STATUS_IGNORE);
    CHECK(n >= 0 && n < N && in[n] == n && recv[n] == MPI_REQUEST_NULL);
    left--;
    while (left) {
        MPI_Waitsome(N, recv, &n, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++)
            CHECK(in[indices[i]] == indices[i]);
        left -= n;
    }
    MPI_Waitsome(N, recv, &n, indices, MPI_STATUSES_IGNORE);
    CHECK(n == MPI_UNDEFINED);
    MPI_Waitany(N, recv, &n, MPI_STATUS_IGNORE);
    CHECK(n == MPI_UNDEFINED);
    MPI_Waitall(N, send, MPI_STATUSES_IGNORE);
}

static void probes(void)
{
    int v = rank, got = -1, flag = 0, count;
    MPI_Status s;
    MPI_Message m;
    MPI_Request r;
    MPI_Isend(&v, 1, MPI_INT, next, 20, MPI_COMM_WORLD, &r);
    MPI_Probe(MPI_ANY_SOURCE, 20, MPI_COMM_WORLD, &s);
    CHECK(s.MPI_SOURCE == before);
    MPI_Get_count(&s, MPI_INT, &count);
    CHECK(count == 1);
    while (!flag)
        MPI_Improbe(before, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &m, &s);
    MPI_Iprobe(before, 20, MPI_COMM_WORLD, &flag, &s);
    CHECK(!flag);
    MPI_Mrecv(&got, 1, MPI_INT, &m, &s);
    CHECK(got == before && m == MPI_MESSAGE_NULL);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &m, &s);
    CHECK(m == MPI_MESSAGE_NO_PROC && s.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(&got, 1, MPI_INT, &m, &s);
    CHECK(s.MPI_SOURCE == MPI_PROC_NULL && got == before);
}

static void cancel_receive(void)
{
    int v, flag;
    MPI_Request r;
    MPI_Status s;
    MPI_Irecv(&v, 1, MPI_INT, before, 999, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &flag);
    CHECK(flag);
}

static void truncated(void)
{
    static char out[300000], in[10];
    static const int bytes[] = {11, 300000};
    char text[MPI_MAX_ERROR_STRING];
    int n;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) {
        MPI_Request r;
        MPI_Isend(out, bytes[i], MPI_CHAR, next, 30, MPI_COMM_WORLD, &r);
        int err = MPI_Recv(in, 10, MPI_CHAR, before, 30, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
        CHECK(class_of(err) == MPI_ERR_TRUNCATE);
        MPI_Error_string(err, text, &n);
        CHECK(strstr(text, "10"));
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(void)
{
    smoke_init(MPI_THREAD_SINGLE);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    all_modes();
    unexpected();
    sendrecv();
    persistent();
    buffered();
    any_and_some();
    probes();
    cancel_receive();
    truncated();
    MPI_Finalize();
    return 0;
}
