/* SPDX-License-Identifier: MIT */
/*
 * The plan of a job whose nodes are joined by cables: which rank is where,
 * which cable joins what. The launcher writes it, the same for all but for the
 * lines that concern one node, and every rank and router reads it at its start
 * from descriptor TBMPI_PLAN_FD. A job on one machine has none.
 *
 * Text, one fact a line, words separated by single blanks, in this order:
 *
 *   tbmpi-plan 1
 *   job <32 hexadecimal digits>       equal on all nodes, different in each job
 *   size <ranks>
 *   nodes <n>
 *   self <node>                       the node of who reads this
 *   owner router|rank|none            who owns the verbs on every node; none:
 *                                     sockets join the ranks, without cables
 *   crowd <processes>                 of this job, that share the processors of
 *                                     the reader's machine; may be missing:
 *                                     the ranks and the router of node `self`
 *   node <k> <name> <rank> …          ranks ascending; k from 0 upwards; with
 *                                     routers a node may have no rank
 *   cable <c> <nodeA> <deviceA> <gidA> <nodeB> <deviceB> <gidB>
 *                                     c from 0 upwards; all cables of the job;
 *                                     gid as ::ffff:169.254.1.2
 *   wire <c> <fd>                     own cables: stream socket to the other
 *                                     end, which goes silent with the cable
 *   mgmt <k> <fd>                     stream socket to the owner of the verbs
 *                                     of node k, over the management network
 *   agent <fd>                        end of file: tear down and leave
 *   relay <fd>                        where wires are passed on by a program:
 *                                     stream socket to it; it sends back
 *                                     whatever it gets
 *   link <rank> <fd>                  `owner none`: stream socket to a rank of
 *                                     another node, for each of them
 *   bell <rank> <fd>                  `owner none`: pipe into the ear of a rank
 *                                     of this node, for each of them
 *   ear <fd>                          `owner none`: the reader's end of its own
 *
 * wire, mgmt, agent and relay only where the reader owns the verbs: in a
 * router; in a rank when `owner rank`, where every node has one rank. A rank
 * beside a router gets none of them. A router also gets what the ranks of its
 * node get: the segment (TBMPI_SHM_FD), where their bells are, and the pool
 * (TBMPI_POOL_FD).
 *
 * The routers are endpoints too: that of node k is endpoint size + k.
 */
#ifndef TB_PLAN_H
#define TB_PLAN_H

#include "base/base.h"

#define TB_PLAN_VERSION 1
#define TB_NODES_MOST 32
#define TB_PLAN_CABLES_MOST 512    /* of a job */
#define TB_PLAN_NAME_BYTES 64      /* of a node or device, with the zero */
#define TB_PLAN_BYTES_MOST 1048576 /* of the whole text */

struct tb_plan_node {
    char name[TB_PLAN_NAME_BYTES];
    int *ranks; /* ascending */
    int n;
    int mgmt; /* descriptor, or -1 */
};

/* Side 0 is the one that the plan names first, for both ends alike. */
struct tb_plan_cable {
    int node[2];
    char device[2][TB_PLAN_NAME_BYTES];
    uint8_t gid[2][16]; /* IPv4-mapped, network order */
    int wire;           /* descriptor, or -1 */
};

struct tb_plan {
    char job[33];
    int size, nodes, self;
    bool owner_rank; /* ranks own the verbs; else routers, unless … */
    bool sockets;    /* … nobody does */
    int crowd;       /* processes on this machine; at least 1 */
    struct tb_plan_node node[TB_NODES_MOST];
    int cables;
    struct tb_plan_cable *cable;
    int agent;    /* descriptor, or -1 */
    int relay;    /* the same */
    int *node_of; /* by rank */
    int *link;    /* by rank: descriptor, or -1 */
    int *bell;    /* the same */
    int ear;      /* descriptor, or -1 */
};

/* Reads descriptor `fd` to its end, from the start where it can be rewound,
 * and leaves it open. The plan is the caller's, for tb_plan_free. Whatever is
 * wrong with it is an error whose note names the line. */
tb_err tb_plan_read(struct tb_plan **out, int fd);
/* The same from memory. */
tb_err tb_plan_parse(struct tb_plan **out, const char *text, size_t bytes);
/* Frees the plan and leaves the descriptors that it names open. NULL: none. */
void tb_plan_free(struct tb_plan *plan);

/* The node of an endpoint, rank or router. */
static inline int tb_plan_node_of(const struct tb_plan *p, int endpoint)
{
    return endpoint < p->size ? p->node_of[endpoint] : endpoint - p->size;
}

/* The endpoint that owns the verbs of a node. */
static inline int tb_plan_owner(const struct tb_plan *p, int node)
{
    return p->owner_rank ? p->node[node].ranks[0] : p->size + node;
}

#endif
