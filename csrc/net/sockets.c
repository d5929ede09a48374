/* SPDX-License-Identifier: MIT */
#include "net/sockets.h"

#include <fcntl.h>
#include <unistd.h>

#define MOURN_NS 500000000 /* more than news takes through the launcher */

/* Inherited descriptors must not be inherited further, nor ever block. */
static tb_err claim(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
        fcntl(fd, F_SETFD, FD_CLOEXEC))
        return tb_fail_errno("descriptor %d of the job's plan", fd);
    return TB_OK;
}

static tb_err hear(struct tb_sockets *s, const struct tb_machine *m,
                   const struct tb_segment_plan *plan, struct tb_bell *own)
{
    TB_TRY(claim(s->job->ear));
    for (int i = 0; i < m->places; i++) {
        int fd = s->job->bell[m->local[i]];
        s->bell[i] = own;
        if (i != m->place)
            s->bell[i] = &tb_segment_rank(m->segment, plan, i)->bell;
        TB_TRY(claim(fd));
        TB_TRY(tb_bell_pipe(s->bell[i], fd));
        s->bells++;
    }
    return TB_OK;
}

tb_err tb_sockets_open(struct tb_sockets *out, const struct tb_machine *m,
                       const struct tb_segment_plan *plan, struct tb_bell *own)
{
    const struct tb_plan *job = m->job;

    if (!job || !job->sockets || job->nodes == 1)
        return TB_OK;
    out->job = job;
    out->host = tb_calloc((size_t)job->size, sizeof(*out->host));
    out->bell = tb_calloc((size_t)m->places, sizeof(*out->bell));
    if (!out->host || !out->bell)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the job's sockets");
    for (int i = 0; i < job->size; i++)
        out->host[i] = job->node[job->node_of[i]].name;
    TB_TRY(hear(out, m, plan, own));
    out->args = (struct tb_tcp_args){
        .socket = job->link,
        .host = out->host,
        .build = TB_VERSION,
        .ear = job->ear,
        .mourn_ns = MOURN_NS,
    };
    return TB_OK;
}

void tb_sockets_close(struct tb_sockets *s)
{
    for (int i = 0; i < s->bells; i++)
        tb_bell_forget(s->bell[i]);
    if (s->job) {
        for (int i = 0; i < s->job->size; i++) {
            if (s->job->bell[i] >= 0)
                close(s->job->bell[i]);
        }
        close(s->job->ear);
    }
    tb_free(s->host);
    tb_free(s->bell);
    memset(s, 0, sizeof(*s));
}
