/* SPDX-License-Identifier: MIT */
#include "net/owner.h"

static void describe_cables(struct tb_owner *o, const struct tb_plan *plan)
{
    for (int i = 0; i < plan->cables; i++) {
        const struct tb_plan_cable *c = &plan->cable[i];
        int side = c->node[0] == plan->self ? 0 : 1, peer = c->node[!side];
        struct tb_cable *to = &o->cables[o->args.n_cables];

        if (c->node[side] != plan->self)
            continue;
        to->id = i;
        to->peer = tb_plan_owner(plan, peer);
        to->peer_name = plan->node[peer].name;
        to->device = c->device[side];
        memcpy(to->gid, c->gid[side], sizeof(to->gid));
        memcpy(to->peer_gid, c->gid[!side], sizeof(to->peer_gid));
        to->wire = c->wire;
        o->args.n_cables++;
    }
}

static void describe_mgmt(struct tb_owner *o, const struct tb_plan *plan)
{
    for (int k = 0; k < plan->nodes; k++) {
        struct tb_mgmt *to = &o->mgmt[o->args.n_mgmt];
        if (k == plan->self)
            continue;
        to->peer = tb_plan_owner(plan, k);
        to->name = plan->node[k].name;
        to->fd = plan->node[k].mgmt;
        o->args.n_mgmt++;
    }
}

static tb_err check_sockets(const struct tb_owner *o)
{
    for (int i = 0; i < o->args.n_cables; i++) {
        if (o->cables[i].wire < 0)
            return tb_fail(TB_ERR_PROTOCOL,
                           "the job's plan has no wire for cable %d, which "
                           "ends at this node",
                           o->cables[i].id);
    }
    for (int i = 0; i < o->args.n_mgmt; i++) {
        if (o->mgmt[i].fd < 0)
            return tb_fail(TB_ERR_PROTOCOL,
                           "the job's plan has no connection to node %s",
                           o->mgmt[i].name);
    }
    return TB_OK;
}

tb_err tb_owner_open(struct tb_owner *out, const struct tb_config *config,
                     const struct tb_plan *plan, int fd, size_t bytes,
                     int ranks)
{
    out->cables = tb_calloc((size_t)plan->cables + 1, sizeof(*out->cables));
    out->mgmt = tb_calloc((size_t)plan->nodes, sizeof(*out->mgmt));
    if (!out->cables || !out->mgmt)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the job's cables");
    describe_cables(out, plan);
    describe_mgmt(out, plan);
    TB_TRY(check_sockets(out));
    if (fd >= 0)
        TB_TRY(tb_share_size(fd, &bytes));
    TB_TRY(tb_verbs_open(&out->verbs, config->librdma));
    TB_TRY(tb_regpool_open(&out->pool, fd, bytes, ranks));
    out->args.verbs = out->verbs;
    out->args.pool = out->pool;
    out->args.name = plan->node[plan->self].name;
    out->args.build = TB_VERSION;
    out->args.cables = out->cables;
    out->args.mgmt = out->mgmt;
    out->args.relay = TB_MAX(plan->relay, 0);
    return TB_OK;
}

void tb_owner_close(struct tb_owner *owner)
{
    tb_regpool_close(owner->pool);
    tb_verbs_close(owner->verbs);
    tb_free(owner->cables);
    tb_free(owner->mgmt);
    memset(owner, 0, sizeof(*owner));
}
