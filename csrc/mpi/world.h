/* SPDX-License-Identifier: MIT */
/*
 * The process as an MPI process: the library's only globals, start and end.
 */
#ifndef TB_WORLD_H
#define TB_WORLD_H

#include "mpi/objects.h"

enum tb_phase { TB_BEFORE_INIT, TB_RUNNING, TB_AFTER_FINALIZE };

struct tb_world {
    bool ready; /* between Init and Finalize, or while a session is open: the
                   hot test */
    _Atomic bool threaded; /* MPI_THREAD_MULTIPLE was granted */
    enum tb_phase phase; /* of MPI_Init and MPI_Finalize; sessions have none */
    int thread_level;
    /* This rank's note on the job board; never NULL. */
    _Atomic(struct tb_note *) note;
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

/*
 * The library is up while it has users: the program between MPI_Init and
 * MPI_Finalize, and each open session. The first to join starts it, for one
 * thread or for many; that stays so for its life. Sessions come and go, so that
 * after them the library rests until the next one or the process's end; when
 * there never was one it ends with MPI_Finalize. Both may be called by several
 * threads at once; join blocks until the library is up.
 */
tb_err tb_world_join(bool threaded, bool session);
void tb_world_leave(void);
/* Reads the settings into tb_world.config, unless that was done: the start does
 * it at the latest. */
tb_err tb_world_settings(void);

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
