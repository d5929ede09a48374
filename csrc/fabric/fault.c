/* SPDX-License-Identifier: MIT */
/* Faults, and whatever else changes a fabric while it is in use. */
#include "fabric/state.h"
#include "fabric/tbmpi_fabric.h"

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#define WORDS 8

const char fab_fault_help[] =
    "  set SWITCH VALUE [CABLE]          any switch; a wire's for one cable\n"
    "  drop SHARE [CABLE]                lose that share of the frames\n"
    "  corrupt SHARE [CABLE]             turn a bit in that share of them\n"
    "  delay SHARE TIME [CABLE]          make that share of messages late\n"
    "  pull CABLE [silent|segv]          take the cable out: posts do nothing, "
    "or fault\n"
    "  plug CABLE                        put it back\n"
    "  port HOST DEVICE up|down          the port, with the cable in\n"
    "  address HOST DEVICE IP|none [N]   its IPv4 address, at index N of its "
    "GIDs\n"
    "  stop HOST, cont HOST              SIGSTOP, SIGCONT for its processes\n"
    "  leak on|off [96|16|14]            killed processes leave what they "
    "held\n"
    "  reboot HOST                       and this returns it\n";

struct fault {
    struct fab_map *map;
    struct fab_state *s;
    int count;
    char *const *word; /* [0] is the fault's name */
};

/* ---------------------------------------------------------------- pieces */

static tb_err find_host(const struct fab_state *s, const char *text,
                        uint32_t *out)
{
    uint64_t host;

    for (uint32_t i = 0; i < s->hosts; i++) {
        if (s->host[i].name[0] && !strcmp(s->host[i].name, text)) {
            *out = i;
            return TB_OK;
        }
    }
    if (!fab_parse_count(text, FAB_HOSTS - 1, &host) || !s->host[host].name[0])
        return tb_fail(TB_ERR_ARG, "there is no host '%.40s'", text);
    *out = (uint32_t)host;
    return TB_OK;
}

static tb_err find_device(struct fab_state *s, char *const *word,
                          struct fab_device **out)
{
    uint32_t host;

    TB_TRY(find_host(s, word[0], &host));
    for (uint32_t i = 0; i < s->devices; i++) {
        struct fab_device *d = &s->device[i];
        if (d->host == host && !strcmp(d->name, word[1])) {
            *out = d;
            return TB_OK;
        }
    }
    return tb_fail(TB_ERR_ARG, "host %.40s has no device '%.40s'", word[0],
                   word[1]);
}

/* The cable that word `at` names, if there is that word; else *out = -1. */
static tb_err cable_at(const struct fault *f, int at, int *out)
{
    *out = -1;
    return f->count > at ? fab_find_cable(f->s, f->word[at], out) : TB_OK;
}

/* ---------------------------------------------------------------- faults */

static tb_err do_set(const struct fault *f)
{
    int cable;

    TB_TRY(cable_at(f, 3, &cable));
    return fab_set(f->s, f->word[1], f->word[2], cable);
}

static tb_err do_drop(const struct fault *f)
{
    int cable;

    TB_TRY(cable_at(f, 2, &cable));
    return fab_set(f->s, "loss", f->word[1], cable);
}

static tb_err do_corrupt(const struct fault *f)
{
    int cable;

    TB_TRY(cable_at(f, 2, &cable));
    return fab_set(f->s, "corrupt", f->word[1], cable);
}

static tb_err do_delay(const struct fault *f)
{
    uint64_t ignored;
    int cable;

    TB_TRY(cable_at(f, 3, &cable));
    TB_TRY(fab_switch_parse(FAB_SW_delays, f->word[1], &ignored));
    TB_TRY(fab_set(f->s, "delay", f->word[2], cable));
    return fab_set(f->s, "delays", f->word[1], cable);
}

static tb_err do_pull(const struct fault *f)
{
    struct fab_cable *cable;
    uint32_t mode = FAB_PULL_SILENT;
    int number;

    TB_TRY(cable_at(f, 1, &number));
    if (f->count > 2) {
        if (!strcmp(f->word[2], "segv"))
            mode = FAB_PULL_SEGV;
        else if (strcmp(f->word[2], "silent"))
            return tb_fail(TB_ERR_ARG,
                           "a cable is pulled silent or segv, not '%.40s'",
                           f->word[2]);
    }
    cable = &f->s->cable[number];
    cable->mode = mode;
    f->s->pulled[number] = 1;
    cable->plugs++;
    return TB_OK;
}

static tb_err do_plug(const struct fault *f)
{
    int number;

    TB_TRY(cable_at(f, 1, &number));
    f->s->pulled[number] = 0;
    return TB_OK;
}

static tb_err do_port(const struct fault *f)
{
    bool up = !strcmp(f->word[3], "up");
    struct fab_device *d;

    TB_TRY(find_device(f->s, f->word + 1, &d));
    if (!up && strcmp(f->word[3], "down"))
        return tb_fail(TB_ERR_ARG, "a port is up or down, not '%.40s'",
                       f->word[3]);
    if (!up)
        f->s->cable[d->cable].plugs++;
    d->up = up;
    return TB_OK;
}

static tb_err do_address(const struct fault *f)
{
    struct fab_device *d;
    uint64_t index;
    uint32_t ip = 0;

    TB_TRY(find_device(f->s, f->word + 1, &d));
    index = d->gid_index;
    if (strcmp(f->word[3], "none") && !fab_parse_ip(f->word[3], &ip))
        return tb_fail(TB_ERR_ARG,
                       "'%.40s' is neither an IPv4 address nor "
                       "'none'",
                       f->word[3]);
    if (f->count > 4)
        TB_TRY(fab_switch_parse(FAB_SW_gid_index, f->word[4], &index));
    d->gid_index = (uint32_t)TB_MIN(index, 15);
    d->ip = ip;
    return TB_OK;
}

static tb_err signal_host(const struct fault *f, int signum)
{
    uint32_t host;

    TB_TRY(find_host(f->s, f->word[1], &host));
    fab_reap(f->map);
    for (int i = 0; i < FAB_PROCS; i++) {
        const struct fab_proc *p = &f->s->proc[i];
        if (p->pid && !p->dead && p->pid != (uint32_t)getpid() &&
            p->hosts >> host & 1)
            kill((pid_t)p->pid, signum);
    }
    return TB_OK;
}

static tb_err do_stop(const struct fault *f)
{
    return signal_host(f, SIGSTOP);
}

static tb_err do_cont(const struct fault *f)
{
    return signal_host(f, SIGCONT);
}

static tb_err do_leak(const struct fault *f)
{
    uint64_t code = 96;

    if (f->count > 2 && (!fab_parse_count(f->word[2], 255, &code) ||
                         (code != 96 && code != 16 && code != 14)))
        return tb_fail(TB_ERR_ARG,
                       "leaks make RTR fail with 96, 16 or 14, "
                       "not '%.40s'",
                       f->word[2]);
    TB_TRY(fab_set(f->s, "leak", f->word[1], -1));
    if (f->count > 2)
        f->s->sw[FAB_SW_leak_errno] = code;
    return TB_OK;
}

static tb_err do_reboot(const struct fault *f)
{
    uint32_t host;

    TB_TRY(find_host(f->s, f->word[1], &host));
    fab_reap(f->map);
    for (int i = 0; i < FAB_PROCS; i++) {
        const struct fab_proc *p = &f->s->proc[i];
        if (p->pid && !p->dead && p->hosts >> host & 1)
            return tb_fail(TB_ERR_ARG,
                           "host %.40s is in use by process %u: end that first",
                           f->word[1], (unsigned)p->pid);
    }
    fab_forget_leaks(f->s, host);
    return TB_OK;
}

/* ------------------------------------------------------------------ entry */

static const struct {
    const char *name;
    int least, most; /* words, with the name */
    tb_err (*run)(const struct fault *f);
} faults[] = {
    {"set", 3, 4, do_set},         {"drop", 2, 3, do_drop},
    {"corrupt", 2, 3, do_corrupt}, {"delay", 3, 4, do_delay},
    {"pull", 2, 3, do_pull},       {"plug", 2, 2, do_plug},
    {"port", 4, 4, do_port},       {"address", 4, 5, do_address},
    {"stop", 2, 2, do_stop},       {"cont", 2, 2, do_cont},
    {"leak", 2, 3, do_leak},       {"reboot", 2, 2, do_reboot},
};

static tb_err run_locked(struct fault *f, size_t which)
{
    tb_err err;

    TB_TRY(fab_lock(f->map));
    err = faults[which].run(f);
    fab_unlock(f->map);
    return err;
}

tb_err fab_fault(const char *path, int count, char *const *words)
{
    struct fault f = {.count = count, .word = words};
    tb_err err;

    for (size_t i = 0; count && i < TB_COUNT_OF(faults); i++) {
        if (strcmp(words[0], faults[i].name))
            continue;
        if (count < faults[i].least || count > faults[i].most)
            return tb_fail(TB_ERR_ARG,
                           "wrong number of words; the forms are:\n%s",
                           fab_fault_help);
        TB_TRY(fab_attach(path, &f.map));
        f.s = f.map->s;
        err = run_locked(&f, i);
        fab_release(f.map);
        return err;
    }
    return tb_fail(TB_ERR_ARG, "'%.40s' is no fault; there are:\n%s",
                   count ? words[0] : "", fab_fault_help);
}

/* --------------------------------------------------------- exported calls */

static int answer(tb_err err, char *why, size_t room)
{
    if (err && room)
        snprintf(why, room, "%s", tb_fail_note());
    return err ? -1 : 0;
}

__attribute__((visibility("default"))) int
tbmpi_fabric_create(const char *path, const char *description, char *why,
                    size_t room)
{
    return answer(fab_create(path, description), why, room);
}

__attribute__((visibility("default"))) int
tbmpi_fabric_fault(const char *path, const char *what, char *why, size_t room)
{
    char text[256], *word[WORDS], *rest = NULL;
    int count = 0;

    snprintf(text, sizeof(text), "%s", what);
    for (char *p = strtok_r(text, " ", &rest); p && count < WORDS;
         p = strtok_r(NULL, " ", &rest))
        word[count++] = p;
    return answer(fab_fault(path, count, word), why, room);
}

__attribute__((visibility("default"))) int tbmpi_fabric_pulled(const char *path,
                                                               int cable)
{
    struct fab_map *map;
    int pulled = -1;

    if (fab_attach(path, &map))
        return -1;
    if (cable >= 0 && (uint32_t)cable < map->s->cables)
        pulled = map->s->pulled[cable];
    fab_release(map);
    return pulled;
}
