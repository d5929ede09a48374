/* SPDX-License-Identifier: MIT */
/*
 * Names of communicators, and of what else has a context: 64-bit numbers that
 * all members compute alike, with no message where the standard lets all of
 * them know enough. The argument is in
 * docs/decisions/001-communicator-names.md.
 */
#ifndef TB_COMM_NAME_H
#define TB_COMM_NAME_H

#include "mpi/objects.h"

/* A number that depends on both, in this order, and looks random. */
uint64_t tb_name_mix(uint64_t a, uint64_t b);

/* For what a communicator needs beside itself. */
uint64_t tb_name_local(uint64_t name); /* an intercommunicator's local half */
static inline uint64_t tb_name_coll(uint64_t name)
{
    return name | 1;
}

/* The name for a creation by the members of `group` alone, `tag` telling it
 * from others. Counts how often that happened on this parent. */
tb_err tb_name_by_group(struct tb_comm *parent, const struct tb_group *group,
                        uint64_t tag, uint64_t *out);
/* A tag of the program's own words; none that an int could be. */
uint64_t tb_name_tag(const char *text);
void tb_uses_free(struct tb_uses *uses);

/* The name that both sides give the next partitioned operation on `c` from one
 * endpoint to another with this tag; `sends`: this is the sending side. */
tb_err tb_name_part(struct tb_comm *c, bool sends, int from, int to, int tag,
                    uint64_t *out);

/* What a side of a new intercommunicator gives to its name. */
struct tb_name_offer {
    uint64_t name; /* tb_comm_next_name of the local communicator */
    int leader;    /* endpoint */
};
uint64_t tb_name_inter(struct tb_name_offer a, struct tb_name_offer b);

#endif
