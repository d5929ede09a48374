/* SPDX-License-Identifier: MIT */
/*
 * Three ways to the machine's segment. tbmpirun hands it over as a descriptor,
 * where the job has several machines with its plan and the router's pool, and
 * nothing needs to be said. Under another launcher the ranks swap cards, and
 * the first of each machine makes the segment for the others to attach. A job
 * of one has none.
 */
#include "net/attach.h"
#include "net/relay.h"

#include <stdio.h>
#include <unistd.h>

#define HOST_BYTES 64
#define ANCESTORS_MOST 32

struct card {
    uint64_t host_id;
    char host[HOST_BYTES];
};

static tb_err no_memory(void)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for the table of ranks");
}

static tb_err join_descriptor(struct tb_machine *m, int fd)
{
    TB_TRY(tb_segment_find(&m->segment, &m->bytes, fd, m->places));
    close(fd);
    return TB_OK;
}

/* ------------------------------------------------------- several machines */

/* A wrapper may have closed the descriptor on its way here: then an ancestor
 * still has it, which Linux lets us look at. *pid: whose it was; 0: ours. */
static tb_err find_plan(struct tb_plan **out, int fd, uint32_t *pid)
{
    uint32_t parent = (uint32_t)getppid();
    int copy;

    *pid = 0;
    if (!tb_plan_read(out, fd))
        return TB_OK;
    for (int i = 0; parent > 1 && i < ANCESTORS_MOST; i++) {
        tb_err err = tb_share_reopen(parent, fd, &copy);
        if (!err) {
            err = tb_plan_read(out, copy);
            close(copy);
        }
        *pid = parent;
        if (!err)
            return TB_OK;
        parent = tb_process_parent(parent);
    }
    return tb_plan_read(out, fd); /* says once more what is wrong */
}

static tb_err find_pool(struct tb_machine *m, int fd, uint32_t pid)
{
    int copy = fd;
    tb_err err;

    if (fd < 0)
        return tb_fail(TB_ERR_SYSTEM,
                       "this node has a router but TBMPI_POOL_FD is not set");
    if (pid)
        TB_TRY(tb_share_reopen(pid, fd, &copy));
    err = tb_relay_map(&m->pool, &m->pool_bytes, copy, m->places);
    if (pid || !err)
        close(copy);
    return err;
}

static tb_err check_plan(const struct tb_plan *p, int rank, int size)
{
    if (p->size != size)
        return tb_fail(TB_ERR_PROTOCOL,
                       "the job's plan is for %d ranks but the launcher says "
                       "%d",
                       p->size, size);
    if (p->node_of[rank] != p->self)
        return tb_fail(TB_ERR_PROTOCOL,
                       "the job's plan is that of node %d but rank %d is on "
                       "node %d",
                       p->self, rank, p->node_of[rank]);
    return TB_OK;
}

static tb_err join_plan(struct tb_machine *m, const struct tb_config *config,
                        int rank, int size)
{
    const struct tb_plan_node *here;
    uint32_t pid;

    TB_TRY(find_plan(&m->job, (int)config->plan_fd, &pid));
    TB_TRY(check_plan(m->job, rank, size));
    tb_routes_init(&m->cables, m->job);
    if (!pid)
        close((int)config->plan_fd);
    here = &m->job->node[m->job->self];
    m->places = here->n;
    for (int i = 0; i < here->n; i++) {
        m->local[i] = here->ranks[i];
        if (here->ranks[i] == rank)
            m->place = i;
    }
    memcpy(m->node, m->job->node_of, (size_t)size * sizeof(*m->node));
    if (config->shm_fd >= 0)
        TB_TRY(join_descriptor(m, (int)config->shm_fd));
    else if (m->places > 1 || !m->job->owner_rank)
        return tb_fail(TB_ERR_SYSTEM, "this job has a plan but no segment: "
                                      "TBMPI_SHM_FD is not set");
    if (m->job->owner_rank)
        return TB_OK;
    if (!m->job->sockets)
        return find_pool(m, (int)config->pool_fd, pid);
    if (pid)
        return tb_fail(TB_ERR_SYSTEM,
                       "the connections to other machines are closed: a "
                       "script or program between the launcher and this one "
                       "closes inherited descriptors; start the program "
                       "directly, or let that wrapper leave them open");
    return TB_OK;
}

/* ------------------------------------------------------- another launcher */

static tb_err put_card(struct tb_boot *boot)
{
    struct card card = {.host_id = tb_host_id()};
    char key[32];

    tb_host_name(card.host, sizeof(card.host));
    snprintf(key, sizeof(key), "card-%d", tb_boot_rank(boot));
    return tb_boot_put(boot, key, &card, sizeof(card));
}

static tb_err get_card(struct tb_boot *boot, int rank, struct card *out)
{
    char key[32];
    size_t bytes;

    snprintf(key, sizeof(key), "card-%d", rank);
    TB_TRY(tb_boot_get(boot, key, out, sizeof(*out), &bytes));
    if (bytes != sizeof(*out))
        return tb_fail(TB_ERR_PROTOCOL,
                       "rank %d speaks another version of tbmpi: all ranks of "
                       "a job need the same one",
                       rank);
    out->host[HOST_BYTES - 1] = 0;
    return TB_OK;
}

static tb_err read_cards(struct tb_machine *m, struct tb_boot *boot)
{
    struct card mine = {0}, card;
    int self = tb_boot_rank(boot), size = tb_boot_size(boot);

    TB_TRY(get_card(boot, self, &mine));
    m->places = 0;
    for (int r = 0; r < size; r++) {
        TB_TRY(get_card(boot, r, &card));
        if (card.host_id != mine.host_id)
            return tb_fail(TB_ERR_NOTSUP,
                           "rank %d is on %s and rank %d on %s: this build "
                           "joins the ranks of one machine only; start all of "
                           "them on one host",
                           self, mine.host, r, card.host);
        if (r == self)
            m->place = m->places;
        m->local[m->places++] = r;
    }
    return TB_OK;
}

static tb_err make_segment(struct tb_machine *m, struct tb_share *share)
{
    struct tb_segment_head *head;
    tb_err err;

    TB_TRY(tb_share_make(share, m->bytes));
    err = tb_share_attach(share, m->bytes, &m->segment);
    if (err) {
        tb_share_release(share);
        return err;
    }
    head = m->segment;
    head->ranks = (uint32_t)m->places;
    head->maker = (uint32_t)getppid();
    head->magic = TB_SEGMENT_MAGIC;
    return TB_OK;
}

static tb_err attach_segment(struct tb_machine *m, struct tb_boot *boot,
                             const char *key)
{
    struct tb_share share;
    size_t bytes;

    TB_TRY(tb_boot_get(boot, key, &share, sizeof(share), &bytes));
    share.name[sizeof(share.name) - 1] = 0;
    return tb_share_attach(&share, m->bytes, &m->segment);
}

/* The maker keeps it open until all have attached. A rank that fails on the
 * way takes the job with it. */
static tb_err join_by_cards(struct tb_machine *m, struct tb_boot *boot)
{
    struct tb_share share;
    char key[32];
    tb_err err;

    TB_TRY(put_card(boot));
    TB_TRY(tb_boot_fence(boot));
    TB_TRY(read_cards(m, boot));
    if (m->places == 1)
        return TB_OK;
    m->bytes = (size_t)m->places * TB_SEGMENT_PER_RANK;
    snprintf(key, sizeof(key), "segment-%d", m->local[0]);
    if (m->place > 0) {
        TB_TRY(tb_boot_fence(boot));
        TB_TRY(attach_segment(m, boot, key));
        return tb_boot_fence(boot);
    }
    TB_TRY(make_segment(m, &share));
    err = tb_boot_put(boot, key, &share, sizeof(share));
    if (!err)
        err = tb_boot_fence(boot);
    if (!err)
        err = tb_boot_fence(boot);
    tb_share_release(&share);
    return err;
}

/* All ranks must divide the segment alike: the first one says how. */
static tb_err agree_on_rings(struct tb_machine *m, const struct tb_config *c)
{
    struct tb_segment_head *head = m->segment;
    struct tb_segment_plan plan;
    uint32_t seen = 0, mine;

    TB_TRY(tb_segment_plan(&plan, m->places, m->bytes, (size_t)c->ring));
    mine = (uint32_t)plan.ring_bytes + 1;
    if (atomic_compare_exchange_strong(&head->ring, &seen, mine) ||
        seen == mine)
        return TB_OK;
    return tb_fail(TB_ERR_NOT_SAME,
                   "TBMPI_RING differs between the ranks of this job: here "
                   "the rings have %u bytes, elsewhere %u; give all ranks the "
                   "same value",
                   mine - 1, seen - 1);
}

/* As tbmpirun starts ranks on one machine. */
static tb_err join_segment(struct tb_machine *m, const struct tb_config *config,
                           int rank, int size)
{
    for (int i = 0; i < size; i++)
        m->local[i] = i;
    m->place = rank;
    return join_descriptor(m, (int)config->shm_fd);
}

static tb_err join(struct tb_machine *m, const struct tb_config *config,
                   struct tb_boot *boot)
{
    int rank = tb_boot_rank(boot), size = tb_boot_size(boot);

    if (!m->local || !m->node || !m->place_of)
        return no_memory();
    if (config->plan_fd >= 0 && tb_boot_launched(boot))
        return join_plan(m, config, rank, size);
    if (config->shm_fd >= 0 && tb_boot_launched(boot))
        return join_segment(m, config, rank, size);
    return size > 1 ? join_by_cards(m, boot) : TB_OK;
}

tb_err tb_machine_join(struct tb_machine *out, const struct tb_config *config,
                       struct tb_boot *boot)
{
    size_t size = (size_t)tb_boot_size(boot);
    struct tb_machine m = {.places = (int)size};
    tb_err err;

    m.local = tb_calloc(size, sizeof(*m.local));
    m.node = tb_calloc(size, sizeof(*m.node));
    m.place_of = tb_calloc(size, sizeof(*m.place_of));
    err = join(&m, config, boot);
    if (!err && m.segment) {
        err = agree_on_rings(&m, config);
        tb_process_admit(((struct tb_segment_head *)m.segment)->maker);
    }
    for (int i = 0; !err && i < m.places; i++)
        m.place_of[m.local[i]] = i;
    *out = m;
    return err;
}

void tb_machine_leave(struct tb_machine *m)
{
    tb_share_unmap(m->segment, m->bytes);
    tb_share_unmap(m->pool, m->pool_bytes);
    tb_plan_free(m->job);
    tb_free(m->local);
    tb_free(m->node);
    tb_free(m->place_of);
    memset(m, 0, sizeof(*m));
}
