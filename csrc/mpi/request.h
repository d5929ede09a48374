/* SPDX-License-Identifier: MIT */
/*
 * Requests as MPI sees them: what request.c needs to know of those that are
 * more than one engine operation (persistent and generalized requests). Whoever
 * makes such a request sets req->more to a struct that begins with this one.
 */
#ifndef TB_REQUEST_H
#define TB_REQUEST_H

#include "mpi/objects.h"

struct tb_more;

/* An absent operation is NULL. */
struct tb_more_ops {
    /* Persistent: begins once more; req->done is false already. The operation
     * ends with tb_req_finish(req). */
    tb_err (*start)(struct tb_req *req);
    /* Generalized: fills the status when the request is completed. */
    tb_err (*query)(struct tb_req *req, MPI_Status *status);
    tb_err (*cancel)(struct tb_req *req);
    /* Frees what the maker allocated, `more` included. The request itself is
     * freed by the caller afterwards. A persistent request is inactive then. */
    tb_err (*free)(struct tb_req *req);
};

struct tb_more {
    const struct tb_more_ops *ops;
    bool persistent;
    bool active; /* persistent: started, completion not yet reported */
};

/*
 * Makes a request one that a user can hold: gives it a handle, and `comm`
 * (NULL: none) as the object whose error handler hears of its failure. Called
 * by the bindings for each request they hand out, so by nobody else. On failure
 * the request is freed. NULL is fine: MPI_REQUEST_NULL.
 */
tb_err tb_req_publish(struct tb_req *req, struct tb_comm *comm);

/* A request that is complete from the start (PROC_NULL, empty collectives). */
tb_err tb_req_complete(struct tb_req **out);

/* Frees a request and what belongs to it. One that is not done goes on in the
 * background. */
void tb_req_release(struct tb_req *req);

#endif
