/* SPDX-License-Identifier: MIT */
#include "net/routes.h"

/* Breadth first from `from`. */
static void measure(struct tb_routes *r, int from)
{
    int queue[TB_NODES_MOST], first = 0, last = 0;
    uint8_t *hops = r->hops[from];

    memset(hops, TB_HOPS_NONE, TB_NODES_MOST);
    hops[from] = 0;
    queue[last++] = from;
    while (first < last) {
        int at = queue[first++];
        for (int k = 0; k < r->nodes; k++) {
            if (r->joined[at][k] && hops[k] == TB_HOPS_NONE) {
                hops[k] = (uint8_t)(hops[at] + 1);
                queue[last++] = k;
            }
        }
    }
}

static void measure_all(struct tb_routes *r)
{
    for (int k = 0; k < r->nodes; k++)
        measure(r, k);
}

void tb_routes_init(struct tb_routes *r, const struct tb_plan *plan)
{
    memset(r, 0, sizeof(*r));
    r->nodes = plan->nodes;
    r->cables = plan->cables;
    for (int i = 0; i < r->cables; i++) {
        int a = plan->cable[i].node[0], b = plan->cable[i].node[1];
        r->end[i][0] = (uint8_t)a;
        r->end[i][1] = (uint8_t)b;
        r->joined[a][b]++;
        r->joined[b][a]++;
    }
    measure_all(r);
}

bool tb_routes_cut(struct tb_routes *r, int cable)
{
    int a = r->end[cable][0], b = r->end[cable][1];

    if (r->dead[cable])
        return false;
    r->dead[cable] = true;
    r->joined[a][b]--;
    r->joined[b][a]--;
    if (!r->joined[a][b])
        measure_all(r);
    return true;
}

int tb_routes_next(const struct tb_routes *r, int at, int src, int dst)
{
    int near[TB_NODES_MOST], n = 0, left = r->hops[at][dst] - 1;

    if (r->hops[at][dst] == TB_HOPS_NONE)
        return -1;
    for (int k = 0; k < r->nodes; k++) {
        if (r->joined[at][k] && r->hops[k][dst] == left)
            near[n++] = k;
    }
    return n ? near[(src + dst + (src > dst)) % n] : -1;
}

bool tb_routes_ring(const struct tb_routes *r, int *order)
{
    int last = 0, at = 0;

    for (int i = 0; i < r->nodes; i++) {
        int next = -1, degree = 0;
        for (int k = r->nodes; k-- > 0;) {
            if (!r->joined[at][k])
                continue;
            degree++;
            if (k != last || i == 0)
                next = k; /* of two, the smaller number stays */
        }
        if (degree != 2 || (i > 0 && at == 0))
            return false;
        order[i] = at;
        last = at;
        at = next;
    }
    return r->nodes > 2 && at == 0;
}
