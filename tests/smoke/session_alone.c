/* ranks: 1 2 4 */
/* SPDX-License-Identifier: MIT */
/* Sessions without MPI_Init: from several threads at once, one
 * after the other, and at last with MPI_Init beside them. */
#include "smoke.h"

#include <pthread.h>

#define THREADS 4

static MPI_Comm make(MPI_Session session, const char *set, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, set, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN,
                               &comm);
    MPI_Group_free(&group);
    return comm;
}

static void check_sum(MPI_Comm comm)
{
    int me, n, sum = -1;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    CHECK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK(sum == n * (n - 1) / 2);
}

/* What a library would do that knows nothing of its program. */
static void *library(void *arg)
{
    char tag[32];
    MPI_Session session;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) ==
          MPI_SUCCESS);
    snprintf(tag, sizeof tag, "thread %d", *(int *)arg);
    MPI_Comm all = make(session, "mpi://WORLD", tag);
    MPI_Comm self = make(session, "mpi://SELF", tag);
    for (int i = 0; i < 20; i++) {
        check_sum(all);
        check_sum(self);
    }
    MPI_Comm_free(&self);
    MPI_Comm_free(&all);
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL);
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[THREADS];
    int number[THREADS];
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        CHECK(!pthread_create(&threads[i], NULL, library, &number[i]));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Each process alone, and not equally often. */
static void check_uneven(void)
{
    for (int i = 0; i <= rank; i++) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Comm self = make(session, "mpi://SELF", "alone");
        check_sum(self);
        MPI_Comm_free(&self);
        MPI_Session_finalize(&session);
    }
}

static void check_beside_init(void)
{
    int flag, level;
    MPI_Session before, within;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &before);
    MPI_Initialized(&flag);
    CHECK(!flag);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &level);
    CHECK(level == MPI_THREAD_SINGLE);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &within);
    check_sum(MPI_COMM_WORLD);
    MPI_Comm one = make(before, "mpi://WORLD", "one");
    MPI_Comm two = make(within, "mpi://WORLD", "two");
    MPI_Session_finalize(&within); /* what came from it may be in use yet */
    check_sum(one);
    check_sum(two);
    MPI_Comm_free(&two);
    MPI_Finalize();
    MPI_Finalized(&flag);
    CHECK(flag);
    check_sum(one);
    MPI_Comm_free(&one);
    MPI_Session_finalize(&before);
    check_uneven();
}

int main(void)
{
    MPI_Session session;
    int flag;

    check_threads();
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm all = make(session, "mpi://WORLD", "main");
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Comm_free(&all);
    MPI_Session_finalize(&session);
    check_uneven();
    check_beside_init();
    MPI_Initialized(&flag);
    CHECK(flag);
    return 0;
}
