/* SPDX-License-Identifier: MIT */
/*
 * Requests as MPI sees them: completing one, any, some or all of them.
 *
 * What "complete" means depends on the request: an ordinary one is freed and
 * its handle set to null, a persistent one becomes inactive and stays. Null and
 * inactive requests are complete and have the empty status.
 */
#include "mpi/request.h"

#include "mpi/api.h"
#include "mpi/errh.h"
#include "mpi/status.h"
#include "mpi/world.h"

tb_err tb_req_publish(struct tb_req *req, struct tb_comm *comm)
{
    if (!req)
        return TB_OK;
    if (!req->comm)
        req->comm = tb_comm_ref(comm);
    tb_err err = tb_handle_new_req(req);
    if (err)
        tb_req_release(req);
    return err;
}

tb_err tb_req_complete(struct tb_req **out)
{
    TB_TRY(tb_req_task(tb_world.engine, out));
    (*out)->done = true;
    return TB_OK;
}

static tb_err free_more(struct tb_req *req)
{
    struct tb_more *more = req->more;
    return more && more->ops->free ? more->ops->free(req) : TB_OK;
}

/* Frees what the handle stands for; returns what a free callback said. */
static tb_err release(struct tb_req *req)
{
    tb_err err = free_more(req);
    struct tb_comm *comm = req->comm;
    if (req->handle)
        tb_handle_drop_req(req);
    tb_req_free(req);
    tb_comm_unref(comm);
    return err;
}

void tb_req_release(struct tb_req *req)
{
    release(req);
}

static void release_done(struct tb_req *req)
{
    release(req);
}

static bool is_inactive(const struct tb_req *req)
{
    const struct tb_more *more = req->more;
    return more && more->persistent && !more->active;
}

/* The request behind a handle; NULL for what is complete and empty. */
static tb_err find(MPI_Request handle, struct tb_req **out)
{
    *out = NULL;
    if (handle == MPI_REQUEST_NULL)
        return TB_OK;
    struct tb_req *req;
    TB_TRY(tb_req_get(handle, &req));
    if (!is_inactive(req))
        *out = req;
    return TB_OK;
}

static tb_err tell(struct tb_req *req, MPI_Status *status)
{
    const struct tb_more *more = req->more;
    if (more && more->ops->query)
        return more->ops->query(req, status);
    tb_status_result(status, &req->result);
    return tb_result_error(&req->result);
}

/* Reports a request that is done, and ends it. */
static tb_err end(MPI_Request *handle, struct tb_req *req, MPI_Status *status)
{
    struct tb_more *more = req->more;
    tb_err err = tell(req, status);
    if (TB_UNLIKELY(err))
        tb_errh_blame(req->comm);
    if (more && more->persistent) {
        more->active = false;
        return err;
    }
    *handle = MPI_REQUEST_NULL;
    tb_err free_err = release(req);
    return err ? err : free_err;
}

tb_err tb_wait(MPI_Request *request, MPI_Status *status)
{
    struct tb_req *req;
    TB_TRY(find(*request, &req));
    if (!req) {
        tb_status_empty(status);
        return TB_OK;
    }
    tb_err err = tb_engine_wait(tb_world.engine, req);
    if (TB_UNLIKELY(err)) {
        tb_errh_blame(req->comm);
        return err;
    }
    return end(request, req, status);
}

/* A test that came out false: an error that concerns everybody is told, too. */
static tb_err tested(struct tb_comm *comm)
{
    tb_err err = tb_engine_tested(tb_world.engine);
    if (TB_UNLIKELY(err) && comm)
        tb_errh_blame(comm);
    return err;
}

/* One look at the network for a test that would fail otherwise. */
static bool look(struct tb_req *req)
{
    if (!req->done)
        tb_engine_poll(tb_world.engine);
    return req->done;
}

tb_err tb_test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct tb_req *req;
    TB_TRY(find(*request, &req));
    *flag = 1;
    if (!req) {
        tb_status_empty(status);
        return TB_OK;
    }
    if (look(req))
        return end(request, req, status);
    *flag = 0;
    return tested(req->comm);
}

/* -------------------------------------------------------------------- all */

static MPI_Status *status_at(MPI_Status *statuses, int i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

static void set_error(MPI_Status *status, int code)
{
    if (status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = code;
}

static tb_err check_array(int n, const MPI_Request handles[])
{
    if (n && !handles)
        return tb_fail(TB_ERR_ARG, "array_of_requests must not be NULL");
    return TB_OK;
}

static tb_err check_all(int n, const MPI_Request handles[])
{
    struct tb_req *req;
    TB_TRY(check_array(n, handles));
    for (int i = 0; i < n; i++)
        if (handles[i] != MPI_REQUEST_NULL)
            TB_TRY(tb_req_get(handles[i], &req));
    return TB_OK;
}

/* Arrays are worked on in pieces, so that each handle is looked up once. */
enum { BATCH = 64 };

static tb_err find_batch(int n, const MPI_Request handles[],
                         struct tb_req *reqs[])
{
    for (int i = 0; i < n; i++)
        TB_TRY(find(handles[i], &reqs[i]));
    return TB_OK;
}

/* The ends of all requests of an array, which are done. Error codes go into the
 * statuses only when there is a failure, and then into all of them. */
struct endings {
    MPI_Request *handles;
    MPI_Status *statuses;
    bool failed;
};

static void end_next(struct endings *e, int i, struct tb_req *req)
{
    MPI_Status *s = status_at(e->statuses, i);
    tb_err err = TB_OK;
    if (req)
        err = end(&e->handles[i], req, s);
    else
        tb_status_empty(s);
    if (TB_LIKELY(!err && !e->failed))
        return;
    for (int k = 0; !e->failed && k < i; k++)
        set_error(status_at(e->statuses, k), MPI_SUCCESS);
    e->failed = true;
    set_error(s, tb_errh_code(err));
}

tb_err tb_waitall(int count, MPI_Request array_of_requests[],
                  MPI_Status array_of_statuses[])
{
    struct endings e = {array_of_requests, array_of_statuses, false};
    struct tb_req *reqs[BATCH];
    TB_TRY(check_array(count, array_of_requests));
    for (int at = 0; at < count; at += BATCH) {
        int n = TB_MIN(count - at, BATCH);
        TB_TRY(find_batch(n, array_of_requests + at, reqs));
        for (int i = 0; i < n; i++) {
            tb_err err = TB_OK;
            if (reqs[i] && !reqs[i]->done)
                err = tb_engine_wait(tb_world.engine, reqs[i]);
            if (TB_UNLIKELY(err)) {
                tb_errh_blame(reqs[i]->comm);
                return err;
            }
        }
        for (int i = 0; i < n; i++)
            end_next(&e, at + i, reqs[i]);
    }
    return e.failed ? TB_ERR_IN_STATUS : TB_OK;
}

static tb_err all_done(int n, const MPI_Request handles[], bool *done)
{
    struct tb_req *req = NULL;
    *done = true;
    for (int i = 0; i < n && *done; i++) {
        TB_TRY(find(handles[i], &req));
        if (req)
            *done = look(req);
    }
    return *done ? TB_OK : tested(req ? req->comm : NULL);
}

tb_err tb_testall(int count, MPI_Request array_of_requests[], int *flag,
                  MPI_Status array_of_statuses[])
{
    bool done;
    TB_TRY(check_all(count, array_of_requests));
    TB_TRY(all_done(count, array_of_requests, &done));
    *flag = done;
    struct endings e = {array_of_requests, array_of_statuses, false};
    for (int i = 0; done && i < count; i++) {
        struct tb_req *req;
        TB_TRY(find(array_of_requests[i], &req));
        end_next(&e, i, req);
    }
    return e.failed ? TB_ERR_IN_STATUS : TB_OK;
}

/* -------------------------------------------------------------------- any */

struct search {
    int n;
    const MPI_Request *handles;
    int found;   /* first that is done; -1: none yet */
    bool active; /* there is one to wait for */
};

/* The first request that is done. */
static bool search_done(void *arg)
{
    struct search *s = arg;
    s->active = false;
    s->found = -1;
    for (int i = 0; i < s->n; i++) {
        struct tb_req *req;
        if (find(s->handles[i], &req) || !req)
            continue;
        s->active = true;
        if (req->done) {
            s->found = i;
            return true;
        }
    }
    return !s->active;
}

static tb_err end_any(const struct search *s, MPI_Request handles[], int *indx,
                      MPI_Status *status)
{
    struct tb_req *req;
    *indx = MPI_UNDEFINED;
    if (s->found < 0) {
        tb_status_empty(status);
        return TB_OK;
    }
    *indx = s->found;
    TB_TRY(find(handles[s->found], &req));
    return end(&handles[s->found], req, status);
}

tb_err tb_waitany(int count, MPI_Request array_of_requests[], int *indx,
                  MPI_Status *status)
{
    struct search s = {.n = count, .handles = array_of_requests};
    TB_TRY(check_all(count, array_of_requests));
    TB_TRY(tb_engine_wait_until(tb_world.engine, search_done, &s));
    return end_any(&s, array_of_requests, indx, status);
}

/* Searches, and once more after a look at the network; *done as search_done. */
static tb_err search_now(struct search *s, bool *done)
{
    *done = search_done(s);
    if (*done)
        return TB_OK;
    tb_engine_poll(tb_world.engine);
    *done = search_done(s);
    return *done ? TB_OK : tested(NULL);
}

tb_err tb_testany(int count, MPI_Request array_of_requests[], int *indx,
                  int *flag, MPI_Status *status)
{
    struct search s = {.n = count, .handles = array_of_requests};
    bool done;
    TB_TRY(check_all(count, array_of_requests));
    TB_TRY(search_now(&s, &done));
    *flag = done;
    if (done)
        return end_any(&s, array_of_requests, indx, status);
    *indx = MPI_UNDEFINED;
    return TB_OK;
}

/* ------------------------------------------------------------------- some */

static tb_err end_some(const struct search *s, MPI_Request handles[],
                       int *outcount, int indices[], MPI_Status statuses[])
{
    bool failed = false;
    int n = 0;
    if (!s->active) {
        *outcount = MPI_UNDEFINED;
        return TB_OK;
    }
    for (int i = 0; i < s->n; i++) {
        struct tb_req *req;
        TB_TRY(find(handles[i], &req));
        if (!req || !req->done)
            continue;
        tb_err err = end(&handles[i], req, status_at(statuses, n));
        if (TB_UNLIKELY(err) && !failed)
            for (int k = 0; k < n; k++)
                set_error(status_at(statuses, k), MPI_SUCCESS);
        failed |= err != TB_OK;
        if (TB_UNLIKELY(failed))
            set_error(status_at(statuses, n), tb_errh_code(err));
        indices[n++] = i;
    }
    *outcount = n;
    return failed ? TB_ERR_IN_STATUS : TB_OK;
}

tb_err tb_waitsome(int incount, MPI_Request array_of_requests[], int *outcount,
                   int array_of_indices[], MPI_Status array_of_statuses[])
{
    struct search s = {.n = incount, .handles = array_of_requests};
    TB_TRY(check_all(incount, array_of_requests));
    TB_TRY(tb_engine_wait_until(tb_world.engine, search_done, &s));
    return end_some(&s, array_of_requests, outcount, array_of_indices,
                    array_of_statuses);
}

tb_err tb_testsome(int incount, MPI_Request array_of_requests[], int *outcount,
                   int array_of_indices[], MPI_Status array_of_statuses[])
{
    struct search s = {.n = incount, .handles = array_of_requests};
    bool done;
    TB_TRY(check_all(incount, array_of_requests));
    TB_TRY(search_now(&s, &done));
    return end_some(&s, array_of_requests, outcount, array_of_indices,
                    array_of_statuses);
}

/* ------------------------------------------------- start, cancel and free */

tb_err tb_start(MPI_Request *request)
{
    struct tb_req *req;
    TB_TRY(tb_req_get(*request, &req));
    struct tb_more *more = req->more;
    if (!more || !more->persistent)
        return tb_fail(TB_ERR_REQUEST, "only a persistent request can be "
                                       "started");
    if (more->active)
        return tb_fail(TB_ERR_REQUEST, "the request is active already: "
                                       "complete it before starting it again");
    more->active = true;
    req->done = false;
    req->result =
        (struct tb_result){.source = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG};
    tb_err err = more->ops->start(req);
    if (err) {
        more->active = false;
        req->done = true;
        tb_errh_blame(req->comm);
    }
    return err;
}

tb_err tb_startall(int count, MPI_Request array_of_requests[])
{
    if (count < 0)
        return tb_fail(TB_ERR_COUNT, "count is %d", count);
    for (int i = 0; i < count; i++)
        TB_TRY(tb_start(&array_of_requests[i]));
    return TB_OK;
}

tb_err tb_cancel(MPI_Request *request)
{
    struct tb_req *req;
    TB_TRY(tb_req_get(*request, &req));
    const struct tb_more *more = req->more;
    if (more)
        return more->ops->cancel ? more->ops->cancel(req) : TB_OK;
    return tb_engine_cancel(req);
}

/* What its maker completes is freed when he has; until then the handle still
 * serves MPI_Grequest_complete. */
tb_err tb_request_free(MPI_Request *request)
{
    struct tb_req *req;
    TB_TRY(tb_req_get(*request, &req));
    *request = MPI_REQUEST_NULL;
    if (!req->done && req->more) {
        req->on_done = release_done;
        return TB_OK;
    }
    return release(req);
}

/* ------------------------------------------------------------- get_status */

tb_err tb_request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    struct tb_req *req;
    TB_TRY(find(request, &req));
    *flag = 1;
    if (!req) {
        tb_status_empty(status);
        return TB_OK;
    }
    *flag = look(req);
    if (*flag)
        return tell(req, status);
    return tested(req->comm);
}

tb_err tb_request_get_status_all(int count,
                                 const MPI_Request array_of_requests[],
                                 int *flag, MPI_Status array_of_statuses[])
{
    bool done;
    TB_TRY(check_all(count, array_of_requests));
    TB_TRY(all_done(count, array_of_requests, &done));
    *flag = done;
    for (int i = 0; done && i < count; i++) {
        int one;
        TB_TRY(tb_request_get_status(array_of_requests[i], &one,
                                     status_at(array_of_statuses, i)));
    }
    return TB_OK;
}

tb_err tb_request_get_status_any(int count,
                                 const MPI_Request array_of_requests[],
                                 int *indx, int *flag, MPI_Status *status)
{
    struct search s = {.n = count, .handles = array_of_requests};
    struct tb_req *req;
    bool done;
    TB_TRY(check_all(count, array_of_requests));
    *indx = MPI_UNDEFINED;
    TB_TRY(search_now(&s, &done));
    *flag = done;
    if (!done)
        return TB_OK;
    if (s.found < 0) {
        tb_status_empty(status);
        return TB_OK;
    }
    *indx = s.found;
    TB_TRY(find(array_of_requests[s.found], &req));
    return tell(req, status);
}

tb_err tb_request_get_status_some(int incount,
                                  const MPI_Request array_of_requests[],
                                  int *outcount, int array_of_indices[],
                                  MPI_Status array_of_statuses[])
{
    struct search s = {.n = incount, .handles = array_of_requests};
    int n = 0;
    bool done;
    TB_TRY(check_all(incount, array_of_requests));
    TB_TRY(search_now(&s, &done));
    if (!s.active) {
        *outcount = MPI_UNDEFINED;
        return TB_OK;
    }
    for (int i = 0; i < incount; i++) {
        struct tb_req *req;
        TB_TRY(find(array_of_requests[i], &req));
        if (!req || !req->done)
            continue;
        TB_TRY(tell(req, status_at(array_of_statuses, n)));
        array_of_indices[n++] = i;
    }
    *outcount = n;
    return TB_OK;
}
