/* SPDX-License-Identifier: MIT */
/*
 * Starting a send or a receive with MPI's arguments; for the files of mpi/ that
 * are about forms of it (persistent, buffered).
 */
#ifndef TB_P2P_H
#define TB_P2P_H

#include "mpi/api.h"
#include "mpi/world.h"

/* The arguments of a send or receive. `rank` may be MPI_PROC_NULL. */
struct tb_p2p {
    const void *buf;
    int64_t count;
    struct tb_type *type;
    int rank;
    int tag;
    struct tb_comm *comm;
};

/* `quick`: *out may be NULL, which is a send that is finished. */
tb_err tb_p2p_send(const struct tb_p2p *a, enum tb_send_mode mode, bool quick,
                   struct tb_req **out);
tb_err tb_p2p_recv(const struct tb_p2p *a, struct tb_req **out);

/*
 * bsend.c. A buffered send is complete for the program as soon as its data are
 * copied; the send itself goes on. Whoever gave the program a request for it
 * holds on to the send, so that it can still be cancelled.
 */
struct tb_held {
    struct tb_piece *piece; /* NULL: nothing is held */
};

/* Copies the data into the attached buffer and starts the send; `held` may be
 * NULL. */
tb_err tb_p2p_bsend(const struct tb_p2p *a, struct tb_held *held);
/* Asks for the send behind a request back; `req` is open again until it is
 * known whether that came in time. */
tb_err tb_held_cancel(struct tb_held *held, struct tb_req *req);
void tb_held_drop(struct tb_held *held);

/* Predefined MPI_BYTE. type_basic.c */
struct tb_type *tb_type_bytes(void);

#endif
