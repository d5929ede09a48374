/* ranks: 2 3 */
/* SPDX-License-Identifier: MIT */
/* What is wrong with a one-sided call is an error of the right class, for the
 * window's handler, and the next call works. */
#include "smoke.h"

static int memory[100];

static void nothing(void *in, void *out, int *n, MPI_Datatype *type)
{
    (void)in, (void)out, (void)n, (void)type;
}

static void of_creation(void)
{
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Win win;
    void *base;
    MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
    IS(MPI_ERR_SIZE, MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, w, &win));
    IS(MPI_ERR_DISP, MPI_Win_create(memory, 1, 0, MPI_INFO_NULL, w, &win));
    IS(MPI_ERR_SIZE, MPI_Win_allocate(-8, 1, MPI_INFO_NULL, w, &base, &win));
    IS(MPI_ERR_COMM,
       MPI_Win_create(memory, 1, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win));
    IS(MPI_ERR_WIN, MPI_Win_fence(0, MPI_WIN_NULL));
}

static void of_epochs(MPI_Win win)
{
    MPI_Group group;
    int flag, x = 0;
    MPI_Win_get_group(win, &group);
    IS(MPI_ERR_RMA_SYNC, MPI_Put(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_test(win, &flag));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_flush(0, win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_flush_all(win));
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    IS(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_start(group, 0, win));
    IS(MPI_ERR_RMA_SYNC, MPI_Win_free(&win));
    IS(MPI_ERR_RMA_SYNC,
       MPI_Put(&x, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win));
    MPI_Win_unlock(rank, win);
    IS(MPI_ERR_LOCKTYPE, MPI_Win_lock(17, rank, 0, win));
    IS(MPI_ERR_ASSERT, MPI_Win_lock(MPI_LOCK_SHARED, 0, 3, win));
    IS(MPI_ERR_ASSERT, MPI_Win_fence(MPI_MODE_NOCHECK, win));
    IS(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win));
    IS(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win));
    IS(MPI_SUCCESS, MPI_Win_unlock(MPI_PROC_NULL, win));
    MPI_Group_free(&group);
}

static void of_operations(MPI_Win win)
{
    int x[4] = {0};
    double d = 0;
    MPI_Op op;
    MPI_Op_create(nothing, 1, &op);
    MPI_Win_fence(0, win);
    IS(MPI_ERR_RANK, MPI_Put(x, 1, MPI_INT, size, 0, 1, MPI_INT, win));
    IS(MPI_ERR_RANK, MPI_Put(x, 1, MPI_INT, -7, 0, 1, MPI_INT, win));
    IS(MPI_SUCCESS, MPI_Put(x, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    IS(MPI_ERR_COUNT, MPI_Put(x, -1, MPI_INT, 0, 0, 1, MPI_INT, win));
    IS(MPI_ERR_TYPE, MPI_Put(x, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win));
    IS(MPI_ERR_DISP, MPI_Put(x, 1, MPI_INT, 0, -1, 1, MPI_INT, win));
    IS(MPI_ERR_RMA_RANGE, MPI_Put(x, 4, MPI_INT, 0, 97, 4, MPI_INT, win));
    IS(MPI_ERR_RMA_RANGE, MPI_Get(x, 1, MPI_INT, 0, 100, 1, MPI_INT, win));
    IS(MPI_ERR_TRUNCATE, MPI_Put(x, 4, MPI_INT, 0, 0, 3, MPI_INT, win));
    IS(MPI_ERR_TRUNCATE, MPI_Get(x, 3, MPI_INT, 0, 0, 4, MPI_INT, win));
    IS(MPI_ERR_OP, MPI_Accumulate(x, 1, MPI_INT, 0, 0, 1, MPI_INT, op, win));
    IS(MPI_ERR_OP,
       MPI_Accumulate(&d, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_BAND, win));
    IS(MPI_ERR_TYPE,
       MPI_Accumulate(&d, 1, MPI_DOUBLE, 0, 0, 2, MPI_INT, MPI_SUM, win));
    IS(MPI_ERR_TYPE, MPI_Compare_and_swap(&d, &d, &d, MPI_DOUBLE, 0, 0, win));
    IS(MPI_SUCCESS, MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    MPI_Op_free(&op);
}

/* Only the target knows what is attached: its answer comes with the flush. */
static void of_dynamic_windows(void)
{
    MPI_Aint address, other;
    int x = 5, y = 6;
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_attach(win, memory, 40);
    IS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, memory + 9, 40));
    IS(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, memory + 1));
    MPI_Get_address(memory, &address);
    MPI_Sendrecv(&address, 1, MPI_AINT, (rank + 1) % size, 0, &other, 1,
                 MPI_AINT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    int target = (rank + size - 1) % size;
    MPI_Win_lock_all(0, win);
    MPI_Put(&x, 1, MPI_INT, target, other + 40, 1, MPI_INT, win);
    IS(MPI_ERR_RMA_RANGE, MPI_Win_flush(target, win));
    MPI_Get(&y, 1, MPI_INT, target, other + 400, 1, MPI_INT, win);
    IS(MPI_ERR_RMA_RANGE, MPI_Win_flush(target, win));
    MPI_Fetch_and_op(&x, &y, MPI_INT, target, other - 4, MPI_SUM, win);
    IS(MPI_ERR_RMA_RANGE, MPI_Win_flush(target, win));
    static int many[5000];
    MPI_Accumulate(many, 5000, MPI_INT, target, other, 5000, MPI_INT, MPI_SUM,
                   win);
    IS(MPI_ERR_RMA_RANGE, MPI_Win_flush(target, win));
    MPI_Put(&x, 1, MPI_INT, target, other + 36, 1, MPI_INT, win);
    IS(MPI_SUCCESS, MPI_Win_flush(target, win));
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[9] == 5 && memory[10] == 0);
    MPI_Win_free(&win);
}

static int heard;

static void hear(MPI_Win *win, int *code, ...)
{
    (void)win;
    heard = class_of(*code);
}

static void of_handlers(MPI_Win win)
{
    MPI_Errhandler mine, now;
    MPI_Aint bytes;
    void *base;
    int unit, x = 0;
    MPI_Win_create_errhandler(hear, &mine);
    MPI_Win_set_errhandler(win, mine);
    MPI_Win_get_errhandler(win, &now);
    CHECK(now == mine);
    MPI_Errhandler_free(&now);
    MPI_Errhandler_free(&mine);
    MPI_Put(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    CHECK(heard == MPI_ERR_RMA_SYNC);
    MPI_Win_attach(win, memory, 4);
    CHECK(heard == MPI_ERR_RMA_FLAVOR);
    MPI_Win_call_errhandler(win, MPI_ERR_BASE);
    CHECK(heard == MPI_ERR_BASE);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    IS(MPI_SUCCESS,
       MPI_Win_shared_query(win, (rank + 1) % size, &bytes, &unit, &base));
    CHECK(bytes == 0 && base == NULL); /* not to be seen from here */
}

int main(void)
{
    MPI_Win win;
    smoke_init(MPI_THREAD_SINGLE);
    of_creation();
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    of_epochs(win);
    of_operations(win);
    of_handlers(win);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS && win == MPI_WIN_NULL);
    of_dynamic_windows();
    MPI_Finalize();
    return 0;
}
