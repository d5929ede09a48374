/* SPDX-License-Identifier: MIT */
/*
 * Three ways to the machine's segment. tbmpirun hands it over as a descriptor
 * and nothing needs to be said. Under another launcher the ranks swap cards,
 * the first of each machine makes the segment under a name, and the name goes
 * away as soon as all have attached. A job of one has none.
 */
#include "net/attach.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define NAME_BYTES 32 /* macOS: 31 characters, the slash included */
#define HOST_BYTES 64

struct card {
    uint64_t host_id;
    char host[HOST_BYTES];
};

static tb_err no_memory(void)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for the table of %s", "ranks");
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

static tb_err make_segment(struct tb_machine *m, char *name, size_t room)
{
    struct tb_segment_head *head;

    snprintf(name, room, "/tbmpi-%d-%08" PRIx32, (int)getpid(),
             (uint32_t)tb_random());
    TB_TRY(tb_share_make(name, m->bytes, &m->segment));
    head = m->segment;
    head->ranks = (uint32_t)m->places;
    head->maker = (uint32_t)getppid();
    head->magic = TB_SEGMENT_MAGIC;
    return TB_OK;
}

/* The name lives from make_segment to the second fence; a rank that fails in
 * between takes the job with it, and the maker still takes the name away. */
static tb_err join_by_name(struct tb_machine *m, struct tb_boot *boot)
{
    bool maker;
    char key[32], name[NAME_BYTES] = "";
    size_t bytes = 0;
    tb_err err = TB_OK;

    TB_TRY(put_card(boot));
    TB_TRY(tb_boot_fence(boot));
    TB_TRY(read_cards(m, boot));
    if (m->places == 1)
        return TB_OK;
    m->bytes = (size_t)m->places * TB_SEGMENT_PER_RANK;
    maker = m->place == 0;
    snprintf(key, sizeof(key), "segment-%d", m->local[0]);
    if (maker) {
        TB_TRY(make_segment(m, name, sizeof(name)));
        err = tb_boot_put(boot, key, name, sizeof(name));
    }
    if (!err)
        err = tb_boot_fence(boot);
    if (!err && !maker)
        err = tb_boot_get(boot, key, name, sizeof(name), &bytes);
    if (!err && !maker) {
        name[sizeof(name) - 1] = 0;
        err = tb_share_attach(name, m->bytes, &m->segment);
    }
    if (!err)
        err = tb_boot_fence(boot);
    if (maker)
        tb_share_unname(name);
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
    if (!m.local || !m.node) {
        err = no_memory();
    } else if (config->shm_fd >= 0 && tb_boot_launched(boot)) {
        for (size_t i = 0; i < size; i++)
            m.local[i] = (int)i;
        err = join_descriptor(&m, (int)config->shm_fd, tb_boot_rank(boot));
    } else if (size > 1) {
        err = join_by_name(&m, boot);
    }
    if (!err && m.segment) {
        err = agree_on_rings(&m, config);
        tb_process_admit(((struct tb_segment_head *)m.segment)->maker);
    }
    *out = m;
    return err;
}

void tb_machine_leave(struct tb_machine *m)
{
    tb_share_unmap(m->segment, m->bytes);
    tb_free(m->local);
    tb_free(m->node);
    m->segment = NULL;
    m->local = m->node = NULL;
}
