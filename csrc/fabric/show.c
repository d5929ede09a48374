/* SPDX-License-Identifier: MIT */
/* Showing a fabric. */
#include "fabric/show.h"

#include <arpa/inet.h>

/* How much of a device one process holds. */
struct held {
    uint32_t pds, cqs, qps, mrs;
};

static uint32_t total(const struct held *h)
{
    return h->pds + h->cqs + h->qps + h->mrs;
}

static uint32_t tell(const _Atomic uint32_t *word, int count, uint32_t owner)
{
    uint32_t n = 0;

    for (int i = 0; i < count; i++)
        n += word[i] == owner;
    return n;
}

static struct held held_by(const struct fab_device *d, uint32_t owner)
{
    struct held h = {tell(d->pd, FAB_PDS, owner), tell(d->cq, FAB_CQS, owner),
                     0, tell(d->mr, FAB_MRS, owner)};

    for (int i = 0; i < FAB_QPS; i++)
        h.qps += d->qp[i].owner == owner;
    return h;
}

struct sum {
    uint64_t sends, frames, bytes, lost, corrupted, delayed;
};

static void add_tally(struct sum *to, const struct fab_tally *from)
{
    to->sends += from->sends;
    to->frames += from->frames;
    to->bytes += from->bytes;
    to->lost += from->lost;
    to->corrupted += from->corrupted;
    to->delayed += from->delayed;
}

static struct sum sum_of(const struct fab_device *d)
{
    struct sum sum = {0};

    add_tally(&sum, &d->gone);
    for (int i = 0; i < FAB_QPS; i++)
        add_tally(&sum, &d->qp[i].tally);
    return sum;
}

static const char *state_name(uint32_t state)
{
    switch (state) {
    case TB_IBV_QPS_RESET:
        return "RESET";
    case TB_IBV_QPS_INIT:
        return "INIT";
    case TB_IBV_QPS_RTR:
        return "RTR";
    case TB_IBV_QPS_RTS:
        return "RTS";
    default:
        return "ERR";
    }
}

static const char *address_of(const struct fab_device *d, char *out)
{
    uint32_t ip = d->ip;

    if (!ip || !inet_ntop(AF_INET, &ip, out, INET_ADDRSTRLEN))
        return "";
    return out;
}

/* -------------------------------------------------------------- for people */

static uint32_t show_owners(const struct fab_state *s,
                            const struct fab_device *d, FILE *out)
{
    uint32_t things = 0;

    for (uint32_t owner = 1; owner <= FAB_PROCS; owner++) {
        struct held h;
        if (!s->proc[owner - 1].pid)
            continue;
        h = held_by(d, owner);
        if (!total(&h))
            continue;
        things += total(&h);
        fprintf(out, "  host %u %s: process %u %s %u QP, %u CQ, %u PD, %u MR\n",
                d->host, d->name, (unsigned)s->proc[owner - 1].pid,
                fab_leaked(s, owner) ? "is dead and has leaked" : "holds",
                h.qps, h.cqs, h.pds, h.mrs);
    }
    return things;
}

uint32_t fab_show_held(const struct fab_state *s, FILE *out)
{
    uint32_t things = 0;

    for (uint32_t i = 0; i < s->devices; i++)
        things += show_owners(s, &s->device[i], out);
    return things;
}

static void show_direction(const struct fab_state *s, uint32_t from, FILE *out)
{
    const struct fab_device *d = &s->device[from];
    const struct fab_device *to = &s->device[d->peer];
    struct sum sum = sum_of(d);
    char ip[INET_ADDRSTRLEN];

    fprintf(out,
            "  host %u %s %s (%s) to host %u: %llu sends, %llu bytes, %llu "
            "lost, %llu corrupted, %llu delayed\n",
            d->host, d->name, address_of(d, ip),
            fab_linked(s, d) ? "up" : "down", to->host,
            (unsigned long long)sum.sends, (unsigned long long)sum.bytes,
            (unsigned long long)sum.lost, (unsigned long long)sum.corrupted,
            (unsigned long long)sum.delayed);
}

/* What a cable has that the others have not. */
static void show_own(const struct fab_state *s, uint32_t cable, FILE *out)
{
    char value[64];

    for (int i = 0; i < FAB_WIRE_SWITCHES; i++) {
        uint64_t own = s->cable[cable].wire[i];
        if (own == s->sw[i])
            continue;
        fab_switch_print(i, own, value, sizeof(value));
        fprintf(out, ", %s %s", fab_switch_rows[i].name, value);
    }
}

void fab_show(const struct fab_state *s, FILE *out)
{
    char value[64];

    for (uint32_t i = 0; i < s->cables; i++) {
        fprintf(out, "cable %u %s", i, s->pulled[i] ? "pulled" : "plugged");
        show_own(s, i, out);
        fprintf(out, "\n");
        show_direction(s, s->cable[i].device[0], out);
        show_direction(s, s->cable[i].device[1], out);
    }
    fprintf(out, "held\n");
    if (!fab_show_held(s, out))
        fprintf(out, "  nothing\n");
    fprintf(out, "switches that are not at their defaults\n");
    for (int i = 0; i < FAB_SW_LIMIT; i++) {
        uint64_t def = 0;
        if (!fab_switch_parse(i, fab_switch_rows[i].def, &def) &&
            def == fab_sw(s, (enum fab_switch)i))
            continue;
        fab_switch_print(i, s->sw[i], value, sizeof(value));
        fprintf(out, "  %s %s\n", fab_switch_rows[i].name, value);
    }
}

void fab_show_switches(FILE *out)
{
    static const char *const kinds[] = {"number", "time", "GB/s", "share", ""};

    for (int i = 0; i < FAB_SW_LIMIT; i++) {
        const struct fab_switch_row *row = &fab_switch_rows[i];
        fprintf(out, "%-15s %-12s %s%s: %s\n", row->name, row->def,
                kinds[row->kind], row->words, row->help);
    }
}

/* ------------------------------------------------------------ for programs */

static void json_tally(const struct sum *t, FILE *out)
{
    fprintf(out,
            "{\"sends\": %llu, \"frames\": %llu, \"bytes\": %llu, "
            "\"lost\": %llu, \"corrupted\": %llu, \"delayed\": %llu}",
            (unsigned long long)t->sends, (unsigned long long)t->frames,
            (unsigned long long)t->bytes, (unsigned long long)t->lost,
            (unsigned long long)t->corrupted, (unsigned long long)t->delayed);
}

static void json_pairs(const struct fab_state *s, const struct fab_device *d,
                       FILE *out)
{
    const char *comma = "";

    for (int i = 0; i < FAB_QPS; i++) {
        const struct fab_qp *qp = &d->qp[i];
        uint32_t owner = qp->owner;
        if (!owner || owner > FAB_PROCS)
            continue;
        fprintf(out,
                "%s{\"number\": %u, \"pid\": %u, \"leaked\": %s, \"state\": "
                "\"%s\", \"dest\": %u, \"depth\": [%u, %u], \"sent\": %llu, "
                "\"receives\": %llu, \"matched\": %llu}",
                comma, qp->number, (unsigned)s->proc[owner - 1].pid,
                fab_leaked(s, owner) ? "true" : "false", state_name(qp->state),
                qp->dest, qp->depth_send, qp->depth_recv,
                (unsigned long long)qp->tail, (unsigned long long)qp->posted,
                (unsigned long long)qp->matched);
        comma = ", ";
    }
}

static void json_owners(const struct fab_state *s, const struct fab_device *d,
                        FILE *out)
{
    const char *comma = "";

    for (uint32_t owner = 1; owner <= FAB_PROCS; owner++) {
        struct held h;
        if (!s->proc[owner - 1].pid)
            continue;
        h = held_by(d, owner);
        if (!total(&h))
            continue;
        fprintf(out,
                "%s{\"pid\": %u, \"leaked\": %s, \"qps\": %u, \"cqs\": %u, "
                "\"pds\": %u, \"mrs\": %u}",
                comma, (unsigned)s->proc[owner - 1].pid,
                fab_leaked(s, owner) ? "true" : "false", h.qps, h.cqs, h.pds,
                h.mrs);
        comma = ", ";
    }
}

static void json_device(const struct fab_state *s, uint32_t i, FILE *out)
{
    const struct fab_device *d = &s->device[i];
    struct sum sum = sum_of(d);
    char ip[INET_ADDRSTRLEN];

    fprintf(out,
            "    {\"host\": %u, \"name\": \"%s\", \"cable\": %u, \"address\": "
            "\"%s\", \"gid_index\": %u, \"up\": %s,\n     \"sent\": ",
            d->host, d->name, d->cable, address_of(d, ip), d->gid_index,
            fab_linked(s, d) ? "true" : "false");
    json_tally(&sum, out);
    fprintf(out, ",\n     \"holders\": [");
    json_owners(s, d, out);
    fprintf(out, "],\n     \"queue_pairs\": [");
    json_pairs(s, d, out);
    fprintf(out, "]}%s\n", i + 1 < s->devices ? "," : "");
}

static void json_cable(const struct fab_state *s, uint32_t i, FILE *out)
{
    const char *comma = "";
    char value[64];

    fprintf(out, "    {\"pulled\": %s, \"devices\": [%u, %u], \"wire\": {",
            s->pulled[i] ? "true" : "false", s->cable[i].device[0],
            s->cable[i].device[1]);
    for (int k = 0; k < FAB_WIRE_SWITCHES; k++) {
        uint64_t own = s->cable[i].wire[k];
        if (own == s->sw[k])
            continue;
        fab_switch_print(k, own, value, sizeof(value));
        fprintf(out, "%s\"%s\": \"%s\"", comma, fab_switch_rows[k].name, value);
        comma = ", ";
    }
    fprintf(out, "}}%s\n", i + 1 < s->cables ? "," : "");
}

void fab_show_json(const struct fab_state *s, FILE *out)
{
    const char *comma = "";
    char value[64];

    fprintf(out, "{\n  \"hosts\": [");
    for (uint32_t i = 0; i < s->hosts; i++) {
        fprintf(out, "%s\"%s\"", comma, s->host[i].name);
        comma = ", ";
    }
    fprintf(out, "],\n  \"cables\": [\n");
    for (uint32_t i = 0; i < s->cables; i++)
        json_cable(s, i, out);
    fprintf(out, "  ],\n  \"devices\": [\n");
    for (uint32_t i = 0; i < s->devices; i++)
        json_device(s, i, out);
    fprintf(out, "  ],\n  \"switches\": {");
    for (int i = 0; i < FAB_SW_LIMIT; i++) {
        fab_switch_print(i, s->sw[i], value, sizeof(value));
        fprintf(out, "%s\"%s\": \"%s\"", i ? ", " : "", fab_switch_rows[i].name,
                value);
    }
    fprintf(out, "}\n}\n");
}
