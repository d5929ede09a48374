/* SPDX-License-Identifier: MIT */
/* Categories: a list of chapters under one heading. They never change. */
#include "mpi/tool.h"

static const struct category {
    const char *name, *desc;
} categories[TB_TOOL_CATEGORIES] = {
    [TB_TOOL_ALL] = {"tbmpi", "all settings and counters"},
    [TB_TOOL_START] = {"start", "how a process starts and what it says"},
    [TB_TOOL_PROTOCOLS] = {"protocols", "how messages travel by their length"},
    [TB_TOOL_THUNDERBOLT] = {"thunderbolt",
                             "cables, their devices, and routers"},
    [TB_TOOL_SOCKETS] = {"sockets", "messages where there is no cable"},
    [TB_TOOL_WAITING] = {"waiting", "when a wait polls, yields and sleeps"},
    [TB_TOOL_COLLECTIVES] = {"collectives", "collective operations"},
    [TB_TOOL_TRAFFIC] = {"traffic", "what was sent and received"},
    [TB_TOOL_QUEUES] = {"queues", "what waits at this moment"},
};

static bool is_index(int i)
{
    return i >= 0 && i < TB_TOOL_CATEGORIES;
}

static int parent_of(int i)
{
    return i == TB_TOOL_ALL ? -1 : TB_TOOL_ALL;
}

int tb_t_category_get_num(int *num_cat)
{
    TB_TOOL_READY();
    if (!num_cat)
        return MPI_T_ERR_INVALID;
    *num_cat = TB_TOOL_CATEGORIES;
    return MPI_SUCCESS;
}

int tb_t_category_get_index(const char *name, int *cat_index)
{
    TB_TOOL_READY();
    if (!name || !cat_index)
        return MPI_T_ERR_INVALID;
    for (int i = 0; i < TB_TOOL_CATEGORIES; i++)
        if (strcmp(name, categories[i].name) == 0) {
            *cat_index = i;
            return MPI_SUCCESS;
        }
    return MPI_T_ERR_INVALID_NAME;
}

int tb_t_category_get_info(int cat_index, char *name, int *name_len, char *desc,
                           int *desc_len, int *num_cvars, int *num_pvars,
                           int *num_categories)
{
    TB_TOOL_READY();
    if (!is_index(cat_index))
        return MPI_T_ERR_INVALID_INDEX;
    tb_tool_text(categories[cat_index].name, name, name_len);
    tb_tool_text(categories[cat_index].desc, desc, desc_len);
    tb_tool_put(num_cvars, tb_tool_list(tb_tool_cvar_category, tb_tool_cvars(),
                                        cat_index, 0, NULL));
    tb_tool_put(num_pvars, tb_tool_list(tb_tool_pvar_category, tb_tool_pvars(),
                                        cat_index, 0, NULL));
    tb_tool_put(num_categories, tb_tool_list(parent_of, TB_TOOL_CATEGORIES,
                                             cat_index, 0, NULL));
    return MPI_SUCCESS;
}

static int list(int (*category_of)(int i), int n, int cat_index, int len,
                int indices[])
{
    TB_TOOL_READY();
    if (!is_index(cat_index))
        return MPI_T_ERR_INVALID_INDEX;
    if (len < 0 || (len > 0 && !indices))
        return MPI_T_ERR_INVALID;
    tb_tool_list(category_of, n, cat_index, len, indices);
    return MPI_SUCCESS;
}

int tb_t_category_get_cvars(int cat_index, int len, int indices[])
{
    return list(tb_tool_cvar_category, tb_tool_cvars(), cat_index, len,
                indices);
}

int tb_t_category_get_pvars(int cat_index, int len, int indices[])
{
    return list(tb_tool_pvar_category, tb_tool_pvars(), cat_index, len,
                indices);
}

int tb_t_category_get_categories(int cat_index, int len, int indices[])
{
    return list(parent_of, TB_TOOL_CATEGORIES, cat_index, len, indices);
}

int tb_t_category_get_events(int cat_index, int len, int indices[])
{
    return list(NULL, 0, cat_index, len, indices);
}

int tb_t_category_get_num_events(int cat_index, int *num_events)
{
    TB_TOOL_READY();
    if (!is_index(cat_index))
        return MPI_T_ERR_INVALID_INDEX;
    tb_tool_put(num_events, 0);
    return MPI_SUCCESS;
}

int tb_t_category_changed(int *update_number)
{
    TB_TOOL_READY();
    if (!update_number)
        return MPI_T_ERR_INVALID;
    *update_number = 0;
    return MPI_SUCCESS;
}
