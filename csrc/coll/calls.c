/* SPDX-License-Identifier: MIT */
/*
 * The collective calls of MPI as data: each in its three forms, which differ
 * only in what is done with the data.
 */
#include "coll/call.h"

#define UNPACK(...) __VA_ARGS__

/* tb_x, tb_ix and tb_x_init for one call; `what` lists the fields of struct
 * tb_call, the rest are the parameters they are made of. */
#define FORMS(name, KIND, what, ...)                            \
    tb_err tb_##name(__VA_ARGS__)                               \
    {                                                           \
        struct tb_call call = {                                 \
            .kind = TB_COLL_##KIND, .comm = comm, UNPACK what}; \
        return tb_coll_run(&call);                              \
    }                                                           \
    tb_err tb_i##name(__VA_ARGS__, struct tb_req **request)     \
    {                                                           \
        struct tb_call call = {                                 \
            .kind = TB_COLL_##KIND, .comm = comm, UNPACK what}; \
        return tb_coll_begin(&call, request);                   \
    }                                                           \
    tb_err tb_##name##_init(__VA_ARGS__, struct tb_info *info,  \
                            struct tb_req **request)            \
    {                                                           \
        struct tb_call call = {                                 \
            .kind = TB_COLL_##KIND, .comm = comm, UNPACK what}; \
        (void)info;                                             \
        return tb_coll_prepare(&call, request);                 \
    }

/* A type that means nothing at this rank is NULL. */
static struct tb_layout *layout_of(const struct tb_type *type)
{
    return type ? type->layout : NULL;
}

static struct tb_blocks equal(const void *buf, MPI_Count count,
                              const struct tb_type *type)
{
    return (struct tb_blocks){.base = (void *)(uintptr_t)buf,
                              .count = count,
                              .layout = layout_of(type)};
}

static struct tb_blocks varying(const void *buf, struct tb_counts counts,
                                struct tb_counts displs,
                                const struct tb_type *type)
{
    return (struct tb_blocks){.base = (void *)(uintptr_t)buf,
                              .counts = counts,
                              .displs = displs,
                              .layout = layout_of(type)};
}

static struct tb_blocks typed(const void *buf, struct tb_counts counts,
                              struct tb_counts displs,
                              const MPI_Datatype *types)
{
    return (struct tb_blocks){.base = (void *)(uintptr_t)buf,
                              .counts = counts,
                              .displs = displs,
                              .types = types};
}

/* Blocks that follow each other without displacements. */
static struct tb_blocks lengths(void *buf, struct tb_counts counts,
                                const struct tb_type *type)
{
    return varying(buf, counts, (struct tb_counts){NULL, NULL}, type);
}

FORMS(barrier, BARRIER, (.root = 0), struct tb_comm *comm)

FORMS(bcast, BCAST, (.recv = equal(buffer, count, datatype), .root = root),
      void *buffer, MPI_Count count, struct tb_type *datatype, int root,
      struct tb_comm *comm)

FORMS(gather, GATHER,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = equal(recvbuf, recvcount, recvtype), .root = root),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, MPI_Count recvcount, struct tb_type *recvtype, int root,
      struct tb_comm *comm)

FORMS(gatherv, GATHERV,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = varying(recvbuf, recvcounts, displs, recvtype), .root = root),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, struct tb_counts recvcounts, struct tb_counts displs,
      struct tb_type *recvtype, int root, struct tb_comm *comm)

FORMS(scatter, SCATTER,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = equal(recvbuf, recvcount, recvtype), .root = root),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, MPI_Count recvcount, struct tb_type *recvtype, int root,
      struct tb_comm *comm)

FORMS(scatterv, SCATTERV,
      (.send = varying(sendbuf, sendcounts, displs, sendtype),
       .recv = equal(recvbuf, recvcount, recvtype), .root = root),
      const void *sendbuf, struct tb_counts sendcounts, struct tb_counts displs,
      struct tb_type *sendtype, void *recvbuf, MPI_Count recvcount,
      struct tb_type *recvtype, int root, struct tb_comm *comm)

FORMS(allgather, ALLGATHER,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = equal(recvbuf, recvcount, recvtype)),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, MPI_Count recvcount, struct tb_type *recvtype,
      struct tb_comm *comm)

FORMS(allgatherv, ALLGATHERV,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = varying(recvbuf, recvcounts, displs, recvtype)),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, struct tb_counts recvcounts, struct tb_counts displs,
      struct tb_type *recvtype, struct tb_comm *comm)

FORMS(alltoall, ALLTOALL,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = equal(recvbuf, recvcount, recvtype)),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, MPI_Count recvcount, struct tb_type *recvtype,
      struct tb_comm *comm)

FORMS(alltoallv, ALLTOALLV,
      (.send = varying(sendbuf, sendcounts, sdispls, sendtype),
       .recv = varying(recvbuf, recvcounts, rdispls, recvtype)),
      const void *sendbuf, struct tb_counts sendcounts,
      struct tb_counts sdispls, struct tb_type *sendtype, void *recvbuf,
      struct tb_counts recvcounts, struct tb_counts rdispls,
      struct tb_type *recvtype, struct tb_comm *comm)

FORMS(alltoallw, ALLTOALLW,
      (.send = typed(sendbuf, sendcounts, sdispls, sendtypes),
       .recv = typed(recvbuf, recvcounts, rdispls, recvtypes)),
      const void *sendbuf, struct tb_counts sendcounts,
      struct tb_counts sdispls, const MPI_Datatype sendtypes[], void *recvbuf,
      struct tb_counts recvcounts, struct tb_counts rdispls,
      const MPI_Datatype recvtypes[], struct tb_comm *comm)

FORMS(reduce, REDUCE,
      (.send = equal(sendbuf, count, datatype),
       .recv = equal(recvbuf, count, datatype), .type = datatype, .op = op,
       .root = root),
      const void *sendbuf, void *recvbuf, MPI_Count count,
      struct tb_type *datatype, struct tb_op *op, int root,
      struct tb_comm *comm)

FORMS(allreduce, ALLREDUCE,
      (.send = equal(sendbuf, count, datatype),
       .recv = equal(recvbuf, count, datatype), .type = datatype, .op = op),
      const void *sendbuf, void *recvbuf, MPI_Count count,
      struct tb_type *datatype, struct tb_op *op, struct tb_comm *comm)

FORMS(reduce_scatter_block, REDUCE_SCATTER_BLOCK,
      (.send = equal(sendbuf, recvcount, datatype),
       .recv = equal(recvbuf, recvcount, datatype), .type = datatype, .op = op),
      const void *sendbuf, void *recvbuf, MPI_Count recvcount,
      struct tb_type *datatype, struct tb_op *op, struct tb_comm *comm)

FORMS(reduce_scatter, REDUCE_SCATTER,
      (.send = lengths((void *)(uintptr_t)sendbuf, recvcounts, datatype),
       .recv = lengths(recvbuf, recvcounts, datatype), .type = datatype,
       .op = op),
      const void *sendbuf, void *recvbuf, struct tb_counts recvcounts,
      struct tb_type *datatype, struct tb_op *op, struct tb_comm *comm)

FORMS(scan, SCAN,
      (.send = equal(sendbuf, count, datatype),
       .recv = equal(recvbuf, count, datatype), .type = datatype, .op = op),
      const void *sendbuf, void *recvbuf, MPI_Count count,
      struct tb_type *datatype, struct tb_op *op, struct tb_comm *comm)

FORMS(exscan, EXSCAN,
      (.send = equal(sendbuf, count, datatype),
       .recv = equal(recvbuf, count, datatype), .type = datatype, .op = op),
      const void *sendbuf, void *recvbuf, MPI_Count count,
      struct tb_type *datatype, struct tb_op *op, struct tb_comm *comm)

FORMS(neighbor_allgather, NEIGHBOR_ALLGATHER,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = equal(recvbuf, recvcount, recvtype)),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, MPI_Count recvcount, struct tb_type *recvtype,
      struct tb_comm *comm)

FORMS(neighbor_allgatherv, NEIGHBOR_ALLGATHERV,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = varying(recvbuf, recvcounts, displs, recvtype)),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, struct tb_counts recvcounts, struct tb_counts displs,
      struct tb_type *recvtype, struct tb_comm *comm)

FORMS(neighbor_alltoall, NEIGHBOR_ALLTOALL,
      (.send = equal(sendbuf, sendcount, sendtype),
       .recv = equal(recvbuf, recvcount, recvtype)),
      const void *sendbuf, MPI_Count sendcount, struct tb_type *sendtype,
      void *recvbuf, MPI_Count recvcount, struct tb_type *recvtype,
      struct tb_comm *comm)

FORMS(neighbor_alltoallv, NEIGHBOR_ALLTOALLV,
      (.send = varying(sendbuf, sendcounts, sdispls, sendtype),
       .recv = varying(recvbuf, recvcounts, rdispls, recvtype)),
      const void *sendbuf, struct tb_counts sendcounts,
      struct tb_counts sdispls, struct tb_type *sendtype, void *recvbuf,
      struct tb_counts recvcounts, struct tb_counts rdispls,
      struct tb_type *recvtype, struct tb_comm *comm)

FORMS(neighbor_alltoallw, NEIGHBOR_ALLTOALLW,
      (.send = typed(sendbuf, sendcounts, sdispls, sendtypes),
       .recv = typed(recvbuf, recvcounts, rdispls, recvtypes)),
      const void *sendbuf, struct tb_counts sendcounts,
      struct tb_counts sdispls, const MPI_Datatype sendtypes[], void *recvbuf,
      struct tb_counts recvcounts, struct tb_counts rdispls,
      const MPI_Datatype recvtypes[], struct tb_comm *comm)
