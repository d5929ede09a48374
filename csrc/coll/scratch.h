/* SPDX-License-Identifier: MIT */
/*
 * Memory for what schedules keep between rounds. Returned blocks are kept for
 * the next schedule, since fresh pages of the system cost more than the copies
 * that are made into them. Used under the lock.
 */
#ifndef TB_SCRATCH_H
#define TB_SCRATCH_H

#include "base/base.h"

struct tb_scratch {
    struct tb_scratch *next; /* for the owner */
    size_t room;             /* bytes at `data` */
    _Alignas(64) char data[];
};

/* At least `bytes`; NULL: no memory. */
struct tb_scratch *tb_scratch_get(size_t bytes);
void tb_scratch_put(struct tb_scratch *s);
/* Gives kept blocks back to the system. */
void tb_scratch_drop(void);

#endif
