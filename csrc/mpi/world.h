/* SPDX-License-Identifier: MIT */
/*
 * The process as an MPI process: the library's only globals, start and end.
 */
#ifndef TB_WORLD_H
#define TB_WORLD_H

#include "mpi/objects.h"

enum tb_phase { TB_BEFORE_INIT, TB_RUNNING, TB_AFTER_FINALIZE };

struct tb_world {
    bool ready;    /* between Init and Finalize: the hot test */
    bool threaded; /* MPI_THREAD_MULTIPLE was granted */
    enum tb_phase phase;
    int thread_level;
    struct tb_note *note; /* this rank's note on the job board; never NULL */
    struct tb_engine *engine;
    struct tb_boot *boot;
    struct tb_config config;
    struct tb_comm *comm_world;
    struct tb_comm *comm_self;
    struct tb_buffer *buffer; /* of MPI_Buffer_attach; NULL: none */
};

extern struct tb_world tb_world;

/* Ends the job: notes the reason on the board, tells the launcher, exits.
 * `why` is for people, one line. Never returns. */
_Noreturn void tb_world_abort(int code, const char *why);

/* A peer's death is the launcher's to report and to answer by ending the job:
 * gives it two seconds for that. Returns when they are over, or at once when
 * there is no launcher. */
void tb_world_await_end(void);

/* The global lock; nothing unless threaded. Waiting releases it. */
static inline void tb_lock(void)
{
    if (TB_UNLIKELY(tb_world.threaded))
        tb_engine_lock(tb_world.engine);
}
static inline void tb_unlock(void)
{
    if (TB_UNLIKELY(tb_world.threaded))
        tb_engine_unlock(tb_world.engine);
}

#endif
