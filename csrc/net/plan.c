/* SPDX-License-Identifier: MIT */
/* Reads the plan of a job, and believes none of it unchecked. */
#include "net/plan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE_MOST 65535 /* struct tb_hop: ranks and routers */
#define FD_MOST 1048576
#define CROWD_MOST 1048576
#define WORD_BYTES 128

/* Where in the text the reader stands. */
struct reader {
    const char *at, *end; /* of the rest of the text */
    const char *line_end; /* of the present line */
    int line;             /* its number, from 1 */
    struct tb_plan *plan;
    int nodes, ranks; /* read so far */
};

static void say_bad(const struct reader *r, const char *fmt, ...)
    TB_PRINTF(2, 3);

static void say_bad(const struct reader *r, const char *fmt, ...)
{
    char why[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    tb_fail_say("line %d of the job's plan (TBMPI_PLAN_FD): %s", r->line, why);
}

/* A macro, as tb_fail is. */
#define bad(r, ...) (say_bad(r, __VA_ARGS__), TB_ERR_PROTOCOL)

/* ------------------------------------------------------------------- words */

/* The next word of the line; false at its end. Words are separated by single
 * blanks, so that an empty one is an error and not overlooked. */
static bool next_word(struct reader *r, char *out, size_t room)
{
    const char *from = r->at;
    size_t n;

    if (from >= r->line_end)
        return false;
    if (*from == ' ')
        from++;
    for (n = 0; from + n < r->line_end && from[n] != ' '; n++)
        continue;
    if (n >= room)
        n = room - 1;
    memcpy(out, from, n);
    out[n] = 0;
    while (from + n < r->line_end && from[n] != ' ')
        n++;
    r->at = from + n;
    return true;
}

static tb_err need_word(struct reader *r, const char *what, char *out,
                        size_t room)
{
    char word[WORD_BYTES];

    if (!next_word(r, word, sizeof(word)) || !word[0])
        return bad(r, "%s is missing", what);
    if (strlen(word) >= room)
        return bad(r, "%s \"%.20s…\" has more than %zu characters", what, word,
                   room - 1);
    memcpy(out, word, strlen(word) + 1);
    return TB_OK;
}

static tb_err to_number(struct reader *r, const char *what, const char *word,
                        int least, int most, int *out)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end || errno)
        return bad(r, "%s \"%.40s\" is no number", what, word);
    if (n < least || n > most)
        return bad(r, "%s %ld is not between %d and %d", what, n, least, most);
    *out = (int)n;
    return TB_OK;
}

static tb_err need_number(struct reader *r, const char *what, int least,
                          int most, int *out)
{
    char word[WORD_BYTES];

    TB_TRY(need_word(r, what, word, sizeof(word)));
    return to_number(r, what, word, least, most, out);
}

static tb_err need_end(struct reader *r)
{
    char word[WORD_BYTES];

    if (!next_word(r, word, sizeof(word)))
        return TB_OK;
    return bad(r, "\"%.40s\" is one word too many", word);
}

/* Goes to the next line; false after the last one. */
static bool next_line(struct reader *r)
{
    if (r->line > 0)
        r->at = r->line_end + 1;
    if (r->at >= r->end)
        return false;
    r->line++;
    r->line_end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!r->line_end)
        r->line_end = r->end;
    return true;
}

/* ------------------------------------------------------------------- lines */

static tb_err read_job(struct reader *r)
{
    char *job = r->plan->job;

    TB_TRY(need_word(r, "the job's name", job, sizeof(r->plan->job)));
    if (strlen(job) != 32 || strspn(job, "0123456789abcdef") != 32)
        return bad(r, "the job's name is not 32 hexadecimal digits");
    return TB_OK;
}

static tb_err read_owner(struct reader *r)
{
    char word[WORD_BYTES];

    TB_TRY(need_word(r, "the owner", word, sizeof(word)));
    r->plan->owner_rank = !strcmp(word, "rank");
    r->plan->sockets = !strcmp(word, "none");
    if (!r->plan->owner_rank && !r->plan->sockets &&
        strcmp(word, "router") != 0)
        return bad(r, "the owner is \"%.20s\", not router, rank or none", word);
    return TB_OK;
}

static tb_err read_ranks(struct reader *r, int node)
{
    struct tb_plan_node *n = &r->plan->node[node];
    char word[WORD_BYTES];

    n->ranks = tb_calloc((size_t)r->plan->size, sizeof(*n->ranks));
    if (!n->ranks)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the job's plan");
    while (next_word(r, word, sizeof(word))) {
        int rank;
        TB_TRY(to_number(r, "rank", word, 0, r->plan->size - 1, &rank));
        if (n->n && n->ranks[n->n - 1] >= rank)
            return bad(r, "rank %d is not above the one before it", rank);
        if (r->plan->node_of[rank] >= 0)
            return bad(r, "rank %d is on node %d already", rank,
                       r->plan->node_of[rank]);
        r->plan->node_of[rank] = node;
        n->ranks[n->n++] = rank;
    }
    if (r->plan->owner_rank && n->n != 1)
        return bad(r, "the ranks own the verbs, but node %d has %d of them",
                   node, n->n);
    r->ranks += n->n;
    return TB_OK;
}

static tb_err read_node(struct reader *r)
{
    int k;

    TB_TRY(need_number(r, "node", 0, r->plan->nodes - 1, &k));
    if (k != r->nodes)
        return bad(r, "node %d stands where node %d belongs", k, r->nodes);
    r->nodes++;
    TB_TRY(need_word(r, "the node's name", r->plan->node[k].name,
                     TB_PLAN_NAME_BYTES));
    return read_ranks(r, k);
}

static tb_err read_side(struct reader *r, struct tb_plan_cable *c, int side)
{
    char gid[WORD_BYTES];
    static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

    TB_TRY(need_number(r, "node", 0, r->plan->nodes - 1, &c->node[side]));
    TB_TRY(
        need_word(r, "the device", c->device[side], sizeof(c->device[side])));
    TB_TRY(need_word(r, "the gid", gid, sizeof(gid)));
    if (inet_pton(AF_INET6, gid, c->gid[side]) != 1 ||
        memcmp(c->gid[side], mapped, sizeof(mapped)) != 0)
        return bad(r, "gid \"%.40s\" is not like ::ffff:169.254.1.2", gid);
    return TB_OK;
}

static tb_err read_cable(struct reader *r)
{
    struct tb_plan *p = r->plan;
    struct tb_plan_cable *c;
    int id;

    TB_TRY(need_number(r, "cable", 0, TB_PLAN_CABLES_MOST - 1, &id));
    if (id != p->cables)
        return bad(r, "cable %d stands where cable %d belongs", id, p->cables);
    c = &p->cable[id];
    c->wire = -1;
    TB_TRY(read_side(r, c, 0));
    TB_TRY(read_side(r, c, 1));
    if (c->node[0] == c->node[1])
        return bad(r, "cable %d joins node %d with itself", id, c->node[0]);
    p->cables++;
    return TB_OK;
}

static tb_err read_wire(struct reader *r)
{
    struct tb_plan *p = r->plan;
    struct tb_plan_cable *c;
    int id;

    TB_TRY(need_number(r, "cable", 0, p->cables - 1, &id));
    c = &p->cable[id];
    if (c->node[0] != p->self && c->node[1] != p->self)
        return bad(r, "cable %d does not end at this node", id);
    if (c->wire >= 0)
        return bad(r, "cable %d has a wire already", id);
    return need_number(r, "descriptor", 0, FD_MOST, &c->wire);
}

static tb_err read_mgmt(struct reader *r)
{
    struct tb_plan *p = r->plan;
    int node;

    TB_TRY(need_number(r, "node", 0, p->nodes - 1, &node));
    if (node == p->self || p->node[node].mgmt >= 0)
        return bad(r, "node %d needs no (other) connection", node);
    return need_number(r, "descriptor", 0, FD_MOST, &p->node[node].mgmt);
}

static tb_err read_agent(struct reader *r)
{
    if (r->plan->agent >= 0)
        return bad(r, "there is an agent already");
    return need_number(r, "descriptor", 0, FD_MOST, &r->plan->agent);
}

static tb_err read_size(struct reader *r)
{
    struct tb_plan *p = r->plan;

    TB_TRY(need_number(r, "size", 1, SIZE_MOST - TB_NODES_MOST, &p->size));
    p->node_of = tb_alloc((size_t)p->size * sizeof(*p->node_of));
    p->link = tb_alloc((size_t)p->size * sizeof(*p->link));
    p->bell = tb_alloc((size_t)p->size * sizeof(*p->bell));
    if (!p->node_of || !p->link || !p->bell)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the job's plan");
    for (int i = 0; i < p->size; i++)
        p->node_of[i] = p->link[i] = p->bell[i] = -1;
    return TB_OK;
}

/* `here`: of a rank of this node; else of one of another. */
static tb_err read_socket(struct reader *r, int *by_rank, bool here)
{
    const struct tb_plan *p = r->plan;
    int rank;

    TB_TRY(need_number(r, "rank", 0, p->size - 1, &rank));
    if (!p->sockets)
        return bad(r, "it has an owner of verbs, so there are no sockets");
    if (by_rank[rank] >= 0 || (p->node_of[rank] == p->self) != here)
        return bad(r, "rank %d needs no (other) one", rank);
    return need_number(r, "descriptor", 0, FD_MOST, &by_rank[rank]);
}

static tb_err read_relay(struct reader *r)
{
    if (r->plan->relay >= 0)
        return bad(r, "there is a relay already");
    return need_number(r, "descriptor", 0, FD_MOST, &r->plan->relay);
}

static tb_err read_link(struct reader *r)
{
    return read_socket(r, r->plan->link, false);
}

static tb_err read_bell(struct reader *r)
{
    return read_socket(r, r->plan->bell, true);
}

static tb_err read_ear(struct reader *r)
{
    return need_number(r, "descriptor", 0, FD_MOST, &r->plan->ear);
}

static tb_err read_version(struct reader *r)
{
    int version;

    TB_TRY(need_number(r, "version", 0, 1000000, &version));
    if (version != TB_PLAN_VERSION)
        return bad(r,
                   "it has version %d, this build reads %d: launcher and "
                   "library must come from one tbmpi",
                   version, TB_PLAN_VERSION);
    return TB_OK;
}

static tb_err read_nodes(struct reader *r)
{
    return need_number(r, "nodes", 1, TB_NODES_MOST, &r->plan->nodes);
}

static tb_err read_self(struct reader *r)
{
    return need_number(r, "self", 0, r->plan->nodes - 1, &r->plan->self);
}

static tb_err read_crowd(struct reader *r)
{
    return need_number(r, "crowd", 1, CROWD_MOST, &r->plan->crowd);
}

/* The kinds of line in the order in which they come. */
static const struct kind {
    const char *name;
    tb_err (*read)(struct reader *r);
    int least; /* how many of them; the most is 1 or does not matter */
    bool many;
} kinds[] = {
    {"tbmpi-plan", read_version, 1, false}, {"job", read_job, 1, false},
    {"size", read_size, 1, false},          {"nodes", read_nodes, 1, false},
    {"self", read_self, 1, false},          {"owner", read_owner, 1, false},
    {"crowd", read_crowd, 0, false},        {"node", read_node, 1, true},
    {"cable", read_cable, 0, true},         {"wire", read_wire, 0, true},
    {"mgmt", read_mgmt, 0, true},           {"agent", read_agent, 0, false},
    {"relay", read_relay, 0, false},        {"link", read_link, 0, true},
    {"bell", read_bell, 0, true},           {"ear", read_ear, 0, false},
};

static bool is_over(const struct kind *k, int seen, const char *word)
{
    return strcmp(k->name, word) != 0 || (seen && !k->many);
}

static tb_err read_lines(struct reader *r)
{
    const struct kind *k = kinds, *end = kinds + TB_COUNT_OF(kinds);
    char word[WORD_BYTES] = "";
    int seen = 0;

    while (next_line(r)) {
        TB_TRY(need_word(r, "the line's first word", word, sizeof(word)));
        while (k < end && is_over(k, seen, word)) {
            if (seen < k->least)
                return bad(r, "\"%.40s\" where \"%s\" belongs", word, k->name);
            k++;
            seen = 0;
        }
        if (k == end)
            return bad(r, "\"%.40s\" does not belong here", word);
        TB_TRY(k->read(r));
        TB_TRY(need_end(r));
        seen++;
    }
    r->line++;
    for (; k < end; k++, seen = 0) {
        if (seen < k->least)
            return bad(r, "the text ends where \"%s\" belongs", k->name);
    }
    return TB_OK;
}

/* ------------------------------------------------------------------- whole */

static tb_err check_cables(const struct reader *r)
{
    const struct tb_plan *p = r->plan;
    int wires = 0, own = 0, mgmt = 0;

    for (int i = 0; i < p->cables; i++) {
        const struct tb_plan_cable *c = &p->cable[i];
        own += c->node[0] == p->self || c->node[1] == p->self;
        wires += c->wire >= 0;
    }
    for (int k = 0; k < p->nodes; k++)
        mgmt += p->node[k].mgmt >= 0;
    if (wires && wires != own)
        return bad(r, "%d of this node's %d cables have a wire", wires, own);
    if ((wires || mgmt) && mgmt != p->nodes - 1)
        return bad(r, "%d connections to %d other nodes", mgmt, p->nodes - 1);
    return TB_OK;
}

static tb_err check_sockets(const struct reader *r)
{
    const struct tb_plan *p = r->plan;
    int links = 0, bells = 0, here = p->node[p->self].n;

    for (int i = 0; i < p->size; i++) {
        links += p->link[i] >= 0;
        bells += p->bell[i] >= 0;
    }
    if (p->cables)
        return bad(r, "it has cables, but nobody owns the verbs");
    if (links != p->size - here)
        return bad(r, "%d links to %d ranks of other nodes", links,
                   p->size - here);
    if (bells != here || p->ear < 0)
        return bad(r, "%d bells of %d ranks, and %s ear", bells, here,
                   p->ear < 0 ? "no" : "an");
    return TB_OK;
}

static tb_err check_whole(struct reader *r)
{
    struct tb_plan *p = r->plan;

    if (r->nodes != p->nodes)
        return bad(r, "it says %d nodes and describes %d", p->nodes, r->nodes);
    if (r->ranks != p->size)
        return bad(r, "it says %d ranks and places %d", p->size, r->ranks);
    if (!p->crowd)
        p->crowd =
            TB_MAX(p->node[p->self].n + !(p->owner_rank || p->sockets), 1);
    return p->sockets ? check_sockets(r) : check_cables(r);
}

tb_err tb_plan_parse(struct tb_plan **out, const char *text, size_t bytes)
{
    struct reader r = {.at = text, .end = text + bytes};
    tb_err err = TB_OK;

    if (memchr(text, 0, bytes))
        return tb_fail(TB_ERR_PROTOCOL, "the job's plan is not a text");
    r.plan = tb_calloc(1, sizeof(*r.plan));
    if (r.plan)
        r.plan->cable = tb_calloc(TB_PLAN_CABLES_MOST, sizeof(*r.plan->cable));
    if (!r.plan || !r.plan->cable) {
        tb_plan_free(r.plan);
        return tb_fail(TB_ERR_NO_MEM, "no memory for the job's plan");
    }
    r.plan->agent = r.plan->relay = r.plan->ear = -1;
    for (int k = 0; k < TB_NODES_MOST; k++)
        r.plan->node[k].mgmt = -1;
    err = read_lines(&r);
    if (!err)
        err = check_whole(&r);
    if (err)
        tb_plan_free(r.plan);
    else
        *out = r.plan;
    return err;
}

/* The offset of a file may be shared with others who read it too. */
static ssize_t read_at(int fd, void *to, size_t room, size_t at)
{
    ssize_t n = pread(fd, to, room, (off_t)at);

    if (n < 0 && errno == ESPIPE)
        n = read(fd, to, room);
    return n;
}

static tb_err read_text(char *text, int fd, size_t *bytes)
{
    *bytes = 0;
    for (;;) {
        ssize_t n =
            read_at(fd, text + *bytes, TB_PLAN_BYTES_MOST + 1 - *bytes, *bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tb_fail_errno("cannot read the job's plan (descriptor %d, "
                                 "TBMPI_PLAN_FD)",
                                 fd);
        if (n == 0)
            return TB_OK;
        *bytes += (size_t)n;
        if (*bytes > TB_PLAN_BYTES_MOST)
            return tb_fail(TB_ERR_PROTOCOL,
                           "the job's plan (TBMPI_PLAN_FD) has more than %d "
                           "bytes",
                           TB_PLAN_BYTES_MOST);
    }
}

tb_err tb_plan_read(struct tb_plan **out, int fd)
{
    char *text = tb_alloc(TB_PLAN_BYTES_MOST + 1);
    size_t bytes;
    tb_err err;

    if (!text)
        return tb_fail(TB_ERR_NO_MEM, "no memory for the job's plan");
    err = read_text(text, fd, &bytes);
    if (!err)
        err = tb_plan_parse(out, text, bytes);
    tb_free(text);
    return err;
}

void tb_plan_free(struct tb_plan *plan)
{
    if (!plan)
        return;
    for (int k = 0; k < TB_NODES_MOST; k++)
        tb_free(plan->node[k].ranks);
    tb_free(plan->cable);
    tb_free(plan->node_of);
    tb_free(plan->link);
    tb_free(plan->bell);
    tb_free(plan);
}
