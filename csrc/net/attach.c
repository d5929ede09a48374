/* SPDX-License-Identifier: MIT */
/*
 * Three ways to the machine's segment. tbmpirun hands it over as a descriptor
 * and nothing needs to be said. Under another launcher the ranks swap cards,
 * and the first of each machine makes the segment for the others to attach.
 * A job of one has none.
 */
#include "net/attach.h"

#include <stdio.h>
#include <unistd.h>

#define HOST_BYTES 64

struct card {
    uint64_t host_id;
    char host[HOST_BYTES];
};

static tb_err no_memory(void)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for the table of ranks");
}

static tb_err join_descriptor(struct tb_machine *m, int fd, int rank)
{
    m->place = rank;
    TB_TRY(tb_segment_find(&m->segment, &m->bytes, fd, m->places));
    close(fd);
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

tb_err tb_machine_join(struct tb_machine *out, const struct tb_config *config,
                       struct tb_boot *boot)
{
    size_t size = (size_t)tb_boot_size(boot);
    struct tb_machine m = {.places = (int)size};
    tb_err err = TB_OK;

    m.local = tb_calloc(size, sizeof(*m.local));
    m.node = tb_calloc(size, sizeof(*m.node));
    m.place_of = tb_calloc(size, sizeof(*m.place_of));
    if (!m.local || !m.node || !m.place_of) {
        err = no_memory();
    } else if (config->shm_fd >= 0 && tb_boot_launched(boot)) {
        for (size_t i = 0; i < size; i++)
            m.local[i] = (int)i;
        err = join_descriptor(&m, (int)config->shm_fd, tb_boot_rank(boot));
    } else if (size > 1) {
        err = join_by_cards(&m, boot);
    }
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
    tb_free(m->local);
    tb_free(m->node);
    tb_free(m->place_of);
    memset(m, 0, sizeof(*m));
}
