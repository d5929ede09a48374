/* SPDX-License-Identifier: MIT */
#include "router/windows.h"

tb_err tb_windows_share(uint32_t size[TB_CLASSES],
                        const uint32_t spare[TB_CLASSES], int nodes,
                        uint32_t most)
{
    /* Of any pair packets may pass through any node; those it has made itself
     * too, for a moment, when ways change. */
    uint32_t pairs = (uint32_t)(nodes * (nodes - 1));

    for (int c = 0; c < TB_CLASSES; c++) {
        uint32_t tells = c == TB_SMALL ? TB_WINDOW_TELLS * pairs : 0;
        size[c] = pairs && spare[c] > tells ? (spare[c] - tells) / pairs : 0;
        if (!pairs)
            size[c] = 1;
        if (!size[c])
            return tb_fail(
                TB_ERR_NO_SPACE,
                "%u slots of %u KiB are left for packets in transit, "
                "and between %d nodes %u are needed; set TBMPI_POOL "
                "to more",
                (unsigned)spare[c],
                (unsigned)tb_class_frames((enum tb_class)c) * 4, nodes,
                (unsigned)(tells + pairs));
        if (most)
            size[c] = TB_MIN(size[c], most);
    }
    return TB_OK;
}

tb_err tb_windows_init(struct tb_windows *w, const struct tb_plan *plan)
{
    size_t places = (size_t)plan->node[plan->self].n;

    memset(w, 0, sizeof(*w));
    w->plan = plan;
    w->use = tb_calloc((size_t)plan->size, sizeof(*w->use));
    w->given = tb_calloc((size_t)plan->nodes * places, sizeof(*w->given));
    if (w->use && w->given)
        return TB_OK;
    tb_windows_fini(w);
    return tb_fail(TB_ERR_NO_MEM, "no memory for the windows");
}

void tb_windows_fini(struct tb_windows *w)
{
    tb_free(w->use);
    tb_free(w->given);
    w->use = NULL;
    w->given = NULL;
}

bool tb_window_take(struct tb_windows *w, int dest, enum tb_class class)
{
    uint32_t *used = &w->used[w->plan->node_of[dest]][class];
    uint32_t left = w->size[class] - *used;

    if (w->use[dest].used[class] >= left)
        return false;
    w->use[dest].used[class]++;
    ++*used;
    return true;
}

bool tb_window_back(struct tb_windows *w, int dest, enum tb_class class,
                    uint32_t ever)
{
    struct tb_window_use *use = &w->use[dest];
    uint32_t n = ever - use->back[class];

    if ((int32_t)n < 0)
        return true; /* on a new way a later message was quicker */
    if (n > use->used[class])
        return false;
    use->back[class] = ever;
    use->used[class] -= n;
    w->used[w->plan->node_of[dest]][class] -= n;
    return true;
}

bool tb_window_given(struct tb_windows *w, int src, int place,
                     enum tb_class class)
{
    int places = w->plan->node[w->plan->self].n;

    w->given[src * places + place][class]++;
    return ++w->untold[src][class] >= (w->size[class] + 3) / 4;
}

int tb_window_tell(struct tb_windows *w, int src,
                   const uint32_t (**given)[TB_CLASSES])
{
    int places = w->plan->node[w->plan->self].n;

    memset(w->untold[src], 0, sizeof(w->untold[src]));
    *given = (const uint32_t(*)[TB_CLASSES])(w->given + src * places);
    return places;
}
