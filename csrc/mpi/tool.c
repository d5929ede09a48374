/* SPDX-License-Identifier: MIT */
/* The tool interface: its life, and what its files share. */
#include "mpi/tool.h"

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int users; /* calls of init_thread that are not finalised */

void tb_tool_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void tb_tool_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

bool tb_tool_ready(void)
{
    return atomic_load_explicit(&users, memory_order_relaxed) > 0;
}

void tb_tool_text(const char *text, char *out, int *length)
{
    if (!length)
        return;
    if (out && *length > 0)
        snprintf(out, (size_t)*length, "%s", text);
    *length = (int)strlen(text) + 1;
}

int tb_tool_list(int (*category_of)(int i), int n, int category, int len,
                 int indices[])
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (category_of(i) != category)
            continue;
        if (found < len && indices)
            indices[found] = i;
        found++;
    }
    return found;
}

/* Any level is granted. Settings that cannot be read are told by MPI_Init too,
 * with their names. */
int tb_t_init_thread(int required, int *provided)
{
    (void)required;
    if (!provided)
        return MPI_T_ERR_INVALID;
    if (tb_world_settings()) {
        tb_fail_clear();
        return MPI_T_ERR_CANNOT_INIT;
    }
    atomic_fetch_add_explicit(&users, 1, memory_order_relaxed);
    *provided = MPI_THREAD_MULTIPLE;
    return MPI_SUCCESS;
}

int tb_t_finalize(void)
{
    TB_TOOL_READY();
    if (atomic_fetch_sub_explicit(&users, 1, memory_order_relaxed) > 1)
        return MPI_SUCCESS;
    tb_tool_lock();
    tb_tool_cvar_end();
    tb_tool_pvar_end();
    tb_tool_unlock();
    return MPI_SUCCESS;
}
