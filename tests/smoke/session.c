/* ranks: 1 2 4 */
/* SPDX-License-Identifier: MIT */
/* What a session tells, makes, and does about errors. */
#include "smoke.h"

static int heard;

static void hear(MPI_Session *session, int *code, ...)
{
    (void)session;
    heard = class_of(*code);
}

static MPI_Session open_session(void)
{
    MPI_Session session;
    CHECK(!MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    return session;
}

static void check_sets(void)
{
    MPI_Session session = open_session();
    char name[MPI_MAX_PSET_NAME_LEN], text[32];
    int n, length, flag;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
    CHECK(n >= 2);
    for (int i = 0; i < n; i++) {
        MPI_Info info;
        MPI_Group group;
        int members;
        length = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL);
        CHECK(length > 1 && length <= (int)sizeof name);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name);
        CHECK((int)strlen(name) + 1 == length);
        MPI_Session_get_pset_info(session, name, &info);
        length = sizeof text;
        MPI_Info_get_string(info, "mpi_size", &length, text, &flag);
        CHECK(flag);
        MPI_Info_free(&info);
        MPI_Group_from_session_pset(session, name, &group);
        MPI_Group_size(group, &members);
        CHECK(members == atoi(text));
        MPI_Group_free(&group);
    }
    length = 4;
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name);
    CHECK(strlen(name) == 3 && length > 4);
    MPI_Session_finalize(&session);
}

static void check_info(void)
{
    MPI_Info hints, used;
    MPI_Session session;
    char text[64];
    int length = sizeof text, flag;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "thread_level", "MPI_THREAD_FUNNELED");
    CHECK(!MPI_Session_init(hints, MPI_ERRORS_RETURN, &session));
    MPI_Session_get_info(session, &used);
    MPI_Info_get_string(used, "thread_level", &length, text, &flag);
    CHECK(flag && strcmp(text, "MPI_THREAD_MULTIPLE") == 0);
    MPI_Info_free(&used);
    MPI_Session_finalize(&session);
    MPI_Info_set(hints, "thread_level", "MPI_THREAD_DOZENS");
    CHECK(class_of(MPI_Session_init(hints, MPI_ERRORS_RETURN, &session)) ==
          MPI_ERR_INFO_VALUE);
    MPI_Info_free(&hints);
}

static void check_errors(void)
{
    MPI_Session session = open_session(), closed = session;
    MPI_Errhandler mine, got;
    MPI_Group group;
    MPI_Comm comm;
    int n, length = -1;

    CHECK(class_of(MPI_Group_from_session_pset(session, "mpi://NOWHERE",
                                               &group)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &n,
                                            NULL)) == MPI_ERR_ARG);
    MPI_Session_create_errhandler(hear, &mine);
    MPI_Session_set_errhandler(session, mine);
    MPI_Session_get_errhandler(session, &got);
    CHECK(got == mine);
    MPI_Errhandler_free(&got);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, NULL);
    CHECK(heard == MPI_ERR_ARG);
    MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
    CHECK(heard == MPI_ERR_OTHER);

    /* The handler that a new object would get hears why there is none. */
    MPI_Info hints;
    MPI_Session none;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "thread_level", "");
    CHECK(class_of(MPI_Session_init(hints, mine, &none)) == MPI_ERR_INFO_VALUE);
    CHECK(heard == MPI_ERR_INFO_VALUE);
    MPI_Info_free(&hints);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    heard = 0;
    CHECK(class_of(MPI_Comm_create_from_group(group, "t", MPI_INFO_NULL, mine,
                                              &comm)) == MPI_ERR_ERRHANDLER);
    MPI_Group_free(&group);
    MPI_Errhandler_free(&mine);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    MPI_Session_finalize(&session);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Session_get_num_psets(closed, MPI_INFO_NULL, &n)) ==
          MPI_ERR_SESSION);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Halves of the world, at the same time and with the same tag. */
static void check_halves(MPI_Session session)
{
    MPI_Group world, mine, other;
    MPI_Comm half, across;
    int range[1][3] = {{rank % 2, size - 1, 2}}, n, seen;

    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_range_incl(world, 1, range, &mine);
    MPI_Group_difference(world, mine, &other);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_create_from_group(mine, "half", MPI_INFO_NULL,
                                   MPI_ERRORS_ARE_FATAL, &half);
        MPI_Comm_size(half, &n);
        MPI_Allreduce(&rank, &seen, 1, MPI_INT, MPI_MAX, half);
        CHECK(seen % 2 == rank % 2 && seen >= rank);
        MPI_Comm_free(&half);
    }
    if (size > 1) {
        MPI_Intercomm_create_from_groups(mine, 0, other, 0, "across",
                                         MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                         &across);
        MPI_Allreduce(&rank, &seen, 1, MPI_INT, MPI_MAX, across);
        CHECK(seen % 2 != rank % 2);
        MPI_Comm_free(&across);
    }
    MPI_Group_free(&other);
    MPI_Group_free(&mine);
    MPI_Group_free(&world);
}

/* A buffered send takes the buffer of the session its communicator is from. */
static void check_buffer(MPI_Session session)
{
    static char memory[1024];
    MPI_Group group;
    MPI_Comm comm, copy;
    MPI_Request request;
    void *detached;
    int bytes, out = 42 + rank, in = 0;

    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "buffer", MPI_INFO_NULL,
                               MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    MPI_Comm_dup(comm, &copy);
    CHECK(class_of(MPI_Bsend(&out, 1, MPI_INT, rank, 0, copy)) ==
          MPI_ERR_BUFFER);
    MPI_Session_attach_buffer(session, memory, sizeof memory);
    CHECK(class_of(MPI_Session_attach_buffer(session, memory, 8)) ==
          MPI_ERR_BUFFER);
    CHECK(!MPI_Bsend(&out, 1, MPI_INT, (rank + 1) % size, 0, copy));
    MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 0, copy, MPI_STATUS_IGNORE);
    CHECK(in == 42 + (rank + size - 1) % size);
    MPI_Session_flush_buffer(session);
    MPI_Session_iflush_buffer(session, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Session_detach_buffer(session, &detached, &bytes);
    CHECK(detached == memory && bytes == (int)sizeof memory);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
}

int main(void)
{
    smoke_init(MPI_THREAD_MULTIPLE);
    MPI_Session session = open_session();
    check_sets();
    check_info();
    check_errors();
    check_halves(session);
    check_buffer(session);
    MPI_Session_finalize(&session);
    MPI_Finalize();
    return 0;
}
