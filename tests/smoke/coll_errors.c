/* ranks: 2 4 */
/* SPDX-License-Identifier: MIT */
/* What is wrong with a collective call is an error of the right class, and the
 * next call works. */
#include "smoke.h"

static int buf[4096], out[4096];

static void next_call_works(void)
{
    int sum = 0;
    CHECK(!MPI_Allreduce(&size, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * size);
}

static void wrong_arguments(void)
{
    MPI_Comm w = MPI_COMM_WORLD;
    int counts[4] = {1, 1, 1, -3}, displs[4] = {0, 1, 2, 3};
    counts[size - 1] = -3;
    IS(MPI_ERR_BUFFER, MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, w));
    IS(MPI_ERR_BUFFER, MPI_Bcast(NULL, 1, MPI_INT, 0, w));
    IS(MPI_ERR_COUNT, MPI_Bcast(buf, -1, MPI_INT, 0, w));
    IS(MPI_ERR_ROOT, MPI_Bcast(buf, 1, MPI_INT, size, w));
    IS(MPI_ERR_TYPE, MPI_Bcast(buf, 1, MPI_DATATYPE_NULL, 0, w));
    IS(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
    IS(MPI_ERR_OP, MPI_Allreduce(buf, out, 1, MPI_INT, MPI_OP_NULL, w));
    IS(MPI_ERR_OP, MPI_Allreduce(buf, out, 1, MPI_FLOAT, MPI_BAND, w));
    IS(MPI_ERR_BUFFER, MPI_Allreduce(buf, buf, 1, MPI_INT, MPI_SUM, w));
    IS(MPI_ERR_BUFFER,
       MPI_Allreduce(buf, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, w));
    IS(MPI_ERR_BUFFER,
       MPI_Allgather(buf, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, w));
    IS(MPI_ERR_COUNT,
       MPI_Allgatherv(buf, 1, MPI_INT, out, counts, displs, MPI_INT, w));
    IS(MPI_ERR_COUNT, MPI_Alltoallv(buf, counts, displs, MPI_INT, out, counts,
                                    displs, MPI_INT, w));
    IS(MPI_ERR_COUNT,
       MPI_Reduce_scatter(buf, out, counts, MPI_INT, MPI_SUM, w));
    IS(MPI_ERR_TOPOLOGY,
       MPI_Neighbor_allgather(buf, 1, MPI_INT, out, 1, MPI_INT, w));
    if (rank) {
        IS(MPI_ERR_BUFFER, MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, out, 1, MPI_INT,
                                      0, MPI_COMM_WORLD));
        IS(MPI_ERR_BUFFER, MPI_Reduce(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, 0,
                                      MPI_COMM_WORLD));
    }
    next_call_works();
}

/* The root sends more than the others take, and less. Rank 1 hears from the
 * root itself, whatever the algorithm; the others perhaps from one another. */
static void unequal_bcast(int count)
{
    int code =
        MPI_Bcast(buf, rank ? count / 2 : count, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1)
        IS(MPI_ERR_TRUNCATE, code);
    next_call_works();
    code = MPI_Bcast(buf, rank ? count : count / 2, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1)
        IS(MPI_ERR_NOT_SAME, code);
    next_call_works();
}

static void unequal_gather(void)
{
    int code = MPI_Gather(buf, rank == size - 1 ? 20 : 10, MPI_INT, out, 10,
                          MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        IS(MPI_ERR_TRUNCATE, code);
    next_call_works();
}

int main(void)
{
    smoke_init(MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20; i++) {
        wrong_arguments();
        unequal_bcast(8);
        unequal_gather();
    }
    MPI_Finalize();
    return 0;
}
