/* SPDX-License-Identifier: MIT */
/*
 * Where the members of a communicator are: on which nodes, and what cables join
 * those. All that is here is equal on all members, and stays as it was when the
 * job began, so that algorithms may be chosen by it.
 */
#ifndef TB_SHAPE_H
#define TB_SHAPE_H

#include "mpi/objects.h"

enum tb_cabling {
    TB_CABLING_NONE, /* one node */
    TB_CABLING_MESH, /* a cable between any two of the nodes */
    TB_CABLING_RING, /* four nodes or more, one after the other */
    TB_CABLING_LINE, /* three nodes or more, the last one not joined to the
                        first */
    TB_CABLING_OTHER
};

/* Nodes are numbered as the cables join them where that makes sense, by the
 * order of their first members elsewhere. */
struct tb_shape {
    enum tb_cabling cabling;
    int nodes;        /* that have members */
    int node;         /* this rank's */
    int most;         /* members on one node */
    bool in_order;    /* members of a node are neighbours in rank */
    const int *first; /* nodes + 1: see ranks */
    const int *ranks; /* first[i] to first[i + 1] - 1: of node i, ascending */
};

/* Sets c->shape, which is NULL at first. An intercommunicator gets that of one
 * node. */
tb_err tb_shape_find(struct tb_comm *c);

#endif
