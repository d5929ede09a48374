/* SPDX-License-Identifier: MIT */
/*
 * The tool interface (MPI 5.0, chapter 15), for its own files: tool.c has its
 * life and what all use, tool_cvar.c the settings as control variables,
 * tool_pvar.c the counters and queues as performance variables,
 * tool_category.c the order in which they are shown, tool_event.c events.
 *
 * Its functions return MPI codes, take no global lock and may be called by any
 * thread, before MPI_Init and after MPI_Finalize.
 */
#ifndef TB_TOOL_H
#define TB_TOOL_H

#include "mpi/api.h"
#include "mpi/world.h"

/* First in every function but MPI_T_init_thread. */
#define TB_TOOL_READY()                       \
    do {                                      \
        if (!tb_tool_ready())                 \
            return MPI_T_ERR_NOT_INITIALIZED; \
    } while (0)
bool tb_tool_ready(void);

/* Guards sessions and handles. */
void tb_tool_lock(void);
void tb_tool_unlock(void);

/*
 * Gives a text the way of this chapter: *length has the room, in characters
 * with the terminator, and gets what the whole text needs. Nothing is stored
 * without a length or room.
 */
void tb_tool_text(const char *text, char *out, int *length);

/* Stores a result that the caller may not want. */
static inline void tb_tool_put(int *out, int value)
{
    if (out)
        *out = value;
}

/* Up to `len` of the indices of those of `n` things that are in a category. */
int tb_tool_list(int (*category_of)(int i), int n, int category, int len,
                 int indices[]);

/* The categories, in their order. The first contains the others. */
enum tb_tool_category {
    TB_TOOL_ALL,
    TB_TOOL_START,
    TB_TOOL_PROTOCOLS,
    TB_TOOL_THUNDERBOLT,
    TB_TOOL_SOCKETS,
    TB_TOOL_WAITING,
    TB_TOOL_COLLECTIVES,
    TB_TOOL_TRAFFIC,
    TB_TOOL_QUEUES,
    TB_TOOL_CATEGORIES
};

/* tool_cvar.c, tool_pvar.c: how many there are, and where each belongs. */
int tb_tool_cvars(void);
int tb_tool_cvar_category(int i);
int tb_tool_pvars(void);
int tb_tool_pvar_category(int i);
/* Frees what the program has left when the interface ends. */
void tb_tool_cvar_end(void);
void tb_tool_pvar_end(void);

#endif
