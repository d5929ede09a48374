/* SPDX-License-Identifier: MIT */
/*
 * rma: one-sided communication (MPI 5.0, chapter 12). The MPI calls themselves
 * are declared in mpi/api.h; windows as objects are in mpi/win.c, and this is
 * what that needs.
 *
 *   window.c   the life of a window's communication
 *   wire.c     what origins and targets say to each other (wire.h)
 *   memory.c   the memory of windows, shared where processes can
 *   apply.c    what operations do to memory, whoever carries them out
 *   target.c   serving what others send
 *   locks.c    … and the queue of those who want the window locked
 *   origin.c   operations: to memory that is mapped here, or as messages
 *   calls.c    the MPI calls that start them
 *   epoch.c    when they may be started: fences, groups, locks
 *   sync.c     … the MPI calls, and flushing
 *
 * An operation is a message to the target's engine, which carries it out while
 * it polls; so the target must call MPI now and then, as the standard allows.
 * Long data travel by themselves, straight between the two buffers. What one
 * origin sends is carried out in its order, so accumulates are ordered in all
 * four ways. A lock that cannot be had yet holds up the origin's messages at
 * the target, and nothing else: locking waits for no answer.
 *
 * Memory that is mapped in the origin is read and written directly.
 * Accumulates exclude each other by a mutex beside that memory, which whoever
 * carries one out holds, origin or target.
 */
#ifndef TB_RMA_H
#define TB_RMA_H

#include "mpi/objects.h"

struct tb_rma;

/* The memory of a window; flavor is one of MPI_WIN_FLAVOR_*. */
struct tb_rma_memory {
    int flavor;
    void *base;     /* CREATE: given; the others: made */
    int64_t size;   /* bytes */
    int64_t unit;   /* of displacements, bytes */
    bool apart;     /* SHARED: need not follow that of the rank before */
    size_t align;   /* of memory that is made, at least; a power of two */
    int64_t shared; /* made: bytes mapped, of all ranks of the machine */
    void *mapping;
};

/* Collective over `comm`, which becomes the window's own and outlives it.
 * Fails on all ranks or on none. */
tb_err tb_rma_open(struct tb_rma **out, struct tb_comm *comm,
                   struct tb_rma_memory *memory);
/* Not collective: the caller has made sure that nobody uses the window any
 * more. NULL is fine. */
void tb_rma_close(struct tb_rma *r);

/* Whether the window may be freed now: no epoch is open but a fence's. */
tb_err tb_rma_may_close(const struct tb_rma *r);

#endif
