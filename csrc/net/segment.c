/* SPDX-License-Identifier: MIT */
#include "net/segment.h"

#include <unistd.h>

#define RING_MOST ((size_t)2 << 20)
#define RING_LEAST ((size_t)4 << 10)
#define COMMONS_MOST ((size_t)256 << 10)
#define COMMONS_SHARE 8 /* at most one part in so many of the segment */

tb_err tb_segment_plan(struct tb_segment_plan *out, int ranks, size_t bytes,
                       size_t ring)
{
    size_t n = (size_t)ranks, pairs = n * (n - 1), room;

    out->board = TB_SEGMENT_HEAD;
    out->ranks = tb_round_up(out->board + n * TB_NOTE_BYTES, TB_PAGE);
    out->rank_bytes =
        sizeof(struct tb_rank_block) + tb_round_up((n + 63) / 64 * 8, TB_LINE);
    out->commons = tb_round_up(out->ranks + n * out->rank_bytes, TB_PAGE);
    room = bytes / n / COMMONS_SHARE;
    out->commons_bytes = TB_MIN(room, COMMONS_MOST) & ~(size_t)(TB_LINE - 1);
    out->rings = tb_round_up(out->commons + n * out->commons_bytes, TB_PAGE);
    room = bytes > out->rings ? bytes - out->rings : 0;
    out->ring_bytes = pairs ? room / pairs : 0;
    ring = tb_round_up(ring ? TB_MAX(ring, RING_LEAST) : RING_MOST, TB_LINE);
    out->ring_bytes = TB_MIN(out->ring_bytes, ring + TB_LINE);
    out->ring_bytes &= ~(size_t)(TB_LINE - 1);
    if (bytes < out->rings || (pairs && out->ring_bytes < RING_LEAST))
        return tb_fail(TB_ERR_NO_SPACE,
                       "a shared segment of %zu bytes is too small for %d "
                       "ranks on one machine; run fewer ranks here",
                       bytes, ranks);
    return TB_OK;
}

/* -------------------------------------------------------------- processors */

/* Release: who counts this process sees its processors. */
void tb_segment_join_cpus(struct tb_segment_head *head)
{
    uint64_t set[TB_CPU_WORDS];

    tb_cpu_set(set);
    for (int i = 0; i < TB_CPU_WORDS; i++)
        atomic_fetch_or_explicit(&head->cpus[i], set[i], memory_order_relaxed);
    atomic_fetch_add_explicit(&head->present, 1, memory_order_release);
}

int tb_segment_cpus(const struct tb_segment_head *head)
{
    uint64_t set[TB_CPU_WORDS];

    for (int i = 0; i < TB_CPU_WORDS; i++)
        set[i] = atomic_load_explicit(&head->cpus[i], memory_order_relaxed);
    return tb_cpus_of(set);
}

/* ----------------------------------------------------------------- finding */

#define ANCESTORS_MOST 32

static tb_err map_segment(void **out, size_t *bytes, int fd, int ranks)
{
    const struct tb_segment_head *head;
    tb_err err = TB_OK;

    TB_TRY(tb_share_size(fd, bytes));
    if (*bytes < TB_SEGMENT_HEAD)
        return tb_fail(TB_ERR_PROTOCOL,
                       "descriptor %d (TBMPI_SHM_FD) is not a job's shared "
                       "memory",
                       fd);
    TB_TRY(tb_share_map(fd, *bytes, out));
    head = *out;
    if (head->magic != TB_SEGMENT_MAGIC)
        err = tb_fail(TB_ERR_PROTOCOL,
                      "descriptor %d (TBMPI_SHM_FD) is not a job's shared "
                      "memory of this version of tbmpi",
                      fd);
    else if (head->ranks != (uint32_t)ranks)
        err = tb_fail(TB_ERR_PROTOCOL,
                      "the job's shared memory is for %u ranks but the "
                      "launcher says %d",
                      (unsigned)head->ranks, ranks);
    if (err)
        tb_share_unmap(*out, *bytes);
    return err;
}

static tb_err map_an_ancestors(void **out, size_t *bytes, int wanted, int ranks)
{
    uint32_t pid = (uint32_t)getppid();
    tb_err err = TB_ERR_NOTSUP;

    for (int i = 0; err && pid > 1 && i < ANCESTORS_MOST; i++) {
        int fd;
        if (!tb_share_reopen(pid, wanted, &fd)) {
            err = map_segment(out, bytes, fd, ranks);
            close(fd);
        }
        pid = tb_process_parent(pid);
    }
    return err;
}

tb_err tb_segment_find(void **out, size_t *bytes, int fd, int ranks)
{
    bool closed = tb_share_size(fd, bytes) != TB_OK;

    if (!closed && !map_segment(out, bytes, fd, ranks))
        return TB_OK;
    if (!map_an_ancestors(out, bytes, fd, ranks))
        return TB_OK;
    if (!closed)
        return map_segment(out, bytes, fd, ranks);
    return tb_fail(TB_ERR_SYSTEM,
                   "the job's shared memory (descriptor %d, TBMPI_SHM_FD) is "
                   "closed: a script or program between tbmpirun and this one "
                   "closes inherited descriptors; start the program directly, "
                   "or let that wrapper leave them open (Python's subprocess: "
                   "close_fds=False)",
                   fd);
}
