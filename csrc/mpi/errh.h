/* SPDX-License-Identifier: MIT */
/*
 * From internal errors to MPI's codes and handlers; errh.c.
 */
#ifndef TB_ERRH_H
#define TB_ERRH_H

#include "mpi/objects.h"

/*
 * The MPI error code for `err`, 0 for TB_OK. It carries this thread's note
 * (tb_fail_note), if there is one, so that MPI_Error_string can say what
 * exactly was wrong; the note is used up.
 */
int tb_errh_code(tb_err err);

/*
 * Says that the error about to be returned concerns this communicator, for
 * calls that have none among their arguments (completing a request): its
 * handler is then invoked instead of MPI_COMM_SELF's. NULL is fine. Valid for
 * the present call of this thread.
 */
void tb_errh_blame(struct tb_comm *comm);

/*
 * Says that an error of the present call goes to this handler: for calls that
 * make the object whose handler it will be. The handler is then given the null
 * handle. Valid until the call ends, well or not: the caller passes NULL when
 * it succeeds.
 */
void tb_errh_give(struct tb_errh *h);

#endif
